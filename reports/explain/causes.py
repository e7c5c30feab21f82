"""Why one placement is faster than another: what sessions wait for on either."""

from __future__ import annotations

from collections.abc import Sequence

from harness.store.runs import StoredRun
from harness.units import format_ns
from reports.explain.ceilings import ceilings
from reports.explain.devices import PARTS, Call, Devices, longest_call, tiers_of, timed_calls
from reports.formatting import percent

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


def cause(a: Sequence[StoredRun], b: Sequence[StoredRun]) -> str:
    """Return the call that sessions on A spend most time in, of parts that moved, on A and on B.

    Empty where no part moved, or one side has no I/O trace.
    """
    if not a or not b:
        return ""
    on_a, on_b = tiers_of(a[0]), tiers_of(b[0])
    moved = [part for part in on_a if on_b.get(part) not in (None, on_a[part])]
    call = longest_call(a, moved)
    before, after = (_mean_ns(runs, call) for runs in (a, b)) if call else (None, None)
    if call is None or before is None or after is None:
        return ""
    share = _waiting(a, moved)
    return (
        f"a {call.operation} of {PART_WORDS.get(call.part, call.part)} takes {format_ns(before)} "
        f"on {on_a[call.part]}, {format_ns(after)} on {on_b[call.part]}"
    ) + (f" ({share})" if share else "")


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
    article = "an" if found.noun == "operation" else "a"
    share = percent(round(one.direct_ns / one.latency_ns, 2))
    return f"{share} of {article} {found.noun} waits for it"
