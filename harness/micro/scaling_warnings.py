"""Warnings about how a suite was scaled to the host: no change of it is silent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.micro.host_capacity import HostCapacity
from harness.micro.keys import VECTORED, MicroParams
from harness.micro.model import Measurement
from harness.units import counted, format_bytes
from harness.warnings import RunWarning

#: What a zipf pattern reads of DRAM for each access, and the share of it that is named.
_ADDRESS_BYTES, _ADDRESS_SHARE = 8, 0.01
#: Below this many last-level caches, a large part of a range is cached.
_CACHES = 4
#: Of configurations that were left out since no near, or no far processor may be used.
LEFT_OUT: Mapping[str, RunWarning] = {
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
    "pmdk": RunWarning(
        code="no-pmdk",
        problem="PMDK cannot be called on the tier",
        context="",
        hint="install it (Debian: apt install libpmemlog1 libpmemobj1) and name a tier with files",
    ),
}
#: Problem and hint of all others, by code.
_WARNINGS: Mapping[str, tuple[str, str]] = {
    "isa-not-applicable": (
        "the requested instruction set does not apply",
        "read their figures as those without it",
    ),
    "operations-not-applicable": (
        "configurations that end by time have no number of operations",
        "limit them by -p duration=…",
    ),
    "threads-limited": (
        "more threads requested than processors",
        "measure on a host with more processors",
    ),
    "equal-configurations": (
        "configurations became equal to others and were measured once with them",
        "relax the limit on threads, range, count, pages or isa",
    ),
    "range-scaled-down": (
        "ranges were scaled down to the free memory",
        "free space on the tier, or measure on a larger host",
    ),
    "range-cut-to-chunks": (
        "ranges were cut to whole chunks",
        "choose a range that is a multiple of the chunk",
    ),
    "addresses-in-memory": (
        "zipf's addresses are read from DRAM, too, and are not in the rates",
        "choose larger accesses, or compare with rates of the same access size only",
    ),
    "dram-unbound": (
        "Linux chooses the node of each page of DRAM",
        "name processors of one node, such as --cpus node:0: DRAM is that node's then",
    ),
    "stripe-differs": (
        "the pattern dimms does not meet the tier's DIMMs",
        "set -p stripe= to 4 KiB for each interleaved DIMM",
    ),
    "range-in-cache": (
        "the last-level cache holds a large part of a range",
        f"choose ranges of {_CACHES} times its size or more",
    ),
    "prefault-ignored": (
        "prefault_file: false has no effect: all pages are touched beforehand",
        "remove prefault_file: false",
    ),
    "page-cache": (
        "DRAM and write-back are measured (page cache), not the device",
        "measure the device with the suites block-io, file-io and ioping",
    ),
}


#: What each of several interleaved DIMMs has of a stripe, and the native program's own stripe.
_BLOCK_BYTES, STRIPE_BYTES = 4096, 24576


@dataclass(frozen=True)
class Steps:
    """A suite's measurements after each step of scaling it.

    ``left_out``: number of configurations by what they lack (near, far, pmdk). ``limited``
    (as the command line wants), ``threaded`` and ``sized`` go side by side; of ``sized`` ``kept``
    are measured.
    """

    left_out: Mapping[str, int]
    limited: Sequence[Measurement]
    threaded: Sequence[Measurement]
    sized: Sequence[Measurement]
    kept: Sequence[Measurement]


def warnings_of(
    steps: Steps, capacity: HostCapacity, limits: MicroParams
) -> tuple[RunWarning, ...]:
    """Return warnings of all differences from the request, and of doubtful measurements."""
    equal = len(steps.sized) - len(steps.kept)
    halved, cut = _smaller_ranges(steps.threaded, steps.sized)
    contexts = {
        "isa-not-applicable": _without_isa(steps.kept, limits),
        "operations-not-applicable": _without_count(steps.kept, limits),
        "threads-limited": _fewer_threads(steps.limited, steps.threaded),
        "equal-configurations": counted(equal, "configuration") if equal else "",
        "range-scaled-down": "; ".join(halved),
        "range-cut-to-chunks": "; ".join(cut),
        "addresses-in-memory": _addresses(steps.kept, capacity),
        "dram-unbound": _unbound(steps.kept, capacity),
        "stripe-differs": _other_stripes(steps.kept, capacity),
        "range-in-cache": _in_cache(steps.kept, capacity),
        "prefault-ignored": _names(
            steps.kept, lambda one: not all(config.prefault_file for config in one.source)
        ),
        "page-cache": "a mapped file on a tier without DAX" if capacity.page_cached else "",
    }
    return (
        *(
            replace(LEFT_OUT[lacking], context=_left_out(lacking, count, capacity))
            for lacking, count in steps.left_out.items()
            if count
        ),
        *(
            RunWarning(code, _WARNINGS[code][0], context, _WARNINGS[code][1])
            for code, context in contexts.items()
            if context
        ),
    )


# The context of each warning; empty where there is nothing to warn of --------------


def _left_out(lacking: str, count: int, capacity: HostCapacity) -> str:
    why = f": {capacity.no_pmdk}" if lacking == "pmdk" else ""
    return f"{counted(count, 'configuration')} left out{why}"


def _fewer_threads(before: Sequence[Measurement], after: Sequence[Measurement]) -> str:
    fewer = [
        (sum(job.threads for job in a.jobs), sum(job.threads for job in b.jobs))
        for a, b in zip(before, after, strict=True)
        if [job.threads for job in a.jobs] != [job.threads for job in b.jobs]
    ]
    if not fewer:
        return ""
    requested, measured = (max(counts) for counts in zip(*fewer, strict=True))
    return (
        f"{counted(len(fewer), 'configuration')}: up to {requested} threads requested, "
        f"{measured} measured"
    )


def _without_isa(measurements: Sequence[Measurement], limits: MicroParams) -> str:
    names = _names(measurements, lambda one: any(job.kind not in VECTORED for job in one.jobs))
    one_loop = "chases, logs and pages have one loop for all instruction sets"
    return f"{limits.isa} for {names}: {one_loop}" if limits.isa and names else ""


def _without_count(measurements: Sequence[Measurement], limits: MicroParams) -> str:
    def timed(one: Measurement) -> bool:
        return one.duration_ns is not None and all(job.operations is None for job in one.jobs)

    return _names(measurements, timed) if limits.operations is not None else ""


def _names(measurements: Sequence[Measurement], fits: Callable[[Measurement], bool]) -> str:
    return ", ".join(dict.fromkeys(one.name for one in measurements if fits(one)))


def _smaller_ranges(
    before: Sequence[Measurement], after: Sequence[Measurement]
) -> tuple[dict[str, None], dict[str, None]]:
    """Return the halved ranges, and those that were cut to whole chunks."""
    halved: dict[str, None] = {}
    cut: dict[str, None] = {}
    for a, b in zip(before, after, strict=True):
        for job, smaller in zip(a.jobs, b.jobs, strict=True):
            for was, now, of in (
                (job.range_bytes, smaller.range_bytes, ""),
                (job.dram_range_bytes, smaller.dram_range_bytes, " of DRAM"),
            ):
                if now < was:
                    reduced = halved if now * 2 <= was else cut
                    reduced[f"{a.name} {_size(now, was)}{of} instead of {_size(was, now)}"] = None
    return halved, cut


def _size(size_bytes: int, other_bytes: int) -> str:
    """Return a size, in bytes where rounding would make it equal to the other one."""
    text = format_bytes(size_bytes)
    return text if text != format_bytes(other_bytes) else f"{size_bytes:,} B"


def _in_cache(measurements: Sequence[Measurement], capacity: HostCapacity) -> str:
    """Return ranges that the last-level cache holds to a good part.

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
    cache = f"the last-level cache of {format_bytes(capacity.llc_bytes)}"
    return f"{cache} for {', '.join(small)}" if small else ""


def _addresses(measurements: Sequence[Measurement], capacity: HostCapacity) -> str:
    """Return configurations whose reading of addresses loads the measured memory."""
    found = {
        f"{one.name} ({_ADDRESS_BYTES / job.largest_access_bytes:.0%} more bytes)": None
        for one in measurements
        for job in one.jobs
        if job.keys.get("pattern") == "zipf"
        and (capacity.in_memory or job.bytes_on("dram"))
        and _ADDRESS_SHARE * job.largest_access_bytes < _ADDRESS_BYTES
    }
    return ", ".join(found)


def _unbound(measurements: Sequence[Measurement], capacity: HostCapacity) -> str:
    """Return configurations with DRAM whose node is not known, on a host with several."""
    if not capacity.dram_unbound:
        return ""
    names = _names(
        measurements,
        lambda one: any(job.place == "dram" or job.dram_range_bytes for job in one.jobs),
    )
    return f"the tier's node is not known, for {names}" if names else ""


def _other_stripes(measurements: Sequence[Measurement], capacity: HostCapacity) -> str:
    """Return stripes that are not those of the tier's interleaved DIMMs."""
    ways = capacity.interleave_ways
    stripes = {
        job.keys.get("stripe_bytes", STRIPE_BYTES)
        for one in measurements
        for job in one.jobs
        if job.keys.get("pattern") == "dimms"
    }
    other = sorted(stripes - {_BLOCK_BYTES * (ways or 0)})
    here = counted(ways, "interleaved DIMM") if ways else "a tier without interleaved DIMMs"
    return f"{here}, stripes of {', '.join(map(format_bytes, other))}" if other else ""
