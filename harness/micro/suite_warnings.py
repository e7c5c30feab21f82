"""Warnings about a suite on a host: what is left out of it, and what makes results doubtful."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from harness.micro.host_capacity import HostCapacity
from harness.micro.keys import VECTORED, MicroParams
from harness.micro.model import FILE, Measurement
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
    "files": RunWarning(
        code="no-files",
        problem="the tier has no files",
        context="",
        hint="name a tier that is a directory",
    ),
    "memory": RunWarning(
        code="not-memory",
        problem="the tier is not memory: its mapped files are the page cache",
        context="",
        hint="name a tier of DRAM, CXL memory or a file system with DAX",
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
    "beyond-limits": (
        "configurations that sweep a value beyond a parameter were left out",
        "raise the parameter, or remove it",
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


def warnings_of(
    measured: Sequence[Measurement],
    left_out: Mapping[str, int],
    beyond: int,
    capacity: HostCapacity,
    limits: MicroParams,
) -> tuple[RunWarning, ...]:
    """Return warnings of all differences from the request, and of doubtful measurements.

    ``left_out``: number of configurations by what they lack (a key of LEFT_OUT); ``beyond``:
    number of those that sweep a value beyond a parameter.
    """
    contexts = {
        "beyond-limits": counted(beyond, "configuration") if beyond else "",
        "isa-not-applicable": _without_isa(measured, limits),
        "operations-not-applicable": _without_count(measured, limits),
        "addresses-in-memory": _addresses(measured, capacity),
        "dram-unbound": _unbound(measured, capacity),
        "stripe-differs": _other_stripes(measured, capacity),
        "range-in-cache": _in_cache(measured, capacity),
        "prefault-ignored": _names(
            measured,
            lambda measurement: not all(config.prefault_file for config in measurement.source),
        ),
        "page-cache": _page_cached(measured, capacity),
    }
    return (
        *(
            replace(LEFT_OUT[lacking], context=_left_out(lacking, count, capacity))
            for lacking, count in left_out.items()
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


def _without_isa(measurements: Sequence[Measurement], limits: MicroParams) -> str:
    names = _names(
        measurements, lambda measurement: any(job.kind not in VECTORED for job in measurement.jobs)
    )
    one_loop = "chases, logs and pages have one loop for all instruction sets"
    return f"{limits.isa} for {names}: {one_loop}" if limits.isa and names else ""


def _without_count(measurements: Sequence[Measurement], limits: MicroParams) -> str:
    def timed(measurement: Measurement) -> bool:
        return measurement.duration_ns is not None and all(
            job.operations is None for job in measurement.jobs
        )

    return _names(measurements, timed) if limits.operations is not None else ""


def _names(measurements: Sequence[Measurement], fits: Callable[[Measurement], bool]) -> str:
    return ", ".join(
        dict.fromkeys(measurement.name for measurement in measurements if fits(measurement))
    )


def _in_cache(measurements: Sequence[Measurement], capacity: HostCapacity) -> str:
    """Return ranges that the last-level cache holds to a good part.

    A chase, a hot spot and a log are made small on purpose, and streaming stores go past it.
    """
    small = {
        f"{measurement.name} ({format_bytes(job.range_bytes)})": None
        for measurement in measurements
        for job in measurement.jobs
        if job.kind in ("throughput", "chain")
        and job.keys.get("pattern") != "hotspot"
        and job.keys.get("operation") != "ntstore"
        and job.range_bytes < _CACHES * capacity.llc_bytes
    }
    cache = f"the last-level cache of {format_bytes(capacity.llc_bytes)}"
    return f"{cache} for {', '.join(small)}" if small else ""


def _addresses(measurements: Sequence[Measurement], capacity: HostCapacity) -> str:
    """Return configurations whose reading of addresses loads the measured memory."""
    configurations = {
        f"{measurement.name} ({_ADDRESS_BYTES / job.largest_access_bytes:.0%} more bytes)": None
        for measurement in measurements
        for job in measurement.jobs
        if job.keys.get("pattern") == "zipf"
        and (capacity.in_memory or job.bytes_on("dram"))
        and _ADDRESS_SHARE * job.largest_access_bytes < _ADDRESS_BYTES
    }
    return ", ".join(configurations)


def _unbound(measurements: Sequence[Measurement], capacity: HostCapacity) -> str:
    """Return configurations with DRAM whose node is not known, on a host with several."""
    if not capacity.dram_unbound:
        return ""
    names = _names(
        measurements,
        lambda measurement: any(
            job.place == "dram" or job.dram_range_bytes for job in measurement.jobs
        ),
    )
    return f"the tier's node is not known, for {names}" if names else ""


def _page_cached(measurements: Sequence[Measurement], capacity: HostCapacity) -> str:
    jobs = (job for measurement in measurements for job in measurement.jobs)
    maps = any(job.kind != FILE and job.place == "tier" for job in jobs)
    return "a mapped file on a tier without DAX" if capacity.page_cached and maps else ""


def _other_stripes(measurements: Sequence[Measurement], capacity: HostCapacity) -> str:
    """Return stripes that are not those of the tier's interleaved DIMMs."""
    ways = capacity.interleave_ways
    stripes = {
        job.keys.get("stripe_bytes", STRIPE_BYTES)
        for measurement in measurements
        for job in measurement.jobs
        if job.keys.get("pattern") == "dimms"
    }
    other = sorted(stripes - {_BLOCK_BYTES * (ways or 0)})
    here = counted(ways, "interleaved DIMM") if ways else "a tier without interleaved DIMMs"
    return f"{here}, stripes of {', '.join(map(format_bytes, other))}" if other else ""
