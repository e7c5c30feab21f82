"""The result of a driver's measured window, alike for every workload and every client.

So that one driver calibrates another. What a driver does not report is None or absent, never
zero.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness import hdr
from harness.counters import difference
from harness.errors import RunFailed
from harness.store.artifacts import Latency, LatencyPoint, SeriesPoint
from harness.store.spec import JsonObject
from harness.units import format_ns
from harness.workload import Session


@dataclass(frozen=True)
class Operation:
    """One type of operation (of TPC-C: of transaction) in the measured window.

    ``count``: ended in the window as it should: of transactions those that were committed
    or only read. ``rolled_back_count``: those that the workload wants rolled back; not in
    ``count``. ``skipped_count``: of ``count``, those that had less to do than belongs to
    them. ``not_found_count``: of ``count``, those that found no record of their key.
    ``retried_count``: attempts undone by the server and made again. ``failed_count``: given up
    after such attempts, and not in ``count``. ``unfinished_count``:
    begun in the window, never answered. ``latency_hdr``: HdrHistogram V2 compressed,
    base64, of nanoseconds; ``percentiles_ns``: by percentile (``"95"``), from a driver that
    reports no histogram; ``called_count``: calls from the client's start on, from one that
    counts no others.
    """

    count: int | None = None
    rolled_back_count: int | None = None
    skipped_count: int | None = None
    not_found_count: int | None = None
    retried_count: int | None = None
    failed_count: int | None = None
    unfinished_count: int | None = None
    latency_hdr: str | None = None
    percentiles_ns: Mapping[str, float] = field(default_factory=dict)
    called_count: int | None = None

    @property
    def done_count(self) -> int | None:
        """Operations that ended as the workload wants it, intended rollbacks among them."""
        return None if self.count is None else self.count + (self.rolled_back_count or 0)

    @property
    def answered_share(self) -> float:
        """The share of the operations in the histogram that were answered; 0 without a histogram.

        The others are in it with their age when the client stopped waiting for them.
        """
        total = 0 if self.latency_hdr is None else hdr.decode(self.latency_hdr).total
        return max(0.0, 1 - (self.unfinished_count or 0) / total) if total else 0.0


@dataclass(frozen=True)
class DriverResult:
    """The measurement window as its driver reports it.

    ``window_ns``: its length. ``operations``: by name. ``client_cpu_ns``: of the client's
    processes in the window; ``busiest_thread_share``: of the window, how much its busiest
    thread computed. ``offered_count``: intended starts in the window of an open loop;
    ``backlog_count``: of those due, how many were not begun at the window's beginning and
    end; ``backlog_left_out``: the first of them never began, and the second are of the window
    alone. ``outstanding_count``: of those due and not left out, how many had no answer at the
    window's beginning and end. ``retried_by_code``: by the server's error code. ``series``:
    operations done by interval of :data:`SERIES_NS`. ``latencies``: at most
    :data:`MOST_LATENCIES`.
    ``engine_counters``: what the window added to
    the counters of an engine inside the client, units in their names; ``engine_text``: text
    properties, by name. ``counters_late_ns``: how far from an end of the window all counters
    were read, where that was too late to be the window's.
    ``published_sessions``: those that published the engine's counters at both ends of the window.
    ``ends_apart_ns``: by how much the windows of different operations differ. ``notes``: facts
    about the client for the result.
    ``reported_per_minute``: rates that the driver reports itself, by metric. ``finished_counts``:
    operations done since the client began, its ramp-up included. Of YCSB:
    ``inserted_count``: acknowledged inserts since the client began;
    ``inserts_begun_count``: those and the ones without an answer at its end; ``updated``: a sample
    of the fields whose update was acknowledged (harness.workloads.ycsb.workload.check_records).
    ``instances``: the result of each of several databases, of which this one is the sum.
    """

    driver: str
    version: str
    window_ns: int
    operations: Mapping[str, Operation] = field(default_factory=dict)
    client_cpu_ns: int | None = None
    client_threads: int | None = None
    busiest_thread_share: float | None = None
    offered_count: int | None = None
    backlog_count: tuple[int, int] | None = None
    backlog_left_out: bool = False
    outstanding_count: tuple[int, int] | None = None
    retried_by_code: Mapping[str, int] = field(default_factory=dict)
    series: Sequence[SeriesPoint] = ()
    latencies: Sequence[LatencyPoint] = ()
    engine_counters: Mapping[str, float] = field(default_factory=dict)
    engine_text: Mapping[str, str] = field(default_factory=dict)
    counters_late_ns: int | None = None
    published_sessions: int = 0
    ends_apart_ns: int = 0
    notes: JsonObject = field(default_factory=dict)
    reported_per_minute: Mapping[str, float] = field(default_factory=dict)
    finished_counts: Mapping[str, int] | None = None
    inserted_count: int | None = None
    inserts_begun_count: int | None = None
    updated: Sequence[int] | None = None
    instances: Sequence[DriverResult] = ()

    @property
    def each(self) -> Sequence[DriverResult]:
        """The results of the instances; this one where there is one database."""
        return self.instances or (self,)

    @property
    def done_count(self) -> int | None:
        """Operations done in the window; None where the driver does not report each."""
        return total(operation.done_count for operation in self.operations.values())


#: How long an interval of a series is.
SERIES_NS = 1_000_000_000
#: A longer window's latencies are of several intervals each: percentiles cannot be averaged later.
MOST_LATENCIES = 400


def intervals_per_histogram(intervals: int) -> int:
    """Return the number of intervals that one histogram of latencies covers."""
    return max(1, -(-intervals // MOST_LATENCIES))


def latency_percentiles(monotonic_ns: int, histograms: Mapping[str, hdr.Histogram]) -> LatencyPoint:
    """Return the percentiles of histograms of the operations that ended in an interval."""
    operations = {
        name: Latency(histogram.total, *histogram.percentiles([50, 95, 99]))
        for name, histogram in histograms.items()
    }
    return LatencyPoint(monotonic_ns, operations)


def total(counts: Iterable[int | None]) -> int | None:
    """Return the sum of counts; None where there is no count, or one is not known."""
    values = list(counts)
    if not values or any(count is None for count in values):
        return None
    return sum(count for count in values if count is not None)


#: The kernel counts a server's processor time in ticks of 10 ms (proc(5), utime): of fewer than
#: ten of them nothing can be said by operation.
_LEAST_SERVER_CPU_NS = 10 * 10_000_000


def cpu_per_operation(
    done: int | None, client_cpu_ns: float | None, server_cpu_ns: float | None
) -> dict[str, float]:
    """Return the processor time per operation of ``client`` and ``server``, if known."""
    if server_cpu_ns is not None and server_cpu_ns < _LEAST_SERVER_CPU_NS:
        server_cpu_ns = None
    spent = {"client": client_cpu_ns, "server": server_cpu_ns}
    return {side: ns / done for side, ns in spent.items() if done and ns is not None}


def _nothing(*_: Any) -> None:
    pass


@dataclass(frozen=True)
class Second:
    """Work of a driver in its last second, for the live view.

    ``per_s``: operations; ``latency_hdrs``: of its processes, where it reports them.
    """

    per_s: float
    latency_hdrs: Sequence[str] = ()

    def text(self, noun: str) -> str:
        """``1,234 transactions/s, p99 3.21 ms``."""
        rate = f"{self.per_s:,.0f} {noun}/s"
        if not self.latency_hdrs:
            return rate
        merged = hdr.merge(hdr.decode(text) for text in self.latency_hdrs)
        return f"{rate}, p99 {format_ns(merged.percentile(99))}" if merged.total else rate


@dataclass(frozen=True)
class WindowCallbacks:
    """Functions that a driver calls, in the calling thread or another.

    ``on_measuring``, ``on_measured``: once, as the measured window begins and ends.
    ``on_counts``: about every second, the operations so far by name (of a load: rows by table).
    ``on_second``: the last second, with the counts after it.
    """

    on_measuring: Callable[[], None] = _nothing
    on_measured: Callable[[], None] = _nothing
    on_counts: Callable[[Mapping[str, int]], None] = _nothing
    on_second: Callable[[Second], None] = _nothing


@dataclass
class WindowCounters:
    """Counters at the two ends of the measured window.

    A first reading when it is made connects and calibrates what reads the engine's counters,
    before clients are at work; the ramp-up counts from there.
    """

    session: Session
    _start: Mapping[str, float] = field(init=False)
    _before: Mapping[str, float] | None = None
    _counters: Mapping[str, float] | None = None
    #: By the monotonic clock, when each reading began and ended.
    _read_ns: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._start = self.session.counters()

    def drives(self) -> WindowCallbacks:
        """Return the functions that the driver calls."""
        return WindowCallbacks(self.begin, self.end)

    def begin(self) -> None:
        self._before = self._read()

    def end(self) -> None:
        if self._before is not None:
            self._counters = difference(self._before, self._read())
        if self.session.engine.inside_client:  # and ends with it
            self.session.measured()

    def _read(self) -> Mapping[str, float]:
        began_ns = time.monotonic_ns()
        counters = dict(self.session.counters("under way"))
        self._read_ns.append((began_ns, time.monotonic_ns()))
        return counters

    def clock_error_ns(self, window_ns: int) -> int:
        """Return by how much the counters' interval is longer than the window's ``window_ns``.

        A reading takes time, and a busy machine may begin or end one late: the greater deviation
        of the interval between the readings' beginnings and that between their ends. 0 without
        two readings; two that are equally late are not detected.
        """
        if len(self._read_ns) != 2:
            return 0
        before, after = self._read_ns
        apart = (then - now for now, then in zip(before, after, strict=True))
        return max((length - window_ns for length in apart), key=abs)

    @property
    def ramp_up(self) -> Mapping[str, float]:
        """The counters' increase in the ramp-up; empty if the window's beginning is unknown."""
        return difference(self._start, self._before or {})

    def counters(self, driven: DriverResult) -> Mapping[str, float]:
        """Return the window's increase of each counter, without that of its publications.

        RunFailed where the client did not report the window's ends.
        """
        if self._counters is None:
            raise RunFailed(
                "count the cost of the window",
                "the client did not report its two ends",
                "run again",
            )
        counters = dict(self._counters)
        for name, cost in self.session.engine.publication_cost.items():
            if name in counters:
                added = driven.published_sessions * cost
                counters[name] = max(0.0, counters[name] - added)
        return counters
