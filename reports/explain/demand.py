"""Demand of a run's operations: calls with their sizes, and processor time.

All of the mean operation of a closed loop, or of each query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.hdr import Histogram
from harness.host.processors import cpu_numbers
from harness.iotrace.page import PARTS, CounterCell
from harness.metrics import Load
from harness.store.runs import StoredRun
from reports.explain.ceilings import operations_of, values_of, waited_of
from reports.explain.devices import cell_of
from reports.values import Quantity, histogram, natural

_PAGE_BYTES = 4096
_LOG = "wal"
#: Of a log's syncs: background threads make fewer of their own accord.
_OF_ITS_OWN_ACCORD = 0.1
_PROCESSOR_TIMES = ("server_cpu_per_{}_ns", "client_cpu_per_{}_ns", "process_cpu_per_{}_ns")


@dataclass(frozen=True)
class FileCalls:
    """Calls of a cell. ``calls``: of an operation; ``size_bytes``: their mean, of syncs what was
    dirty; ``past_cache``: the share that does not go through the page cache or is durable at
    once; ``growing``: that makes files longer; ``durations``: of all timed calls."""

    cell: CounterCell
    calls: float
    size_bytes: float
    past_cache: float = 0.0
    growing: float = 0.0
    durations: Histogram | None = None

    @property
    def part(self) -> str:
        return self.cell.part

    @property
    def operation(self) -> str:
        return self.cell.operation

    @property
    def moved_bytes(self) -> float:
        """Return the bytes of an operation."""
        return self.calls * self.size_bytes


@dataclass(frozen=True)
class Demand:
    """The mean operation of a closed loop.

    ``processor_ns``: of engine and client; ``others``: other programs that computed at the
    same time, on the same ``processors``; ``throughput``: that was measured, per ns; ``writes``:
    share of the operations that write, None if the workload does not say which; ``locked``: share
    of an operation's time in which its session waits for a lock, 0 if that was not observed.
    """

    customers: int
    processor_ns: float
    processors: int
    others: float
    throughput: float
    calls: tuple[FileCalls, ...]
    writes: float | None = None
    locked: float = 0.0


@dataclass(frozen=True)
class QueryDemand:
    """A query that runs alone, on ``processors`` where ``others`` compute, too.

    ``sessions``: that share its work; ``reads``: by part, the engine's calls and their bytes;
    ``fetched_bytes``: that the kernel read from storage for it; ``ahead``: by part, the share of
    reads through the page cache that continue others, so that the kernel reads ahead of them.
    """

    query: str
    duration_ns: float
    processor_ns: float
    processors: int
    others: float
    sessions: float
    reads: Mapping[str, tuple[float, float]]
    fetched_bytes: float
    ahead: Mapping[str, float] = field(default_factory=dict)


def demand_of(run: StoredRun, load: Load) -> Demand | None:
    """Return what an operation of a run demands; None without operations or processor time."""
    values = values_of(run)
    count = operations_of(run, load.durations)
    window_ns = values.get(Quantity("window_duration_ns"), 0.0)
    names = (name.format(load.noun) for name in _PROCESSOR_TIMES)
    processor_ns = sum(values.get(Quantity(name), 0.0) for name in names)
    customers = run.spec.params.get(load.users)
    if not (count and window_ns and processor_ns and isinstance(customers, int)):
        return None
    processors = processors_of(run)
    return Demand(
        customers,
        processor_ns,
        processors,
        values.get(Quantity("other_cpu_share"), 0.0) * processors,
        count / window_ns,
        tuple(file_calls(run, count)),
        _writing(run, load) / count if load.writes else None,
        _locked(run) if Quantity(f"server_cpu_per_{load.noun}_ns") in values else 0.0,
    )


def _locked(run: StoredRun) -> float:
    """Return the share of time in which sessions of a server wait for locks.

    Threads of an engine inside the client wait for one another's syncs by the same call.
    """
    waited = waited_of(run).get("")
    return waited.of(("lock",)) / waited.latency_ns if waited else 0.0


def _writing(run: StoredRun, load: Load) -> int:
    """Return the number of operations that write."""
    return sum(
        durations.total
        for metric in run.result.metrics
        if metric.name == load.durations and metric.labels.get(load.noun) in load.writes
        if (durations := histogram(metric)) is not None
    )


def queries_of(run: StoredRun) -> list[QueryDemand]:
    """Return what each query of a run demands; without those whose processor time is not known."""
    values = values_of(run)
    queries = {q.label("query") or "" for q in values if q.name == "query_duration_ns"}
    processors = processors_of(run)
    others = values.get(Quantity("other_cpu_share"), 0.0) * processors
    ahead = _read_ahead(run)
    demands = []
    for query in sorted(queries - {""}, key=natural):
        of_query = (("query", query),)
        processor_ns = values.get(Quantity("query_cpu_ns", of_query))
        duration_ns = values.get(Quantity("query_duration_ns", of_query))
        if processor_ns is None or not duration_ns:
            continue
        reads: dict[str, tuple[float, float]] = {}
        for part in PARTS:
            labels = (("operation", "read"), ("part", part), *of_query)
            calls = values.get(Quantity("query_io_calls_count", labels), 0.0)
            if calls:
                reads[part] = calls, values.get(Quantity("query_io_bytes", labels), 0.0)
        sessions = values.get(Quantity("query_wait_sessions_count", of_query))
        if sessions is None:  # processors that computed at the same time, at least
            sessions = max(1.0, processor_ns / duration_ns)
        fetched = values.get(Quantity("query_io_read_bytes", of_query), 0.0)
        demands.append(
            QueryDemand(
                query,
                duration_ns,
                processor_ns,
                processors,
                others,
                sessions,
                reads,
                fetched,
                ahead,
            )
        )
    return demands


def _read_ahead(run: StoredRun) -> dict[str, float]:
    """Return the share of each part's reads that the kernel may read ahead of, over all queries."""
    stored: list[dict[str, Any]] = run.artifact("io-operations") or []
    shares = {}
    for counters in stored:
        cell, calls = cell_of(counters), counters["calls"]
        if cell.operation == "read" and not cell.background and calls:
            cached = 1 - min(1.0, counters["direct"] / calls)
            shares[cell.part] = cached * min(1.0, counters["sequential"] / calls)
    return shares


def processors_of(run: StoredRun) -> int:
    """Return the number of processors that a run could use."""
    if run.manifest is None:
        return 1
    if run.manifest.processors:
        return len(cpu_numbers(run.manifest.processors, f"run {run.run_id}"))
    return run.manifest.host.cpu.threads


def file_calls(run: StoredRun, operations: float) -> Iterator[FileCalls]:
    """Yield the calls of each cell, divided by a number of operations.

    Calls of a log's writer, a background thread, count as the sessions': these wait for them.
    """
    durations = {
        cell_of(metric.labels): times
        for metric in run.result.metrics
        if metric.name == "io_duration_ns"
        and metric.labels.keys() >= {"part", "operation"}
        and (times := histogram(metric)) is not None
    }
    stored: list[dict[str, Any]] = run.artifact("io-operations") or _by_metrics(run)
    cells = [cell_of(counters) for counters in stored]
    writer = _log_writer(zip(cells, stored, strict=True))
    for cell, counters in zip(cells, stored, strict=True):
        made = counters["calls"]
        waited_for = cell
        if writer and cell.part == _LOG:
            waited_for = CounterCell(cell.part, cell.operation, "foreground")
        size = counters["dirtied_bytes" if cell.operation == "sync" else "bytes"]
        yield FileCalls(
            waited_for,
            made / operations,
            max(_PAGE_BYTES if cell.operation == "sync" else 1, size / made),
            min(1.0, max(counters["direct"], counters["durable"]) / made),
            min(1.0, counters["extending"] / made),
            durations.get(cell),
        )


def _log_writer(stored: Iterable[tuple[CounterCell, Mapping[str, Any]]]) -> bool:
    """Return whether sessions wait for background threads' syncs of the log.

    PostgreSQL's WAL writer makes a few, of its own accord.
    """
    syncs: dict[bool, int] = {
        cell.background: counters["calls"]
        for cell, counters in stored
        if (cell.part, cell.operation) == (_LOG, "sync")
    }
    return syncs.get(True, 0) > _OF_ITS_OWN_ACCORD * sum(syncs.values())


def _by_metrics(run: StoredRun) -> list[dict[str, Any]]:
    """The counters of a run whose artifact is not there, as far as metrics have them."""
    stored = []
    values = values_of(run)
    for quantity, calls in values.items():
        if quantity.name != "io_calls_count" or not calls:
            continue
        labels = dict(quantity.labels)
        moved = values.get(Quantity("io_bytes", quantity.labels), 0.0)
        unknown = {"dirtied_bytes": 0, "direct": 0, "durable": 0, "extending": 0}
        stored.append({**labels, "calls": calls, "bytes": moved, **unknown})
    return stored
