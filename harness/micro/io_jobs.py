"""What block and file I/O is measured: the parameters of the program ``fio`` in a suite.

::

    program: fio
    params:
      size: 1GiB                 the file on the tier, whole MiB
      duration: 2s               of each configuration and repeat
      only: "wal*"               of the measurements below; for -p only=…
      measurements:
        random_read: {operation: read, pattern: random, access: 4KiB, queue_depth: [1, 2, 4]}
        wal: {operation: write, pattern: sequential, access: 4KiB, sync: fdatasync}

A list stands for each of its values in turn. ``direct: auto`` goes past the page cache where
the file system can (a DAX file system has none); ``sync: none`` waits for the write call
alone. Queue depths above 1 go through libaio, past the page cache or not at all: through the
page cache Linux does them one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, cast

from harness.errors import UsageError, nearest
from harness.micro.overrides import chosen, parse_only
from harness.units import MIB, NS_PER_S, parse_duration_ns, parse_size
from harness.workloads.parameters import Choice, Count, unknown
from harness.yamlfile import Document, Where

Operation = Literal["read", "write"]
Pattern = Literal["sequential", "random"]
Sync = Literal["none", "fsync", "fdatasync", "dsync"]
Direct = Literal["auto", "yes", "no"]

_DEFAULTS: Mapping[str, Any] = {
    "size": "1GiB",
    "duration": "2s",
    "measurements": {},
    "only": None,
}
_KEYS: Mapping[str, Any] = {
    "operation": None,
    "pattern": None,
    "access": None,
    "queue_depth": 1,
    "threads": 1,
    "sync": "none",
    "direct": "auto",
}
_NAMED_WHERE_SWEPT = ("operation", "pattern")
_SYNCS: tuple[Sync, ...] = ("none", "fsync", "fdatasync", "dsync")
_DEEPEST, _MOST_THREADS = 1024, 1024
#: fio bounds a job by whole milliseconds.
_SHORTEST_NS = 1_000_000
#: Direct I/O moves whole blocks of the device: no device has smaller ones.
SECTOR_BYTES = 512
#: … nor larger ones: calls of such go past the page cache wherever that can be had.
BLOCK_BYTES = 4096
#: What the file is written in: fio leaves out a last part that is less, and reads of what was
#: never written fetch nothing.
WRITTEN_BYTES = MIB


@dataclass(frozen=True)
class IoJob:
    """One configuration: sizes in bytes. ``measurement``: its name in the suite.

    ``swept``: which of operation and pattern the measurement varies, and its name has to say.
    """

    measurement: str
    operation: Operation
    pattern: Pattern
    access_bytes: int
    queue_depth: int
    threads: int
    sync: Sync
    direct: Direct
    swept: tuple[str, ...] = ()

    @property
    def axes(self) -> dict[str, str]:
        """What distinguishes it from others, as labels of its metrics."""
        return {
            "operation": self.operation,
            "pattern": self.pattern,
            "access_size_bytes": str(self.access_bytes),
            "queue_depth": str(self.queue_depth),
            "threads": str(self.threads),
            "sync": self.sync,
        }

    @property
    def configuration(self) -> str:
        """``random_read/access=4096,queue_depth=8,…``: unique in a suite.

        ``bandwidth/operation=read,pattern=random,access=4096,…`` where these are swept.
        """
        named = {
            "access" if name == "access_size_bytes" else name: value
            for name, value in {**self.axes, "direct": self.direct}.items()
            if name not in _NAMED_WHERE_SWEPT or name in self.swept
        }
        return f"{self.measurement}/{','.join(f'{k}={v}' for k, v in named.items())}"


@dataclass(frozen=True)
class IoPlan:
    """What is measured in one file of ``size_bytes``; ``duration_ns`` of each configuration."""

    size_bytes: int
    duration_ns: int
    jobs: tuple[IoJob, ...]


def plan_of(params: Mapping[str, Any]) -> IoPlan:
    """The plan that a suite's parameters mean; UsageError names what is wrong in them."""
    for name in params:
        if name not in _DEFAULTS:
            raise unknown("fio", str(name), list(_DEFAULTS), {"runtime": "duration"})
    given = {**_DEFAULTS, **params}
    size = size_of("size", given["size"])
    if size % WRITTEN_BYTES:
        raise UsageError(
            f"size {given['size']}",
            "must be a multiple of 1 MiB: the file is written in these units",
            f"write {max(1, size // MIB)}MiB, say",
        )
    duration = parse_duration_ns(str(given["duration"]))
    if duration < _SHORTEST_NS or duration > 3600 * NS_PER_S:
        raise UsageError(f"duration {given['duration']}", "out of range", "choose 1ms to 1h")
    every = [job for name, body in _bodies(given).items() for job in _jobs(str(name), body)]
    if not every:
        raise UsageError("a suite of fio", "no measurements in its params", "name one")
    only = parse_only(given["only"]) if given["only"] else ()
    jobs = tuple(chosen(every, only, lambda job: (job.measurement, job.configuration)))
    for job in jobs:
        if size // job.threads < job.access_bytes:
            raise UsageError(
                f"{job.configuration} in a file of {given['size']}",
                f"{job.threads} threads with {job.access_bytes} bytes each do not fit",
                "give a larger size",
            )
    return IoPlan(size, duration, jobs)


def check_written(document: Document, part: Mapping[str, Any], where: Where) -> None:
    """UsageError with its line for a measurement of ``part`` of a suite's file that is none.

    ``part``: a mapping with ``program`` and ``params``, at ``where``; nothing is said of other
    programs'.
    """
    if part.get("program") != "fio":
        return
    at: Where = (*where, "params", "measurements")
    try:
        for name, body in _bodies(part.get("params", {})).items():
            at = (*where, "params", "measurements", name)
            list(_jobs(str(name), body))
    except UsageError as error:
        raise UsageError(
            f"{document.at(at)}, {error.problem}", error.context, error.hint
        ) from error


def _bodies(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The measurements by name, as they are written; UsageError where they are no mapping."""
    found = params.get("measurements", {})
    if isinstance(found, Mapping):
        return found
    raise UsageError(
        "measurements of a suite of fio",
        f"{found!r} is no mapping of names",
        "write wal: {operation: write, pattern: sequential, access: 4KiB}, say",
    )


def size_of(key: str, value: Any) -> int:
    """Bytes, at least one; UsageError naming ``key``."""
    try:
        size = parse_size(value)
    except UsageError as error:
        raise UsageError(f"{key} {value!r}", error.context, error.hint) from error
    if size > 0:
        return size
    raise UsageError(f"{key} {value!r}", "it is nothing", "write 4KiB, say")


def _jobs(name: str, body: Any) -> Iterator[IoJob]:
    """The configurations of one measurement; UsageError names it and what is wrong in it."""
    asked = f"measurement {name}"
    if not isinstance(body, Mapping):
        raise UsageError(asked, f"{body!r} is no mapping", "write {operation: read, …}")
    for key in body:
        if key not in _KEYS:
            raise UsageError(
                f"{asked}: {key!r}",
                f"no such key{nearest(str(key), list(_KEYS))}",
                f"the keys are {', '.join(_KEYS)}",
            )
    values = {**_KEYS, **body}
    if missing := [key for key, value in values.items() if value is None]:
        raise UsageError(asked, f"no {' and no '.join(missing)}", "write it")
    if empty := [key for key, value in values.items() if value == []]:
        raise UsageError(f"{asked}: {empty[0]}", "a list of nothing", "write a value into it")
    each = {key: value if isinstance(value, list) else [value] for key, value in values.items()}
    swept = tuple(key for key in _NAMED_WHERE_SWEPT if len(each[key]) > 1)
    for point in product(*each.values()):
        try:
            job = _job(name, dict(zip(values, point, strict=True)), swept)
        except UsageError as error:
            raise UsageError(f"{asked}: {error.problem}", error.context, error.hint) from error
        _refuse_senseless(job)
        yield job


def _job(name: str, values: Mapping[str, Any], swept: tuple[str, ...]) -> IoJob:
    direct = values["direct"]
    if isinstance(direct, bool):
        direct = "yes" if direct else "no"
    return IoJob(
        measurement=name,
        operation=cast(
            Operation, Choice(("read", "write")).parse("operation", values["operation"])
        ),
        pattern=cast(Pattern, Choice(("sequential", "random")).parse("pattern", values["pattern"])),
        access_bytes=Count(1 << 30).parse("access", size_of("access", values["access"])),
        queue_depth=Count(_DEEPEST).parse("queue_depth", values["queue_depth"]),
        threads=Count(_MOST_THREADS).parse("threads", values["threads"]),
        sync=cast(Sync, Choice(_SYNCS).parse("sync", values["sync"])),
        direct=cast(Direct, Choice(("auto", "yes", "no")).parse("direct", direct)),
        swept=swept,
    )


def _refuse_senseless(job: IoJob) -> None:
    """UsageError for a request that cannot be measured, or not as stated."""
    if job.operation == "read" and job.sync != "none":
        raise UsageError(job.configuration, "a read is not synced", "leave sync out")
    if job.queue_depth > 1 and (job.sync != "none" or job.direct == "no"):
        raise UsageError(
            job.configuration,
            f"a queue depth of {job.queue_depth} where each call waits for the one before it",
            "leave queue_depth out, or leave out sync and direct",
        )
    if job.queue_depth > 1 and job.direct == "auto" and job.access_bytes % BLOCK_BYTES:
        raise UsageError(
            job.configuration,
            f"a queue depth of {job.queue_depth}: through the page cache, as parts of blocks go, "
            "calls go one after the other",
            f"a multiple of {BLOCK_BYTES} bytes, or leave queue_depth out",
        )
    if job.direct == "yes" and job.access_bytes % SECTOR_BYTES:
        raise UsageError(
            job.configuration,
            f"access: {job.access_bytes} bytes past the page cache (direct: yes), where only "
            "whole blocks go",
            f"a multiple of {SECTOR_BYTES} bytes, or leave direct out",
        )
