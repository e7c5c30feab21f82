"""Refuse what cannot be measured before anything is started, in a suite's own words.

Most of it is refused by the program itself (``microbench --check``, harness/micro/native.py). Here
is what only the suite or the host's capacity shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.errors import UsageError
from harness.micro.host_capacity import HostCapacity
from harness.micro.model import Job, Measurement, Place
from harness.micro.scaling_warnings import Steps
from harness.units import GIB, MIB, format_bytes


def refuse_strides(measurements: Sequence[Measurement]) -> None:
    """UsageError for strided accesses that overlap or stay in one place: the cache serves them."""
    for one in measurements:
        for job in one.jobs:
            if job.keys.get("pattern") == "strided":
                _refuse_stride(one, job)


def _refuse_stride(one: Measurement, job: Job) -> None:
    access = job.largest_access_bytes
    stride = job.keys.get("stride_bytes", access)
    of_thread = job.range_bytes // job.threads
    if stride < access:
        raise UsageError(
            job_source(one, job.name),
            f"stride: {format_bytes(stride)} must be >= access ({format_bytes(access)})",
            "increase stride",
        )
    if access <= of_thread < stride + access:
        raise UsageError(
            job_source(one, job.name),
            f"stride: {format_bytes(stride)} in {format_bytes(of_thread)} of range per thread",
            "use a range of at least two strides per thread",
        )


def refuse_cached(steps: Steps, capacity: HostCapacity) -> None:
    """UsageError where too little room moves a range into the last-level cache.

    What would be measured there is not what the suite requests.
    """
    for was, now in zip(steps.threaded, steps.sized, strict=True):
        for job, small in zip(was.jobs, now.jobs, strict=True):
            ranges: tuple[tuple[Place, int, int], ...] = (
                (job.place, job.range_bytes, small.range_bytes),
                ("dram", job.dram_range_bytes, small.dram_range_bytes),
            )
            for place, requested, left in ranges:
                if left <= capacity.llc_bytes < requested:
                    raise UsageError(
                        job_source(was, job.name),
                        f"range: {format_bytes(requested)}, and no more than "
                        f"{format_bytes(capacity.bytes_free[place])} may be taken of what is free: "
                        f"halved to {format_bytes(left)} it would lie in the last-level "
                        f"cache of {format_bytes(capacity.llc_bytes)}",
                        "free some space; or measure the cache with a small range: "
                        f"-p range={max(1, left // MIB)}MiB",
                    )


def refuse_gigantic(sizes: Mapping[Place, int], origin: str, capacity: HostCapacity) -> None:
    """UsageError where too few pages of 1 GiB are free.

    ``sizes``: bytes on them, by place; ``origin``: the first measurement that needs them. Memory
    that has no node of its own shares one pool.
    """
    free = capacity.gigantic_free
    if free is None:
        return
    wanted = {place: -(-size // GIB) for place, size in sizes.items()}
    if capacity.near_node is None and wanted:
        wanted = {next(iter(wanted)): sum(wanted.values())}
    for place, pages in wanted.items():
        if pages > free[place]:
            raise UsageError(
                f"{origin}, pages: 1g",
                f"{pages} of these pages are needed, {free[place]} are free",
                "reserve them (nr_hugepages in /sys/kernel/mm/hugepages/hugepages-1048576kB, or in "
                "that of the node), take a smaller range, or pages: huge",
            )


def job_source(one: Measurement, job: str) -> str:
    """File, line and configuration of a job, for errors."""
    of = f", job {job}" if len(one.jobs) > 1 else ""
    return f"{one.origin}, {one.configuration}{of}"
