"""The network of a closed loop: processors, the devices of its tiers, and the log.

Each file operation of the sessions is a visit to the device of its part's tier, for the time that
the tier's baseline has for that call without its processor time; that is added to the processors'.
Reads that the page cache served, and writes into it, are processor time alone. What background
threads move takes the device away from the sessions for as long as its bandwidth needs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.hdr import Histogram
from reports.explain.baseline import Baseline, Figure, Repeats
from reports.explain.demand import Demand, FileCalls, QueryDemand
from reports.explain.queueing import (
    Bounds,
    Station,
    batch,
    bounds,
    processors,
    solve,
)

#: A device is left to the sessions for this share of the time at least.
_LEAST_LEFT = 0.05
#: Of processor time on A, what does not depend on the tier at least.
_LEAST_COMPUTED = 0.05
_ROUNDS, _CLOSE = 50, 1e-6
#: Durable entries of an operation in a log: its own, and that of a binary log. An engine with more
#: syncs than these does not group commits.
_MOST_COMMITS = 2.0
_LOG = "wal"
Tiers = Mapping[str, Baseline]


@dataclass(frozen=True)
class Law:
    """Closed loop on some tiers, by the laws. ``throughput``, ``bounds``: per ns."""

    stations: tuple[Station, ...]
    throughput: float
    bounds: Bounds

    @property
    def reads_share(self) -> float:
        """Return the share of an operation's time without queues that waits for reads."""
        reads_ns = sum(s.demand_ns for s in self.stations if s.name == "read")
        return reads_ns / sum(s.demand_ns for s in self.stations)


@dataclass(frozen=True)
class TraceFactors:
    """Facts that A's trace has beyond the demand.

    ``commits``: visits to the log of an operation, where each waits until its entry is durable.
    ``reads``, ``syncs``: times that these took on A, over those of its baseline;
    ``sync_longer_ns``: by how much syncs took longer. ``locked``: for how long an operation holds a
    lock that all others need, as a share of its time at the log.
    """

    commits: float
    reads: float = 1.0
    syncs: float = 1.0
    sync_longer_ns: float = 0.0
    locked: float = 0.0


def calibrate(demand: Demand, a: Tiers, repeats: Repeats = Repeats.TYPICAL) -> TraceFactors:
    """Return the calibration by a run on ``a``; its baseline is that of some of the repeats."""
    syncs, longer_ns = _syncs_on_a(demand, a, repeats)
    calls = TraceFactors(
        commits_of(demand, a), _reads_scale(demand, a, repeats), syncs, max(0.0, longer_ns)
    )
    return replace(calls, locked=_locked(demand, _Network(demand, a, a, calls, repeats).stations()))


def _reads_scale(demand: Demand, a: Tiers, repeats: Repeats) -> float:
    """Return the ratio for reads that reached the device; 1 if no device dominates their time."""
    traced_ns = alone_ns = 0.0
    for calls in demand.calls:
        if calls.operation != "read" or calls.cell.background or calls.durations is None:
            continue
        tier, reaching = a[calls.part], _reaching(calls, a[calls.part])
        if reaching.total and tier.waits("read", calls.size_bytes):
            made = calls.calls * reaching.total / calls.durations.total
            traced_ns += made * reaching.mean
            alone_ns += made * tier.total_ns("read", calls.size_bytes, repeats)
    return traced_ns / alone_ns if alone_ns else 1.0


def _syncs_on_a(demand: Demand, a: Tiers, repeats: Repeats) -> tuple[float, float]:
    """Return the ratio for syncs of the log, and the difference; 1 and 0 as for reads."""
    syncs = [calls for calls in demand.calls if _is_commit(calls)]
    traced_ns = _traced_ns(demand)
    made = sum(calls.calls for calls in syncs)
    if not traced_ns or not made:
        return 1.0, 0.0
    size = sum(calls.moved_bytes for calls in syncs) / made
    if not a[_LOG].waits("append", size):
        return 1.0, 0.0
    computed_ns = a[_LOG].processor_ns("append", size)
    alone_ns = _append_ns(demand, a[_LOG], size, repeats) + computed_ns
    return traced_ns / alone_ns, traced_ns - alone_ns


def _append_ns(demand: Demand, tier: Baseline, size_bytes: float, repeats: Repeats) -> float:
    """Waiting for an append to the log, which becomes longer by some of its writes."""
    writes = [calls for calls in demand.calls if (calls.part, calls.operation) == (_LOG, "write")]
    written = sum(calls.calls for calls in writes)
    growing = sum(calls.calls * calls.growing for calls in writes) / written if written else 0.0
    return (1 - growing) * tier.waiting_ns("append", size_bytes, repeats) + (
        growing * tier.waiting_ns("growth", size_bytes, repeats)
    )


def commits_of(demand: Demand, a: Tiers) -> float:
    """Return the commits of an operation, of a demand that was measured on ``a``.

    An operation that writes commits once, if there are syncs enough: a sync serves each customer
    once. Where that is not known, commits are the syncs times the mean size of their group, which
    follows from the commits, and from the duration of syncs that the trace has.
    """
    syncs = _syncs(demand)
    if demand.writes is not None and demand.writes <= syncs * demand.customers:
        return max(syncs, demand.writes)
    traced_ns = _traced_ns(demand)
    commits = syncs
    if not traced_ns or demand.customers == 1:
        return commits
    *others, _ = _Network(demand, a, a, TraceFactors(commits), Repeats.TYPICAL).stations()
    for _ in range(_ROUNDS):
        log = batch(_LOG, commits * traced_ns, demand.customers)
        present = solve([*others, log], demand.customers).present(len(others))
        done = sum(p * log.speed(n) for n, p in enumerate(present) if n)
        before, commits = commits, max(syncs, min(_MOST_COMMITS, syncs * done / sum(present[1:])))
        if math.isclose(before, commits, rel_tol=_CLOSE):
            break
    return commits


def closed_loop(
    demand: Demand,
    a: Tiers,
    b: Tiers,
    calibration: TraceFactors,
    repeats: Repeats = Repeats.TYPICAL,
) -> Law:
    """Return the law for the tiers ``b``, of a demand that was measured on ``a``."""
    background = background_ns(demand.calls, b)
    alone = _Network(demand, a, b, calibration, repeats).stations()
    throughput = 0.0
    for _ in range(_ROUNDS):
        stations = tuple(_slowed(station, throughput, background) for station in alone)
        before, solved = throughput, _throughput(stations, demand.customers, calibration.locked)
        throughput = (before + solved) / 2 if before else solved
        if not background or math.isclose(before, throughput, rel_tol=_CLOSE):
            break
    return Law(stations, throughput, bounds(stations, demand.customers))


def _throughput(stations: Sequence[Station], customers: int, locked: float) -> float:
    """Solve a network whose customers hold a lock for a share of their time at the log.

    Those that wait for it are not at the stations: the method of surrogate delays (Jacobson and
    Lazowska 1982), by iteration.
    """
    active = float(customers)
    throughput, log_ns = _of_active(stations, active)
    for _ in range(_ROUNDS if locked else 0):
        before, present_ns = active, active / throughput
        locking_ns = min(present_ns, locked * log_ns)
        active = (active + present_ns * _of_lock(locking_ns, present_ns, customers)) / 2
        throughput, log_ns = _of_active(stations, active)
        if math.isclose(before, active, rel_tol=_CLOSE):
            break
    return throughput


def _locked(demand: Demand, stations: Sequence[Station]) -> float:
    """Return for how long an operation holds the lock by how long others waited for it, as a share
    of its time at the log."""
    active = max(1.0, demand.customers * (1 - demand.locked))
    throughput, log_ns = _of_active(stations, active)
    if not log_ns or active >= demand.customers:
        return 0.0
    low_ns, high_ns = 0.0, active / throughput
    while high_ns - low_ns > _CLOSE * active / throughput:
        locking_ns = (low_ns + high_ns) / 2
        enough = _of_lock(locking_ns, active / throughput, demand.customers) < throughput
        low_ns, high_ns = (low_ns, locking_ns) if enough else (locking_ns, high_ns)
    return high_ns / log_ns


def _of_lock(locking_ns: float, present_ns: float, customers: int) -> float:
    """Return the throughput of customers that need a lock for a part of the time at stations."""
    lock = Station("lock", locking_ns)
    return solve([lock], customers, max(0.0, present_ns - locking_ns)).throughput


def _of_active(stations: Sequence[Station], active: float) -> tuple[float, float]:
    """Return the throughput, and the time at the log, of customers of any number from 1 on."""
    fewer = max(1, math.floor(active))
    ends = []
    for customers in (fewer, fewer + 1):
        solution = solve(stations, customers)
        at_log = sum(solution.queue(i) for i, s in enumerate(stations) if s.name == _LOG)
        ends.append((solution.throughput, at_log / solution.throughput))
    (low, low_ns), (high, high_ns) = ends
    share = max(0.0, active - fewer)
    return low + share * (high - low), low_ns + share * (high_ns - low_ns)


def _slowed(station: Station, throughput: float, background: Mapping[str, float]) -> Station:
    """The station of which background calls leave a part of the device's time."""
    left = max(_LEAST_LEFT, 1 - throughput * background.get(station.tier, 0.0))
    return replace(station, demand_ns=station.demand_ns / left)


def _syncs(demand: Demand) -> float:
    return sum(calls.calls for calls in demand.calls if _is_commit(calls))


def _is_commit(calls: FileCalls) -> bool:
    """Return whether sessions wait for it until the log is durable."""
    if calls.part != _LOG or calls.cell.background:
        return False
    return calls.operation == "sync" or (calls.operation == "write" and calls.past_cache > 0.5)


def _traced_ns(demand: Demand) -> float:
    """The mean duration of a sync of the log that sessions wait for; 0 of what was not timed."""
    timed = [calls.durations for calls in demand.calls if _is_commit(calls) and calls.durations]
    total = sum(durations.total for durations in timed)
    return sum(durations.total * durations.mean for durations in timed) / total if total else 0.0


def _reaching(calls: FileCalls, a: Baseline) -> Histogram:
    """Return the durations of reads that reached the device: a read that took less time than
    nearly any that the device serves was in the page cache."""
    assert calls.durations is not None
    if not a.buffered or calls.past_cache > 0.5:
        return calls.durations
    _, high = calls.durations.layout.bounds()
    shortest_ns = a.shortest_ns("read", calls.size_bytes)
    reaching = np.where(high >= shortest_ns, calls.durations.counts, 0)
    return Histogram(calls.durations.layout, reaching)


def reached(calls: FileCalls, a: Baseline) -> float:
    """Return the share of reads that reached the device."""
    if calls.durations is None:
        return 1.0
    return _reaching(calls, a).total / max(1, calls.durations.total)


def background_ns(calls: Sequence[FileCalls], tiers: Tiers) -> dict[str, float]:
    """Return for how long an operation's background calls take each tier's device."""
    spent: dict[str, float] = defaultdict(float)
    for moved in calls:
        tier = tiers[moved.part]
        later = moved.operation == "write" and tier.buffered and moved.part != _LOG
        if moved.operation != "sync" and (moved.cell.background or later):
            figure: Figure = "read" if moved.operation == "read" else "write"
            computed_ns = moved.calls * tier.processor_ns(figure, moved.size_bytes)
            spent[tier.tier] += max(0.0, moved.moved_bytes / tier.bandwidth(figure) - computed_ns)
    return {tier: ns for tier, ns in spent.items() if ns}


@dataclass(frozen=True)
class _Network:
    """The stations of a demand that was measured on ``a`` for the tiers ``b``."""

    demand: Demand
    a: Tiers
    b: Tiers
    calibration: TraceFactors
    repeats: Repeats

    def stations(self) -> list[Station]:
        demand = self.demand
        devices: dict[tuple[str, Figure], list[tuple[float, FileCalls]]] = defaultdict(list)
        processor_ns = computed_ns = demand.processor_ns
        syncs: list[FileCalls] = []
        waits: dict[tuple[Figure, str], float] = defaultdict(float)
        for calls in demand.calls:
            figure = self._figure(calls)
            if figure is None:
                continue
            made = calls.calls * (reached(calls, self.a[calls.part]) if figure == "read" else 1.0)
            on_a, on_b = (
                tier[calls.part].processor_ns(figure, calls.size_bytes) for tier in (self.a, self.b)
            )
            processor_ns += made * (on_b - on_a)
            computed_ns -= made * on_a
            if _is_commit(calls):
                syncs.append(calls)
            else:
                waits[figure, calls.part] += made
                devices[self.b[calls.part].tier, figure].append((made, calls))
        if syncs:
            waits["append", _LOG] = self.calibration.commits
        processor_ns += self._after_waits_ns(waits, computed_ns)
        computing_ns = max(_LEAST_COMPUTED * demand.processor_ns, processor_ns)
        result = [processors(computing_ns, demand.processors, demand.others, demand.customers)]
        result += [self._device(figure, visits) for (_, figure), visits in devices.items()]
        return [*result, self._log(syncs)] if syncs else result

    def _after_waits_ns(
        self, waits: Mapping[tuple[Figure, str], float], computed_ns: float
    ) -> float:
        """By how much more processor time waiting takes on B than on A: of the calls, and of the
        work between them, which is less than the baseline's where the operation computes less."""
        customers, more_ns = self.demand.customers, 0.0
        for (figure, part), made in waits.items():
            on_a, on_b = (tiers[part].after_work.get(figure) for tiers in (self.a, self.b))
            if on_a is None or on_b is None or not made:
                continue
            work_ns = on_a.work(customers)
            share = min(1.0, max(0.0, computed_ns) / sum(waits.values()) / work_ns)
            more_ns += made * share * (on_b.work(customers) - work_ns)
            more_ns += made * (on_b.call(customers) - on_a.call(customers))
        return more_ns

    def _figure(self, calls: FileCalls) -> Figure | None:
        """Return the baseline's measurement of calls that sessions make and wait for."""
        if calls.cell.background:
            return None
        if calls.operation == "read":
            return "read"
        if calls.operation == "sync" or _is_commit(calls):
            return "append"
        return "write" if calls.past_cache > 0.5 else None

    def _device(self, figure: Figure, visits: Sequence[tuple[float, FileCalls]]) -> Station:
        """A device with the calls of one kind; they are faster together than one by one."""
        tier = self.b[visits[0][1].part]
        demand_ns = sum(
            made * tier.waiting_ns(figure, calls.size_bytes, self.repeats) for made, calls in visits
        )
        made = sum(made for made, _ in visits)
        size = sum(made * calls.size_bytes for made, calls in visits) / made if made else 1.0
        speeds = tier.speeds(figure, size, self.demand.customers)
        scale = self.calibration.reads if figure == "read" else 1.0
        return Station(figure, scale * demand_ns, speeds, tier.tier)

    def _log(self, syncs: Sequence[FileCalls]) -> Station:
        """The log, whose sync serves all that wait; it takes as long as their bytes need."""
        tier = self.b[_LOG]
        commits = self.calibration.commits
        entry_bytes = sum(calls.moved_bytes for calls in syncs) / commits

        def sync_ns(group: float) -> float:
            size = entry_bytes * group
            alone_ns = _append_ns(self.demand, tier, size, self.repeats)
            longer_ns = self.calibration.sync_longer_ns if tier.waits("append", size) else 0.0
            return min(1.0, self.calibration.syncs) * alone_ns + longer_ns

        alone_ns = sync_ns(1.0)
        groups = [max(1.0, n / 2) for n in range(1, self.demand.customers + 1)]
        speeds = tuple(
            group * alone_ns / longer_ns if (longer_ns := sync_ns(group)) else group
            for group in groups
        )
        return Station(_LOG, commits * alone_ns, speeds, tier.tier)


@dataclass(frozen=True)
class QueryPhases:
    """Queries on some tiers, by the laws: computing, then waiting for the device.

    ``overlapped_ns``: the time if each query's device works ahead of the processors, as read-ahead
    has it at best.
    """

    computing_ns: float
    waiting_ns: float
    overlapped_ns: float

    @property
    def total_ns(self) -> float:
        return self.computing_ns + self.waiting_ns


def query_sum(
    queries: Sequence[QueryDemand], a: Tiers, b: Tiers, repeats: Repeats = Repeats.TYPICAL
) -> QueryPhases:
    """Return the law of the sum of queries on the tiers ``b``, that were measured on ``a``."""
    phases = [_query_phases(query, a, b, repeats) for query in queries]
    return QueryPhases(
        sum(computing_ns for computing_ns, _ in phases),
        sum(waiting_ns for _, waiting_ns in phases),
        sum(map(max, phases)),
    )


def _query_phases(query: QueryDemand, a: Tiers, b: Tiers, repeats: Repeats) -> tuple[float, float]:
    """Computing, and waiting for the device.

    Of a tier whose files are in the page cache, the device reads what the kernel fetched, which is
    divided among the parts as the engine's reads are. Reads that continue others do not wait one by
    one there: the kernel fetches what follows while the query computes, as fast as the device can.
    """
    sessions = max(1, round(query.sessions))
    read_bytes = sum(size for _, size in query.reads.values())
    fetched = min(1.0, query.fetched_bytes / read_bytes) if read_bytes else 0.0
    processor_ns, waiting_ns, fetching_ns = query.processor_ns, 0.0, 0.0
    for part, (calls, size) in query.reads.items():
        made = calls * (fetched if a[part].buffered else 1.0)
        on_a, on_b = (tiers[part].processor_ns("read", size / calls) for tiers in (a, b))
        ahead = query.ahead.get(part, 0.0)
        processor_ns += made * (1 - ahead if a[part].buffered else 1.0) * (on_b - on_a)
        if b[part].buffered:
            fetching_ns += made * ahead * (size / calls) / b[part].bandwidth("read")
            made *= 1 - ahead
        speed = b[part].speeds("read", size / calls, sessions)[-1]
        waiting_ns += made * b[part].waiting_ns("read", size / calls, repeats) / speed
    computing_ns = max(_LEAST_COMPUTED * query.processor_ns, processor_ns)
    shared = processors(computing_ns, query.processors, query.others, sessions)
    took_ns = shared.demand_ns / shared.speed(sessions)
    return took_ns, waiting_ns + max(0.0, fetching_ns - took_ns)
