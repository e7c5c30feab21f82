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

from harness.micro.like_suite import PAGE_BYTES, Job, LikePlan, Stream

FILE = "file"
_DIRECT_BYTES = 512
#: Waits in a log count from the start of fio.
_START_MS = 300
#: From one burst to the next, about; and what fio can express.
_PERIOD_NS, _LEAST_REST_NS = 100_000_000, 1000


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


@dataclass(frozen=True)
class _Call:
    """``at_ns``: since the start; ``order``: among calls at the same time."""

    at_ns: int
    order: int
    name: str
    action: str
    offset: int = 0
    size: int = 0


@dataclass(frozen=True)
class Rest:
    """Of a thread: for ``ns`` after ``after`` reads and writes, and for ``first_ns`` at start."""

    after: int
    ns: int
    first_ns: int


@dataclass(frozen=True)
class Thread:
    """One thread of a job. ``seed``: of all that is drawn for it."""

    plan: LikePlan
    job: Job
    number: int
    seed: int

    def log(self) -> str | None:
        """What it does; None where nothing is left for it."""
        job = self.job
        access = f"{job.part}/{job.role}/{job.direct}/{job.durable}"
        rng = random.Random(f"{self.seed}/{access}/{self.number}")
        calls: list[_Call] = []
        syncs = next((one for one in job.streams if one.operation == "sync"), None)
        count = self._calls(syncs) if syncs is not None else 0
        times = self._times(count)
        for stream in job.moves:
            sizes = _sizes(stream, self._calls(stream), rng)
            ends: list[int] = []
            if syncs is not None and stream.operation == "write":
                found = _sizes(syncs, round(count * (1 - syncs.empty)), rng)
                sizes, ends = synced(sizes, found, count, rng)
            moves = list(self._moves(stream, sizes, rng))
            calls += moves
            times = [moves[end].at_ns for end in ends] or times
        if syncs is not None:
            action = "datasync" if syncs.datasync else "sync"
            name = _names(job, syncs, self.number)[0]
            calls += [_Call(at_ns, 2, name, action) for at_ns in times]
        calls.sort(key=lambda call: (call.at_ns, call.order))
        return "\n".join(_lines(calls)) + "\n" if calls else None

    def rest(self) -> Rest | None:
        """The time that the engine does not spend in calls; None where the calls come at once.

        Bursts of two threads have different periods, so that they meet by chance.
        """
        job = self.job
        moves = sum(map(self._calls, job.moves))
        if job.at_once or not moves:
            return None
        rng = random.Random(f"{self.seed}/{job.part}/{job.role}/{self.number}/rest")
        each_ns = self.plan.duration_ns / moves
        after = max(1, round(_PERIOD_NS * rng.uniform(0.7, 1.3) / each_ns))
        ns = after * each_ns * max(0.0, 1 - job.busy / job.threads)
        if ns < _LEAST_REST_NS:
            return None
        return Rest(after, round(ns), rng.randrange(round(min(ns, _PERIOD_NS))))

    def _calls(self, stream: Stream) -> int:
        """The number of this thread's calls."""
        return stream.calls // self.job.threads + (self.number < stream.calls % self.job.threads)

    def _times(self, calls: int) -> list[int]:
        """In ns since the start, evenly: the order of the thread's calls."""
        phase = (self.number + 0.5) / self.job.threads
        return [int((number + phase) / calls * self.plan.duration_ns) for number in range(calls)]

    def _moves(self, stream: Stream, sizes: Sequence[int], rng: random.Random) -> Iterator[_Call]:
        """Reads or writes of these sizes, in this order."""
        job = self.job
        missed = _evenly(stream.missed, len(sizes), rng)
        if stream.grows:
            within = 0, _whole_pages(job.growing_bytes // job.threads)
        else:
            within = self._slice(0, self.plan.files[job.part].resident_bytes)
        returning = [size for size, miss in zip(sizes, missed, strict=True) if not miss]
        once = [size for size, miss in zip(sizes, missed, strict=True) if miss]
        offsets = {
            False: _returning(job, stream, returning, within, rng),
            True: _once(stream, once, self._slice_of_missed(stream), rng),
        }
        called = _names(job, stream, self.number)
        order = {"read": 0, "write": 1}[stream.operation]
        for at_ns, size, miss in zip(self._times(len(sizes)), sizes, missed, strict=True):
            name = called[1] if miss else called[0]
            yield _Call(at_ns, order, name, stream.operation, next(offsets[miss]), size)

    def _slice(self, first: int, size: int) -> tuple[int, int]:
        """The thread's own pages, from and to."""
        each = _whole_pages(size // self.job.threads)
        return first + each * self.number, first + each * (self.number + 1)

    def _slice_of_missed(self, stream: Stream) -> tuple[int, int]:
        """Streams follow one another after what is resident, in proportion to what they need."""
        file = self.plan.files[self.job.part]
        streams = [(j, s) for j in self.plan.jobs if j.part == self.job.part for s in j.streams]
        needed = [j.missed_bytes(s) for j, s in streams]
        index = next(i for i, (_, s) in enumerate(streams) if s is stream)
        scale = file.missed_bytes / max(1, sum(needed))
        first = _whole_pages(sum(needed[:index]) * scale)
        return self._slice(file.resident_bytes + first, _whole_pages(needed[index] * scale))


def _lines(calls: Sequence[_Call]) -> Iterator[str]:
    yield "fio version 2 iolog"
    used = dict.fromkeys(call.name for call in calls)
    for action in ("add", "open"):
        yield from (f"{name} {action}" for name in used)
    waits = not any(call.size for call in calls)
    for call in calls:
        if waits:
            yield f"{call.name} wait {_START_MS + call.at_ns // 1_000_000} 0"
        yield f"{call.name} {call.action} {call.offset} {call.size}"


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


def _evenly(share: float, count: int, rng: random.Random) -> list[bool]:
    """Which of so many calls are this share of them, at even distances."""
    due = rng.random()
    found = []
    for _ in range(count):
        due += share
        found.append(due >= 1)
        due -= found[-1]
    return found


def _whole_pages(size: float) -> int:
    return int(size) // PAGE_BYTES * PAGE_BYTES


def _returning(
    job: Job, stream: Stream, sizes: Sequence[int], within: tuple[int, int], rng: random.Random
) -> Iterator[int]:
    """Offsets that may come again: runs of sequential calls from random places.

    A log is written on from its last unit, which a commit fills further.
    """
    first, end = within
    align = max(stream.unit, _DIRECT_BYTES if job.direct else 1)
    back = stream.unit if job.part == "wal" and stream.unit >= _DIRECT_BYTES else None
    at = first
    follows = _evenly(stream.sequential, len(sizes), rng)
    for number, size in enumerate(sizes):
        jumps = not follows[number]
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
    for size, follows in zip(sizes, _evenly(stream.sequential, len(sizes), rng), strict=True):
        if follows and runs:
            runs[-1].append(size)
        else:
            runs.append([size])
    lengths = [-(-sum(run) // PAGE_BYTES) * PAGE_BYTES for run in runs]
    spare = max(0, within[1] - within[0] - sum(lengths)) // PAGE_BYTES
    gaps = sorted(rng.randrange(spare + 1) for _ in runs)
    order = list(range(len(runs)))
    rng.shuffle(order)
    starts, used = [within[0]] * len(runs), within[0]
    for gap, index in zip(gaps, order, strict=True):
        starts[index] = used + gap * PAGE_BYTES
        used += lengths[index]
    for start, run in zip(starts, runs, strict=True):
        at = start
        for size in run:
            yield at
            at += size
