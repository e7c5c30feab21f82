"""The chart of response curves: throughput over the latency of a part's device."""

from __future__ import annotations

from collections.abc import Sequence

from reports.charts.drawing import (
    ARM_COLOURS,
    FAINT,
    MARKERS,
    Drawing,
    finish,
    heading_above,
    new_grid,
    style,
)
from reports.formatting import quantity_text
from reports.response import ResponseCurve

_WIDE_IN, _HIGH_IN = 7.0, 4.2
_TITLE = "Throughput over the latency of a part's device (MODELLED)"
_CAPTION = (
    "Filled: a tier whose file operations take a modelled device's time, all else as today. Star: "
    "today's device, measured. Thin lines: known models. Bars: intervals."
)


def draw_curves(curves: Sequence[ResponseCurve]) -> Drawing:
    """Draw every curve in one pair of axes, with today's device and the known models."""
    with style():
        figure, (axes,) = new_grid(1, _WIDE_IN, _HIGH_IN)
        for index, one in enumerate(curves):
            colour = ARM_COLOURS[index % len(ARM_COLOURS)]
            latencies = [point.latency_ns / 1000 for point in one.points]
            values = [point.throughput.value for point in one.points]
            lows = [v - (p.throughput.low or v) for v, p in zip(values, one.points, strict=True)]
            highs = [(p.throughput.high or v) - v for v, p in zip(values, one.points, strict=True)]
            axes.errorbar(
                latencies,
                values,
                yerr=[lows, highs],
                color=colour,
                marker=MARKERS[index % len(MARKERS)],
                capsize=2,
                label=f"{one.part} ({one.operation})",
            )
            today = (one.today.latency_ns / 1000, one.today.throughput.value)
            axes.plot(*today, marker="*", ms=13, color=colour, linestyle="none")
            for name, (latency, value) in one.models.items():
                axes.axvline(latency / 1000, color=FAINT, linewidth=0.6, linestyle=":")
                axes.annotate(name, (latency / 1000, value), fontsize="x-small", rotation=60)
        axes.set_xscale("symlog", linthresh=max(1.0, _shortest(curves)))
        axes.set_ylim(bottom=0)
        axes.set_xlabel("mean latency of the operation on the device, us")
        axes.set_ylabel(curves[0].unit)
        axes.legend(fontsize="small")
        heading_above(figure, _TITLE)
        return finish(figure, "curve", _TITLE, _alt(curves), _CAPTION)


def _shortest(curves: Sequence[ResponseCurve]) -> float:
    found = [p.latency_ns / 1000 for one in curves for p in one.points if p.latency_ns > 0]
    return min(found, default=1.0)


def _alt(curves: Sequence[ResponseCurve]) -> str:
    ends = [
        f"{one.part}: {quantity_text(one.points[0].throughput.value, '')} without latency, "
        f"{quantity_text(one.today.throughput.value, '')} today"
        for one in curves
    ]
    return f"Response curves in {curves[0].unit}. {'; '.join(ends)}."
