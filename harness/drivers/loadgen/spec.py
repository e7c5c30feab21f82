"""Specification of the native client's work, and its division among several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from harness import hdr
from harness.counters import summed
from harness.drivers.result import DriverResult, Operation, latency_percentiles
from harness.errors import RunFailed
from harness.sequences import grouped
from harness.store.artifacts import SeriesPoint
from harness.store.documents import set_members
from harness.store.result import Clock
from harness.store.spec import JsonObject
from harness.structs import Misfit, Struct

Count = Annotated[int, Meta(ge=0)]


@dataclass(frozen=True)
class LoopMode:
    """An open loop where there is a rate, else a closed loop.

    ``first_start``: of the interval between two starts, when the first one is due.
    ``processes``: those that share the starts.
    """

    rate_per_s: float | None = None
    think_time: bool | None = None
    first_start: float | None = None
    processes: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"kind": "closed" if self.rate_per_s is None else "open", **set_members(self)}


@dataclass(frozen=True)
class LoadgenSpec:
    """The document that ``loadgen`` reads (loadgen/spec.c has limits and defaults of its keys)."""

    backend: str
    connection: JsonObject
    workload: str
    params: JsonObject
    threads: int
    task: Literal["run", "load", "verify"] = "run"
    statements: Mapping[str, str | list[str]] | None = None
    connections: int = 1
    terminals: int | None = None
    first_terminal: int | None = None
    all_terminals: int | None = None
    mode: LoopMode | None = None
    #: Of a run, one of both.
    duration_ns: int | None = None
    operations: int | None = None
    ramp_up_ns: int = 0
    #: The same where it is not set.
    drain_ns: int = 5_000_000_000
    seed: int = 0
    stall_timeout_ns: int | None = None
    series_interval_ns: int | None = None
    intervals_per_histogram: int | None = None
    start_at_realtime_ns: int | None = None
    journal: str | None = None
    shared: str | None = None

    def to_json(self) -> dict[str, Any]:
        document = set_members(self)
        work = {"name": document.pop("workload"), "params": document.pop("params")}
        return {"schema": 1, **document, "workload": work}


def split(spec: LoadgenSpec, processes: int) -> list[LoadgenSpec]:
    """Return one spec for each of several processes that together offer the load of ``spec``.

    Connections, terminals, operations and rate are spread evenly. The starts of an open loop are
    one schedule: processes that share a file (one host) have one queue, others take every
    ``processes``-th start. Each has the spec's threads, and a journal of its own (see
    :func:`journals`). Each process has a connection and an operation at least.
    """
    terminals = spec.terminals or spec.connections
    paths = journals(Path(spec.journal), processes) if spec.journal else None
    first, specs = 0, []
    for index in range(processes):
        mine = _share(spec.connections, processes, index)
        own_terminals = _share(terminals, processes, index)
        mode = spec.mode
        if mode and mode.rate_per_s is not None:
            rate = mode.rate_per_s / processes
            mode = LoopMode(rate, first_start=index / processes, processes=processes)
        operations = spec.operations
        specs.append(
            replace(
                spec,
                connections=mine,
                threads=min(spec.threads, mine),
                terminals=own_terminals,
                first_terminal=first,
                all_terminals=terminals,
                operations=operations and _share(operations, processes, index),
                mode=mode,
                journal=str(paths[index]) if paths else None,
            )
        )
        first += own_terminals
    return specs


def journals(journal: Path, processes: int) -> list[Path]:
    """Return the journals that the specs of :func:`split` name."""
    if processes == 1:
        return [journal]
    return [journal.with_name(f"{journal.name}.{index}") for index in range(processes)]


def _share(of: int, processes: int, index: int) -> int:
    return of // processes + (index < of % processes)


#: How far apart clients may begin that ran together.
_APART_NS = 200_000_000


class ClientOperation(Struct, frozen=True):
    """An operation of the measured window, as :class:`Operation` describes its counts."""

    count: Count
    not_found_count: Count
    skipped_count: Count
    rolled_back_count: Count
    retried_count: Count
    unfinished_count: Count
    latency_hdr: Annotated[
        str,
        Meta(
            description="nanoseconds, by (intended) start in the window, however late the end; "
            "HdrHistogram V2 compressed, base64; 1 ns … 1 h, 3 digits"
        ),
    ]

    def operation(self) -> Operation:
        """Return the operation as all drivers report it."""
        return Operation(**msgspec.structs.asdict(self))


class IntervalCounts(Struct, frozen=True):
    """Operations that ended in an interval, by name."""

    monotonic_ns: int
    counts: Mapping[str, Count]


class IntervalHistograms(Struct, frozen=True):
    """Histograms of an interval, by operation: of nanoseconds, 8 ns … 1 h, 2 digits."""

    monotonic_ns: int
    hdr: Mapping[str, str]


class Offered(Struct, frozen=True):
    """The intended starts of an open loop in the window, and what was under way at its ends."""

    count: Count
    backlog_begin: Count
    backlog_end: Count
    in_flight_begin: Count
    in_flight_end: Count


class Verified(Struct, frozen=True):
    """The records that a verification has read back.

    ``malformed``: not what was written at any time under this key; ``unexpected``: under keys that
    were never written; ``changed``: fields whose last writing was an update; ``updated``: the same
    fields, sampled as those of a run are: where a number is lower than the run's, an acknowledged
    update is not there; ``first``: describes the first wrong record.
    """

    records: Count
    expected: Count
    missing: Count
    malformed: Count
    unexpected: Count
    changed: Count
    updated: tuple[Count, ...]
    first: str | None


class InsideEngine(Struct, frozen=True):
    """The counters of an engine inside the client, units in their names, and its texts.

    ``begin``, ``end``: of the measured window, after a load of its end; ``text``: of the end.
    """

    begin: Mapping[str, float] = {}
    end: Mapping[str, float] = {}
    text: Mapping[str, str] = {}


class LoadgenResult(Struct, frozen=True, tag_field="schema", tag=1):
    """The document that ``loadgen`` prints.

    ``client_cpu_ns``: user and system time of the process: in the measured window of a run, in all
    of a load or verification; ``threads_cpu_ns``: of each event loop, in the window. ``notes``:
    facts for a reader: loop (meaning of the latencies), and the workload's own.
    ``measured_ns``: length of the measured window, which begins at ``started_monotonic_ns``.
    ``latencies``: of every ``intervals_per_histogram`` intervals of the series. ``errors``: by the
    server's code, attempts retried in the window, and errors that ended the run.
    ``published_sessions``: connections that had the server count what they did at the window's
    ends; 0 where servers count at once. Of YCSB: ``inserted``: inserts acknowledged without a gap
    since the run began, by all processes that share the counter; ``inserts_begun``: since the run
    began; ``updated``: a sample of the fields whose update was acknowledged, ramp-up included: of
    each of 2048 groups of fields the highest hash, 0 for none.
    """

    status: Annotated[
        Literal["complete", "failed", "stalled"],
        Meta(description="stalled: the server answered no call for stall_timeout_ns"),
    ]
    task: Literal["run", "load", "verify"]
    version: str
    client_cpu_ns: Count
    notes: Mapping[str, Any]
    error: str | None = None
    memory_peak_bytes: Count | None = None
    # Of a run:
    clock: Clock = Clock(0, 0)
    started_monotonic_ns: int = 0
    measured_ns: Count = 0
    threads_cpu_ns: tuple[Count, ...] = ()
    operations: Mapping[str, ClientOperation] = {}
    series: tuple[IntervalCounts, ...] = ()
    latencies: tuple[IntervalHistograms, ...] = ()
    errors: Mapping[str, Count] = {}
    offered: Offered | None = None
    published_sessions: Count = 0
    inserted: Count | None = None
    inserts_begun: Count | None = None
    updated: tuple[Count, ...] | None = None
    engine: InsideEngine = InsideEngine()
    # Of a load, and of a verification:
    duration_ns: Count | None = None
    rows: Mapping[str, Count] = {}
    verified: Verified | None = None

    def __post_init__(self) -> None:
        """Refuse a run without a window, and others without their duration."""
        complete = self.status == "complete"
        if self.task == "run" and not (
            self.clock.realtime_ns and (self.measured_ns or not complete)
        ):
            raise Misfit("a run without a measured window")
        if self.task != "run" and self.duration_ns is None:
            raise Misfit(f"a {self.task} without its duration_ns")

    def window(self) -> DriverResult:
        """Return what the client did in the measurement window, as all drivers report it."""
        offered, threads = self.offered, self.threads_cpu_ns
        return DriverResult(
            driver="loadgen",
            version=self.version,
            window_ns=self.measured_ns,
            operations={name: operation.operation() for name, operation in self.operations.items()},
            client_cpu_ns=self.client_cpu_ns,
            client_threads=len(threads) or None,
            busiest_thread_share=max(threads) / self.measured_ns if threads else None,
            offered_count=offered.count if offered else None,
            backlog_count=(offered.backlog_begin, offered.backlog_end) if offered else None,
            backlog_left_out=True,
            # It begins without a backlog: starts of the ramp-up that were due are left out.
            outstanding_count=(
                (offered.in_flight_begin, offered.backlog_end + offered.in_flight_end)
                if offered
                else None
            ),
            published_sessions=self.published_sessions,
            retried_by_code=self.errors,
            series=[
                SeriesPoint(interval.monotonic_ns, interval.counts) for interval in self.series
            ],
            latencies=[
                latency_percentiles(
                    interval.monotonic_ns,
                    {name: hdr.decode(text) for name, text in interval.hdr.items()},
                )
                for interval in self.latencies
            ],
            notes=self.notes,
        )


def merged(results: Sequence[LoadgenResult]) -> LoadgenResult:
    """Merge the results of processes that ran together, on one host or on several.

    Clock, version, start and notes are the first one's; counts and processor times are
    sums, the memory is that of the largest process. Histograms are merged. Inserts are
    counted by all processes together: the last one to end has the total. RunFailed where
    their windows did not begin together by the hosts' wall clocks.
    """
    first = results[0]
    if len(results) == 1:
        return first
    _check_together(results)

    def combine(function: Callable[[Iterable[Any]], Any], name: str) -> Any:
        values = [value for result in results if (value := getattr(result, name)) is not None]
        return function(values) if values else None

    return msgspec.structs.replace(
        first,
        **{name: combine(max, name) for name in _LARGEST},
        **{name: combine(sum, name) for name in ("client_cpu_ns", "published_sessions")},
        threads_cpu_ns=tuple(chain.from_iterable(result.threads_cpu_ns for result in results)),
        errors=summed(result.errors for result in results),
        # The highest of each group of fields.
        updated=combine(lambda hashes: tuple(map(max, *hashes)), "updated"),
        operations={
            name: _merged_operation([result.operations[name] for result in results])
            for name in first.operations
        },
        series=tuple(
            IntervalCounts(there[0].monotonic_ns, summed(interval.counts for interval in there))
            for there in _by_interval(result.series for result in results)
        ),
        latencies=tuple(
            _merged_interval(there)
            for there in _by_interval(result.latencies for result in results)
        ),
        offered=combine(
            lambda several: Offered(**summed(map(msgspec.structs.asdict, several))), "offered"
        ),
    )


_HISTOGRAM = "latency_hdr"
_LARGEST = ("measured_ns", "memory_peak_bytes", "inserted", "inserts_begun")


P = TypeVar("P")


def _by_interval(several: Iterable[Sequence[P]]) -> Iterable[list[P]]:
    """Return the points of each interval; a process that ended earlier has none."""
    return (
        [interval for interval in same if interval is not None] for same in zip_longest(*several)
    )


def _merged_interval(there: Sequence[IntervalHistograms]) -> IntervalHistograms:
    encoded = grouped(chain.from_iterable(interval.hdr.items() for interval in there))
    histograms = {operation: hdr.merge_encoded(texts) for operation, texts in encoded.items()}
    return IntervalHistograms(there[0].monotonic_ns, histograms)


def _merged_operation(same: Sequence[ClientOperation]) -> ClientOperation:
    counts: dict[str, Any] = summed(
        {
            name: count
            for name, count in msgspec.structs.asdict(operation).items()
            if name != _HISTOGRAM
        }
        for operation in same
    )
    return ClientOperation(
        **counts, latency_hdr=hdr.merge_encoded(operation.latency_hdr for operation in same)
    )


def merged_instances(results: Sequence[LoadgenResult]) -> LoadgenResult:
    """Merge the results of databases that ran together: inserts and counters are sums, too."""
    if len(results) == 1:
        return results[0]
    inserts = {
        name: sum(getattr(result, name) or 0 for result in results)
        for name in ("inserted", "inserts_begun")
        if getattr(results[0], name) is not None
    }
    engine = InsideEngine(
        begin=summed(result.engine.begin for result in results),
        end=summed(result.engine.end for result in results),
        text=results[0].engine.text,
    )
    return msgspec.structs.replace(merged(results), engine=engine, **inserts)


def _check_together(results: Sequence[LoadgenResult]) -> None:
    begins = [
        result.clock.realtime_ns - result.clock.monotonic_ns + result.started_monotonic_ns
        for result in results
    ]
    apart_ns = max(begins) - min(begins)
    if apart_ns > _APART_NS:
        raise RunFailed(
            f"merge the results of {len(results)} clients",
            f"their measured windows began {apart_ns / 1e9:.3f} s apart",
            "give all of them the same start_at_realtime_ns and ramp-up, and keep the hosts' "
            "clocks synchronised",
        )
