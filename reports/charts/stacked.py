"""Stacked bars of every query: operator times, bytes per tier, memory, bandwidth.

VLDB 2023, §4.1, §4.4 and Fig. 3. The bars of a group are the arms, named by their letters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MultipleLocator

from harness.units import format_bytes
from reports.arm import Arm
from reports.charts.drawing import (
    ARM_COLOURS,
    INK,
    OPERATOR_STYLES,
    bar_places,
    finish,
    letters,
    panel_title,
    query_figure,
    style,
)
from reports.formatting import percent, quantity_text, significant
from reports.query_breakdown import MARK, QueryBreakdown, bound_bytes, kind_title, query_breakdowns
from reports.sections import Drawing
from reports.series import Panel
from reports.values import Quantity, natural

#: Memory is drawn as a line where it is at most this many times the largest bar.
_IN_SIGHT = 2.0
#: Bars of more than this many times the baseline are cut, and their height written on them.
_TALLEST = 3.0
_LEGEND_COLUMNS = 3


@dataclass(frozen=True)
class Part:
    """One piece of every bar, stacked upwards, or hanging below the axis (``down``)."""

    name: str
    colour: str
    value: Callable[[Arm, QueryBreakdown], float]
    hatch: str = ""
    down: bool = False


@dataclass(frozen=True)
class Stacks:
    """What a chart shows. ``mark``: whether a bar has a remark; ``lines``: horizontal ones.

    ``tallest``: bars are cut there.
    """

    title: str
    parts: Sequence[Part]
    text: Callable[[float], str]
    caption: str
    mark: Callable[[Arm, QueryBreakdown], bool] = lambda arm, one: False
    lines: Sequence[float] = ()
    tallest: float = math.inf


def operator_times(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Every query's measured time, on the first arm with a plan as 100 %; None without plans."""
    base: dict[str, float] = {}
    for arm in panel.arms:
        for query, one in query_breakdowns(arm).items():
            if one.kinds and one.duration:
                base.setdefault(query, one.duration.median)

    def share(kind: str) -> Callable[[Arm, QueryBreakdown], float]:
        return lambda _, one: one.kinds.get(kind, 0.0) / base[one.query] if one.kinds else 0.0

    parts = [
        Part(kind_title(kind), colour, share(kind), hatch)
        for kind, (colour, hatch) in OPERATOR_STYLES.items()
    ]
    caption = (
        "Measured times, of the first placement as 100 %, divided as the operators' own times in a "
        "second, profiled execution from the same cache state. Planning is in “other”; what that "
        f"execution spent elsewhere is “outside the operators”. {MARK}: the plan's times are more "
        "than 10 % off the measured time before scaling; the table of queries says why."
    )
    stacks = Stacks(
        "Where the time goes",
        parts,
        percent,
        caption,
        lambda _, one: one.fit is not None and not one.fit.fits,
        (1.0,),
        _TALLEST,
    )
    return draw_stacks(panel, stacks, name)


def tier_bytes(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Read (up) and written (down) per tier whose device counts; None where none does."""
    every = [one for arm in panel.arms for one in query_breakdowns(arm).values()]
    tiers = sorted({tier for one in every for tier in (*one.read, *one.written)})

    def read(tier: str) -> Callable[[Arm, QueryBreakdown], float]:
        return lambda _, one: one.read.get(tier, 0.0)

    def written(tier: str) -> Callable[[Arm, QueryBreakdown], float]:
        return lambda _, one: one.written.get(tier, 0.0)

    parts: list[Part] = []
    for index, tier in enumerate(tiers):
        colour = ARM_COLOURS[index % len(ARM_COLOURS)]
        parts.append(Part(f"read from {tier}", colour, read(tier)))
        parts.append(Part(f"written to {tier}", colour, written(tier), "//", down=True))
    caption = (
        "Bytes that the tiers' devices moved while each query ran, whoever caused them: read above "
        "the axis, written below it. DAX and tmpfs pass no block layer and have no count. "
        f"{MARK}: far more than the engine moved."
    )
    stacks = Stacks(
        "Bytes per tier", parts, format_bytes, caption, lambda _, one: one.moved_by_others
    )
    return draw_stacks(panel, stacks, name)


def working_set(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Working sets and spills against the memory there was; None where no set is known."""
    parts = [
        Part("working set, at least", ARM_COLOURS[0], lambda _, one: one.size("working_set") or 0),
        Part("spilled", ARM_COLOURS[5], lambda _, one: one.size("spilled") or 0, "//", down=True),
    ]
    if not _present(panel, parts[:1]):
        return None
    caption = (
        "What each query touched from a cold start, at least: the greater of the file bytes that "
        "came into the page cache and the peak of private memory. Below the axis: bytes spilled to "
        f"temporary files. {MARK}: the memory limit was reached and bounds it."
    )
    stacks = Stacks(
        "Working set and spill",
        parts,
        format_bytes,
        caption,
        lambda arm, one: bound_bytes(arm, one) is not None,
        sorted({run.run["memory_bytes"] for run in panel.runs if run.run["memory_bytes"]}),
    )
    return draw_stacks(panel, stacks, name)


def memory_bandwidth(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Mean DRAM bandwidth of each query, reads and writes stacked (VLDB 2023, Fig. 3)."""

    def rate(metric: str) -> Callable[[Arm, QueryBreakdown], float]:
        def value(arm: Arm, one: QueryBreakdown) -> float:
            found = arm.summaries(metric).get(Quantity(metric, (("query", one.query),)))
            return found.median if found else 0.0

        return value

    parts = [
        Part("DRAM reads", ARM_COLOURS[0], rate("query_dram_read_bytes_per_s")),
        Part("DRAM writes", ARM_COLOURS[1], rate("query_dram_write_bytes_per_s"), "//"),
    ]
    caption = (
        "Mean bandwidth at the memory controllers while each query ran, of the whole host (VLDB "
        "2023, Fig. 3). In Memory Mode it includes DRAM's work as a cache."
    )
    stacks = Stacks("DRAM bandwidth", parts, lambda v: quantity_text(v, "B/s"), caption)
    return draw_stacks(panel, stacks, name)


# Drawing -----------------------------------------------------------------------


def _present(panel: Panel, parts: Sequence[Part]) -> list[Part]:
    """Those that are more than nothing somewhere."""
    bars = [(arm, one) for arm in panel.arms for one in query_breakdowns(arm).values()]
    return [part for part in parts if any(part.value(arm, one) > 0 for arm, one in bars)]


def draw_stacks(panel: Panel, stacks: Stacks, name: str) -> Drawing | None:
    """One group for each query, one stacked bar for each arm; None where all is nothing."""
    parts = _present(panel, stacks.parts)
    if not parts:
        return None
    queries = sorted(set(chain(*map(query_breakdowns, panel.arms))), key=natural)
    with style():
        figure = query_figure(len(queries), len(panel.arms))
        axes = figure.add_subplot()
        highest = 0.0
        for index, arm in enumerate(panel.arms):
            at, width = bar_places(index, len(panel.arms), len(queries))
            letter = chr(ord("a") + index) if len(panel.arms) > 1 else ""
            for x, query in zip(at, queries, strict=True):
                if (one := query_breakdowns(arm).get(query)) is not None:
                    top = _stack(axes, x, width * 0.9, parts, arm, one)
                    highest = max(highest, top)
                    _name_bar(axes, x, top, letter, stacks, arm, one)
        _dress(axes, panel, stacks, queries, highest)
        _legends(axes, panel, parts)
        title = f"{stacks.title}: {panel.title}"
        return finish(figure, name, title, title, stacks.caption)


def _stack(
    axes: Axes, x: float, width: float, parts: Sequence[Part], arm: Arm, one: QueryBreakdown
) -> float:
    """One bar; its top."""
    ends = {False: 0.0, True: 0.0}
    for part in parts:
        height = part.value(arm, one) * (-1 if part.down else 1)
        bars = axes.bar(x, height, width, bottom=ends[part.down], color=part.colour)
        for patch in bars:
            patch.set(hatch=part.hatch, edgecolor="white", linewidth=0.4)
        ends[part.down] += height
    return ends[False]


def _name_bar(
    axes: Axes, x: float, top: float, letter: str, stacks: Stacks, arm: Arm, one: QueryBreakdown
) -> None:
    """The arm's letter above its bar, with what must be known of it."""
    marked = stacks.mark(arm, one)
    text = letter + (MARK if marked else "")
    if top > stacks.tallest:
        text = f"{significant(top)}×\n{text}"
    elif one.limited and one.duration is None:
        text = f"limit\n{text}"
    elif not top and not marked:
        return
    at = (x, min(top, stacks.tallest))
    axes.annotate(
        text, at, xytext=(0, 1), textcoords="offset points", ha="center", va="bottom", fontsize=7
    )


def _dress(
    axes: Axes, panel: Panel, stacks: Stacks, queries: Sequence[str], highest: float
) -> None:
    if highest > stacks.tallest:
        axes.set_ylim(top=stacks.tallest * 1.12)
    for line in stacks.lines:
        if line <= _IN_SIGHT * highest:
            axes.axhline(line, color=INK, linewidth=1, linestyle="--")
    axes.axhline(0, color=INK, linewidth=0.8)
    low, high = axes.get_ylim()
    if stacks.text is not percent:  # ticks that are round in KiB, MiB and GiB
        step = float(2 ** math.floor(math.log2((high - low) / 5)))
        axes.yaxis.set_major_locator(MultipleLocator(step))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: stacks.text(abs(value))))
    axes.set_xticks(range(len(queries)), queries)
    axes.set_xlim(-0.6, len(queries) - 0.4)
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("query")
    axes.set_ylabel(stacks.title)
    panel_title(axes, panel)


def _legends(axes: Axes, panel: Panel, parts: Sequence[Part]) -> None:
    handles = [
        Patch(facecolor=part.colour, hatch=part.hatch, edgecolor="white", label=part.name)
        for part in parts
    ]
    first = axes.legend(
        handles=handles,
        bbox_to_anchor=(0, -0.16),
        loc="upper left",
        ncols=_LEGEND_COLUMNS,
        borderaxespad=0,
    )
    if len(panel.arms) > 1:
        axes.add_artist(first)
        rows = -(-len(parts) // _LEGEND_COLUMNS)
        letters(axes, [arm.marked_name for arm in panel.arms], -0.17 - 0.08 * rows)
