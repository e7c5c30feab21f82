"""What one run did over time: its series on the run's clock, in small charts over one axis.

Sources are the artifacts ``series`` (operations done), ``timeline`` (spans of queries) and those
of monitors. Times are monotonic nanoseconds. A hole, where a sample is missing, stays one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

from harness.counters import split
from harness.store.runs import StoredRun
from harness.waits import BACKGROUND, RESOURCES
from reports.headline import headline
from reports.metric_registry import metric_info
from reports.series import Arm
from reports.values import Quantity, measured

#: Of the ramp-up, as much is shown as this share of the window.
_BEFORE = 0.25
#: Of a chart's bytes or time, less than this is not shown.
_LEAST_SHARE = 0.01
#: Longer lines are averaged over this many intervals.
_MOST_INTERVALS = 400
#: Samples farther apart than this many intervals have a hole between them.
_HOLE = 2.5
_NS_PER_S = 1e9
#: Roles of threads in the I/O trace whose calls an operation waits for; of an engine whose threads
#: are not distinguished, all.
_SESSIONS = ("foreground", "unknown")


@dataclass(frozen=True)
class Interval:
    """The mean of something from ``begin_ns`` to ``end_ns``.

    ``weight``: what the mean is over: nanoseconds, or requests.
    """

    begin_ns: float
    end_ns: float
    value: float
    weight: float


@dataclass(frozen=True)
class Line:
    """Intervals in order; what no interval covers is a hole."""

    name: str
    intervals: tuple[Interval, ...]


@dataclass(frozen=True)
class Strip:
    """One small chart. ``unit``: as in run.json; ``stacked``: its lines add up."""

    title: str
    unit: str
    lines: tuple[Line, ...]
    stacked: bool = False


@dataclass(frozen=True)
class Span:
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
    spans: tuple[Span, ...]
    tasks: tuple[Span, ...] = ()

    @property
    def of_queries(self) -> bool:
        """Whether it begins with a query, not with a window."""
        return bool(self.spans)


def representative(arm: Arm) -> Timeline | None:
    """The timeline of the run nearest to the median of the arm's headline; None without series."""
    kinds = arm.kinds()
    better = {q: one.better for q, one in kinds.items() if one.value is not None}
    quantity = headline(arm.usable, arm.usable, better).quantity if arm.usable else None
    runs, by = list(arm.usable), ""
    if quantity is not None:
        values = {run.run_id: _value(run, quantity) for run in runs}
        known = sorted(value for value in values.values() if value is not None)
        middle = known[(len(known) - 1) // 2]
        runs.sort(key=lambda run: _distance(values[run.run_id], middle))
        info = metric_info(quantity, kinds[quantity].better)
        by = ", ".join(filter(None, (info.title, quantity.labels_text())))
    for run in runs:
        found = timeline(run)
        if found is not None:
            several = f", nearest to the median of {len(runs)} by {by}" if by and runs[1:] else ""
            return replace(found, arm=arm.marked_name, chosen=several)
    return None


def _value(run: StoredRun, quantity: Quantity) -> float | None:
    one = measured(run).get(quantity)
    return None if one is None else one.value


def _distance(value: float | None, middle: float) -> float:
    return float("inf") if value is None else abs(value - middle)


def timeline(run: StoredRun) -> Timeline | None:
    """The charts of one run; None where it has none.

    None of a resumed run, since its parts were measured at different times, and of a client on
    other hosts, since their clocks stamped its operations.
    """
    if run.run.get("resumed") or run.run["spec"]["params"].get("client_hosts"):
        return None
    spans = tuple(_spans(run.artifact("timeline") or []))
    done = _done(run)
    if done is not None:
        begin, end = done.lines[0].intervals[0].begin_ns, done.lines[0].intervals[-1].end_ns
        first = begin - _BEFORE * (end - begin)
    elif spans:
        begin, end = min(s.begin_ns for s in spans), max(s.end_ns for s in spans)
        first = begin
    else:
        return None
    strips = [_cut(strip, first, end) for strip in ([done] if done else []) + _monitored(run)]
    shown = tuple(strip for strip in strips if strip.lines)
    if not shown:
        return None
    tasks = tuple(t for t in _tasks(run) if t.end_ns > first and t.begin_ns < end)
    return Timeline(run.run_id, "", "", first, begin, end, shown, spans, tasks)


def _done(run: StoredRun) -> Strip | None:
    """Operations per second, as the client counted them; the last interval may be cut off."""
    for noun, points in (run.artifact("series") or {}).items():
        stamps = [point["monotonic_ns"] for point in points]
        lengths = [m["value"] for m in run.run["metrics"] if m["name"] == "window_duration_ns"]
        if len(stamps) < 2 or not lengths:
            return None
        last = min(stamps[-1] + stamps[1] - stamps[0], stamps[0] + lengths[0])
        ends = [*stamps[1:], last]
        if any(end <= begin for begin, end in zip(stamps, ends, strict=True)):
            return None
        intervals = (
            Interval(begin, end, sum(counts.values()) * _NS_PER_S / (end - begin), end - begin)
            for begin, end, counts in zip(
                stamps, ends, (point["counts"] for point in points), strict=True
            )
        )
        return Strip(f"Throughput, {noun}", "1/s", (Line("", tuple(intervals)),))
    return None


def _spans(entries: Iterable[Mapping[str, Any]]) -> Iterator[Span]:
    for one in entries:
        name = f"Q{one['query']}" if "query" in one else str(one.get("function", ""))
        lane = f"stream {one['stream']}" if "stream" in one else "queries"
        lane = lane if "query" in one else "refresh"
        if one["submitted_ns"] < one["ended_ns"]:
            yield Span(name, lane, one["submitted_ns"], one["ended_ns"])


def _tasks(run: StoredRun) -> Iterator[Span]:
    """Each time a background task was at work, as exactly as the samples are apart."""
    waits = _Series.of(run, "waits")
    for key in waits.names():
        counter, labels = split(key)
        if counter != BACKGROUND:
            continue
        line = waits.line("", _rate([key], absent=0.0))
        busy = [(one.begin_ns, one.end_ns) for one in line.intervals if one.value]
        while busy:
            begin, end = busy.pop(0)
            while busy and busy[0][0] == end:
                end = busy.pop(0)[1]
            yield Span("", labels.get("task", ""), begin, end)


Sample = Mapping[str, Any]
#: The mean of an interval and its weight (None: the interval's length), from the samples at both
#: ends and its length; None where it has none.
_Mean = Callable[[Sample, Sample, float], tuple[float, float | None] | None]


@dataclass(frozen=True)
class _Series:
    """The samples of a monitor; ``pairs``: neighbours without a hole between them."""

    samples: Sequence[Sample]
    pairs: Sequence[tuple[Sample, Sample]]
    document: Mapping[str, Any]

    @classmethod
    def of(cls, run: StoredRun, monitor: str) -> _Series:
        document = run.artifact(f"monitor-{monitor}") or {}
        samples = document.get("samples") or []
        gaps = [b["monotonic_ns"] - a["monotonic_ns"] for a, b in pairwise(samples)]
        longest = _HOLE * (document.get("interval_s", 0) * _NS_PER_S or median(gaps or [0]))
        pairs = [
            (a, b)
            for (a, b), gap in zip(pairwise(samples), gaps, strict=True)
            if 0 < gap <= longest and "error" not in a and "error" not in b
        ]
        return cls(samples, pairs, document)

    def names(self) -> list[str]:
        """All that were sampled, in order."""
        return list(dict.fromkeys(key for sample in self.samples for key in sample))

    def line(self, name: str, mean: _Mean) -> Line:
        """The means of all intervals that have one."""
        found = []
        for a, b in self.pairs:
            begin, end = a["monotonic_ns"], b["monotonic_ns"]
            value = mean(a, b, end - begin)
            if value is not None:
                weight = end - begin if value[1] is None else value[1]
                found.append(Interval(begin, end, value[0], weight))
        return Line(name, tuple(found))


def _monitored(run: StoredRun) -> list[Strip]:
    """In the order in which they are shown."""
    block, io = _Series.of(run, "block"), _Series.of(run, "io")
    return [
        _bandwidth(block),
        _await(block),
        _memory_traffic(_Series.of(run, "memory-traffic")),
        _files(io),
        _call_times(io),
        _background(io),
        _processor(_Series.of(run, "process")),
        _pressure(_Series.of(run, "pressure")),
        _waits(_Series.of(run, "waits")),
    ]


def _sum(sample: Sample, keys: Iterable[str]) -> float | None:
    """None where one was not sampled."""
    values = [sample.get(key) for key in keys]
    known = [float(v) for v in values if isinstance(v, int | float) and math.isfinite(v)]
    return sum(known) if known and len(known) == len(values) else None


def _rate(keys: Sequence[str], scale: float = 1.0, absent: float | None = None) -> _Mean:
    """Of cumulative counters, per nanosecond times ``scale``. One that went back has no rate."""

    def mean(a: Sample, b: Sample, length: float) -> tuple[float, float | None] | None:
        before, after = (_sum({**dict.fromkeys(keys, absent), **s}, keys) for s in (a, b))
        if before is None or after is None or after < before:
            return None
        return (after - before) / length * scale, None

    return mean


def _by_tier(block: _Series) -> dict[str, list[str]]:
    """``ssd``, or ``log+ssd`` of tiers on the same disk, to its disks."""
    found: dict[str, list[str]] = {}
    for disk, tiers in (block.document.get("disks") or {}).items():
        found.setdefault("+".join(tiers), []).append(disk)
    return found


def _bandwidth(block: _Series) -> Strip:
    lines = []
    for tier, disks in _by_tier(block).items():
        for operation in ("read", "write"):
            keys = [f"block_{operation}_bytes_per_s[device={disk}]" for disk in disks]

            def mean(
                _: Sample, b: Sample, _length: float, keys: Sequence[str] = keys
            ) -> tuple[float, None] | None:
                value = _sum(b, keys)
                return None if value is None else (value, None)

            lines.append(block.line(f"{tier} {operation}", mean))
    return Strip("Device bandwidth by tier", "B/s", tuple(lines))


def _await(block: _Series) -> Strip:
    """The mean over the requests of all disks; an interval without a request has none."""
    lines = []
    for tier, disks in _by_tier(block).items():
        for operation in ("read", "write", "flush"):

            def mean(
                _: Sample,
                b: Sample,
                length: float,
                disks: Sequence[str] = disks,
                operation: str = operation,
            ) -> tuple[float, float] | None:
                requests = waited = 0.0
                for disk in disks:
                    count = _sum(b, [f"block_{operation}_per_s[device={disk}]"])
                    each = _sum(b, [f"block_{operation}_await_ns[device={disk}]"])
                    if count and each is not None:
                        requests += count
                        waited += count * each
                return (waited / requests, requests * length) if requests else None

            lines.append(block.line(f"{tier} {operation}", mean))
    return Strip("Time per request (await) by tier", "ns", tuple(lines))


def _memory_traffic(traffic: _Series) -> Strip:
    lines = [
        traffic.line(name.removesuffix("_bytes").replace("_", " "), _rate([name], _NS_PER_S))
        for name in ("dram_read_bytes", "dram_write_bytes", "pmem_read_bytes", "pmem_write_bytes")
        if name in traffic.names()
    ]
    return Strip("Memory bandwidth of the host", "B/s", tuple(lines))


def _traced(io: _Series, counter: str, *roles: str) -> dict[tuple[str, str], list[str]]:
    """Part and operation to the keys of a counter, of these roles (none: of all)."""
    found: dict[tuple[str, str], list[str]] = {}
    for key in sorted(io.names()):
        name, labels = split(key)
        if name == counter and (not roles or labels.get("role") in roles):
            place = labels.get("part", ""), labels.get("operation", "")
            found.setdefault(place, []).append(key)
    return found


def _files(io: _Series) -> Strip:
    """Bytes of the engine's calls, which DAX and tmpfs have as well."""
    lines = [
        io.line(f"{part} {operation}", _rate(keys, _NS_PER_S, absent=0.0))
        for (part, operation), keys in _traced(io, "bytes").items()
        if operation in ("read", "write")
    ]
    return Strip("File I/O of the engine by part", "B/s", tuple(lines))


def _call_times(io: _Series) -> Strip:
    """The mean over the calls of sessions; an interval without a call has none."""
    lines = []
    spent = _traced(io, "duration_ns", *_SESSIONS)
    for (part, operation), keys in _traced(io, "calls_count", *_SESSIONS).items():
        calls, took = _rate(keys, absent=0.0), _rate(spent.get((part, operation), []), absent=0.0)

        def mean(
            a: Sample, b: Sample, length: float, calls: _Mean = calls, took: _Mean = took
        ) -> tuple[float, float] | None:
            made, spent_ns = calls(a, b, length), took(a, b, length)
            if made is None or spent_ns is None or made[0] <= 0:
                return None
            return spent_ns[0] / made[0], made[0] * length

        lines.append(io.line(f"{part} {operation}", mean))
    return Strip("Time per call of sessions, by part", "ns", tuple(lines))


def _background(io: _Series) -> Strip:
    """What the engine's background threads write: checkpoints, flushes, compactions."""
    lines = [
        io.line(part, _rate(keys, _NS_PER_S, absent=0.0))
        for (part, operation), keys in _traced(io, "bytes", "background").items()
        if operation == "write"
    ]
    return Strip("Written in the background (checkpoints, compactions)", "B/s", tuple(lines))


def _processor(process: _Series) -> Strip:
    """None where the engine was restarted: the counters are of its processes."""
    rate = _rate(["cpu_ns"])

    def used(a: Sample, b: Sample, length: float) -> tuple[float, float | None] | None:
        started = a.get("first_started_ticks")
        same = started is not None and started == b.get("first_started_ticks")
        return rate(a, b, length) if same else None

    line = process.line("", used)
    return Strip("Processors in use by the engine's processes", "1", (line,))


def _pressure(pressure: _Series) -> Strip:
    """Of the run's control group where it has one, else of the host."""
    of = "run" if any(key.endswith("[of=run]") for key in pressure.names()) else "host"
    lines = [
        pressure.line(resource, _rate([f"pressure_{resource}_some_ns[of={of}]"]))
        for resource in ("cpu", "memory", "io")
    ]
    whom = "the run's control group" if of == "run" else "the host"
    return Strip(f"Time in which a task waited (pressure), of {whom}", "share", tuple(lines))


def _waits(waits: _Series) -> Strip:
    """Sessions by what they wait for. Running ones compute as far as Linux counted it."""

    def computing(a: Sample, b: Sample, length: float) -> tuple[float, None] | None:
        running = _rate(["wait_running_ns"])(a, b, length)
        counted = _rate(["wait_cpu_ns"])(a, b, length)
        if running is None or counted is None:
            return None
        return min(running[0], counted[0]), None

    def other(a: Sample, b: Sample, length: float) -> tuple[float, None] | None:
        running = _rate(["wait_running_ns"])(a, b, length)
        own, on = (
            _rate(["wait_ns[resource=other]"], 1.0, 0.0)(a, b, length),
            computing(a, b, length),
        )
        if running is None or own is None or on is None:
            return None
        return running[0] - on[0] + own[0], None

    means = {
        **{name: _rate([f"wait_ns[resource={name}]"], 1.0, 0.0) for name in RESOURCES},
        "processor": computing,
        "other": other,
    }
    sampled = "wait_samples_count" in waits.names()
    lines = [waits.line(name, means[name]) for name in RESOURCES] if sampled else []
    return Strip("Sessions by what they wait for", "1", tuple(lines), stacked=True)


def _cut(strip: Strip, first: float, end: float) -> Strip:
    """Between the two times, averaged where there is too much, without lines that say nothing.

    These are 0 throughout; of times and sizes they have less than a hundredth of the sum.
    """
    inside = {
        line.name: [i for i in line.intervals if i.end_ns > first and i.begin_ns < end]
        for line in strip.lines
    }
    sums = {name: sum(i.value * i.weight for i in found) for name, found in inside.items()}
    least = _LEAST_SHARE * sum(sums.values()) if strip.unit in ("ns", "B/s") else 0.0
    lines = (
        Line(name, tuple(_averaged(found)))
        for name, found in inside.items()
        if sums[name] > 0 and sums[name] >= least
    )
    return replace(strip, lines=tuple(lines))


def _averaged(intervals: Sequence[Interval]) -> Iterator[Interval]:
    """Neighbours together, never across a hole."""
    each = -(-len(intervals) // _MOST_INTERVALS)
    group: list[Interval] = []
    for one in intervals:
        if group and (len(group) == each or group[-1].end_ns != one.begin_ns):
            yield _mean_of(group)
            group = []
        group.append(one)
    if group:
        yield _mean_of(group)


def _mean_of(group: Sequence[Interval]) -> Interval:
    weight = sum(one.weight for one in group)
    value = sum(one.value * one.weight for one in group) / weight
    return Interval(group[0].begin_ns, group[-1].end_ns, value, weight)
