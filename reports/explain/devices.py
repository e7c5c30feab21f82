"""What the I/O trace of runs timed, by part, operation and role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.store.runs import StoredRun
from reports.values import histogram


@dataclass(frozen=True, order=True)
class Cell:
    """What calls are of, as in the I/O trace."""

    part: str
    operation: str
    role: str

    @property
    def background(self) -> bool:
        """Whether no session makes the call."""
        return self.role == "background"


def tiers_of(run: StoredRun) -> dict[str, str]:
    """Part → tier of a run's placement; empty without one."""
    placement = run.head["spec"]["placement"] or {}
    return {part: tier for part, tier in placement.items() if part != "name" and tier}


@dataclass(frozen=True)
class Timed:
    """The calls of a cell whose duration is known, and the mean of these."""

    calls: float
    mean_ns: float

    def __add__(self, other: Timed) -> Timed:
        total = self.calls + other.calls
        spent_ns = self.calls * self.mean_ns + other.calls * other.mean_ns
        return Timed(total, spent_ns / total)


def timed_calls(runs: Sequence[StoredRun]) -> dict[Cell, Timed]:
    """What the trace timed, by cell, over repeats."""
    found: dict[Cell, Timed] = {}
    for metric in (metric for run in runs for metric in run.run["metrics"]):
        if metric["name"] != "io_duration_ns":
            continue
        if (one := histogram(metric)) is not None and one.total:
            cell, timed = _cell(metric["labels"]), Timed(one.total, one.mean)
            found[cell] = found[cell] + timed if cell in found else timed
    return found


def _cell(labels: Mapping[str, str]) -> Cell:
    return Cell(labels["part"], labels["operation"], labels.get("role", "foreground"))
