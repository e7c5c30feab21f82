"""Series of monitors as lines over time, in small charts that share one axis.

Times are monotonic nanoseconds. A hole, where a sample is missing, stays one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from harness.counters import split
from harness.store.runs import StoredRun
from harness.waits import RESOURCES
from reports.sequences import grouped

#: Samples farther apart than this many intervals have a hole between them.
_HOLE = 2.5
NS_PER_S = 1e9
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
    """One small chart.

    ``unit``: as in run.json; ``stacked``: its lines add up; ``percentiles``: on a logarithmic axis,
    and never averaged.
    """

    title: str
    unit: str
    lines: tuple[Line, ...]
    stacked: bool = False
    percentiles: bool = False


Sample = Mapping[str, Any]
#: The mean of an interval and its weight (None: the interval's length), from the samples at both
#: ends and its length; None where it has none.
_Mean = Callable[[Sample, Sample, float], tuple[float, float | None] | None]


@dataclass(frozen=True)
class MonitorSeries:
    """The samples of a monitor; ``pairs``: neighbours without a hole between them."""

    samples: Sequence[Sample]
    pairs: Sequence[tuple[Sample, Sample]]
    document: Mapping[str, Any]

    @classmethod
    def of(cls, run: StoredRun, monitor: str) -> MonitorSeries:
        document = run.artifact(f"monitor-{monitor}") or {}
        samples = document.get("samples") or []
        gaps = [b["monotonic_ns"] - a["monotonic_ns"] for a, b in pairwise(samples)]
        longest = _HOLE * (document.get("interval_s", 0) * NS_PER_S or median(gaps or [0]))
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


def monitored(run: StoredRun) -> list[Strip]:
    """In the order in which they are shown."""
    block, io = MonitorSeries.of(run, "block"), MonitorSeries.of(run, "io")
    return [
        _bandwidth(block),
        _await(block),
        _memory_traffic(MonitorSeries.of(run, "memory-traffic")),
        _files(io),
        _call_times(io),
        _background(io),
        _processor(MonitorSeries.of(run, "process")),
        _pressure(MonitorSeries.of(run, "pressure")),
        _waits(MonitorSeries.of(run, "waits")),
    ]


def _sum(sample: Sample, keys: Iterable[str]) -> float | None:
    """None where one was not sampled."""
    values = [sample.get(key) for key in keys]
    known = [float(v) for v in values if isinstance(v, int | float) and math.isfinite(v)]
    return sum(known) if known and len(known) == len(values) else None


def rate(keys: Sequence[str], scale: float = 1.0, absent: float | None = None) -> _Mean:
    """Of cumulative counters, per nanosecond times ``scale``. One that went back has no rate."""

    def mean(a: Sample, b: Sample, length: float) -> tuple[float, float | None] | None:
        before, after = (_sum({**dict.fromkeys(keys, absent), **s}, keys) for s in (a, b))
        if before is None or after is None or after < before:
            return None
        return (after - before) / length * scale, None

    return mean


def _by_operation(
    block: MonitorSeries,
    operations: Sequence[str],
    mean: Callable[[Sequence[str], str], _Mean],
) -> tuple[Line, ...]:
    """A line for each tier (``ssd``, or ``log+ssd`` of tiers on the same disk) and operation."""
    disks = block.document.get("disks") or {}
    by_tier = grouped(("+".join(tiers), disk) for disk, tiers in disks.items())
    return tuple(
        block.line(f"{tier} {operation}", mean(own, operation))
        for tier, own in by_tier.items()
        for operation in operations
    )


def _bandwidth(block: MonitorSeries) -> Strip:
    def bytes_per_s(disks: Sequence[str], operation: str) -> _Mean:
        keys = [f"block_{operation}_bytes_per_s[device={disk}]" for disk in disks]

        def mean(_: Sample, b: Sample, _length: float) -> tuple[float, None] | None:
            value = _sum(b, keys)
            return None if value is None else (value, None)

        return mean

    lines = _by_operation(block, ("read", "write"), bytes_per_s)
    return Strip("Device bandwidth by tier", "B/s", lines)


def _await(block: MonitorSeries) -> Strip:
    """The mean over the requests of all disks; an interval without a request has none."""

    def time_per_request(disks: Sequence[str], operation: str) -> _Mean:
        def mean(_: Sample, b: Sample, length: float) -> tuple[float, float] | None:
            requests = waited = 0.0
            for disk in disks:
                count = _sum(b, [f"block_{operation}_per_s[device={disk}]"])
                each = _sum(b, [f"block_{operation}_await_ns[device={disk}]"])
                if count and each is not None:
                    requests += count
                    waited += count * each
            return (waited / requests, requests * length) if requests else None

        return mean

    lines = _by_operation(block, ("read", "write", "flush"), time_per_request)
    return Strip("Time per request (await) by tier", "ns", lines)


def _memory_traffic(traffic: MonitorSeries) -> Strip:
    lines = [
        traffic.line(name.removesuffix("_bytes").replace("_", " "), rate([name], NS_PER_S))
        for name in ("dram_read_bytes", "dram_write_bytes", "pmem_read_bytes", "pmem_write_bytes")
        if name in traffic.names()
    ]
    return Strip("Memory bandwidth of the host", "B/s", tuple(lines))


def _traced(io: MonitorSeries, counter: str, *roles: str) -> dict[tuple[str, str], list[str]]:
    """Part and operation to the keys of a counter, of these roles (none: of all)."""
    found: dict[tuple[str, str], list[str]] = {}
    for key in sorted(io.names()):
        name, labels = split(key)
        if name == counter and (not roles or labels.get("role") in roles):
            place = labels.get("part", ""), labels.get("operation", "")
            found.setdefault(place, []).append(key)
    return found


def _files(io: MonitorSeries) -> Strip:
    """Bytes of the engine's calls, which DAX and tmpfs have as well."""
    lines = [
        io.line(f"{part} {operation}", rate(keys, NS_PER_S, absent=0.0))
        for (part, operation), keys in _traced(io, "bytes").items()
        if operation in ("read", "write")
    ]
    return Strip("File I/O of the engine by part", "B/s", tuple(lines))


def _call_times(io: MonitorSeries) -> Strip:
    """The mean over the calls of sessions; an interval without a call has none."""

    def time_per_call(calls: _Mean, took: _Mean) -> _Mean:
        def mean(a: Sample, b: Sample, length: float) -> tuple[float, float] | None:
            made, spent_ns = calls(a, b, length), took(a, b, length)
            if made is None or spent_ns is None or made[0] <= 0:
                return None
            return spent_ns[0] / made[0], made[0] * length

        return mean

    spent = _traced(io, "duration_ns", *_SESSIONS)
    lines = []
    for place, keys in _traced(io, "calls_count", *_SESSIONS).items():
        calls, took = rate(keys, absent=0.0), rate(spent.get(place, []), absent=0.0)
        lines.append(io.line(" ".join(place), time_per_call(calls, took)))
    return Strip("Time per call of sessions, by part", "ns", tuple(lines))


def _background(io: MonitorSeries) -> Strip:
    """What the engine's background threads write: checkpoints, flushes, compactions."""
    lines = [
        io.line(part, rate(keys, NS_PER_S, absent=0.0))
        for (part, operation), keys in _traced(io, "bytes", "background").items()
        if operation == "write"
    ]
    return Strip("Written in the background (checkpoints, compactions)", "B/s", tuple(lines))


def _processor(process: MonitorSeries) -> Strip:
    """None where the engine was restarted: the counters are of its processes."""
    cpu = rate(["cpu_ns"])

    def used(a: Sample, b: Sample, length: float) -> tuple[float, float | None] | None:
        started = a.get("first_started_ticks")
        same = started is not None and started == b.get("first_started_ticks")
        return cpu(a, b, length) if same else None

    line = process.line("", used)
    return Strip("Processors in use by the engine's processes", "1", (line,))


def _pressure(pressure: MonitorSeries) -> Strip:
    """Of the run's control group where it has one, else of the host."""
    of = "run" if any(key.endswith("[of=run]") for key in pressure.names()) else "host"

    def share(resource: str) -> _Mean:
        whole = rate([f"pressure_{resource}_some_ns[of={of}]"])

        def mean(a: Sample, b: Sample, length: float) -> tuple[float, float | None] | None:
            found = whole(a, b, length)
            return found and (min(1.0, found[0]), found[1])  # Linux counts after the time stamp

        return mean

    lines = [pressure.line(resource, share(resource)) for resource in ("cpu", "memory", "io")]
    whom = "the run's control group" if of == "run" else "the host"
    return Strip(f"Time in which a task waited (pressure), of {whom}", "share", tuple(lines))


def _waits(waits: MonitorSeries) -> Strip:
    """Sessions by what they wait for. Running ones compute as far as Linux counted it; what was in
    the run queue may show a wait, too, and the sum is more than the sessions then.
    """

    def computing(a: Sample, b: Sample, length: float) -> tuple[float, None] | None:
        running = rate(["wait_running_ns"])(a, b, length)
        cpu = rate(["wait_cpu_ns"])(a, b, length)
        queued = rate(["wait_queued_ns"], 1.0, 0.0)(a, b, length)
        if running is None or cpu is None or queued is None:
            return None
        return max(queued[0], min(running[0], cpu[0] + queued[0])), None

    def other(a: Sample, b: Sample, length: float) -> tuple[float, None] | None:
        running = rate(["wait_running_ns"])(a, b, length)
        own, on = (
            rate(["wait_ns[resource=other]"], 1.0, 0.0)(a, b, length),
            computing(a, b, length),
        )
        if running is None or own is None or on is None:
            return None
        return max(0.0, running[0] - on[0]) + own[0], None

    means = {
        **{name: rate([f"wait_ns[resource={name}]"], 1.0, 0.0) for name in RESOURCES},
        "processor": computing,
        "other": other,
    }
    sampled = "wait_samples_count" in waits.names()
    lines = [waits.line(name, means[name]) for name in RESOURCES] if sampled else []
    return Strip("Sessions by what they wait for", "1", tuple(lines), stacked=True)
