"""Small charts of one run over one time axis: throughput, latencies, devices, pressure, waits."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator, NullFormatter

from reports.charts.drawing import (
    ARM_COLOURS,
    DASHES,
    FAINT,
    RESOURCE_STYLES,
    finish,
    heading_above,
    new_figure,
    style,
)
from reports.formatting import percent, quantity_text, range_text
from reports.monitor_series import Strip, TimeSeries
from reports.over_time import Activity, Timeline
from reports.sections import Drawing

_WIDTH_IN, _STRIP_IN, _LANE_IN, _AXIS_IN = 7.6, 1.05, 0.3, 0.5
_SMALL = 8.0
#: Names of spans whose middles are closer than this share of the axis would overlap.
_APART = 0.014
#: As many background tasks are marked in all charts.
_MOST_MARKS = 40
_NS_PER_S = 1e9


def draw_timeline(timeline: Timeline, title: str, name: str) -> Drawing:
    """One figure: the queries' lanes, then a strip for each series."""
    lanes = list(dict.fromkeys(span.lane for span in (*timeline.spans, *timeline.tasks)))
    with style():
        heights = [_LANE_IN * len(lanes) + 0.15] if lanes else []
        heights += [_STRIP_IN] * len(timeline.strips)
        figure = new_figure(_WIDTH_IN, _AXIS_IN + sum(heights) + 0.25 * len(heights))
        rows = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)
        places: list[Axes] = [row[0] for row in rows]
        places[0].set_xlim(
            _seconds(timeline, timeline.first_ns), _seconds(timeline, timeline.end_ns)
        )
        if lanes:
            _draw_spans(places[0], timeline, lanes)
        for axes, strip in zip(
            places[len(heights) - len(timeline.strips) :], timeline.strips, strict=True
        ):
            _draw_strip(axes, timeline, strip)
            _mark(axes, timeline)
        since = "first query" if timeline.of_queries else "beginning of the measurement window"
        places[-1].set_xlabel(f"seconds since the {since}")
        heading = f"Over time: {title}, {timeline.arm}"
        heading_above(figure, heading)
        return finish(figure, name, heading, _alt(heading, timeline), _caption(timeline))


def _seconds(timeline: Timeline, at_ns: float) -> float:
    return (at_ns - timeline.begin_ns) / _NS_PER_S


def _draw_strip(axes: Axes, timeline: Timeline, strip: Strip) -> None:
    if strip.stacked:
        _draw_stack(axes, timeline, strip.lines)
    else:
        for at, line in enumerate(strip.lines):
            x, y = _steps(timeline, line)
            axes.plot(
                x,
                y,
                color=ARM_COLOURS[at % len(ARM_COLOURS)],
                linestyle=DASHES[at % len(DASHES)],
                linewidth=1.2,
                label=line.name,
            )
    axes.set_title(strip.title, loc="left", fontsize=_SMALL + 1)
    _scale(axes, strip)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _text(value, strip.unit)))
    axes.tick_params(labelsize=_SMALL)
    if any(line.name for line in strip.lines):
        axes.legend(
            fontsize=_SMALL - 1,
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            labelspacing=0.2,
            handlelength=1.8,
        )


def _scale(axes: Axes, strip: Strip) -> None:
    values = [interval.value for line in strip.lines for interval in line.intervals]
    most = max(values, default=0.0)
    if strip.percentiles:  # from one power of ten to another, so that two have a label
        low, high = math.floor(math.log10(max(1, min(values)))), math.ceil(math.log10(max(1, most)))
        axes.set_yscale("log")
        axes.set_ylim(10.0**low, 10.0 ** max(high, low + 1))
        axes.yaxis.set_minor_formatter(NullFormatter())
        return
    axes.set_ylim(bottom=0)
    if strip.unit == "B/s" and most > 0:  # binary units have round numbers of their own
        axes.yaxis.set_major_locator(MultipleLocator(2.0 ** math.ceil(math.log2(most / 3))))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(3))


def _steps(timeline: Timeline, line: TimeSeries) -> tuple[list[float], list[float]]:
    """A level line for each interval; NaN, which draws nothing, in holes."""
    x: list[float] = []
    y: list[float] = []
    for interval in line.intervals:
        begin, end = _seconds(timeline, interval.begin_ns), _seconds(timeline, interval.end_ns)
        if x and x[-1] != begin:
            x.append(begin)
            y.append(float("nan"))
        x += [begin, end]
        y += [interval.value, interval.value]
    return x, y


def _draw_stack(axes: Axes, timeline: Timeline, lines: Sequence[TimeSeries]) -> None:
    """Areas on top of one another; an interval that one line lacks is a hole of all."""
    by_begin = [{interval.begin_ns: interval for interval in line.intervals} for line in lines]
    shared = [b for b in by_begin[0] if all(b in other for other in by_begin)]
    lower: dict[float, float] = dict.fromkeys(shared, 0.0)
    for line, at_begin in zip(lines, by_begin, strict=True):
        both = []
        for level in (lower, {b: lower[b] + at_begin[b].value for b in shared}):
            intervals = tuple(
                type(at_begin[b])(b, at_begin[b].end_ns, level[b], at_begin[b].weight)
                for b in shared
            )
            both.append(_steps(timeline, TimeSeries(line.name, intervals)))
        colour, hatch = RESOURCE_STYLES.get(line.name, RESOURCE_STYLES["other"])
        axes.fill_between(
            both[0][0],
            np.array(both[0][1]),
            np.array(both[1][1]),
            facecolor=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0.0,
            label=line.name,
        )
        lower = {b: lower[b] + at_begin[b].value for b in shared}


def _mark(axes: Axes, timeline: Timeline) -> None:
    """The beginnings of queries and tasks; what was before the window is shaded."""
    for span in _marked(timeline):
        axes.axvline(_seconds(timeline, span.begin_ns), color=FAINT, linewidth=0.6, linestyle=":")
    if timeline.first_ns < timeline.begin_ns:
        axes.axvspan(_seconds(timeline, timeline.first_ns), 0, color=FAINT, alpha=0.15, linewidth=0)


def _marked(timeline: Timeline) -> tuple[Activity, ...]:
    """More tasks would hide the lines."""
    return (*timeline.spans, *(timeline.tasks if len(timeline.tasks) <= _MOST_MARKS else ()))


def _draw_spans(axes: Axes, timeline: Timeline, lanes: Sequence[str]) -> None:
    last: dict[str, float] = {}
    apart = _APART * (timeline.end_ns - timeline.first_ns)
    for span in (*timeline.spans, *timeline.tasks):
        lane = lanes.index(span.lane)
        begin, length = _seconds(timeline, span.begin_ns), (span.end_ns - span.begin_ns) / _NS_PER_S
        axes.broken_barh([(begin, length)], (lane - 0.4, 0.8), color=ARM_COLOURS[4], linewidth=0.5)
        middle = (span.begin_ns + span.end_ns) / 2
        if span.name and middle - last.get(span.lane, -2 * apart + timeline.first_ns) >= apart:
            axes.text(
                _seconds(timeline, middle),
                lane,
                span.name,
                fontsize=6,
                rotation=90,
                ha="center",
                va="center",
            )
            last[span.lane] = middle
    axes.set_yticks(range(len(lanes)), lanes, fontsize=_SMALL)
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.tick_params(length=0)


def _text(value: float, unit: str) -> str:
    if unit == "share":
        return percent(value)
    if unit == "1":
        return f"{value:g}"
    if unit == "1/s":
        return f"{value:,g}/s"
    return quantity_text(value, unit)


def _alt(heading: str, timeline: Timeline) -> str:
    """The range of each line."""
    said = []
    for strip in timeline.strips:
        for line in strip.lines:
            values = [interval.value for interval in line.intervals]
            if strip.unit == "share":
                text = f"{percent(min(values))} – {percent(max(values))}"
            else:
                text = range_text(min(values), max(values), strip.unit)
            said.append(f"{', '.join(filter(None, (strip.title, line.name)))}: {text}")
    return f"{heading}. {'; '.join(said)}"


def _caption(timeline: Timeline) -> str:
    shaded = " The end of the ramp-up is shaded." if timeline.first_ns < timeline.begin_ns else ""
    marked = " What lies between queries is not timed." if timeline.of_queries else ""
    marked += " Dotted lines: a bar above begins." if _marked(timeline) else ""
    return (
        f"Run {timeline.run_id}{timeline.chosen}.{shaded}{marked} A gap is a hole in the samples, "
        "or an interval without a request or call, or with too few operations for a percentile "
        "(p99: 100). Series that were 0 throughout, or below 1 % of bytes or waiting, are left out."
    )
