"""The keys of a suite's jobs: kinds of their values, and the table of all keys.

The table is harness/store/schemas/micro-keys.json. From it come the suites' reader, the program's
spec, the parameters of ``--param``, the labels of metrics, and the table in docs/micro.md. A kind
of values checks type and unit; limits, and what must hold between keys, are the program's to check
(``microbench --check``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness import jsonfile
from harness.errors import UsageError, nearest, unknown
from harness.experiment.expression import evaluate, is_expression
from harness.micro.chains import LINE_BYTES, Chain, Mix
from harness.native_programs import native_folders
from harness.store import schemas
from harness.units import format_bytes, parse_size
from harness.workloads.parameters import Choice, Count, Duration, Flag, Kind, Number, Time

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


class _Kernel:
    values = "access[+flush][+fence]"

    def parse(self, name: str, value: Any) -> dict[str, str]:
        """Read ``store+clwb+sfence`` as ``{operation, flush, fence}``; with ``store`` if mixed."""
        words = str(value).split("+")
        mixed = words[0] == "mixed"
        access, *rest = words[1:] if mixed else words
        if access not in (_STORES if mixed else _ACCESSES):
            raise self._unknown(access, _STORES if mixed else _ACCESSES)
        found = {"flush": "none", "fence": "none"}
        for word in rest:
            key = "flush" if word in _FLUSHES else "fence"
            if word not in (*_FLUSHES, *_FENCES) or found[key] != "none":
                raise self._unknown(word, (*_FLUSHES, *_FENCES))
            found[key] = word
        return ({"operation": "mixed", "store": access} if mixed else {"operation": access}) | found

    @staticmethod
    def _unknown(word: str, known: tuple[str, ...]) -> UsageError:
        return UsageError(
            "kernel",
            f"{word!r}{nearest(word, known)}",
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
            ("kernel", _Kernel()),
            ("chain", Chain()),
            ("mix", Mix()),
            ("pace", _Pace()),
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


def _table() -> Mapping[str, Any]:
    """Return all keys; an added kernel has its keys in a file next to its C file."""
    table: dict[str, Any] = dict(schemas.schema("micro-keys")["properties"])
    for file in (one for folder in native_folders() for one in folder.glob("kernels/*.json")):
        table["kind"] = {**table["kind"], "enum": [*table["kind"]["enum"], file.stem]}
        for name, row in jsonfile.read(file).items():
            known = table.get(name, {**row, "kinds": []})
            if "kinds" in known:  # others are of every kind
                table[name] = {**known, "kinds": [*known["kinds"], file.stem]}
    return table


_TABLE = _table()
KINDS: tuple[str, ...] = tuple(_TABLE["kind"]["enum"])


def _key(row: Mapping[str, Any]) -> Key:
    kinds = tuple(row.get("kinds", KINDS))
    required = row.get("required", False)
    words = Choice(tuple(row.get("enum", ())))
    values, kind = (words.values, words) if words.words else _KINDS[row["values"]]
    field, attribute = row.get("field", ""), row.get("attribute", "")
    return Key(
        kind,
        values,
        row["description"],
        kinds,
        kinds if required is True else tuple(required or ()),
        field,
        attribute,
        row.get("label", attribute or field),
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
        if key.field and key.label and not _TABLE[name].get("reported")
    },
}


def keys_of(kind: str) -> Iterator[tuple[str, Key]]:
    """Return the keys of a job of this kind, with their names."""
    return ((name, key) for name, key in KEYS.items() if kind in key.kinds)


def read_key(key: str, value: Any, variables: Variables, source: str) -> Any:
    """Read one key's value; UsageError names ``source`` where it is unknown or does not fit."""
    known = [*KEYS, *TIMES]
    if key not in known:
        raise unknown(source, f"unknown key {key!r}", key, known, "keys: {}")
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
