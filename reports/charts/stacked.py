"""Stacked bars: operator times, waits, bytes per tier, memory and bandwidth of queries.

VLDB 2023, §4.1, §4.4 and Fig. 3. The bars of a group are the arms, named by their letters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from harness.metrics import load_of
from harness.units import format_bytes, format_ns
from harness.waits import TOLERANCE
from reports.arm import Arm
from reports.charts.drawing import (
    ARM_COLOURS,
    INK,
    OPERATOR_STYLES,
    RESOURCE_STYLES,
    bar_places,
    finish,
    letters,
    new_figure,
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
class BarSegment:
    """One piece of every bar, stacked upwards, or hanging below the axis (``down``)."""

    name: str
    colour: str
    hatch: str = ""
    down: bool = False


#: A bar: the name of its arm, and its group (a query).
Place = tuple[str, str]


@dataclass(frozen=True)
class Stacks:
    """Contents of a chart; ``bars``: the heights of all parts.

    ``binary``: whether heights are bytes. ``notes``: what is written on a bar, and
    ``marked`` what their mark means. ``lines``:
    horizontal ones. ``tallest``: bars are cut there.
    """

    title: str
    caption: str
    parts: Sequence[BarSegment]
    bars: Mapping[Place, Sequence[float]]
    text: Callable[[float], str]
    binary: bool = False
    notes: Mapping[Place, str] = field(default_factory=dict)
    marked: str = ""
    lines: Sequence[float] = ()
    tallest: float = math.inf


def _queries(panel: Panel) -> dict[Place, tuple[Arm, QueryBreakdown]]:
    breakdowns = [(arm, query) for arm in panel.arms for query in query_breakdowns(arm).values()]
    return {(arm.name, query.query): (arm, query) for arm, query in breakdowns}


def operator_times(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Draw each query's measured time, the first arm with a plan as 100 %; None without plans."""
    queries, base = _queries(panel), dict[str, float]()
    for _, query in queries.values():
        if query.kinds and query.duration:
            base.setdefault(query.query, query.duration.median)
    stacks = Stacks(
        "Where the time goes",
        "Measured times, of the first placement as 100 %, divided as the operators' own times in a "
        "second, profiled execution from the same cache state. Planning is in “other”; what that "
        "execution spent elsewhere is “outside the operators”.",
        [BarSegment(kind_title(kind), *style) for kind, style in OPERATOR_STYLES.items()],
        {
            place: [
                query.kinds.get(kind, 0.0) / base.get(query.query, 1.0) for kind in OPERATOR_STYLES
            ]
            for place, (_, query) in queries.items()
        },
        percent,
        notes={p: MARK for p, (_, query) in queries.items() if query.fit and not query.fit.fits},
        marked="the plan's times are more than 10 % off the measured time before scaling; the "
        "table of queries says why",
        lines=(1.0,),
        tallest=_TALLEST,
    )
    return draw_stacks(panel, stacks, name)


def tier_bytes(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Read (up) and written (down) per tier whose device counts; None where none does."""
    queries = _queries(panel)
    tiers = sorted(
        {tier for _, query in queries.values() for tier in (*query.read, *query.written)}
    )
    parts: list[BarSegment] = []
    for index, tier in enumerate(tiers):
        colour = ARM_COLOURS[index % len(ARM_COLOURS)]
        parts.append(BarSegment(f"read from {tier}", colour))
        parts.append(BarSegment(f"written to {tier}", colour, "//", down=True))
    written = any(any(query.written.values()) for _, query in queries.values())
    uncounted = not all(query.read or query.written for _, query in queries.values())
    stacks = Stacks(
        "Bytes per tier",
        "Bytes that the tiers' devices moved while each query ran, whoever caused them."
        + " Those written are below the axis." * written
        + " DAX and tmpfs pass no block layer and have no count." * uncounted,
        parts,
        {
            place: [moved.get(tier, 0.0) for tier in tiers for moved in (query.read, query.written)]
            for place, (_, query) in queries.items()
        },
        format_bytes,
        binary=True,
        notes={place: MARK for place, (_, query) in queries.items() if query.moved_by_others},
        marked="far more than the engine moved",
    )
    return draw_stacks(panel, stacks, name)


def working_set(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Working sets and spills against the memory there was; None where no set is known."""
    queries = _queries(panel)
    if not any(query.size("working_set") for _, query in queries.values()):
        return None
    spilled = any(query.size("spilled") for _, query in queries.values())
    stacks = Stacks(
        "Working set and spill",
        "What each query touched from a cold start, at least: the greater of the file bytes that "
        "came into the page cache and the peak of private memory."
        + " Below the axis: bytes spilled to temporary files."
        * spilled,
        [
            BarSegment("working set, at least", ARM_COLOURS[0]),
            BarSegment("spilled", ARM_COLOURS[5], "//", down=True),
        ],
        {
            place: [query.size(name) or 0.0 for name in ("working_set", "spilled")]
            for place, (_, query) in queries.items()
        },
        format_bytes,
        binary=True,
        notes={
            place: MARK
            for place, arm_and_query in queries.items()
            if bound_bytes(*arm_and_query) is not None
        },
        marked="the memory limit was reached and bounds it",
        lines=sorted({run.result.memory_bytes for run in panel.runs if run.result.memory_bytes}),
    )
    return draw_stacks(panel, stacks, name)


def memory_bandwidth(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Mean DRAM bandwidth of each query, reads and writes stacked (VLDB 2023, Fig. 3)."""

    def rate(arm: Arm, direction: str, query: str) -> float:
        metric = f"query_dram_{direction}_bytes_per_s"
        point = arm.point(Quantity(metric, (("query", query),)))
        return point.median if point else 0.0

    stacks = Stacks(
        "DRAM bandwidth",
        "Mean bandwidth at the memory controllers while each query ran, of the whole host (VLDB "
        "2023, Fig. 3). In Memory Mode it includes DRAM's work as a cache.",
        [BarSegment("DRAM reads", ARM_COLOURS[0]), BarSegment("DRAM writes", ARM_COLOURS[1], "//")],
        {
            place: [rate(arm, direction, query.query) for direction in ("read", "write")]
            for place, (arm, query) in _queries(panel).items()
        },
        lambda value: quantity_text(value, "B/s"),
        binary=True,
    )
    return draw_stacks(panel, stacks, name)


# Waits --------------------------------------------------------------------------

_WAITS = "Where the time goes, by resource"
_OFF = "waits and processor time are more than 10 % off the latency"
_ACCOUNTED = ("wait_accounted_share", "query_wait_accounted_share")
_RESOURCES = [BarSegment(resource, *style) for resource, style in RESOURCE_STYLES.items()]


def query_waits(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Draw each query's time, the first arm that has it as 100 %; None without waits."""
    waits, base = _waits(panel, metric), dict[str, float]()
    if all(parts.keys() <= {"other"} for parts in waits.values()):
        return None
    for (_, query), parts in waits.items():
        base.setdefault(query, sum(parts.values()))
    stacks = Stacks(
        _WAITS,
        "The query's time, of the first placement as 100 %, by what its sessions waited for in the "
        "timed execution; parallel sessions are scaled to it.",
        _RESOURCES,
        {
            (arm, query): [parts.get(part.name, 0.0) / (base[query] or 1.0) for part in _RESOURCES]
            for (arm, query), parts in waits.items()
        },
        percent,
        notes=_off(panel, "query_wait_accounted_share"),
        marked=_OFF,
        lines=(1.0,),
        tallest=_TALLEST,
    )
    return draw_stacks(panel, stacks, name)


def operation_waits(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """The mean operation of a window, one bar for each arm; None without waits."""
    stacks = Stacks(
        f"{_WAITS} (mean time of an operation)",
        "The mean operation of the measurement window, by what the sessions waited for; "
        "medians over the runs.",
        _RESOURCES,
        {
            place: [parts.get(part.name, 0.0) for part in _RESOURCES]
            for place, parts in _waits(panel, metric).items()
        },
        format_ns,
        notes=_off(panel, "wait_accounted_share"),
        marked=_OFF,
    )
    return draw_stacks(panel, stacks, name)


def _waits(panel: Panel, metric: str) -> dict[Place, dict[str, float]]:
    """Medians over the runs by resource (empty where it has none); of a window, the query is ""."""
    waits: dict[Place, dict[str, float]] = {}
    for arm in panel.arms:
        for quantity, point in arm.of_metric(metric).items():
            place = arm.name, quantity.label("query") or ""
            waits.setdefault(place, {})[quantity.label("resource") or ""] = point.median
    return waits


def _off(panel: Panel, metric: str) -> dict[Place, str]:
    shares = _waits(panel, metric).items()
    return {
        p: MARK
        for p, by_resource in shares
        if any(abs(1 - v) > TOLERANCE for v in by_resource.values())
    }


# Drawing ------------------------------------------------------------------------


def draw_stacks(panel: Panel, stacks: Stacks, name: str) -> Drawing | None:
    """One group for each query, one stacked bar for each arm; None where all is nothing."""
    shown = [at for at in range(len(stacks.parts)) if any(b[at] > 0 for b in stacks.bars.values())]
    if not shown:
        return None
    groups = sorted({group for _, group in stacks.bars}, key=natural)
    with style():
        figure = query_figure(len(groups), len(panel.arms))
        axes = figure.add_subplot()
        highest = 0.0
        for index, arm in enumerate(panel.arms):
            at, width = bar_places(index, len(panel.arms), len(groups))
            letter = chr(ord("a") + index) if len(panel.arms) > 1 else ""
            for x, group in zip(at, groups, strict=True):
                if heights := stacks.bars.get((arm.name, group)):
                    parts = [(stacks.parts[part], heights[part]) for part in shown]
                    top = _stack(axes, (x, width * 0.9), parts)
                    highest = max(highest, top)
                    limited = (
                        breakdown := query_breakdowns(arm).get(group)
                    ) and breakdown.duration is None
                    remark = stacks.notes.get((arm.name, group), "")
                    if top or remark or limited:
                        text = f"limit\n{letter}" if limited else letter
                        _name_bar(axes, x, top, text + remark, stacks.tallest)
        _dress(axes, panel, stacks, groups, highest)
        _legends(axes, panel, [stacks.parts[part] for part in shown])
        title = f"{stacks.title}: {panel.title}"
        caption = f"{stacks.caption} {MARK}: {stacks.marked}." if stacks.notes else stacks.caption
        return finish(figure, name, title, title, caption)


def _stack(
    axes: Axes, place: tuple[float, float], parts: Iterable[tuple[BarSegment, float]]
) -> float:
    """One bar; its top. ``place``: its middle and its width."""
    ends = {False: 0.0, True: 0.0}
    for part, value in parts:
        height = -value if part.down else value
        bars = axes.bar(place[0], height, place[1], bottom=ends[part.down], color=part.colour)
        for patch in bars:
            patch.set(hatch=part.hatch, edgecolor="white", linewidth=0.4)
        ends[part.down] += height
    return ends[False]


def _name_bar(axes: Axes, x: float, top: float, text: str, tallest: float) -> None:
    """The arm's letter above its bar, with what must be known of it."""
    if top > tallest:
        text = f"{significant(top)}×\n{text}"
    above: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom"}
    axes.annotate(text, (x, min(top, tallest)), xytext=(0, 1), fontsize=7, **above)


def _dress(axes: Axes, panel: Panel, stacks: Stacks, groups: Sequence[str], highest: float) -> None:
    if highest > stacks.tallest:
        axes.set_ylim(top=stacks.tallest * 1.12)
    for line in stacks.lines:
        if line <= _IN_SIGHT * highest:
            axes.axhline(line, color=INK, linewidth=1, linestyle="--")
    axes.axhline(0, color=INK, linewidth=0.8)
    low, high = axes.get_ylim()
    if stacks.binary:  # ticks that are round in KiB, MiB and GiB
        step = float(2 ** math.floor(math.log2((high - low) / 5)))
        axes.yaxis.set_major_locator(MultipleLocator(step))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: stacks.text(abs(value))))
    axes.set_xticks(range(len(groups)), groups)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("query" if any(groups) else "")
    axes.set_ylabel(stacks.title)
    panel_title(axes, panel)


def _legends(axes: Axes, panel: Panel, parts: Sequence[BarSegment]) -> None:
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


# On each placement, a bar for each arm by resource ----------------------------------------------

#: A piece of this share of the longest bar has its time written in it.
_NAMED_SHARE = 0.12
#: Resources without a piece of this share are left out.
_SHOWN_SHARE = 0.002
_LABEL_CHARACTERS = 18
_DARK = ("#0072B2", "#009E73", "#D55E00", "#666666")


def resource_bars(panel: Panel, arms: Sequence[Arm], name: str) -> Drawing | None:
    """The mean operation, or all queries together, on these arms; None without waits on each."""
    times = [_resources(arm) for arm in arms]
    attributed = (resource != "other" for of_arm in times for resource, ns in of_arm.items() if ns)
    if not all(times) or not any(attributed):
        return None
    off = {name for metric in _ACCOUNTED for name, _ in _off(panel, metric)}
    longest = max(sum(of_arm.values()) for of_arm in times)
    least = _SHOWN_SHARE * longest
    shown = [r for r in RESOURCE_STYLES if any(of_arm.get(r, 0.0) > least for of_arm in times)]
    with style():
        figure = new_figure(6.4, 1.15 + 0.42 * len(arms))
        axes = figure.add_subplot()
        left = [0.0] * len(arms)
        for resource in shown:
            colour, hatch = RESOURCE_STYLES[resource]
            widths = [of_arm.get(resource, 0.0) for of_arm in times]
            axes.barh(
                range(len(arms)), widths, 0.7, left, color=colour, hatch=hatch, edgecolor="white",
                linewidth=0.4, label=resource,
            )  # fmt: skip
            for y, (start, width) in enumerate(zip(left, widths, strict=True)):
                if width > _NAMED_SHARE * longest:
                    ink = "white" if colour in _DARK else "black"
                    box = {"facecolor": colour, "edgecolor": "none", "pad": 1.0}
                    axes.text(
                        start + width / 2, y, format_ns(width), color=ink, fontsize=8,
                        ha="center", va="center", bbox=box if hatch else None,
                    )  # fmt: skip
            left = [start + width for start, width in zip(left, widths, strict=True)]
        for y, (arm, end) in enumerate(zip(arms, left, strict=True)):
            axes.text(
                end, y, f"  {format_ns(end)}{MARK * (arm.name in off)}", va="center", fontsize=9
            )
        labels = [fill(arm.marked_name, _LABEL_CHARACTERS, break_on_hyphens=False) for arm in arms]
        axes.set_yticks(range(len(arms)), labels)
        axes.set_ylim(len(arms) - 0.5, -0.5)
        axes.set_xlim(0, 1.16 * longest)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_ns(value)))
        axes.grid(visible=False, axis="y")
        if shown:
            figure.legend(loc="outside lower center", ncols=4, fontsize=9)
        load = load_of(panel.workload, panel.params)
        of = f"the mean {load.noun}" if load else "all queries"
        title = f"Where the time of {of} goes: {panel.title}"
        caption = "By what its sessions wait for; medians over the runs."
        if off & {arm.name for arm in arms}:
            caption += f" {MARK}: what was counted is more than {TOLERANCE:.0%} off the latency."
        return finish(figure, name, title, title, caption)


def _resources(arm: Arm) -> Mapping[str, float]:
    """Medians over the runs, of queries their sum."""
    times: dict[str, float] = {}
    for quantity, point in (arm.of_metric("wait_ns") or arm.of_metric("query_wait_ns")).items():
        resource = quantity.label("resource") or ""
        times[resource] = times.get(resource, 0.0) + point.median
    return times
