"""The keys of a suite's jobs, and the parameters of the command line that change them.

The table is in :mod:`harness.micro.key_table`. From it come the suites' reader, the program's
spec, the parameters of ``--param``, the labels of metrics, and the table in docs/micro.md. A kind
of values checks type and unit; limits, and what must hold between keys, are the program's to check
(``microbench --check``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta
from msgspec.structs import replace

from harness import jsonfile
from harness.errors import UsageError, nearest, unknown
from harness.host.processors import parse_cpus
from harness.micro.chains import LINE_BYTES, Chain, Mix
from harness.micro.key_table import KEY_TABLE, KernelKeys, KeyRow
from harness.micro.model import Job, Pages
from harness.micro.node_placement import Nodes
from harness.native_programs import native_folders
from harness.store.spec import MICRO
from harness.structs import convert
from harness.units import format_bytes, parse_size
from harness.workloads.kinds import Choice, Count, Duration, Flag, Kind, Number, Time
from harness.workloads.parameters import Parameters, parameter
from harness.yamlfile import evaluate, is_expression

Variables = Mapping[str, float]

#: Pace of a load job: it does not run, or it runs without a limit.
IDLE = "idle"
UNLIMITED = "unlimited"
#: The program counts in 63 bits.
_LARGEST = 1 << 62
_ACCESSES = ("load", "ntload", "store", "ntstore", "empty")
_STORES = ("store", "ntstore")
_FLUSHES = ("clwb", "clflushopt", "clflush")
_FENCES = ("sfence", "mfence")
_PACES = "2GB/s, {pause: 100ns}, unlimited, idle"


@dataclass(frozen=True)
class Size:
    """Bytes, from 1 to ``most``, in whole units of ``unit``."""

    most: int = _LARGEST
    unit: int = 1
    values = "size"

    def parse(self, name: str, value: Any) -> int:
        """Convert a number or a text with a unit."""
        problem = f"{name} {value!r}"
        try:
            size = parse_size(value)
        except UsageError as error:
            raise UsageError(problem, error.context, error.hint) from error
        if not 0 < size <= self.most:
            raise UsageError(
                problem, "out of range", f"choose a size up to {format_bytes(self.most)}"
            )
        if size % self.unit:
            unit = format_bytes(self.unit)
            raise UsageError(problem, f"must be a multiple of {unit}", f"write {unit}, say")
        return size


class _KernelWords:
    values = "access[+flush][+fence]"

    def parse(self, name: str, value: Any) -> dict[str, str]:
        """Read ``store+clwb+sfence`` as ``{operation, flush, fence}``; with ``store`` if mixed."""
        words = str(value).split("+")
        mixed = words[0] == "mixed"
        access, *rest = words[1:] if mixed else words
        if access not in (_STORES if mixed else _ACCESSES):
            raise self._unknown(access, _STORES if mixed else _ACCESSES)
        keys = {"flush": "none", "fence": "none"}
        for word in rest:
            key = "flush" if word in _FLUSHES else "fence"
            if word not in (*_FLUSHES, *_FENCES) or keys[key] != "none":
                raise self._unknown(word, (*_FLUSHES, *_FENCES))
            keys[key] = word
        return ({"operation": "mixed", "store": access} if mixed else {"operation": access}) | keys

    @staticmethod
    def _unknown(word: str, accepted: tuple[str, ...]) -> UsageError:
        return UsageError(
            "kernel",
            f"{word!r}{nearest(word, accepted)}",
            f"write one of {', '.join(_ACCESSES)}, mixed+store or mixed+ntstore; then, for a "
            f"flush, +{', +'.join(_FLUSHES)}; then +{' or +'.join(_FENCES)}",
        )


class _Pace:
    values = _PACES

    def parse(self, name: str, value: Any) -> str | dict[str, int]:
        """Read ``idle``, ``unlimited``, bytes per second of all threads, or a thread's pause."""
        if value in (IDLE, UNLIMITED):
            return str(value)
        if isinstance(value, dict) and list(value) == ["pause"]:
            return {"pause_ns": Time(1).parse(name, value["pause"]).ns}
        if not isinstance(value, str) or not value.endswith("/s"):
            raise UsageError(name, "not a pace", f"write one of {_PACES}")
        return {"bytes_per_second": Size().parse(name, value.removesuffix("/s"))}


@dataclass(frozen=True)
class Direct:
    """Past the page cache: always, never, or where that can be had."""

    values = "auto, true, false"

    def parse(self, name: str, value: Any) -> str:
        """Read a flag of YAML as ``yes`` or ``no``, too."""
        words = {True: "yes", False: "no"}
        text = words[value] if isinstance(value, bool) else value
        return Choice(("auto", "yes", "no")).parse(name, text)


class JobCpus:
    """Processors of a job: numbers and groups, with commas between them."""

    values = "0-7,16, node:0,node:1"

    def parse(self, name: str, value: Any) -> str:
        """Return the text without spaces; UsageError for a piece that names no processors."""
        text = str(value).replace(" ", "")
        for piece in text.split(","):
            parse_cpus(piece)
        return text


#: The table's types of values: their name in docs, and the kind.
_KINDS: Mapping[str, tuple[str, Kind]] = {
    "size": ("size", Size(unit=LINE_BYTES)),
    "bytes": ("size", Size()),
    "count": ("whole number >= 1", Count(_LARGEST)),
    "count from 0": ("whole number >= 0", Count(_LARGEST, 0)),
    "number": ("number", Number(-math.inf)),
    "share": ("0 to 1", Number(0, 1)),
    "flag": ("true, false", Flag()),
    **{
        name: (kind.values, kind)
        for name, kind in (
            ("kernel", _KernelWords()),
            ("chain", Chain()),
            ("cpus", JobCpus()),
            ("nodes", Nodes()),
            ("mix", Mix()),
            ("pace", _Pace()),
            ("direct", Direct()),
        )
    },
}


@dataclass(frozen=True)
class Key:
    """A key of a job, as the table has it.

    ``values``: which there are, for docs. ``kinds``: the jobs that have it; ``required``: those
    that do not run without it. ``field``: its name in the program's spec; ``attribute``: of
    model.Job, where it is one. ``label``: of the metrics; None if no label says it.
    """

    kind: Kind
    values: str
    help: str
    kinds: tuple[str, ...]
    required: tuple[str, ...]
    field: str
    attribute: str
    label: str | None


def _table() -> KernelKeys:
    """Return all keys; an added kernel has its keys in a file next to its C file."""
    table = dict(KEY_TABLE)
    for file in (
        path for folder in native_folders() for path in sorted(folder.glob("kernels/*.json"))
    ):
        kernels = table["kind"]
        table["kind"] = replace(kernels, enum=(*kernels.enum, file.stem))
        for name, row in convert(jsonfile.read(file), KernelKeys, str(file)).items():
            present = table.get(name) or replace(row, kinds=())
            if present.kinds is not None:  # others are of every kind
                present = replace(present, kinds=(*present.kinds, file.stem))
            if row.required and isinstance(present.required, tuple):
                present = replace(present, required=(*present.required, file.stem))
            table[name] = present
    return table


_TABLE = _table()
KINDS: tuple[str, ...] = _TABLE["kind"].enum


def _key(row: KeyRow) -> Key:
    kinds = KINDS if row.kinds is None else row.kinds
    words = Choice(row.enum)
    values, kind = (words.values, words) if row.enum else _KINDS[row.values]
    return Key(
        kind,
        values,
        row.description,
        kinds,
        row.required if isinstance(row.required, tuple) else kinds if row.required else (),
        row.field,
        row.attribute,
        (row.attribute or row.field) if row.label is UNSET else row.label,
    )


KEYS: Mapping[str, Key] = {name: _key(row) for name, row in _TABLE.items()}
#: Kinds that have loops of each instruction set's own.
VECTORED = KEYS["isa"].kinds
#: Of a measurement: its jobs begin and end together.
TIMES: Mapping[str, Kind] = {"duration": Time(1), "warm_up": Time()}
#: Labels of a job's fields, by the field's name in the program's spec. What the program
#: reports of them (``reported``) is not what was requested.
LABELS: Mapping[str, str] = {
    **{name: name for name in ("operation", "store", "fence")},
    **{
        key.field: key.label
        for name, key in KEYS.items()
        if key.field and key.label and not _TABLE[name].reported
    },
}
#: Labels of what the program reports of a job, by its name among the facts.
REPORTED: Mapping[str, str] = {
    key.field: key.label for name, key in KEYS.items() if key.label and _TABLE[name].reported
}


def keys_of(kind: str) -> Iterator[tuple[str, Key]]:
    """Return the keys of a job of this kind, with their names."""
    return ((name, key) for name, key in KEYS.items() if kind in key.kinds)


def read_key(key: str, value: Any, variables: Variables, source: str) -> Any:
    """Read one key's value; UsageError names ``source`` where it is unknown or does not fit."""
    accepted = [*KEYS, *TIMES]
    if key not in accepted:
        raise unknown(source, f"unknown key {key!r}", key, accepted, "keys: {}")
    kind = TIMES.get(key) or KEYS[key].kind
    try:
        if is_expression(value) and isinstance(kind, Count | Size):
            number = evaluate(value, variables, source)
            return kind.parse(key, _whole_lines(number) if isinstance(kind, Size) else number)
        read = kind.parse(key, value)
        return read.ns if isinstance(read, Duration) else read
    except UsageError as error:
        raise UsageError(source, f"{key}: {value!r}: {error.context}", error.hint) from error


def _whole_lines(number: float) -> int:
    """Round the bytes of an expression up to cache lines; 0 for none that there can be."""
    return math.ceil(number / LINE_BYTES) * LINE_BYTES if 0 < number < _LARGEST else 0


def built_job(name: str, values: Mapping[str, Any]) -> Job:
    """Return the job of its keys' values, which were read before."""
    of_job = {KEYS[k].attribute: v for k, v in values.items() if k in KEYS and KEYS[k].attribute}
    if of_job.get("pace") == UNLIMITED:
        del of_job["pace"]
    if of_job.get("nodes"):
        of_job["place"] = "nodes"
    keys = dict(values.get("kernel", {}))
    keys |= {
        KEYS[k].field: v
        for k, v in values.items()
        if k in KEYS and KEYS[k].field and not isinstance(v, dict)
    }
    return Job(name=name, **{"threads": 1, **of_job}, keys=keys)


_T = TypeVar("_T")


@dataclass(frozen=True)
class Patterns:
    """Shell patterns of configurations or measurements, with commas between them.

    In pieces: :func:`chosen` puts together those that have commas themselves.
    """

    values = "PATTERN,…"

    def parse(self, name: str, value: Any) -> tuple[str, ...]:
        """Split a text at its commas."""
        if not isinstance(value, str):
            raise UsageError(f"{name}: {value!r}", "not a text", f"write {name}: 'wal*,read', say")
        return tuple(value.split(","))


@dataclass(frozen=True)
class _Cpus:
    values = "0-7,16-23, socket:0, node:0"

    def parse(self, name: str, value: Any) -> str:
        return parse_cpus(str(value))


@dataclass(frozen=True)
class _LibraryFile:
    values = "FILE.so"

    def parse(self, name: str, value: Any) -> str:
        path = Path(str(value)).resolve()
        if path.is_file():
            return str(path)
        raise UsageError(f"{name} {value}", "there is no such file", "name a shared library")


#: Of a parameter that leaves the suite as it is.
_SUITES = "the suite's"


@dataclass(frozen=True)
class MicroParams(Parameters):
    """A suite of microbenchmarks on a tier."""

    workload = MICRO
    aliases = {"runtime": "duration", "size": "range"}  # noqa: RUF012

    threads: Annotated[int, Meta(ge=1, le=1_000_000)] | None = parameter(
        help="Most threads.", option=True, default_text=_SUITES
    )
    duration: Annotated[Duration, Time(1)] | None = parameter(
        help="Duration of each measurement.", option=True, default_text=_SUITES
    )
    warm_up: Duration | None = parameter(
        help="Time before each measurement.", option=True, default_text=_SUITES
    )
    operations: Annotated[int, Meta(ge=1, le=10**15)] | None = parameter(
        help="Most operations of a measurement.", option=True, default_text=_SUITES
    )
    cpus: Annotated[str, _Cpus()] | None = parameter(
        help="Processors to use.", option=True, default_text="all"
    )
    only: Annotated[tuple[str, ...], Patterns()] | None = parameter(
        help="Measurements or configurations.", default_text="all"
    )
    range_bytes: Annotated[int, Size()] | None = parameter(
        name="range", help="Largest range of a job.", default_text=_SUITES
    )
    pages: Pages | None = parameter(help="Pages of DRAM.", default_text=_SUITES)
    isa: Annotated[str, KEYS["isa"].kind] | None = parameter(
        help="Instruction set.", default_text=_SUITES
    )
    index_library: Annotated[str, _LibraryFile()] | None = parameter(
        help="Library that replaces each index.", option=True, default_text=_SUITES
    )
    key: Annotated[int, Size()] | None = parameter(
        help="Bytes of a key of the library's index.", default_text="8 B"
    )
    value: Annotated[int, Size()] | None = parameter(
        help="Bytes of a value of the library's index.", default_text="8 B"
    )


def chosen(
    every: Sequence[_T], only: Sequence[str], names: Callable[[_T], Sequence[str]]
) -> list[_T]:
    """Return the items of which a pattern matches one of the ``names``.

    All without a pattern. ``only``: patterns, or pieces of them where configurations have commas
    in their names; UsageError for a piece that begins no pattern which matches.
    """
    if not only:
        return list(every)
    all_names = [name for entry in every for name in names(entry)]
    patterns: list[str] = []
    at = 0
    while at < len(only):
        end = _end_of_pattern(only, at, all_names)
        if end == at:
            measurements = dict.fromkeys(names(entry)[0] for entry in every)
            raise UsageError(
                f"--param only={','.join(only)}",
                f"no configuration of the suite has the name {only[at]!r}"
                f"{nearest(only[at], list(measurements))}",
                f"its measurements: {', '.join(measurements)}; `harness micro show` lists all",
            )
        patterns.append(",".join(only[at:end]))
        at = end
    return [entry for entry in every if any(_matches(p, names(entry)) for p in patterns)]


def _end_of_pattern(pieces: Sequence[str], at: int, all_names: Sequence[str]) -> int:
    """Return the end of the longest run of pieces that matches as one; ``at`` for none.

    A piece that matches by itself is a pattern of its own and continues none: ``*write*,*random*``
    are two, though there are configurations of both.
    """
    end = at + 1
    while end < len(pieces) and not _matches(pieces[end], all_names):
        end += 1
    while end > at and not _matches(",".join(pieces[at:end]), all_names):
        end -= 1
    return end


def _matches(pattern: str, names: Sequence[str]) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for name in names)
