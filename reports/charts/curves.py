"""Curves: results over a swept axis, several plots in one figure (VLDB 2023, Fig. 4 to 12)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MultipleLocator,
    NullFormatter,
    NullLocator,
)

from harness.load_search import LoadPoint
from harness.models.device import GROWN, SERVICES, DeviceModel
from harness.units import format_bytes
from reports.charts.drawing import (
    ACROSS,
    ARM_COLOURS,
    DASHES,
    FAINT,
    finish,
    heading_above,
    new_grid,
    style,
)
from reports.formatting import quantity_text, stand_in_mark
from reports.published import PublishedSeries, published_points
from reports.relations import RelationAnswer
from reports.response import PointOfCurve, ResponseCurve
from reports.run_configuration import marked
from reports.sections import Drawing
from reports.statistics import Value
from reports.sweeps import Sweep
from reports.values import Summary

_MARKERS = "osD^vPX*"
#: That make a line with the point of nothing moved.
_FEWEST_ARMS = 2
_MARK: dict[str, Any] = {"fontsize": "x-small", "rotation": 90, "va": "bottom", "color": FAINT}
#: As many lines of sweeps, whose colours and markers differ by the arm, can be distinguished.
_MOST_SWEPT = 12
#: More lines than these cannot be distinguished: the table has them.
MOST_LINES = 8
_EACH_IN, _HIGH_IN = 4.6, 3.0
#: An entry of a legend, and each line that it has more.
_LEGEND_IN, _LEGEND_LINE_IN = 0.2, 0.15
#: Letters across a legend, which may not be wider than its axes: they would give way to it.
_LEGEND_LETTERS = 54
#: What a legend's mark and its gaps take, in letters.
_MARK_LETTERS = 6
_MOST_TICKS = 6
#: Rates are long words.
_MOST_RATES = 4
#: Letters of the vertical axis' name in a line.
_Y_TITLE = 28
#: Letters of a title next to the labels of its axis.
_TITLE_PER_IN = 8.0


@dataclass(frozen=True)
class Curve:
    """One line: what x was, and what was measured there.

    ``hue``: lines with the same one have one colour in all plots of a figure; empty: the name.
    ``emulated``: hollow markers; ``published``: a paper's, with crosses on a dotted line;
    ``star``: a point apart, such as today's device.
    """

    name: str
    points: tuple[tuple[float, Summary], ...]
    hue: str = ""
    emulated: bool = False
    published: bool = False
    star: bool = False


@dataclass(frozen=True)
class Plot:
    """One pair of axes. ``x_unit``, ``unit``: as in run.json; ``x_log``: to the base 2.

    ``log``: a logarithmic axis of values, else one from zero. ``linear_to``: the horizontal axis is
    linear up to there, then logarithmic. ``marks``: names of places on it. ``limit``: a value that
    is drawn as a line, with its name.
    """

    title: str
    x_title: str
    x_unit: str
    y_title: str
    unit: str
    curves: tuple[Curve, ...]
    x_log: bool = True
    log: bool = False
    linear_to: float = 0.0
    marks: Mapping[float, str] = field(default_factory=dict)
    limit: tuple[float, str] | None = None


def draw(
    name: str,
    title: str,
    plots: Sequence[Plot],
    emulated: Sequence[str] = (),
    caption: str = "",
) -> Drawing:
    """All plots in one figure, two in a row. ``emulated``: the stand-ins that all of it is of."""
    with style():
        figure, places = new_grid(len(plots), _EACH_IN, _HIGH_IN)
        hues = dict.fromkeys(curve.hue or curve.name for plot in plots for curve in plot.curves)
        colours = {hue: ARM_COLOURS[place % len(ARM_COLOURS)] for place, hue in enumerate(hues)}
        labelled: list[list[str]] = []
        for plot, axes in zip(plots, places, strict=True):
            _draw_plot(axes, plot, colours, bool(emulated))
            names = [curve.name for curve in plot.curves]
            if names not in labelled and names != [""]:
                _legend(axes, plot)
                labelled.append(names)
            if plot.title != title:
                # Above its axes, in lines that end before the neighbour's begin.
                lines = wrap(plot.title, int(_EACH_IN * _TITLE_PER_IN), break_on_hyphens=False)
                axes.set_title("\n".join(lines), fontsize="medium", loc="left")
        heading_above(figure, marked(title, emulated, unknown=False))
        down = -(-len(plots) // ACROSS)
        figure.set_figheight(figure.get_figheight() + down * max(map(_legend_in, plots)))
        return finish(figure, name, title, _alt(plots), caption or _CAPTION)


_CAPTION = (
    "Medians of the repeats, bars are their range. Hollow markers are stand-ins. Crosses on dotted "
    "lines are a paper's: another machine, another size."
)


def _alt(plots: Sequence[Plot]) -> str:
    """Both ends of every curve."""
    ends = []
    for plot in plots:
        for curve in plot.curves:
            name = ", ".join(filter(None, (plot.title, curve.name)))
            values = (
                f"{quantity_text(summary.median, plot.unit)} at {x_text(x, plot.x_unit)}"
                for x, summary in (curve.points[0], curve.points[-1])
            )
            ends.append(f"{name}: {', '.join(values)}")
    return f"Curves. {'; '.join(ends)}."


def _draw_plot(axes: Axes, plot: Plot, colours: Mapping[str, str], emulated: bool) -> None:
    for index, curve in enumerate(plot.curves):
        summaries = [summary for _, summary in curve.points]
        colour = colours[curve.hue or curve.name]
        axes.errorbar(
            [x for x, _ in curve.points],
            [s.median for s in summaries],
            yerr=[[s.median - s.low for s in summaries], [s.high - s.median for s in summaries]],
            color=colour,
            linestyle=":" if curve.published else DASHES[index % len(DASHES)],
            marker=_marker(curve, index),
            mfc="white" if emulated or curve.emulated else colour,
            ms=13 if curve.star else 4.5,
            linewidth=1.3,
            elinewidth=0.8,
            capsize=2,
            clip_on=plot.log,
            label="\n".join(_legend_lines(curve.name)),
        )
    for x, name in plot.marks.items():
        axes.axvline(x, color=FAINT, linewidth=0.6, linestyle=":")
        axes.annotate(name, (x, 0), (1, 3), textcoords="offset points", **_MARK)
    if plot.limit is not None:
        axes.axhline(plot.limit[0], color=FAINT, linewidth=0.9, linestyle="--")
        at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate(plot.limit[1], (0, plot.limit[0]), (3, 3), fontsize="x-small", **at)
    _dress_x(axes, plot)
    axes.set_xlabel(plot.x_title + (", log axis" if plot.x_log else ""))
    if plot.log:
        _log_ticks(axes)
    else:
        axes.set_ylim(bottom=0)
        _binary_ticks(axes.yaxis, plot.unit, axes.get_ylim()[1])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity_text(value, plot.unit)))
    y_title = plot.y_title + (", log axis" if plot.log else "")
    axes.set_ylabel("\n".join(wrap(y_title, _Y_TITLE)))


def _marker(curve: Curve, index: int) -> str:
    if curve.star:
        return "*"
    return "x" if curve.published else _MARKERS[index % len(_MARKERS)]


def _log_ticks(axes: Axes) -> None:
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    subs = (1.0, 2.0, 5.0) if high / low > 3 else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _legend(axes: Axes, plot: Plot) -> None:
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(0, -0.2),
        fontsize="small",
        borderaxespad=0,
        ncols=_legend_columns(plot),
    )


def _legend_columns(plot: Plot) -> int:
    """Two where the longest name fits into half of the width."""
    longest = max(len(curve.name) for curve in plot.curves)
    return 2 if 2 * (longest + _MARK_LETTERS) <= _LEGEND_LETTERS else 1


def _legend_in(plot: Plot) -> float:
    """How high its legend is, in inches."""
    lines = [len(_legend_lines(curve.name)) for curve in plot.curves]
    rows = -(-len(lines) // _legend_columns(plot))
    return _LEGEND_IN * rows + _LEGEND_LINE_IN * sum(more - 1 for more in lines)


def _legend_lines(name: str) -> list[str]:
    """A name in lines that fit; chains of operations have commas, not spaces, to break at."""
    lines = [""]
    for piece in re.findall(r"[^, ]*[, ]*", name):
        if lines[-1] and len((lines[-1] + piece).rstrip()) > _LEGEND_LETTERS - _MARK_LETTERS:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _dress_x(axes: Axes, plot: Plot) -> None:
    values = sorted({x for curve in plot.curves for x, _ in curve.points})
    if plot.linear_to:
        axes.set_xscale("symlog", linthresh=plot.linear_to, linscale=0.5)
        axes.set_xlim(0, values[-1] * 1.3)
        # Of the longest curve: ticks of several would overlap.
        lines = [curve for curve in plot.curves if not curve.star]
        values = [x for x, _ in max(lines, key=lambda curve: curve.points[-1][0]).points]
        axes.xaxis.set_major_locator(FixedLocator(values))
        axes.xaxis.set_minor_locator(NullLocator())
    elif plot.x_log and values[0] > 0:
        axes.set_xscale("log", base=2)
        step = -(-len(values) // (_MOST_RATES if plot.x_unit == "B/s" else _MOST_TICKS))
        axes.xaxis.set_major_locator(FixedLocator(values[::step]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(left=0)
        _binary_ticks(axes.xaxis, plot.x_unit, axes.get_xlim()[1])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: x_text(value, plot.x_unit)))
    axes.tick_params(axis="x", labelsize="small")


def _binary_ticks(axis: Axis, unit: str, most: float) -> None:
    """Rates are shown in GiB/s: ticks at powers of ten of bytes would not be round."""
    if unit == "B/s" and most > _MOST_TICKS:
        axis.set_major_locator(MultipleLocator(2.0 ** math.ceil(math.log2(most / _MOST_TICKS))))


def x_text(value: float, unit: str) -> str:
    """A tick or a cell of the swept axis: sizes scaled, other numbers as they are."""
    if unit == "bytes":
        return format_bytes(value)
    return quantity_text(value, unit) if unit else f"{value:g}"


# Sweeps ---------------------------------------------------------------------------


def lines_over_parameter(
    sweeps: Sequence[Sweep], name: str, published: Sequence[PublishedSeries] = ()
) -> Drawing | None:
    """None where there are more lines than can be distinguished; a single point is no line.

    ``sweeps``: of one quantity, side by side in the order given.
    """
    lines = {line.name for sweep in sweeps for line in sweep.lines if len(line.points) > 1}
    if len(lines) > _MOST_SWEPT:
        return None
    first = sweeps[0]
    stood_in = [line for sweep in sweeps for line in sweep.lines if line.emulated]
    names = ", ".join(dict.fromkeys(line.arm for line in stood_in))
    texts = [text for line in stood_in for text in line.emulated]
    mark = f" · {names} {stand_in_mark(texts)}" if names else ""
    title = f"{first.measure} over {first.over}: {first.title}{mark}"
    return draw(name, title, [_swept(sweep, published) for sweep in sweeps])


def _swept(sweep: Sweep, published: Sequence[PublishedSeries]) -> Plot:
    measured = (
        Curve(line.marked_name, tuple(line.points.items()), line.arm, bool(line.emulated))
        for line in sweep.lines
        if len(line.points) > 1
    )
    papers = (
        Curve(
            f"{series.figure}: {line.name} as published",
            tuple(
                (int(p.x), Summary(1, p.y_base, p.y_base - p.error_base, p.y_base + p.error_base))
                for p in series.points
                if p.x.isdigit()
            ),
            line.arm,
            published=True,
        )
        for line, series in published_points(sweep, published)
    )
    return Plot(
        sweep.place_name,
        sweep.over + (", %" if sweep.per_cent else ""),
        sweep.x_unit,
        sweep.measure,
        sweep.unit,
        (*measured, *papers),
        x_log=not (sweep.per_cent or sweep.offered),
        log=True,
    )


# A latency target -----------------------------------------------------------------


def draw_target(
    name: str,
    title: str,
    lines: Mapping[str, Sequence[LoadPoint]],
    x_title: str,
    y_title: str,
    limit_ns: float,
) -> Drawing:
    """Draw latency over load with the target as a line; ``lines``: the loads tried, by arm."""
    curves = tuple(Curve(arm, tuple(map(_tried, points))) for arm, points in lines.items())
    limit = (limit_ns, f"target {quantity_text(limit_ns, 'ns')}")
    plot = Plot(title, x_title, "", y_title, "ns", curves, x_log=False, log=True, limit=limit)
    return draw(name, title, [plot], caption=_OF_TARGETS)


def _tried(point: LoadPoint) -> tuple[float, Summary]:
    latency = Summary(len(point.windows), point.value_ns, point.low_ns, point.high_ns)
    return point.load, latency


_OF_TARGETS = "Bars: intervals of the latency at a load. The most load is where a line crosses."


# Devices' models: durations over sizes ----------------------------------------------------------

#: What each service is called in a legend.
_NAMES = {"read": "read", "write": "write", "sync": "sync", GROWN: "sync of a file that grew"}
_OF_MODEL = (
    "Of one request at a time: medians, bars end at the 99th percentile. A sync's size is what is "
    "dirty since the last one."
)


def draw_model(model: DeviceModel) -> Drawing | None:
    """Draw the durations that a model states; None of a device on which no call waits."""
    if model.instant or not (curves := tuple(_services(model))):
        return None
    title = f"Durations of the model {model.name}"
    plot = Plot(title, "size", "bytes", "duration", "ns", curves, log=True)
    return draw(model.name, title, [plot], caption=_OF_MODEL)


def _services(model: DeviceModel) -> Iterator[Curve]:
    for service in SERVICES:
        points = tuple(
            (
                point.size_bytes,
                Summary(1, median, median, max(median, point.durations.quantile(99))),
            )
            for point in model.points.get(service, ())
            if (median := point.durations.quantile(50)) > 0
        )
        if points:
            yield Curve(_NAMES[service], points)


# Tables and indexes: gain over the bytes that are moved ----------------------------------------

_OF_RELATIONS = "Nothing, then the best tables and indexes, then everything. Bars: intervals."


def draw_relations(answer: RelationAnswer, name: str) -> Drawing | None:
    """Draw the speed-up over the bytes that were moved; None of fewer than two arms with one."""
    points = [
        (float(arm.size_bytes), _summary(arm.estimate))
        for arm in answer.every_arm
        if arm.estimate is not None
    ]
    if len(points) < _FEWEST_ARMS:
        return None
    emulated = answer.every_arm[0].group.emulated
    title = f"Speed-up by the bytes that move from {answer.today} to {answer.tier}"
    nothing = (0.0, Summary(1, 1.0, 1.0, 1.0))
    curve = Curve("", (nothing, *points), emulated=bool(emulated))
    plot = Plot(title, "bytes moved", "bytes", "speed-up, ×", "", (curve,), x_log=False)
    return draw(name, title, [plot], emulated, _OF_RELATIONS)


# Response curves -----------------------------------------------------------------

_TITLE = "Throughput over the latency of a part's device (MODELLED)"
_OF_CURVES = (
    "Lines: tiers whose file operations take a modelled device's time, all else as today. Stars: "
    "today's device, measured. Dotted: known models. Bars: intervals."
)


def draw_curves(curves: Sequence[ResponseCurve]) -> Drawing:
    """Draw every curve in one pair of axes, with today's device and the known models."""
    latencies = [p.latency_ns for response in curves for p in response.points if p.latency_ns > 0]
    plot = Plot(
        _TITLE,
        "mean latency of the operation on the device of the part",
        "ns",
        curves[0].unit,
        "",
        tuple(curve for response in curves for curve in _curves(response)),
        x_log=False,
        linear_to=min(latencies, default=1.0),
        marks=_marks(curves),
    )
    return draw("curve", _TITLE, [plot], caption=_OF_CURVES)


def _curves(response: ResponseCurve) -> Iterator[Curve]:
    name = f"{response.operation} of {response.part}"
    yield Curve(name, tuple(map(_point, response.points)), name)
    yield Curve(f"{name}, today", (_point(response.today),), name, star=True)


def _point(point: PointOfCurve) -> tuple[float, Summary]:
    return point.latency_ns, _summary(point.throughput)


def _summary(value: Value) -> Summary:
    return Summary(1, value.value, value.low or value.value, value.high or value.value)


def _marks(curves: Sequence[ResponseCurve]) -> dict[float, str]:
    """Names of known models by their latency, of a single curve: those of several overlap."""
    names: dict[float, str] = {}
    for name, (latency, _) in curves[0].models.items() if len(curves) == 1 else ():
        names[latency] = f"{names[latency]}, {name}" if latency in names else name
    return names
