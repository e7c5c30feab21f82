"""Bounds that the command line sets to a suite's measurements.

A bound changes no swept value, and so no name: a configuration that sweeps a larger value is left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from harness.micro.chains import LINE_BYTES
from harness.micro.keys import VECTORED, MicroParams
from harness.micro.model import Axis, Job, Measurement

#: Keys of an index job that have no meaning for a library's index.
_OF_OUR_INDEXES = ("flush", "fence", "added_fence", "discipline", "binary")


def _key(key: str, job: Job) -> Any:
    return job.keys.get(key)


#: Values of swept keys that a bound may change.
_BOUNDED: Mapping[str, Callable[[Job], Any]] = {
    **dict.fromkeys(("threads", "number_threads"), lambda job: job.threads),
    **dict.fromkeys(("partitions", "number_partitions"), lambda job: job.partitions),
    **dict.fromkeys(("range", "memory_range", "memory_region_size"), lambda job: job.range_bytes),
    **dict.fromkeys(
        ("dram_range", "dram_memory_range", "secondary_memory_region_size"),
        lambda job: job.bytes_on("dram"),
    ),
    **dict.fromkeys(("count", "number_operations"), lambda job: job.operations),
    "pages": lambda job: job.pages,
    "isa": partial(_key, "isa"),
    "key": partial(_key, "key_bytes"),
    "value": partial(_key, "value_bytes"),
}


def bounded(measurements: Sequence[Measurement], limits: MicroParams) -> list[Measurement]:
    """Apply the bounds, without the configurations that sweep a value beyond one."""
    measured = []
    for each in with_library(measurements, limits):
        limited = _limited(each, limits)
        if all(_value(each, axis) == _value(limited, axis) for axis in each.axes):
            measured.append(replace(limited, jobs=tuple(map(_whole, limited.jobs))))
    return measured


def _value(measurement: Measurement, axis: Axis) -> Any:
    """Return the value of a swept key; None where no bound changes it."""
    if axis.key in ("duration", "run_time"):
        return measurement.duration_ns
    if axis.key == "warm_up":
        return measurement.warm_up_ns
    jobs = [job for job in measurement.jobs if axis.job in ("", job.name)]
    return _BOUNDED[axis.key](jobs[0]) if jobs and axis.key in _BOUNDED else None


def _whole(job: Job) -> Job:
    """Cut ranges to whole accesses (4 GiB in accesses of 192 bytes)."""
    access = int(job.keys.get("access_bytes", LINE_BYTES))
    return replace(
        job,
        range_bytes=job.range_bytes // access * access or job.range_bytes,  # the program refuses it
        dram_range_bytes=job.dram_range_bytes // access * access or job.dram_range_bytes,
    )


def _limited(measurement: Measurement, limits: MicroParams) -> Measurement:
    """Apply the command line's bounds to a measurement."""
    jobs = tuple(
        replace(
            _with_threads(job, min(job.threads, limits.threads or job.threads)),
            range_bytes=min(job.range_bytes, limits.range_bytes or job.range_bytes),
            dram_range_bytes=min(job.dram_range_bytes, limits.range_bytes or job.dram_range_bytes),
            operations=job.operations and min(job.operations, limits.operations or job.operations),
            pages=job.pages if "library" in job.keys else limits.pages or job.pages,
            keys={**job.keys, "isa": limits.isa}
            if limits.isa and job.kind in VECTORED
            else job.keys,
        )
        for job in measurement.jobs
    )
    return replace(
        measurement,
        jobs=jobs,
        duration_ns=limits.duration.ns if limits.duration else measurement.duration_ns,
        warm_up_ns=measurement.warm_up_ns if limits.warm_up is None else limits.warm_up.ns,
    )


def _with_threads(job: Job, threads: int) -> Job:
    """Set the threads of a job, and partitions that divide them."""
    if threads == job.threads:
        return job
    most = min(job.partitions, threads)
    partitions = next((n for n in range(most, 0, -1) if threads % n == 0), 0)
    return replace(job, threads=threads, partitions=partitions)


def with_library(measurements: Sequence[Measurement], limits: MicroParams) -> Sequence[Measurement]:
    """Put the index of a library in place of ours; what it makes equal is measured once."""
    if not limits.index_library:
        return measurements
    unique: dict[str, Measurement] = {}
    for each in measurements:
        replaced = replace(
            each,
            jobs=tuple(_library_job(job, limits) for job in each.jobs),
            axes=tuple(_library_axes(each)),
        )
        done = tuple(replace(job, name="") for job in replaced.jobs)
        unique.setdefault(repr((done, each.duration_ns, each.warm_up_ns)), replaced)
    return list(unique.values())


def _library_job(job: Job, limits: MicroParams) -> Job:
    """Return the job with the library's index, which allocates by itself, on base pages."""
    if job.kind != "index":
        return job
    keys = {key: value for key, value in job.keys.items() if key not in _OF_OUR_INDEXES}
    keys |= {"index": "library", "library": limits.index_library}
    sizes = {"key_bytes": limits.key, "value_bytes": limits.value}
    keys |= {name: size for name, size in sizes.items() if size}
    return replace(job, pages="base", keys=dict(sorted(keys.items())))


def _library_axes(measurement: Measurement) -> Iterable[Axis]:
    """Return the swept keys that a library's index has, too."""
    indexes = {job.name for job in measurement.jobs if job.kind == "index"}
    for axis in measurement.axes:
        of_index = axis.job in indexes if axis.job else bool(indexes)
        if not of_index or axis.key not in ("index", "pages", *_OF_OUR_INDEXES):
            yield axis
        elif axis.key == "index":
            yield replace(axis, text="library")
