"""Scale a suite to a host: fewer threads, smaller ranges. Warnings: scaling_warnings.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.micro.host_capacity import HostCapacity
from harness.micro.keys import VECTORED, MicroParams, chosen
from harness.micro.model import LINE_BYTES, Axis, Job, Measurement, Pages, Place, Suite
from harness.micro.scaling_warnings import LEFT_OUT, Steps, warnings_of
from harness.native_programs import index_library
from harness.units import MIB, format_bytes
from harness.warnings import RunWarning

#: A target of the program: a place, and for DRAM its pages.
TargetKey = tuple[Place, Pages]
#: The kind of job that calls PMDK.
_PMDK = "pmdk"
#: Keys of an index job that have no meaning for a library's index.
_OF_OUR_INDEXES = ("flush", "fence", "added_fence", "discipline", "binary")


def _key(key: str, job: Job) -> Any:
    return job.keys.get(key)


#: What swept keys say of a job, and the host or the command line may change.
_CHANGED: Mapping[str, Callable[[Job], Any]] = {
    **dict.fromkeys(("threads", "number_threads"), lambda job: job.threads),
    **dict.fromkeys(("range", "memory_range"), lambda job: job.range_bytes),
    **dict.fromkeys(("dram_range", "dram_memory_range"), lambda job: job.bytes_on("dram")),
    **dict.fromkeys(("chunk", "min_io_chunk_size"), lambda job: job.keys.get("chunk_bytes")),
    **dict.fromkeys(("count", "number_operations"), lambda job: job.operations),
    "pages": lambda job: job.pages,
    **{key: partial(_key, key) for key in ("isa", "index", *_OF_OUR_INDEXES)},
}


@dataclass(frozen=True)
class ScaledSuite:
    """What will be measured, and how it differs from the suite."""

    measurements: tuple[Measurement, ...]
    warnings: tuple[RunWarning, ...]

    @property
    def libraries(self) -> list[Library]:
        """Return the libraries that have its indexes, each once."""
        found = (library_of(job) for one in self.measurements for job in one.jobs)
        return list(dict.fromkeys(one for one in found if one))


@dataclass(frozen=True)
class Library:
    """A shared library with an index. ``rewritten``: measured is what ``harness rewrite`` made.

    ``ours``: one that was built with the harness.
    """

    path: Path
    rewritten: bool = False
    ours: bool = False

    @property
    def name(self) -> str:
        """What a job's spec calls it until it can be read by the program."""
        return f"{self.path}{':rewritten' * self.rewritten}"


def library_of(job: Job) -> Library | None:
    """Return the library of a job's index: the user's, or ours; UsageError if it was not built."""
    if named := job.keys.get("library"):
        return Library(Path(named))
    if (binary := job.keys.get("binary")) is None:
        return None
    index, discipline = job.keys["index"], job.keys.get("discipline", "designed")
    return Library(index_library(f"{index}_{discipline}"), binary == "rewritten", True)


def target_of(job: Job, capacity: HostCapacity) -> TargetKey:
    """Return the target of a job's range."""
    pages = job.pages if job.place == "dram" or capacity.pages_matter else "base"
    return job.place, pages


def targets_of(measurement: Measurement, capacity: HostCapacity) -> dict[TargetKey, int]:
    """Return the bytes of each target; every job has a range of its own."""
    found: dict[TargetKey, int] = {}
    for job in measurement.jobs:
        key = target_of(job, capacity)
        found[key] = found.get(key, 0) + job.range_bytes
        if job.dram_range_bytes:
            second: TargetKey = ("dram", job.pages)
            found[second] = found.get(second, 0) + job.dram_range_bytes
    return found


def target_sizes(
    measurements: Iterable[Measurement], capacity: HostCapacity
) -> dict[TargetKey, int]:
    """Return the bytes of each target: as large as its largest use."""
    sizes: dict[TargetKey, int] = {}
    for one in measurements:
        for key, size in targets_of(one, capacity).items():
            sizes[key] = max(size, sizes.get(key, 0))
    return sizes


def scale(suite: Suite, capacity: HostCapacity, limits: MicroParams) -> ScaledSuite:
    """Scale the suite to this host; UsageError where nothing of it is left, or nothing fits."""
    requested = _requested(suite, capacity, limits)
    if limits.index_library and not any(job.kind == "index" for job in suite.jobs()):
        raise UsageError(
            f"suite {suite.name} with --index-library",
            "it measures no index",
            "leave the library out, or name a suite such as bento/fig2",
        )
    if not limits.index_library and (limits.key or limits.value):
        raise UsageError(
            f"suite {suite.name} with -p key or -p value",
            "our own indexes have keys and values of 8 bytes",
            "name a library that takes others: --index-library FILE.so",
        )
    if limits.index_library or any(
        "binary" in job.keys or job.kind == _PMDK for job in suite.jobs()
    ):  # A library has memory or files of its own.
        halves: dict[Place, int] = {place: n // 2 for place, n in capacity.bytes_free.items()}
        capacity = replace(capacity, bytes_free=halves)
    _, limited, threaded, sized = _fitted(requested, capacity, limits)
    unique: dict[str, Measurement] = {}
    for one in sized:  # what differed in what was changed is called the same now: the first stands
        unique.setdefault(_done(one) if limits.index_library else one.configuration, one)
    kept = list(unique.values())
    left_out = {
        lacking: sum(any(lacking in _needs(job) for job in one.jobs) for one in requested)
        for lacking in sorted(_lacking(capacity))
    }
    steps = Steps(left_out, limited, threaded, sized, kept)
    warnings = warnings_of(steps, capacity, limits)
    if not kept:
        raise UsageError(
            f"suite {suite.name}",
            "nothing of it can be measured here",
            "; ".join(f"{one.problem}: {one.context}" for one in warnings),
        )
    _refuse_cached(steps, capacity)
    return ScaledSuite(tuple(kept), warnings)


def _done(one: Measurement) -> str:
    """Return a text that is equal where the same is done under other names."""
    return repr((*(replace(job, name="") for job in one.jobs), one.duration_ns, one.warm_up_ns))


_Fitting = tuple[list[Measurement], list[Measurement], list[Measurement], list[Measurement]]


def _fitted(
    requested: Sequence[Measurement], capacity: HostCapacity, limits: MicroParams
) -> _Fitting:
    """Return the measurements after each step: with processors, limited, threaded, sized."""
    near = [_whole(one) for one in _with_processors(requested, capacity)]
    limited = [_whole(_limited(one, limits)) for one in near]
    threaded = [_threads(one, capacity) for one in limited]
    return near, limited, threaded, _renamed(near, _sized(threaded, capacity))


def _requested(suite: Suite, capacity: HostCapacity, limits: MicroParams) -> list[Measurement]:
    """Return those that ``only`` names, as the suite calls them or as they are called here."""
    every = suite.measurements
    try:
        return chosen(every, limits.only or (), lambda one: (one.name, one.configuration))
    except UsageError as unknown:
        try:
            near, _, _, sized = _fitted(every, capacity, limits)
        except UsageError:  # of other configurations
            raise unknown from None
    here = {one.configuration: now.configuration for one, now in zip(near, sized, strict=True)}
    return chosen(
        near, limits.only or (), lambda one: (one.name, one.configuration, here[one.configuration])
    )


def _with_processors(
    measurements: Sequence[Measurement], capacity: HostCapacity
) -> list[Measurement]:
    """Return the measurements whose near and far processors may be used, and PMDK."""
    lacking = _lacking(capacity)
    usable = []
    for one in measurements:
        needed = next((need for job in one.jobs for need in _needs(job) if need in lacking), None)
        if needed is None:
            usable.append(one)
        elif one.needed:
            raise UsageError(
                one.origin,
                f"numa_pattern {needed}: {LEFT_OUT[needed].problem}",
                LEFT_OUT[needed].hint,
            )
    return usable


def _needs(job: Job) -> tuple[str, ...]:
    return (job.numa, job.kind) if job.kind == _PMDK else (job.numa,)


def _lacking(capacity: HostCapacity) -> set[str]:
    here = {"near": capacity.near, "far": capacity.far, _PMDK: not capacity.no_pmdk}
    return {need for need, found in here.items() if not found}


def _whole(one: Measurement) -> Measurement:
    """Cut ranges to whole accesses, without a warning (4 GiB in accesses of 192 bytes)."""
    return replace(one, jobs=tuple(map(_whole_job, one.jobs)))


def _whole_job(job: Job) -> Job:
    access = _access_bytes(job)
    return replace(
        job,
        range_bytes=job.range_bytes // access * access or job.range_bytes,  # refused below
        dram_range_bytes=job.dram_range_bytes // access * access or job.dram_range_bytes,
    )


def _access_bytes(job: Job) -> int:
    return int(job.keys.get("access_bytes", LINE_BYTES))


def _limited(one: Measurement, limits: MicroParams) -> Measurement:
    """Apply the command line's bounds to a measurement."""
    jobs = tuple(
        replace(
            _with_threads(job, min(job.threads, limits.threads or job.threads)),
            range_bytes=min(job.range_bytes, limits.range_bytes or job.range_bytes),
            dram_range_bytes=min(job.dram_range_bytes, limits.range_bytes or job.dram_range_bytes),
            operations=job.operations and min(job.operations, limits.operations or job.operations),
            pages=limits.pages or job.pages,
            keys={**job.keys, "isa": limits.isa}
            if limits.isa and job.kind in VECTORED
            else job.keys,
        )
        for job in one.jobs
    )
    if limits.index_library:
        jobs = tuple(_with_library(job, limits) for job in jobs)
    return replace(
        one,
        jobs=jobs,
        duration_ns=limits.duration.ns if limits.duration else one.duration_ns,
        warm_up_ns=one.warm_up_ns if limits.warm_up is None else limits.warm_up.ns,
    )


def _with_library(job: Job, limits: MicroParams) -> Job:
    """Put the index of a library in place of ours; it allocates by itself, on base pages."""
    if job.kind != "index":
        return job
    keys = {key: value for key, value in job.keys.items() if key not in _OF_OUR_INDEXES}
    keys |= {"index": "library", "library": limits.index_library}
    sizes = {"key_bytes": limits.key, "value_bytes": limits.value}
    keys |= {name: size for name, size in sizes.items() if size}
    return replace(job, pages="base", keys=dict(sorted(keys.items())))


def _threads(one: Measurement, capacity: HostCapacity) -> Measurement:
    """Limit threads to the processors, all jobs in proportion, each to one at least."""
    jobs = list(one.jobs)
    for numa in ("near", "far"):
        here = [job for job in jobs if job.numa == numa]
        processors = len(capacity.near if numa == "near" else capacity.far)
        wanted = sum(job.threads for job in here)
        if wanted <= processors:
            continue
        jobs = [
            _with_threads(job, max(1, job.threads * processors // wanted)) if job in here else job
            for job in jobs
        ]
    return replace(one, jobs=tuple(jobs))


def _with_threads(job: Job, threads: int) -> Job:
    """Set the threads of a job, and partitions that divide them."""
    if threads == job.threads:
        return job
    most = min(job.partitions, threads)
    partitions = next((n for n in range(most, 0, -1) if threads % n == 0), 0)
    return replace(job, threads=threads, partitions=partitions)


def _renamed(requested: Sequence[Measurement], sized: Sequence[Measurement]) -> list[Measurement]:
    """Name configurations by the values that they have now.

    A value that another configuration of the measurement requests has that one's text, so that
    the two are called the same.
    """
    texts = {
        (one.name, axis.job, axis.key, _has(one, axis)): axis.text
        for one in requested
        for axis in one.axes
    }

    def renamed(was: Measurement, now: Measurement, axis: Axis) -> Axis:
        value = _has(now, axis)
        if value == _has(was, axis):
            return axis
        return replace(axis, text=texts.get((now.name, axis.job, axis.key, value), str(value)))

    def there(was: Measurement, now: Measurement, axis: Axis) -> bool:
        return _has(now, axis) is not None or _has(was, axis) is None

    return [
        replace(
            now, axes=tuple(renamed(was, now, axis) for axis in now.axes if there(was, now, axis))
        )
        for was, now in zip(requested, sized, strict=True)
    ]


def _has(one: Measurement, axis: Axis) -> Any:
    """Return the value of an axis in its job; None where scaling never changes it."""
    jobs = [job for job in one.jobs if axis.job in ("", job.name)]
    return _CHANGED[axis.key](jobs[0]) if jobs and axis.key in _CHANGED else None


def _sized(measurements: Sequence[Measurement], capacity: HostCapacity) -> list[Measurement]:
    """Halve ranges until they fit, alike for all configurations of a measurement."""
    most = _most(measurements, capacity)
    factors: dict[str, int] = {}
    for one in measurements:
        needed = targets_of(one, capacity)
        factor = factors.get(one.name, 1)
        while any(size / factor > most(key) for key, size in needed.items()):
            factor *= 2
        factors[one.name] = factor
    return [
        replace(one, jobs=tuple(_smaller_job(job, factors[one.name], one) for job in one.jobs))
        for one in measurements
    ]


def _most(
    measurements: Sequence[Measurement], capacity: HostCapacity
) -> Callable[[TargetKey], float]:
    """Return the byte limit per target; targets in memory share one limit."""
    keys = {key for one in measurements for key in targets_of(one, capacity)}
    of_memory = [key for key in keys if key[0] == "dram" or capacity.in_memory]

    def most(key: TargetKey) -> float:
        if key in of_memory:
            shared = capacity.bytes_free["dram"] / len(of_memory)
            if key[0] == "dram" and capacity.near_free_bytes is not None:
                shared = min(shared, capacity.near_free_bytes / len(of_memory))
            return min(shared, capacity.bytes_free[key[0]])
        return capacity.bytes_free[key[0]]

    return most


def _smaller_job(job: Job, factor: int, one: Measurement) -> Job:
    access = _access_bytes(job)
    chunk = int(job.keys.get("chunk_bytes", 0))
    size = job.range_bytes // factor // access * access
    if size < access * job.threads:
        raise UsageError(
            f"{one.origin}, {one.configuration}",
            f"access: {format_bytes(access)}, and the range of "
            f"{format_bytes(job.range_bytes // factor)} has less than one for each of "
            f"{job.threads} threads",
            "give it a larger range, or make room",
        )
    keys = dict(job.keys)
    if chunk > size // job.threads:
        power = 1 << ((size // job.threads).bit_length() - 1)  # of two, no more than that
        keys["chunk_bytes"] = max(LINE_BYTES, power)
    elif chunk:
        size = size // chunk * chunk
    dram = job.dram_range_bytes // factor // access * access or job.dram_range_bytes
    return replace(job, range_bytes=size, dram_range_bytes=dram, keys=keys)


def _refuse_cached(steps: Steps, capacity: HostCapacity) -> None:
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


def job_source(one: Measurement, job: str) -> str:
    """Return file, line and configuration of a job, for errors."""
    of = f", job {job}" if len(one.jobs) > 1 else ""
    return f"{one.origin}, {one.configuration}{of}"
