"""Speed-ups over the baseline with their intervals: a row for each query, or each comparison."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.charts.drawing import (
    ARM_COLOURS,
    FAINT,
    INK,
    MARKERS,
    columns,
    finish,
    new_figure,
    panel_title,
    ratio_ticks,
    style,
)
from reports.compare import Group
from reports.compared_rows import Row
from reports.formatting import interval_text, times, verdict_text
from reports.sections import Drawing
from reports.series import Panel
from reports.values import in_order

#: Comparisons in the overview; the table has all of them.
MOST_ROWS = 24
_LABEL_CHARACTERS = 44
_VERDICT_COLOURS = {"faster": "#00704f", "slower": "#a33c00"}


def overview(compared: Sequence[tuple[str, Group]], title: str) -> Drawing | None:
    """The headline of every comparison, by the panel's title; None where none has a ratio."""
    rows = [
        (where, group, row)
        for where, group in compared
        if (row := group.deciding) is not None and row.estimate is not None
    ][:MOST_ROWS]
    if not rows:
        return None
    labels = _labels([(where, group.b.marked_name) for where, group, _ in rows])
    heights = [0.18 * (label.count("\n") + 1) + 0.08 for label in labels]
    places = [end - height / 2 for end, height in zip(accumulate(heights), heights, strict=True)]
    with style():
        figure = new_figure(12.0, 0.7 + sum(heights))
        axes = figure.add_subplot()
        axes.axvline(1, color=INK, linewidth=1)
        for y, (_, group, row) in zip(places, rows, strict=True):
            assert row.estimate is not None
            colour = _VERDICT_COLOURS.get(group.verdict, FAINT)
            text = f"{times(row.ratio)} {interval_text(row.estimate)}  {_verdict(group, row)}"
            _mark(axes, y, row, colour, "o", text)
        _dress(axes, labels, "speed-up over the baseline, log axis")
        axes.set_yticks(places, labels)
        axes.set_ylim(sum(heights), 0)
        return finish(figure, "overview", title, title, _caption([row for *_, row in rows]))


def _labels(named: Sequence[tuple[str, str]]) -> list[str]:
    """In lines that fit; the panel's title once, with its first comparison."""
    titles = ["", *(title for title, _ in named)]
    return [
        fill(arm if title == last else f"{title}: {arm}", _LABEL_CHARACTERS, break_on_hyphens=False)
        for last, (title, arm) in zip(titles, named, strict=False)
    ]


def _verdict(group: Group, row: Row) -> str:
    if group.verdict != "not resolvable" or row.estimate is None or row.decision is None:
        return verdict_text(group.verdict)
    repeats = row.estimate.repeats
    return f"{group.verdict} ({repeats} of {row.decision.repeats_needed} repeats)"


def speedups(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Ratios to the baseline by the metric's labels; None where nothing was compared."""
    places = {arm.name: index % len(ARM_COLOURS) for index, arm in enumerate(panel.arms)}
    compared = [
        (places[group.b.name], group, rows)
        for group in panel.groups
        if (rows := [r for r in group.rows if r.quantity.name == metric and r.estimate])
    ]
    if not compared:
        return None
    quantities = in_order({row.quantity for _, _, rows in compared for row in rows})
    with style():
        figure = new_figure(7.2, 1.3 + 0.24 * len(quantities) * max(1, 0.6 * len(compared)))
        axes = figure.add_subplot()
        axes.axvline(1, color=INK, linewidth=1)
        for place, (index, group, rows) in enumerate(compared):
            offset = (place - (len(compared) - 1) / 2) * 0.7 / len(compared)
            colour, marker = ARM_COLOURS[index], MARKERS[index]
            for row in rows:
                y = quantities.index(row.quantity) + offset
                _mark(axes, y, row, colour, marker, times(row.ratio))
            axes.plot([], [], marker, color=colour, label=group.b.marked_name)
        label = f"{title}: times better than {panel.arms[0].marked_name}, log axis"
        _dress(axes, [q.labels_text() or title for q in quantities], label)
        panel_title(axes, panel)
        _legend(figure, axes)
        title = f"Speed-up, {title}: {panel.title}"
        every = [row for _, _, rows in compared for row in rows]
        return finish(figure, name, title, title, _caption(every))


def _caption(rows: Sequence[Row]) -> str:
    """Return what must be known to read a chart of these rows."""
    resolved = "Filled markers: a difference is resolved (Holm)."
    return (
        "Ratio to the baseline: right of 1 is better. Bars: the interval of each row (95 %, or the "
        "most that the repeats allow). "
    ) + (resolved if any(row.shown for row in rows) else "No difference is resolved (Holm).")


def _mark(axes: Axes, y: float, row: Row, colour: str, marker: str, text: str) -> None:
    estimate = row.estimate
    assert estimate is not None
    if estimate.low is not None and estimate.high is not None:
        axes.plot([estimate.low, estimate.high], [y, y], color=colour, linewidth=1.6)
    face = colour if row.shown else "white"
    axes.plot(estimate.value, y, marker, color=colour, ms=5.5, mec=colour, mfc=face)
    right = ("axes fraction", "data")
    axes.annotate(text, (1.01, y), xycoords=right, va="center", fontsize=8)


def _dress(axes: Axes, labels: Sequence[str], x_label: str) -> None:
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.9), max(high, 1.12))
    ratio_ticks(axes.xaxis, *axes.get_xlim())
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(x_label)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    ncols = columns(axes, labels, 2)
    figure.set_figheight(figure.get_figheight() + 0.22 * -(-len(labels) // ncols))
    figure.legend(handles, labels, loc="outside lower left", ncols=ncols)
