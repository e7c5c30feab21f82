"""The chart of response curves: throughput over the latency of a part's device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from reports.charts.drawing import (
    ARM_COLOURS,
    FAINT,
    MARKERS,
    finish,
    heading_above,
    new_grid,
    style,
)
from reports.formatting import quantity_text
from reports.response import ResponseCurve
from reports.sections import Drawing

_WIDE_IN, _HIGH_IN = 7.0, 4.2
_TITLE = "Throughput over the latency of a part's device (MODELLED)"
_CAPTION = (
    "Lines: tiers whose file operations take a modelled device's time, all else as today. Stars: "
    "today's device, measured. Dotted: known models. Bars: intervals."
)
_NAME_OF_MODEL: dict[str, Any] = {
    "fontsize": "x-small",
    "rotation": 90,
    "va": "bottom",
    "color": FAINT,
    "annotation_clip": False,
}


def draw_curves(curves: Sequence[ResponseCurve]) -> Drawing:
    """Draw every curve in one pair of axes, with today's device and the known models."""
    with style():
        figure, (axes,) = new_grid(1, _WIDE_IN, _HIGH_IN)
        for index, one in enumerate(curves):
            colour = ARM_COLOURS[index % len(ARM_COLOURS)]
            values = [point.throughput.value for point in one.points]
            lows = [v - (p.throughput.low or v) for v, p in zip(values, one.points, strict=True)]
            highs = [(p.throughput.high or v) - v for v, p in zip(values, one.points, strict=True)]
            axes.errorbar(
                [point.latency_ns for point in one.points],
                values,
                yerr=[lows, highs],
                color=colour,
                marker=MARKERS[index % len(MARKERS)],
                capsize=2,
                clip_on=False,
                label=f"{one.operation} of {one.part}",
            )
            today = (one.today.latency_ns, one.today.throughput.value)
            axes.plot(*today, marker="*", ms=13, color=colour, linestyle="none", clip_on=False)
        _dress_x(axes, curves)
        axes.set_ylim(bottom=0)
        for latency, name in _marks(curves).items():
            axes.axvline(latency, color=FAINT, linewidth=0.6, linestyle=":")
            axes.annotate(name, (latency, 0), (1, 3), textcoords="offset points", **_NAME_OF_MODEL)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel("mean latency of the operation on the device of the part")
        axes.set_ylabel(curves[0].unit)
        axes.legend(fontsize="small", loc="upper right")
        heading_above(figure, _TITLE)
        return finish(figure, "curve", _TITLE, _alt(curves), _CAPTION)


def _marks(curves: Sequence[ResponseCurve]) -> dict[float, str]:
    """Names of known models by their latency, of a single curve: those of several overlap."""
    found: dict[float, str] = {}
    for name, (latency, _) in curves[0].models.items() if len(curves) == 1 else ():
        found[latency] = f"{found[latency]}, {name}" if latency in found else name
    return found


def _dress_x(axes: Axes, curves: Sequence[ResponseCurve]) -> None:
    """Logarithmic from the shortest latency on, linear from zero to it."""
    latencies = sorted({point.latency_ns for one in curves for point in one.points})
    axes.set_xscale("symlog", linthresh=_shortest(curves), linscale=0.5)
    axes.set_xlim(0, latencies[-1] * 1.3)
    axes.xaxis.set_major_locator(FixedLocator(_ticks(curves)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity_text(value, "ns")))


def _ticks(curves: Sequence[ResponseCurve]) -> list[float]:
    """The latencies of the slowest part's curve: those of several would overlap."""
    longest = max(curves, key=lambda one: one.points[-1].latency_ns)
    return [point.latency_ns for point in longest.points]


def _shortest(curves: Sequence[ResponseCurve]) -> float:
    found = [p.latency_ns for one in curves for p in one.points if p.latency_ns > 0]
    return min(found, default=1.0)


def _alt(curves: Sequence[ResponseCurve]) -> str:
    ends = [
        f"{one.part}: {quantity_text(one.points[0].throughput.value, '')} without latency, "
        f"{quantity_text(one.today.throughput.value, '')} today"
        for one in curves
    ]
    return f"Response curves in {curves[0].unit}. {'; '.join(ends)}."
