"""Tests of conclusions about devices: ratios between points of microbenchmarks.

How both sides of a ratio are found is reports/pair_sides.py. FAST'20's practices are those of the
card (reports.micro.best_practices), with the verdicts that they have there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import filterfalse, permutations

from harness.paper.pair_query import Having, PairQuery
from harness.sequences import grouped
from reports.conclusions.comparisons import SpeedUp, lacking, speed_ups
from reports.conclusions.model import Evidence, Test
from reports.micro.best_practices import practices
from reports.micro.devices import DURATION, MEAN, OPERATIONS, RATE, Device
from reports.micro.point_ratios import PointRatio, name_of, ratios_of
from reports.micro.prices import price_of
from reports.pair_sides import (
    DevicePair,
    UnderivedError,
    device_pairs,
    devices_compared,
    is_dram,
    label_of,
    labels_of,
    selected,
    value_text,
    ways,
)
from reports.statistics import Missing
from reports.trials import Trial, best_first, tested
from reports.values import Point


class PracticeTest(Test, frozen=True):
    """Tests one of FAST'20's best practices, as the card does."""

    needs = "a card of a tier other than DRAM"
    number: int

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        for device in filterfalse(is_dram, evidence.devices):
            for trial in practices(device)[self.number - 1].trials:
                what = f"{device.marked_name}: {trial.what}"
                yield Trial(what, trial.ratio, device.emulated)


def _ratios(query: PairQuery, over: Device, under: Device) -> list[PointRatio]:
    """Return the query's ratios; none where none can be formed."""
    try:
        return ratios_of(query, over, under)
    except UnderivedError:
        return []


def _trial(what: str, ratio: PointRatio, bound: float, device: Device) -> Trial:
    return Trial(what, ratio.tested(bound), device.emulated)


class PointPairs(Test, frozen=True):
    """Tests each point over another that is alike in all but what is compared.

    Both are of a tier other than DRAM, unless the query compares devices.
    """

    query: PairQuery

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        for devices in device_pairs(self.query, evidence.devices):
            if not is_dram(devices.device):
                for ratio in _ratios(self.query, devices.over, devices.under):
                    if self.query.more == self.query.metric and ratio.value < 1:
                        yield self._trial(ratio.inverse, devices.inverse, bound)
                    else:
                        yield self._trial(ratio, devices, bound)

    def _trial(self, ratio: PointRatio, devices: DevicePair, bound: float) -> Trial:
        a, b, query = ratio.over, ratio.under, self.query
        texts = {label: (label_of(a, label), label_of(b, label)) for label in query.differing}
        words = (
            f"{label} {x or 'none'} over {y or 'none'}" for label, (x, y) in texts.items() if x != y
        )
        compared = str(devices) or ", ".join(words)
        what = f"{devices.device.marked_name}, {name_of(a, query.each)}: {compared}"
        return _trial(what, ratio, bound, devices.device)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        query = self.query
        texts = dict.fromkeys(" ".join(f"{k}={v}" for k, v in side.items()) for side in query.sides)
        where = "on a tier other than DRAM"
        if compared := devices_compared(query):
            every = [labels_of(device) for device in evidence.devices]
            values = {
                value_text(name, labels.get(name, "")) for labels in every for name in compared
            }
            here = ", ".join(sorted(values - {"none"})) or "none"
            where = f"on tiers alike but for {' and '.join(compared)} (here: {here})"
        yield f"{query.metric} of {' and of '.join(texts)} {where}"


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


class PricePerformance(Test, frozen=True):
    """Tests what PMem delivers for the price of a GB, over what DRAM delivers (Table 2)."""

    needs = "reads of DRAM and of another tier of the host, each with price_per_gb"
    columns: tuple[Having, ...]

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        over_dram = PairQuery(over={"medium": "other"}, under={"medium": "dram"})
        for devices in device_pairs(over_dram, evidence.devices):
            mine, other = (price_of(device, None) for device in (devices.over, devices.under))
            if mine and other and mine.per_gb and other.per_gb:
                cheaper = other.per_gb / mine.per_gb
                for labels in self.columns:
                    yield from _priced(devices.over, devices.under, labels, cheaper, bound)


def _priced(
    device: Device, dram: Device, labels: Having, cheaper: float, bound: float
) -> Iterator[Trial]:
    both = [selected(PairQuery(RATE, labels), side) for side in (device, dram)]
    if not all(both):
        return
    # The best of each side, by the repeats that do not test it.
    a, b = (points[best_first([p.samples for p in points])[0]] for points in both)
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
