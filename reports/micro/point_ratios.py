"""Both sides of a published ratio: their devices, and their points.

The devices (``sides_of``) are one device, two tiers of a host, or one tier in two states. The
points (``ratios_of``) are those of the query that are alike in everything but what is compared.
Nothing is picked where two points could stand at the same place: then there is no ratio, and it is
said why (``UnderivedError``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from harness.paper.pair_query import Having, PairQuery, meets
from harness.sequences import grouped, matched
from harness.store.host import NumaNode
from harness.store.result import Label
from harness.units import counted, format_bytes
from reports.formatting import significant
from reports.micro.devices import NAMES, NEAR_NODES, WRITE_RATIO, Device, best, main_memory
from reports.micro.instructions import kind_of
from reports.micro.sweeps import CACHES, FOLLOW, beyond_caches, largest
from reports.statistics import Missing, Ratio
from reports.trials import best_first, tested
from reports.values import Point

Pair = tuple[Point, Point]
#: What memory of one tier lies on, and that of another cannot: reported where it differs.
PAGES = "pages"
_MOST_NUMBERS = 6
_NEAR = "|".join(NEAR_NODES)
#: What only names a point; a job is no name, but what ran.
_NAMING = ("measurement", "configuration")


class UnderivedError(Exception):
    """A quantity cannot be derived from what was measured."""

    def __init__(self, code: str, context: str = "") -> None:
        self.missing = Missing(code, context)
        super().__init__(": ".join(filter(None, (code, context))))


@dataclass(frozen=True)
class PointRatio:
    """One point over another that is alike. ``name``: which it is of several.

    ``pairs``: all those of which these are the best.
    """

    over: Point
    under: Point
    name: str = ""
    pairs: tuple[Pair, ...] = ()

    @property
    def value(self) -> float:
        """See ``Point.compared``: times by their mean, as the papers have it."""
        return self.over.compared / self.under.compared

    @property
    def inverse(self) -> PointRatio:
        """The other side over this one."""
        pairs = tuple((under, over) for over, under in self.pairs)
        return PointRatio(self.under, self.over, self.name, pairs)

    def tested(self, bound: float, choices: int = 1) -> Ratio | Missing:
        """Against ``bound``, with its interval; paired where both were measured side by side.

        Of the best of several pairs: every other repeat chooses them, the others test them.
        ``choices``: of how many it was chosen on these repeats; p and interval hold for each of
        them (Bonferroni), so for the chosen one.
        """
        a, b = self.over, self.under
        if len(self.pairs) < 2 or not a.samples:
            return tested(a.samples, b.samples, bound, a.alongside(b), max(1, choices))
        sides = zip(*self.pairs, strict=True)
        lower = self.over.better == "lower"
        a, b = (side[best_first([p.samples for p in side], lower)[0]] for side in sides)
        return tested(a.samples, b.samples, bound, a.alongside(b), chosen=True)


# Queries of points -----------------------------------------------------------------


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
_LABELS: Mapping[str, Callable[[Point], str]] = {
    "instructions": kind_of,
    "loads": _loads,
    "store": _store,
    "done": _done,
    "chain_kind": lambda point: "update" if "w" in point["chain"] else "lookup",
}
#: Which labels differ where instructions do; their fence is no part of them.
_OF_INSTRUCTIONS = ("operation", "flush")
FROM_FAR = "the same accesses from a far node"
SIZE = "access_size_bytes"
#: All that a point did.
WHOLE = (
    "measurement",
    "done",
    "pattern",
    SIZE,
    "dirty_lines",
    *("writer", "entry_bytes", "index", "workload", "discipline", "fence"),
    "threads",
)


def name_of(point: Point, labels: Sequence[str]) -> str:
    """Name a point by labels: ``granularity ntstore random 256 B, 4 threads``."""
    words = filter(None, (_word(point, label) for label in labels if label != "threads"))
    threads = [threads_of(point)] if "threads" in labels else []
    return ", ".join(filter(None, (" ".join(words), *threads)))


def _word(point: Point, label: str) -> str:
    text = _LABELS[label](point) if label in _LABELS else _text(point, label)
    if label == "dirty_lines" and text:
        return f"{text} dirty lines"
    return text.replace("_", " ") if label == "measurement" else text


def threads_of(point: Point) -> str:
    """Return a point's number of threads: ``4 threads``."""
    return counted(int(point.number("threads")), "thread")


def selected(query: PairQuery, device: Device, side: Having | None = None) -> list[Point]:
    """Points of one side: beyond the caches, and of near accesses unless a label says otherwise.

    What modules count is theirs whatever the caches hold. UnderivedError where only caches, or only
    near accesses, were measured.
    """
    labels = {"job": "", "numa": _NEAR, **query.labels, **(side or {})}

    def meeting(point: Point) -> bool:
        return meets(lambda name: _LABELS[name](point) if name in _LABELS else point[name], labels)

    points = [p for p in device.points if p.metric == query.metric and meeting(p)]
    if query.metric != WRITE_RATIO:
        points = uncached(device, points)
    if not points and labels["numa"] == "far":
        raise UnderivedError("needs", FROM_FAR)
    return points


def ratios_of(query: PairQuery, over: Device, under: Device) -> list[PointRatio]:
    """Ratios of the points of two devices, or of one; UnderivedError where there is none."""
    a, b = _side(query, over, query.over), _side(query, under, query.under)
    apart = [
        label
        for name in query.differing
        for label in (_OF_INSTRUCTIONS if name == "instructions" else (name,))
    ]
    matched = pairs(a, b, *apart)
    named = grouped((name_of(pair[0], query.each), pair) for pair in matched)
    made = [ratio for name, same in named.items() for ratio in _ratios(query, name, same, apart)]
    if not made and any(p.histogram and not p.compared for pair in matched for p in pair):
        raise UnderivedError("needs", "operations that take longer than their time stamps")
    if not made:
        raise UnderivedError("one-sided")
    return made


def _side(query: PairQuery, device: Device, side: Having) -> list[Point]:
    """Points of one side, with the number of threads of both; UnderivedError of other numbers."""
    labels = dict(query.labels)
    threads = labels.pop("threads", "")
    points = selected(structs.replace(query, labels=labels), device, side)
    return with_threads(points, int(threads)) if threads else points


def _ratios(
    query: PairQuery, name: str, same_name: Sequence[Pair], apart: Sequence[str]
) -> list[PointRatio]:
    points = [a for a, _ in same_name]
    if query.varied or not query.every:
        points = list(one_experiment(points, *apart, *query.varied))
    chosen = set(map(id, points))
    same = tuple(pair for pair in same_name if id(pair[0]) in chosen and _comparable(pair))
    if query.every or not same:
        return [PointRatio(a, b, name, ((a, b),)) for a, b in same]
    a, b = (best(side) for side in zip(*same, strict=True))
    return [PointRatio(a, b, name, same)]


def _comparable(pair: Pair) -> bool:
    """Return whether there is a quotient: a duration that time stamps hide has none on a side."""
    over, under = pair
    return bool(under.compared and (over.compared or over.histogram is None))


def clear(points: Sequence[Point]) -> Sequence[Point]:
    """These points; UnderivedError where two are equal in all labels, whatever their settings."""
    by_labels: dict[frozenset[tuple[str, Label]], list[Point]] = {}
    for point in points:
        labels = (item for item in point.labels.items() if item[0] not in (*_NAMING, *FOLLOW))
        by_labels.setdefault(frozenset(labels), []).append(point)
    for same in by_labels.values():
        _only(same)
    return points


def one_experiment(points: Iterable[Point], *varied: str) -> Sequence[Point]:
    """Return the points of the largest experiment that varies these labels, each labelled apart."""
    return clear(largest(points, *varied))


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
            return [(_only(same), _only(other)) for same, other in places.values()]
    raise UnderivedError("unlike-sides", _difference(a, b, apart))


def _place(point: Point, apart: Sequence[str]) -> tuple[str, frozenset[tuple[str, Label]]]:
    left_out = ("configuration", "job", *FOLLOW, PAGES, *apart)
    return point.settings, frozenset(i for i in point.labels.items() if i[0] not in left_out)


def _only(points: Sequence[Point]) -> Point:
    if len(points) > 1:
        raise UnderivedError("ambiguous", _ambiguous(points))
    return points[0]


def _ambiguous(points: Sequence[Point]) -> str:
    names = list(dict.fromkeys(p["configuration"] for p in points))
    if len(names) == 1:
        return f"{names[0]} was set differently in several runs, report one of them"
    return f"{' and '.join(names)} are distinguished by no label"


def _difference(a: Sequence[Point], b: Sequence[Point], apart: Sequence[str]) -> str:
    """``range: 4 GiB and 2 GiB``: the labels of which both sides have no value in common."""
    left_out = (*NAMES, *FOLLOW, PAGES, *apart)
    labels = dict.fromkeys(label for p in (*a, *b) for label in p.labels if label not in left_out)
    differing = []
    for label in labels:
        sides = [list(dict.fromkeys(_text(p, label) or "none" for p in side)) for side in (a, b)]
        if not set(sides[0]) & set(sides[1]):
            differing.append(
                f"{label.removesuffix('_bytes').replace('_', ' ')}: "
                f"{'/'.join(sides[0])} and {'/'.join(sides[1])}"
            )
    return "; ".join(differing) or "their settings"


def _text(point: Point, label: str) -> str:
    size = label.endswith("_bytes") and point.number(label)
    return format_bytes(point.number(label)) if size else point[label]


def numbers_text(points: Iterable[Point], label: str) -> str:
    """``1, 2, 4``: which numbers of a label there are; ``none``."""
    numbers = sorted({p.number(label) for p in points})
    texts = [f"{n:g}" if n == int(n) else significant(n) for n in numbers]
    if len(texts) > _MOST_NUMBERS:
        return f"{texts[0]} to {texts[-1]}"
    return ", ".join(texts) or "none"


# Devices of both sides ----------------------------------------------------------------


def sides_of(
    query: PairQuery, arm: str, device: Device, others: Sequence[Device]
) -> tuple[Device, Device]:
    """Return the devices of both sides, of a ratio in the column of ``device``.

    ``arm``: names both sides. ``others``: all devices of the report. UnderivedError where one is
    missing.
    """
    return _SIDES[query.sides](arm, device, others)


def _by_tiers(arm: str, device: Device, others: Sequence[Device]) -> tuple[Device, Device]:
    over, _, under = arm.partition(" over ")
    return tiers(over, under, device, others)


def _by_dimms(arm: str, device: Device, others: Sequence[Device]) -> tuple[Device, Device]:
    """``apache_256 6 over 1 dimms``."""
    _, over, _, under, _ = arm.split()
    a, b = (of_dimms(others, device.host, int(count)) for count in (over, under))
    return a, b


#: The state of what a host did not let the harness read.
_UNREADABLE = "unreadable"


def _by_prefetchers(arm: str, device: Device, others: Sequence[Device]) -> tuple[Device, Device]:
    """With prefetchers, and without: below 1 they cost bandwidth (PVLDB 15(11), Figure 13)."""
    states = _in_states("prefetchers", device, others)
    if set(states) <= {_UNREADABLE}:
        readable = "prefetchers whose state can be read (root, module msr, no VM)"
        raise UnderivedError("needs", readable)
    return _of_states(states, "prefetchers", "enabled", "disabled")


def _by_bus(arm: str, device: Device, others: Sequence[Device]) -> tuple[Device, Device]:
    """``apache_256 2133 over 2666 MT/s``."""
    _, over, _, under, unit = arm.split()
    states = _in_states("memory bus", device, others)
    return _of_states(states, "a bus of", f"{over} {unit}", f"{under} {unit}")


def _in_states(name: str, device: Device, others: Sequence[Device]) -> Mapping[str, Device]:
    """Devices by this state of their host that are alike else."""
    alike = (device, *(other for other in others if differ_in(name, other, device)))
    return {each.state.get(name, _UNREADABLE): each for each in alike}


def _of_states(
    devices: Mapping[str, Device], what: str, over: str, under: str
) -> tuple[Device, Device]:
    if missing := [state for state in (over, under) if state not in devices]:
        raise UnderivedError("needs", f"a run of this tier with {what} {' and '.join(missing)}")
    return devices[over], devices[under]


#: By the query's word for what the sides differ in.
_SIDES: Mapping[str, Callable[[str, Device, Sequence[Device]], tuple[Device, Device]]] = {
    "": lambda arm, device, others: (device, device),
    "tiers": _by_tiers,
    "dimms": _by_dimms,
    "bus": _by_bus,
    "prefetchers": _by_prefetchers,
}

_SECOND_TIER = "a second tier in the report"
_MEMORY_MODE = "memory_mode"
#: One DIMM that is not interleaved with others (FAST'20, Section 2.3).
_ALONE = "pmem_ni"
_DRAM = "dram"


def tiers(over: str, under: str, device: Device, others: Sequence[Device]) -> tuple[Device, Device]:
    """The devices on both sides of ``over``/``under`` in the column of ``device``.

    One side is the column's device, the other is found among those of its host. UnderivedError
    where it is not there, where several could be it, or where the column's device is that side.
    """
    mine = [
        candidate
        for candidate in others
        if candidate is not device
        and (candidate.host, candidate.state) == (device.host, device.state)
    ]
    if _ALONE in (over, under):
        other = _other(device, mine, lambda candidate: ways(candidate) == 1, "a single DIMM")
        if (ways(device) or 0) < 2:
            raise UnderivedError("needs", "a tier of interleaved DIMMs")
    else:
        cached = _MEMORY_MODE in (over, under)
        if cached and not any(map(_is_behind_dram, (device, *mine))):
            raise UnderivedError("needs", "a run in Memory mode")
        other = _other(device, mine, is_dram, "DRAM")
        if cached != _is_behind_dram(device):
            raise UnderivedError("other-side", "in no Memory mode" if cached else "in Memory mode")
    return (other, device) if over in (_DRAM, _ALONE) else (device, other)


def _other(
    device: Device, others: Sequence[Device], fits: Callable[[Device], bool], what: str
) -> Device:
    if fits(device):
        if others:
            raise UnderivedError("other-side", f"{what}, the other side")
        raise UnderivedError("needs", _SECOND_TIER)
    fitting = [candidate for candidate in others if fits(candidate)]
    if not fitting:
        raise UnderivedError("needs", f"{_SECOND_TIER}: {what} of this host")
    if len(fitting) > 1:
        raise UnderivedError("ambiguous", f"{' and '.join(d.name for d in fitting)} are {what}")
    return fitting[0]


def is_dram(device: Device) -> bool:
    """Memory of nodes with processors, on a host whose main memory is DRAM."""
    tier = device.tier
    if device.source:
        return device.tier_name == _DRAM
    if tier is None or tier.kind != "numa" or device.emulated:
        return False
    nodes = tier.nodes or (tier.node,)
    with_cpus = {node.node for node in _nodes(device) if node.cpus}
    return set(nodes) <= with_cpus and {main_memory(run) for run in device.runs} == {"DRAM"}


def _is_behind_dram(device: Device) -> bool:
    is_numa = device.tier is not None and device.tier.kind == "numa"
    return is_numa and {main_memory(r) for r in device.runs} == {"Memory"}


def _nodes(device: Device) -> Sequence[NumaNode]:
    manifests = [run.manifest for run in device.runs if run.manifest]
    return manifests[-1].host.numa_nodes if manifests else ()


def differ_in(state: str, device: Device, other: Device) -> bool:
    """Return whether two devices are one tier of a host that differs in this state alone."""
    return (
        (device.host, device.tier and device.tier.name)
        == (other.host, other.tier and other.tier.name)
        and device.state != other.state
        and {**device.state, state: ""} == {**other.state, state: ""}
    )


def ways(device: Device) -> int | None:
    """Over how many DIMMs its region is interleaved; None where it is on none, or emulated."""
    return device.tier.facts.interleave_ways if device.tier and not device.emulated else None


def of_dimms(devices: Sequence[Device], host: str, count: int) -> Device:
    """The tier of a host that is interleaved over this many DIMMs; UnderivedError without one."""
    same = [device for device in devices if device.host == host]
    of_count = [device for device in same if ways(device) == count]
    if not of_count:
        raise _needs_dimms(count, sorted(filter(None, {ways(device) for device in same})))
    if len(of_count) > 1:
        names = " and ".join(device.name for device in of_count)
        raise UnderivedError("ambiguous", f"{names} have {counted(count, 'DIMM')} each")
    return of_count[0]


def check_dimms(device: Device, count: int) -> None:
    """UnderivedError where a device does not have this number of interleaved DIMMs."""
    here = ways(device)
    if here != count:
        raise _needs_dimms(count, [here] if here else [])


def _needs_dimms(count: int, here: Sequence[int]) -> UnderivedError:
    numbers = ", ".join(map(str, here)) or "none"
    return UnderivedError("needs", f"a tier of {counted(count, 'DIMM')}, here: {numbers}")
