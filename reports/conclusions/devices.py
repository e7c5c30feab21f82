"""Tests of conclusions about devices: ratios between points of microbenchmarks.

Both sides of a ratio are alike in all but what is compared (reports.micro.pairs); where both sides
have several thread counts, each has its best. FAST'20's practices are those of the card
(reports.micro.practices), with the verdicts that they have there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise, permutations
from typing import Any

from harness.units import format_bytes
from reports.conclusions.comparisons import Compared, SpeedUp
from reports.conclusions.model import Evidence, Trial
from reports.formatting import counted
from reports.micro.hypotheses import claim, claim_of
from reports.micro.pairs import Pair, UnderivedError, is_dram, pairs, ways
from reports.micro.points import (
    DURATION,
    MEAN,
    NEAR_NODES,
    OPERATIONS,
    RATE,
    Device,
    Point,
    best,
)
from reports.micro.practices import practices
from reports.micro.prices import price_of
from reports.micro.questions import INSTRUCTIONS, beyond_caches, largest, sequence_of

Labels = Mapping[str, str | tuple[str, ...]]
_SIZE = "access_size_bytes"
#: What an index is made of, besides its flushes.
_INDEX = ("index", "workload", "discipline", "fence")


def _modules(evidence: Evidence) -> list[Device]:
    """The devices that are not DRAM: the papers' advice is about these."""
    return [device for device in evidence.devices if not is_dram(device)]


def _points(device: Device, metric: str, labels: Labels) -> list[Point]:
    wanted = {"job": "", "numa": NEAR_NODES, **labels}
    return beyond_caches(device, device.select(metric, **wanted))


def _by_place(points: Sequence[Point]) -> dict[str, list[Point]]:
    """By measurement and size: of each one experiment, over instructions and threads."""
    held: dict[str, list[Point]] = {}
    for point in points:
        size = format_bytes(point.number(_SIZE)) if point[_SIZE] else ""
        name = " ".join(filter(None, [point["measurement"].replace("_", " "), size]))
        held.setdefault(name, []).append(point)
    return {name: largest(same, *INSTRUCTIONS, "threads") for name, same in held.items()}


@dataclass(frozen=True)
class Practice:
    """One of FAST'20's best practices, as the card has it."""

    number: int

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """Those of every device that is not DRAM."""
        for device in _modules(evidence):
            for one in practices(device)[self.number - 1].trials:
                yield Trial(
                    f"{device.marked_name}: {one.trial.what}",
                    one.trial.claim,
                    one.why,
                    device.emulated,
                    one.verdict,
                )

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """What no device was measured by."""
        yield "a card of a tier other than DRAM"


@dataclass(frozen=True)
class Instructions:
    """The best of some instructions over the best of others, each at its best thread count.

    ``over``, ``under``: instructions without their fence (``store+clwb``).
    """

    labels: Labels
    over: tuple[str, ...]
    under: tuple[str, ...]

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """One for each device, measurement and size."""
        for device in _modules(evidence):
            held = _by_place(_points(device, RATE, self.labels))
            for place, points in held.items():
                over = [p for p in points if _kind(p) in self.over]
                under = [p for p in points if _kind(p) in self.under]
                if not over or not under:
                    continue
                top, base = best(over), best(under)
                what = f"{device.marked_name}, {place}: {_kind(top)} over {_kind(base)}"
                yield _trial(what, top, base, bound, device)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """The writes that no tier was measured by."""
        yield f"{' and '.join((*self.over, *self.under))} on a tier other than DRAM"


@dataclass(frozen=True)
class PersistInstruction:
    """The best instruction that persists over the worst, each at its best thread count."""

    labels: Labels

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """One for each device, measurement and size."""
        for device in _modules(evidence):
            for place, points in _by_place(_points(device, RATE, self.labels)).items():
                kinds: dict[str, list[Point]] = {}
                for point in points:
                    if _kind(point) not in ("store", "load"):
                        kinds.setdefault(_kind(point), []).append(point)
                ranked = sorted(map(best, kinds.values()), key=lambda point: point.median)
                if len(ranked) > 1:
                    top, last = ranked[-1], ranked[0]
                    what = f"{device.marked_name}, {place}: {_kind(top)} over {_kind(last)}"
                    yield _trial(what, top, last, bound, device)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """The writes that no tier was measured by."""
        yield "random writes by two instructions that persist, on a tier other than DRAM"


def _kind(point: Point) -> str:
    """``store+clwb``: instructions without their fence."""
    sequence = sequence_of(point)
    return sequence.operation + (f"+{sequence.flush}" if sequence.flush != "none" else "")


def _trial(what: str, a: Point, b: Point, bound: float, device: Device) -> Trial:
    made = claim_of(a, b, bound)
    return Trial(what, made, "" if made else "nothing-done", device.emulated)


@dataclass(frozen=True)
class Unflushed:
    """Operations with flushes over the same without, as in PVLDB 15(11), Figure 12."""

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """One for each device, chain, log or index, and thread count."""
        for device in _modules(evidence):
            points = _points(device, OPERATIONS, {"mode": ("", "independent")})
            chains = [p for p in points if p["chain"]]
            held = [
                (p, q)
                for p in chains
                for q in chains
                if "_cache" in p["chain"]
                and q["chain"] == p["chain"].replace("_cache", "_none")
                and p["threads"] == q["threads"]
                and p["measurement"] == q["measurement"]
            ]
            logs = [p for p in points if p["measurement"] == "log"]
            held += [
                (p, q)
                for p in logs
                for q in logs
                if (p["flush"], q["flush"]) == ("clwb", "none")
                and all(p[name] == q[name] for name in ("writer", "threads", "entry_bytes"))
            ]
            indexes = [p for p in points if p["index"]]
            held += [
                (p, q)
                for p in indexes
                for q in indexes
                if p["flush"] != "none" == q["flush"]
                and all(p[name] == q[name] for name in (*_INDEX, "threads", "range_bytes"))
            ]
            for flushed, bare in held:
                kind = flushed["writer"] or " ".join(filter(None, map(flushed.__getitem__, _INDEX)))
                name = f"{flushed['measurement'].replace('_', ' ')} {kind}".strip()
                threads = counted(int(flushed.number("threads")), "thread")
                what = f"{device.marked_name}, {name}, {threads}: flushed over not flushed"
                yield _trial(what, flushed, bare, bound, device)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """Both forms."""
        yield "indexes, their chains or logs with flushes and without, on a tier other than DRAM"


@dataclass(frozen=True)
class HostState:
    """A tier in two states of its host that differ in one thing: ``more`` of it over less.

    ``state``: as in ``Device.state``; ``rank``: orders its values, None of one that says nothing.
    ``labels``: what is compared, each size and thread count by itself.
    """

    state: str
    rank: Callable[[str], float | None]
    labels: Labels

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """One for each pair of states and each measurement."""
        for one, other in combinations(_modules(evidence), 2):
            if (one.host, one.tier.get("name")) != (other.host, other.tier.get("name")):
                continue
            if {**one.state, self.state: ""} != {**other.state, self.state: ""}:
                continue
            ranks = [self.rank(device.state.get(self.state, "")) for device in (one, other)]
            low, high = ranks
            if low is None or high is None or low == high:
                continue
            more, less = (other, one) if low < high else (one, other)
            yield from self._trials(more, less, bound)

    def _trials(self, more: Device, less: Device, bound: float) -> Iterator[Trial]:
        try:
            held = pairs(_points(more, RATE, self.labels), _points(less, RATE, self.labels))
        except UnderivedError as error:
            yield Trial(f"{more.marked_name}: {self.state}", None, str(error), more.emulated)
            return
        values = f"{more.state[self.state]} over {less.state[self.state]}"
        for a, b in held:
            size, threads = format_bytes(a.number(_SIZE)), int(a.number("threads"))
            what = f"{a['measurement'].replace('_', ' ')} {size}, {counted(threads, 'thread')}"
            yield _trial(f"{more.marked_name}, {what}: {values}", a, b, bound, more)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """Two states."""
        yield f"the same suite on one tier in two states of its host ({self.state})"


def number_in(text: str) -> float | None:
    """The first number of a state (``18000 mW``); None where it has none."""
    match = re.search(r"\d+(?:\.\d+)?", text)
    return float(match[0]) if match else None


def switched_on(text: str) -> float | None:
    """1 and 0 of ``enabled`` and ``disabled``."""
    return {"enabled": 1.0, "disabled": 0.0}.get(text)


@dataclass(frozen=True)
class MoreDimms:
    """Bandwidth of more interleaved DIMMs over that of fewer, of one host."""

    labels: Labels

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """One for each step and measurement."""
        for host in dict.fromkeys(device.host for device in evidence.devices):
            own = [d for d in evidence.devices if d.host == host and ways(d)]
            own.sort(key=lambda device: ways(device) or 0)
            for fewer, more in pairwise(own):
                if ways(fewer) == ways(more):
                    continue
                for a, b in _alike(more, fewer, self.labels):
                    size = format_bytes(a.number(_SIZE))
                    what = f"{a['measurement'].replace('_', ' ')} {size}, {a['threads']} threads"
                    counts = f"{ways(more)} over {ways(fewer)} DIMMs"
                    yield _trial(f"{what}: {counts}", a, b, bound, more)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """Two numbers."""
        found = sorted({ways(device) or 0 for device in evidence.devices} - {0})
        here = f" (here: {', '.join(map(str, found))})" if found else ""
        yield f"tiers of two numbers of interleaved DIMMs{here}"


@dataclass(frozen=True)
class DimmSize:
    """Bandwidth of tiers whose DIMMs differ in size alone, the better over the worse.

    They are of two hosts with one model of processor, in one state; ``size`` is that of a host's
    modules, as the firmware lists them.
    """

    labels: Labels

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """One for each pair of tiers and each measurement."""
        known = [one for one in evidence.devices if ways(one) and self.size(one)]
        for one, other in combinations(known, 2):
            if self.size(one) == self.size(other) or self.others(one) != self.others(other):
                continue
            for a, b in _alike(one, other, self.labels):
                sides = sorted(((a, one), (b, other)), key=lambda side: -side[0].median)
                (top, better), (base, worse) = sides
                sizes = f"{format_bytes(self.size(better))} over {format_bytes(self.size(worse))}"
                what = f"{a['measurement'].replace('_', ' ')} {format_bytes(a.number(_SIZE))}"
                threads = counted(int(a.number("threads")), "thread")
                yield _trial(f"{what}, {threads}: {sizes} DIMMs", top, base, bound, better)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """Two sizes."""
        found = sorted({self.size(device) for device in evidence.devices} - {0})
        here = f" (here: {', '.join(map(format_bytes, found))})" if found else ""
        yield f"two hosts with one processor and number of DIMMs, of two sizes{here}"

    @staticmethod
    def size(device: Device) -> int:
        """0 where it is not known, or differs among the host's modules."""
        listed = _host(device).get("dimms", ())
        sizes = {one["size_bytes"] for one in listed if one.get("technology") == "Optane"}
        return int(sizes.pop()) if len(sizes) == 1 else 0

    @staticmethod
    def others(device: Device) -> tuple[object, ...]:
        """What else differs between hosts and decides bandwidth."""
        return ways(device), _host(device).get("cpu", {}).get("model"), device.state


@dataclass(frozen=True)
class IndexGain:
    """An index's gain from one host's DIMMs to another's, against that of its accesses.

    A trial has the smallest gain of random reads and writes with as many threads as its bound,
    where all of them gain.
    """

    accesses: Labels

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """One for each pair of tiers and each configuration of an index."""
        known = [one for one in evidence.devices if ways(one)]
        for newer, older in permutations(known, 2):
            if newer.host == older.host:
                continue
            gains: dict[str, list[float]] = {}
            for a, b in _alike(newer, older, self.accesses):
                gains.setdefault(a["threads"], []).append(a.median / b.median)
            for a, b in _alike(newer, older, {}, OPERATIONS):
                least = min(gains.get(a["threads"], ()), default=0.0)
                if a["index"] and least > 1:
                    flush = a["flush"] or "its own flushes"
                    what = f"{a['index']}, {a['workload']}, {flush}: {newer.name} over {older.name}"
                    yield _trial(f"{what}, accesses {least:.3g}×", a, b, least, newer)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """Both suites on both hosts."""
        yield "an index, and random reads and writes by as many threads, on DIMMs of two hosts"


def _host(device: Device) -> Mapping[str, Any]:
    """As in the manifest; empty where no run has one."""
    return next((run.manifest["host"] for run in device.runs if run.manifest), {})


def _alike(a: Device, b: Device, labels: Labels, metric: str = RATE) -> list[Pair]:
    try:
        return pairs(_points(a, metric, labels), _points(b, metric, labels))
    except UnderivedError:
        return []


@dataclass(frozen=True)
class PricePerformance:
    """What PMem delivers for the price of a GB, over what DRAM delivers (Table 2)."""

    columns: tuple[Labels, ...]

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """One for each device that is not DRAM and each rate."""
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

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """Prices and both tiers."""
        yield "reads of DRAM and of another tier of the host, each with price_per_gb"


def _priced(
    device: Device, dram: Device, labels: Labels, cheaper: float, bound: float
) -> Iterator[Trial]:
    both = [_points(one, RATE, labels) for one in (device, dram)]
    if not all(both):
        return
    a, b = (best(points) for points in both)
    made = claim([value * cheaper for value in a.samples], b.samples, bound, paired=False)
    what = f"{device.marked_name} over {dram.marked_name}: {a['measurement'].replace('_', ' ')}"
    yield Trial(what, made, "" if made else "nothing-done", device.emulated)


# Engines against devices -----------------------------------------------------------

#: The suites of VLDB'23, Tables 3 and 4.
_TABLES = ("nvm-for-databases/table3", "nvm-for-databases/table4")


@dataclass(frozen=True)
class BelowDevice:
    """An engine's speed-up from one tier to another against what the devices differ by.

    A trial has the smallest ratio of the devices' reads as its bound, or the largest where the
    speed-up is higher than that: between them nothing is said.
    """

    compared: Compared
    slow: str
    fast: str
    tables: tuple[str, ...] = field(default=_TABLES)

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        """One for each series of both placements."""
        ratios = self._ratios(evidence)
        if not ratios:
            return
        for one in self.compared.speed_ups(evidence):
            yield _against(one, ratios)

    def _ratios(self, evidence: Evidence) -> dict[str, float]:
        """How much better the fast tier's device reads than the slow one's, by what was read."""
        found: dict[str, float] = {}
        for host in dict.fromkeys(device.host for device in evidence.devices):
            slow, fast = (self._reads(host, tier, evidence) for tier in (self.slow, self.fast))
            both = {name: _quotient(name, fast, slow) for name in fast.keys() & slow.keys()}
            found |= {name: ratio for name, ratio in both.items() if ratio > 0}
        # Times alone are of 64 bytes on one side and of a page on the other.
        return found if any(name.startswith("bandwidth") for name in found) else {}

    def _reads(self, host: str, tier: str, evidence: Evidence) -> dict[str, float]:
        """Mean time of a random read, and bandwidths by pattern and threads."""
        found: dict[str, float] = {}
        for device in evidence.devices:
            if (device.host, device.tier.get("name", device.tier_name)) != (host, tier):
                continue
            points = [p for p in device.points if self._is_of_tables(device, p)]
            reads = [p for p in points if p["operation"] in ("load", "read") and not p["job"]]
            times = [p for p in reads if p["pattern"] == "random" and p.metric in (DURATION, MEAN)]
            if times:
                found["latency, random"] = min(
                    p.histogram.mean if p.histogram else p.median for p in times
                )
            for point in reads:
                if point.metric == RATE:
                    name = f"bandwidth, {point['pattern']}, {point['threads'] or 1} threads"
                    found[name] = max(found.get(name, 0.0), point.median)
        return found

    def _is_of_tables(self, device: Device, point: Point) -> bool:
        suites = {run.run_id: run.run["spec"]["params"].get("suite") for run in device.runs}
        return all(suites.get(run_id) in self.tables for run_id in point.runs)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        """Devices, then engines."""
        if not self._ratios(evidence):
            yield f"{' and '.join(self.tables)} on {self.slow} and {self.fast}"
        yield from self.compared.missing(evidence)


def _quotient(name: str, fast: Mapping[str, float], slow: Mapping[str, float]) -> float:
    over, under = (slow, fast) if name.startswith("latency") else (fast, slow)
    return over[name] / under[name] if under[name] else 0.0


def _against(one: SpeedUp, ratios: Mapping[str, float]) -> Trial:
    smallest, largest = (pick(ratios.items(), key=lambda item: item[1]) for pick in (min, max))
    trial = one.trial(smallest[1])
    if trial.claim is None:
        return trial
    estimate = trial.claim.ratio.ratio
    name, bound = largest if estimate > largest[1] else smallest
    what = f"{one.what}, devices {name} {bound:.3g}×"
    if smallest[1] < estimate <= largest[1]:
        return Trial(what, None, "between-device-ratios", one.emulated)
    again = one.trial(bound)
    return Trial(what, again.claim, again.why, one.emulated)
