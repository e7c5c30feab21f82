"""Warnings about how a suite was scaled to the host: no change of it is silent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.micro.host_capacity import HostCapacity
from harness.micro.keys import VECTORED
from harness.micro.model import Measurement, Numa
from harness.micro.overrides import Limits
from harness.units import counted, format_bytes
from harness.warnings import RunWarning

#: Below this many last-level caches, a large part of a range is cached.
_CACHES = 4
#: Of configurations that were left out since no near, or no far processor may be used.
NO_PROCESSORS: Mapping[Numa, RunWarning] = {
    "near": RunWarning(
        code="no-near-processors",
        problem="no processor near the tier may be used",
        context="",
        hint="name processors of the tier's node, such as --cpus node:0",
    ),
    "far": RunWarning(
        code="no-far-processors",
        problem="no processor far from the tier may be used",
        context="",
        hint="measure on a host with several NUMA nodes, and let --cpus name processors of them",
    ),
}
_PAGE_CACHE = RunWarning(
    code="page-cache",
    problem="DRAM and write-back are measured (page cache), not the device",
    context="a mapped file on a tier without DAX",
    hint="measure the device with the suites block-io, file-io and ioping",
)


@dataclass(frozen=True)
class Steps:
    """A suite's measurements after each step of scaling it.

    ``left_out``: how many configurations, for want of near and of far processors. ``limited``
    (as the command line wants), ``threaded`` and ``sized`` go side by side; of ``sized`` ``kept``
    are measured.
    """

    left_out: Mapping[Numa, int]
    limited: Sequence[Measurement]
    threaded: Sequence[Measurement]
    sized: Sequence[Measurement]
    kept: Sequence[Measurement]


def warnings_of(steps: Steps, capacity: HostCapacity, limits: Limits) -> tuple[RunWarning, ...]:
    """All differences from the request, and those that make a result doubtful."""
    return (
        *_processor_warnings(steps.left_out),
        *_isa_warnings(steps.kept, limits),
        *_count_warnings(steps.kept, limits),
        *_thread_warnings(steps.limited, steps.threaded),
        *_equal_warnings(len(steps.sized) - len(steps.kept)),
        *_size_warnings(steps.threaded, steps.sized),
        *_cache_warnings(steps.kept, capacity),
        *_prefault_warnings(steps.kept),
        *([_PAGE_CACHE] if capacity.page_cached else []),
    )


def _processor_warnings(left_out: Mapping[Numa, int]) -> Iterator[RunWarning]:
    for numa, count in left_out.items():
        if count:
            found = f"{counted(count, 'configuration')} left out"
            yield replace(NO_PROCESSORS[numa], context=found)


def _equal_warnings(equal: int) -> list[RunWarning]:
    if not equal:
        return []
    return [
        RunWarning(
            code="equal-configurations",
            problem="configurations became equal to others and were measured once with them",
            context=f"{counted(equal, 'configuration')}",
            hint="relax the limit on threads, range, count, pages or isa",
        )
    ]


def _thread_warnings(
    before: Sequence[Measurement], after: Sequence[Measurement]
) -> list[RunWarning]:
    fewer = [
        (a, b)
        for a, b in zip(before, after, strict=True)
        if [job.threads for job in a.jobs] != [job.threads for job in b.jobs]
    ]
    if not fewer:
        return []
    most = max(sum(job.threads for job in a.jobs) for a, _ in fewer)
    has = max(sum(job.threads for job in b.jobs) for _, b in fewer)
    return [
        RunWarning(
            code="threads-limited",
            problem="more threads requested than processors",
            context=f"{counted(len(fewer), 'configuration')}: up to {most} threads requested, "
            f"{has} measured",
            hint="measure on a host with more processors",
        )
    ]


def _isa_warnings(measurements: Sequence[Measurement], limits: Limits) -> list[RunWarning]:
    without = {
        one.name: None for one in measurements if any(job.kind not in VECTORED for job in one.jobs)
    }
    if limits.isa is None or not without:
        return []
    return [
        RunWarning(
            code="isa-not-applicable",
            problem="the requested instruction set does not apply",
            context=f"{limits.isa} for {', '.join(without)}: chases, logs and pages have one "
            "loop for all instruction sets",
            hint="read their figures as those without it",
        )
    ]


def _count_warnings(measurements: Sequence[Measurement], limits: Limits) -> list[RunWarning]:
    timed = {
        one.name: None
        for one in measurements
        if all(job.operations is None for job in one.jobs) and one.duration_ns is not None
    }
    if limits.operations is None or not timed:
        return []
    return [
        RunWarning(
            code="operations-not-applicable",
            problem="configurations that end by time have no number of operations",
            context=", ".join(timed),
            hint="limit them by -p duration=…",
        )
    ]


def _size_warnings(before: Sequence[Measurement], after: Sequence[Measurement]) -> list[RunWarning]:
    """Halved where room is wanting; else a chunk that is not whole was cut off, less than half."""
    halved: dict[str, None] = {}
    cut: dict[str, None] = {}
    for a, b in zip(before, after, strict=True):
        for job, smaller in zip(a.jobs, b.jobs, strict=True):
            for was, now, of in (
                (job.range_bytes, smaller.range_bytes, ""),
                (job.dram_range_bytes, smaller.dram_range_bytes, " of DRAM"),
            ):
                if now < was:
                    told = halved if now * 2 <= was else cut
                    told[f"{a.name} {_size(now, was)}{of} instead of {_size(was, now)}"] = None
    capacity = RunWarning(
        code="range-scaled-down",
        problem="ranges were scaled down to the free memory",
        context="; ".join(halved),
        hint="free space on the tier, or measure on a larger host",
    )
    chunks = RunWarning(
        code="range-cut-to-chunks",
        problem="ranges were cut to whole chunks",
        context="; ".join(cut),
        hint="choose a range that is a multiple of the chunk",
    )
    return [finding for finding, told in ((capacity, halved), (chunks, cut)) if told]


def _size(size_bytes: int, beside: int) -> str:
    """In bytes where rounded it would look like the other one."""
    text = format_bytes(size_bytes)
    return text if text != format_bytes(beside) else f"{size_bytes:,} B"


def _cache_warnings(
    measurements: Sequence[Measurement], capacity: HostCapacity
) -> list[RunWarning]:
    """Ranges that the last-level cache holds to a good part, without a request for that.

    A chase, a hot spot and a log are made small on purpose, and streaming stores go past it.
    """
    small = {
        f"{one.name} ({format_bytes(job.range_bytes)})": None
        for one in measurements
        for job in one.jobs
        if job.kind in ("throughput", "chain")
        and job.keys.get("pattern") != "hotspot"
        and job.keys.get("operation") != "ntstore"
        and job.range_bytes < _CACHES * capacity.llc_bytes
    }
    if not small:
        return []
    return [
        RunWarning(
            code="range-in-cache",
            problem="the last-level cache holds a large part of a range",
            context=f"the last-level cache of {format_bytes(capacity.llc_bytes)} for "
            f"{', '.join(small)}",
            hint=f"choose ranges of {format_bytes(_CACHES * capacity.llc_bytes)} or more",
        )
    ]


def _prefault_warnings(measurements: Sequence[Measurement]) -> list[RunWarning]:
    """PerMA-Bench can count the first touch of each page as well; here it never is."""
    untouched = {
        one.name: None
        for one in measurements
        if not all(getattr(config, "prefault_file", True) for config in one.source)
    }
    if not untouched:
        return []
    return [
        RunWarning(
            code="prefault-ignored",
            problem="prefault_file: false has no effect: all pages are touched beforehand",
            context=", ".join(untouched),
            hint="remove prefault_file: false",
        )
    ]
