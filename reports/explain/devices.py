"""How much faster one set of tiers serves an engine's own I/O pattern than another.

A suite that was derived from a run (``like``) measures each of the run's operations on a tier. The
*device ratio* of two placements is the time of all of the run's calls on the tiers of the one, over
their time on those of the other: the calls are those of the first placement's trace, the mean
duration of each is the suite's. Its interval is that of the suite's repeats.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from harness.store.runs import StoredRun
from reports.statistics import Estimate, compare_unpaired
from reports.values import histogram

#: Of the time in calls of the sessions, the suite must have measured this share.
_COVERED = 0.9
_SUITE_METRIC = "io_like_mean_duration_ns"


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
#: Mean duration of a call in ns, by cell: one of each repeat of a suite.
Means = Mapping[Cell, Sequence[float]]


@dataclass(frozen=True)
class DeviceFigures:
    """What suites like one run measured, by tier."""

    means: Mapping[str, Means]

    def on(self, tiers: Mapping[str, str]) -> Means:
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
    """Of the suites that were derived from one of the runs; repeats of several follow another."""
    found: dict[str, dict[Cell, list[float]]] = defaultdict(lambda: defaultdict(list))
    for suite in suites:
        if suite.head["spec"]["params"]["like"] not in run_ids or suite.head["failed"]:
            continue
        tier = tiers_of(suite).get("data", "")
        for metric in suite.run["metrics"]:
            if metric["name"] == _SUITE_METRIC and metric["samples"]:
                found[tier][_cell(metric["labels"])] += metric["samples"]
    return DeviceFigures({tier: _even(by) for tier, by in found.items()})


def _even(found: Mapping[Cell, Sequence[float]]) -> Means:
    """A rare call is not made in every repeat: its mean stands for each."""
    most = max(map(len, found.values()))
    return {c: own if len(own) == most else [fmean(own)] * most for c, own in found.items()}


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


def device_ratio(
    calls: Calls, on_a: Means, on_b: Means, on_run: Mapping[Cell, Timed]
) -> Estimate | None:
    """How much faster B serves the calls: above 1 where it is faster.

    Σ calls × mean on A over Σ calls × mean on B. None where the suites measured calls that are too
    little of the time in those of sessions, by the durations in the run's trace (``on_run``).
    """
    both = on_a.keys() & on_b.keys() & calls.keys()
    own = {cell: n for cell, n in calls.items() if not cell.background} or calls
    spent = {cell: n * on_run[cell].mean_ns for cell, n in own.items() if cell in on_run}
    measured_ns = sum(ns for cell, ns in spent.items() if cell in both)
    if not measured_ns or measured_ns < _COVERED * sum(spent.values()):
        return None
    counted = {cell: calls[cell] for cell in both}
    spent_a, spent_b = _spent(counted, on_a), _spent(counted, on_b)
    if not spent_a or not spent_b or min(*spent_a, *spent_b) <= 0:
        return None
    return compare_unpaired(spent_a, spent_b)


def suite_over_run(
    calls: Calls, on_a: Means, on_b: Means, on_run: Mapping[Cell, Timed]
) -> float | None:
    """How many times as long the calls of the ratio took in the suite on A as in A's runs.

    Σ calls × mean of the suite over Σ calls × mean of the run: both on A's own tiers.
    """
    cells = on_a.keys() & on_b.keys() & calls.keys() & on_run.keys()
    took_ns = sum(calls[cell] * on_run[cell].mean_ns for cell in cells)
    return sum(calls[cell] * fmean(on_a[cell]) for cell in cells) / took_ns if took_ns else None


def _spent(calls: Calls, on: Means) -> list[float]:
    """The time of the calls in each repeat, as many as all of their tiers have."""
    repeats = zip(*(on[cell] for cell in calls), strict=False)
    return [sum(n * ns for n, ns in zip(calls.values(), one, strict=True)) for one in repeats]


def _cell(labels: Mapping[str, str]) -> Cell:
    return Cell(labels["part"], labels["operation"], labels.get("role", "foreground"))
