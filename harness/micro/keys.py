"""The keys of a suite's jobs, in one table.

From :data:`KEYS` come the suites' reader, the program's spec, the parameters of ``--param``, the
labels of metrics, and the table in docs/micro.md. A reader checks type and unit; limits, and what
must hold between keys, are the program's to check (``microbench --check``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from harness.errors import UsageError, nearest
from harness.experiment.expression import evaluate, is_expression
from harness.micro.chains import LINE_BYTES, parse_chain
from harness.micro.model import KINDS, Kind
from harness.units import parse_duration_ns, parse_size

Variables = Mapping[str, float]

#: Pace of a load job: it does not run, or it runs without a limit.
IDLE = "idle"
UNLIMITED = "unlimited"
#: The program counts bytes in 63 bits.
_LARGEST = 1 << 63
_ACCESSES = ("load", "ntload", "store", "ntstore", "empty")
_STORES = ("store", "ntstore")
_FLUSHES = ("clwb", "clflushopt", "clflush")
_FENCES = ("sfence", "mfence")


class Reader(Protocol):
    """The type of a key's values; ``values`` names them for docs."""

    @property
    def values(self) -> str: ...

    def __call__(self, value: Any, variables: Variables, source: str) -> Any:
        """Convert a YAML value; UsageError naming ``source`` if it is not accepted."""


@dataclass(frozen=True)
class Size:
    """Bytes. ``lines``: whole cache lines, to which an expression is rounded up."""

    lines: bool = True
    values = "size"

    def __call__(self, value: Any, variables: Variables, source: str) -> int:
        if self.lines and is_expression(value):
            size = evaluate(value, variables, source)
            if not 0 < size < _LARGEST:
                raise UsageError(source, f"{value!r} is {size:g} bytes", "write a size above 0")
            return math.ceil(size / LINE_BYTES) * LINE_BYTES
        try:
            size = parse_size(value)
        except UsageError as error:
            raise UsageError(source, f"{value!r} is {error.context}", error.hint) from error
        if size < 1:
            raise UsageError(source, f"{value!r} must be > 0", "write a size such as 256 or 1GiB")
        if self.lines and size % LINE_BYTES:
            raise UsageError(
                source, f"{value!r} must be a multiple of {LINE_BYTES} bytes", "write 64 or 4KiB"
            )
        return size


@dataclass(frozen=True)
class Duration:
    """Nanoseconds from a text with a unit."""

    positive: bool = True
    values = "duration"

    def __call__(self, value: Any, variables: Variables, source: str) -> int:
        try:
            duration_ns = parse_duration_ns(str(value))
        except UsageError as error:
            raise UsageError(source, f"{value!r} is {error.context}", error.hint) from error
        if self.positive and duration_ns == 0:
            raise UsageError(source, f"{value!r} must be a positive duration", "write 1s")
        return duration_ns


@dataclass(frozen=True)
class Count:
    """A whole number from ``least``."""

    least: int = 1

    @property
    def values(self) -> str:
        return f"whole number >= {self.least}"

    def __call__(self, value: Any, variables: Variables, source: str) -> int:
        number = evaluate(value, variables, source) if is_expression(value) else value
        if isinstance(number, bool) or not isinstance(number, int | float) or number != int(number):
            raise UsageError(source, f"{value!r} is not a whole number", "write 4, or = cpus")
        if number < self.least:
            is_ = f" is {number}:" if is_expression(value) else ""
            hint = "write 4, or = max(1, cpus - 1)"
            raise UsageError(source, f"{value!r}{is_} must be >= {self.least}", hint)
        return int(number)


@dataclass(frozen=True)
class Number:
    """A number; ``share``: from 0 to 1."""

    share: bool = False

    @property
    def values(self) -> str:
        return "0 to 1" if self.share else "number"

    def __call__(self, value: Any, variables: Variables, source: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(source, f"{value!r} is not a number", "write 0.5")
        if self.share and not 0 <= value <= 1:
            raise UsageError(source, f"{value!r} must be a share", "write a number from 0 to 1")
        return float(value)


@dataclass(frozen=True)
class Flag:
    """True or false."""

    values = "true, false"

    def __call__(self, value: Any, variables: Variables, source: str) -> bool:
        if not isinstance(value, bool):
            raise UsageError(source, f"{value!r} is not true or false", "write true or false")
        return value


class Word:
    """One of several words."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.values = ", ".join(words)

    def __call__(self, value: Any, variables: Variables, source: str) -> str:
        if value not in self.words:
            found = f"{value!r}{nearest(str(value), self.words)}"
            raise UsageError(source, found, f"write one of {self.values}")
        return str(value)


@dataclass(frozen=True)
class Kernel:
    """``store+clwb+sfence`` as ``{operation, flush, fence}``; with ``store`` if mixed."""

    values = "access[+flush][+fence]"

    def __call__(self, value: Any, variables: Variables, source: str) -> dict[str, str]:
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


@dataclass(frozen=True)
class Chain:
    """Operations in PerMA-Bench's words."""

    values = "PerMA-Bench's operations"

    def __call__(self, value: Any, variables: Variables, source: str) -> Any:
        return parse_chain(str(value), source)


@dataclass(frozen=True)
class Pace:
    """``idle``, ``unlimited``, bytes per second of all threads, or each thread's pause."""

    values = "2GB/s, {pause: 100ns}, unlimited, idle"

    def __call__(self, value: Any, variables: Variables, source: str) -> Any:
        if value in (IDLE, UNLIMITED):
            return value
        if isinstance(value, dict) and list(value) == ["pause"]:
            return {"pause_ns": Duration()(value["pause"], variables, source)}
        text = str(value)
        if isinstance(value, dict) or not text.endswith("/s"):
            raise UsageError(source, f"{value!r} is not a pace", f"write one of {self.values}")
        rate = Size(lines=False)(text.removesuffix("/s"), variables, source)
        return {"bytes_per_second": rate}


_ACCESSING: tuple[Kind, ...] = ("throughput", "latency")
_PATTERNED: tuple[Kind, ...] = (*_ACCESSING, "chain")
_DURABLE: tuple[Kind, ...] = ("log", "page")


@dataclass(frozen=True)
class Key:
    """A key of a job.

    ``kinds``: the jobs that have it; ``required``: those that do not run without it.
    ``field``: its name in the program's spec; ``attribute``: of model.Job, where it is one.
    ``label``: of the metrics; None if no label says it.
    """

    read: Reader
    help: str
    kinds: tuple[Kind, ...] = KINDS
    field: str = ""
    attribute: str = ""
    label: str | None = None
    required: tuple[Kind, ...] = ()


def _of(
    kinds: tuple[Kind, ...],
    field: str,
    read: Reader,
    help_: str,
    *,
    label: str | None = "",
    required: bool = False,
) -> Key:
    """A key of some kinds; its label is its field's name unless another one is given."""
    shown = field if label == "" else label
    return Key(read, help_, kinds, field, label=shown, required=kinds if required else ())


KEYS: Mapping[str, Key] = {
    "kind": Key(Word(*KINDS), "the kernel (default throughput)", attribute="kind", label="kind"),
    "threads": Key(Count(), "default 1", attribute="threads", label="threads"),
    "range": Key(
        Size(),
        "memory that is accessed",
        attribute="range_bytes",
        label="range_bytes",
        required=KINDS,
    ),
    "place": Key(Word("tier", "dram"), "where the range is", attribute="place", label="place"),
    "numa": Key(Word("near", "far"), "processors to run on", attribute="numa", label="numa"),
    "pages": Key(Word("huge", "base", "1g"), "pages of DRAM", attribute="pages", label="pages"),
    "partitions": Key(
        Count(0),
        "equal parts of the range; 0: one per thread",
        attribute="partitions",
        label="partitions",
    ),
    "count": Key(Count(), "operations of all threads, instead of duration", attribute="operations"),
    "pace": Key(Pace(), "limit on a load job", attribute="pace"),
    "kernel": Key(
        Kernel(),
        "instructions of an operation",
        _ACCESSING,
        "operation",
        label="operation",
        required=_ACCESSING,
    ),
    "access": _of(
        _ACCESSING,
        "access_bytes",
        Size(),
        "bytes of an operation",
        label="access_size_bytes",
        required=True,
    ),
    "pattern": Key(
        Word("sequential", "sequential_desc", "random", "zipf", "strided", "hotspot"),
        "order of addresses (required but for chains)",
        _PATTERNED,
        "pattern",
        label="pattern",
        required=_ACCESSING,
    ),
    "stride": _of((*_PATTERNED, "chase"), "stride_bytes", Size(), "of pattern or order strided"),
    "hotspot": _of(_PATTERNED, "hotspot_bytes", Size(), "of pattern hotspot"),
    "chunk": _of(
        _PATTERNED, "chunk_bytes", Size(), "threads take turns with this many bytes", label=None
    ),
    "zipf_exponent": _of(_PATTERNED, "zipf_exponent", Number(), "of pattern zipf"),
    "read_share": _of(("throughput",), "read_share", Number(share=True), "of a mixed kernel"),
    "flush_when": _of(
        _ACCESSING, "flush_when", Word("line", "write"), "flush after each line or each write"
    ),
    "fence_every": _of(_ACCESSING, "fence_every_bytes", Size(), "bytes between two fences"),
    "isa": _of(
        _PATTERNED,
        "isa",
        Word("auto", "avx512", "avx2", "sse2", "neon"),
        "instruction set",
        label=None,
    ),
    "before": _of(
        ("latency",), "before", Word("none", "loaded", "flushed", "written"), "state of the lines"
    ),
    "written_by": _of(
        ("latency",), "written_by", Word("ntstore", *_FLUSHES, "store"), "of before: written"
    ),
    "distance": _of(("latency",), "distance", Count(0), "operations, of before: written"),
    "lane": _of(("latency",), "lane", Word("vector", "words"), "bytes of an instruction"),
    "order": _of(
        ("chase",), "order", Word("random", "sequential", "strided"), "of nodes", label="pattern"
    ),
    "node": _of(("chase",), "node_bytes", Size(), "bytes from one node to the next"),
    "locality": _of(("chase",), "locality_bytes", Size(), "bytes walked before the next block"),
    "chains": _of(("chase",), "chains", Count(), "walks of a thread at the same time"),
    "chain": Key(
        Chain(), "operations", ("chain",), attribute="chain", label="chain", required=("chain",)
    ),
    "mode": _of(
        ("chain",),
        "mode",
        Word("dependent", "independent"),
        "latency or throughput",
        required=True,
    ),
    "dram_range": Key(
        Size(),
        "DRAM in addition to the tier",
        ("throughput", "chain"),
        attribute="dram_range_bytes",
        label="dram_range_bytes",
    ),
    "dram_share": Key(
        Number(share=True),
        "share of operations in it",
        ("throughput",),
        attribute="dram_share",
        label="dram_share",
    ),
    "writer": _of(
        ("log",),
        "writer",
        Word("classic", "header", "dancing", "zero"),
        "of entries",
        required=True,
    ),
    "padded": _of(("log",), "padded", Flag(), "entries begin on a line"),
    "entry": _of(("log",), "entry_bytes", Size(lines=False), "bytes of an entry", required=True),
    "method": _of(
        ("page",),
        "method",
        Word("cow", "cow_dirty", "cow_invalidate", "mulog", "hybrid"),
        "of a page flush",
        required=True,
    ),
    "page": _of(("page",), "page_bytes", Size(), "bytes of a page", required=True),
    "dirty_lines": _of(("page",), "dirty_lines", Count(), "of a page", required=True),
    "flush": _of(_DURABLE, "flush", Word("none", *_FLUSHES, "ntstore"), "how lines are persisted"),
    "sample_every": _of(
        _DURABLE, "sample_every", Count(0), "every n-th operation is timed alone", label=None
    ),
}
#: Of a measurement: its jobs begin and end together.
TIMES: Mapping[str, Reader] = {"duration": Duration(), "warm_up": Duration(positive=False)}
#: Labels of a job's fields, by the field's name in the program's spec.
LABELS: Mapping[str, str] = {
    "operation": "operation",
    "store": "store",
    "fence": "fence",
    **{key.field: key.label for key in KEYS.values() if key.field and key.label},
}
#: Keys that a job's labels say, be it by their absence (``numa: near``).
LABELLED_KEYS = frozenset({name for name, key in KEYS.items() if key.label} | {"isa"})


def keys_of(kind: Kind) -> Iterator[tuple[str, Key]]:
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
