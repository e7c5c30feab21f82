"""Tests of conclusions about devices: ratios between points of microbenchmarks.

Both sides of a ratio are alike in all but what is compared (reports.micro.point_ratios); where
both sides have several thread counts, each has its best. FAST'20's practices are those of the card
(reports.micro.best_practices), with the verdicts that they have there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, permutations

from harness.paper.pair_query import Having, PairQuery
from harness.sequences import grouped
from harness.store.host import HostFacts
from harness.units import format_bytes
from reports.conclusions.comparisons import SpeedUp, lacking, speed_ups
from reports.conclusions.model import Evidence, Test
from reports.micro.best_practices import practices
from reports.micro.devices import (
    DURATION,
    MEAN,
    OPERATIONS,
    RATE,
    Device,
)
from reports.micro.instructions import kind_of
from reports.micro.point_ratios import (
    SIZE,
    WHOLE,
    PointRatio,
    UnderivedError,
    differ_in,
    is_dram,
    name_of,
    ratios_of,
    selected,
    ways,
)
from reports.micro.prices import price_of
from reports.micro.sweeps import INSTRUCTIONS, largest
from reports.statistics import Missing
from reports.trials import Trial, best_first, tested
from reports.values import Point


def _modules(evidence: Evidence) -> list[Device]:
    """Return the devices that are not DRAM: the papers' advice is about these."""
    return [device for device in evidence.devices if not is_dram(device)]


def _by_place(
    points: Sequence[Point], having: Callable[[list[Point]], object]
) -> dict[str, list[Point]]:
    """Group points by measurement and size, each of one experiment over instructions."""
    places = grouped((name_of(point, ("measurement", SIZE)), point) for point in points)
    return {
        place: largest(same, *INSTRUCTIONS, "threads", having=having)
        for place, same in places.items()
    }


class Practice(Test, frozen=True):
    """Tests one of FAST'20's best practices, as the card does."""

    needs = "a card of a tier other than DRAM"
    number: int

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        for device in _modules(evidence):
            for trial in practices(device)[self.number - 1].trials:
                what = f"{device.marked_name}: {trial.what}"
                yield Trial(what, trial.ratio, device.emulated)


class Instructions(Test, frozen=True):
    """Tests the best of some instructions over the worst of others, at their best thread counts.

    ``over``, ``under``: instructions without their fence (``store+clwb``).
    """

    labels: Having
    over: tuple[str, ...]
    under: tuple[str, ...]

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        for device in _modules(evidence):
            of_device = selected(PairQuery(RATE, self.labels), device)
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
    by_kind = ([p for p in points if kind_of(p) == kind] for kind in kinds)
    tops = [_chosen(same_kind) for same_kind in by_kind if same_kind]
    return [tops[at] for at in best_first([point.samples for point in tops])]


def _chosen(points: Sequence[Point]) -> Point:
    """Return the best of these rates, by the repeats that do not test it."""
    return points[best_first([point.samples for point in points])[0]]


def _ratios(query: PairQuery, over: Device, under: Device) -> list[PointRatio]:
    """Return the query's ratios; none where none can be formed."""
    try:
        return ratios_of(query, over, under)
    except UnderivedError:
        return []


def _trial(what: str, ratio: PointRatio, bound: float, device: Device) -> Trial:
    return Trial(what, ratio.tested(bound), device.emulated)


#: What an operation is of, besides its flushes: a log's writer, or an index.
_WORK = tuple(label for label in WHOLE if label not in ("done", "pattern", SIZE, "dirty_lines"))


def _unflushed(flush: str, labels: Having) -> PairQuery:
    """Operations without flushes over the same that flush in this way."""
    sides: tuple[Having, Having] = {"flush": "none"}, {"flush": flush}
    return PairQuery(OPERATIONS, labels, *sides, each=_WORK, every=True)


def _unflushed_chain(chain: str) -> PairQuery:
    sides = {"chain": chain.replace("_cache", "_none")}, {"chain": chain}
    return PairQuery(OPERATIONS, {"mode": "independent"}, *sides, each=_WORK)


class Unflushed(Test, frozen=True):
    """Tests operations with flushes over the same without (PVLDB 15(11), Figure 12)."""

    needs = "indexes, their chains or logs with flushes and without, on a tier other than DRAM"

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        for device in _modules(evidence):
            points = device.select(OPERATIONS, mode=("", "independent"))
            chains = dict.fromkeys(p["chain"] for p in points if "_cache" in p["chain"])
            flushes = dict.fromkeys(p["flush"] for p in points if p["index"])
            queries = [
                *map(_unflushed_chain, chains),
                _unflushed("clwb", {"measurement": "log"}),
                *(_unflushed(flush, {"index": "?*"}) for flush in flushes if flush != "none"),
            ]
            for query in queries:
                for ratio in _ratios(query, device, device):
                    what = f"{device.marked_name}, {ratio.name}: flushed over not flushed"
                    yield _trial(what, ratio.inverse, bound, device)


@dataclass(frozen=True)
class _Sides:
    """Devices of sides A and B. ``device``: whose trial it is; ``values``: what they differ in."""

    over: Device
    under: Device
    device: Device
    values: tuple[str, ...] = ()


def _of_one_tier(evidence: Evidence) -> Iterator[_Sides]:
    for device in _modules(evidence):
        yield _Sides(device, device, device)


def _dram_over_others(evidence: Evidence) -> Iterator[_Sides]:
    for device in _modules(evidence):
        for dram in filter(is_dram, evidence.devices):
            if dram.host == device.host:
                yield _Sides(dram, device, device)


def _by_dimms(evidence: Evidence) -> Iterator[_Sides]:
    for host in dict.fromkeys(device.host for device in evidence.devices):
        devices = [d for d in evidence.devices if d.host == host and ways(d)]
        devices.sort(key=lambda device: ways(device) or 0)
        for fewer, more in pairwise(devices):
            if ways(fewer) != ways(more):
                yield _Sides(more, fewer, more, (f"{ways(more)}", f"{ways(fewer)} DIMMs"))


def _by_dimm_size(evidence: Evidence) -> Iterator[_Sides]:
    """Pair tiers of two hosts that have one model of processor, in one state."""

    def others(device: Device) -> tuple[object, ...]:
        host = _host(device)
        return ways(device), host.cpu.model if host else None, device.state

    of_dimms = [device for device in evidence.devices if ways(device) and _dimm_bytes(device)]
    for a, b in combinations(of_dimms, 2):
        if _dimm_bytes(a) != _dimm_bytes(b) and others(a) == others(b):
            yield _Sides(a, b, a, (format_bytes(_dimm_bytes(a)), format_bytes(_dimm_bytes(b))))


def _by_state(evidence: Evidence, state: str) -> Iterator[_Sides]:
    for more, less in permutations(_modules(evidence), 2):
        high, low = (_rank(device.state.get(state, "")) for device in (more, less))
        if high is not None and low is not None and high > low and differ_in(state, more, less):
            yield _Sides(more, less, more, (more.state[state], less.state[state]))


_DIMM_SIZE, _DIMMS, _DRAM = "DIMM size", "DIMMs", "dram"
_SIDES: Mapping[str, Callable[[Evidence], Iterator[_Sides]]] = {
    "": _of_one_tier,
    _DRAM: _dram_over_others,
    _DIMMS: _by_dimms,
    _DIMM_SIZE: _by_dimm_size,
}


class PointPairs(Test, frozen=True):
    """Tests each point over another that is alike in all but what is compared.

    ``query.sides``: ``dram`` (DRAM over another tier of its host), ``DIMMs`` (more interleaved ones
    over fewer, of one host), ``DIMM size`` (the better over the worse), or a state of the host, as
    in ``Device.state``: more of it over less. Else both are of one tier other than DRAM.
    """

    query: PairQuery

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        name = self.query.sides
        every = _SIDES[name](evidence) if name in _SIDES else _by_state(evidence, name)
        for sides in every:
            try:
                ratios = ratios_of(self.query, sides.over, sides.under)
            except UnderivedError as error:
                if name not in _SIDES:
                    what = f"{sides.device.marked_name}: {name}"
                    yield Trial(what, error.missing, sides.device.emulated)
                continue
            for ratio in ratios:
                yield self._trial(ratio, sides, bound)

    def _trial(self, ratio: PointRatio, sides: _Sides, bound: float) -> Trial:
        device, values = sides.device, sides.values
        if self.query.sides == _DIMM_SIZE and ratio.over.median < ratio.under.median:
            ratio, device, values = ratio.inverse, sides.under, values[::-1]
        against = " over ".join(values) or f"over {self._other(ratio)}"
        return _trial(f"{device.marked_name}, {ratio.name}: {against}", ratio, bound, device)

    def _other(self, ratio: PointRatio) -> str:
        name = name_of(ratio.under, self.query.each)
        return "another tier" if name == ratio.name else name

    def missing(self, evidence: Evidence) -> Iterator[str]:
        query = self.query
        if query.sides == _DIMMS:
            numbers = sorted({ways(device) or 0 for device in evidence.devices} - {0})
            yield f"tiers of two numbers of interleaved DIMMs{_here(map(str, numbers))}"
        elif query.sides == _DIMM_SIZE:
            sizes = sorted({_dimm_bytes(device) for device in evidence.devices} - {0})
            here = _here(map(format_bytes, sizes))
            yield f"two hosts with one processor and number of DIMMs, of two sizes{here}"
        elif query.sides not in _SIDES:
            yield f"the same suite on one tier in two states of its host ({query.sides})"
        else:
            sides = ({**query.labels, **side} for side in (query.over, query.under))
            texts = dict.fromkeys(" ".join(f"{k}={v}" for k, v in side.items()) for side in sides)
            dram = "on DRAM and another tier of its host"
            where = dram if query.sides == _DRAM else "on a tier other than DRAM"
            yield f"{query.metric} of {' and of '.join(texts)} {where}"


def _here(values: Iterable[str]) -> str:
    text = ", ".join(values)
    return f" (here: {text})" if text else ""


def _rank(state: str) -> float | None:
    """Rank a host's state: by its first number (``18000 mW``), or enabled above disabled."""
    match = re.search(r"\d+(?:\.\d+)?", state)
    return float(match[0]) if match else {"enabled": 1.0, "disabled": 0.0}.get(state)


def _dimm_bytes(device: Device) -> int:
    """Return the size of the host's DIMMs as the firmware lists them; 0 where they differ."""
    host = _host(device)
    listed = host.dimms if host else ()
    sizes = {module["size_bytes"] for module in listed if module.get("technology") == "Optane"}
    return int(sizes.pop()) if len(sizes) == 1 else 0


class IndexGain(Test, frozen=True):
    """Tests an index's gain from one host's DIMMs to another's, against that of its accesses.

    A trial has the smallest gain of random reads and writes with as many threads as its bound,
    where all of them gain.
    """

    needs = "an index, and random reads and writes by as many threads, on DIMMs of two hosts"
    accesses: Having

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        of_dimms = [device for device in evidence.devices if ways(device)]
        for newer, older in permutations(of_dimms, 2):
            if newer.host == older.host:
                continue
            accesses = _ratios(PairQuery(RATE, self.accesses, every=True), newer, older)
            gains = grouped((access.over["threads"], access.value) for access in accesses)
            for index_ratio in _ratios(PairQuery(OPERATIONS, every=True), newer, older):
                a = index_ratio.over
                least = min(gains.get(a["threads"], ()), default=0.0)
                if a["index"] and least > 1:
                    flush = a["flush"] or "its own flushes"
                    what = f"{a['index']}, {a['workload']}, {flush}: {newer.name} over {older.name}"
                    yield _trial(f"{what}, accesses {least:.3g}×", index_ratio, least, newer)


def _host(device: Device) -> HostFacts | None:
    """Return the host as in the manifest; None where no run has one."""
    return next((run.manifest.host for run in device.runs if run.manifest), None)


class PricePerformance(Test, frozen=True):
    """Tests what PMem delivers for the price of a GB, over what DRAM delivers (Table 2)."""

    needs = "reads of DRAM and of another tier of the host, each with price_per_gb"
    columns: tuple[Having, ...]

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        for dram in filter(is_dram, evidence.devices):
            for device in _modules(evidence):
                prices = [price_of(priced, None) for priced in (device, dram)]
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
    both = [selected(PairQuery(RATE, labels), side) for side in (device, dram)]
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


class BelowDevice(Test, frozen=True):
    """Tests an engine's speed-up from one tier to another against what the devices differ by.

    A trial has the smallest ratio of the devices' reads as its bound, or the largest where the
    speed-up is higher than that: between them nothing is said.
    """

    pair: PairQuery
    slow: str
    fast: str

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        ratios = self._ratios(evidence)
        if not ratios:
            return
        for speed_up in speed_ups(self.pair, evidence):
            yield _against(speed_up, ratios)

    def _ratios(self, evidence: Evidence) -> dict[str, float]:
        """Return how much better the fast tier's device reads than the slow one's, by read."""
        ratios: dict[str, float] = {}
        for host in dict.fromkeys(device.host for device in evidence.devices):
            slow, fast = (self._reads(host, tier, evidence) for tier in (self.slow, self.fast))
            both = {name: _quotient(name, fast, slow) for name in fast.keys() & slow.keys()}
            ratios |= {name: ratio for name, ratio in both.items() if ratio > 0}
        # Times alone are of 64 bytes on one side and of a page on the other.
        return ratios if any(name.startswith("bandwidth") for name in ratios) else {}

    def _reads(self, host: str, tier: str, evidence: Evidence) -> dict[str, float]:
        """Return the mean time of a random read, and bandwidths by pattern and threads."""
        values: dict[str, float] = {}
        for device in evidence.devices:
            if (device.host, device.tier.name if device.tier else device.tier_name) != (host, tier):
                continue
            points = [p for p in device.points if self._is_of_tables(device, p)]
            reads = [p for p in points if p["operation"] in ("load", "read") and not p["job"]]
            times = [p for p in reads if p["pattern"] == "random" and p.metric in (DURATION, MEAN)]
            if times:
                values["latency, random"] = min(p.compared for p in times)
            for point in reads:
                if point.metric == RATE:
                    name = f"bandwidth, {point['pattern']}, {point['threads'] or 1} threads"
                    values[name] = max(values.get(name, 0.0), point.median)
        return values

    def _is_of_tables(self, device: Device, point: Point) -> bool:
        suites = {run.run_id: run.spec.params.get("suite") for run in device.runs}
        return all(suites.get(run_id) in _TABLES for run_id in point.runs)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        if not self._ratios(evidence):
            yield f"{' and '.join(_TABLES)} on {self.slow} and {self.fast}"
        yield from lacking(evidence, self.pair)


def _quotient(name: str, fast: Mapping[str, float], slow: Mapping[str, float]) -> float:
    over, under = (slow, fast) if name.startswith("latency") else (fast, slow)
    return over[name] / under[name] if under[name] else 0.0


def _against(speed_up: SpeedUp, ratios: Mapping[str, float]) -> Trial:
    smallest, largest = (pick(ratios.items(), key=lambda item: item[1]) for pick in (min, max))
    trial = speed_up.trial(smallest[1])
    if isinstance(trial.ratio, Missing):
        return trial
    gain = trial.ratio.value
    name, bound = largest if gain > largest[1] else smallest
    what = f"{speed_up.what}, devices {name} {bound:.3g}×"
    if smallest[1] < gain <= largest[1]:
        return Trial(what, Missing("between-device-ratios"), speed_up.emulated)
    return replace(speed_up.trial(bound), what=what)
