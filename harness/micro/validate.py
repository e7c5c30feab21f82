"""What cannot be measured of a fitted job, said before anything is started, in a suite's words.

The program refuses most of it too, but only in the run. A stride below the access it would
measure: accesses that overlap are found in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from harness.errors import UsageError
from harness.micro.chains import LINE_BYTES, PERSIST
from harness.micro.host_capacity import HostCapacity
from harness.micro.model import Job, Kind, Measurement, Place
from harness.micro.scaling_warnings import Steps
from harness.units import GIB, MIB, format_bytes

#: What was found, with its key before it, and what is wanted.
_Refusal = tuple[str, str]
#: The program's own limits: microbench/address.c, kernels/chase.c, page_flush.h.
_EXPONENTS = (0.01, 10.0)
_MOST_CHAINS = 8
_MOST_PAGE_BYTES = 1024 * LINE_BYTES
_MOST_ENTRY_BYTES = MIB
_MOST_DISTANCE = 1 << 20
_FLUSHES = frozenset({"clwb", "clflushopt", "clflush"})


def refuse_jobs(measurements: Sequence[Measurement], room: HostCapacity) -> None:
    """UsageError for the first job that cannot be measured as it is asked for."""
    for one in measurements:
        for job in one.jobs:
            for found, do in (*_of_all(job), *_OF_KIND[job.kind](job), *_processor(job, room)):
                raise UsageError(_asked(one, job), found, do)


def refuse_cached(steps: Steps, room: HostCapacity) -> None:
    """UsageError where want of room moves a range into the last-level cache.

    What would be measured there is another thing than the suite asks for.
    """
    for was, now in zip(steps.threaded, steps.sized, strict=True):
        for job, small in zip(was.jobs, now.jobs, strict=True):
            ranges: tuple[tuple[Place, int, int], ...] = (
                (job.place, job.range_bytes, small.range_bytes),
                ("dram", job.dram_range_bytes, small.dram_range_bytes),
            )
            for place, asked, left in ranges:
                if left <= room.llc_bytes < asked:
                    raise UsageError(
                        _asked(was, job),
                        f"range: {format_bytes(asked)}, and no more than "
                        f"{format_bytes(room.bytes_free[place])} may be taken of what is free: "
                        f"halved to {format_bytes(left)} it would lie in the last-level "
                        f"cache of {format_bytes(room.llc_bytes)}",
                        "make room; or ask for the cache with a small range: "
                        f"-p range={max(1, left // MIB)}MiB",
                    )


def refuse_gigantic(sizes: Mapping[Place, int], origin: str, room: HostCapacity) -> None:
    """UsageError where pages of 1 GiB are wanted that are not free.

    ``sizes``: bytes on them, by place; ``origin``: which measurement wants them first. Memory
    that has no node of its own shares one pool.
    """
    free = room.gigantic_free
    if free is None:
        return
    wanted = {place: -(-size // GIB) for place, size in sizes.items()}
    if room.near_node is None and wanted:
        wanted = {next(iter(wanted)): sum(wanted.values())}
    for place, pages in wanted.items():
        if pages > free[place]:
            raise UsageError(
                f"{origin}, pages: 1g",
                f"{pages} of these pages are wanted, {free[place]} are free",
                "reserve them (nr_hugepages in /sys/kernel/mm/hugepages/hugepages-1048576kB, or in "
                "that of the node), take a smaller range, or pages: huge",
            )


def _asked(one: Measurement, job: Job) -> str:
    of = f", job {job.name}" if len(one.jobs) > 1 else ""
    return f"{one.origin}, {one.configuration}{of}"


def _of_all(job: Job) -> Iterator[_Refusal]:
    partitions = job.partitions or job.threads
    if job.threads % partitions:
        yield (
            f"partitions: {partitions} for {job.threads} threads",
            "so many that they divide the threads evenly; 0 for one a thread",
        )
    if job.operations is not None and job.operations < job.threads:
        yield (
            f"count: {job.operations} for {job.threads} threads",
            "one operation for each thread at least",
        )
    exponent = job.keys.get("zipf_exponent", 1.0)
    if not _EXPONENTS[0] <= exponent <= _EXPONENTS[1]:
        yield f"zipf_exponent: {exponent}", f"from {_EXPONENTS[0]} to {_EXPONENTS[1]:g}"


def _accessing(job: Job) -> Iterator[_Refusal]:
    access = job.keys["access_bytes"]
    part = job.range_bytes // (job.partitions or job.threads)
    if access > part:
        yield (
            f"access: {format_bytes(access)} in {format_bytes(part)} of the range",
            "an access that fits into its partition",
        )
    yield from _pattern(job, access)


def _pattern(job: Job, access: int) -> Iterator[_Refusal]:
    """``access``: the largest of the job."""
    stride = job.keys.get("stride_bytes", access)
    if job.keys.get("pattern") == "strided" and stride < access:
        yield (
            f"stride: {format_bytes(stride)}, and access is {format_bytes(access)}: accesses "
            "would overlap",
            "a stride of one access or more",
        )
    part = job.range_bytes // (job.partitions or job.threads)
    of_thread = job.range_bytes // job.threads
    if job.keys.get("pattern") == "strided" and access <= of_thread < stride + access:
        yield (
            f"stride: {format_bytes(stride)} in {format_bytes(of_thread)} of each thread: one "
            "place again and again",
            "a range of two strides or more a thread",
        )
    hotspot = job.keys.get("hotspot_bytes", part)
    if hotspot > part:
        yield (
            f"hotspot: {format_bytes(hotspot)} in {format_bytes(part)} of the range",
            "a hot spot that is a part of the range",
        )
    if job.keys.get("pattern") == "hotspot" and hotspot < access:
        yield (
            f"hotspot: {format_bytes(hotspot)}, and access is {format_bytes(access)}",
            "a hot spot of one access or more",
        )


def _throughput(job: Job) -> Iterator[_Refusal]:
    yield from _accessing(job)
    access = job.keys["access_bytes"]
    fenced = job.keys.get("fence_every_bytes", access)
    if job.dram_share and job.dram_range_bytes < access:
        yield (
            f"dram_share: {job.dram_share}, and dram_range has {job.dram_range_bytes} bytes",
            "a dram_range of one access or more for each partition",
        )
    if job.keys["operation"] == "empty":
        yield "kernel: empty moves nothing", "an access; empty goes with kind: latency"
    if access % fenced and fenced % access:
        yield (
            f"fence_every: {format_bytes(fenced)}, and access is {format_bytes(access)}",
            "a multiple or a divisor of access",
        )


def _latency(job: Job) -> Iterator[_Refusal]:
    yield from _accessing(job)
    keys = job.keys
    written = keys.get("before") == "written"
    if keys.get("fence_every_bytes", keys["access_bytes"]) != keys["access_bytes"]:
        yield (
            "fence_every of a latency job: an operation that is timed alone is fenced once",
            "leave it out",
        )
    if written and keys["operation"] not in ("load", "ntload"):
        yield "before: written, and kernel is no load", "it goes with load and ntload"
    if not written and (keys.get("distance", 0) or keys.get("written_by", "ntstore") != "ntstore"):
        yield "distance or written_by without before: written", "add it, or leave them out"
    if not 0 <= keys.get("distance", 0) <= _MOST_DISTANCE:
        yield f"distance: {keys['distance']}", f"{_MOST_DISTANCE} at most"
    if keys.get("lane") == "words" and keys["operation"] not in ("load", "store"):
        yield f"lane: words, and kernel is {keys['operation']}", "it goes with load and store"


def _chase(job: Job) -> Iterator[_Refusal]:
    keys = job.keys
    node, order = keys.get("node_bytes", LINE_BYTES), keys.get("order", "random")
    nodes = job.range_bytes // (job.partitions or job.threads) // node
    if keys.get("stride_bytes", node) % node:
        yield f"stride: {keys['stride_bytes']}", f"a multiple of node ({node} bytes)"
    if order != "strided" and keys.get("stride_bytes", node) != node:
        yield f"stride with order: {order}", "it goes with order: strided"
    if order != "random" and "locality_bytes" in keys:
        yield f"locality with order: {order}", "it goes with order: random"
    if keys.get("locality_bytes", node) < node:
        yield f"locality: {keys['locality_bytes']}", f"one node ({node} bytes) at least"
    if not 1 <= keys.get("chains", 1) <= _MOST_CHAINS:
        yield f"chains: {keys['chains']}", f"from 1 to {_MOST_CHAINS}"
    if nodes < 2:
        yield (
            f"node: {format_bytes(node)} in {format_bytes(job.range_bytes)} of range",
            "two nodes at least in each partition",
        )


def _chain(job: Job) -> Iterator[_Refusal]:
    yield from _pattern(job, max(step.size_bytes for step in job.chain))


def _log(job: Job) -> Iterator[_Refusal]:
    if job.keys["entry_bytes"] > _MOST_ENTRY_BYTES:
        yield f"entry: {job.keys['entry_bytes']}", f"{format_bytes(_MOST_ENTRY_BYTES)} at most"


def _page(job: Job) -> Iterator[_Refusal]:
    page, dirty = job.keys["page_bytes"], job.keys["dirty_lines"]
    if page > _MOST_PAGE_BYTES:
        yield f"page: {format_bytes(page)}", f"{format_bytes(_MOST_PAGE_BYTES)} at most"
    if not 1 <= dirty <= page // LINE_BYTES:
        yield f"dirty_lines: {dirty} of a page of {page // LINE_BYTES}", "from 1 to all of them"


_OF_KIND: Mapping[Kind, Callable[[Job], Iterator[_Refusal]]] = {
    "throughput": _throughput,
    "latency": _latency,
    "chase": _chase,
    "chain": _chain,
    "log": _log,
    "page": _page,
}


def _processor(job: Job, room: HostCapacity) -> Iterator[_Refusal]:
    """Instructions that the processor has not."""
    if room.instructions is None:
        return
    flushes = {job.keys.get("flush"), job.keys.get("written_by")}
    flushes |= {PERSIST[step.persist]["flush"] for step in job.chain if step.persist}
    wanted = {"isa": {job.keys.get("isa")} - {"auto"}, "flush": flushes & _FLUSHES}
    for key, words in wanted.items():
        for word in sorted(filter(None, words - room.instructions)):
            yield (
                f"{key}: this processor has no {word}",
                f"it has {', '.join(sorted(room.instructions))} (harness doctor)",
            )
