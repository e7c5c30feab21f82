"""A suite on a host: bounded by the command line, and refused where it does not fit.

What does not fit is refused with the bounds that make it fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from harness.errors import HostLacksError, UsageError
from harness.micro.bounds import bounded, with_library
from harness.micro.external_tools import WRITES_CACHED
from harness.micro.host_capacity import HostCapacity
from harness.micro.keys import MicroParams, chosen
from harness.micro.model import FILE, MAP, Job, Measurement, Pages, Place, Suite
from harness.micro.node_placement import first_bytes, node_groups
from harness.micro.suite_warnings import LEFT_OUT, warnings_of
from harness.native_programs import index_library
from harness.sequences import grouped
from harness.units import counted, format_bytes
from harness.warnings import RunWarning


class TargetKey(NamedTuple):
    """A target of the program: a place, and for memory its pages and nodes, or jobs' files.

    ``slot``: which of a measurement's jobs with a target of its own; ``part``: of two on nodes.
    """

    place: Place
    pages: Pages | Literal["file"]
    nodes: str = ""
    offset_bytes: int = 0
    slot: int = 0
    part: int = 0


#: Slot of memory that is mapped by its jobs alone.
_UNMAPPED = -1
_DISTANCES = {"near": "near the tier", "far": "far from the tier"}
#: The kind of job that calls PMDK.
_PMDK = "pmdk"
#: Of the host, what jobs of a kind need.
_NEEDED = {_PMDK: _PMDK, FILE: "files"}


@dataclass(frozen=True)
class HostSuite:
    """Measurements of a suite on a host, with warnings."""

    measurements: tuple[Measurement, ...]
    warnings: tuple[RunWarning, ...]

    @property
    def libraries(self) -> list[Library]:
        """Return the libraries that have its indexes, each once."""
        libraries = (library_of(job) for each in self.measurements for job in each.jobs)
        return list(dict.fromkeys(library for library in libraries if library))


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
        """Placeholder for the file in a job's spec, until the program can read it."""
        return f"{self.path}{':rewritten' * self.rewritten}"


def library_of(job: Job) -> Library | None:
    """Return the library of a job's index: the user's, or ours; UsageError if it was not built."""
    if named := job.keys.get("library"):
        return Library(Path(named))
    if (binary := job.keys.get("binary")) is None:
        return None
    index, discipline = job.keys["index"], job.keys.get("discipline", "designed")
    return Library(index_library(f"{index}_{discipline}"), binary == "rewritten", True)


# Targets -----------------------------------------------------------------------


def target_of(job: Job, capacity: HostCapacity) -> TargetKey:
    """Return the target of a job's range."""
    if job.kind == FILE:
        return TargetKey(job.place, "file")
    pages = job.pages if job.place != "tier" or capacity.pages_matter else "base"
    return TargetKey(job.place, pages, job.nodes, job.offset_bytes)


def second_target_of(job: Job) -> TargetKey:
    """Return the target of a job's range in addition to its own."""
    return TargetKey("nodes" if job.dram_nodes else "dram", job.pages, job.dram_nodes)


def job_targets(
    measurement: Measurement, capacity: HostCapacity
) -> list[tuple[Job, TargetKey, dict[TargetKey, int]]]:
    """Return each job with its target, and the bytes that it takes of all targets.

    Every job has a range of its own. One in two parts has a target of its own, whose parts meet
    where the nodes do: ``part`` 0 and 1.
    """
    jobs, divided = [], 0
    for job in measurement.jobs:
        key = target_of(job, capacity)
        if job.kind == MAP and (job.place != "tier" or capacity.pages_matter):
            key = key._replace(slot=_UNMAPPED)
        sizes = {key: job.range_bytes}
        if "/" in job.nodes:
            key = key._replace(slot=divided)
            divided += 1
            first = first_bytes(job.range_bytes, job.first_share, job.pages)
            sizes = {key: first, key._replace(part=1): job.range_bytes - first}
        if job.dram_range_bytes:
            second = second_target_of(job)
            sizes[second] = sizes.get(second, 0) + job.dram_range_bytes
        jobs.append((job, key, sizes))
    return jobs


def targets_of(measurement: Measurement, capacity: HostCapacity) -> dict[TargetKey, int]:
    """Return the bytes of each target."""
    total: dict[TargetKey, int] = {}
    for _, _, sizes in job_targets(measurement, capacity):
        for key, size in sizes.items():
            total[key] = total.get(key, 0) + size
    return total


def target_sizes(
    measurements: Iterable[Measurement], capacity: HostCapacity
) -> dict[TargetKey, int]:
    """Return the bytes of each target: as large as its largest use."""
    sizes: dict[TargetKey, int] = {}
    for each in measurements:
        for key, size in targets_of(each, capacity).items():
            sizes[key] = max(size, sizes.get(key, 0))
    return sizes


# A suite on a host ---------------------------------------------------------------


def suite_on(suite: Suite, capacity: HostCapacity, limits: MicroParams) -> HostSuite:
    """Bound a suite; UsageError where nothing of it is left, or it does not fit the host."""
    _check_library_options(suite, limits)
    if limits.index_library or any(
        "binary" in job.keys or job.kind == _PMDK or job.keys.get("appends") for job in suite.jobs()
    ):  # A library has memory or files of its own, and so has a file that grows.
        halves: dict[Place, int] = {place: n // 2 for place, n in capacity.bytes_free.items()}
        capacity = replace(capacity, bytes_free=halves)
    requested = chosen(
        suite.measurements, limits.only or (), lambda each: (each.name, each.configuration)
    )
    lacking = _lacking(capacity)
    measurable = _measurable(requested, lacking)
    measured = bounded(measurable, limits)
    left_out = {need: sum(need in _needs(each) for each in requested) for need in sorted(lacking)}
    beyond = len(with_library(measurable, limits)) - len(measured)
    _check_nodes(measurable, capacity)
    warnings = warnings_of(measured, left_out, beyond, capacity, limits)
    if not measured:
        raise UsageError(
            f"suite {suite.name}",
            "nothing of it can be measured here",
            "; ".join(f"{each.problem}: {each.context}" for each in warnings),
        )
    _refuse_misfits(measurable, capacity, limits)
    return HostSuite(tuple(measured), warnings)


def _check_library_options(suite: Suite, limits: MicroParams) -> None:
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


def _check_nodes(measurements: Sequence[Measurement], capacity: HostCapacity) -> None:
    for each in measurements:
        nodes = {node for key in targets_of(each, capacity) for node in _node_shares(key)}
        if missing := sorted(nodes - set(capacity.node_bytes_free)):
            raise UsageError(
                f"{each.origin}, {each.configuration}",
                f"no memory node {', '.join(map(str, missing))}",
                f"nodes with memory here: {', '.join(map(str, capacity.node_bytes_free))}; change "
                "nodes in the suite, or name other measurements with -p only",
            )
        if any(job.offset_bytes for job in each.jobs) and not capacity.raw_device:
            raise UsageError(
                f"{each.origin}, {each.configuration}",
                "offset on a tier that is no raw device",
                "name a tier of kind devdax",
            )


def _measurable(measurements: Sequence[Measurement], lacking: set[str]) -> list[Measurement]:
    """Return the measurements for which the host has what they need."""
    measurable = []
    for each in measurements:
        need = next((need for need in _needs(each) if need in lacking), None)
        if need is None:
            measurable.append(each)
        elif each.needed:
            raise UsageError(
                each.origin, f"numa_pattern {need}: {LEFT_OUT[need].problem}", LEFT_OUT[need].hint
            )
    return measurable


def _needs(measurement: Measurement) -> list[str]:
    needs: list[str] = [job.numa for job in measurement.jobs if not job.cpus]
    needs += [_NEEDED[job.kind] for job in measurement.jobs if job.kind in _NEEDED]
    return [*needs, "memory"] if measurement.in_memory else needs


def _lacking(capacity: HostCapacity) -> set[str]:
    here = {
        "near": capacity.near,
        "far": capacity.far,
        _PMDK: not capacity.no_pmdk,
        "files": capacity.has_files,
        "memory": not capacity.page_cached,
    }
    return {need for need, available in here.items() if not available}


def through_page_cache(suite: HostSuite) -> HostSuite:
    """Return the suite as it is on a tier whose file system makes direct writes through the cache.

    UsageError for a job that requires them.
    """
    measurements = []
    for measurement in suite.measurements:
        jobs = []
        for job in measurement.jobs:
            written = job.kind == FILE and job.keys["operation"] == "write"
            if written and job.keys.get("direct") == "yes":
                source = job_source(measurement, job.name)
                raise UsageError(source, f"direct: {WRITES_CACHED.context}", WRITES_CACHED.hint)
            jobs.append(replace(job, keys={**job.keys, "direct": "no"}) if written else job)
        measurements.append(replace(measurement, jobs=tuple(jobs)))
    if measurements == list(suite.measurements):
        return suite
    return HostSuite(tuple(measurements), (*suite.warnings, WRITES_CACHED))


# What fits -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shortage:
    """The first measurement that needs more of the host than there is, and what it needs."""

    measurement: Measurement
    context: str


def _refuse_misfits(
    requested: Sequence[Measurement], capacity: HostCapacity, limits: MicroParams
) -> None:
    """UsageError where the host has too few processors or bytes, with the bounds that fit."""
    measured = bounded(requested, limits)
    misfit = _too_many_threads(measured, capacity) or _too_many_bytes(measured, capacity)
    if misfit is not None:
        raise HostLacksError(
            f"{misfit.measurement.origin}, {misfit.measurement.configuration}",
            misfit.context,
            _remedy(requested, capacity, limits),
        )


def _too_many_threads(
    measurements: Sequence[Measurement], capacity: HostCapacity
) -> _Shortage | None:
    for each in measurements:
        jobs = [job for job in each.jobs if job.kind != FILE]
        for place, sharing in grouped((job.cpus or job.numa, job) for job in jobs).items():
            processors = len(capacity.processors(sharing[0]))
            threads = sum(job.threads for job in sharing)
            if threads > processors:
                where = f"in {place}" if sharing[0].cpus else _DISTANCES[place]
                context = f"{threads} threads, and {counted(processors, 'processor')} {where}"
                return _Shortage(each, context)
    return None


def _too_many_bytes(
    measurements: Sequence[Measurement], capacity: HostCapacity
) -> _Shortage | None:
    """Compare the targets, which all exist at once, with what one run may take."""
    sizes = target_sizes(measurements, capacity)
    for where, most, part_of in _bounds(sizes, capacity):
        if (total := _bytes(sizes, part_of)) > most:
            context = (
                f"{format_bytes(total)} {where}, and no more than {format_bytes(most)} may be "
                "taken of what is free"
            )
            each = [_bytes(targets_of(m, capacity), part_of) for m in measurements]
            return _Shortage(measurements[each.index(max(each))], context)
    return None


def _bounds(
    sizes: Mapping[TargetKey, int], capacity: HostCapacity
) -> Iterator[tuple[str, int, Callable[[TargetKey], float]]]:
    """Yield what may be taken, and of each target the share that takes from it."""
    free = capacity.bytes_free
    near = free["dram"] if capacity.near_free_bytes is None else capacity.near_free_bytes
    yield "on the tier", free["tier"], lambda key: key.place == "tier"
    yield "of DRAM", min(free["dram"], near), lambda key: key.place == "dram"
    nodes = {node for key in sizes for node in _node_shares(key)}
    for node in sorted(nodes):
        most = min(capacity.node_bytes_free.get(node, 0), free["dram"])
        yield f"on node {node}", most, partial(_share_on, node)
    if capacity.in_memory or nodes:
        yield "of memory", free["dram"], lambda key: capacity.in_memory or key.place != "tier"


def _share_on(node: int, key: TargetKey) -> float:
    return _node_shares(key).get(node, 0)


def _node_shares(key: TargetKey) -> Mapping[int, float]:
    return node_groups(key.nodes)[key.part].shares() if key.nodes else {}


def _bytes(sizes: Mapping[TargetKey, int], part_of: Callable[[TargetKey], float]) -> int:
    return round(sum(size * part_of(key) for key, size in sizes.items()))


def _remedy(requested: Sequence[Measurement], capacity: HostCapacity, limits: MicroParams) -> str:
    """Return the bounds that make a suite fit, else what the host needs."""
    fitting, words = limits, []
    if _too_many_threads(bounded(requested, limits), capacity):
        candidates = range(max(len(capacity.near), len(capacity.far)), 0, -1)
        bounds = (replace(limits, threads=threads) for threads in candidates)
        threads = _first(bounds, requested, lambda each: not _too_many_threads(each, capacity))
        if threads is None:
            return _without_misfits(requested, capacity, limits)
        fitting = threads
        words.append(f"-p threads={fitting.threads}")
    measured = bounded(requested, fitting)
    largest = max(
        max(job.range_bytes, job.dram_range_bytes) for each in measured for job in each.jobs
    )
    if _too_many_bytes(measured, capacity):
        powers = (1 << power for power in range(largest.bit_length() - 1, 5, -1))
        bounds = (replace(fitting, range_bytes=size) for size in powers)
        sized = _first(bounds, requested, lambda each: not _too_many_bytes(each, capacity))
        if sized is None or sized.range_bytes is None:
            return "free some space, or measure on a larger host"
        fitting = sized
        words.append(f"-p range={format_bytes(sized.range_bytes).replace(' ', '')}")
        if sized.range_bytes <= capacity.llc_bytes < largest:
            return (
                f"free some space; {' '.join(words)} would measure the last-level cache of "
                f"{format_bytes(capacity.llc_bytes)}"
            )
    every, left = len(bounded(requested, limits)), len(bounded(requested, fitting))
    note = f" (leaves out {every - left} of {counted(every, 'configuration')})"
    return f"add {' '.join(words)}{note if left < every else ''}"


def _first(
    bounds: Iterable[MicroParams],
    requested: Sequence[Measurement],
    fits: Callable[[list[Measurement]], bool],
) -> MicroParams | None:
    """Return the first bounds with which something is measured, and it fits."""
    for limits in bounds:
        measured = bounded(requested, limits)
        if measured and fits(measured):
            return limits
    return None


def _without_misfits(
    requested: Sequence[Measurement], capacity: HostCapacity, limits: MicroParams
) -> str:
    """Name the measurements of which each configuration has a processor for each thread."""
    measured = bounded(requested, limits)
    misfits = {each.name for each in measured if _too_many_threads([each], capacity)}
    fitting = dict.fromkeys(each.name for each in measured if each.name not in misfits)
    host = "measure on a host with more processors"
    return f"add -p only={','.join(fitting)}; or {host}" if fitting else host


def job_source(measurement: Measurement, job: str) -> str:
    """Return file, line and configuration of a job, for errors."""
    of = f", job {job}" if len(measurement.jobs) > 1 else ""
    return f"{measurement.origin}, {measurement.configuration}{of}"
