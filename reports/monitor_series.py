"""Series of monitors as lines over time; a hole, where a sample is missing, stays one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from harness.counters import split
from harness.sequences import grouped
from harness.store.runs import StoredRun
from harness.waits import RESOURCES

#: Samples farther apart than this many intervals have a hole between them.
_HOLE = 2.5
NS_PER_S = 1e9
#: Roles of threads in the I/O trace whose calls an operation waits for; of an engine whose threads
#: are not distinguished, all.
_SESSIONS = ("foreground", "unknown")
_TRANSFERS = ("read", "write")


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
class TimeSeries:
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
    lines: tuple[TimeSeries, ...]
    stacked: bool = False
    percentiles: bool = False


Sample = Mapping[str, Any]
#: The mean of an interval, from the samples at both ends and its length; None where it has none.
_Mean = Callable[[Sample, Sample, float], float | None]


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

    def line(self, name: str, mean: _Mean, weight: _Mean | None = None) -> TimeSeries:
        """The means of all intervals that have one; ``weight``: what they are over, if not time."""
        intervals = []
        for a, b in self.pairs:
            begin, end = a["monotonic_ns"], b["monotonic_ns"]
            value = mean(a, b, end - begin)
            over = weight(a, b, end - begin) if weight else end - begin
            if value is not None and over is not None:
                intervals.append(Interval(begin, end, value, over))
        return TimeSeries(name, tuple(intervals))


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
    finite = [float(v) for v in values if isinstance(v, int | float) and math.isfinite(v)]
    return sum(finite) if finite and len(finite) == len(values) else None


def rate(keys: Sequence[str], scale: float = 1.0, absent: float | None = None) -> _Mean:
    """Rate of cumulative counters, per nanosecond times ``scale``; none where one went back."""

    def mean(a: Sample, b: Sample, length: float) -> float | None:
        before, after = (_sum({**dict.fromkeys(keys, absent), **s}, keys) for s in (a, b))
        if before is None or after is None or after < before:
            return None
        return (after - before) / length * scale

    return mean


def _disks_of_tiers(block: MonitorSeries) -> Mapping[str, Sequence[str]]:
    """Disks by tier (``ssd``, or ``log+ssd`` of tiers on the same disk)."""
    disks = block.document.get("disks") or {}
    return grouped(("+".join(tiers), disk) for disk, tiers in disks.items())


def _bandwidth(block: MonitorSeries) -> Strip:
    def line(tier: str, disks: Sequence[str], operation: str) -> TimeSeries:
        keys = [f"block_{operation}_bytes_per_s[device={disk}]" for disk in disks]
        return block.line(f"{tier} {operation}", lambda _, b, length: _sum(b, keys))

    tiers = _disks_of_tiers(block).items()
    lines = [line(tier, disks, operation) for tier, disks in tiers for operation in _TRANSFERS]
    return Strip("Device bandwidth by tier", "B/s", tuple(lines))


def _await(block: MonitorSeries) -> Strip:
    """The mean over the requests of all disks; an interval without a request has none."""

    def line(tier: str, disks: Sequence[str], operation: str) -> TimeSeries:
        def requests(_: Sample, b: Sample, length: float) -> float:
            return sum(count for count, _ in _requests(b, disks, operation)) * length

        def each(_: Sample, b: Sample, length: float) -> float | None:
            by_disk = _requests(b, disks, operation)
            count = sum(count for count, _ in by_disk)
            return sum(count * waited for count, waited in by_disk) / count if count else None

        return block.line(f"{tier} {operation}", each, requests)

    tiers, operations = _disks_of_tiers(block).items(), (*_TRANSFERS, "flush")
    lines = [line(tier, disks, operation) for tier, disks in tiers for operation in operations]
    return Strip("Time per request (await) by tier", "ns", tuple(lines))


def _requests(sample: Sample, disks: Sequence[str], operation: str) -> list[tuple[float, float]]:
    """Requests per second of each disk that had any, and their mean time."""
    sampled = (
        (
            _sum(sample, [f"block_{operation}_per_s[device={disk}]"]),
            _sum(sample, [f"block_{operation}_await_ns[device={disk}]"]),
        )
        for disk in disks
    )
    return [(count, each) for count, each in sampled if count and each is not None]


def _memory_traffic(traffic: MonitorSeries) -> Strip:
    lines = [
        traffic.line(name.removesuffix("_bytes").replace("_", " "), rate([name], NS_PER_S))
        for name in ("dram_read_bytes", "dram_write_bytes", "pmem_read_bytes", "pmem_write_bytes")
        if name in traffic.names()
    ]
    return Strip("Memory bandwidth of the host", "B/s", tuple(lines))


def _traced(io: MonitorSeries, counter: str, *roles: str) -> dict[tuple[str, str], list[str]]:
    """Part and operation to the keys of a counter, of these roles (none: of all)."""
    keys: dict[tuple[str, str], list[str]] = {}
    for key in sorted(io.names()):
        name, labels = split(key)
        if name == counter and (not roles or labels.get("role") in roles):
            place = labels.get("part", ""), labels.get("operation", "")
            keys.setdefault(place, []).append(key)
    return keys


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

    def line(place: tuple[str, str], called: Sequence[str], spent: Sequence[str]) -> TimeSeries:
        calls, took = rate(called, absent=0.0), rate(spent, absent=0.0)

        def each(a: Sample, b: Sample, length: float) -> float | None:
            made, spent_ns = calls(a, b, length), took(a, b, length)
            return spent_ns / made if made and spent_ns is not None else None

        def weight(a: Sample, b: Sample, length: float) -> float:
            return (calls(a, b, length) or 0.0) * length

        return io.line(" ".join(place), each, weight)

    spent = _traced(io, "duration_ns", *_SESSIONS)
    counts = _traced(io, "calls_count", *_SESSIONS)
    lines = [line(place, keys, spent.get(place, [])) for place, keys in counts.items()]
    return Strip("Time per call of sessions, by part", "ns", tuple(lines))


def _background(io: MonitorSeries) -> Strip:
    """Writes of the engine's background threads: checkpoints, flushes, compactions."""
    lines = [
        io.line(part, rate(keys, NS_PER_S, absent=0.0))
        for (part, operation), keys in _traced(io, "bytes", "background").items()
        if operation == "write"
    ]
    return Strip("Written in the background (checkpoints, compactions)", "B/s", tuple(lines))


def _processor(process: MonitorSeries) -> Strip:
    """None where the engine was restarted: the counters are of its processes."""
    cpu = rate(["cpu_ns"])

    def used(a: Sample, b: Sample, length: float) -> float | None:
        started = a.get("first_started_ticks")
        same = started is not None and started == b.get("first_started_ticks")
        return cpu(a, b, length) if same else None

    line = process.line("", used)
    return Strip("Processors in use by the engine's processes", "1", (line,))


def _pressure(pressure: MonitorSeries) -> Strip:
    """Pressure of the run's control group where it has one, else of the host."""
    of = "run" if any(key.endswith("[of=run]") for key in pressure.names()) else "host"

    def share(resource: str) -> _Mean:
        whole = rate([f"pressure_{resource}_some_ns[of={of}]"])

        def mean(a: Sample, b: Sample, length: float) -> float | None:
            waited = whole(a, b, length)
            return waited and min(1.0, waited)  # Linux counts after the time stamp

        return mean

    lines = [pressure.line(resource, share(resource)) for resource in ("cpu", "memory", "io")]
    whom = "the run's control group" if of == "run" else "the host"
    return Strip(f"Time in which a task waited (pressure), of {whom}", "share", tuple(lines))


def _waits(waits: MonitorSeries) -> Strip:
    """Sessions by what they wait for. Running ones compute as far as Linux counted it; what was in
    the run queue may show a wait, too, and the sum is more than the sessions then.
    """

    running, cpu = rate(["wait_running_ns"]), rate(["wait_cpu_ns"])
    queued, waiting = (
        rate([name], absent=0.0) for name in ("wait_queued_ns", "wait_ns[resource=other]")
    )

    def computing(a: Sample, b: Sample, length: float) -> float | None:
        ran, counted, queue = (mean(a, b, length) for mean in (running, cpu, queued))
        if ran is None or counted is None or queue is None:
            return None
        return max(queue, min(ran, counted + queue))

    def other(a: Sample, b: Sample, length: float) -> float | None:
        ran, waited, computed = (mean(a, b, length) for mean in (running, waiting, computing))
        if ran is None or waited is None or computed is None:
            return None
        return max(0.0, ran - computed) + waited

    means = {
        **{name: rate([f"wait_ns[resource={name}]"], absent=0.0) for name in RESOURCES},
        "processor": computing,
        "other": other,
    }
    sampled = "wait_samples_count" in waits.names()
    lines = [waits.line(name, means[name]) for name in RESOURCES] if sampled else []
    return Strip("Sessions by what they wait for", "1", tuple(lines), stacked=True)
