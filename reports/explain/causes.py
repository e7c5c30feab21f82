"""Why one placement is faster than another: what sessions wait for on either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from harness.store.runs import StoredRun
from harness.units import format_ns
from reports.arm import Arm
from reports.explain.ceilings import ceilings, operations_of
from reports.explain.devices import PARTS, Call, Cell, Devices, longest_call, tiers_of, timed_calls
from reports.formatting import NOTHING, percent, significant
from reports.metric_registry import load_of
from reports.response import performance
from reports.sections import Table
from reports.series import Panel

#: Parts as a sentence names them.
PART_WORDS = {
    "data": "the data",
    "wal": "the WAL",
    "temp": "temporary files",
    "index": "the indexes",
}


def parts_text(parts: Sequence[str]) -> str:
    """Return ``the WAL and the data``."""
    return " and ".join(PART_WORDS.get(part, part) for part in parts)


def article(noun: str) -> str:
    """``an`` of an operation, ``a`` of a query."""
    return "an" if noun[:1] in "aeio" else "a"


def cause(a: Sequence[StoredRun], b: Sequence[StoredRun]) -> str:
    """Return the call that sessions on A spend most time in, of parts that moved, on A and on B.

    Empty where no part moved, or one side has no I/O trace, and where the call became shorter
    although the runs became slower, or the other way round: then it is not the cause.
    """
    if not a or not b:
        return ""
    on_a, on_b = tiers_of(a[0]), tiers_of(b[0])
    moved = [part for part in on_a if on_b.get(part) not in (None, on_a[part])]
    call = longest_call(a, moved)
    before, after = (_mean_ns(runs, call) for runs in (a, b)) if call else (None, None)
    if call is None or before is None or after is None:
        return ""
    gain = _gain(a, b)
    if gain is not None and (before < after if gain > 1 else after < before):
        return ""
    share = _waiting(a, moved)
    return (
        f"a {call.operation} of {PART_WORDS.get(call.part, call.part)} takes {format_ns(before)} "
        f"on {on_a[call.part]}, {format_ns(after)} on {on_b[call.part]}"
    ) + (f" ({share})" if share else "")


def _gain(a: Sequence[StoredRun], b: Sequence[StoredRun]) -> float | None:
    """Return the throughput of B as a multiple of A's; None where a side has none."""
    on_a, on_b = ([one[0] for run in runs if (one := performance(run))] for runs in (a, b))
    return median(on_b) / median(on_a) if on_a and on_b else None


@dataclass(frozen=True)
class FileOperation:
    """Calls of sessions on a part: their number in a unit of work, and their mean time, by arm.

    A unit of work is a transaction or operation, and of queries the whole run.
    """

    part: str
    operation: str
    by_arm: Sequence[tuple[float, float]]

    @property
    def longest_ns(self) -> float:
        """The time that they take on the arm where that is most."""
        return max(calls * mean_ns for calls, mean_ns in self.by_arm)


def file_operations(arms: Sequence[Arm]) -> list[FileOperation]:
    """Every operation that the I/O trace timed, those that take most time first."""
    found = [(_work(arm.usable), timed_calls(arm.usable)) for arm in arms]
    if not all(timed and work for work, timed in found):
        return []
    places = dict.fromkeys(
        (cell.part, cell.operation) for _, timed in found for cell in timed if not cell.background
    )
    rows = []
    for part, operation in places:
        by_arm = []
        for work, timed in found:
            one = timed.get(Cell(part, operation, "foreground"))
            by_arm.append((one.calls / work, one.mean_ns) if one else (0.0, 0.0))
        rows.append(FileOperation(part, operation, by_arm))
    return sorted(rows, key=lambda one: -one.longest_ns)


def _work(runs: Sequence[StoredRun]) -> float:
    load = load_of(runs[0].spec.workload, runs[0].spec.params) if runs else None
    return sum(operations_of(run, load.durations) for run in runs) if load else len(runs)


def file_operations_table(panel: Panel, arms: Sequence[Arm], most: int) -> Table | None:
    """Where sessions spend most time in file I/O, the arms side by side; None without a trace."""
    load = load_of(panel.workload, panel.params)
    rows = [
        [
            f"{one.operation} of {PART_WORDS.get(one.part, one.part)}",
            *(
                f"{significant(calls)} × {format_ns(mean)} = {format_ns(calls * mean)}"
                if calls
                else NOTHING
                for calls, mean in one.by_arm
            ),
        ]
        for one in file_operations(arms)[:most]
        if one.longest_ns
    ]
    of = f"{article(load.noun)} {load.noun}" if load else "a run"
    title = f"File I/O of {of} that takes most time: {panel.title}"
    return Table(title, ("", *(arm.marked_name for arm in arms)), rows, "numbers") if rows else None


def _mean_ns(runs: Sequence[StoredRun], call: Call) -> float | None:
    spent = [
        (one.calls, one.calls * one.mean_ns)
        for cell, one in timed_calls(runs).items()
        if (cell.part, cell.operation) == (call.part, call.operation)
    ]
    calls = sum(count for count, _ in spent)
    return sum(ns for _, ns in spent) / calls if calls else None


def _waiting(runs: Sequence[StoredRun], parts: Sequence[str]) -> str:
    """Return ``84 % of a transaction`` is spent waiting for devices; empty without waits."""
    found = ceilings(runs)
    sets: tuple[Devices, ...] = ("log", "data", "all")
    devices = next((one for one in sets if set(parts) <= PARTS[one]), None)
    one = found.of(devices) if found and devices else None
    if found is None or one is None or not one.latency_ns:
        return ""
    share = percent(round(one.direct_ns / one.latency_ns, 2))
    return f"{share} of {article(found.noun)} {found.noun} waits for it"
