"""Predictions of how much faster B is than A, from A's runs and the tiers' baselines alone.

``predict(a, b, sources)`` reads A's usable runs (what an operation demands), the placement of
B's runs (not their results), and the runs of the suite ``baseline`` on the tiers of both, in
``sources.baselines``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from harness.metrics import Load, load_of
from harness.store.runs import StoredRun
from reports.arm import Arm
from reports.explain.baseline import Baseline, Repeats
from reports.explain.ceilings import unseen_parts
from reports.explain.demand import Demand, QueryDemand, demand_of, queries_of
from reports.explain.devices import TierSources, devices_of, timed_calls
from reports.explain.laws import calibrate, closed_loop, query_sum
from reports.explain.memory import (
    MEMORY,
    MemoryTier,
    MemoryTiers,
    memory_speed_up,
    moved_per_s,
    weights_of,
)
from reports.explain.queueing import Bounds
from reports.headline import headline
from reports.run_configuration import modelled_tiers
from reports.stalls import per_operation
from reports.statistics import Value

#: Of an operation's time, reads that may be served by a page cache or not.
_OF_NO_ACCOUNT = 0.1


class Unpredictable(StrEnum):
    """Why there is no prediction."""

    NO_PART_MOVED = "no-part-moved"
    MEMORY_WITHOUT_COUNTER = "memory-without-counter"
    MEMORY_NOT_PLACED = "memory-not-placed"
    MEMORY_AND_FILES = "memory-and-files"
    MEMORY_SHARES_UNKNOWN = "memory-shares-unknown"
    MEMORY_TRAFFIC_WITHOUT_COUNTER = "memory-traffic-without-counter"
    DELAYS_PLANTED = "delays-planted"
    MODELLED = "modelled"
    RATE_SET = "rate-set"
    NO_TRACE = "no-trace"
    PART_NOT_TRACED = "part-not-traced"
    NO_PROCESSOR_TIME = "no-processor-time"
    PAGE_CACHE_UNKNOWN = "page-cache-unknown"
    NO_BASELINE = "no-baseline"


@dataclass(frozen=True)
class Predicted:
    """Speed-up of B over A, by the laws.

    ``low``, ``high``: from the repeats of the baselines and of A, and from how far the law is from
    A. ``bound_low``, ``bound_high``: the asymptotic bounds. ``law_of_a``: what the law gives for A
    itself, as a share of what A measured: 0.93 is 7 % too little; None of memory, whose law has A's
    cycles as they are.
    """

    value: float
    low: float
    high: float
    bound_low: float
    bound_high: float
    law_of_a: float | None

    @property
    def speed_up(self) -> Value:
        """The value with its interval."""
        return Value(self.value, self.low, self.high)


@dataclass(frozen=True)
class NotPredicted:
    """Why there is no prediction; ``tiers``: those that lack a baseline."""

    why: Unpredictable
    tiers: tuple[str, ...] = ()


def predict(a: Arm, b: Arm, sources: TierSources) -> Predicted | NotPredicted:
    """Return how many times faster B is than A, or why the laws do not say it.

    Both throughputs are the law's; docs/prediction.md derives them.
    """
    after = b.usable[0]
    if after.spec.plant:
        return NotPredicted(Unpredictable.DELAYS_PLANTED)
    if modelled_tiers(after):
        return NotPredicted(Unpredictable.MODELLED)
    return predict_on(a, after.host_id, devices_of(after), sources)


def predict_on(
    a: Arm, host: str, devices: Mapping[str, str], sources: TierSources
) -> Predicted | NotPredicted:
    """Return the same of a placement without runs: part → tier, as :func:`devices_of` has it."""
    before = a.usable[0]
    if why := next(_refused(a, devices), None):
        return NotPredicted(why)
    if devices_of(before).get(MEMORY) != devices.get(MEMORY):
        return _of_memory(a, host, devices.get(MEMORY), sources)
    tiers = _Tiers.of(before, host, devices, sources)
    if isinstance(tiers, NotPredicted):
        return tiers
    load = load_of(before.spec.workload, before.spec.params)
    laws = _of_operations(a, load, tiers) if load else _of_queries(a, tiers)
    return laws if isinstance(laws, NotPredicted) else _summary(laws)


def _of_memory(
    a: Arm, host: str, memory: str | None, sources: TierSources
) -> Predicted | NotPredicted:
    """Return the same of memory on other nodes, of runs whose stalls were counted."""
    before = a.usable[0]
    on_a = devices_of(before).get(MEMORY)
    if on_a is None or memory is None:
        return NotPredicted(Unpredictable.MEMORY_NOT_PLACED)
    of_a, of_b = weights_of(on_a), weights_of(memory)
    if of_a is None or of_b is None:
        return NotPredicted(Unpredictable.MEMORY_SHARES_UNKNOWN)
    interleaved = len(of_a) > 1 or len(of_b) > 1
    counted = [(counts, moved_per_s(run)) for run in a.usable if (counts := per_operation(run))]
    if interleaved and any(moved is None for _, moved in counted):
        return NotPredicted(Unpredictable.MEMORY_TRAFFIC_WITHOUT_COUNTER)
    sides: list[MemoryTiers] = []
    missing: dict[str, None] = {}
    for where, by_tier in ((before.host_id, of_a), (host, of_b)):
        pages: list[tuple[int, MemoryTier]] = []
        for name, weight in by_tier.items():
            tier = MemoryTier.of(name, sources.baselines.get((where, name), ()))
            if tier is None or (interleaved and not tier.loaded):
                missing[name] = None
            else:
                pages.append((weight * tier.nodes, tier))
        sides.append(MemoryTiers.of(pages))
    if missing:
        return NotPredicted(Unpredictable.NO_BASELINE, tuple(missing))
    queued = all(side.loaded for side in sides)
    speed_ups = [
        memory_speed_up(counts.cycles, moved if queued and moved else 0.0, *sides)
        for counts, moved in counted
    ]
    value = median(speed_up.value for speed_up in speed_ups)
    low = min(speed_up.low for speed_up in speed_ups)
    high = max(speed_up.high for speed_up in speed_ups)
    # Without any wait, the value; where an operation only waits, no change.
    return Predicted(value, low, high, min(low, 1.0), max(high, 1.0), None)


def _refused(a: Arm, devices: Mapping[str, str]) -> Iterator[Unpredictable]:
    """Yield what no figure of a tier can mend."""
    before = a.usable[0]
    on_a = devices_of(before)
    moved = [part for part in {*on_a, *devices} if on_a.get(part) != devices.get(part)]
    if before.spec.plant:
        yield Unpredictable.DELAYS_PLANTED
    if not moved:
        yield Unpredictable.NO_PART_MOVED
    if modelled_tiers(before):
        yield Unpredictable.MODELLED
    if headline(a.usable, a.usable, {}).rate is not None:
        yield Unpredictable.RATE_SET
    if MEMORY in moved:
        if len(moved) > 1:
            yield Unpredictable.MEMORY_AND_FILES
        if not any(map(per_operation, a.usable)):
            yield Unpredictable.MEMORY_WITHOUT_COUNTER
        return
    if all(metric.name != "io_calls_count" for metric in before.result.metrics):
        yield Unpredictable.NO_TRACE
    if any(part in moved for part in unseen_parts(a.usable)):
        yield Unpredictable.PART_NOT_TRACED


@dataclass(frozen=True)
class _Tiers:
    """The baselines of the parts' tiers on A and on B."""

    a: Mapping[str, Baseline]
    b: Mapping[str, Baseline]

    @classmethod
    def of(
        cls, before: StoredRun, host: str, devices: Mapping[str, str], sources: TierSources
    ) -> _Tiers | NotPredicted:
        called = {cell.part for cell in timed_calls([before])}
        sides: list[dict[str, Baseline]] = []
        missing: dict[str, None] = {}
        for where, placed in ((before.host_id, devices_of(before)), (host, devices)):
            side = {}
            for part, tier in placed.items():
                if part not in called:
                    continue
                baseline = Baseline.of(tier, sources.baselines.get((where, tier), ()))
                if baseline is None:
                    missing[tier] = None
                else:
                    side[part] = baseline
            sides.append(side)
        if missing:
            return NotPredicted(Unpredictable.NO_BASELINE, tuple(missing))
        return cls(*sides)


@dataclass(frozen=True)
class _RunSpeedUp:
    """B over A by the laws of one run of A, from the typical, slowest and fastest repeats.

    ``unknown_reads``: of an operation's time on B, reads that a page cache may serve or not.
    """

    value: float
    low: float
    high: float
    bounds: Bounds
    law_of_a: float
    unknown_reads: float

    @property
    def over_a(self) -> float:
        """The law of B over what A measured."""
        return self.value * self.law_of_a


def _of_operations(a: Arm, load: Load, tiers: _Tiers) -> list[_RunSpeedUp] | NotPredicted:
    demands = [demand for run in a.usable if (demand := demand_of(run, load))]
    if not demands:
        return NotPredicted(Unpredictable.NO_PROCESSOR_TIME)
    speed_ups = [_of_demand(demand, tiers) for demand in demands]
    return _with_known_cache(speed_ups)


def _of_demand(demand: Demand, tiers: _Tiers) -> _RunSpeedUp:
    calibrations = {repeats: calibrate(demand, tiers.a, repeats) for repeats in Repeats}
    before = {
        repeats: closed_loop(demand, tiers.a, tiers.a, calibrations[repeats], repeats)
        for repeats in Repeats
    }
    # The slower A's baseline is, the less are what A's calls took over it, and B's.
    after = {
        repeats: closed_loop(demand, tiers.a, tiers.b, calibrations[other], repeats)
        for repeats, other in zip(Repeats, reversed(Repeats), strict=True)
    }
    typical = before[Repeats.TYPICAL].throughput
    asymptotic = after[Repeats.TYPICAL].bounds
    return _RunSpeedUp(
        after[Repeats.TYPICAL].throughput / typical,
        after[Repeats.SLOWEST].throughput / before[Repeats.FASTEST].throughput,
        after[Repeats.FASTEST].throughput / before[Repeats.SLOWEST].throughput,
        Bounds(asymptotic.low / typical, asymptotic.high / typical),
        typical / demand.throughput,
        after[Repeats.TYPICAL].reads_share if _cache_unknown(tiers) else 0.0,
    )


def _of_queries(a: Arm, tiers: _Tiers) -> list[_RunSpeedUp] | NotPredicted:
    """The same of the sum of the query times."""
    by_run = [queries for run in a.usable if (queries := queries_of(run))]
    if not by_run:
        return NotPredicted(Unpredictable.NO_PROCESSOR_TIME)
    return _with_known_cache([_of_run(queries, tiers) for queries in by_run])


def _of_run(queries: Sequence[QueryDemand], tiers: _Tiers) -> _RunSpeedUp:
    before, after = (
        {repeats: query_sum(queries, tiers.a, side, repeats) for repeats in Repeats}
        for side in (tiers.a, tiers.b)
    )
    a, b = before[Repeats.TYPICAL], after[Repeats.TYPICAL]
    return _RunSpeedUp(
        a.total_ns / b.total_ns,
        before[Repeats.FASTEST].total_ns / after[Repeats.SLOWEST].total_ns,
        before[Repeats.SLOWEST].total_ns / after[Repeats.FASTEST].total_ns,
        Bounds(a.overlapped_ns / b.total_ns, a.total_ns / b.overlapped_ns),
        sum(query.duration_ns for query in queries) / a.total_ns,
        b.waiting_ns / b.total_ns if _cache_unknown(tiers) else 0.0,
    )


def _cache_unknown(tiers: _Tiers) -> bool:
    """Return whether a page cache may serve reads on B, and none was there on A."""
    return any(tiers.b[part].buffered and not tier.buffered for part, tier in tiers.a.items())


def _with_known_cache(speed_ups: list[_RunSpeedUp]) -> list[_RunSpeedUp] | NotPredicted:
    if any(speed_up.unknown_reads > _OF_NO_ACCOUNT for speed_up in speed_ups):
        return NotPredicted(Unpredictable.PAGE_CACHE_UNKNOWN)
    return speed_ups


def _summary(speed_ups: Sequence[_RunSpeedUp]) -> Predicted:
    """The median over A's runs, with the ends of all."""
    return Predicted(
        median(speed_up.value for speed_up in speed_ups),
        min(min(speed_up.low, speed_up.over_a) for speed_up in speed_ups),
        max(max(speed_up.high, speed_up.over_a) for speed_up in speed_ups),
        min(speed_up.bounds.low for speed_up in speed_ups),
        max(speed_up.bounds.high for speed_up in speed_ups),
        median(speed_up.law_of_a for speed_up in speed_ups),
    )
