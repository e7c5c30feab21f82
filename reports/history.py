"""An experiment's executions over time: the headline of each, and what changed in between.

An execution ends where a block comes that it has had: the same command was given again. Series are
those of the runs' specs, so that another engine version or kernel is a later execution of the same.

Changes are looked for in two ways. Each execution is compared with the previous one by its runs.
Change points compare all executions before with all that follow, by the median of each, as many
executions of few runs show what two neighbours cannot: repeats of one execution share what drifts
from one to the next, so an execution counts once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from harness.sequences import first_of
from harness.store.result import Better
from harness.store.runs import StoredRun
from reports.compared_rows import Row, compared_rows
from reports.headline import headline
from reports.metric_registry import metric_info
from reports.run_configuration import emulations, facts, marked
from reports.statistics import Ratio, compare_values, decide
from reports.values import Quantity, Summary, measured, measured_value, summarise

#: More facts than this are counted.
_MOST_FACTS = 4


@dataclass(frozen=True)
class HistoryEntry:
    """One execution. ``row``: its comparison with the previous one, None of the first.

    ``summary``: of the headline; None where no run of it has a value, such as one at a time limit.
    ``changed``: facts in which they differ, with both values.
    """

    runs: tuple[StoredRun, ...]
    summary: Summary | None
    row: Row | None = None
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChangePoint:
    """The execution from which on the headline differs.

    ``ratio``: how many times better the executions from there on are than those before, each up to
    the next change point.
    """

    at: int
    ratio: Ratio


@dataclass(frozen=True)
class History:
    """One series of an experiment with at least two executions, oldest first."""

    title: str
    metric: str
    unit: str
    better: Better
    executions: tuple[HistoryEntry, ...]

    @cached_property
    def change_points(self) -> tuple[ChangePoint, ...]:
        """Find the executions from which on the headline differs, in their order.

        The split into before and after with the smallest p, if it is resolved among all splits
        (Holm); then both parts are searched alike.
        """
        if self.better == "none":
            return ()
        return tuple(sorted(self._changes(0, len(self.executions)), key=lambda change: change.at))

    def _changes(self, begin: int, end: int) -> Iterator[ChangePoint]:
        medians = [e.summary.median if e.summary else None for e in self.executions[begin:end]]
        splits, ratios = [], []
        for at in range(1, len(medians)):
            sides = (medians[:at], medians[at:])
            over, under = sides if self.better == "lower" else sides[::-1]
            ratio = compare_values(over, under, "unpaired")
            if isinstance(ratio, Ratio):
                splits.append(at)
                ratios.append(ratio)
        decided = zip(splits, decide(ratios), strict=True)
        shown = [(at, r) for at, r in decided if r.decision and r.decision.outcome == "shown"]
        if not shown:
            return
        at, ratio = min(shown, key=lambda split: (split[1].p, -abs(math.log(split[1].value))))
        yield ChangePoint(begin + at, ratio)
        yield from self._changes(begin, begin + at)
        yield from self._changes(begin + at, end)


def histories(runs: Sequence[StoredRun]) -> list[History]:
    """Return the history of each series; all comparisons of neighbours are one family."""
    undecided = [history for series in _series(runs) if (history := _history(series)) is not None]
    rows = [e.row for history in undecided for e in history.executions if e.row is not None]
    ratios = iter(decide([row.estimate for row in rows if row.estimate is not None]))

    def decided(execution: HistoryEntry) -> HistoryEntry:
        row = execution.row
        if row is None or row.estimate is None:
            return execution
        return replace(execution, row=replace(row, estimate=next(ratios)))

    return [
        replace(history, executions=tuple(map(decided, history.executions)))
        for history in undecided
    ]


def _series(runs: Sequence[StoredRun]) -> Iterator[list[StoredRun]]:
    series: dict[tuple[str, ...], list[StoredRun]] = {}
    for run in sorted(runs, key=lambda run: int(run.head.started_unix_ns)):
        if run.head.status != "failed":
            name = run.head.experiment.name
            series.setdefault((name, str(run.spec.series()), run.host_id), []).append(run)
    yield from series.values()


def _history(series: Sequence[StoredRun]) -> History | None:
    split = list(_executions(series))
    values = {
        q: value for run in series for q, value in measured(run).items() if value.value is not None
    }
    quantity = headline(series, series, {q: value.better for q, value in values.items()}).quantity
    if len(split) < 2 or quantity is None:
        return None
    kind = values[quantity]
    executions = [HistoryEntry(tuple(runs), _summary(runs, quantity)) for runs in split]
    compared = [_compared(*pair, quantity) for pair in pairwise(executions)]
    spec = series[-1].spec
    unknown = any(run.result.status == "unknown" for run in series)
    place = marked(spec.where, emulations(series), unknown)
    name = series[-1].result.experiment.name
    title = ", ".join((name, spec.engine, spec.workload, place))
    metric = metric_info(quantity, kind.better).title
    return History(title, metric, kind.unit, kind.better, (executions[0], *compared))


def _executions(series: Sequence[StoredRun]) -> Iterator[list[StoredRun]]:
    current: list[StoredRun] = []
    for run in series:
        if any(run.spec.block == other.spec.block for other in current):
            yield current
            current = []
        current.append(run)
    yield current


def _summary(runs: Sequence[StoredRun], quantity: Quantity) -> Summary | None:
    return summarise(filter(None, (measured_value(run, quantity) for run in runs)))


def _compared(before: HistoryEntry, execution: HistoryEntry, quantity: Quantity) -> HistoryEntry:
    # No run of both may have a value: all reached a time limit.
    row = next(iter(compared_rows(before.runs, execution.runs, "unpaired", {quantity})), None)
    then, now = facts(before.runs[-1]), facts(execution.runs[-1])
    differing = [
        f"{fact}: {then.get(fact, 'none')} → {now.get(fact, 'none')}"
        for fact in {**then, **now}
        if then.get(fact) != now.get(fact)
    ]
    return replace(execution, row=row, changed=tuple(first_of(differing, _MOST_FACTS, "{} more")))
