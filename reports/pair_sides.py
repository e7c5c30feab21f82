"""The two sides of a ratio: what a pair query selects for each, and which of it is alike.

The ratios that papers print, and those that test a paper's conclusion, are found in these steps.
A query (harness.paper.pair_query) states labels of both sides, and of side A (``over``) and of
side B (``under``) alone.

- **Points of microbenchmarks** have labels of their own and of their device. The devices of both
  sides come first (``device_pairs``): they differ in the device's labels that the query compares
  and are alike in the others; without such labels both sides are of one device. Then each side
  has the points that meet its labels (``selected``), and two points are a pair where they are
  alike in all labels but those compared (``pairs``). From pairs reports.micro.point_ratios forms
  ratios. Nothing is picked where two points stand at one place: then there is no ratio, and
  ``UnderivedError`` says why.
- **Runs** of both sides meet the labels as conditions of selectors (reports.select). Series of
  them match where they are alike in all facts but those compared (``run_matches``, by
  reports.matching, which pairs their repeats by block, too). ``harness compare`` has the same
  steps from its selectors on.
- **Series of published.csv** (``mysql/pmem-both over ssd-both``) name two arms of a panel
  (``arms_of``), or two lines of a sweep at a value of its parameter (``lines_of``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from msgspec import structs

from harness.paper.pair_query import Having, PairQuery, meets
from harness.sequences import matched
from harness.store.host import HostFacts
from harness.store.runs import StoredRun
from harness.units import format_bytes
from reports.arm import Arm
from reports.formatting import significant
from reports.matching import Match, find
from reports.micro.devices import (
    NAMES,
    NEAR_NODES,
    STATES,
    WRITE_RATIO,
    Device,
    main_memory,
)
from reports.micro.instructions import kind_of
from reports.micro.sweeps import CACHES, FOLLOW, beyond_caches
from reports.run_configuration import Facts, dimension
from reports.select import having
from reports.series import Panel
from reports.statistics import Missing
from reports.sweeps import Line, Sweep
from reports.values import Point

Pair = tuple[Point, Point]
#: What memory of one tier lies on, and that of another cannot: reported where it differs.
PAGES = "pages"
_MOST_NUMBERS = 6
_NEAR = "|".join(NEAR_NODES)


class UnderivedError(Exception):
    """A quantity cannot be derived from what was measured."""

    def __init__(self, code: str, context: str = "") -> None:
        self.missing = Missing(code, context)
        super().__init__(": ".join(filter(None, (code, context))))


# Devices ---------------------------------------------------------------------------

#: Labels of devices, and those that may differ with each.
_DEVICE_LABELS: Mapping[str, tuple[str, ...]] = {
    "medium": ("tier", "dimms", "dimm_bytes"),
    "dimms": ("tier",),
    "dimm_bytes": ("host", "tier"),
    **dict.fromkeys(STATES, ()),
}
_DRAM = "dram"


@dataclass(frozen=True)
class DevicePair:
    """The devices of side A and side B; one device where no label of devices is ``compared``."""

    over: Device
    under: Device
    compared: tuple[str, ...] = ()

    @property
    def device(self) -> Device:
        """Return the device whose ratio it is: side A's, unless that is DRAM."""
        return self.under if is_dram(self.over) else self.over

    @property
    def sides(self) -> tuple[Device, Device]:
        return self.over, self.under

    @property
    def inverse(self) -> DevicePair:
        return DevicePair(self.under, self.over, self.compared)

    def __str__(self) -> str:
        """Return what they differ in: ``dimms 6 over 1``."""
        texts = [
            (label, *(value_text(label, labels_of(side).get(label, "")) for side in self.sides))
            for label in self.compared
        ]
        return ", ".join(f"{label} {of_a} over {of_b}" for label, of_a, of_b in texts)


def device_pairs(query: PairQuery, devices: Sequence[Device]) -> Iterator[DevicePair]:
    """Yield the devices of both sides that are alike in all labels but those compared.

    Labels of devices: ``medium`` (``dram``, ``memory_mode``, else ``other``), ``dimms`` (number of
    interleaved ones), ``dimm_bytes``, and the states of hosts (``prefetchers``, ``memory_bus``).
    Where A has more of the metric, each two devices are a pair in one order.
    """
    compared = devices_compared(query)
    over, under = map(_of_devices, query.sides)
    aside = {*compared, *(label for name in compared for label in _DEVICE_LABELS[name])}
    labelled = [(device, labels_of(device)) for device in devices]
    for (i, (a, of_a)), (j, (b, of_b)) in product(enumerate(labelled), repeat=2):
        fits = _meets(of_a, over) and _meets(of_b, under)
        if not compared:
            if a is b and fits:
                yield DevicePair(a, b)
        elif (
            fits
            and all(of_a.get(label) == of_b.get(label) for label in {*of_a, *of_b} - aside)
            and any(of_a.get(label) != of_b.get(label) for label in compared)
            and (query.more not in _DEVICE_LABELS or _is_more(of_a, of_b, query.more))
            and (not query.more or query.more != query.metric or i < j)
        ):
            yield DevicePair(a, b, tuple(compared))


def devices_in_column(query: PairQuery, device: Device, others: Sequence[Device]) -> DevicePair:
    """Return the devices of the ratio that stands in the column of a device.

    UnderivedError where it stands in another column, or where no device is the other side.
    """
    every = [device, *(other for other in others if other is not device)]
    of_device = [p for p in device_pairs(query, every) if device in p.sides]
    mine = [pair for pair in of_device if pair.device is device]
    if len(mine) == 1:
        return mine[0]
    if mine:
        names = (p.under.name if p.over is device else p.over.name for p in mine)
        raise UnderivedError("ambiguous", f"{' and '.join(names)} are the other side")
    if of_device:
        raise UnderivedError("other-side", "the other side")
    labels, compared = labels_of(device), devices_compared(query)
    wanted = []
    for side in map(_of_devices, query.sides):
        compared += (name for name in side if name not in compared)
        if not _meets(labels, side):
            named = (f"{name} {value_text(name, text.rstrip('*'))}" for name, text in side.items())
            wanted.append(f"with {' and '.join(named)}")
    here = (value_text(name, labels.get(name, "")) for name in compared)
    what = " and one ".join(dict.fromkeys(wanted)) or f"with other {' and '.join(compared)}"
    raise UnderivedError("needs", f"a tier {what}, here: {', '.join(here)}")


# Points -----------------------------------------------------------------------------

#: How the operations of a chain store: ``w_64_cache_128``.
_STORES = re.compile(r"(?<=_)(?:cacheinv|cache|nocache|none)(?=_|,|$)")


def _loads(point: Point) -> str:
    """Return whether a point is of loads alone or of stores alone, as an end of a mix is."""
    if point["operation"] == "mixed":
        return {"1": "yes", "0": "no"}.get(point["read_share"], "")
    return "yes" if point["operation"] == "load" else "no"


def _store(point: Point) -> str:
    """Return the kind of store, of a mix the one in it; empty for loads."""
    if point["operation"] == "mixed":
        return "" if point["read_share"] == "1" else point["store"]
    return "" if point["operation"] == "load" else kind_of(point)


def _done(point: Point) -> str:
    """Return how a page is flushed, or by which instructions a range is accessed."""
    named = point["method"] or point["writer"] or point["index"]
    return point["method"] if named else kind_of(point)


#: Labels of queries and of names that follow from others.
LABELS: Mapping[str, Callable[[Point], str]] = {
    "instructions": kind_of,
    "loads": _loads,
    "store": _store,
    "done": _done,
    "chain_kind": lambda point: "update" if "w" in point["chain"] else "lookup",
    "chain_stores": lambda point: " ".join(dict.fromkeys(_STORES.findall(point["chain"]))),
}
#: Labels that follow from them, and differ with them; a fence is no part of instructions.
_FROM = {"instructions": ("operation", "flush"), "chain_stores": ("chain", "chain_stores")}
SIZE = "access_size_bytes"
FROM_FAR = "the same accesses from a far node"


def compared_labels(query: PairQuery) -> list[str]:
    """Labels of points in which both sides may differ."""
    return [label for name in query.differing for label in _FROM.get(name, (name,))]


def selected(query: PairQuery, device: Device, side: Having | None = None) -> list[Point]:
    """Points of one side: beyond the caches, of near accesses and the tier, unless a label differs.

    What modules count is theirs whatever the caches hold. UnderivedError where only caches, or only
    near accesses, were measured.
    """
    labels = {"job": "", "nodes": "", "cpus": "", "numa": _NEAR, **query.labels, **(side or {})}
    labels = {name: text for name, text in labels.items() if name not in _DEVICE_LABELS}

    def meeting(point: Point) -> bool:
        return meets(lambda name: LABELS[name](point) if name in LABELS else point[name], labels)

    points = [p for p in device.points if p.metric == query.metric and meeting(p)]
    if query.metric != WRITE_RATIO:
        points = uncached(device, points)
    if not points and labels["numa"] == "far":
        raise UnderivedError("needs", FROM_FAR)
    return points


def point_pairs(query: PairQuery, over: Device, under: Device) -> list[Pair]:
    """Pairs of the points of two devices, or of one; UnderivedError where there is none."""
    a, b = _side(query, over, query.over), _side(query, under, query.under)
    return pairs(a, b, *compared_labels(query))


def _side(query: PairQuery, device: Device, side: Having) -> list[Point]:
    """Points of one side, with the number of threads of both; UnderivedError of other numbers."""
    labels = dict(query.labels)
    threads = labels.pop("threads", "")
    points = selected(structs.replace(query, labels=labels), device, side)
    return with_threads(points, int(threads)) if threads else points


def uncached(device: Device, points: Iterable[Point]) -> list[Point]:
    """Return the points beyond the caches; UnderivedError where only others were measured."""
    measured = list(points)
    beyond = beyond_caches(device, measured)
    if measured and not beyond:
        least = format_bytes(CACHES * device.llc_bytes)
        raise UnderivedError("needs", f"a range of {least}, which no cache holds")
    return beyond


def with_threads(points: Sequence[Point], threads: int) -> list[Point]:
    """Return the points with as many threads; UnderivedError where only others were measured."""
    with_count = [p for p in points if p.number("threads") == threads]
    if points and not with_count:
        counts = numbers_text(points, "threads")
        raise UnderivedError("needs", f"{threads} threads, measured with {counts}")
    return with_count


def pairs(a: Sequence[Point], b: Sequence[Point], *apart: str) -> list[Pair]:
    """Points of both sides that are alike in all labels but ``apart`` and those that follow.

    UnderivedError where a side is empty, none are alike, or several stand at one place.
    """
    if not a or not b:
        raise UnderivedError("one-sided" if a or b else "not-measured")
    # Two measurements that did the same make a pair each; only else one is paired with another.
    for aside in (apart, (*apart, "measurement")):
        on_a, on_b = (((_place(point, aside), point) for point in side) for side in (a, b))
        if places := matched(on_a, on_b):
            return [(only(same), only(other)) for same, other in places.values()]
    raise UnderivedError("unlike-sides", _difference(a, b, apart))


def _place(point: Point, apart: Sequence[str]) -> tuple[object, ...]:
    left_out = ("configuration", "job", *FOLLOW, PAGES, *apart)
    others = frozenset(item for item in point.labels.items() if item[0] not in left_out)
    chain = _STORES.sub("", point["chain"]) if "chain_stores" in apart else ""
    return point.settings, chain, others


def only(points: Sequence[Point]) -> Point:
    """Return the single point; UnderivedError where there are several."""
    if len(points) == 1:
        return points[0]
    names = list(dict.fromkeys(p["configuration"] for p in points))
    why = f"{' and '.join(names)} are distinguished by no label"
    if len(names) == 1:
        why = f"{names[0]} was set differently in several runs, report one of them"
    raise UnderivedError("ambiguous", why)


def _difference(a: Sequence[Point], b: Sequence[Point], apart: Sequence[str]) -> str:
    """``range: 4 GiB and 2 GiB``: the labels of which both sides have no value in common."""
    left_out = (*NAMES, *FOLLOW, PAGES, *apart)
    labels = dict.fromkeys(label for p in (*a, *b) for label in p.labels if label not in left_out)
    differing = []
    for label in labels:
        sides = [list(dict.fromkeys(label_of(p, label) or "none" for p in side)) for side in (a, b)]
        if not set(sides[0]) & set(sides[1]):
            differing.append(
                f"{label.removesuffix('_bytes').replace('_', ' ')}: "
                f"{'/'.join(sides[0])} and {'/'.join(sides[1])}"
            )
    return "; ".join(differing) or "their settings"


def label_of(point: Point, label: str) -> str:
    """Return a label as tables show it, of bytes with their unit."""
    if label in LABELS:
        return LABELS[label](point)
    size = label.endswith("_bytes") and point.number(label)
    return format_bytes(point.number(label)) if size else point[label]


def numbers_text(points: Iterable[Point], label: str) -> str:
    """``1, 2, 4``: which numbers of a label there are; ``none``."""
    numbers = sorted({p.number(label) for p in points})
    texts = [f"{n:g}" if n == int(n) else significant(n) for n in numbers]
    if len(texts) > _MOST_NUMBERS:
        return f"{texts[0]} to {texts[-1]}"
    return ", ".join(texts) or "none"


# Labels of devices -----------------------------------------------------------------


def labels_of(device: Device) -> Mapping[str, str]:
    """Labels of a device: see ``device_pairs``; those that are unknown are empty."""
    host = _host(device)
    cached = device.tier is not None and device.tier.kind == "numa"
    behind_dram = cached and {main_memory(run) for run in device.runs} == {"Memory"}
    return {
        "host": device.host,
        "tier": device.tier.name if device.tier else device.tier_name,
        "cpu": str(host.cpu.model) if host else "",
        "medium": _DRAM if is_dram(device) else "memory_mode" if behind_dram else "other",
        "dimms": f"{ways(device) or ''}",
        "dimm_bytes": f"{_dimm_bytes(host) or ''}",
        **{name.replace(" ", "_"): value for name, value in device.state.items()},
    }


def is_dram(device: Device) -> bool:
    """Memory of nodes with processors, on a host whose main memory is DRAM."""
    tier = device.tier
    if device.source:
        return device.tier_name == _DRAM
    if tier is None or tier.kind != "numa" or device.emulated:
        return False
    host = _host(device)
    nodes = tier.nodes or (tier.node,)
    with_cpus = {node.node for node in (host.numa_nodes if host else ()) if node.cpus}
    return set(nodes) <= with_cpus and {main_memory(run) for run in device.runs} == {"DRAM"}


def ways(device: Device) -> int | None:
    """Over how many DIMMs its region is interleaved; None where it is on none, or emulated."""
    return device.tier.facts.interleave_ways if device.tier and not device.emulated else None


def _host(device: Device) -> HostFacts | None:
    """Return the host as in the latest manifest; None where no run has one."""
    manifests = [run.manifest for run in device.runs if run.manifest]
    return manifests[-1].host if manifests else None


def _dimm_bytes(host: HostFacts | None) -> int:
    """Return the size of the host's DIMMs as the firmware lists them; 0 where they differ."""
    listed = host.dimms if host else ()
    sizes = {module["size_bytes"] for module in listed if module.get("technology") == "Optane"}
    return int(sizes.pop()) if len(sizes) == 1 else 0


def devices_compared(query: PairQuery) -> list[str]:
    """Labels of devices that a query compares."""
    names = dict.fromkeys((*query.differing, query.more))
    return [name for name in names if name in _DEVICE_LABELS]


def _of_devices(side: Having) -> Having:
    return {name: text for name, text in side.items() if name in _DEVICE_LABELS}


def _meets(labels: Mapping[str, str], side: Having) -> bool:
    return meets(lambda name: labels.get(name, ""), side)


def _is_more(of_a: Mapping[str, str], of_b: Mapping[str, str], label: str) -> bool:
    a, b = (_rank(labels.get(label, "")) for labels in (of_a, of_b))
    return a is not None and b is not None and a > b


def _rank(text: str) -> float | None:
    """Rank a label: by its first number (``18000 mW``), or enabled above disabled."""
    match = re.search(r"\d+(?:\.\d+)?", text)
    return float(match[0]) if match else {"enabled": 1.0, "disabled": 0.0}.get(text)


def value_text(label: str, text: str) -> str:
    """Return the value of a device's label, of bytes with their unit; ``none`` without one."""
    return format_bytes(int(text)) if text and label.endswith("_bytes") else text or "none"


# Runs, and published series ----------------------------------------------------------


def run_matches(
    query: PairQuery, runs: Sequence[StoredRun], run_facts: Mapping[Path, Facts]
) -> tuple[Match, ...]:
    """Match the series of both sides, of which ``b`` is side A; none where a side has no run."""
    over, under = (having(runs, side) for side in query.sides)
    if not over or not under:
        return ()
    return find(under, over, run_facts, [dimension(name) for name in query.differing]).matches


def arms_of(panel: Panel, sides: Sequence[str]) -> list[Arm]:
    """Return the arms of a panel that a series names, of which a ratio has two; all or none."""
    by_name = {arm.value: arm for arm in reversed(panel.arms)}
    return [by_name[side] for side in sides] if by_name.keys() >= {*sides} else []


def lines_of(
    sweep: Sweep, sides: Sequence[str], value: int
) -> Iterator[Sequence[tuple[Line, int]]]:
    """Yield the lines of an arm or of a ratio, each with the value of the parameter that is read.

    ``pmem-both over ssd-both`` are two arms at the same value; ``pmem-both over threads=16``
    is one arm at two values.
    """
    parameter, _, other = sides[-1].partition("=")
    if f"params.{parameter}" == sweep.parameter and other.isdigit():
        yield from (((line, value), (line, int(other))) for line in sweep.meant_by(sides[0]))
    else:
        of_sides = ([(line, value) for line in sweep.meant_by(side)] for side in sides)
        yield from product(*of_sides)
