"""Service times of a tier alone, by the runs of the suite ``baseline`` on it.

A figure is that of a whole call or append without its processor time, which is the processors'
demand on any tier. Between measured sizes and numbers of threads it is interpolated by logarithms.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from statistics import median
from typing import Literal, get_args

import numpy as np

from harness import hdr
from harness.store.result import Metric
from harness.store.runs import StoredRun
from reports.values import histogram

#: Tier kinds whose files are in the page cache.
BUFFERED = frozenset(("block", "fs-nodax", "sector"))
_STANDARD_ERRORS = 2


#: A read; an append to a log with its sync, and to one that grows; a write past the page cache.
Figure = Literal["read", "append", "growth", "write"]
FIGURES: tuple[Figure, ...] = get_args(Figure)


class Repeats(Enum):
    """Choice of a measurement's repeat that a figure is of."""

    FASTEST = "fastest"
    TYPICAL = "typical"
    SLOWEST = "slowest"


@dataclass(frozen=True)
class Calls:
    """Calls of one size by a number of threads, each making the next when it has the result.

    ``call_ns``: their mean time in each repeat; ``processor_ns``: of it, computing. ``error``: the
    standard error of the mean of one repeat's calls, as a share. ``shortest_ns``: only one call in
    twenty was shorter. ``between_ns``: the processor time of work before a call. ``syncs``: of an
    append; fewer than one where a sync serves several.
    """

    size_bytes: int
    threads: int
    call_ns: tuple[float, ...]
    processor_ns: float
    error: float
    shortest_ns: float
    between_ns: float = 0.0
    syncs: float = 1.0

    def total_ns(self, repeats: Repeats = Repeats.TYPICAL) -> float:
        """The mean time of a call in one of the repeats.

        In the fastest and the slowest of them, with the error of the mean.
        """
        if repeats is Repeats.TYPICAL:
            return median(self.call_ns)
        margin = math.exp(_STANDARD_ERRORS * self.error)
        if repeats is Repeats.SLOWEST:
            return max(self.call_ns) * margin
        return min(self.call_ns) / margin

    def waiting_ns(self, repeats: Repeats = Repeats.TYPICAL) -> float:
        """The same without computing."""
        return max(0.0, self.total_ns(repeats) - self.processor_ns)


@dataclass(frozen=True)
class ProcessorTimes:
    """Processor times of a call before which memory is used, each by the number of threads.

    ``work_ns``: of using the memory; ``call_ns``: of the call, without those that it consists of:
    a commit's without its share of syncs.
    """

    work_ns: Mapping[int, float]
    call_ns: Mapping[int, float]

    def work(self, customers: int) -> float:
        return _between(customers, self.work_ns)

    def call(self, customers: int) -> float:
        return _between(customers, self.call_ns)


@dataclass(frozen=True)
class Baseline:
    """The figures of one tier. ``measurements``: by what they are of.

    ``buffered``: whether its files are in the page cache. ``after_work``: of reads, and of appends
    that share their syncs, as group commit has it; nothing of what was not measured.
    """

    tier: str
    measurements: Mapping[Figure, tuple[Calls, ...]]
    buffered: bool
    after_work: Mapping[Figure, ProcessorTimes] = field(default_factory=dict)

    @classmethod
    def of(cls, tier: str, runs: Sequence[StoredRun]) -> Baseline | None:
        """Return what runs of the suite measured; None without what is needed of it."""
        measurements = {
            figure: tuple(calls for name in names for calls in _calls(name, runs))
            for figure, names in _MEASUREMENTS.items()
        }
        if not all(measurements.values()):
            return None
        kinds = {record.kind for run in runs for record in run.tiers}
        loops = cls(tier, measurements, bool(kinds & BUFFERED))
        after_work: dict[Figure, ProcessorTimes] = {}
        for figure, name in _AFTER_WORK.items():
            work_ns, call_ns = {}, {}
            for calls in _calls(name, runs):
                if calls.between_ns:
                    alone_ns = calls.syncs * loops.processor_ns(figure, calls.size_bytes)
                    work_ns[calls.threads] = calls.between_ns
                    call_ns[calls.threads] = calls.processor_ns - alone_ns
            if work_ns:
                after_work[figure] = ProcessorTimes(work_ns, call_ns)
        return replace(loops, after_work=after_work)

    def waiting_ns(
        self, figure: Figure, size_bytes: float, repeats: Repeats = Repeats.TYPICAL
    ) -> float:
        """Return how long such a call waits for the tier, alone."""
        return self._figure(figure, size_bytes, 1, lambda calls: calls.waiting_ns(repeats))

    def total_ns(
        self, figure: Figure, size_bytes: float, repeats: Repeats = Repeats.TYPICAL
    ) -> float:
        """Return how long such a call takes, alone."""
        return self._figure(figure, size_bytes, 1, lambda calls: calls.total_ns(repeats))

    def waits(self, figure: Figure, size_bytes: float) -> bool:
        """Return whether such a call waits for most of its time."""
        return self.processor_ns(figure, size_bytes) < self.total_ns(figure, size_bytes) / 2

    def processor_ns(self, figure: Figure, size_bytes: float) -> float:
        """Return how long such a call computes, alone."""
        return self._figure(figure, size_bytes, 1, lambda calls: calls.processor_ns)

    def shortest_ns(self, figure: Figure, size_bytes: float) -> float:
        """Return a time that only one such call in twenty fell below, alone."""
        return self._figure(figure, size_bytes, 1, lambda calls: calls.shortest_ns)

    def speeds(self, figure: Figure, size_bytes: float, customers: int) -> tuple[float, ...]:
        """Return the rate of 1, 2, … threads' calls as a multiple of one thread's; none is slower
        than fewer of them."""
        alone_ns = self._figure(figure, size_bytes, 1, Calls.total_ns)
        rates = [
            n * alone_ns / self._figure(figure, size_bytes, n, Calls.total_ns)
            for n in range(1, customers + 1)
        ]
        return tuple(float(rate) for rate in np.maximum.accumulate(rates))

    def parallel(self, figure: Figure, size_bytes: float) -> float:
        """Return the number of calls that the tier serves at the same time, at most."""
        most = max(calls.threads for calls in self.measurements[figure])
        return self.speeds(figure, size_bytes, most)[-1]

    def bandwidth(self, figure: Figure) -> float:
        """Return the highest rate of a measurement in bytes per ns."""
        rates = (
            calls.size_bytes * calls.threads / calls.total_ns()
            for calls in self.measurements[figure]
        )
        return max(rates)

    def _figure(
        self, figure: Figure, size_bytes: float, threads: int, time_ns: Callable[[Calls], float]
    ) -> float:
        by_size: dict[int, dict[int, float]] = defaultdict(dict)
        for calls in self.measurements[figure]:
            by_size[calls.size_bytes][calls.threads] = time_ns(calls)
        ordered = sorted(by_size)
        times = ascending([_by_threads(threads, by_size[size]) for size in ordered])
        sizes, largest = dict(zip(ordered, times, strict=True)), ordered[-1]
        return _between(size_bytes, sizes) * max(1.0, size_bytes / largest)


#: The suite's measurements that the figures of a call are taken from.
_MEASUREMENTS: Mapping[Figure, tuple[str, ...]] = {
    "read": ("page_read", "scan"),
    "append": ("log_append",),
    "growth": ("log_growth",),
    "write": ("page_flush",),
}

_AFTER_WORK: Mapping[Figure, str] = {
    "read": "page_read_after_work",
    "append": "log_commit_after_work",
}


def _between(at: float, figures: Mapping[int, float]) -> float:
    """Interpolate by logarithms; outside, the figure of the nearest."""
    places = sorted(figures)
    values = [figures[place] for place in places]
    if min(values) <= 0:
        return float(np.interp(math.log(max(at, 1)), np.log(places), values))
    return math.exp(float(np.interp(math.log(max(at, 1)), np.log(places), np.log(values))))


def _by_threads(threads: int, figures: Mapping[int, float]) -> float:
    """The time of a call; with more threads than were measured, they queue."""
    return _between(threads, figures) * max(1.0, threads / max(figures))


def ascending(times: Sequence[float]) -> list[float]:
    """Pool neighbours of which the larger call took less time, which is noise.

    That is isotonic regression (Ayer et al., Annals of Mathematical Statistics 26, 1955).
    """
    pools: list[tuple[float, int]] = []
    for time_ns in times:
        pools.append((time_ns, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (before, left), (after, right) = pools[-2:]
            pools[-2:] = [((before * left + after * right) / (left + right), left + right)]
    return [mean for mean, count in pools for _ in range(count)]


def _calls(name: str, runs: Sequence[StoredRun]) -> Iterable[Calls]:
    """The calls of a measurement by size and threads, over all runs."""
    by_place: dict[tuple[int, int], list[Metric]] = defaultdict(list)
    for metric in (metric for run in runs for metric in run.result.metrics):
        if metric.labels.get("measurement") == name:
            size, threads = metric.labels["access_size_bytes"], metric.labels.get("threads", 1)
            by_place[int(size), int(threads)].append(metric)
    for (size_bytes, threads), metrics in sorted(by_place.items()):
        rates = _samples(metrics, "operations_per_second")
        computing = _samples(metrics, "operation_kernel_ns")
        durations, syncs = (
            [times for metric in metrics if metric.name == name and (times := histogram(metric))]
            for name in ("operation_duration_ns", "fdatasync_duration_ns")
        )
        if not rates or not durations:
            continue
        merged = hdr.merge(durations)
        yield Calls(
            size_bytes,
            threads,
            tuple(1e9 * threads / rate for rate in rates),
            median(computing) if computing else 0.0,
            _standard_error(merged, len(rates)),
            merged.percentile(5),
            median(between) if (between := _samples(metrics, "between_processor_ns")) else 0.0,
            sum(times.total for times in syncs) / merged.total if syncs else 1.0,
        )


def _samples(metrics: Sequence[Metric], name: str) -> list[float]:
    return [value for metric in metrics if metric.name == name for value in metric.samples or ()]


def _standard_error(durations: hdr.Histogram, repeats: int) -> float:
    """Return the standard error of the mean of one repeat's calls, as a share of the mean."""
    low, high = durations.layout.bounds()
    squares = float((durations.counts * ((low + high) / 2 - durations.mean) ** 2).sum())
    deviation = math.sqrt(squares / max(1, durations.total))
    return deviation / durations.mean / math.sqrt(max(1, durations.total / repeats))
