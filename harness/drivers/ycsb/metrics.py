"""The measured window of the official client, from its histograms and status lines.

The client closes an interval of every histogram that it has as it makes a status line
(StatusThread.computeStats), and one more at its end (exportMeasurements). So the intervals of a
log belong, counted from the last one, to the end, to the last line, to the one before it …;
a log that began later has fewer. Their times do not help: on a busy machine one histogram
is closed long after another. Window and series are made of whole intervals.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from harness.drivers.result import (
    DriverResult,
    Operation,
    intervals_per_histogram,
    latency_percentiles,
)
from harness.drivers.ycsb.build import NAME
from harness.drivers.ycsb.client import Done
from harness.drivers.ycsb.output_parser import StatusInterval, length_ms, merged_ns, stored
from harness.errors import RunFailed
from harness.store.artifacts import LatencyPoint, SeriesPoint
from harness.units import NS_PER_S

#: The client's measurements, by the operations of the harness.
MEASUREMENTS: Mapping[str, str] = {
    "read": "READ",
    "update": "UPDATE",
    "insert": "INSERT",
    "scan": "SCAN",
    "read_modify_write": "READ-MODIFY-WRITE",
}
_NOT_FOUND = "-NOT_FOUND"
_INTENDED = "Intended-"
#: How far the wall clock, by which the client stamps its intervals, may differ in a window.
_CLOCKS_APART_NS = 20_000_000
_NS_PER_MS = 1_000_000


def measured(
    done: Done, requested: Collection[str], target: int | None, bounded_by_time: bool
) -> DriverResult:
    """Return the measurement window, without processor time and counters.

    RunFailed where the window cannot be determined.

    ``requested``: the operations requested. ``target``: operations a second that were
    offered; latencies count from intended starts then. ``bounded_by_time``: otherwise
    everything was measured, from the first operation to the last.
    """
    cut = _Cut(done, requested, target, bounded_by_time)
    window_ns, backlog = cut.window_ns, cut.backlog()
    return DriverResult(
        "ycsb",
        NAME,
        window_ns,
        cut.operations(),
        series=cut.series(),
        latencies=cut.latencies(),
        offered_count=None if target is None else round(target * window_ns / NS_PER_S),
        backlog_count=backlog,
        outstanding_count=backlog,
        ends_apart_ns=cut.apart_ns,
    )


class _Cut:
    """The intervals of the window, of each measurement."""

    def __init__(
        self, done: Done, requested: Collection[str], target: int | None, bounded_by_time: bool
    ) -> None:
        self.done = done
        self._target = target
        # Halves of read-modify-writes alone are no operations.
        self.measurements = {n: m for n, m in MEASUREMENTS.items() if n in requested}
        self._all = not bounded_by_time
        self._numbered = {name: self._of_lines(name, log) for name, log in done.logs.items()}

    def intervals(self, measurement: str) -> list[StatusInterval]:
        """Return the intervals of the window."""
        return [
            interval
            for line, interval in self._numbered.get(measurement, ())
            if self._all or self.done.begin < line <= self.done.end
        ]

    @property
    def window_ns(self) -> int:
        """The window's length by the client's wall clock; RunFailed where someone set that."""
        (begin_ms, begin_ns), (end_ms, end_ns) = self.done.clocks
        astray_ns = (end_ms - begin_ms) * _NS_PER_MS - (end_ns - begin_ns)
        if abs(astray_ns) > max(_CLOCKS_APART_NS, (end_ns - begin_ns) // 1000):
            raise RunFailed(
                "measure with the official YCSB client",
                f"the wall clock, by which it stamps its intervals, went {astray_ns / 1e9:+.3f} s "
                "astray in the window",
                "see that nothing sets the clock meanwhile",
            )
        if self._all:
            return int(self.done.words.results["OVERALL", "RunTime(ms)"]) * _NS_PER_MS
        return length_ms(self.intervals(name) for name in self.done.logs) * _NS_PER_MS

    def series(self) -> list[SeriesPoint]:
        """Return the operations that ended in each second of the window."""
        return [
            SeriesPoint(
                self._began_ns(line),
                _alone({name: self.ended(m, line) for name, m in self.measurements.items()}),
            )
            for line in self._lines()
        ]

    def latencies(self) -> list[LatencyPoint]:
        """Return percentiles over time, of as many seconds as one histogram is to have."""
        lines = self._lines()
        each = intervals_per_histogram(len(lines))
        intervals = []
        for at in range(0, len(lines), each):
            group = lines[at : at + each]
            histograms = {
                name: merged_ns(
                    interval
                    for log in self._latency_logs(measurement)
                    for line, interval in self._numbered.get(log, ())
                    if line in group
                )
                for name, measurement in self.measurements.items()
            }
            done = {name: histogram for name, histogram in histograms.items() if histogram.total}
            intervals.append(latency_percentiles(self._began_ns(group[0]), done))
        return intervals

    def _lines(self) -> range:
        """The status lines that close the window's seconds."""
        return range(self.done.begin + 1, self.done.end + 1)

    def _began_ns(self, line: int) -> int:
        """Return when the second began that this status line closes."""
        wall_ms, monotonic_ns = self.done.clocks[0]
        return monotonic_ns + (self.done.ticks[line - 1].at_ms - wall_ms) * _NS_PER_MS

    def ended(self, measurement: str, line: int) -> int:
        """Return the operations, with or without a record, of the second before a status line."""
        logs = (self._numbered.get(name, ()) for name in (measurement, measurement + _NOT_FOUND))
        return sum(interval.count for log in logs for of, interval in log if of == line)

    def _of_lines(
        self, name: str, log: Sequence[StatusInterval]
    ) -> list[tuple[int, StatusInterval]]:
        """Return each interval with its status line; the client's end closes the last one."""
        first = len(self.done.ticks) + 1 - len(log)
        if first < 0:
            raise RunFailed(
                "measure with the official YCSB client",
                f"its histogram {name} has {len(log)} intervals, and there were "
                f"{len(self.done.ticks)} status lines and an end",
                "run again; if it is so again, report it",
            )
        return list(enumerate(log, first))

    @property
    def apart_ns(self) -> int:
        """The difference between the longest and the shortest window of an operation."""
        spans = [
            length_ms([intervals])
            for measurement in self.measurements.values()
            if len(intervals := self.intervals(measurement)) == self.done.end - self.done.begin
        ]
        return (max(spans) - min(spans)) * _NS_PER_MS if spans and not self._all else 0

    def operations(self) -> dict[str, Operation]:
        """Return the operations of the window; without those that never happened."""
        pairs = sum(i.count for i in self.intervals(MEASUREMENTS["read_modify_write"]))
        halves = {"read": pairs, "update": pairs}
        operations = {}
        for name, measurement in self.measurements.items():
            missed = self.intervals(measurement + _NOT_FOUND)
            count = sum(i.count for i in (*self.intervals(measurement), *missed))
            logs = self._latency_logs(measurement)
            if count:
                operations[name] = Operation(
                    # The client closes one interval after the other: at the window's ends a pair
                    # may be there with only one of its halves.
                    count=max(0, count - halves.get(name, 0)),
                    not_found_count=sum(i.count for i in missed),
                    latency_hdr=stored(i for log in logs for i in self.intervals(log)),
                )
        return operations

    def backlog(self) -> tuple[int, int] | None:
        """Return the operations that were due and not done at both ends of the window."""
        logs = (self.done.logs.get(name) for name in MEASUREMENTS.values())
        starts = [log[0].begin_ms for log in logs if log]
        if self._target is None or not starts:
            return None
        begin, end = (
            round(self._target * (tick.at_ms - min(starts)) / 1000) - tick.operations
            for tick in (self.done.ticks[self.done.begin], self.done.ticks[self.done.end])
        )
        return max(0, begin), max(0, end)

    def _latency_logs(self, measurement: str) -> tuple[str, str]:
        name = measurement if self._target is None else _INTENDED + measurement
        return name, name + _NOT_FOUND


def _alone(counts: Mapping[str, int]) -> dict[str, int]:
    """Count each operation once: a read-modify-write is measured as a read and an update, too."""
    pairs = counts.get("read_modify_write", 0)
    halves = {"read": pairs, "update": pairs}
    return {n: max(0, c - halves.get(n, 0)) for n, c in counts.items() if c}
