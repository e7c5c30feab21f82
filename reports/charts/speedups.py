"""How much faster than the baseline, with intervals: one row for each query."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from reports.charts.drawing import (
    ARM_COLOURS,
    INK,
    Drawing,
    columns,
    finish,
    new_figure,
    panel_title,
    style,
)
from reports.compare import Group, Row
from reports.series import Panel
from reports.values import in_order
from reports.words import significant, times

_MARKERS = "osD^vP"
#: What a label of a tick takes of the axis, with a gap.
_TICK_WIDTH = 0.1
_TICKS = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.25,
    0.33,
    0.5,
    0.67,
    0.8,
    0.9,
    1,
    1.1,
    1.25,
    1.5,
    2,
    3,
    4,
    5,
    7,
    10,
    15,
    20,
    30,
    50,
    100,
    200,
    500,
    1000,
)


def speedups(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Ratios to the baseline on a log axis; None where nothing was compared.

    Full markers: a difference is shown (Holm); hollow ones: it is not, or cannot be.
    """
    places = {arm.name: index for index, arm in enumerate(panel.arms)}
    held = [
        (places[group.b.name], group, rows)
        for group in panel.groups
        if (rows := [r for r in group.rows if r.quantity.name == metric and r.estimate])
    ]
    if not held:
        return None
    quantities = in_order({row.quantity for _, _, rows in held for row in rows})
    with style():
        figure = new_figure(7.2, 1.3 + 0.24 * len(quantities) * max(1, 0.6 * len(held)))
        axes = figure.add_subplot()
        axes.axvline(1, color=INK, linewidth=1)
        for place, (index, group, rows) in enumerate(held):
            offset = (place - (len(held) - 1) / 2) * 0.7 / len(held)
            at = [quantities.index(row.quantity) + offset for row in rows]
            _draw(axes, at, rows, ARM_COLOURS[index % 6], _MARKERS[index % 6])
            _legend_of(axes, group, rows, ARM_COLOURS[index % 6], _MARKERS[index % 6])
        _dress(axes, panel, [q.labels_text() or title for q in quantities], title)
        _legend(figure, axes)
        alt = _alt(panel, title, [row for _, _, rows in held for row in rows])
        return finish(figure, name, f"Speed-up, {title}: {panel.title}", alt, _CAPTION)


_CAPTION = (
    "Ratio to the baseline, right of 1 is better. Bars are intervals of each row by itself "
    "(95 %, or the most the repeats allow, which the table says). Full markers: a difference is "
    "shown, after Holm over all rows; hollow: not shown, or too few repeats to show one."
)


def _draw(axes: Axes, at: Sequence[float], rows: Sequence[Row], colour: str, marker: str) -> None:
    for y, row in zip(at, rows, strict=True):
        estimate = row.estimate
        if estimate is None:
            continue
        shown = _is_shown(row)
        if estimate.low is not None and estimate.high is not None:
            axes.plot([estimate.low, estimate.high], [y, y], color=colour, linewidth=1.6)
        axes.plot(
            estimate.ratio,
            y,
            marker,
            color=colour,
            ms=5.5,
            mec=colour,
            mfc=colour if shown else "white",
        )
        axes.annotate(
            times(estimate.ratio),
            (1.01, y),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8,
        )


def _is_shown(row: Row) -> bool:
    return row.judgement is not None and row.judgement.outcome == "shown"


def _legend_of(axes: Axes, group: Group, rows: Sequence[Row], colour: str, marker: str) -> None:
    """An arm's marks as they are drawn: full ones, hollow ones, or both."""
    for shown, said in ((True, "shown"), (False, "not shown, or cannot be")):
        if any(_is_shown(row) is shown for row in rows):
            axes.plot(
                [],
                [],
                marker,
                color=colour,
                mfc=colour if shown else "white",
                label=f"{group.b.marked_name}: {said}",
            )


def _dress(axes: Axes, panel: Panel, labels: Sequence[str], title: str) -> None:
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.9), max(high, 1.12))
    axes.xaxis.set_major_locator(FixedLocator(_thinned(*axes.get_xlim())))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"{title}: times better than {panel.arms[0].marked_name}, log axis")
    panel_title(axes, panel)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    ncols = columns(axes, labels, 2)
    figure.set_figheight(figure.get_figheight() + 0.22 * -(-len(labels) // ncols))
    figure.legend(handles, labels, loc="outside lower left", ncols=ncols)


def _thinned(low: float, high: float) -> list[float]:
    """Round ticks within the limits, 1 always among them, none nearer than its label is wide."""
    apart = _TICK_WIDTH * math.log(high / low)
    kept: list[float] = []
    for tick in sorted((tick for tick in _TICKS if low <= tick <= high), key=_roundness):
        if all(abs(math.log(tick / other)) >= apart for other in kept):
            kept.append(tick)
    return sorted(kept)


def _roundness(tick: float) -> tuple[int, float]:
    """1 first, then powers of ten, 2 and 5 times them, and the others."""
    digits = f"{tick:e}".partition("e")[0].rstrip("0").rstrip(".")
    return (0 if tick == 1 else {"1": 1, "2": 2, "5": 2}.get(digits, 3), tick)


def _alt(panel: Panel, title: str, rows: Sequence[Row]) -> str:
    ratios = [row.estimate.ratio for row in rows if row.estimate]
    shown = sum(1 for row in rows if row.judgement and row.judgement.outcome == "shown")
    return (
        f"Speed-ups of {panel.title} over {panel.arms[0].marked_name}, {title}: {len(rows)} rows, "
        f"from {significant(min(ratios))} to {significant(max(ratios))} times, {shown} of them "
        "shown. The table has every value."
    )
