"""One quantity of two sides compared: its summaries, the ratio with its interval, a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from harness.metrics import MetricInfo
from harness.store.result import Better
from harness.store.runs import StoredRun
from reports.metric_registry import metric_info, metric_title
from reports.ranks import Pairing
from reports.statistics import Decision, Missing, Ratio, compare_values
from reports.values import (
    Point,
    Quantity,
    Summary,
    duration_of,
    in_order,
    laid_together,
    limit_of,
    measured_together,
)

Verdict = Literal[
    "faster",
    "slower",
    "no difference",
    "not resolvable",
    "within the models' error",
    "model not kept",
    "rate not kept",
    "part not used",
]


@dataclass(frozen=True)
class Row:
    """A row compares one quantity.

    ``estimate``: how much better B is than A (A/B where lower is better, else B/A), None where
    there is no ratio. ``why``: the stable code of the reason, which ``note`` says in words.
    """

    quantity: Quantity
    unit: str
    better: Better
    a: Summary | None
    b: Summary | None
    estimate: Ratio | None
    why: str = ""
    note: str = ""
    #: Whether a side is a percentile that its driver reports ready-made.
    ready_made: bool = False
    #: The runs of A and of B that have no value, since a time limit was reached.
    at_limit: tuple[int, int] = (0, 0)

    @property
    def ratio(self) -> float:
        """Return how much better B is; only of rows with an estimate."""
        assert self.estimate is not None
        return self.estimate.value

    @property
    def decision(self) -> Decision | None:
        return self.estimate.decision if self.estimate else None

    @property
    def shown(self) -> bool:
        """Return whether a difference is shown within its family."""
        return self.estimate is not None and self.estimate.shown

    @property
    def has_verdict(self) -> bool:
        """Return whether it has a verdict: counters and what is better neither way have none."""
        return self.better != "none" and self.info.role in ("headline", "detail", "part")

    @property
    def verdict(self) -> Verdict:
        """Return how B is against A in this quantity, where it ``has_verdict``."""
        if self.estimate is None or self.decision is None:
            return "not resolvable"
        if self.decision.outcome == "within the models' error":
            return "within the models' error"
        if self.decision.outcome != "shown":
            unresolved = self.decision.outcome == "cannot be shown"
            return "not resolvable" if unresolved else "no difference"
        return "faster" if self.estimate.value > 1 else "slower"

    @property
    def title(self) -> str:
        return metric_title(self.quantity, self.better)

    @property
    def info(self) -> MetricInfo:
        return metric_info(self.quantity, self.better)

    @property
    def contrary(self) -> bool:
        """Return whether the medians point the other way than the ratio, which goes by pairs."""
        if self.estimate is None or self.a is None or self.b is None:
            return False
        a, b = self.a.median, self.b.median
        if a <= 0 or b <= 0:
            return False
        ratios = (self.estimate.value, a / b if self.better == "lower" else b / a)
        return min(ratios) < 1 < max(ratios) and all(f"{r:.2f}" != "1.00" for r in ratios)


def compared_rows(
    a: Sequence[StoredRun],
    b: Sequence[StoredRun],
    pairing: Pairing,
    only: Collection[Quantity] = (),
    whole: tuple[Sequence[StoredRun], Sequence[StoredRun]] | None = None,
) -> list[Row]:
    """Compare each quantity of comparable runs, or each of ``only``, undecided in a family.

    ``whole``: the sides with their runs without a pair, which count in the medians.
    """
    sides = [_values_of(runs, every) for runs, every in zip((a, b), whole or (a, b), strict=True)]
    quantities = dict.fromkeys(
        q
        for side in sides
        for metrics in side.compared
        for q in metrics
        if metric_info(q, metrics[q].better).role != "mark" and (not only or q in only)
    )
    interim_analyses = interim_analyses_of(a, b)
    return [_row(q, sides[0], sides[1], pairing, interim_analyses) for q in in_order(quantities)]


def interim_analyses_of(*sides: Sequence[StoredRun]) -> int:
    """Return how often results may have decided whether these sides got more runs.

    As plans have it, and once more for each further execution of a block.
    """
    planned = max(int(run.result.experiment.looks) for side in sides for run in side)
    return planned + max(map(executed_again, sides))


def executed_again(side: Sequence[StoredRun]) -> int:
    """Return how many further times a block of a side was executed at most.

    The same command repeats blocks, or one with more repeats that starts from scratch.
    """
    blocks = Counter((run.spec.series(), run.spec.block) for run in side)
    return max(blocks.values()) - 1


class _SideValues(NamedTuple):
    """Values of a side: of each compared run, and of all of its runs together."""

    compared: Sequence[Mapping[Quantity, Point]]
    points: Mapping[Quantity, Point]

    def summary(self, quantity: Quantity) -> Summary | None:
        """Return median and range over all runs; None where none has a value."""
        point = self.points.get(quantity)
        return point.summary if point and point.samples else None


def _values_of(runs: Sequence[StoredRun], every: Sequence[StoredRun]) -> _SideValues:
    by_run = dict(zip((run.run_id for run in every), measured_together(every), strict=True))
    points = laid_together(item for values in by_run.values() for item in values.items())
    return _SideValues([by_run[run.run_id] for run in runs], points)


def _row(
    quantity: Quantity, a: _SideValues, b: _SideValues, pairing: Pairing, interim_analyses: int
) -> Row:
    compared = (*a.compared, *b.compared)
    values = [run[quantity] for run in compared if quantity in run]
    kind = values[0]
    sides = [
        [run[quantity].value if quantity in run else None for run in side.compared]
        for side in (a, b)
    ]
    over, under = sides if kind.better == "lower" else reversed(sides)
    ratio = compare_values(over, under, pairing, interim_analyses)
    at_a, at_b = (
        sum(_cut_off(run, quantity, kind.better) for run in side.compared) for side in (a, b)
    )
    if reached := at_a + at_b:
        # What is left are the values of the runs that happened to be fast enough.
        context = f"the time limit was reached in {reached} of {len(compared)} runs"
        ratio = Missing("time-limit-reached", context)
    estimate = None if isinstance(ratio, Missing) else ratio
    why, note = (ratio.code, ratio.context) if isinstance(ratio, Missing) else ("", "")
    # How numbers that are compared came about; of others, why a run has none.
    how = next((value.note for value in values if (value.value is not None) == bool(estimate)), "")
    return Row(
        quantity,
        kind.unit,
        kind.better,
        a.summary(quantity),
        b.summary(quantity),
        estimate,
        why,
        "; ".join(part for part in (note, how) if part),
        any(value.ready_made for value in values),
        (at_a, at_b),
    )


def _cut_off(run: Mapping[Quantity, Point], quantity: Quantity, better: Better) -> bool:
    """Return whether a time limit stands for this value.

    The limit is that of the query itself, or of a query without which there is no total.
    """
    if Quantity(limit_of(quantity.name), quantity.labels) in run:
        return True
    if quantity in run or metric_info(quantity, better).role not in ("headline", "part"):
        return False
    return any(duration_of(q.name) for q in run)
