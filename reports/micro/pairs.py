"""Two sides of a ratio, point by point: alike in everything but in what they are compared.

Nothing is picked where two points could stand at the same place: then there is no ratio, and it
is said why (``UnderivedError``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.units import format_bytes
from reports.formatting import significant, times
from reports.micro.points import NAMES, Device, Point, best, main_memory
from reports.micro.questions import FOLLOW, largest
from reports.published import Lack, Missing

Pair = tuple[Point, Point]
_Place = tuple[str, frozenset[tuple[str, str]]]
#: What memory of one tier lies on, and that of another cannot: told where it differs.
_PAGES = "pages"
_MOST_TOLD = 6
#: What only names a point; a job is no name, but what ran.
_NAMING = ("measurement", "configuration")


class UnderivedError(Exception):
    """A quantity cannot be derived from what was measured."""

    def __init__(self, code: Lack, context: str = "") -> None:
        self.missing = Missing(code, context)
        super().__init__(str(self.missing))


def clear(points: Sequence[Point]) -> Sequence[Point]:
    """These points; UnderivedError where two are equal in all labels, whatever their settings."""
    held: dict[frozenset[tuple[str, str]], list[Point]] = {}
    for point in points:
        labels = (item for item in point.labels.items() if item[0] not in (*_NAMING, *FOLLOW))
        held.setdefault(frozenset(labels), []).append(point)
    for same in held.values():
        _only(same)
    return points


def one_experiment(points: Iterable[Point], *varied: str) -> Sequence[Point]:
    """Those of the largest experiment that varies these labels, each of its own labels."""
    return clear(largest(points, *varied))


def pairs(a: Sequence[Point], b: Sequence[Point], *apart: str) -> list[Pair]:
    """Points of both sides that are alike in all labels but ``apart`` and those that follow.

    UnderivedError where a side is empty, none are alike, or several stand at one place.
    """
    if not a or not b:
        raise UnderivedError("one-sided" if a or b else "not-measured")
    # Two measurements that did the same make a pair each; only else one is held against another.
    for aside in (apart, (*apart, "measurement")):
        on_a, on_b = _placed(a, aside), _placed(b, aside)
        if found := [(same, on_b[place]) for place, same in on_a.items() if place in on_b]:
            return [(_only(same), _only(other)) for same, other in found]
    raise UnderivedError("unlike-sides", _difference(a, b, apart))


def pairs_by(points: Sequence[Point], label: str, over: str, under: str) -> list[Pair]:
    """Pairs of points that differ in one label, ``over`` on one side and ``under`` on the other."""
    on_a, on_b = ([p for p in points if p[label] == one] for one in (over, under))
    return pairs(on_a, on_b, label)


def _placed(points: Sequence[Point], apart: Sequence[str]) -> Mapping[_Place, list[Point]]:
    left_out = ("configuration", "job", *FOLLOW, _PAGES, *apart)
    found: dict[_Place, list[Point]] = {}
    for point in points:
        labels = frozenset(i for i in point.labels.items() if i[0] not in left_out)
        settings = point.untold if "measurement" in apart else point.settings
        found.setdefault((settings, labels), []).append(point)
    return found


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
    """``range_bytes: 4 GiB, 2 GiB``: the labels of which both sides have no value in common."""
    left_out = (*NAMES, *FOLLOW, _PAGES, *apart)
    labels = dict.fromkeys(label for p in (*a, *b) for label in p.labels if label not in left_out)
    told = []
    for label in labels:
        sides = [list(dict.fromkeys(_text(p, label) for p in side)) for side in (a, b)]
        if not set(sides[0]) & set(sides[1]):
            told.append(
                f"{label.removesuffix('_bytes').replace('_', ' ')}: "
                f"{'/'.join(sides[0])} and {'/'.join(sides[1])}"
            )
    return "; ".join(told) or "their settings"


def _text(point: Point, label: str) -> str:
    size = label.endswith("_bytes") and point.number(label)
    return format_bytes(point.number(label)) if size else point[label] or "none"


def value(point: Point) -> float:
    """What the papers compare: of times the mean, of all else the median of repeats."""
    return point.median if point.histogram is None else point.histogram.mean


def ratio(a: Sequence[Point], b: Sequence[Point]) -> str:
    """Of the best on each side: ``2.60×``; UnderivedError where there is none."""
    if not a or not b or not value(best(b)):
        raise UnderivedError("one-sided")
    return times(value(best(a)) / value(best(b)))


def ratio_of(held: Sequence[Pair]) -> str:
    """Of pairs the best of each side."""
    return ratio([a for a, _ in held], [b for _, b in held])


def each_ratio(held: Sequence[Pair]) -> str:
    """The range of the ratios of all pairs: ``4.00× to 8.00×``."""
    found = [value(a) / value(b) for a, b in held if value(b)]
    if not found:
        raise UnderivedError("one-sided")
    ends = [times(min(found)), times(max(found))]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def named_ratios(held: Sequence[Pair], name: Callable[[Point], str]) -> str:
    """The ratio of each pair, by name: ``zero 0.900×, classic 1.20×``."""
    found = ((name(a), value(a) / value(b)) for a, b in held if value(b))
    return ", ".join(f"{text} {times(number)}".strip() for text, number in found)


def pages_text(held: Sequence[Pair]) -> str:
    """Behind a ratio of two tiers: on which pages each lies, where these differ; else empty."""
    told = dict.fromkeys((a[_PAGES], b[_PAGES]) for a, b in held if a[_PAGES] != b[_PAGES])
    return "".join(f" (pages: {a or 'unknown'} over {b or 'unknown'})" for a, b in told)


def numbers_text(points: Iterable[Point], label: str) -> str:
    """``1, 2, 4``: which numbers of a label there are; ``none``."""
    found = sorted({p.number(label) for p in points})
    if len(found) > _MOST_TOLD:
        return f"{significant_text(found[0])} to {significant_text(found[-1])}"
    return ", ".join(map(significant_text, found)) or "none"


def significant_text(number: float) -> str:
    """A count whole, anything else with three digits."""
    return f"{number:g}" if number == int(number) else significant(number)


@dataclass(frozen=True)
class Asked:
    """One row in the column of one device.

    ``paper``, ``figure``, ``arm``, ``metric``, ``x``: as in published.csv. ``others``: all
    devices of the report, with what they have of suites that repeat the figure, as ``device``.
    """

    paper: str
    figure: str
    metric: str
    arm: str
    x: str
    device: Device
    others: Sequence[Device] = ()

    @property
    def source(self) -> tuple[str, str]:
        """Paper and figure."""
        return self.paper, self.figure


#: ``pmem over dram``, as the papers' rows call their machines' memories.
TIERS = re.compile(r"^(\w+) over (\w+)$")
SECOND_TIER = "a second tier in the report"
MEMORY_MODE = "memory_mode"
#: One DIMM that is not interleaved with others (FAST'20, Section 2.3).
ALONE = "pmem_ni"
DRAM = "dram"


def sides(over: str, under: str, device: Device, others: Sequence[Device]) -> tuple[Device, Device]:
    """The devices on both sides of ``over``/``under`` in the column of ``device``.

    One side is the column's device, the other is found among those of its host. UnderivedError
    where it is not there, where several could be it, or where the column's device is that side.
    """
    mine = [
        one
        for one in others
        if one is not device and (one.host, one.state) == (device.host, device.state)
    ]
    if ALONE in (over, under):
        other = _one(device, mine, _is_alone, "a single DIMM")
        if (ways(device) or 0) < 2:
            raise UnderivedError("needs", "a tier of interleaved DIMMs")
    else:
        cached = MEMORY_MODE in (over, under)
        if cached and not any(map(_is_behind_dram, (device, *mine))):
            raise UnderivedError("needs", "a run in Memory mode")
        other = _one(device, mine, is_dram, "DRAM")
        if cached != _is_behind_dram(device):
            raise UnderivedError("other-side", "in no Memory mode" if cached else "in Memory mode")
    return (other, device) if over in (DRAM, ALONE) else (device, other)


def _one(
    device: Device, others: Sequence[Device], fits: Callable[[Device], bool], what: str
) -> Device:
    if fits(device):
        if others:
            raise UnderivedError("other-side", f"{what}, the other side")
        raise UnderivedError("needs", SECOND_TIER)
    found = [one for one in others if fits(one)]
    if not found:
        raise UnderivedError("needs", f"{SECOND_TIER}: {what} of this host")
    if len(found) > 1:
        raise UnderivedError("ambiguous", f"{' and '.join(d.name for d in found)} are {what}")
    return found[0]


def is_dram(device: Device) -> bool:
    """Memory of nodes with processors, on a host whose main memory is DRAM."""
    tier = device.tier
    if tier.get("kind") != "numa" or device.emulated:
        return False
    nodes = tier.get("nodes") or [tier.get("node")]
    with_cpus = {node["node"] for node in _nodes(device) if node["cpus"]}
    return set(nodes) <= with_cpus and {main_memory(run) for run in device.runs} == {"DRAM"}


def _is_behind_dram(device: Device) -> bool:
    tier = device.tier
    return tier.get("kind") == "numa" and {main_memory(r) for r in device.runs} == {"Memory"}


def _is_alone(device: Device) -> bool:
    return ways(device) == 1


def ways(device: Device) -> int | None:
    """Over how many DIMMs its region is interleaved; None where it is on none, or emulated."""
    found = device.tier.get("facts", {}).get("interleave_ways")
    return None if found is None or device.emulated else int(found)


def _nodes(device: Device) -> Sequence[dict[str, Any]]:
    manifests = [run.manifest for run in device.runs if run.manifest]
    return manifests[-1]["host"]["numa_nodes"] if manifests else ()
