"""I/O that the trace saw in the timed intervals of a run, and the share that it saw."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from harness.counters import difference
from harness.engine import StoredRelation
from harness.errors import RunFailed
from harness.experiment.placement import Part
from harness.hdr import Histogram
from harness.host.process_counters import read_counters
from harness.iotrace.page import (
    CELL_FIELDS,
    OPERATIONS,
    ROLES,
    SIZE_CLASSES,
    CounterCell,
    IoTrace,
    PageError,
    Plant,
    Reading,
    cells,
    file_key,
)
from harness.models.device import DeviceModel
from harness.store.result import Metric
from harness.supervise.process import ProcessId
from harness.warnings import RunWarning

#: Below this share of a part's bytes, the run has a warning.
COMPLETE_SHARE = 0.95
#: Above this share of the time on the modelled device that the tier below took more, a run has a
#: warning.
MOST_LATE = 0.01
_QUANTILES = (1, 10, 50, 90, 99)
_URING = "anon_inode:[io_uring]"
#: Operations that move bytes, with the counters of harness.host.process_counters that count them:
#: by system calls, and at the block layer.
_MOVES = {
    "read": ("syscall_read_bytes", "io_read_bytes"),
    "write": ("syscall_write_bytes", "io_write_bytes"),
}


class TimedIo:
    """The timed intervals of one run, added up.

    ``processes``: those of the engine now. ``on_begin``: called with them before an interval.
    ``begin`` and ``end`` may be nested and called from several threads: an interval lasts from the
    first ``begin`` to the last ``end``.
    """

    def __init__(
        self,
        trace: IoTrace,
        processes: Callable[[], Sequence[ProcessId]],
        on_begin: Callable[[Sequence[ProcessId]], None] = lambda processes: None,
    ) -> None:
        self._trace = trace
        self._processes = processes
        self._on_begin = on_begin
        self._lock = threading.Lock()
        self._depth = 0
        self._before: tuple[Reading, dict[str, float]] | None = None
        self._spent: Reading | None = None
        self._proc: dict[str, float] = {}
        #: Whether the counters of /proc could be read at both ends of every interval.
        self._proc_known = True
        self._uring: bool | None = None
        self._damage: str | None = None

    def begin(self) -> None:
        """An interval begins."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._on_begin(self._processes())
                self._before = self._read()

    def end(self) -> None:
        """It ends; nothing where none has begun."""
        with self._lock:
            if self._depth == 0:
                return
            self._depth -= 1
            if self._depth == 0:
                before, self._before = self._before, None
                if self._uring is None:
                    self._uring = _uses_uring(self._processes())
                after = self._read(ends=True)
                if before is not None and after is not None:
                    self._add(before, after)

    def evict(self) -> None:
        """Empty the modelled page caches, while no process of the engine runs."""
        self._trace.page.evict()

    def metrics(self) -> list[Metric]:
        """Durations, calls and bytes of each cell, and the coverage of each part."""
        spent = self._spent
        if spent is None or self._damage is not None:
            return []
        metrics = [
            Metric("io_trace_coverage_share", "1", "none", {"part": part}, value=share)
            for part, share in self.coverage().items()
        ]
        for cell in cells():
            if not (calls := spent.value(cell, "calls")):
                continue
            labels = self._trace.labels(cell)
            metrics.append(Metric("io_calls_count", "1", "none", labels, value=calls))
            if cell.operation != "sync":
                size = spent.value(cell, "bytes")
                metrics.append(Metric("io_bytes", "B", "none", labels, value=size))
            if (histogram := spent.histogram(cell)) is not None:
                encoded = histogram.encode()
                metrics.append(Metric("io_duration_ns", "ns", "none", labels, hdr=encoded))
        return metrics

    def operations(self) -> list[dict[str, Any]]:
        """Counters of each cell that has calls, with its sizes: as stored."""
        spent = self._spent
        if spent is None or self._damage is not None:
            return []
        return [
            {
                **self._trace.labels(cell),
                **_counters(spent, cell),
                "sizes": _sizes(spent, cell),
                **_modelled(spent, cell),
            }
            for cell in cells()
            if spent.value(cell, "calls")
        ]

    def of_relations(self, stored: Sequence[StoredRelation]) -> list[dict[str, Any]]:
        """Size and I/O of each relation: as stored. ``ns`` is without asynchronous calls."""
        spent = self._spent
        if spent is None or self._damage is not None:
            return []
        return [
            {
                "kind": each.relation.kind,
                "name": each.relation.name,
                "table": each.table,
                "bytes": each.size_bytes,
                "io": _of_files(spent, map(file_key, each.files.values())),
            }
            for each in stored
        ]

    def coverage(self) -> dict[str, float]:
        """By part, the share of its bytes that the trace saw; without parts that moved none.

        Bytes that system calls moved unseen (the counts of /proc/PID/io) are divided among the
        parts in proportion to their own, since Linux does not count by directory. Of a mapped
        file, each byte counts as moved unseen once.
        """
        spent = self._spent
        parts = list(self._trace.directories)
        if spent is None or self._damage is not None:
            return {}
        if spent.slots == 0:
            return dict.fromkeys(parts, 0.0)
        shares = {}
        for part in parts:
            seen = sum(_moved(spent, part, operation) for operation in _MOVES)
            unseen = float(spent.mapped_bytes[part])
            if seen + unseen == 0 or not self._proc_known:
                continue
            for operation in _MOVES:
                traced = _by_calls(spent, operation)
                mine = _moved(spent, part, operation, submitted=False)
                unseen += self._unseen(spent, operation) * mine / traced if traced else 0.0
            shares[part] = seen / (seen + unseen)
        return shares

    def warnings(self) -> list[RunWarning]:
        """``io-trace-incomplete`` for a damaged page, and for a share below 95 %."""
        if self._damage is not None:
            return [_incomplete(f"the trace's page is damaged: {self._damage}", "run again")]
        coverage = self.coverage()
        low = {part: share for part, share in coverage.items() if share < COMPLETE_SHARE}
        spent = self._spent
        if not low or spent is None:
            return []
        shares = ", ".join(f"{part} {share:.1%}" for part, share in sorted(low.items()))
        unseen = "; ".join(self._not_seen(spent, low))
        return [_incomplete(f"seen: {shares}; not seen: {unseen}", _HINT)]

    def check(self, plants: Sequence[Plant]) -> Iterator[RunWarning]:
        """Warnings of planted delays that reached no call; RunFailed if the trace is missing."""
        spent = self._spent
        if plants and (spent is None or spent.slots == 0 or self._damage is not None):
            context = self._damage or "no process of the engine has loaded the library"
            raise RunFailed("plant delays", context, "run without --plant")
        for plant in plants:
            if spent and not any(spent.value(cell, "delayed") for cell in plant.cells()):
                yield RunWarning(
                    "planted-delay-unused",
                    "a planted delay reached no call",
                    f"{plant}: the engine made no such call in the timed intervals",
                    "choose an operation that io-operations.json lists",
                )

    def check_models(self, models: Mapping[Part, DeviceModel]) -> Iterator[RunWarning]:
        """Warnings of modelled devices whose times were not kept; RunFailed without a trace."""
        spent = self._spent
        if not models:
            return
        if spent is None or spent.slots == 0 or self._damage is not None:
            context = self._damage or "no process of the engine has loaded the library"
            raise RunFailed("model devices", context, "run without modelled tiers")
        for part, model in models.items():
            if spent.mapped_bytes.get(part, 0) and not model.instant:
                yield RunWarning(
                    "model-not-kept",
                    "the engine maps files of a modelled tier into its memory",
                    f"{part} on {model.name}: accesses to mapped files take no time of the device",
                    "do not rely on the run, or have the engine read its files",
                )
            late_ns = sum(spent.value(cell, "late_ns") for cell in cells() if cell.part == part)
            due = [spent.histogram(cell, "due") for cell in cells() if cell.part == part]
            due_ns = sum(drawn.mean * drawn.total for drawn in due if drawn is not None)
            if late_ns > MOST_LATE * due_ns:
                yield RunWarning(
                    "model-not-kept",
                    "the tier below a modelled one was too slow",
                    f"{part} on {model.name}: the tier below took {late_ns / due_ns:.1%} more time "
                    "than the modelled device",
                    "put the tier on a faster one, or leave the host idle",
                )

    def _not_seen(self, spent: Reading, low: Mapping[str, float]) -> list[str]:
        if spent.slots == 0:
            return ["anything: the library was not loaded"]
        causes = []
        if mapped := [part for part in low if spent.mapped_bytes[part]]:
            causes.append(f"mmap ({', '.join(mapped)})")
        if self._hidden_uring(spent):
            causes.append("io_uring")
        by_calls = sum(self._unseen(spent, operation) for operation in _MOVES)
        if by_calls:
            causes.append(f"raw system calls and C stdio ({by_calls:.0f} bytes)")
        if spent.lost_calls:
            causes.append(f"{spent.lost_calls} calls of threads without a slot")
        return causes

    def _unseen(self, spent: Reading, operation: str) -> float:
        """Bytes of an operation that the trace did not see, whatever part they are of."""
        by_calls, by_blocks = _MOVES[operation]
        traced = _by_calls(spent, operation)
        unseen = max(0.0, self._proc.get(by_calls, 0.0) - traced)
        if self._hidden_uring(spent):
            unseen = max(unseen, self._proc.get(by_blocks, 0.0) - traced)
        return unseen

    def _hidden_uring(self, spent: Reading) -> bool:
        return bool(self._uring) and not any(spent.total(op, "submitted") for op in _MOVES)

    def _read(self, ends: bool = False) -> tuple[Reading, dict[str, float]] | None:
        """The page's interval encloses that of /proc, so nothing in between counts as unseen."""
        try:
            self._trace.page.check_delays()
            moved = read_counters(self._processes()) if ends else {}
            reading = self._trace.page.read()
            return reading, moved if ends else read_counters(self._processes())
        except PageError as error:
            self._damage = str(error)
            return None

    def _add(
        self, before: tuple[Reading, dict[str, float]], after: tuple[Reading, dict[str, float]]
    ) -> None:
        try:
            spent = after[0] - before[0]
        except PageError as error:
            self._damage = str(error)
            return
        self._spent = spent if self._spent is None else self._spent + spent
        moved = difference(before[1], after[1])
        self._proc_known &= all(name in moved for names in _MOVES.values() for name in names)
        for name, value in moved.items():
            self._proc[name] = self._proc.get(name, 0.0) + value


_HINT = "do not rely on the run's I/O by part; docs/io-trace.md lists what the trace cannot see"


def _incomplete(context: str, hint: str) -> RunWarning:
    return RunWarning("io-trace-incomplete", "the I/O trace is incomplete", context, hint)


def _by_calls(spent: Reading, operation: str) -> int:
    """Traced bytes that /proc/PID/io counts too: not those of asynchronous I/O."""
    return spent.total(operation, "bytes") - spent.total(operation, "submitted_bytes")


def _of_files(spent: Reading, keys: Iterable[int]) -> list[dict[str, Any]]:
    """Return the calls of files by role and operation, without those that were not made."""
    counts = [spent.files[key] for key in keys if key in spent.files]
    if not counts:
        return []
    total = reduce(operator.add, counts)
    return [
        {"role": role, "operation": operation}
        | dict(zip(("calls", "bytes", "ns"), map(int, total[i, k]), strict=True))
        for i, role in enumerate(ROLES)
        for k, operation in enumerate(OPERATIONS)
        if total[i, k, 0]
    ]


def _moved(spent: Reading, part: str, operation: str, submitted: bool = True) -> int:
    """Traced bytes of a part."""
    total = 0
    for role in ("foreground", "background"):
        cell = CounterCell(part, operation, role)
        total += spent.value(cell, "bytes")
        total -= 0 if submitted else spent.value(cell, "submitted_bytes")
    return total


def _counters(spent: Reading, cell: CounterCell) -> dict[str, int | None]:
    """All counters of a cell; ``queued`` is None where no depth of a queue is known."""
    counters: dict[str, int | None] = {field: spent.value(cell, field) for field in CELL_FIELDS}
    if counters["submitted"] and not counters["queue_known"]:
        counters["queued"] = None
    return counters


def _sizes(spent: Reading, cell: CounterCell) -> dict[str, int]:
    """Number of calls by the largest size of their class in bytes."""
    counts = spent.sizes.get(cell)
    names = [*map(str, SIZE_CLASSES), "more"]
    if counts is None:
        return {}
    return {name: int(count) for name, count in zip(names, counts, strict=True) if count}


def _modelled(spent: Reading, cell: CounterCell) -> dict[str, Any]:
    """Quantiles of modelled calls of the durations that were due and of those achieved, in ns."""
    due, achieved = (spent.histogram(cell, name) for name in ("due", "achieved"))
    if due is None or achieved is None:
        return {}
    return {
        "due_ns": {f"p{p:g}": due.percentile(p) for p in _QUANTILES},
        "achieved_ns": {f"p{p:g}": achieved.percentile(p) for p in _QUANTILES},
        "distance": round(distance(due, achieved), 4),
    }


def distance(histogram: Histogram, other: Histogram) -> float:
    """Largest difference of two cumulative distributions (the statistic of Kolmogorov-Smirnov)."""
    shares = (each.counts.cumsum() / each.total for each in (histogram, other))
    return float(abs(next(shares) - next(shares)).max())


def _uses_uring(processes: Sequence[ProcessId]) -> bool:
    """Return whether one of them has an io_uring."""
    for process in processes:
        try:
            descriptors = list(Path(f"/proc/{process.pid}/fd").iterdir())
        except OSError:
            continue
        for descriptor in descriptors:
            try:
                if str(descriptor.readlink()) == _URING:
                    return True
            except OSError:
                continue
    return False
