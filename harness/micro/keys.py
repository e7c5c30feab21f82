"""The keys of a suite's jobs: their readers, and the table of all keys.

The table is harness/store/schemas/micro-keys.json. From it come the suites' reader, the program's
spec, the parameters of ``--param``, the labels of metrics, and the table in docs/micro.md. A reader
checks type and unit; limits, and what must hold between keys, are the program's to check
(``microbench --check``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness import jsonfile
from harness.errors import UsageError, nearest
from harness.experiment.expression import evaluate, is_expression
from harness.micro.chains import LINE_BYTES, parse_chain
from harness.native_programs import native_folders
from harness.store import schemas
from harness.units import parse_duration_ns, parse_size

Variables = Mapping[str, float]
#: Converts a YAML value; UsageError naming the source (the last argument) if it is not accepted.
Reader = Callable[[Any, Variables, str], Any]

#: Pace of a load job: it does not run, or it runs without a limit.
IDLE = "idle"
UNLIMITED = "unlimited"
#: The program counts bytes in 63 bits.
_LARGEST = 1 << 63
_ACCESSES = ("load", "ntload", "store", "ntstore", "empty")
_STORES = ("store", "ntstore")
_FLUSHES = ("clwb", "clflushopt", "clflush")
_FENCES = ("sfence", "mfence")
_PACES = "2GB/s, unlimited, idle"


def read_size(value: Any, variables: Variables, source: str, lines: bool = True) -> int:
    """Bytes. ``lines``: whole cache lines, to which an expression is rounded up."""
    if lines and is_expression(value):
        size = evaluate(value, variables, source)
        if not 0 < size < _LARGEST:
            raise UsageError(source, f"{value!r} is {size:g} bytes", "write a size above 0")
        return math.ceil(size / LINE_BYTES) * LINE_BYTES
    size = _with_unit(parse_size, value, source)
    if size < 1:
        raise UsageError(source, f"{value!r} must be > 0", "write a size such as 256 or 1GiB")
    if lines and size % LINE_BYTES:
        raise UsageError(
            source, f"{value!r} must be a multiple of {LINE_BYTES} bytes", "write 64 or 4KiB"
        )
    return size


def read_duration(value: Any, variables: Variables, source: str, positive: bool = True) -> int:
    """Nanoseconds from a text with a unit."""
    duration_ns = _with_unit(parse_duration_ns, str(value), source)
    if positive and duration_ns == 0:
        raise UsageError(source, f"{str(value)!r} must be a positive duration", "write 1s")
    return duration_ns


def _with_unit(parse: Callable[[Any], int], value: Any, source: str) -> int:
    try:
        return parse(value)
    except UsageError as error:
        raise UsageError(source, f"{value!r} is {error.context}", error.hint) from error


def _count(value: Any, variables: Variables, source: str, least: int = 1) -> int:
    number = evaluate(value, variables, source) if is_expression(value) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or number != int(number):
        raise UsageError(source, f"{value!r} is not a whole number", "write 4, or = cpus")
    if number < least:
        is_ = f" is {number}:" if is_expression(value) else ""
        hint = "write 4, or = max(1, cpus - 1)"
        raise UsageError(source, f"{value!r}{is_} must be >= {least}", hint)
    return int(number)


def _number(value: Any, variables: Variables, source: str, share: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(source, f"{value!r} is not a number", "write 0.5")
    if share and not 0 <= value <= 1:
        raise UsageError(source, f"{value!r} must be a share", "write a number from 0 to 1")
    return float(value)


def _flag(value: Any, variables: Variables, source: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(source, f"{value!r} is not true or false", "write true or false")
    return value


def _word(value: Any, variables: Variables, source: str, words: tuple[str, ...]) -> str:
    if value not in words:
        found = f"{value!r}{nearest(str(value), words)}"
        raise UsageError(source, found, f"write one of {', '.join(words)}")
    return str(value)


def _kernel(value: Any, variables: Variables, source: str) -> dict[str, str]:
    """``store+clwb+sfence`` as ``{operation, flush, fence}``; with ``store`` if mixed."""
    words = str(value).split("+")
    mixed = words[0] == "mixed"
    access, *rest = words[1:] if mixed else words
    if access not in (_STORES if mixed else _ACCESSES):
        raise _no_kernel(value, access, _STORES if mixed else _ACCESSES, source)
    found = {"flush": "none", "fence": "none"}
    for word in rest:
        key = "flush" if word in _FLUSHES else "fence"
        if word not in (*_FLUSHES, *_FENCES) or found[key] != "none":
            raise _no_kernel(value, word, (*_FLUSHES, *_FENCES), source)
        found[key] = word
    return ({"operation": "mixed", "store": access} if mixed else {"operation": access}) | found


def _no_kernel(value: Any, word: str, known: tuple[str, ...], source: str) -> UsageError:
    return UsageError(
        source,
        f"{value!r}: {word!r}{nearest(word, known)}",
        f"write one of {', '.join(_ACCESSES)}, mixed+store or mixed+ntstore; then, for a flush, "
        f"+{', +'.join(_FLUSHES)}; then +{' or +'.join(_FENCES)}",
    )


def _pace(value: Any, variables: Variables, source: str) -> Any:
    """``idle``, ``unlimited``, or bytes per second of all threads."""
    if value in (IDLE, UNLIMITED):
        return value
    if not isinstance(value, str) or not value.endswith("/s"):
        raise UsageError(source, f"{value!r} is not a pace", f"write one of {_PACES}")
    return read_size(value.removesuffix("/s"), variables, source, lines=False)


#: Types of values: their name in docs, and the reader.
_READERS: Mapping[str, tuple[str, Reader]] = {
    "size": ("size", read_size),
    "bytes": ("size", partial(read_size, lines=False)),
    "count": ("whole number >= 1", _count),
    "count from 0": ("whole number >= 0", partial(_count, least=0)),
    "number": ("number", _number),
    "share": ("0 to 1", partial(_number, share=True)),
    "flag": ("true, false", _flag),
    "kernel": ("access[+flush][+fence]", _kernel),
    "chain": ("PerMA-Bench's operations", lambda value, _, source: parse_chain(str(value), source)),
    "pace": (_PACES, _pace),
}


@dataclass(frozen=True)
class Key:
    """A key of a job, as the table has it.

    ``values``: which there are, for docs. ``kinds``: the jobs that have it; ``required``: those
    that do not run without it. ``field``: its name in the program's spec; ``attribute``: of
    model.Job, where it is one. ``label``: of the metrics; None if no label says it.
    """

    read: Reader
    values: str
    help: str
    kinds: tuple[str, ...]
    required: tuple[str, ...]
    field: str
    attribute: str
    label: str | None


def _table() -> Mapping[str, Any]:
    """All keys; those of a kernel of its own from the file next to its C file, by its name."""
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
    words = tuple(row.get("enum", ()))
    one_of: tuple[str, Reader] = (", ".join(words), partial(_word, words=words))
    values, read = one_of if words else _READERS[row["values"]]
    field, attribute = row.get("field", ""), row.get("attribute", "")
    return Key(
        read,
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
TIMES: Mapping[str, Reader] = {
    "duration": read_duration,
    "warm_up": partial(read_duration, positive=False),
}
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
    """The keys of a job of this kind, with their names."""
    return ((name, key) for name, key in KEYS.items() if kind in key.kinds)


def read_key(key: str, value: Any, variables: Variables, source: str) -> Any:
    """One key's value; UsageError naming ``source`` where it is unknown or does not fit."""
    known = [*KEYS, *TIMES]
    if key not in known:
        raise UsageError(
            source, f"unknown key {key!r}{nearest(key, known)}", f"keys: {', '.join(known)}"
        )
    read = TIMES.get(key) or KEYS[key].read
    try:
        return read(value, variables, source)
    except UsageError as error:
        raise UsageError(error.problem, f"{key}: {error.context}", error.hint) from error
