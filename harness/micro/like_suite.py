"""A suite derived from the I/O trace of a run: the same mix, sizes, order, rates and concurrency.

The trace counts calls by part, operation and role (harness.iotrace). Its cells become jobs, one for
each part and role, with the cells of the job as streams::

    job     busy: by Little's law, the calls under way on average, of as many threads. But clients
            have a thread each, as have workers that share a query; the workers' calls follow
            one another at once: queries read in bursts. A log is written by one at a time
    stream  calls: as many as the run made in the duration of the suite
            sizes: the mean of the cell, within the classes that the trace has
            missed: the share of buffered reads that the page cache did not hold
            grows: most writes are the first of their place, which a sync then has to note, too
            depth: asynchronous calls under way at a time

All jobs run at the same time, and rest as long as the engine did other things: a faster tier gets
more calls per second, as it would from the engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness import hdr, registry
from harness.errors import UsageError
from harness.iotrace.page import SIZE_CLASSES
from harness.store.runs import StoredRun
from harness.units import KIB, MIB, format_bytes
from harness.yamlfile import Document

PROGRAM = "like"
ARTIFACT = "io-operations"
_MOST_THREADS = 64
#: Of one repeat: each is a line of a log that fio reads beforehand.
_MOST_CALLS = 300_000
#: Extents of missed reads lie apart by this share of their size at least.
_APART = 1.1
PAGE_BYTES = 4096
#: Units that all sizes of a cell may be multiples of; else bytes.
_SMALLEST_UNIT, _LARGEST_UNIT = 512, 65536
#: Calls that each thread has room for in its part of a file.
_CALLS_OF_THREAD = 4
#: A read from the page cache takes less, on busy and virtual machines too; a device more.
_FROM_MEMORY_NS, _FROM_MEMORY_NS_PER_BYTE = 20_000, 0.2
#: With what Linux reads ahead.
_LARGEST_READ_BYTES = 512 * KIB
#: To find the duration whose reads fit: what they need is not quite proportional to it.
_ATTEMPTS, _CLOSER = 10, 0.99
#: Of files that are written in turn and wrap around.
_LOG_BYTES = 256 * MIB
_DEEPEST = 128
#: Share of a log's writes beyond what was written, above which it counts as new.
_NEW_LOG = 0.1
#: Parts that hold the database; the others hold what is written in the run.
_DATABASE = ("data", "index")


@dataclass(frozen=True)
class Stream:
    """Calls of one operation on a part.

    ``sizes``: bytes and how many of the calls have them; of syncs: bytes written since the previous
    one, of those that found any. ``unit``: what all sizes are multiples of. ``sequential``: share
    that begins where the previous one ended. ``missed``: share of reads that the page cache does
    not hold. ``grows``: the file is not written before. ``depth``: asynchronous calls under way; 0
    where the thread waits for each. ``datasync``: by fdatasync. ``empty``: share of syncs that find
    nothing.
    """

    operation: str
    calls: int
    sizes: tuple[tuple[int, float], ...] = ()
    unit: int = 1
    sequential: float = 0.0
    missed: float = 0.0
    grows: bool = False
    depth: int = 0
    datasync: bool = False
    empty: float = 0.0

    @property
    def mean_bytes(self) -> float:
        """Of one call."""
        calls = sum(count for _, count in self.sizes)
        return sum(size * count for size, count in self.sizes) / calls if calls else 0.0

    @property
    def largest_bytes(self) -> int:
        """Of one call."""
        return max((size for size, _ in self.sizes), default=0)


@dataclass(frozen=True)
class Job:
    """Streams of one part and role in the same way of access, shared by ``threads``.

    ``busy``: calls of the run under way on average; threads rest for the other time, unless calls
    come ``at_once``.
    """

    part: str
    role: str
    direct: bool
    durable: bool
    threads: int
    busy: float
    at_once: bool
    streams: tuple[Stream, ...]

    @property
    def reads_ahead(self) -> bool:
        """Whether Linux should: among reads so close together, it would after random ones, too."""
        return any(s.sequential >= 0.5 for s in self.streams if s.operation == "read")

    @property
    def moves(self) -> tuple[Stream, ...]:
        """Streams that read or write."""
        return tuple(stream for stream in self.streams if stream.operation != "sync")

    @property
    def depth(self) -> int:
        """Asynchronous calls of a thread under way; 0 where it waits for each."""
        return max(stream.depth for stream in self.streams)

    @property
    def least_bytes(self) -> int:
        """Of the part's file, without what is missed."""
        largest = max((s.largest_bytes for s in self.moves if not s.grows), default=0)
        return self.threads * _CALLS_OF_THREAD * largest

    @property
    def growing_bytes(self) -> int:
        """Of a file that is not written before; more is written from its start again."""
        return sum(
            _rounded(max(s.largest_bytes * _CALLS_OF_THREAD, min(_moved(s), _LOG_BYTES)))
            for s in self.moves
            if s.grows
        )

    def missed_bytes(self, stream: Stream) -> int:
        """Of the file, for reads each of which misses."""
        if not stream.missed:
            return 0
        each = stream.calls * stream.missed * _rounded(stream.mean_bytes, PAGE_BYTES) * _APART
        apart = self.threads * 2 * _rounded(stream.largest_bytes, PAGE_BYTES)
        return _rounded(each, PAGE_BYTES) + apart


@dataclass(frozen=True)
class PartFile:
    """The file of a part: ``resident_bytes`` that calls return to, then ``missed_bytes``."""

    resident_bytes: int
    missed_bytes: int

    @property
    def size_bytes(self) -> int:
        """Of the file, whole MiB."""
        return _rounded(self.resident_bytes + self.missed_bytes)


@dataclass(frozen=True)
class LikePlan:
    """``duration_ns``: of a repeat, if the tier is as fast as the run's."""

    duration_ns: int
    jobs: tuple[Job, ...]
    files: Mapping[str, PartFile]

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        growing = sum(job.growing_bytes for job in self.jobs)
        return growing + sum(file.size_bytes for file in self.files.values())

    @property
    def roles(self) -> list[str]:
        """Each is traced by itself."""
        return sorted({job.role for job in self.jobs})

    def without_direct(self) -> LikePlan:
        """The same through the page cache."""
        return replace(self, jobs=tuple(replace(job, direct=False) for job in self.jobs))


# From a stored run ---------------------------------------------------------------


def suite_like(run: StoredRun) -> Document:
    """The suite, as a document that is stored with its results; UsageError without a trace."""
    problem = f"a suite like {run.run_id}"
    spec = run.spec
    if run.run["status"] == "failed":
        raise UsageError(problem, "the run failed", "name another run")
    if spec.plant:
        raise UsageError(
            problem,
            f"{spec.planted_mark}: delays change how often and how many at a time calls are made",
            "name a run without --plant",
        )
    operations = run.artifact(ARTIFACT) or []
    if not any(one["calls"] > one["errors"] for one in operations):
        raise UsageError(
            problem,
            "it has no I/O trace, or made no file I/O in its timed intervals",
            "name a run of an engine whose I/O is traced (docs/io-trace.md)",
        )
    metrics = run.run["metrics"]
    coverage = {
        one["labels"]["part"]: one["value"]
        for one in metrics
        if one["name"] == "io_trace_coverage_share"
    }
    trace = {
        "run": run.run_id,
        "window_ns": _timed_ns(run.run),
        "data_bytes": run.run["data_bytes"] or 0,
        **_clients(run),
        "coverage": coverage,
        "operations": [
            one | {"missed_share": share}
            for one, share in zip(operations, _missed_shares(metrics, operations), strict=True)
        ],
    }
    value = {
        "schema": 1,
        "name": f"like-{run.run_id}",
        "description": f"file I/O like that of {run.run_id}",
        "program": PROGRAM,
        "params": {"trace": trace},
    }
    return Document(f"like {run.run_id}", value, {})


def _clients(run: StoredRun) -> dict[str, int]:
    """``clients``: that offer the load; ``workers``: of an engine whose queries share them."""
    params = registry.parameters(run.spec.workload).from_mapping(run.spec.params)
    workers = str(run.manifest.get("engine", {}).get("settings", {}).get("threads", ""))
    return {
        "clients": params.outline().connections or 1,
        "workers": int(workers) if workers.isdecimal() else 1,
    }


def _timed_ns(run: Mapping[str, Any]) -> int:
    """The length of the timed intervals: the window; or the streams; or all queries."""
    streams = ("window_duration_ns", "stream_duration_ns", "refresh_stream_duration_ns")
    longest = max(_values(run["metrics"], *streams), default=0)
    one_stream = sum(_values(run["metrics"], "queries_duration_ns", "refresh_duration_ns"))
    return int(longest or one_stream or run["duration_ns"])


def _values(metrics: Sequence[Mapping[str, Any]], *names: str) -> list[float]:
    return [one["value"] for one in metrics if one["name"] in names and "value" in one]


def _missed_shares(
    metrics: Sequence[Mapping[str, Any]], operations: Sequence[Mapping[str, Any]]
) -> list[float]:
    """Of each cell, the share of calls whose pages were not in the page cache.

    Linux counts the bytes from the device, of all parts together, with those that it read ahead.
    Of a cell's runs of sequential calls, those that miss have a call that takes longer than from
    memory. On a device as fast as that, the share is that of the bytes.
    """
    reads = [one for one in operations if one["operation"] == "read"]
    buffered = [one for one in reads if not _mostly(one, "direct")]
    from_device = sum(_values(metrics, "window_io_read_bytes", "query_io_read_bytes"))
    from_device -= sum(one["bytes"] for one in reads if _mostly(one, "direct"))
    moved = sum(one["bytes"] for one in buffered)
    by_bytes = min(1.0, max(0.0, from_device / moved)) if moved else 0.0
    durations = {
        place_of(one["labels"]): hdr.decode(one["hdr"])
        for one in metrics
        if one["name"] == "io_duration_ns"
    }
    longer = {
        place: _longer(durations[place], one["bytes"] / one["calls"])
        for one in buffered
        if (place := place_of(one)) in durations
    }
    slow = sum(longer.get(place_of(one), 0.0) * one["calls"] for one in buffered)
    explained = slow * _LARGEST_READ_BYTES
    shares = []
    for one in operations:
        share = by_bytes if one in buffered else 0.0
        random_share = 1 - one["sequential"] / one["calls"]
        if explained >= from_device and place_of(one) in longer and random_share:
            share = min(share, longer[place_of(one)] / random_share)
        shares.append(share)
    return shares


def place_of(one: Mapping[str, Any]) -> tuple[str, str, str]:
    """What counters, or a metric's labels, are of."""
    return one["part"], one["operation"], one["role"]


def _longer(histogram: hdr.Histogram, mean_bytes: float) -> float:
    """The share of reads that take longer than from memory."""
    low, _ = histogram.layout.bounds()
    from_memory = low <= _FROM_MEMORY_NS + _FROM_MEMORY_NS_PER_BYTE * mean_bytes
    return float(histogram.counts[~from_memory].sum() / max(1, histogram.total))


# From the trace ------------------------------------------------------------------


def derive(trace: Mapping[str, Any], duration_ns: int, room_bytes: int) -> LikePlan:
    """What is run in ``duration_ns`` with files of ``room_bytes`` at most.

    The duration is shorter where reads that miss the page cache need more room than there is.
    UsageError where not even the largest calls fit.
    """
    calls = sum(one["calls"] for one in trace["operations"])
    times = min(duration_ns / trace["window_ns"], _MOST_CALLS / calls)
    for _ in range(_ATTEMPTS):
        jobs = _jobs(trace, times)
        needs = _needs(jobs)
        least = sum(one.least_bytes for one in needs.values())
        missed = sum(_rounded(one.missed_bytes) for one in needs.values())
        missed += sum(job.growing_bytes for job in jobs)
        if least + missed <= room_bytes:
            files = _files(needs, trace["data_bytes"], room_bytes - least - missed)
            return LikePlan(round(times * trace["window_ns"]), jobs, files)
        times *= max(0.0, room_bytes - least) / max(1, missed) * _CLOSER
    raise UsageError(
        f"files like those of {trace['run']}",
        f"they have {format_bytes(least + missed)} at least, and {format_bytes(room_bytes)} "
        "may be used",
        "free some space, name another tier, or increase -p size",
    )


def _jobs(trace: Mapping[str, Any], times: float) -> tuple[Job, ...]:
    """``times``: duration of the suite divided by the run's window."""
    groups: dict[tuple[str, str, bool, bool], list[Mapping[str, Any]]] = {}
    for one in sorted(trace["operations"], key=lambda one: one["operation"] == "sync"):
        if one["calls"] > one["errors"]:
            groups.setdefault(_access(one, groups), []).append(one)
    return tuple(
        Job(
            *access,
            *_concurrency(trace, access[:2], cells),
            streams=tuple(_stream(one, times) for one in cells),
        )
        for access, cells in groups.items()
    )


def _concurrency(
    trace: Mapping[str, Any], place: tuple[str, str], cells: Sequence[Mapping[str, Any]]
) -> tuple[int, float, bool]:
    """Threads of a job, how many are in a call on average, and whether calls come at once.

    By Little's law; calls without times as the others.
    """
    part, role = place
    spent_ns: float = sum(
        one["ns"] * one["calls"] / one["timed"] / max(1, _depth(one))
        for one in cells
        if one["timed"]
    )
    busy = spent_ns / trace["window_ns"]
    least, at_once = 1, False
    if part != "wal" and role != "background":
        at_once = trace["clients"] == 1 and trace["workers"] > 1
        least = max(trace["clients"], trace["workers"] if at_once else 1)
    return min(_MOST_THREADS, max(least, round(busy))), busy, at_once


def _access(
    one: Mapping[str, Any], groups: Iterable[tuple[str, str, bool, bool]]
) -> tuple[str, str, bool, bool]:
    """Part, role, and how the file is opened. A sync goes with the writes before it."""
    place = (one["part"], one["role"])
    if one["operation"] == "sync":
        same = [key for key in groups if key[:2] == place]
        return min(same, key=lambda key: key[3], default=(*place, False, False))
    return (*place, _mostly(one, "direct"), _mostly(one, "durable"))


def _mostly(one: Mapping[str, Any], counter: str) -> bool:
    return bool(one[counter] * 2 > one["calls"])


def _stream(one: Mapping[str, Any], times: float) -> Stream:
    moves = one["operation"] != "sync"
    moved = one["bytes"] if moves else one["dirtied_bytes"]
    sizes, unit = sizes_of(one["sizes"], moved, one["operation"] == "read")
    good = max(1, one["calls"] - one["errors"])
    made = min(sum(count for _, count in sizes), good) if moves else good
    return Stream(
        one["operation"],
        max(1, round(made * times)),
        sizes,
        unit,
        one["sequential"] / one["calls"],
        one["missed_share"],
        grows=_grows(one),
        depth=_depth(one),
        datasync=_mostly(one, "datasync"),
        empty=0.0 if moves else max(0.0, 1 - sum(one["sizes"].values()) / made),
    )


def _grows(one: Mapping[str, Any]) -> bool:
    """A log goes back to its last block at most writes, and is new after it all the same."""
    return _mostly(one, "extending") or (
        one["part"] == "wal" and one["extending"] > _NEW_LOG * one["calls"]
    )


def _depth(one: Mapping[str, Any]) -> int:
    """The most that are under way at a time.

    Of n that are submitted in a row, calls find 0, 1 … n - 1 others; of those submitted as others
    end, each finds n - 1. Mean and variance distinguish them.
    """
    if not _mostly(one, "submitted"):
        return 0
    mean: float = one["queued"] / one["submitted"]
    variance = max(0.0, one["queued_squared"] / one["submitted"] - mean**2)
    return min(_DEEPEST, round(mean + 0.5 + math.sqrt(3 * variance + 0.25)))


def sizes_of(
    classes: Mapping[str, int], total_bytes: int, of_reads: bool = True
) -> tuple[tuple[tuple[int, float], ...], int]:
    """Sizes with how many calls have each, and the unit that they are multiples of.

    ``classes``: calls by the largest size of their class. The sizes lie within their classes, and
    their sum is ``total_bytes``. If that is a multiple of 4 KiB, say, so are all sizes: pages.
    Reads at the end of a file, which return nothing, are left out.
    """
    unit = min(total_bytes & -total_bytes, _LARGEST_UNIT)
    unit = unit if unit >= _SMALLEST_UNIT else 1
    counts = {upper_bytes(name): count for name, count in classes.items()}
    if of_reads and unit >= PAGE_BYTES and len(counts) > 1:
        counts.pop(SIZE_CLASSES[0], None)
    unit = min([unit, *counts])
    lowest = {
        upper: upper // 2 + unit if upper > max(unit, SIZE_CLASSES[0]) else unit for upper in counts
    }
    excess = sum(upper * count for upper, count in counts.items()) - total_bytes
    spare = sum((upper - lowest[upper]) * count for upper, count in counts.items())
    down = min(1.0, max(0.0, excess / spare)) if spare else 0.0
    found: dict[int, float] = {}
    for upper, count in counts.items():
        mean = upper - down * (upper - lowest[upper])
        if excess < 0 and upper == max(counts):
            mean -= excess / count
        below = int(mean // unit) * unit
        above_share = (mean - below) / unit
        for size, share in ((below, 1 - above_share), (below + unit, above_share)):
            if share * count > 1e-6:
                found[max(1, size)] = found.get(max(1, size), 0.0) + share * count
    return tuple(sorted(found.items())), unit


def upper_bytes(name: str) -> int:
    """The largest size of a class; the last class has none, and gets what the others leave."""
    return SIZE_CLASSES[-1] * 2 if name == "more" else int(name)


@dataclass(frozen=True)
class _Needs:
    """What the jobs of a part need of its file: bytes that calls return to, and that reads miss.

    ``moved_bytes``: by all calls; ``missed_share``: the largest of a stream.
    """

    least_bytes: int
    missed_bytes: int
    moved_bytes: int
    missed_share: float


def _needs(jobs: Sequence[Job]) -> dict[str, _Needs]:
    """By part."""
    by_part: dict[str, list[Job]] = {}
    for job in jobs:
        by_part.setdefault(job.part, []).append(job)
    return {
        part: _Needs(
            _rounded(max(job.least_bytes for job in every)),
            sum(job.missed_bytes(stream) for job in every for stream in job.moves),
            sum(_moved(stream) for job in every for stream in job.moves),
            max((stream.missed for job in every for stream in job.moves), default=0.0),
        )
        for part, every in by_part.items()
    }


def _files(needs: Mapping[str, _Needs], data_bytes: int, spare_bytes: int) -> dict[str, PartFile]:
    """Files as large as the run's data where there is room, with a place for every call."""
    of_database = sum(one.moved_bytes for part, one in needs.items() if part in _DATABASE)
    more: dict[str, tuple[float, float]] = {}
    for part, one in needs.items():
        missed, resident = 0.0, float(min(one.moved_bytes, _LOG_BYTES))
        if part in _DATABASE and of_database:
            size = data_bytes * one.moved_bytes / of_database
            missed, resident = size * one.missed_share, size * (1 - one.missed_share)
        more[part] = max(0.0, missed - one.missed_bytes), max(0.0, resident - one.least_bytes)
    wanted = sum(size for both in more.values() for size in both)
    share = min(1.0, spare_bytes / wanted) if wanted else 0.0
    return {
        part: PartFile(
            one.least_bytes + _whole(more[part][1] * share),
            one.missed_bytes + _whole(more[part][0] * share),
        )
        for part, one in needs.items()
    }


def _moved(stream: Stream) -> int:
    return math.ceil(stream.calls * stream.mean_bytes)


def _rounded(size: float, unit: int = MIB) -> int:
    """Up to whole units, one at least."""
    return -(-max(1, math.ceil(size)) // unit) * unit


def _whole(size: float) -> int:
    return int(size) // MIB * MIB
