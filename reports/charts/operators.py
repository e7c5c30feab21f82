"""Where the time goes: operator times of every query, the arms beside one another."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from harness.reports.charts.drawing import (
    INK,
    OPERATOR_STYLES,
    Drawing,
    finish,
    new_figure,
    panel_title,
    style,
)
from harness.reports.series import Arm, Panel
from harness.reports.values import natural
from harness.reports.words import percent, times

_METRIC = "plan_operator_ns"
Breakdown = Mapping[str, Mapping[str, float]]  # query → operator → ns


def operator_times(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Stacked bars, every query scaled to its baseline (100 %); None without plans."""
    held = [(arm, breakdown) for arm in panel.arms if (breakdown := _breakdown(arm))]
    if not held:
        return None
    queries = sorted({query for _, one in held for query in one}, key=natural)
    scale = {q: total for q in queries if (total := _total(q, held)) > 0}
    queries = [query for query in queries if query in scale]
    with style():
        figure = new_figure(max(6.0, 2.2 + 0.36 * len(queries)), 3.9)
        axes = figure.add_subplot()
        for index, (_, one) in enumerate(held):
            _stack(axes, index, len(held), one, queries, scale)
        _dress(axes, panel, held, queries)
        caption = _caption(panel, held)
        return finish(figure, name, f"Operator times: {panel.title}", _alt(panel, held), caption)


def distortion(arm: Arm) -> tuple[float, float, float] | None:
    """Second execution over the timed one: median, lowest and highest over the queries."""
    first, second = arm.summaries("query_duration_ns"), arm.summaries("plan_run_duration_ns")
    timed = {q.labels: s.median for q, s in first.items()}
    ratios = [s.median / timed[q.labels] for q, s in second.items() if timed.get(q.labels)]
    return (statistics.median(ratios), min(ratios), max(ratios)) if ratios else None


def _breakdown(arm: Arm) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for quantity, summary in arm.summaries(_METRIC).items():
        query, operator = quantity.label("query") or "", quantity.label("operator") or "other"
        found.setdefault(query, {})[operator] = summary.median
    return found


def _total(query: str, held: Sequence[tuple[Arm, Breakdown]]) -> float:
    """The query's operator times added up on the first arm that has them."""
    return next((sum(one[query].values()) for _, one in held if query in one), 0.0)


def _stack(
    axes: Axes,
    index: int,
    arms: int,
    one: Breakdown,
    queries: Sequence[str],
    scale: Mapping[str, float],
) -> None:
    width = 0.8 / arms
    at = [place + (index - (arms - 1) / 2) * width for place in range(len(queries))]
    bottom = [0.0] * len(queries)
    for operator, (colour, hatch) in OPERATOR_STYLES.items():
        heights = [one.get(q, {}).get(operator, 0.0) / scale[q] for q in queries]
        axes.bar(at, heights, width * 0.9, bottom=bottom, color=colour, hatch=hatch,
                 edgecolor="white", linewidth=0.4)  # fmt: skip
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    for x, top in zip(at, bottom, strict=True):
        if arms > 1 and top > 0:
            axes.annotate(chr(ord("a") + index), (x, top), xytext=(0, 1),
                          textcoords="offset points", ha="center", fontsize=7)  # fmt: skip


def _dress(
    axes: Axes, panel: Panel, held: Sequence[tuple[Arm, Breakdown]], queries: Sequence[str]
) -> None:
    axes.set_xticks(range(len(queries)), list(queries))
    axes.set_xlim(-0.6, len(queries) - 0.4)
    axes.grid(visible=False, axis="x")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value)))
    axes.set_xlabel("query")
    axes.set_ylabel(f"of {held[0][0].marked_name}")
    axes.axhline(1, color=INK, linewidth=0.8)
    panel_title(axes, panel)
    _legends(axes, held)


def _legends(axes: Axes, held: Sequence[tuple[Arm, Breakdown]]) -> None:
    kinds = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=operator)
        for operator, (colour, hatch) in OPERATOR_STYLES.items()
    ]
    letters = [
        Patch(facecolor="none", edgecolor="none", label=f"{chr(ord('a') + i)}: {arm.marked_name}")
        for i, (arm, _) in enumerate(held)
    ]
    below: dict[str, Any] = {"loc": "upper left", "borderaxespad": 0}
    first = axes.legend(handles=kinds, bbox_to_anchor=(0, -0.16), ncols=5, **below)
    if len(held) > 1:
        axes.add_artist(first)
        axes.legend(handles=letters, bbox_to_anchor=(0, -0.25), ncols=4, handlelength=0,
                    handletextpad=0, **below)  # fmt: skip


def _caption(panel: Panel, held: Sequence[tuple[Arm, Breakdown]]) -> str:
    text = (
        "Own time of the operators of each query's plan, scaled so that "
        f"{held[0][0].marked_name} is 100 %; of parallel workers the times are added up as the "
        "engine reports them. They come from a second execution, from the same cache state"
    )
    known = [(arm, d) for arm, _ in held if (d := distortion(arm))]
    if not known:
        return text + "; how much that one was slowed by being observed is not known."
    said = "; ".join(
        f"{arm.marked_name} {times(m)} the timed one's time (median; {times(low)} to {times(high)})"
        for arm, (m, low, high) in known
    )
    return f"{text}, which took: {said}."


def _alt(panel: Panel, held: Sequence[tuple[Arm, Breakdown]]) -> str:
    said = []
    for arm, one in held:
        total = sum(sum(kinds.values()) for kinds in one.values())
        scans = sum(kinds.get("scan", 0.0) for kinds in one.values())
        if total:
            said.append(f"on {arm.marked_name} scans take {percent(scans / total)} of all of it")
    return f"Stacked bars of operator times of {panel.title}: {'; '.join(said)}."
