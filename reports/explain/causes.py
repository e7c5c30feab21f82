"""Why one placement is faster than another: what sessions wait for on either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from harness.iotrace.page import Cell
from harness.store.runs import StoredRun
from harness.units import format_ns
from reports.arm import Arm
from reports.explain.ceilings import Ceilings, ceilings, operations_of
from reports.explain.devices import PARTS, Call, Devices, longest_call, tiers_of, timed_calls
from reports.formatting import NOTHING, significant
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
#: What an operation waits for, as a sentence names it.
_WAIT_WORDS = {
    "log": "the log",
    "data": "the data",
    "all": "the files",
    "lock": "locks",
    "buffer": "the buffer cache",
}
#: A wait that changed by less than this share of what the duration changed by is no cause.
_OF_NO_ACCOUNT = 0.1


def parts_text(parts: Sequence[str]) -> str:
    """Return ``the WAL and the data``."""
    return " and ".join(PART_WORDS.get(part, part) for part in parts)


def article(noun: str) -> str:
    """``an`` of an operation, ``a`` of a query."""
    return "an" if noun[:1] in "aeio" else "a"


def cause(a: Sequence[StoredRun], b: Sequence[StoredRun]) -> str:
    """Return the call that sessions on A spend most time in, of parts that moved, on A and on B.

    Where no part moved, the waits that changed. Empty where one side has neither, and where the
    call became shorter although the runs became slower, or the other way round: then it is not
    the cause.
    """
    if not a or not b:
        return ""
    on_a, on_b = tiers_of(a[0]), tiers_of(b[0])
    moved = [part for part in on_a if on_b.get(part) not in (None, on_a[part])]
    if not moved:
        return _changed_waits(a, b, ("log", "data"))
    call = longest_call(a, moved)
    before, after = (_mean_ns(runs, call) for runs in (a, b)) if call else (None, None)
    if call is None or before is None or after is None:
        return ""
    gain = _gain(a, b)
    if gain is not None and (before < after if gain > 1 else after < before):
        return ""
    sets: tuple[Devices, ...] = ("log", "data", "all")
    devices = next((one for one in sets if set(moved) <= PARTS[one]), None)
    waits = _changed_waits(a, b, [devices] if devices else [], durations=True)
    return (
        f"a {call.operation} of {PART_WORDS.get(call.part, call.part)} takes {format_ns(before)} "
        f"on {on_a[call.part]}, {format_ns(after)} on {on_b[call.part]}"
    ) + (f"; {waits}" if waits else "")


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


def _changed_waits(
    a: Sequence[StoredRun],
    b: Sequence[StoredRun],
    devices: Sequence[Devices],
    durations: bool = False,
) -> str:
    """Return ``a transaction takes 7.9 → 2.9 ms, waiting for the log 3.4 ms → 28 µs, …``.

    The waits are those that changed with the duration, largest change first: for the devices, and
    for what other sessions hold while they wait for these. Empty without waits on a side.
    ``durations``: where no wait changed, return the durations alone instead of nothing.
    """
    on_a, on_b = ceilings(a), ceilings(b)
    if on_a is None or on_b is None or not devices or not (on_a.total and on_b.total):
        return ""
    (took_ns, before), (takes_ns, after) = (_waits(one, devices) for one in (on_a, on_b))
    by_ns = takes_ns - took_ns
    changed = {name: ns - before[name] for name, ns in after.items()}
    names = [name for name, ns in changed.items() if ns * by_ns > _OF_NO_ACCOUNT * by_ns**2]
    noun = on_a.noun
    what = "all queries take" if noun == "query" else f"{article(noun)} {noun} takes"
    text = f"{what} {_change(took_ns, takes_ns)}"
    waits = [
        f"{_WAIT_WORDS[name]} {_change(before[name], after[name])}"
        for name in sorted(names, key=lambda name: -abs(changed[name]))
    ]
    if not waits:
        return text if durations else ""
    rest = [took_ns - sum(before[n] for n in names), takes_ns - sum(after[n] for n in names)]
    if min(rest) > 0 and abs(rest[1] - rest[0]) > _OF_NO_ACCOUNT * abs(by_ns):
        waits.append(f"all else {_change(*rest)}")
    return f"{text}, waiting for {', '.join(waits)}"


def _waits(found: Ceilings, devices: Sequence[Devices]) -> tuple[float, dict[str, float]]:
    """Return a duration, and what of it was waiting: for the devices, and where more may hide."""
    every = found.total[-1]
    waits: dict[str, float] = {}
    for name in devices:
        waits[name] = own.direct_ns if (own := found.of(name)) else 0.0
    waits |= {name: ns for name, ns in every.hidden.items() if name in _WAIT_WORDS}
    return every.latency_ns, waits


def _change(before_ns: float, after_ns: float) -> str:
    """Return ``7.9 → 2.9 ms``; each with its unit where these differ."""
    ends = [format_ns(ns) if ns else "0" for ns in (before_ns, after_ns)]
    (number, _, own), (_, _, other) = (end.partition(" ") for end in ends)
    return f"{number if own == other else ends[0]} → {ends[1]}"
