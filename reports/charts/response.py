"""The chart of response curves: throughput over the latency of a part's device."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

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
            for (latency, value), name in _marks(one).items():
                axes.axvline(latency / 1000, color=FAINT, linewidth=0.6, linestyle=":")
                at = (latency / 1000, value)
                axes.annotate(f"  {name}", at, fontsize="x-small", rotation=50)
        _dress_x(axes, curves)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel("mean latency of the operation on the device, us")
        axes.set_ylabel(curves[0].unit)
        axes.legend(fontsize="small")
        heading_above(figure, _TITLE)
        return finish(figure, "curve", _TITLE, _alt(curves), _CAPTION)


def _marks(one: ResponseCurve) -> dict[tuple[float, float], str]:
    """Names of known models by their place; models at one place share a mark."""
    found: dict[tuple[float, float], str] = {}
    for name, place in one.models.items():
        found[place] = f"{found[place]}, {name}" if place in found else name
    return found


def _dress_x(axes: Axes, curves: Sequence[ResponseCurve]) -> None:
    """Logarithmic from the shortest latency on, linear from zero to it."""
    latencies = sorted({point.latency_ns / 1000 for one in curves for point in one.points})
    axes.set_xscale("symlog", linthresh=_shortest(curves), linscale=0.5)
    axes.set_xlim(0, latencies[-1] * 1.3)
    axes.xaxis.set_major_locator(FixedLocator(latencies))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))


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
