"""What a run is told of how its suite was fitted to the host: no change of it is silent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.host.confounders import Finding
from harness.micro.host_capacity import HostCapacity
from harness.micro.model import VECTORED, Measurement, Numa
from harness.micro.overrides import Limits
from harness.units import counted, format_bytes

#: Below so many last-level caches a range is found in them to a good part.
_CACHES = 4
#: Of configurations that were left out since no near, or no far processor may be used.
NO_PROCESSORS: Mapping[Numa, Finding] = {
    "near": Finding(
        what="near processors",
        found="no processor near the tier may be used",
        do="name processors of the tier's node: --cpus node:0, say",
    ),
    "far": Finding(
        what="far processors",
        found="no processor far from the tier may be used",
        do="measure on a host with several NUMA nodes, and let --cpus name processors of them",
    ),
}
_PAGE_CACHE = Finding(
    what="page cache",
    found="a mapped file of a tier without DAX lies in the kernel's page cache: its figures are "
    "those of DRAM and of write-back, not of the device",
    do="measure the device with the suites block-io, file-io and ioping",
)


@dataclass(frozen=True)
class Steps:
    """A suite's measurements behind each step of fitting it.

    ``left_out``: how many configurations, for want of near and of far processors. ``limited``
    (as the command line wants), ``threaded`` and ``sized`` go side by side; of ``sized`` ``kept``
    are measured.
    """

    left_out: Mapping[Numa, int]
    limited: Sequence[Measurement]
    threaded: Sequence[Measurement]
    sized: Sequence[Measurement]
    kept: Sequence[Measurement]


def findings_of(steps: Steps, room: HostCapacity, limits: Limits) -> tuple[Finding, ...]:
    """All that differs from what was asked for, and what of it doubts a figure."""
    return (
        *_processors_told(steps.left_out),
        *_isa_told(steps.kept, limits),
        *_operations_told(steps.kept, limits),
        *_threads_told(steps.limited, steps.threaded),
        *_equal_told(len(steps.sized) - len(steps.kept)),
        *_sizes_told(steps.threaded, steps.sized),
        *_caches_told(steps.kept, room),
        *_touched_told(steps.kept),
        *([_PAGE_CACHE] if room.page_cached else []),
    )


def _processors_told(left_out: Mapping[Numa, int]) -> Iterator[Finding]:
    for numa, count in left_out.items():
        if count:
            one = NO_PROCESSORS[numa]
            found = f"{counted(count, 'configuration')} left out: {one['found']}"
            yield Finding(what=one["what"], found=found, do=one["do"])


def _equal_told(equal: int) -> list[Finding]:
    if not equal:
        return []
    return [
        Finding(
            what="equal configurations",
            found=f"{counted(equal, 'configuration')} became equal to others, as limited here, and "
            "measured once with these",
            do="give what they differ in more room: threads, range, count, pages, isa",
        )
    ]


def _threads_told(before: Sequence[Measurement], after: Sequence[Measurement]) -> list[Finding]:
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
        Finding(
            what="threads",
            found=f"{counted(len(fewer), 'configuration')}: up to {most} threads are asked for, "
            f"and {has} ran, as many as there are processors",
            do="measure on a host with more processors",
        )
    ]


def _isa_told(measurements: Sequence[Measurement], limits: Limits) -> list[Finding]:
    without = {
        one.name: None for one in measurements if any(job.kind not in VECTORED for job in one.jobs)
    }
    if limits.isa is None or not without:
        return []
    return [
        Finding(
            what="isa",
            found=f"{limits.isa} is not for {', '.join(without)}: chases, logs and pages have no "
            "loops of an instruction set's own",
            do="read them as they are without it",
        )
    ]


def _operations_told(measurements: Sequence[Measurement], limits: Limits) -> list[Finding]:
    timed = {
        one.name: None
        for one in measurements
        if all(job.operations is None for job in one.jobs) and one.duration_ns is not None
    }
    if limits.operations is None or not timed:
        return []
    return [
        Finding(
            what="operations",
            found=f"{', '.join(timed)} end by time: a bound on operations leaves them as they are",
            do="bound them by -p duration=…",
        )
    ]


def _sizes_told(before: Sequence[Measurement], after: Sequence[Measurement]) -> list[Finding]:
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
    room = Finding(
        what="range",
        found=f"scaled down to what is free: {'; '.join(halved)}",
        do="make room on the tier, or measure on a larger host",
    )
    chunks = Finding(
        what="chunks",
        found=f"cut to whole chunks: {'; '.join(cut)}",
        do="give a range that its chunks fill",
    )
    return [finding for finding, told in ((room, halved), (chunks, cut)) if told]


def _size(size_bytes: int, beside: int) -> str:
    """In bytes where rounded it would look like the other one."""
    text = format_bytes(size_bytes)
    return text if text != format_bytes(beside) else f"{size_bytes:,} B"


def _caches_told(measurements: Sequence[Measurement], room: HostCapacity) -> list[Finding]:
    """Ranges that the last-level cache holds to a good part, where nobody asked for that.

    A chase, a hot spot and a log are made small on purpose, and streaming stores go past it.
    """
    small = {
        f"{one.name} ({format_bytes(job.range_bytes)})": None
        for one in measurements
        for job in one.jobs
        if job.kind in ("throughput", "chain")
        and job.keys.get("pattern") != "hotspot"
        and job.keys.get("operation") != "ntstore"
        and job.range_bytes < _CACHES * room.llc_bytes
    }
    if not small:
        return []
    return [
        Finding(
            what="cached range",
            found=f"the last-level cache of {format_bytes(room.llc_bytes)} holds a good part of "
            f"{', '.join(small)}: what they show is not the tier alone",
            do=f"give ranges of {format_bytes(_CACHES * room.llc_bytes)} or more",
        )
    ]


def _touched_told(measurements: Sequence[Measurement]) -> list[Finding]:
    """PerMA-Bench can count the first touch of each page as well; here it never is."""
    untouched = {
        one.name: None
        for one in measurements
        if not all(getattr(config, "prefault_file", True) for config in one.source)
    }
    if not untouched:
        return []
    return [
        Finding(
            what="prefault_file",
            found=f"{', '.join(untouched)} ask for memory that nobody has touched: all of it was",
            do="leave prefault_file: false out; faults are no property of the memory",
        )
    ]
