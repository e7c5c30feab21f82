"""Flushes and compactions of a database, from the events in its info log.

RocksDB logs each job's beginning and end as ``… EVENT_LOG_v1 {"time_micros": …, "job": 3,
"event": "flush_started", …}``, stamped by the wall clock.

Writes go to the log and a memtable; flushes and compactions write tables later, in steps of one
memtable and of several. So the rate of both is that of a long run if a window has many such steps
and does not postpone compactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness import jsonfile
from harness.engine import TaskTimes
from harness.units import MIB, NS_PER_US, format_bytes
from harness.warnings import RunWarning

_EVENT = "EVENT_LOG_v1 "
_TASKS = ("flush", "compaction")


def background_tasks(log: str, ahead_ns: int, ended_ns: int) -> TaskTimes:
    """Times in which flushes and compactions ran, in monotonic nanoseconds.

    ``ahead_ns``: of the wall clock, against the monotonic one. ``ended_ns``: when the database was
    closed at the latest; a job without an end lasts until then.
    """
    running: dict[tuple[str, int], int] = {}
    spans: dict[str, list[tuple[int, int]]] = {task: [] for task in _TASKS}
    for event in _events(log):
        task, _, change = str(event.get("event")).partition("_")
        job, stamp_us = event.get("job"), event.get("time_micros")
        if task not in spans or not isinstance(job, int) or not isinstance(stamp_us, int):
            continue
        at_ns = stamp_us * NS_PER_US - ahead_ns
        if change == "started":
            running[task, job] = at_ns
        elif change == "finished" and (task, job) in running:
            spans[task].append((running.pop((task, job)), at_ns))
    for (task, _), began_ns in running.items():
        spans[task].append((began_ns, ended_ns))
    return {task: list(_united(periods)) for task, periods in spans.items() if periods}


def _events(log: str) -> Iterator[Mapping[str, Any]]:
    """The log is the servers' user's: what is no event is left out."""
    for line in log.splitlines():
        _, marker, text = line.partition(_EVENT)
        if not marker:
            continue
        try:
            event = jsonfile.parse(text)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def _united(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """In order, without overlaps: several jobs are at work at once."""
    begin, end = 0, 0
    for began, ended in sorted(span for span in spans if 0 < span[0] < span[1]):
        if began > end:
            if end:
                yield begin, end
            begin = began
        end = max(end, ended)
    if end:
        yield begin, end


#: A window that writes less has next to nothing to flush.
_LITTLE_BYTES = 16 * MIB
#: Tolerated compaction backlog at the window's end, as a share of what compactions wrote: the
#: compaction due at that moment has several memtables and all that they overlap.
_BACKLOG = 0.5


def write_back_warnings(window: Mapping[str, float]) -> Iterator[RunWarning]:
    """``window``: increase of each ticker; empty if there are no statistics."""
    if (written := window.get("rocksdb_written_bytes", 0.0)) < _LITTLE_BYTES:
        return
    flushed = window.get("rocksdb_flush_write_bytes", 0.0)
    compacted = window.get("rocksdb_compact_write_bytes", 0.0)
    backlog = window.get("rocksdb_pending_compaction_bytes", 0.0)
    counters = (
        f"clients wrote {format_bytes(written)}, flushes {format_bytes(flushed)}, compactions "
        f"{format_bytes(compacted)}"
    )
    smaller = "raise --duration, or lower --set write_buffer_size=…"
    if not flushed:
        yield RunWarning(
            "no-flush-in-window", "no memtable was flushed in the window", counters, smaller
        )
    elif not compacted:
        yield RunWarning(
            "no-compaction-in-window", "no compaction ran in the window", counters, smaller
        )
    elif backlog > _BACKLOG * compacted:
        yield RunWarning(
            "compaction-backlog-grows",
            "compactions do not keep up, and writes slow down with the length of the window",
            f"{counters}; pending compactions grew by {format_bytes(backlog)}",
            "raise --ramp-up or max_background_jobs, or lower --rate",
        )
