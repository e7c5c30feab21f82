"""Block and file I/O to measure: the parameters of the program ``fio`` in a suite.

::

    program: fio
    params:
      size: 1GiB                 the file on the tier, whole MiB
      duration: 2s               of each configuration and repeat
      only: "wal*"               of the measurements below; for -p only=…
      measurements:
        random_read: {operation: read, pattern: random, access: 4KiB, queue_depth: [1, 2, 4]}
        wal: {operation: write, pattern: sequential, access: 4KiB, sync: fdatasync}

A list stands for each of its values in turn. ``appends: true``: each thread makes a file of
its own longer, as a log does that reuses none, until the time is over or all files together have
``size``. ``direct: auto`` goes past the page cache where the file system can (a DAX file system has
none); ``sync: none`` waits for the write call alone. Queue depths above 1 go through libaio, past
the page cache or not at all: through the page cache Linux does them one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal, Self

from msgspec import Meta

from harness.errors import UsageError
from harness.micro.keys import Direct, Patterns, Size, chosen
from harness.store.result import Label, label_text
from harness.store.spec import Json, JsonObject
from harness.structs import Where
from harness.units import MIB, format_bytes
from harness.workloads.kinds import Duration, Time
from harness.workloads.parameters import Parameters, parameter
from harness.yamlfile import YamlDocument

Operation = Literal["read", "write"]
Pattern = Literal["sequential", "random"]
Sync = Literal["none", "fsync", "fdatasync", "dsync"]
DirectWord = Literal["auto", "yes", "no"]

_NAMED_WHERE_SWEPT = ("operation", "pattern")
#: Direct I/O moves whole blocks of the device: no device has smaller ones.
SECTOR_BYTES = 512
#: … nor larger ones: calls of such go past the page cache wherever that can be had.
BLOCK_BYTES = 4096
#: What the file is written in: fio leaves out a last part that is less, and reads of what was
#: never written fetch nothing.
WRITTEN_BYTES = MIB


@dataclass(frozen=True)
class IoKeys(Parameters):
    """The keys of a measurement."""

    workload = "fio"

    operation: Operation = parameter(help="required")
    pattern: Pattern = parameter(help="required")
    access_bytes: Annotated[int, Size(1 << 30)] = parameter(
        name="access", help="bytes of a call (required)"
    )
    queue_depth: Annotated[int, Meta(ge=1, le=1024)] = parameter(
        1, help="calls under way, of each thread"
    )
    threads: Annotated[int, Meta(ge=1, le=1024)] = parameter(1, help="each with a part of the file")
    sync: Sync = parameter("none", help="after each write")
    direct: Annotated[DirectWord, Direct()] = parameter("auto", help="past the page cache")
    appends: bool = parameter(False, help="to a new file of each thread")

    def resolve(self) -> Self:
        """Refuse keys that are incomplete or contradict each other."""
        required = ("operation", "pattern", "access")
        if missing := [
            key for key in required if getattr(self, self.declared()[key].field) is None
        ]:
            raise UsageError(missing[0], f"no {' and no '.join(missing)}", "write it")
        for key, problem, hint in self._contradictions():
            value = getattr(self, self.declared()[key].field)
            raise UsageError(f"{key} {value}", problem, hint)
        return self

    def _contradictions(self) -> Iterator[tuple[str, str, str]]:
        """Yield each key that does not go with others, what is wrong with it, and a hint."""
        waits = "each call waits for the one before it"
        one_by_one = "through the page cache, as parts of blocks go, calls go one after the other"
        blocks_only = "past the page cache (direct: yes) only whole blocks go"
        synced, deep = self.sync != "none", self.queue_depth > 1
        if self.operation == "read" and synced:
            yield "sync", "a read is not synced", "leave sync out"
        if self.appends and (self.operation, self.pattern) != ("write", "sequential"):
            hint = "leave appends out, or write sequentially"
            yield "appends", "only sequential writes make a file longer", hint
        if deep and (synced or self.direct == "no"):
            yield "queue_depth", waits, "leave queue_depth out, or leave out sync and direct"
        if deep and self.direct == "auto" and self.access_bytes % BLOCK_BYTES:
            hint = f"a multiple of {BLOCK_BYTES} bytes, or leave queue_depth out"
            yield "queue_depth", one_by_one, hint
        if self.direct == "yes" and self.access_bytes % SECTOR_BYTES:
            yield "access", blocks_only, f"a multiple of {SECTOR_BYTES} bytes, or leave direct out"


@dataclass(frozen=True)
class IoJob(IoKeys):
    """One configuration. ``measurement``: its name in the suite.

    ``swept``: which of operation and pattern the measurement varies, and its name has to say.
    """

    measurement: str = ""
    swept: tuple[str, ...] = ()

    @property
    def axes(self) -> dict[str, Label]:
        """Return what distinguishes the job from others, as labels of its metrics."""
        return {
            "operation": self.operation,
            "pattern": self.pattern,
            "access_size_bytes": self.access_bytes,
            "queue_depth": self.queue_depth,
            "threads": self.threads,
            "sync": self.sync,
            **({"appends": True} if self.appends else {}),
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
        return f"{self.measurement}/{','.join(f'{k}={label_text(v)}' for k, v in named.items())}"


@dataclass(frozen=True)
class _Measurements:
    values = "NAME: {…}"

    def parse(self, name: str, value: Any) -> tuple[IoJob, ...]:
        return tuple(job for key, body in _bodies(value).items() for job in _jobs(str(key), body))


@dataclass(frozen=True)
class FioParams(Parameters):
    """Block and file I/O, by fio."""

    workload = "fio"
    aliases = {"runtime": "duration"}  # noqa: RUF012

    size_bytes: Annotated[int, Size(unit=WRITTEN_BYTES)] = parameter(
        "1GiB", name="size", help="the file, in whole MiB"
    )
    duration: Annotated[Duration, Time(1_000_000)] = parameter(
        "2s", help="of each configuration and repeat"
    )
    only: Annotated[tuple[str, ...], Patterns()] | None = parameter(help="configurations")
    measurements: Annotated[tuple[IoJob, ...], _Measurements()] = parameter(
        {}, help="keys of each, by name"
    )

    @property
    def jobs(self) -> list[IoJob]:
        """Return the configurations that ``only`` selects."""
        return chosen(
            self.measurements, self.only or (), lambda job: (job.measurement, job.configuration)
        )

    @property
    def room_bytes(self) -> int:
        """Return the bytes of the file, and of those that a configuration makes."""
        return self.size_bytes * (2 if any(job.appends for job in self.jobs) else 1)

    def resolve(self) -> Self:
        """Refuse what measures nothing, and threads for which the file is too small."""
        if not self.measurements:
            raise UsageError("a suite of fio", "no measurements in its params", "name one")
        for job in self.jobs:
            if self.size_bytes // job.threads < job.access_bytes:
                raise UsageError(
                    f"{job.configuration} in a file of {format_bytes(self.size_bytes)}",
                    f"{job.threads} threads with {job.access_bytes} bytes each do not fit",
                    "give a larger size",
                )
        return self


def check_written(document: YamlDocument, part: Mapping[str, Any], where: Where) -> None:
    """UsageError with its line for a measurement of ``part`` of a suite's file that is none.

    ``part``: a mapping with ``program`` and ``params``, at ``where``; nothing is said of other
    programs'.
    """
    if part.get("program") != "fio":
        return
    at: Where = (*where, "params", "measurements")
    try:
        for name, body in _bodies(part.get("params", {}).get("measurements", {})).items():
            at = (*where, "params", "measurements", name)
            list(_jobs(str(name), body))
    except UsageError as error:
        raise UsageError(
            f"{document.at(at)}, {error.problem}", error.context, error.hint
        ) from error


def _bodies(value: Json) -> JsonObject:
    if isinstance(value, Mapping):
        return value
    raise UsageError(
        "measurements of a suite of fio",
        f"{value!r} is no mapping of names",
        "write wal: {operation: write, pattern: sequential, access: 4KiB}, say",
    )


def _jobs(name: str, body: Json) -> Iterator[IoJob]:
    """Yield the configurations of one measurement; UsageError names it and the wrong key."""
    problem = f"measurement {name}"
    if not isinstance(body, Mapping):
        raise UsageError(problem, f"{body!r} is no mapping", "write {operation: read, …}")
    each = {key: value if isinstance(value, list) else [value] for key, value in body.items()}
    if empty := [key for key, values in each.items() if not values]:
        raise UsageError(f"{problem}: {empty[0]}", "a list of nothing", "write a value into it")
    swept = tuple(key for key in _NAMED_WHERE_SWEPT if len(each.get(key, ())) > 1)
    for point in product(*each.values()):
        try:
            keys = IoKeys.from_mapping(dict(zip(map(str, each), point, strict=True)))
        except UsageError as error:
            raise UsageError(f"{problem}: {error.problem}", error.context, error.hint) from error
        yield IoJob(**vars(keys), measurement=name, swept=swept)
