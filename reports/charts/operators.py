"""Where the time goes: each query's measured time divided among kinds of operators."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from reports.charts.drawing import (
    INK,
    OPERATOR_STYLES,
    Drawing,
    bar_places,
    finish,
    letters,
    panel_title,
    query_figure,
    style,
)
from reports.formatting import percent, significant, times
from reports.query_breakdown import QueryAnatomy, anatomy, kind_title
from reports.series import Arm, Panel
from reports.values import natural

#: Bars of more than this many times the baseline are cut, and their height written on them.
_TALLEST = 3.0
#: Narrower figures have no room for all kinds in one row of the legend.
_ONE_ROW_INCHES = 8.5
#: What fits along the upright axis.
_LABEL_CHARACTERS = 36
#: Behind the letter of a bar whose plan does not add up to the measured time.
OFF = "*"
Held = Sequence[tuple[Arm, Mapping[str, QueryAnatomy]]]


def operator_times(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Stacked bars, every query's measured time on the baseline as 100 %; None without plans."""
    known = [(arm, anatomy(arm)) for arm in panel.arms]
    held = [(arm, found) for arm, found in known if any(one.kinds for one in found.values())]
    if not held:
        return None
    base = {
        q: one.duration.median
        for _, found in reversed(held)
        for q, one in found.items()
        if one.duration and one.kinds
    }
    queries = sorted(base, key=natural)
    with style():
        figure = query_figure(len(queries), len(held))
        axes = figure.add_subplot()
        tallest = 1.0
        for index, (_, found) in enumerate(held):
            tallest = max(tallest, _stack(axes, index, len(held), found, queries, base))
        axes.set_ylim(0, min(tallest, _TALLEST) * 1.12)
        _dress(axes, panel, held, queries)
        caption = _caption(held)
        title = f"Where the time goes: {panel.title}"
        return finish(figure, name, title, _alt(panel, held), caption)


def distortion(arm: Arm) -> tuple[float, float, float] | None:
    """Second execution over the timed one: median, lowest and highest over the queries."""
    first, second = arm.summaries("query_duration_ns"), arm.summaries("plan_run_duration_ns")
    timed = {q.labels: s.median for q, s in first.items()}
    ratios = [s.median / timed[q.labels] for q, s in second.items() if timed.get(q.labels)]
    return (statistics.median(ratios), min(ratios), max(ratios)) if ratios else None


def _stack(
    axes: Axes,
    index: int,
    arms: int,
    found: Mapping[str, QueryAnatomy],
    queries: Sequence[str],
    base: Mapping[str, float],
) -> float:
    """One arm's bars; the height of the tallest."""
    at, width = bar_places(index, arms, len(queries))
    bottom = [0.0] * len(queries)
    for operator, (colour, hatch) in OPERATOR_STYLES.items():
        heights = [
            found[q].kinds.get(operator, 0.0) / base[q] if q in found else 0.0 for q in queries
        ]
        axes.bar(
            at,
            heights,
            width * 0.9,
            bottom=bottom,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0.4,
        )
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    for query, x, top in zip(queries, at, bottom, strict=True):
        _name_bar(axes, index, arms, found.get(query), x, top)
    return max(bottom)


def _name_bar(
    axes: Axes, index: int, arms: int, one: QueryAnatomy | None, x: float, top: float
) -> None:
    """The arm's letter above its bar, with what must be known of it."""
    if one is None or top == 0:
        if one is not None and one.limited and one.duration is None:
            axes.annotate(
                "limit",
                (x, 0),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                va="bottom",
                rotation=90,
                fontsize=7,
            )
        return
    said = chr(ord("a") + index) if arms > 1 else ""
    said += OFF if one.fit and not one.fit.fits else ""
    if top > _TALLEST:
        said = f"{significant(top)}×\n{said}"
    axes.annotate(
        said,
        (x, min(top, _TALLEST)),
        xytext=(0, 1),
        textcoords="offset points",
        ha="center",
        fontsize=7,
    )


def _dress(axes: Axes, panel: Panel, held: Held, queries: Sequence[str]) -> None:
    axes.set_xticks(range(len(queries)), list(queries))
    axes.set_xlim(-0.6, len(queries) - 0.4)
    axes.grid(visible=False, axis="x")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value)))
    axes.set_xlabel("query")
    label = f"of the time on {held[0][0].marked_name}"
    axes.set_ylabel(fill(label, _LABEL_CHARACTERS, break_on_hyphens=False))
    axes.axhline(1, color=INK, linewidth=0.8)
    panel_title(axes, panel)
    _legends(axes, held)


def _legends(axes: Axes, held: Held) -> None:
    kinds = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=kind_title(operator))
        for operator, (colour, hatch) in OPERATOR_STYLES.items()
    ]
    below: dict[str, Any] = {"loc": "upper left", "borderaxespad": 0}
    figure = axes.get_figure()
    one_row = isinstance(figure, Figure) and figure.get_figwidth() >= _ONE_ROW_INCHES
    columns = len(kinds) if one_row else (len(kinds) + 1) // 2
    first = axes.legend(handles=kinds, bbox_to_anchor=(0, -0.16), ncols=columns, **below)
    if len(held) > 1:
        axes.add_artist(first)
        letters(axes, [arm.marked_name for arm, _ in held], -0.25 if one_row else -0.33)


def _caption(held: Held) -> str:
    text = (
        f"Measured times, {held[0][0].marked_name} (or the first that has one) as 100 %, "
        "divided as the operators' own times "
        "in a second, profiled execution from the same cache state; planning is in “other”, what "
        "that execution spent elsewhere (the client, no thread at work) is “outside the operators”"
    )
    known = [(arm, d) for arm, _ in held if (d := distortion(arm))]
    if known:
        said = "; ".join(
            f"{arm.marked_name} {times(m)} the timed one's time (median; {times(low)} to "
            f"{times(high)})"
            for arm, (m, low, high) in known
        )
        text += f". That execution took: {said}"
    off = sum(1 for _, found in held for one in found.values() if one.fit and not one.fit.fits)
    if off:
        text += (
            f". {OFF}: before scaling, the plan's times are more than 10 % off the measured time, "
            "or more than that lies outside the operators; the table of sentences says why"
        )
    return text + "."


def _alt(panel: Panel, held: Held) -> str:
    said = []
    for arm, found in held:
        total = sum(sum(one.kinds.values()) for one in found.values())
        scans = sum(one.kinds.get("scan", 0.0) for one in found.values())
        if total:
            said.append(f"on {arm.marked_name} scans take {percent(scans / total)} of all of it")
    return f"Stacked bars of operator times of {panel.title}: {'; '.join(said)}."
