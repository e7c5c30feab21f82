"""Tests of conclusions about engines: speed-ups between stored runs.

Each test says as data which runs it takes: conditions of a selector (reports.select). Runs are
matched, refused where more than the compared dimension differs, and paired as everywhere
(reports.compare).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from msgspec import structs

from harness.errors import UsageError
from harness.metrics import brief_parameters
from harness.paper.pair_query import Having, PairQuery
from harness.sequences import grouped, matched
from harness.store.runs import StoredRun
from reports.compare import Group, compare
from reports.compared_rows import Row
from reports.conclusions.model import Evidence, Test
from reports.labels import in_words
from reports.metric_registry import metric_info
from reports.pair_sides import run_matches
from reports.run_configuration import (
    Dimension,
    dimension,
    emulations,
    other_facts,
    spec_facts,
)
from reports.select import having
from reports.statistics import Missing
from reports.trials import Trial, best_first, tested
from reports.values import Quantity, measured

#: Values of B and A whose quotient is a speed-up, and the blocks of pairs.
Repeats = tuple[list[float], list[float], list[int]]
#: Fewer users or threads than this are no crowd (as for FAST'20's third practice).
_CROWD = 8


@dataclass(frozen=True)
class SpeedUp:
    """A speed-up is how many times better B is than A in the result that decides.

    ``key``: the facts that both sides share. ``group``: the comparison, or why there is no
    speed-up.
    """

    key: frozenset[tuple[str, str]]
    what: str
    emulated: tuple[str, ...]
    group: Group | Missing

    @property
    def refusal(self) -> Missing | None:
        """Return why the result that decides shows nothing; None where it does."""
        return self.group if isinstance(self.group, Missing) else _refusal(self.group)

    @property
    def deciding(self) -> Row | None:
        """Return the result that decides; None where it shows nothing."""
        return None if isinstance(self.group, Missing) or self.refusal else self.group.deciding

    @cached_property
    def repeats(self) -> Repeats:
        """Return the repeats of the result that decides; none where it shows nothing."""
        return self.repeats_of(self.deciding)

    def repeats_of(self, row: Row | None) -> Repeats:
        """Return values whose quotient is the speed-up, and the blocks of pairs.

        Repeats that are no pairs have no blocks.
        """
        if isinstance(self.group, Missing) or row is None:
            return [], [], []
        over, under = self.group.sides(row)
        if self.group.pairing != "paired":
            return _present(over), _present(under), []
        blocks = [run.spec.block for run in self.group.a.runs]
        both = [
            (b, a, block)
            for b, a, block in zip(over, under, blocks, strict=True)
            if b is not None and a is not None
        ]
        return [b for b, _, _ in both], [a for _, a, _ in both], [block for _, _, block in both]

    def trial(self, bound: float, chosen: bool = False, row: Row | None = None) -> Trial:
        """Return a trial against a bound, of the result that decides or of another row.

        ``chosen``: whether it is the best of several.
        """
        row = row or self.deciding
        if isinstance(self.group, Missing) or row is None:
            return Trial(self.what, self.refusal or Missing("no-headline"), self.emulated)
        over, under, _ = self.repeats_of(row)
        paired = self.group.pairing == "paired"
        ratio = tested(over, under, bound, paired, _looks(row), chosen)
        return Trial(self.what, ratio, self.emulated)


def _looks(row: Row | None) -> int:
    return row.estimate.interim_analyses if row and row.estimate else 1


def _present(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def speed_ups(
    query: PairQuery, evidence: Evidence, runs: Sequence[StoredRun] | None = None
) -> Iterator[SpeedUp]:
    """Yield the speed-up of side A over side B for each series that both have.

    ``runs``: those among which it is looked for (all).
    """
    over, neighbours = query.differing, evidence.of_engines
    dims = [dimension(name) for name in over]
    for match in run_matches(query, neighbours if runs is None else runs, evidence.run_facts):
        key = other_facts(spec_facts(match.a[0]), dims)
        what = _in_words(match.a[0], dims)
        sides = (*match.a, *match.b)
        try:
            made = compare(match.a, match.b, over, neighbours=neighbours, only=_deciding(sides))
        except UsageError as error:
            yield SpeedUp(key, what, emulations(sides), Missing(error.context))
            continue
        (group,) = made.groups
        names = f"{what}: {group.b.name} against {group.a.name}"
        yield SpeedUp(key, names, emulations(sides), group)


def _refusal(group: Group) -> Missing | None:
    """Return why the headline of a comparison shows nothing; None where it does."""
    row, rate = group.deciding, group.headline.rate
    if group.unused:
        return Missing("part-not-used")
    if row is None or row.estimate is None:
        return Missing(row.why if row else "no-headline")
    return Missing("rate-not-kept") if rate and rate.not_kept else None


def _deciding(runs: Sequence[StoredRun]) -> set[Quantity]:
    """Return the quantities that a headline is chosen from; others need no comparison."""
    metrics = ((quantity, value) for run in runs for quantity, value in measured(run).items())
    return {
        quantity
        for quantity, value in metrics
        if metric_info(quantity, value.better).role in ("headline", "detail")
    }


def _in_words(run: StoredRun, dims: Sequence[Dimension]) -> str:
    """Name the engine and what else the number means nothing without: ``postgres, users 8``."""
    run_facts = spec_facts(run)
    covered = {dim.fact for dim in dims}
    params = (*brief_parameters(run_facts["workload"]), "queries", "q6_dates")
    names = [f"params.{name}" for name in params]
    names += [fact for fact in run_facts if fact.startswith("settings.")]
    names = [name for name in ("placement", "cpus", *names) if name not in covered]
    words = (in_words(name, run_facts[name]) for name in names if name in run_facts)
    return ", ".join([run_facts["workload"], run_facts["engine"], *filter(None, words)])


def lacking(evidence: Evidence, *queries: PairQuery) -> Iterator[str]:
    """Yield the sides of queries that no run has, in the words of a selector."""
    for query in queries:
        for side in reversed(query.sides):
            if not having(evidence.of_engines, side):
                yield _runs_with(side)


def _runs_with(wanted: Having) -> str:
    return "runs with " + ", ".join(f"{fact}={value}" for fact, value in wanted.items())


class RunPairs(Test, frozen=True):
    """Tests speed-ups of runs over runs that are alike in all but what is compared."""

    query: PairQuery

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        yield from (speed_up.trial(bound) for speed_up in speed_ups(self.query, evidence))

    def missing(self, evidence: Evidence) -> Iterator[str]:
        yield from lacking(evidence, self.query)


class GainUnder(Test, frozen=True):
    """Tests the speed-up under one condition over that under another, of the same blocks.

    ``pair``: what gains; ``first``, ``second``: the conditions.
    """

    pair: PairQuery
    first: Having
    second: Having

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        dims = [dimension(name) for name in self.first]
        first, second = (
            [(other_facts(dict(each.key), dims), each) for each in speed_ups(query, evidence)]
            for query in self._queries
        )
        for under_first, under_second in matched(first, second).values():
            yield from (gain_over(speed_up, under_second[-1], bound) for speed_up in under_first)

    @property
    def _queries(self) -> list[PairQuery]:
        of, conditions = self.pair, (self.first, self.second)
        return [structs.replace(of, labels={**of.labels, **condition}) for condition in conditions]

    def missing(self, evidence: Evidence) -> Iterator[str]:
        yield from lacking(evidence, *self._queries)


def gain_over(
    numerator: SpeedUp,
    denominator: SpeedUp,
    bound: float,
    rows: tuple[Row, Row] | None = None,
) -> Trial:
    """Return a trial of one speed-up over another, of the same blocks.

    ``rows``: those whose speed-ups they are, in place of the rows that decide.
    """
    what = f"{numerator.what}, over the same of {denominator.what}"
    emulated = tuple(dict.fromkeys((*numerator.emulated, *denominator.emulated)))
    both = (numerator, denominator)
    for speed_up in both:
        if speed_up.refusal and rows is None:
            return Trial(what, speed_up.refusal, emulated)
    of = rows or (numerator.deciding, denominator.deciding)
    first, second = (
        {block: b / a for b, a, block in zip(*each.repeats_of(row), strict=False) if a}
        for each, row in zip(both, of, strict=True)
    )
    shared = [block for block in first if block in second]
    if not shared:
        return Trial(what, Missing("unpaired"), emulated)
    over, under = ([each[block] for block in shared] for each in (first, second))
    return Trial(what, tested(over, under, bound, interim_analyses=max(map(_looks, of))), emulated)


class FewerOfMost(Test, frozen=True):
    """Tests the best of fewer users or threads over the most: how much the crowd loses."""

    having: Having
    parameter: str

    def trials(self, evidence: Evidence, bound: float) -> Iterator[Trial]:
        dim = dimension(self.parameter)
        series = grouped(
            (other_facts(spec_facts(run), [dim]), run)
            for run in having(evidence.of_engines, self.having)
            if _number(run, dim.fact) is not None
        )
        for runs in series.values():
            yield from self._trial(runs, dim, evidence, bound)

    def _trial(
        self, runs: Sequence[StoredRun], dim: Dimension, evidence: Evidence, bound: float
    ) -> Iterator[Trial]:
        counts = sorted({_number(run, dim.fact) or 0 for run in runs})
        if len(counts) < 2:
            return
        if counts[-1] < _CROWD:
            what = f"{_in_words(runs[0], [dim])}: {in_words(dim.fact, str(counts[-1]))}"
            yield Trial(what, Missing("few-threads"), emulations(runs))
            return
        queries = (
            PairQuery(over={dim.fact: f"{count}"}, under={dim.fact: f"{counts[-1]}"})
            for count in counts[:-1]
        )
        candidates = [each for query in queries for each in speed_ups(query, evidence, runs)]
        with_repeats = [speed_up for speed_up in candidates if all(speed_up.repeats[:2])]
        if with_repeats:
            sides = (speed_up.repeats[:2] for speed_up in with_repeats)
            gains = [[b / a for b, a in zip(*each, strict=False) if a] for each in sides]
            yield with_repeats[best_first(gains)[0]].trial(bound, chosen=len(with_repeats) > 1)
        elif candidates:
            yield candidates[0].trial(bound)

    def missing(self, evidence: Evidence) -> Iterator[str]:
        several = {dimension(self.parameter).fact: "two values or more"}
        yield _runs_with({**self.having, **several})


def _number(run: StoredRun, fact: str) -> int | None:
    text = spec_facts(run).get(fact, "")
    return int(text) if text.isdigit() else None
