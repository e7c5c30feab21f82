"""An A/A run: every run twice in each block, next to one another, as A and B."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.experiment.profile import Plan
from harness.store.runs import StoredRun


def twice(plan: Plan) -> Plan:
    """The plan with each run twice in a row. See :func:`pairs_of`."""
    return replace(plan, runs=tuple(spec for spec in plan.runs for _ in range(2)))


def pairs_of(finished: Sequence[StoredRun]) -> Iterator[list[tuple[StoredRun, StoredRun]]]:
    """The pairs (A, B) of every series, from the runs of such a plan in its order.

    In every second block the first one is B: what changes steadily over time affects both sides.
    Pairs with a failed run are left out.
    """
    series: dict[str, list[tuple[StoredRun, StoredRun]]] = {}
    for first, second in zip(finished[::2], finished[1::2], strict=True):
        own = series.setdefault(first.spec.series(), [])
        if "failed" not in (first.run["status"], second.run["status"]):
            own.append((first, second) if first.spec.block % 2 == 0 else (second, first))
    yield from series.values()
