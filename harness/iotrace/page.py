"""The shared page of the I/O trace: made and read by the harness, written by traced processes.

The layout is that of ``iotrace/page.h``. The servers' user can write anything into the page, so
its size is sealed, the header is compared with what was written, and every number that is used is
bounded. A page that fails a test raises :class:`PageError`. Numbers that are possible but wrong
cannot be recognised.

Planted delays:

::

    wal.sync=+200us       one delay
    wal.sync=+200us~50us  jittered uniformly
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import re
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from harness.errors import UsageError, unknown
from harness.hdr import Histogram, Layout
from harness.later import np
from harness.units import parse_duration_ns

if TYPE_CHECKING:
    from harness.hdr import Counts


ROLES = ("foreground", "background")
PARTS = ("data", "wal", "temp", "index", "relations")
OPERATIONS = ("read", "write", "sync")
#: The last one: files, pipes and sockets outside of all parts.
_ALL_PARTS = len(PARTS) + 1

_MAGIC, _VERSION = 0x31435254424F4954, 30
_SLOTS = 1024
HEADER_BYTES = 4096
#: Of the models of devices and their queues (harness.models.device).
MODELS_BYTES = 65536
#: Of what Linux would do for modelled devices on each processor (harness.iotrace.kernel_work).
_WORK_BYTES = 3 * 512 * 64
HEADS_AT = HEADER_BYTES + MODELS_BYTES + _WORK_BYTES
_MAPPED_AT, _DELAYS_AT = 48, 256
_DELAY = struct.Struct("<QQ")
#: Of one duration, in ns.
LAYOUT = Layout(64, (1 << 36) - 1, 2)
#: The largest size of each class in bytes; the last class has none.
SIZE_CLASSES = tuple(512 << shift for shift in range(15))
#: No counter of a thread reaches it; the sum over all slots and cells still fits into 64 bits.
_BOUND = 1 << 48
_WORD = (1 << 64) - 1

CELL_FIELDS = (
    "calls",
    "errors",
    "bytes",
    "timed",
    "ns",
    "delayed",
    "delay_ns",
    "sequential",
    "direct",
    "durable",
    "submitted",
    "submitted_bytes",
    "extending",
    "datasync",
    "queue_known",
    "queued",
    "dirtied_bytes",
    "modelled",
    "late_ns",
    "cached",
    "probed",
)
_CELLS = (len(ROLES), _ALL_PARTS, len(OPERATIONS), len(CELL_FIELDS))
#: As numpy has them.
_HEAD = [
    ("owner", "<u4"),
    ("pid", "<u4"),
    ("role", "<u4"),
    ("unused", "<u4"),
    ("name", "S16"),
    ("pad", "<u8", 4),
    ("cells", "<u8", _CELLS),
]
_HEAD_BYTES = 64 + 8 * math.prod(_CELLS)
_WITH_DETAILS = (len(ROLES), len(PARTS), len(OPERATIONS))
#: Durations of calls; of modelled calls, when each was due and when it ended.
_MODELLED = ("due", "achieved")
_HISTOGRAMS = ("durations", *_MODELLED)
_DETAIL = (
    [*((name, "<u8", LAYOUT.counters) for name in _HISTOGRAMS), ("sizes", "<u8", 16)],
    _WITH_DETAILS,
)
_DETAIL_BYTES = 8 * (len(_HISTOGRAMS) * LAYOUT.counters + 16) * math.prod(_WITH_DETAILS)
#: The queues of all modelled devices; after them, the numbers of chunks in use and lost.
_STATES_BYTES = 8 * 142 * len(PARTS)
#: The modelled page cache: an index of 4 bytes each, and chunks.
_INDEX_SLOTS, _CHUNKS, _CHUNK_BYTES = 1 << 19, 1 << 18, 320
_DETAILS_AT = HEADS_AT + _SLOTS * _HEAD_BYTES
#: Counters of single files: of each calls, bytes and ns by shard, role and operation.
_FILES, _FILE_CELLS = 4096, (8, len(ROLES), len(OPERATIONS), 3)
_FILE = [("cells", "<u8", _FILE_CELLS), ("unused", "<u8", 6)]
FILES_AT = _DETAILS_AT + _SLOTS * _DETAIL_BYTES
_INDEX_AT = FILES_AT + _FILES * 8 * (1 + math.prod(_FILE_CELLS) + 6)
PAGE_BYTES = _INDEX_AT + 4 * _INDEX_SLOTS + _CHUNKS * _CHUNK_BYTES
#: magic, version, header bytes, slots, head bytes, detail bytes | used | page bytes, lost calls
_HEADER = struct.Struct("<QIIIIIIQQ")


#: A cell, or the key of a file.
_Key = TypeVar("_Key")


class PageError(Exception):
    """The page does not contain what a traced process would write; ``str()`` says where."""


@dataclass(frozen=True)
class Delay:
    """A planted delay after each call; ``jitter_ns``: uniform in ±."""

    ns: int
    jitter_ns: int = 0


@dataclass(frozen=True, order=True)
class CounterCell:
    """Part, operation and role that a counter is for."""

    part: str
    operation: str
    role: str

    @property
    def labels(self) -> Mapping[str, str]:
        """As a metric's."""
        return {"part": self.part, "operation": self.operation, "role": self.role}

    @property
    def background(self) -> bool:
        """Return whether no session makes the calls."""
        return self.role == "background"


@dataclass(frozen=True)
class Reading:
    """Counters of all threads; a difference of two readings has the same form.

    ``cells``: role × part (the last one: outside of all parts) × operation × CELL_FIELDS;
    ``details``: ``durations`` and ``sizes``, and of modelled calls when they were ``due`` and
    when they ended (``achieved``); each by cell, without cells that have none.
    ``mapped_bytes``: by part, of all mappings that were made until then (not a difference).
    ``lost_calls``: of threads that found no slot. ``slots``: that have been in use. ``files``: of
    single files, by :func:`file_key`: role × operation × calls, bytes and ns.
    """

    monotonic_ns: int
    cells: Counts
    details: Mapping[str, Mapping[CounterCell, Counts]]
    mapped_bytes: Mapping[str, int]
    lost_calls: int
    slots: int
    files: Mapping[int, Counts]

    def __sub__(self, earlier: Reading) -> Reading:
        """Counts since then; PageError where a counter went back."""
        return Reading(
            self.monotonic_ns - earlier.monotonic_ns,
            _grown(self.cells, earlier.cells),
            {n: _grown_by_cell(self.details[n], earlier.details[n]) for n in self.details},
            self.mapped_bytes,
            max(0, self.lost_calls - earlier.lost_calls),
            self.slots,
            _grown_by_cell(self.files, earlier.files),
        )

    def __add__(self, other: Reading) -> Reading:
        """Two differences as one."""
        return Reading(
            self.monotonic_ns + other.monotonic_ns,
            self.cells + other.cells,
            {name: _sums(self.details[name], other.details[name]) for name in self.details},
            other.mapped_bytes,
            self.lost_calls + other.lost_calls,
            other.slots,
            _sums(self.files, other.files),
        )

    def value(self, cell: CounterCell, field: str) -> int:
        """One counter of a cell."""
        return int(self.cells[(*_index(cell), CELL_FIELDS.index(field))])

    def total(self, operation: str, field: str) -> int:
        """A counter of one operation, over all roles and parts, and outside of parts."""
        return int(self.cells[:, :, OPERATIONS.index(operation), CELL_FIELDS.index(field)].sum())

    @property
    def sizes(self) -> Mapping[CounterCell, Counts]:
        """Calls by size class (SIZE_CLASSES, and one more for larger ones)."""
        return self.details["sizes"]

    def histogram(self, cell: CounterCell, name: str = "durations") -> Histogram | None:
        """Durations in ns, with planted delays and those of a modelled device; None without any."""
        counts = self.details[name].get(cell)
        return None if counts is None or not counts.any() else Histogram(LAYOUT, counts)


def file_key(facts: os.stat_result) -> int:
    """Key of a file in ``Reading.files``: a hash of its device and inode, as in iotrace/files.c."""
    key = facts.st_ino * 0x9E3779B97F4A7C15 & _WORD
    key ^= (key >> 29) + facts.st_dev & _WORD
    return key * 0xBF58476D1CE4E5B9 & _WORD | 1


def cells() -> Iterator[CounterCell]:
    """All of the parts."""
    for part in PARTS:
        for operation in OPERATIONS:
            for role in ROLES:
                yield CounterCell(part, operation, role)


class Page:
    """One page; ``descriptor`` is inherited by the traced processes."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create(
            "tierbench-iotrace", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        )
        try:
            os.ftruncate(self.descriptor, PAGE_BYTES)
            os.pwrite(self.descriptor, _HEADER.pack(*_constants(0), PAGE_BYTES, 0), 0)
            seals = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, seals)
            self._map = mmap.mmap(self.descriptor, PAGE_BYTES, prot=mmap.PROT_READ)
        except BaseException:
            os.close(self.descriptor)
            raise
        self._delays: dict[CounterCell, Delay] = {}
        self._models = b""
        self._planting = threading.Lock()

    def close(self) -> None:
        """Forget the page; traced processes keep theirs."""
        with suppress(BufferError):  # a thread still reads: its last view unmaps the page
            self._map.close()
        os.close(self.descriptor)

    def plant(self, cells: Iterable[CounterCell], delay: Delay) -> None:
        """Delay each of these calls from now on."""
        with self._planting:
            for cell in cells:
                self._delays[cell] = delay
                os.pwrite(self.descriptor, _DELAY.pack(delay.ns, delay.jitter_ns), _delay_at(cell))

    def model(self, models: bytes) -> None:
        """Model devices in calls from now on; ``models``: the constant part of their table."""
        with self._planting:
            os.pwrite(self.descriptor, models, HEADER_BYTES)
            self._models = models

    def evict(self) -> None:
        """Empty the modelled page caches, while no traced process runs."""
        with self._planting:
            state_at = HEADER_BYTES + len(self._models)
            (used,) = struct.unpack_from("<Q", self._map, state_at + _STATES_BYTES)
            used = min(used, _CHUNKS)  # as traced processes wrote it
            os.pwrite(self.descriptor, bytes(_STATES_BYTES + 16), state_at)
            os.pwrite(self.descriptor, bytes(4 * _INDEX_SLOTS + used * _CHUNK_BYTES), _INDEX_AT)

    def check_delays(self) -> None:
        """PageError unless the page still has exactly the planted delays and the models."""
        with self._planting:
            if self._map[HEADER_BYTES : HEADER_BYTES + len(self._models)] != self._models:
                raise PageError("models of devices")
            for cell in cells():
                expected = self._delays.get(cell, Delay(0))
                if Delay(*_DELAY.unpack_from(self._map, _delay_at(cell))) != expected:
                    raise PageError(f"delay of {cell.part}.{cell.operation} ({cell.role})")

    def read(self, details: bool = True) -> Reading:
        """The counters now; without ``details`` no durations and sizes."""
        now = time.monotonic_ns()
        used, lost_calls = self._header()
        by_slot = _bounded(self._copied(_HEAD, used, HEADS_AT)["cells"], "counters")
        return Reading(
            now,
            by_slot.sum(axis=0),
            self._details(by_slot) if details else {},
            self._mapped(),
            lost_calls,
            used,
            self._files() if details else {},
        )

    def _header(self) -> tuple[int, int]:
        """The number of slots in use and of lost calls."""
        fields = _HEADER.unpack_from(self._map, 0)
        used, lost_calls = fields[6], fields[8]
        if fields[:8] != (*_constants(used), PAGE_BYTES) or used > _SLOTS or lost_calls >= _BOUND:
            raise PageError("header")
        return used, lost_calls

    def _mapped(self) -> dict[str, int]:
        """Bytes of mappings by part. The page has calls, bytes and writable bytes of each."""
        table = self._copied("<u8", 3 * _ALL_PARTS, _MAPPED_AT)
        values = _bounded(table, "mappings").reshape(_ALL_PARTS, 3)
        return {part: int(values[i, 1]) for i, part in enumerate(PARTS)}

    def _files(self) -> dict[int, Counts]:
        """Counters of each file, by the key of its name."""
        keys = self._copied("<u8", _FILES, FILES_AT)
        chosen = np.flatnonzero(keys)
        rows = self._copied(_FILE, _FILES, FILES_AT + 8 * _FILES, chosen)["cells"]
        counts = _bounded(rows, "files").sum(axis=1)
        return {int(key): counts[i] for i, key in enumerate(keys[chosen])}

    def _copied(self, kind: Any, count: int, at: int, *chosen: Any) -> Any:
        """These of ``count`` entries as they are now: the page may change during a computation."""
        return np.array(np.frombuffer(self._map, kind, count, at)[chosen])

    def _details(self, by_slot: Counts) -> dict[str, dict[CounterCell, Counts]]:
        """Histograms and sizes; only of slots that have any, since each is large."""
        result: dict[str, dict[CounterCell, Counts]] = {
            name: {} for name in (*_HISTOGRAMS, "sizes")
        }
        # An asynchronous call may begin in one thread and end in another.
        active = by_slot[..., CELL_FIELDS.index("calls")] + by_slot[..., CELL_FIELDS.index("timed")]
        modelled = by_slot[..., CELL_FIELDS.index("modelled")]
        for cell in cells():
            index = _index(cell)
            for counted, names in ((active, ("durations", "sizes")), (modelled, _MODELLED)):
                slots = np.flatnonzero(counted[(slice(None), *index)])
                if len(slots):
                    details = self._copied(_DETAIL, len(by_slot), _DETAILS_AT, slots, *index)
                    for name in names:
                        result[name][cell] = _bounded(details[name], name).sum(axis=0)
        return result


def _constants(used: int) -> tuple[int, ...]:
    sizes = (HEADER_BYTES, _SLOTS, _HEAD_BYTES, _DETAIL_BYTES)
    return (_MAGIC, _VERSION, *sizes, used)


def _index(cell: CounterCell) -> tuple[int, int, int]:
    return ROLES.index(cell.role), PARTS.index(cell.part), OPERATIONS.index(cell.operation)


def _delay_at(cell: CounterCell) -> int:
    role, part, operation = _index(cell)
    place = (role * len(PARTS) + part) * len(OPERATIONS) + operation
    return _DELAYS_AT + place * _DELAY.size


def _bounded(values: Any, what: str) -> Counts:
    """A copy, as signed numbers; PageError for a number that no process can have counted."""
    copy = np.array(values, dtype=np.uint64)
    if copy.size and int(copy.max()) >= _BOUND:
        raise PageError(f"{what}: a number of {int(copy.max())}")
    return copy.astype(np.int64)


def _grown(now: Counts, earlier: Counts) -> Counts:
    change = now - earlier
    if change.min() < 0:
        raise PageError("a counter went back")
    return change


def _grown_by_cell(
    now: Mapping[_Key, Counts], earlier: Mapping[_Key, Counts]
) -> dict[_Key, Counts]:
    if not earlier.keys() <= now.keys():
        raise PageError("a counter went back")
    return {cell: _grown(now[cell], earlier.get(cell, now[cell] * 0)) for cell in now}


def _sums(base: Mapping[_Key, Counts], other: Mapping[_Key, Counts]) -> dict[_Key, Counts]:
    total = dict(base)
    for cell, counts in other.items():
        total[cell] = total[cell] + counts if cell in total else counts
    return total


_FORM = re.compile(r"(\w+)\.(\w+)=\+([^~]+)(?:~(.+))?")
#: As in iotrace/record.c.
_LONGEST_NS = 10_000_000_000


@dataclass(frozen=True)
class Plant:
    """A delay after each call of an operation on a part, in all threads."""

    part: str
    operation: str
    delay: Delay

    def cells(self) -> list[CounterCell]:
        """The cells whose calls are delayed."""
        return [CounterCell(self.part, self.operation, role) for role in ROLES]

    def apply(self, page: Page) -> None:
        """Delay the calls from now on."""
        page.plant(self.cells(), self.delay)

    def __str__(self) -> str:
        """As written, with one unit."""
        jitter = f"~{_microseconds(self.delay.jitter_ns)}" if self.delay.jitter_ns else ""
        return f"{self.part}.{self.operation}=+{_microseconds(self.delay.ns)}{jitter}"


def parse_plant(text: str) -> Plant:
    """The inverse of ``str``; UsageError for another form."""
    problem, hint = f"planted delay {text!r}", "write one such as wal.sync=+200us or +200us~50us"
    match = _FORM.fullmatch(text)
    if match is None:
        raise UsageError(problem, "not PART.OPERATION=+DURATION", hint)
    part, operation, duration, jitter = match.groups()
    for kind, name, supported in (("part", part, PARTS), ("operation", operation, OPERATIONS)):
        if name not in supported:
            raise unknown(
                problem, f"{name!r} is no traced {kind}", name, supported, f"{kind}s: {{}}"
            )
    delay = Delay(parse_duration_ns(duration), parse_duration_ns(jitter) if jitter else 0)
    if not 0 < delay.ns <= _LONGEST_NS or delay.jitter_ns > delay.ns:
        raise UsageError(problem, "it must be > 0, at most 10 s, and >= its jitter", hint)
    return Plant(part, operation, delay)


def _microseconds(ns: int) -> str:
    return f"{ns / 1000:.3f}".rstrip("0").removesuffix(".") + "us"


#: The installed library (harness.native_programs).
LIBRARY = "libiotrace.so"


@dataclass
class IoTrace:
    """``library``: a path that the traced processes can read and not write.

    ``background``: ``thread=PREFIX`` or ``title=PREFIX``: threads, by name or by the title of their
    process, that serve no client; None: nothing distinguishes them. ``directories``: of the parts,
    resolved; set before a process is started.
    """

    library: Path
    background: Sequence[str] | None = ()
    page: Page = field(default_factory=Page)
    directories: Mapping[str, Path] = field(default_factory=dict)

    @property
    def on(self) -> bool:
        """Return whether processes are to be traced: the parts have directories."""
        return bool(self.directories)

    def labels(self, cell: CounterCell) -> dict[str, str]:
        """Return labels of a cell's metrics; role ``unknown`` if nothing distinguishes threads."""
        labels = dict(cell.labels)
        return labels if self.background is not None else labels | {"role": "unknown"}

    def environment(self, descriptor: int) -> dict[str, str]:
        """Environment of a process in which the page has that number."""
        parts = [(part, self.directories[part]) for part in PARTS if part in self.directories]
        return {
            "LD_PRELOAD": str(self.library),
            "TIERBENCH_IOTRACE_PAGE": str(descriptor),
            "TIERBENCH_IOTRACE_PARTS": "\n".join(f"{part}={path}" for part, path in parts),
            "TIERBENCH_IOTRACE_BACKGROUND": "\n".join(self.background or ()),
        }
