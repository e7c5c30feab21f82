"""How much faster one set of tiers serves an engine's own I/O pattern than another.

A suite that was derived from a run (``like``) measures each of the run's operations on a tier. The
*device ratio* of two placements is the time of all of the run's calls on the tiers of the one, over
their time on those of the other: the calls are those of the first placement's trace, the mean
duration of each is the suite's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness.store.runs import StoredRun
from reports.values import histogram

#: The suite must have measured this share of the calls of the sessions.
_COVERED = 0.9
_SUITE_METRIC = "io_like_duration_ns"


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


#: Calls by cell, of a run, of its mean operation or of a query.
Calls = Mapping[Cell, float]


@dataclass(frozen=True)
class DeviceFigures:
    """Mean duration of a call in ns, by tier and cell, of suites like one run."""

    means: Mapping[str, Mapping[Cell, float]]

    def on(self, tiers: Mapping[str, str]) -> Mapping[Cell, float]:
        """Of a placement: part → tier."""
        cells = {cell for known in self.means.values() for cell in known}
        found = {}
        for cell in cells:
            known = self.means.get(tiers.get(cell.part, ""), {})
            if cell in known:
                found[cell] = known[cell]
        return found

    def without(self, tiers: Iterable[str]) -> list[str]:
        """Those of the tiers that were not measured."""
        return [tier for tier in dict.fromkeys(tiers) if tier not in self.means]


def is_like(run: StoredRun) -> bool:
    """Whether it is of a suite derived from another run."""
    return run.head["spec"]["workload"] == "micro" and bool(run.head["spec"]["params"].get("like"))


def figures(suites: Sequence[StoredRun], run_ids: Collection[str]) -> DeviceFigures:
    """Of the suites that were derived from one of the runs; the median of several."""
    found: dict[str, dict[Cell, list[float]]] = defaultdict(lambda: defaultdict(list))
    for suite in suites:
        if suite.head["spec"]["params"]["like"] not in run_ids or suite.head["failed"]:
            continue
        tier = tiers_of(suite).get("data", "")
        for metric in suite.run["metrics"]:
            known = histogram(metric) if metric["name"] == _SUITE_METRIC else None
            if known is not None and known.total:
                found[tier][_cell(metric["labels"])].append(known.mean)
    return DeviceFigures(
        {tier: {cell: median(v) for cell, v in by.items()} for tier, by in found.items()}
    )


def tiers_of(run: StoredRun) -> dict[str, str]:
    """Part → tier of a run's placement; empty without one."""
    placement = run.head["spec"]["placement"] or {}
    return {part: tier for part, tier in placement.items() if part != "name" and tier}


def calls_of(runs: Sequence[StoredRun]) -> Calls:
    """The trace's calls by cell, added up over repeats."""
    found: dict[Cell, float] = defaultdict(float)
    for run in runs:
        for metric in run.run["metrics"]:
            if metric["name"] == "io_calls_count":
                found[_cell(metric["labels"])] += metric["value"]
    return dict(found)


def calls_of_queries(runs: Sequence[StoredRun]) -> dict[str, Calls]:
    """As ``calls_of``, by query: with the role of the run's calls, sessions first, since the trace
    does not know roles there."""
    found: dict[str, dict[Cell, float]] = defaultdict(lambda: defaultdict(float))
    for run in runs:
        ordered = sorted(calls_of([run]), key=lambda cell: not cell.background)
        roles = {(cell.part, cell.operation): cell.role for cell in ordered}
        for metric in run.run["metrics"]:
            labels = metric["labels"]
            if metric["name"] == "query_io_calls_count" and "stream" not in labels:
                cell = (labels["part"], labels["operation"])
                if metric["value"] and cell in roles:
                    found[labels["query"]][Cell(*cell, roles[cell])] += metric["value"]
    return {query: dict(calls) for query, calls in found.items()}


def device_ratio(
    calls: Calls, on_a: Mapping[Cell, float], on_b: Mapping[Cell, float]
) -> float | None:
    """How much faster B serves the calls: above 1 where it is faster.

    Σ calls × mean on A over Σ calls × mean on B. None where the suites measured too few of the
    calls of sessions, or there are none.
    """
    both = on_a.keys() & on_b.keys()
    own = {cell: n for cell, n in calls.items() if not cell.background} or calls
    if sum(n for cell, n in own.items() if cell in both) < _COVERED * sum(own.values()):
        return None
    spent_a = sum(calls[cell] * on_a[cell] for cell in both & calls.keys())
    spent_b = sum(calls[cell] * on_b[cell] for cell in both & calls.keys())
    return spent_a / spent_b if spent_a > 0 and spent_b > 0 else None


def _cell(labels: Mapping[str, str]) -> Cell:
    return Cell(labels["part"], labels["operation"], labels.get("role", "foreground"))
