"""The calls of a derived suite's jobs as logs that fio replays (``read_iolog``).

::

    fio version 2 iolog
    wal/foreground-write add
    wal/foreground-write open
    wal/foreground-write write 0 8192
    wal/foreground-write datasync 0 0

Each stream has a name of its own for its part's file, so that it has a descriptor of its own: that
is where Linux keeps the state of readahead. A thread that makes files longer has one of its own.

A thread rests after each burst of calls. Between single calls it could not: fio sleeps no shorter
than its longest sleep at start, milliseconds on a busy machine, and spins instead. A thread that
only syncs waits in its log, since fio counts no syncs for a rest.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.micro.like_suite import Job, LikePlan, Stream

FILE = "file"
_PAGE_BYTES = 4096
_DIRECT_BYTES = 512
#: Waits in a log count from the start of fio.
_START_MS = 300
#: From one burst to the next, about; and what fio can express.
_PERIOD_NS, _LEAST_REST_NS = 100_000_000, 1000


@dataclass(frozen=True)
class _Call:
    """``at_ns``: since the start; ``order``: among calls at the same time."""

    at_ns: int
    order: int
    name: str
    action: str
    offset: int = 0
    size: int = 0


def names(job: Job, grows: bool) -> list[str]:
    """Of the job's descriptors, below the run's directory: of files that grow, or of the part's."""
    every = [
        name
        for stream in job.streams
        if _written(job, stream).grows == grows
        for thread in range(job.threads)
        for name in _names(job, stream, thread)
    ]
    return list(dict.fromkeys(every))


def _written(job: Job, stream: Stream) -> Stream:
    """Whose file a sync is of, where the job writes any."""
    written = [one for one in job.moves if one.operation == "write"]
    return written[0] if written and stream.operation == "sync" else stream


def _names(job: Job, stream: Stream, thread: int) -> list[str]:
    stream = _written(job, stream)
    stem = f"{job.part}/{job.role}-{stream.operation}"
    stem += "-direct" * job.direct + "-durable" * job.durable + f"-{thread}" * stream.grows
    return [stem, f"{stem}-missed"] if stream.missed else [stem]


def log_of(plan: LikePlan, job: Job, thread: int, seed: int) -> str | None:
    """What one thread of a job does; None where nothing is left for it."""
    rng = random.Random(f"{seed}/{job.part}/{job.role}/{job.direct}/{job.durable}/{thread}")
    calls: list[_Call] = []
    syncs = next((one for one in job.streams if one.operation == "sync"), None)
    count = _of_thread(syncs.calls, job, thread) if syncs is not None else 0
    times = _times(plan, count, job, thread)
    for stream in job.moves:
        sizes = _sizes(stream, _of_thread(stream.calls, job, thread), rng)
        ends: list[int] = []
        if syncs is not None and stream.operation == "write":
            found = _sizes(syncs, round(count * (1 - syncs.empty)), rng)
            sizes, ends = synced(sizes, found, count, rng)
        moves = list(_moves(plan, job, stream, thread, sizes, rng))
        calls += moves
        times = [moves[end].at_ns for end in ends] or times
    if syncs is not None:
        calls += [_sync(job, syncs, thread, at_ns) for at_ns in times]
    if not calls:
        return None
    calls.sort(key=lambda call: (call.at_ns, call.order))
    waits = not any(call.size for call in calls)
    return "\n".join(_lines(calls, waits)) + "\n"


@dataclass(frozen=True)
class Rest:
    """Of a thread: for ``ns`` after ``after`` reads and writes, and for ``first_ns`` at start."""

    after: int
    ns: int
    first_ns: int


def rest_of(plan: LikePlan, job: Job, thread: int, seed: int) -> Rest | None:
    """The time that the engine does not spend in calls; None where the calls come at once.

    Bursts of two threads have different periods, so that they meet by chance.
    """
    moves = sum(_of_thread(one.calls, job, thread) for one in job.moves)
    if job.at_once or not moves:
        return None
    rng = random.Random(f"{seed}/{job.part}/{job.role}/{thread}/rest")
    each_ns = plan.duration_ns / moves
    after = max(1, round(_PERIOD_NS * rng.uniform(0.7, 1.3) / each_ns))
    ns = after * each_ns * max(0.0, 1 - job.busy / job.threads)
    if ns < _LEAST_REST_NS:
        return None
    return Rest(after, round(ns), rng.randrange(round(min(ns, _PERIOD_NS))))


def _lines(calls: Sequence[_Call], waits: bool) -> Iterator[str]:
    yield "fio version 2 iolog"
    used = dict.fromkeys(call.name for call in calls)
    for action in ("add", "open"):
        yield from (f"{name} {action}" for name in used)
    for call in calls:
        if waits:
            yield f"{call.name} wait {_START_MS + call.at_ns // 1_000_000} 0"
        yield f"{call.name} {call.action} {call.offset} {call.size}"


def _of_thread(calls: int, job: Job, thread: int) -> int:
    return calls // job.threads + (thread < calls % job.threads)


def _times(plan: LikePlan, calls: int, job: Job, thread: int) -> list[int]:
    """In ns since the start, evenly: the order of a thread's calls."""
    phase = (thread + 0.5) / job.threads
    return [int((number + phase) / calls * plan.duration_ns) for number in range(calls)]


def _moves(
    plan: LikePlan, job: Job, stream: Stream, thread: int, sizes: Sequence[int], rng: random.Random
) -> Iterator[_Call]:
    """Reads or writes of these sizes, in this order."""
    missed = [False] * len(sizes)
    due = rng.random()
    for number in range(len(sizes)):
        due += stream.missed
        missed[number] = due >= 1
        due -= missed[number]
    if stream.grows:
        within = _slice(0, job.growing_bytes, job.threads, 0)
    else:
        within = _slice(0, plan.files[job.part].resident_bytes, job.threads, thread)
    beyond = _slice_of_missed(plan, job, stream, thread)
    offsets = {
        False: iter(_returning(job, stream, _chosen(sizes, missed, False), within, rng)),
        True: iter(_once(stream, _chosen(sizes, missed, True), beyond, rng)),
    }
    called = _names(job, stream, thread)
    times = _times(plan, len(sizes), job, thread)
    order = {"read": 0, "write": 1}[stream.operation]
    for at_ns, size, miss in zip(times, sizes, missed, strict=True):
        name = called[1] if miss else called[0]
        yield _Call(at_ns, order, name, stream.operation, next(offsets[miss]), size)


def _sync(job: Job, stream: Stream, thread: int, at_ns: int) -> _Call:
    name = _names(job, stream, thread)[0]
    return _Call(at_ns, 2, name, "datasync" if stream.datasync else "sync")


def synced(
    writes: Sequence[int], found: Sequence[int], count: int, rng: random.Random
) -> tuple[list[int], list[int]]:
    """Sizes of writes in a new order, and the places of those after each of which a sync comes.

    ``found``: bytes that syncs find; the most get the largest writes. Others find nothing: they
    come right after another one. Where all are such ones, because files are synced through other
    descriptors than they are written, they come evenly.
    """
    if not writes:
        return [], []
    if not found:
        return list(writes), [-(-(n + 1) * len(writes) // count) - 1 for n in range(count)]
    free = sorted(writes)
    groups: list[tuple[list[int], bool]] = []
    for target in sorted(found, reverse=True):
        group: list[int] = []
        lacking = target
        # Up to twice what is lacking: sizes are known by their class only.
        while lacking > 0 and (at := bisect_right(free, 2 * lacking)):
            group.append(free.pop(at - 1))
            lacking -= group[-1]
        groups.append((group, True))
    groups += [([size], False) for size in free]
    rng.shuffle(groups)
    sizes: list[int] = []
    ends: list[int] = []
    for group, ended in groups:
        sizes += group
        ends += [max(0, len(sizes) - 1)] * ended
    return sizes, ends + [rng.choice(ends) for _ in range(count - len(found))]


def _chosen(sizes: Sequence[int], missed: Sequence[bool], which: bool) -> list[int]:
    return [size for size, miss in zip(sizes, missed, strict=True) if miss == which]


def _sizes(stream: Stream, count: int, rng: random.Random) -> list[int]:
    """In random order; the number of each is exact to one call."""
    total = sum(weight for _, weight in stream.sizes)
    found: list[int] = []
    due = 0.0
    for size, weight in stream.sizes:
        due += weight / total * count
        found += [size] * (round(due) - len(found))
    rng.shuffle(found)
    return found


def _slice(first: int, size: int, threads: int, thread: int) -> tuple[int, int]:
    """A thread's own pages, from and to."""
    each = size // threads // _PAGE_BYTES * _PAGE_BYTES
    return first + each * thread, first + each * (thread + 1)


def _slice_of_missed(plan: LikePlan, job: Job, stream: Stream, thread: int) -> tuple[int, int]:
    """Streams follow one another after what is resident, in proportion to what they need."""
    file = plan.files[job.part]
    streams = [(j, s) for j in plan.jobs if j.part == job.part for s in j.streams]
    needed = [j.missed_bytes(s) for j, s in streams]
    index = next(i for i, (_, s) in enumerate(streams) if s is stream)
    scale = file.missed_bytes / max(1, sum(needed))
    first, size = (
        int(bytes_ * scale) // _PAGE_BYTES * _PAGE_BYTES
        for bytes_ in (sum(needed[:index]), needed[index])
    )
    return _slice(file.resident_bytes + first, size, job.threads, thread)


def _returning(
    job: Job, stream: Stream, sizes: Sequence[int], within: tuple[int, int], rng: random.Random
) -> Iterator[int]:
    """Offsets that may come again: runs of sequential calls from random places.

    A log is written on from its last unit, which a commit fills further.
    """
    first, end = within
    align = max(stream.unit, _DIRECT_BYTES if job.direct else 1)
    back = stream.unit if job.part == "wal" and stream.unit >= _DIRECT_BYTES else None
    at, due = first, rng.random()
    for number, size in enumerate(sizes):
        due += stream.sequential
        jumps = due < 1
        due -= not jumps
        if jumps and back is not None and number:
            at = max(first, at - back)
        elif jumps and job.part != "wal" and not stream.grows:
            at = first + rng.randrange(max(1, (end - first - size) // align + 1)) * align
        if at + size > end:
            at = first
        yield at
        at += size


def _once(
    stream: Stream, sizes: Sequence[int], within: tuple[int, int], rng: random.Random
) -> Iterator[int]:
    """Offsets of which none comes again: runs of sequential calls, apart, in random order."""
    runs: list[list[int]] = []
    due = rng.random()
    for size in sizes:
        due += stream.sequential
        if due >= 1 and runs:
            due -= 1
            runs[-1].append(size)
        else:
            due -= due >= 1
            runs.append([size])
    lengths = [-(-sum(run) // _PAGE_BYTES) * _PAGE_BYTES for run in runs]
    spare = max(0, within[1] - within[0] - sum(lengths)) // _PAGE_BYTES
    gaps = sorted(rng.randrange(spare + 1) for _ in runs)
    order = list(range(len(runs)))
    rng.shuffle(order)
    starts, used = [within[0]] * len(runs), within[0]
    for gap, index in zip(gaps, order, strict=True):
        starts[index] = used + gap * _PAGE_BYTES
        used += lengths[index]
    for start, run in zip(starts, runs, strict=True):
        at = start
        for size in run:
            yield at
            at += size
