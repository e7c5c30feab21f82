"""What block and file I/O is measured: the parameters of the program ``fio`` in a suite.

::

    program: fio
    params:
      size: 1GiB                 the file on the tier
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

from harness import parameters
from harness.errors import UsageError, nearest
from harness.micro.limits import chosen, parse_only
from harness.units import MIB, NS_PER_S, parse_duration_ns, parse_size

Operation = Literal["read", "write"]
Pattern = Literal["sequential", "random"]
Sync = Literal["none", "fsync", "fdatasync", "dsync"]
Direct = Literal["auto", "yes", "no"]

_DEFAULTS: Mapping[str, Any] = {
    "size": "1GiB", "duration": "2s", "measurements": {}, "only": None,
}  # fmt: skip
_KEYS: Mapping[str, Any] = {
    "operation": None, "pattern": None, "access": None,
    "queue_depth": 1, "threads": 1, "sync": "none", "direct": "auto",
}  # fmt: skip
_SYNCS: tuple[Sync, ...] = ("none", "fsync", "fdatasync", "dsync")
_DEEPEST, _MOST_THREADS = 1024, 1024
#: fio bounds a job by whole milliseconds.
_SHORTEST_NS = 1_000_000


@dataclass(frozen=True)
class IoJob:
    """One configuration: sizes in bytes. ``measurement``: its name in the suite."""

    measurement: str
    operation: Operation
    pattern: Pattern
    access_bytes: int
    queue_depth: int
    threads: int
    sync: Sync
    direct: Direct

    @property
    def axes(self) -> dict[str, str]:
        """All that tells it from others, as labels of its metrics."""
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
        """``random_read/access=4096,queue_depth=8,…``: unique in a suite."""
        told = {**self.axes, "direct": self.direct}
        del told["operation"], told["pattern"]
        told = {"access": told.pop("access_size_bytes"), **told}
        return f"{self.measurement}/{','.join(f'{k}={v}' for k, v in told.items())}"


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
            raise parameters.unknown("fio", str(name), list(_DEFAULTS), {"runtime": "duration"})
    given = {**_DEFAULTS, **params}
    size = parse_size(given["size"])
    duration = parse_duration_ns(str(given["duration"]))
    if duration < _SHORTEST_NS or duration > 3600 * NS_PER_S:
        raise UsageError(f"duration {given['duration']}", "out of range", "choose 1ms to 1h")
    every = [job for name in given["measurements"] for job in _jobs(given, str(name))]
    if not every:
        raise UsageError("a suite of fio", "no measurements in its params", "name one")
    only = parse_only(given["only"]) if given["only"] else ()
    jobs = tuple(chosen(every, only, lambda job: (job.measurement, job.configuration)))
    for job in jobs:
        if size < MIB or size // job.threads < job.access_bytes:
            raise UsageError(
                f"{job.configuration} in a file of {given['size']}",
                f"{job.threads} threads with {job.access_bytes} bytes each do not fit, or it is "
                "smaller than 1MiB",
                "give a larger size",
            )
    return IoPlan(size, duration, jobs)


def _jobs(given: Mapping[str, Any], name: str) -> Iterator[IoJob]:
    body = given["measurements"][name]
    asked = f"measurement {name}"
    if not isinstance(body, Mapping):
        raise UsageError(asked, f"{body!r} is no mapping", "write {operation: read, …}")
    for key in body:
        if key not in _KEYS:
            raise UsageError(
                f"{asked}: {key!r}", f"no such key{nearest(str(key), list(_KEYS))}",
                f"the keys are {', '.join(_KEYS)}",
            )  # fmt: skip
    values = {**_KEYS, **body}
    if missing := [key for key, value in values.items() if value is None]:
        raise UsageError(asked, f"no {' and no '.join(missing)}", "write it")
    swept = [value if isinstance(value, list) else [value] for value in values.values()]
    for point in product(*swept):
        yield _job(name, dict(zip(values, point, strict=True)))


def _job(name: str, values: Mapping[str, Any]) -> IoJob:
    direct = values["direct"]
    if isinstance(direct, bool):
        direct = "yes" if direct else "no"
    job = IoJob(
        measurement=name,
        operation=cast(
            Operation, parameters.one_of("operation", values["operation"], ("read", "write"))
        ),
        pattern=cast(
            Pattern, parameters.one_of("pattern", values["pattern"], ("sequential", "random"))
        ),
        access_bytes=parameters.count("access", parse_size(values["access"]), 1 << 30),
        queue_depth=parameters.count("queue_depth", values["queue_depth"], _DEEPEST),
        threads=parameters.count("threads", values["threads"], _MOST_THREADS),
        sync=cast(Sync, parameters.one_of("sync", values["sync"], _SYNCS)),
        direct=cast(Direct, parameters.one_of("direct", direct, ("auto", "yes", "no"))),
    )
    if job.operation == "read" and job.sync != "none":
        raise UsageError(job.configuration, "a read is not synced", "leave sync out")
    if job.queue_depth > 1 and (job.sync != "none" or job.direct == "no"):
        raise UsageError(
            job.configuration,
            f"a queue depth of {job.queue_depth} where each call waits for the one before it",
            "leave queue_depth out, or leave out sync and direct",
        )
    return job
