"""File I/O like that of a run, on any tier: fio replays it under the I/O trace (docs/micro.md).

The same instrument that counted and timed the engine's calls counts and times those of fio, so that
the two are comparable, and what was done can be compared with what was requested.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from harness.errors import RunFailed, UsageError
from harness.iotrace.intervals import COMPLETE_SHARE
from harness.iotrace.page import CELL_FIELDS, Cell, PageError, Reading, cells
from harness.iotrace.trace import LIBRARY, IoTrace
from harness.micro import direct_io, external_tools, fio, iolog, model, page_cache
from harness.micro.io_jobs import WRITTEN_BYTES
from harness.micro.like_suite import Job, LikePlan, Stream, derive, place_of, upper_bytes
from harness.micro.params import Size
from harness.micro.protocol import Measured, MeasuringProgram, Planned, Workplace, measuring
from harness.native_programs import find_native
from harness.store import schemas
from harness.store.result import Check, Metric
from harness.store.spec import Json, JsonObject
from harness.supervise.user_files import (
    Credentials,
    acting_as,
    make_directory,
    open_regular,
    write_text,
)
from harness.tiers.linux.kernel import LIVE
from harness.tiers.linux.model import Tier
from harness.tiers.resolve import free_now
from harness.units import MIB, NS_PER_S, counted, format_bytes
from harness.warnings import RunWarning
from harness.workloads.parameters import Duration, Parameters, Time, parameter

METRIC, MEAN = "io_like_duration_ns", "io_like_mean_duration_ns"
#: Of the free space, and of the available memory, in which the resident part has to stay.
_OF_FREE, _OF_MEMORY = 0.8, 0.5
#: How far calls and sizes may be off.
_TOLERANCE = 0.05
#: A tier may take this many times the duration before fio stops.
_SLOWER, _AT_LEAST_S = 6, 60


@dataclass(frozen=True)
class _Trace:
    values = "of a run"

    def parse(self, name: str, value: Json) -> JsonObject:
        if not isinstance(value, Mapping):
            raise UsageError("a suite of like", "no trace in its params", "use --like RUN instead")
        schemas.validate(dict(value), "io-trace", source="the trace of a suite of like")
        return value


@dataclass(frozen=True)
class Like(Parameters, MeasuringProgram):
    """File I/O like that of a run."""

    workload = name = "like"
    aliases = {"runtime": "duration"}  # noqa: RUF012

    duration: Duration = parameter(Time(10_000_000), "5s", help="of each repeat")
    size_bytes: int = parameter(
        Size(unit=WRITTEN_BYTES), "1GiB", name="size", help="all files at most, in whole MiB"
    )
    trace: JsonObject = parameter(_Trace(), "", help="its I/O trace (like_suite.suite_like)")

    @property
    def executable(self) -> str | None:
        """fio's."""
        return shutil.which("fio")

    @property
    def in_spec(self) -> JsonObject:
        """The run."""
        return {"like": self.trace["run"]}

    def check(self, tier: Tier) -> None:
        """UsageError where fio or the trace's library is missing, or the tier has no room."""
        external_tools.require_room(tier, 0, "fio", "size")
        self.plan(tier)
        fio.version()
        if find_native(LIBRARY) is None:
            raise UsageError("trace fio", f"{LIBRARY} was not built", "run `make setup`")

    def plan(self, tier: Tier | None) -> LikePlan:
        """UsageError for a tier that cannot hold the files; without one, of all the room."""
        room = self.size_bytes
        if tier is not None:
            free = int((free_now(tier) or 0) * _OF_FREE)
            memory = int((LIVE.available_memory_bytes() or 0) * _OF_MEMORY)
            room = min(room, free, memory) // MIB * MIB
        return derive(self.trace, self.duration.ns, room)

    def planned(self, repeats: int, tier: Tier | None = None) -> Planned:
        """The derived jobs; without a tier, as if it had all the room."""
        plan = self.plan(tier)
        return Planned(
            [
                model.Measurement(
                    _described(job, stream, plan),
                    (model.Job("", self.name, job.threads, plan.files[job.part].size_bytes),),
                    duration_ns=plan.duration_ns,
                )
                for job in plan.jobs
                for stream in job.streams
            ],
            repeats * plan.duration_ns,
            f"the writing of files of {format_bytes(plan.size_bytes)}",
            asdict(plan),
        )

    def measure(self, work: Workplace) -> Measured:
        """Replay the jobs, once for each repeat, from the same state of the page cache."""
        plan = self.plan(work.tier)
        found_version = fio.version()
        past_cache = direct_io.takes_direct(work.files, work.env.credentials)
        wants_direct = any(job.direct for job in plan.jobs)
        if not past_cache:
            plan = plan.without_direct()
        _make_files(work, plan, past_cache)
        repeats: list[dict[str, Reading]] = []
        for repeat in range(work.repeats):
            done = f"{repeat + 1} of {work.repeats}"
            said = f"{work.tier.name}: I/O like that of {self.trace['run']}"
            work.env.progress.say(f"{said} ({done})")
            _reset_files(work, plan)
            with measuring(f"I/O like that of a run (repeat {done})"):
                repeats.append(_replay(work, plan, work.seed + repeat))
        total = reduce(lambda a, b: {role: a[role] + b[role] for role in a}, repeats)
        executed = list(_executed(total))
        failed = sum(one["errors"] for one in executed)
        warnings = [*_incomplete(self.trace), *mix_warnings(self.trace, executed, work.repeats)]
        if wants_direct and not past_cache:
            warnings.append(_NO_DIRECT)
        elif wants_direct and direct_io.caches_direct_writes(work.tier):
            warnings.append(direct_io.WRITES_CACHED)
        return Measured(
            metrics=list(_metrics(total, repeats)),
            checks=[
                Check(
                    "io_without_errors",
                    "failed" if failed else "passed",
                    f"{counted(sum(one['calls'] for one in executed), 'call')}, {failed} failed",
                )
            ],
            version=found_version,
            tool="fio",
            artifacts={"like": {"plan": asdict(plan), "executed": executed}},
            uncontrolled=tuple(warnings),
        )


def _described(job: Job, stream: Stream, plan: LikePlan) -> str:
    """``wal/sync/foreground: 1,017/s``, and how its calls are."""
    per_second = stream.calls * NS_PER_S / plan.duration_ns
    words = [f"{per_second:,.0f}/s" if per_second >= 100 else f"{per_second:.3g}/s"]
    if stream.operation == "sync":
        words.append(f"{stream.mean_bytes * (1 - stream.empty):,.0f} bytes written before")
    else:
        words.append(f"{stream.mean_bytes:,.0f} bytes")
        words.append(f"{stream.sequential:.0%} sequential")
    if stream.missed:
        words.append(f"{stream.missed:.0%} not in the page cache")
    words += ["direct"] * job.direct + ["O_DSYNC"] * job.durable + ["growing file"] * stream.grows
    words += [f"{stream.depth} at a time"] * bool(stream.depth)
    return f"{job.part}/{stream.operation}/{job.role}: {', '.join(words)}"


# Files and processes ---------------------------------------------------------------


def _make_files(work: Workplace, plan: LikePlan, past_cache: bool) -> None:
    """A file for each part, with a name for each stream."""
    user = work.env.credentials
    for part, file in plan.files.items():
        make_directory(work.files / part, user)
        fio.fill(work, f"{part}/{iolog.FILE}", file.size_bytes, past_cache)
    with acting_as(user):
        for name in dict.fromkeys(name for job in plan.jobs for name in iolog.names(job, False)):
            os.link(work.files / name.partition("/")[0] / iolog.FILE, work.files / name)


def _reset_files(work: Workplace, plan: LikePlan) -> None:
    """The state of the page cache, and of files that grow, before each repeat."""
    user = work.env.credentials
    for part, file in plan.files.items():
        path = work.files / part / iolog.FILE
        page_cache.drop(path, user)
        page_cache.warm(path, user, file.resident_bytes)
    for job in plan.jobs:
        for name in iolog.names(job, grows=True):
            _allocate(work.files / name, job.growing_bytes, user)


def _allocate(path: Path, size: int, user: Credentials | None) -> None:
    """Space that is not written, as engines allocate it for logs."""
    with acting_as(user):
        descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)


def _replay(work: Workplace, plan: LikePlan, seed: int) -> dict[str, Reading]:
    """What the trace counted, by role: each has a process and a page of its own."""
    library = find_native(LIBRARY)
    assert library is not None
    with ExitStack() as stack:
        readable = stack.enter_context(work.env.readable(library))
        texts = {role: _job_file(work, plan, role, seed) for role in plan.roles}
        traces: dict[str, IoTrace] = {}
        running = []
        for role, text in texts.items():
            trace = traces[role] = IoTrace(readable)
            stack.callback(trace.page.close)
            trace.directories = {part: work.files / part for part in plan.files}
            path = work.scratch / f"{role}.fio"
            write_text(path, text, work.env.credentials)
            argv = ["fio", "--output-format=terse", str(path)]
            running.append(stack.enter_context(external_tools.started(work, argv, trace)))
        for one in running:
            one.finish()
        try:
            return {role: trace.page.read() for role, trace in traces.items()}
        except PageError as error:
            raise RunFailed("read the I/O trace of fio", f"damaged: {error}") from error


def _job_file(work: Workplace, plan: LikePlan, role: str, seed: int) -> str:
    longest = max(_AT_LEAST_S, _SLOWER * plan.duration_ns // NS_PER_S)
    options: dict[str, Any] = {"ioengine": "psync", "thread": 1, "invalidate": 0}
    text = fio.section("global", options | {"runtime": longest, "randseed": seed})
    for number, job in enumerate(plan.jobs):
        if job.role != role:
            continue
        for thread in range(job.threads):
            calls = iolog.Thread(plan, job, thread, seed)
            if (log := calls.log()) is None:
                continue
            path = work.scratch / f"{number}-{thread}.log"
            write_text(path, log, work.env.credentials)
            options = {"read_iolog": path}
            if (rest := calls.rest()) is not None:
                options |= {"thinktime": rest.ns // 1000, "thinktime_blocks": rest.after}
                options |= {"startdelay": f"{rest.first_ns // 1000}us"}
            options["fadvise_hint"] = 0 if job.reads_ahead else "random"
            options |= {"direct": 1} if job.direct else {}
            options |= {"sync": "dsync"} if job.durable else {}
            options |= {"ioengine": "libaio", "iodepth": job.depth} if job.depth else {}
            text += fio.section(f"{job.part}-{number}-{thread}", options)
    return text


# What was done ---------------------------------------------------------------------


def _metrics(
    done: Mapping[str, Reading], repeats: Sequence[Mapping[str, Reading]]
) -> Iterator[Metric]:
    for role, reading in done.items():
        for cell in _foreground():
            if (histogram := reading.histogram(cell)) is None:
                continue
            labels = {**cell.labels, "role": role}
            each = [one[role].histogram(cell) for one in repeats]
            means = tuple(one.mean for one in each if one is not None)
            yield Metric(METRIC, "ns", "lower", labels, hdr=histogram.encode())
            yield Metric(MEAN, "ns", "lower", labels, samples=means)


def _foreground() -> Iterator[Cell]:
    """fio's threads have no names from which the library could know their roles."""
    return (cell for cell in cells() if cell.role == "foreground")


def _executed(done: Mapping[str, Reading]) -> Iterator[dict[str, Any]]:
    """Counters of each cell as those of a run (io-operations.json)."""
    for role, reading in done.items():
        for cell in _foreground():
            if reading.value(cell, "calls"):
                histogram = reading.histogram(cell)
                yield {
                    **cell.labels,
                    "role": role,
                    **{field: reading.value(cell, field) for field in CELL_FIELDS},
                    "mean_ns": histogram.mean if histogram else None,
                }


def mix_warnings(
    trace: Mapping[str, Any], executed: Sequence[Mapping[str, Any]], repeats: int
) -> Iterator[RunWarning]:
    """A warning for each cell whose share of the calls, or mean size, is off.

    Each repeat rounds the number of a cell's calls: a rare one may be off by one call in each.
    """
    found = {place_of(one): one for one in executed}
    wanted = {place_of(one): one for one in trace["operations"] if one["calls"] > one["errors"]}
    of_run = sum(one["calls"] - one["errors"] for one in wanted.values())
    of_suite = sum(one["calls"] for one in found.values())
    off = []
    for key, one in wanted.items():
        name = "/".join(key)
        due = (one["calls"] - one["errors"]) / of_run * of_suite
        did = found.get(key, {"calls": 0, "bytes": 0})
        if abs(did["calls"] - due) > max(repeats, _TOLERANCE * due):
            off.append(f"{name}: {did['calls']:,} calls instead of {due:,.0f}")
        size = one["bytes"] / (one["calls"] - one["errors"])
        of_one_call = max(map(upper_bytes, one["sizes"]), default=0)
        due_bytes = did["calls"] * size
        if abs(did["bytes"] - due_bytes) > max(repeats * of_one_call, _TOLERANCE * due_bytes):
            off.append(f"{name}: {did['bytes'] / did['calls']:,.0f} bytes instead of {size:,.0f}")
    if off:
        yield RunWarning(
            "like-mix-differs",
            "the replayed I/O differs from the run's by more than 5 %",
            "; ".join(off),
            "increase --duration, or -p size, so that rare and large calls are replayed, too",
        )


def _incomplete(trace: Mapping[str, Any]) -> Iterator[RunWarning]:
    low = {part: share for part, share in trace["coverage"].items() if share < COMPLETE_SHARE}
    if low:
        shares = ", ".join(f"{part} {share:.1%}" for part, share in sorted(low.items()))
        yield RunWarning(
            "like-trace-incomplete",
            "part of the run's I/O is not replayed",
            f"its trace saw {shares} of the bytes: mapped files, for example, are not seen",
            "do not rely on these parts",
        )


_NO_DIRECT = RunWarning(
    code="no-direct-io",
    problem="the file system takes no direct I/O",
    context="the run's direct I/O goes through the page cache",
    hint="measure on another file system",
)
