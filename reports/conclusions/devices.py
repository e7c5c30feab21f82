"""Tests of conclusions about devices: ratios between points of microbenchmarks.

Both sides of a ratio are alike in all but what is compared (reports.micro.point_ratios); where
both sides have several thread counts, each has its best. FAST'20's practices are those of the card
(reports.micro.best_practices), with the verdicts that they have there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise, permutations
from typing import Any

from harness.sequences import grouped
from harness.units import format_bytes
from reports.conclusions.comparisons import Compared, SpeedUp
from reports.conclusions.model import Evidence, Test
from reports.micro.best_practices import practices
from reports.micro.devices import (
    DURATION,
    MEAN,
    OPERATIONS,
    RATE,
    Device,
    Point,
)
from reports.micro.instructions import kind_of
from reports.micro.paper_values import threads_of
from reports.micro.point_ratios import (
    Having,
    PairQuery,
    PointRatio,
    UnderivedError,
    differ_in,
    is_dram,
    ways,
)
from reports.micro.prices import price_of
from reports.micro.sweeps import INSTRUCTIONS, largest
from reports.statistics import Missing
from reports.trials import Trial, best_first, tested

_SIZE = "access_size_bytes"


def _modules(evidence: Evidence) -> list[Device]:
    """Return the devices that are not DRAM: the papers' advice is about these."""
    return [device for device in evidence.devices if not is_dram(device)]


def _by_place(
    points: Sequence[Point], having: Callable[[list[Point]], object]
) -> dict[str, list[Point]]:
    """Group points by measurement and size, each of one experiment over instructions."""
    held: dict[str, list[Point]] = {}
    for point in points:
        size = format_bytes(point.number(_SIZE)) if point[_SIZE] else ""
        name = " ".join(filter(None, [point["measurement"].replace("_", " "), size]))
        held.setdefault(name, []).append(point)
    return {
        name: largest(same, *INSTRUCTIONS, "threads", having=having) for name, same in held.items()
    }


@dataclass(frozen=True)
class Practice(Test):
    """Tests one of FAST'20's best practices, as the card does."""

    needs = "a card of a tier other than DRAM"
    number: int

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        for device in _modules(evidence):
            for one in practices(device)[self.number - 1].trials:
                what = f"{device.marked_name}: {one.what}"
                yield Trial(what, one.ratio, device.emulated)


@dataclass(frozen=True)
class Instructions(Test):
    """Tests the best of some instructions over the worst of others, at their best thread counts.

    ``over``, ``under``: instructions without their fence (``store+clwb``).
    """

    labels: Having
    over: tuple[str, ...]
    under: tuple[str, ...]

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        for device in _modules(evidence):
            of_device = PairQuery(RATE, self.labels).points(device, {})
            for place, points in _by_place(of_device, self._has_both).items():
                over, under = (_ranked(points, kinds) for kinds in (self.over, self.under))
                if over and under and over[0] is not under[-1]:
                    top, base = over[0], under[-1]
                    what = f"{device.marked_name}, {place}: {kind_of(top)} over {kind_of(base)}"
                    sides = top.samples, base.samples
                    chosen = len(points) > 2
                    ratio = tested(*sides, bound, top.alongside(base), chosen=chosen)
                    yield Trial(what, ratio, device.emulated)

    def _has_both(self, points: Sequence[Point]) -> bool:
        kinds = set(map(kind_of, points))
        return not kinds.isdisjoint(self.over) and not kinds.isdisjoint(self.under)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        kinds = " or ".join(self.over)
        other = "another of them" if self.over == self.under else " or ".join(self.under)
        yield f"writes by {kinds}, and by {other}, on a tier other than DRAM"


def _ranked(points: Sequence[Point], kinds: tuple[str, ...]) -> list[Point]:
    """Return the best point of each kind, the best first, by the choosing repeats."""
    held = ([p for p in points if kind_of(p) == kind] for kind in kinds)
    tops = [_chosen(one) for one in held if one]
    return [tops[at] for at in best_first([point.samples for point in tops])]


def _chosen(points: Sequence[Point]) -> Point:
    """Return the best of these rates, by the repeats that do not test it."""
    return points[best_first([point.samples for point in points])[0]]


def _ratios(query: PairQuery, over: Device, under: Device) -> list[PointRatio]:
    """Return the query's ratios; none where none can be formed."""
    try:
        return query.ratios(over, under)
    except UnderivedError:
        return []


def _trial(what: str, ratio: PointRatio, bound: float, device: Device) -> Trial:
    return Trial(what, ratio.tested(bound), device.emulated)


#: What an operation is of, besides its flushes: a log's writer, or an index.
_WORK = ("writer", "entry_bytes", "index", "workload", "discipline", "fence")


def _work(point: Point) -> str:
    """Return what a point measures: ``log zero, 4 threads``."""
    names = (point["measurement"].replace("_", " "), *(point[label] for label in _WORK))
    return f"{' '.join(filter(None, names))}, {threads_of(point)}"


def _unflushed_chain(chain: str) -> PairQuery:
    """Operations without flushes over the same with them, of each thread count."""
    return PairQuery(
        OPERATIONS,
        {"mode": "independent"},
        over={"chain": chain.replace("_cache", "_none")},
        under={"chain": chain},
        each=_work,
    )


def _unflushed(flush: str, labels: Having, where: Callable[[Point], bool]) -> PairQuery:
    """The same of each way to write a log, or of each index, that flushes in this way."""
    return PairQuery(
        OPERATIONS, labels, {"flush": "none"}, {"flush": flush}, where=where, each=_work, every=True
    )


@dataclass(frozen=True)
class Unflushed(Test):
    """Tests operations with flushes over the same without (PVLDB 15(11), Figure 12)."""

    needs = "indexes, their chains or logs with flushes and without, on a tier other than DRAM"

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        for device in _modules(evidence):
            points = device.select(OPERATIONS, mode=("", "independent"))
            chains = dict.fromkeys(p["chain"] for p in points if "_cache" in p["chain"])
            flushes = dict.fromkeys(p["flush"] for p in points if p["index"])
            queries = [
                *map(_unflushed_chain, chains),
                _unflushed("clwb", {"measurement": "log"}, bool),
                *(
                    _unflushed(flush, {}, lambda point: bool(point["index"]))
                    for flush in flushes
                    if flush != "none"
                ),
            ]
            for query in queries:
                for one in _ratios(query, device, device):
                    what = f"{device.marked_name}, {one.name}: flushed over not flushed"
                    yield _trial(what, one.inverse, bound, device)


def _place(point: Point) -> str:
    """Name what a point measured: ``random reads 256 B, 8 threads``."""
    size = format_bytes(point.number(_SIZE))
    return f"{point['measurement'].replace('_', ' ')} {size}, {threads_of(point)}"


#: Two tiers, that with more first, and what each has.
_TierPairs = Iterator[tuple[Device, Device, tuple[str, str]]]
_DIMM_SIZE, _DIMMS = "DIMM size", "DIMMs"


@dataclass(frozen=True)
class Tiers(Test):
    """Tests the bandwidth of a tier over that of another one, which differs in one thing alone.

    ``by``: ``DIMMs`` (more interleaved ones over fewer, of one host), ``DIMM size`` (the better
    over the worse), or a state of the host, as in ``Device.state``: more of it over less.
    ``labels``: what is compared, each size and thread count by itself.
    """

    by: str
    labels: Having

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        query = PairQuery(RATE, self.labels, each=_place, every=True)
        pairs = {_DIMM_SIZE: _by_dimm_size, _DIMMS: _by_dimms}.get(self.by, self._by_state)
        for over, under, values in pairs(evidence):
            try:
                found = query.ratios(over, under)
            except UnderivedError as error:
                if self.by not in (_DIMM_SIZE, _DIMMS):
                    what = f"{over.marked_name}: {self.by}"
                    yield Trial(what, error.missing, over.emulated)
                continue
            for one in found:
                better, device, own = one, over, values
                if self.by == _DIMM_SIZE and one.over.median < one.under.median:
                    better, device, own = one.inverse, under, (values[1], values[0])
                what = f"{device.marked_name}, {one.name}: {' over '.join(own)}"
                yield _trial(what, better, bound, device)

    def _by_state(self, evidence: Evidence) -> _TierPairs:
        for more, less in permutations(_modules(evidence), 2):
            high, low = (_rank(device.state.get(self.by, "")) for device in (more, less))
            if high is None or low is None or high <= low or not differ_in(self.by, more, less):
                continue
            yield more, less, (more.state[self.by], less.state[self.by])

    def missing(self, evidence: Evidence) -> Iterator[str]:
        if self.by == _DIMMS:
            found = sorted({ways(device) or 0 for device in evidence.devices} - {0})
            here = f" (here: {', '.join(map(str, found))})" if found else ""
            yield f"tiers of two numbers of interleaved DIMMs{here}"
        elif self.by == _DIMM_SIZE:
            found = sorted({_dimm_bytes(device) for device in evidence.devices} - {0})
            here = f" (here: {', '.join(map(format_bytes, found))})" if found else ""
            yield f"two hosts with one processor and number of DIMMs, of two sizes{here}"
        else:
            yield f"the same suite on one tier in two states of its host ({self.by})"


def _rank(state: str) -> float | None:
    """Rank a host's state: by its first number (``18000 mW``), or enabled above disabled."""
    match = re.search(r"\d+(?:\.\d+)?", state)
    return float(match[0]) if match else {"enabled": 1.0, "disabled": 0.0}.get(state)


def _by_dimms(evidence: Evidence) -> _TierPairs:
    for host in dict.fromkeys(device.host for device in evidence.devices):
        own = [d for d in evidence.devices if d.host == host and ways(d)]
        own.sort(key=lambda device: ways(device) or 0)
        for fewer, more in pairwise(own):
            if ways(fewer) != ways(more):
                yield more, fewer, (f"{ways(more)}", f"{ways(fewer)} DIMMs")


def _by_dimm_size(evidence: Evidence) -> _TierPairs:
    """Pair tiers of two hosts that have one model of processor, in one state."""

    def others(device: Device) -> tuple[object, ...]:
        return ways(device), _host(device).get("cpu", {}).get("model"), device.state

    known = [one for one in evidence.devices if ways(one) and _dimm_bytes(one)]
    for one, other in combinations(known, 2):
        if _dimm_bytes(one) != _dimm_bytes(other) and others(one) == others(other):
            sizes = format_bytes(_dimm_bytes(one)), format_bytes(_dimm_bytes(other))
            yield one, other, sizes


def _dimm_bytes(device: Device) -> int:
    """Return the size of the host's DIMMs as the firmware lists them; 0 where they differ."""
    listed = _host(device).get("dimms", ())
    sizes = {one["size_bytes"] for one in listed if one.get("technology") == "Optane"}
    return int(sizes.pop()) if len(sizes) == 1 else 0


def _named(point: Point) -> str:
    """Name what a point did: ``granularity ntstore random 256 B, 4 threads``."""
    size = format_bytes(point.number(_SIZE)) if point[_SIZE] else ""
    of_its_own = point["method"] or point["writer"] or point["index"]
    kind = point["method"] if of_its_own else kind_of(point)
    lines = f"{point['dirty_lines']} dirty lines" if point["dirty_lines"] else ""
    words = (point["measurement"].replace("_", " "), kind, point["pattern"], size, lines)
    own = (point[label] for label in _WORK)
    return f"{' '.join(filter(None, (*words, *own)))}, {threads_of(point)}"


@dataclass(frozen=True)
class Points(Test):
    """Tests one point over another that is alike in all but what is compared.

    ``dram``: the first is of DRAM, and the other of another tier of its host.
    """

    metric: str
    over: Having
    under: Having
    labels: Having = field(default_factory=dict)
    apart: tuple[str, ...] = ()
    dram: bool = False

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        query = PairQuery(
            self.metric, self.labels, self.over, self.under, self.apart, each=_named, every=True
        )
        for device in _modules(evidence):
            others = [one for one in evidence.devices if one.host == device.host and is_dram(one)]
            for first in others if self.dram else [device]:
                for one in _ratios(query, first, device):
                    what = f"{device.marked_name}, {one.name}: over {self._other(one)}"
                    yield _trial(what, one, bound, device)

    def _other(self, one: PointRatio) -> str:
        name = _named(one.under)
        return "another tier" if name == one.name else name

    def missing(self, evidence: Evidence) -> Iterator[str]:
        sides = ({**self.labels, **side} for side in (self.over, self.under))
        texts = (" ".join(f"{name}={_text(value)}" for name, value in one.items()) for one in sides)
        where = "on DRAM and another tier of its host" if self.dram else "on a tier other than DRAM"
        yield f"{self.metric} of {' and of '.join(dict.fromkeys(texts))} {where}"


def _text(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else "|".join(filter(None, value))


@dataclass(frozen=True)
class IndexGain(Test):
    """Tests an index's gain from one host's DIMMs to another's, against that of its accesses.

    A trial has the smallest gain of random reads and writes with as many threads as its bound,
    where all of them gain.
    """

    needs = "an index, and random reads and writes by as many threads, on DIMMs of two hosts"
    accesses: Having

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        known = [one for one in evidence.devices if ways(one)]
        for newer, older in permutations(known, 2):
            if newer.host == older.host:
                continue
            accesses = _ratios(PairQuery(RATE, self.accesses, every=True), newer, older)
            gains = grouped((one.over["threads"], one.value) for one in accesses)
            for one in _ratios(PairQuery(OPERATIONS, every=True), newer, older):
                a = one.over
                least = min(gains.get(a["threads"], ()), default=0.0)
                if a["index"] and least > 1:
                    flush = a["flush"] or "its own flushes"
                    what = f"{a['index']}, {a['workload']}, {flush}: {newer.name} over {older.name}"
                    yield _trial(f"{what}, accesses {least:.3g}×", one, least, newer)


def _host(device: Device) -> Mapping[str, Any]:
    """Return the host as in the manifest; empty where no run has one."""
    return next((run.manifest.host for run in device.runs if run.manifest), {})


@dataclass(frozen=True)
class PricePerformance(Test):
    """Tests what PMem delivers for the price of a GB, over what DRAM delivers (Table 2)."""

    needs = "reads of DRAM and of another tier of the host, each with price_per_gb"
    columns: tuple[Having, ...]

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        for dram in filter(is_dram, evidence.devices):
            for device in _modules(evidence):
                prices = [price_of(one, None) for one in (device, dram)]
                mine, other = prices
                if device.host != dram.host or mine is None or other is None:
                    continue
                if not mine.per_gb or not other.per_gb:
                    continue
                for labels in self.columns:
                    yield from _priced(device, dram, labels, other.per_gb / mine.per_gb, bound)


def _priced(
    device: Device, dram: Device, labels: Having, cheaper: float, bound: float
) -> Iterator[Trial]:
    both = [PairQuery(RATE, labels).points(one, {}) for one in (device, dram)]
    if not all(both):
        return
    a, b = (_chosen(points) for points in both)
    chosen = max(map(len, both)) > 1
    priced = [value * cheaper for value in a.samples]
    ratio = tested(priced, b.samples, bound, paired=False, chosen=chosen)
    what = f"{device.marked_name} over {dram.marked_name}: {a['measurement'].replace('_', ' ')}"
    yield Trial(what, ratio, device.emulated)


# Engines against devices -----------------------------------------------------------

#: The suites of VLDB'23, Tables 3 and 4.
_TABLES = ("nvm-for-databases/table3", "nvm-for-databases/table4")


@dataclass(frozen=True)
class BelowDevice(Test):
    """Tests an engine's speed-up from one tier to another against what the devices differ by.

    A trial has the smallest ratio of the devices' reads as its bound, or the largest where the
    speed-up is higher than that: between them nothing is said.
    """

    compared: Compared
    slow: str
    fast: str

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        ratios = self._ratios(evidence)
        if not ratios:
            return
        for one in self.compared.speed_ups(evidence):
            yield _against(one, ratios)

    def _ratios(self, evidence: Evidence) -> dict[str, float]:
        """Return how much better the fast tier's device reads than the slow one's, by read."""
        found: dict[str, float] = {}
        for host in dict.fromkeys(device.host for device in evidence.devices):
            slow, fast = (self._reads(host, tier, evidence) for tier in (self.slow, self.fast))
            both = {name: _quotient(name, fast, slow) for name in fast.keys() & slow.keys()}
            found |= {name: ratio for name, ratio in both.items() if ratio > 0}
        # Times alone are of 64 bytes on one side and of a page on the other.
        return found if any(name.startswith("bandwidth") for name in found) else {}

    def _reads(self, host: str, tier: str, evidence: Evidence) -> dict[str, float]:
        """Return the mean time of a random read, and bandwidths by pattern and threads."""
        found: dict[str, float] = {}
        for device in evidence.devices:
            if (device.host, device.tier.name if device.tier else device.tier_name) != (host, tier):
                continue
            points = [p for p in device.points if self._is_of_tables(device, p)]
            reads = [p for p in points if p["operation"] in ("load", "read") and not p["job"]]
            times = [p for p in reads if p["pattern"] == "random" and p.metric in (DURATION, MEAN)]
            if times:
                found["latency, random"] = min(p.compared for p in times)
            for point in reads:
                if point.metric == RATE:
                    name = f"bandwidth, {point['pattern']}, {point['threads'] or 1} threads"
                    found[name] = max(found.get(name, 0.0), point.median)
        return found

    def _is_of_tables(self, device: Device, point: Point) -> bool:
        suites = {run.run_id: run.spec.params.get("suite") for run in device.runs}
        return all(suites.get(run_id) in _TABLES for run_id in point.runs)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        if not self._ratios(evidence):
            yield f"{' and '.join(_TABLES)} on {self.slow} and {self.fast}"
        yield from self.compared.missing(evidence)


def _quotient(name: str, fast: Mapping[str, float], slow: Mapping[str, float]) -> float:
    over, under = (slow, fast) if name.startswith("latency") else (fast, slow)
    return over[name] / under[name] if under[name] else 0.0


def _against(one: SpeedUp, ratios: Mapping[str, float]) -> Trial:
    smallest, largest = (pick(ratios.items(), key=lambda item: item[1]) for pick in (min, max))
    trial = one.trial(smallest[1])
    if isinstance(trial.ratio, Missing):
        return trial
    gain = trial.ratio.value
    name, bound = largest if gain > largest[1] else smallest
    what = f"{one.what}, devices {name} {bound:.3g}×"
    if smallest[1] < gain <= largest[1]:
        return Trial(what, Missing("between-device-ratios"), one.emulated)
    return replace(one.trial(bound), what=what)
