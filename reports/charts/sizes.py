"""Bytes of every query: per tier, against memory, and at the memory controllers (Fig. 3).

VLDB 2023, §4.1, §4.4 and Fig. 3. Bars of a group are the arms, named by their letters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MultipleLocator

from harness.units import format_bytes
from reports.charts.drawing import (
    ARM_COLOURS,
    INK,
    Drawing,
    bar_places,
    finish,
    letters,
    panel_title,
    query_figure,
    style,
)
from reports.formatting import counted, quantity_text
from reports.query_breakdown import MARK, QueryAnatomy, anatomy, bound_bytes
from reports.series import Arm, Panel
from reports.values import natural

#: Memory is drawn as a line where it is at most this many times the largest bar.
_IN_SIGHT = 2.0
#: Whether a bar of an arm has something that must be known beside it.
Mark = Callable[[Arm, QueryAnatomy], bool]
_ALL = "The table has every value."


@dataclass(frozen=True)
class Part:
    """One piece of every bar: its name, look, and value by arm and query.

    Pieces are stacked upwards; those with ``down`` hang below the axis.
    """

    name: str
    colour: str
    hatch: str
    values: Callable[[Arm, str], float]
    down: bool = False


def tier_bytes(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Read (up) and written (down) per tier whose device counts; None where none does."""
    tiers = sorted(
        {
            tier
            for arm in panel.arms
            for one in anatomy(arm).values()
            for tier in (*one.read, *one.written)
        }
    )
    if not tiers:
        return None
    parts = []
    for index, tier in enumerate(tiers):
        colour = ARM_COLOURS[index % len(ARM_COLOURS)]
        parts.append(Part(f"read from {tier}", colour, "", _of_tier(tier, lambda a: a.read)))
        parts.append(
            Part(f"written to {tier}", colour, "//", _of_tier(tier, lambda a: a.written), True)
        )
    caption = (
        "Bytes that the tiers' devices moved while each query ran: read above the axis, written "
        "below it. They are the devices' counts, whoever caused them."
    )
    uncounted = _uncounted(panel, tiers)
    if uncounted:
        caption += f" Nothing is counted on {uncounted}: what passes no block layer has no count."
    if _marked(panel, _by_others):
        caption += (
            f" {MARK}: they moved far more than the kernel counted for the engine; the rest is "
            "others' or, of what was written, written back late."
        )
    return _bars(panel, parts, name, "Bytes per tier", caption, format_bytes, mark=_by_others)


def _by_others(arm: Arm, one: QueryAnatomy) -> bool:
    return one.moved_by_others


def _is_bound(arm: Arm, one: QueryAnatomy) -> bool:
    return bound_bytes(arm, one) is not None


def _marked(panel: Panel, mark: Mark) -> int:
    return sum(mark(arm, one) for arm in panel.arms for one in anatomy(arm).values())


def _of_tier(
    tier: str, sizes: Callable[[QueryAnatomy], Mapping[str, float]]
) -> Callable[[Arm, str], float]:
    def value(arm: Arm, query: str) -> float:
        one = anatomy(arm).get(query)
        return sizes(one).get(tier, 0.0) if one else 0.0

    return value


def _uncounted(panel: Panel, counted: Sequence[str]) -> str:
    """``pmem (tmpfs)``: directory tiers of the runs without a count."""
    known = {tier for label in counted for tier in label.split("+")}
    tiers = {
        tier["name"]: tier["kind"]
        for run in panel.runs
        for tier in (run.manifest["tiers"] if run.manifest else [])
        if tier["kind"] not in ("numa", "devdax")
    }
    return ", ".join(
        f"{name} ({kind})" for name, kind in sorted(tiers.items()) if name not in known
    )


def working_set(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Working sets and spills against the memory there was; None where neither is known."""
    parts = [
        Part("working set, at least", ARM_COLOURS[0], "", _size("working_set")),
        Part("spilled", ARM_COLOURS[5], "//", _size("spilled"), True),
    ]
    if not _any(panel, parts[:1]):
        return None
    sizes = {run.run["memory_bytes"] for run in panel.runs if run.run["memory_bytes"]}
    caption = (
        "What each query touched from a cold start, above the axis: the greater of the file bytes "
        "that came into the page cache (reading ahead included) and the private memory taken at "
        "its peak; the working set is at least this. Below the axis: bytes spilled to temporary "
        f"files. Memory: {' or '.join(format_bytes(size) for size in sorted(sizes)) or 'unknown'}."
    )
    if _marked(panel, _is_bound):
        caption += f" {MARK}: the memory limit was reached and bounds it."
    if unknown := _marked(panel, lambda _, one: one.file_pages_unknown):
        caption += (
            f" File pages are not known of {counted(unknown, 'bar')}: most of what was fetched "
            "passed the page cache by, or left it again."
        )
    return _bars(
        panel, parts, name, "Working set and spill", caption, format_bytes, sorted(sizes), _is_bound
    )


def _size(name: str) -> Callable[[Arm, str], float]:
    def value(arm: Arm, query: str) -> float:
        one = anatomy(arm).get(query)
        return (one.size(name) or 0.0) if one else 0.0

    return value


def memory_bandwidth(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Mean DRAM bandwidth of each query, reads and writes stacked (VLDB 2023, Fig. 3)."""
    parts = [
        Part("DRAM reads", ARM_COLOURS[0], "", _rate("query_dram_read_bytes_per_s")),
        Part("DRAM writes", ARM_COLOURS[1], "//", _rate("query_dram_write_bytes_per_s")),
    ]
    caption = (
        "Mean bandwidth at the memory controllers while each query ran, of the whole host (VLDB "
        "2023, Fig. 3). In Memory Mode it includes DRAM's work as a cache."
    )
    return _bars(panel, parts, name, "DRAM bandwidth", caption, lambda v: quantity_text(v, "B/s"))


def _rate(metric: str) -> Callable[[Arm, str], float]:
    def value(arm: Arm, query: str) -> float:
        found = arm.summaries(metric)
        return next((s.median for q, s in found.items() if q.labels == (("query", query),)), 0.0)

    return value


# Drawing -----------------------------------------------------------------------


def _any(panel: Panel, parts: Sequence[Part]) -> bool:
    return any(
        part.values(arm, query) > 0
        for part in parts
        for arm in panel.arms
        for query in anatomy(arm)
    )


def _bars(
    panel: Panel,
    parts: Sequence[Part],
    name: str,
    title: str,
    caption: str,
    text: Callable[[float], str],
    lines: Sequence[float] = (),
    mark: Mark = lambda arm, one: False,
) -> Drawing | None:
    """One group for each query, one stacked bar for each arm; None where all is nothing."""
    queries = sorted({query for arm in panel.arms for query in anatomy(arm)}, key=natural)
    if not _any(panel, parts):
        return None
    with style():
        figure = query_figure(len(queries), len(panel.arms))
        axes = figure.add_subplot()
        highest = 0.0
        for index, arm in enumerate(panel.arms):
            highest = max(highest, _stack(axes, index, panel, arm, parts, queries))
            _name_bars(axes, index, panel, parts, queries, mark)
        for line in lines:
            if line <= _IN_SIGHT * highest:
                axes.axhline(line, color=INK, linewidth=1, linestyle="--")
                axes.annotate(
                    f"memory {text(line)}",
                    (0, line),
                    xytext=(0, 2),
                    fontsize=8,
                    textcoords="offset points",
                )
        axes.axhline(0, color=INK, linewidth=0.8)
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(MultipleLocator(_step(high - low)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(abs(value))))
        axes.set_xticks(range(len(queries)), queries)
        axes.set_xlim(-0.6, len(queries) - 0.4)
        axes.grid(visible=False, axis="x")
        axes.set_xlabel("query")
        axes.set_ylabel(title)
        panel_title(axes, panel)
        _legends(axes, panel, [part for part in parts if _any(panel, [part])])
        alt = f"Stacked bars, {title} of {panel.title}, up to {text(highest)}. {_ALL}"
        return finish(figure, name, f"{title}: {panel.title}", alt, caption)


def _step(span: float) -> float:
    """A power of two, so that ticks are round in KiB, MiB and GiB: five to ten of them."""
    return float(2 ** math.floor(math.log2(span / 5))) if span > 0 else 1.0


def _stack(
    axes: Axes, index: int, panel: Panel, arm: Arm, parts: Sequence[Part], queries: Sequence[str]
) -> float:
    """One arm's bars; the height of the tallest."""
    at, width = bar_places(index, len(panel.arms), len(queries))
    ends = {False: [0.0] * len(queries), True: [0.0] * len(queries)}
    for part in parts:
        sign = -1.0 if part.down else 1.0
        heights = [sign * part.values(arm, query) for query in queries]
        bottom = ends[part.down]
        axes.bar(
            at,
            heights,
            width * 0.9,
            bottom=bottom,
            color=part.colour,
            hatch=part.hatch,
            edgecolor="white",
            linewidth=0.4,
        )
        ends[part.down] = [low + height for low, height in zip(bottom, heights, strict=True)]
    return max(ends[False])


def _name_bars(
    axes: Axes, index: int, panel: Panel, parts: Sequence[Part], queries: Sequence[str], mark: Mark
) -> None:
    """The arm's letter and what must be known above every bar of an arm."""
    arm = panel.arms[index]
    letter = chr(ord("a") + index) if len(panel.arms) > 1 else ""
    at, _ = bar_places(index, len(panel.arms), len(queries))
    for x, query in zip(at, queries, strict=True):
        one = anatomy(arm).get(query)
        marked = one is not None and mark(arm, one)
        top = sum(part.values(arm, query) for part in parts if not part.down)
        if top > 0 or marked:
            axes.annotate(
                letter + (MARK if marked else ""),
                (x, top),
                xytext=(0, 1),
                textcoords="offset points",
                ha="center",
                fontsize=7,
            )


def _legends(axes: Axes, panel: Panel, parts: Sequence[Part]) -> None:
    handles = [
        Patch(facecolor=part.colour, hatch=part.hatch, edgecolor="white", label=part.name)
        for part in parts
    ]
    first = axes.legend(
        handles=handles, bbox_to_anchor=(0, -0.16), ncols=4, loc="upper left", borderaxespad=0
    )
    if len(panel.arms) > 1:
        axes.add_artist(first)
        rows = -(-len(parts) // 4)
        letters(axes, [arm.marked_name for arm in panel.arms], -0.17 - 0.08 * rows)
