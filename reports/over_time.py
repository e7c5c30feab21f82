"""A run over time: its series on the run's clock, in small charts over one axis.

Sources are the artifacts ``series`` (operations done), ``latencies`` (their percentiles),
``timeline`` (spans of queries) and those of monitors. Times are monotonic nanoseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from harness import hdr
from harness.counters import split
from harness.store.artifacts import LatencyPoint, SeriesPoint, TimelineEntry
from harness.store.runs import StoredRun
from harness.waits import BACKGROUND
from reports.arm import Arm
from reports.labels import query_name
from reports.metric_registry import metric_title
from reports.monitor_series import (
    NS_PER_S,
    Interval,
    MonitorSeries,
    Strip,
    TimeSeries,
    monitored,
    rate,
)
from reports.values import measured_value

#: Of the ramp-up, as much is shown as this share of the window.
_BEFORE = 0.25
#: Of a chart's bytes or time, less than this is not shown.
_LEAST_SHARE = 0.01
#: Longer lines are averaged over this many intervals; gaps between tasks are at least as wide.
_MOST_INTERVALS = 400
#: Latencies are shown of this many kinds of operation, the most frequent ones.
_MOST_KINDS = 2
_PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class Activity:
    """A query, a refresh function or a background task.

    ``lane``: its stream, or the task; spans of one lane do not overlap. ``name``: empty where the
    lane says it.
    """

    name: str
    lane: str
    begin_ns: float
    end_ns: float


@dataclass(frozen=True)
class Timeline:
    """One run: from ``first_ns`` to ``end_ns``, measured from ``begin_ns`` on.

    ``chosen``: which of the arm's runs it is. ``tasks``: those in the background, such as
    checkpoints, as far as the engine reports them.
    """

    run_id: str
    arm: str
    chosen: str
    first_ns: float
    begin_ns: float
    end_ns: float
    strips: tuple[Strip, ...]
    spans: tuple[Activity, ...]
    tasks: tuple[Activity, ...] = ()

    @property
    def of_queries(self) -> bool:
        """Return whether it begins with a query, not with a window."""
        return bool(self.spans)


def representative(arm: Arm) -> Timeline | None:
    """The timeline of the run nearest to the median of the arm's headline; None without series."""
    runs, by = list(arm.usable), ""
    if (quantity := arm.headline) is not None:
        values = {run.run_id: measured_value(run, quantity) for run in runs}
        numbers = sorted(value for value in values.values() if value is not None)
        middle = numbers[(len(numbers) - 1) // 2]
        runs.sort(key=lambda run: _distance(values[run.run_id], middle))
        by = metric_title(quantity, arm.points[quantity].better)
    for run in runs:
        run_timeline = timeline(run)
        if run_timeline is not None:
            several = f", nearest to the median of {len(runs)} by {by}" if by and runs[1:] else ""
            return replace(run_timeline, arm=arm.marked_name, chosen=several)
    return None


def _distance(value: float | None, middle: float) -> float:
    return float("inf") if value is None else abs(value - middle)


def timeline(run: StoredRun) -> Timeline | None:
    """The charts of one run; None where it has none.

    None of a resumed run, since its parts were measured at different times, and of a client on
    other hosts, since their clocks stamped its operations.
    """
    if _apart(run):
        return None
    spans = tuple(_spans(run))
    done = _done(run)
    if done is not None:
        begin, end = done.lines[0].intervals[0].begin_ns, done.lines[0].intervals[-1].end_ns
        first = begin - _BEFORE * (end - begin)
    elif spans:
        begin, end = min(s.begin_ns for s in spans), max(s.end_ns for s in spans)
        first = begin
    else:
        return None
    client_strips = [done, *_latencies(run)] if done else []
    strips = [_cut(strip, first, end) for strip in client_strips + monitored(run)]
    shown = tuple(strip for strip in strips if strip.lines)
    if not shown:
        return None
    inside = [task for task in _tasks(run) if task.end_ns > first and task.begin_ns < end]
    tasks = tuple(_joined(inside, (end - first) / _MOST_INTERVALS))
    return Timeline(run.run_id, "", "", first, begin, end, shown, spans, tasks)


def measured_spans(run: StoredRun) -> list[tuple[float, float]]:
    """Return the spans that were measured: the window, or the queries, merged where they overlap.

    Empty where ``timeline`` has no chart of the run.
    """
    if _apart(run):
        return []
    done = _done(run)
    if done is not None:
        intervals = done.lines[0].intervals
        return [(intervals[0].begin_ns, intervals[-1].end_ns)]
    merged: list[tuple[float, float]] = []
    for span in sorted(_spans(run), key=lambda span: span.begin_ns):
        if merged and span.begin_ns <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], span.end_ns)
        else:
            merged.append((span.begin_ns, span.end_ns))
    return merged


def _apart(run: StoredRun) -> bool:
    """Return whether its parts were measured at different times, or operations on another clock."""
    return bool(run.result.resumed or run.spec.params.get("client_hosts"))


def _done(run: StoredRun) -> Strip | None:
    """Operations per second, as the client counted them; the last interval may be cut off."""
    for noun, documents in (run.artifact("series") or {}).items():
        points = msgspec.convert(documents, list[SeriesPoint])
        intervals = [
            Interval(begin, end, sum(point.counts.values()) * NS_PER_S / (end - begin), end - begin)
            for begin, end, point in _in_window(run, points)
        ]
        if not intervals:
            return None
        return Strip(f"Throughput, {noun}", "1/s", (TimeSeries("", tuple(intervals)),))
    return None


_Point = TypeVar("_Point", SeriesPoint, LatencyPoint)


def _in_window(run: StoredRun, points: Sequence[_Point]) -> list[tuple[float, float, _Point]]:
    """Begin, end and the point of each interval; empty where they cannot be determined."""
    stamps: list[float] = [point.monotonic_ns for point in points]
    lengths = [m.value for m in run.result.metrics if m.name == "window_duration_ns" and m.value]
    if len(stamps) < 2 or not lengths:
        return []
    last = min(stamps[-1] + stamps[1] - stamps[0], stamps[0] + lengths[0])
    intervals = list(zip(stamps, [*stamps[1:], last], points, strict=True))
    return intervals if all(begin < end for begin, end, _ in intervals) else []


def _latencies(run: StoredRun) -> Iterator[Strip]:
    """Percentiles of the most frequent kinds of operation; none of too few operations."""
    for documents in (run.artifact("latencies") or {}).values():
        points = msgspec.convert(documents, list[LatencyPoint])
        counts: Counter[str] = Counter()
        for point in points:
            counts.update({name: operation.count for name, operation in point.operations.items()})
        intervals = _in_window(run, points)
        for kind, _ in counts.most_common(_MOST_KINDS):
            lines = [
                TimeSeries(f"p{percent}", tuple(_percentiles(intervals, kind, percent)))
                for percent in _PERCENTILES
            ]
            title = f"Latency, {kind.replace('_', ' ')}"
            yield Strip(title, "ns", tuple(lines), percentiles=True)


def _percentiles(
    intervals: Iterable[tuple[float, float, LatencyPoint]], kind: str, percent: int
) -> Iterator[Interval]:
    for begin, end, point in intervals:
        operation = point.operations.get(kind)
        if operation and operation.count >= hdr.fewest(percent):
            yield Interval(begin, end, getattr(operation, f"p{percent}_ns"), end - begin)


def _spans(run: StoredRun) -> Iterator[Activity]:
    for document in run.artifact("timeline") or []:
        entry = msgspec.convert(document, TimelineEntry)
        name, lane = entry.function or "", "refresh"
        if entry.query is not None:
            lane = "queries" if entry.stream is None else f"stream {entry.stream}"
            name = query_name(entry.query)
        if entry.submitted_ns < entry.ended_ns:
            yield Activity(name, lane, entry.submitted_ns, entry.ended_ns)


def _tasks(run: StoredRun) -> Iterator[Activity]:
    """Yield when a background task was at work: as the engine logged it, or within a sample."""
    for task, times in (run.artifact("background") or {}).items():
        for span in times:
            if span["begin_ns"] < span["end_ns"]:
                yield Activity("", task, span["begin_ns"], span["end_ns"])
    waits = MonitorSeries.of(run, "waits")
    for key in waits.names():
        counter, labels = split(key)
        if counter != BACKGROUND:
            continue
        line = waits.line("", rate([key], absent=0.0))
        busy = [
            (interval.begin_ns, interval.end_ns) for interval in line.intervals if interval.value
        ]
        while busy:
            begin, end = busy.pop(0)
            while busy and busy[0][0] == end:
                end = busy.pop(0)[1]
            yield Activity("", labels.get("task", ""), begin, end)


def _joined(tasks: Iterable[Activity], apart_ns: float) -> Iterator[Activity]:
    """Tasks of a lane, which are in order, without gaps that a chart cannot show."""
    last: dict[str, Activity] = {}
    for task in tasks:
        before = last.get(task.lane)
        if before is not None and 0 <= task.begin_ns - before.end_ns < apart_ns:
            last[task.lane] = replace(before, end_ns=task.end_ns)
            continue
        if before is not None:
            yield before
        last[task.lane] = task
    yield from last.values()


def _cut(strip: Strip, first: float, end: float) -> Strip:
    """Between the two times, averaged where there is too much, without lines that say nothing.

    These are 0 throughout; of times and sizes they have less than a hundredth of the sum.
    Percentiles are shown as they are. Intervals are left out that are less than half inside: what
    happened outside, such as untimed checks, would decide them.
    """
    inside = {
        line.name: [i for i in line.intervals if _mostly_between(i, first, end)]
        for line in strip.lines
    }
    if strip.percentiles:
        shown = (
            TimeSeries(name, tuple(intervals)) for name, intervals in inside.items() if intervals
        )
        return replace(strip, lines=tuple(shown))
    sums = {name: sum(i.value * i.weight for i in intervals) for name, intervals in inside.items()}
    least = _LEAST_SHARE * sum(sums.values()) if strip.unit in ("ns", "B/s") else 0.0
    lines = (
        TimeSeries(name, tuple(_averaged(intervals)))
        for name, intervals in inside.items()
        if sums[name] > 0 and sums[name] >= least
    )
    return replace(strip, lines=tuple(lines))


def _mostly_between(interval: Interval, first: float, end: float) -> bool:
    inside = min(interval.end_ns, end) - max(interval.begin_ns, first)
    return 2 * inside >= interval.end_ns - interval.begin_ns or inside == end - first


def _averaged(intervals: Sequence[Interval]) -> Iterator[Interval]:
    """Neighbours together, never across a hole."""
    each = -(-len(intervals) // _MOST_INTERVALS)
    group: list[Interval] = []
    for interval in intervals:
        if group and (len(group) == each or group[-1].end_ns != interval.begin_ns):
            yield _mean_of(group)
            group = []
        group.append(interval)
    if group:
        yield _mean_of(group)


def _mean_of(group: Sequence[Interval]) -> Interval:
    weight = sum(interval.weight for interval in group)
    value = sum(interval.value * interval.weight for interval in group) / weight
    return Interval(group[0].begin_ns, group[-1].end_ns, value, weight)
