"""Compare two sets of runs: refuse what is not comparable, then say by how much and how sure.

``compare`` takes A and B, matches what belongs together (same engine, same scale …; only
the compared dimension differs), checks that nothing else differs, pairs the repeats by
block where they ran next to each other, and decides every row within its family. A family is
the question of one experiment: its headlines, one for each comparison, or its rows of one metric.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from harness.errors import UsageError
from harness.sequences import grouped
from harness.store.runs import StoredRun
from harness.units import format_bytes
from harness.warnings import RunWarning
from reports.arm import Arm
from reports.basis import Fact, basis, canary_warnings, repeat_warnings
from reports.compared_rows import Row, Verdict, compared_rows, executed_again, interim_analyses_of
from reports.headline import NONE, Headline, headline
from reports.hosts import on_different_hosts
from reports.labels import ShownFact, not_enforced, resumed, value_name, what_was_run
from reports.matching import Difference, Match, find, paired
from reports.model_error import ModelError, model_error, not_kept
from reports.other_plans import other_plans
from reports.ranks import Pairing
from reports.run_configuration import DIMENSIONS, Dimension, dimension, facts
from reports.statistics import ALPHA, Ratio, compare_values, decide
from reports.unused_parts import unused_parts
from reports.values import Quantity, measured_value

#: A change that is not resolved is named from this ratio on.
_WORTH_NAMING = 1.1


@dataclass(frozen=True)
class Group:
    """Runs of A and B that differ in nothing but the compared dimension.

    ``warnings``: such as a memory limit that was not enforced; ``what``: the workload, its
    driver and every parameter; ``headline``: what decides; ``plans``: hashes of the plans that
    its runs are of; ``rests_on``: what its certainty rests on; ``unused``: whether no part that
    moved was used, so that no row has a ratio. ``model_error``: of a modelled side, which the
    intervals contain; ``not_kept``: runs that did not keep their model, with a warning's code.
    """

    context: Mapping[str, str]
    a: Arm
    b: Arm
    pairing: Pairing
    why_unpaired: str
    left_out: tuple[str, ...]
    rows: tuple[Row, ...]
    warnings: tuple[RunWarning, ...] = ()
    what: tuple[ShownFact, ...] = ()
    headline: Headline = NONE
    plans: frozenset[str] = frozenset()
    rests_on: tuple[Fact, ...] = ()
    unused: bool = False
    model_error: ModelError | None = None
    not_kept: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def other_plans(self) -> tuple[str, ...]:
        """Return the queries that were executed by another plan on each side."""
        return other_plans(self.a.usable, self.b.usable)

    def row(self, quantity: Quantity | None) -> Row | None:
        return next((row for row in self.rows if row.quantity == quantity), None)

    @property
    def deciding(self) -> Row | None:
        return self.row(self.headline.quantity)

    @property
    def verdict(self) -> Verdict:
        """Return how B is against A by the headline: see docs/statistics.md."""
        if self.unused:
            return "part not used"
        if self.not_kept:
            return "model not kept"
        if self.headline.rate is not None and self.headline.rate.not_kept:
            return "rate not kept"
        row = self.deciding
        return row.verdict if row is not None else "not resolvable"

    def loses(self) -> bool | None:
        """Return whether B is worse than A by more than a ratio says; None: the ratio decides.

        A side that does not keep a set rate is worse than one that does; so is one that reaches a
        time limit in half of its runs or more, unless the other does, too.
        """
        if any(self._limited(row) == (False, True) for row in self.rows):
            return True
        row, rate = self.deciding, self.headline.rate
        if rate is not None and rate.not_kept:
            return rate.not_kept == ("b",)
        return False if row is None or row.estimate is None or row.better == "none" else None

    def against(self, bound: float) -> Ratio | None:
        """Return the headline's ratio, tested against a bound; None without one."""
        row = self.deciding
        if row is None or row.estimate is None:
            return None
        over, under = self.sides(row)
        ratio = compare_values(over, under, self.pairing, row.estimate.interim_analyses, bound)
        if not isinstance(ratio, Ratio):
            return None
        error = row.estimate.model_error
        return ratio.with_model_error(*error) if error else ratio

    def sides(self, row: Row) -> tuple[list[float | None], list[float | None]]:
        """Return the values of both sides, in the order whose ratio says how much better B is."""
        a, b = ([measured_value(run, row.quantity) for run in arm.runs] for arm in (self.a, self.b))
        return (a, b) if row.better == "lower" else (b, a)

    def excludes(self, above: float) -> bool:
        """Return whether the interval excludes that B is worse by more than this share."""
        estimate = self.deciding.estimate if self.deciding else None
        if estimate is None or estimate.low is None:
            return False
        return estimate.covered and estimate.low * (1 + above) >= 1

    def _limited(self, row: Row) -> tuple[bool, bool]:
        """Return whether A and B reached a time limit in half of their runs or more."""
        of_a, of_b = row.at_limit
        return 2 * of_a >= len(self.a.runs), 2 * of_b >= len(self.b.runs)

    @property
    def emulated(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.a.emulated, *self.b.emulated)))

    @property
    def worsening(self) -> Row | None:
        """Return the result in which B loses most: the largest shown, else one of 10 % or more.

        Of the results other than the headline that have an interval; None where there is none.
        """
        return self._largest(lambda row: 1 / row.ratio)

    @property
    def gain(self) -> Row | None:
        """Return the result in which B gains most, chosen as ``worsening``."""
        return self._largest(lambda row: row.ratio)

    def _largest(self, factor: Callable[[Row], float]) -> Row | None:
        rows = [
            row
            for row in self.rows
            if row.estimate is not None
            and row.estimate.low is not None
            and row.better != "none"
            and row.quantity != self.headline.quantity
            and row.info.role in ("headline", "detail")
        ]
        shown = [row for row in rows if factor(row) > 1 and row.shown]
        notable = shown or [row for row in rows if factor(row) >= _WORTH_NAMING]
        return max(notable, key=factor, default=None)


@dataclass(frozen=True)
class Comparison:
    """The result of ``compare``.

    ``over``: the compared dimensions (empty: A and B are repeats of one another).
    ``differences``: what else differs; empty unless the comparison was forced.
    ``excluded``: failed runs, with the reason.
    """

    over: tuple[str, ...]
    groups: tuple[Group, ...]
    differences: tuple[Difference, ...] = ()
    excluded: Mapping[str, str] = field(default_factory=dict)
    unmatched: tuple[str, ...] = ()
    alpha: float = ALPHA

    def regressed(self, above: float) -> list[bool]:
        """Return of each group whether B is shown to be worse by more than this share (0.05: 5 %).

        By the headline: its ratio is tested against that loss, and all groups are one family, so
        that a loss of just this share is called larger in 5 % of comparisons at most.
        """
        ratios = [
            group.against(1 / (1 + above)) if group.loses() is None else None
            for group in self.groups
        ]
        tested = decide([ratio for ratio in ratios if ratio is not None])
        below = (ratio.shown and not ratio.above for ratio in tested)
        beyond = [ratio is not None and next(below) for ratio in ratios]
        return [group.loses() or worse for group, worse in zip(self.groups, beyond, strict=True)]

    def inconclusive(self, above: float) -> list[bool]:
        """Return of each whether B is shown neither to be worse by more than this share, nor not.

        That it is not has no family: it is claimed of all groups together.
        """
        return [
            not worse and not group.excludes(above)
            for group, worse in zip(self.groups, self.regressed(above), strict=True)
        ]


def compare(
    a: Sequence[StoredRun],
    b: Sequence[StoredRun],
    over: Sequence[str] = (),
    force: bool = False,
    neighbours: Sequence[StoredRun] = (),
    only: Collection[Quantity] = (),
) -> Comparison:
    """Compare A with B; see the module.

    ``over``: the dimensions they may differ in; empty finds the one they differ in.
    ``force`` compares them even where they differ in more, and keeps the differences.
    ``neighbours``: other runs, which say how long a block of the experiment took. ``only``: the
    quantities compared (empty: all).
    UsageError names every difference with both values, and runs that are in both.
    """
    excluded = {
        run.run_id: run.result.why_failed for run in (*a, *b) if run.result.status == "failed"
    }
    kept_a, kept_b = (_comparable(side, runs) for side, runs in (("A", a), ("B", b)))
    shared = {run.run_id for run in kept_a} & {run.run_id for run in kept_b}
    if shared:
        raise UsageError(
            "compare A with B",
            f"both hold {', '.join(sorted(shared)[:3])}",
            "name runs, experiments or selectors that do not overlap",
        )
    run_facts = {run.directory: facts(run) for run in (*kept_a, *kept_b)}
    names = {fact for of_run in run_facts.values() for fact in of_run}
    matching = find(kept_a, kept_b, run_facts, [dimension(name, names) for name in over])
    if matching.differences and not force:
        raise UsageError(
            "compare A with B",
            _refusal(matching.over, matching.differences),
            "compare runs that differ in one thing; --over NAME says which; "
            "--anyway compares them all the same and prints the differences",
        )
    if not matching.matches:
        raise UsageError(
            "compare A with B",
            "no run of A has a counterpart in B",
            f"without a counterpart: {'; '.join(matching.unmatched)}",
        )
    for match in matching.matches:
        _refuse_mixed(match, matching.over, run_facts)
    groups = [_group(match, matching.over, neighbours, only) for match in matching.matches]
    return Comparison(
        tuple(dim.name for dim in matching.over),
        tuple(decided(groups)),
        tuple(matching.differences),
        excluded,
        tuple(matching.unmatched),
    )


def decided(groups: Sequence[Group]) -> list[Group]:
    """Return the groups with every row decided in its family (see the module).

    What else a report holds changes nothing: groups that share no plan, directly or by
    others, are of different experiments.
    """
    experiments = _experiments([group.plans for group in groups])
    numbered = list(zip(groups, experiments, strict=True))
    families = grouped(
        ((number, _family(group, row)), row.estimate)
        for group, number in numbered
        for row in group.rows
        if row.estimate
    )
    ratios = {key: iter(decide(family)) for key, family in families.items()}

    def rows_of(group: Group, number: int) -> Iterator[Row]:
        for row in group.rows:
            family = ratios.get((number, _family(group, row)))
            yield replace(row, estimate=next(family)) if row.estimate and family else row

    return [
        replace(group, rows=tuple(_in_sequence(group, [*rows_of(group, number)])))
        for group, number in numbered
    ]


def _family(group: Group, row: Row) -> str:
    """Name a row's family: headlines of an experiment are one, whichever their metric."""
    if row.quantity == group.headline.quantity:
        return "(headline)"
    return "(second)" if row.quantity == group.headline.second else row.quantity.name


def _in_sequence(group: Group, rows: Sequence[Row]) -> Iterator[Row]:
    """Test the second quantity after the headline, at the same level."""
    first = next((r.decision for r in rows if r.quantity == group.headline.quantity), None)
    for row in rows:
        second = row.quantity == group.headline.second
        if second and first is not None and row.estimate and row.decision is not None:
            decision = row.decision.after(first)
            yield replace(row, estimate=replace(row.estimate, decision=decision))
        else:
            yield row


def _experiments(plans: Sequence[frozenset[str]]) -> list[int]:
    """Number sets of plans: equally where they share a plan, directly or by others."""
    joined: list[set[str]] = []
    for plan_set in plans:
        touching = [experiment for experiment in joined if experiment & plan_set]
        joined = [experiment for experiment in joined if not experiment & plan_set]
        joined.append(set(plan_set).union(*touching))
    return [
        next(i for i, experiment in enumerate(joined) if plan_set <= experiment)
        for plan_set in plans
    ]


def _comparable(side: str, runs: Sequence[StoredRun]) -> list[StoredRun]:
    comparable = [run for run in runs if run.result.status != "failed"]
    if not comparable:
        reasons = "; ".join(f"{run.run_id}: {run.result.why_failed}" for run in runs[:3])
        raise UsageError(
            f"compare {side}",
            f"every one of its {len(runs)} runs failed ({reasons})" if runs else "it has no runs",
            "a failed run has no result to compare; run it again",
        )
    return comparable


def _refusal(over: Sequence[Dimension], differences: Sequence[Difference]) -> str:
    """Name the first difference, one from which others may follow if there is any."""
    leading = {dim.fact for dim in DIMENSIONS.values()}
    differences = sorted(differences, key=lambda difference: difference.fact not in leading)
    compared = " and ".join(dim.name for dim in over)
    more = f", and in {len(differences) - 1} more" if len(differences) > 1 else ""
    listed = f"{differences[0]}{more}"
    return f"they differ in more than {compared}: {listed}" if over else f"they differ: {listed}"


def _refuse_mixed(
    match: Match, over: Sequence[Dimension], run_facts: Mapping[Path, Mapping[str, str]]
) -> None:
    """Refuse a side of two placements (say): it has no median, not even with --anyway."""
    for letter, runs in (("A", match.a), ("B", match.b)):
        for dim in over:
            values = dict.fromkeys(run_facts[run.directory].get(dim.fact, "none") for run in runs)
            if len(values) > 1:
                raise UsageError(
                    f"compare over {dim.name}",
                    f"{letter} holds runs of {' and '.join(values)}",
                    f"select one, as in {dim.name}={next(iter(values))}",
                )


def _group(
    match: Match,
    over: Sequence[Dimension],
    neighbours: Sequence[StoredRun],
    only: Collection[Quantity],
) -> Group:
    pairs = paired(match.a, match.b, neighbours)
    sides, warnings = [], list[RunWarning]()
    for runs, name in zip((pairs.a, pairs.b), _names(pairs.a, pairs.b, over), strict=True):
        warnings += _warnings(name, runs)
        sides.append(Arm(name, name, tuple(runs)))
    warnings += _continued(pairs.a, pairs.b)
    warnings += canary_warnings([*pairs.a, *pairs.b])
    unused = unused_parts(pairs.a, pairs.b)
    warnings += unused.warnings(" and ".join(dict.fromkeys(side.name for side in sides)))
    rows = compared_rows(pairs.a, pairs.b, pairs.pairing, only, (match.a, match.b))
    comparable = {row.quantity: row.better for row in rows if row.estimate}
    if unused.every:
        rows = _without_ratios(rows, "part-not-used", f"not used: {', '.join(unused.parts)}")
    decides = headline(pairs.a, pairs.b, comparable)
    if decides.quantity in comparable:
        warnings += repeat_warnings(sides[0], sides[1], pairs.pairing, decides.quantity)
    error, disturbed = model_error(pairs.a, pairs.b), not_kept([*pairs.a, *pairs.b])
    if disturbed:
        note = f"the model was not kept in {len(disturbed)} runs"
        rows = _without_ratios(rows, "model-not-kept", note)
        warnings.append(
            RunWarning(
                "model-not-kept",
                "other work, or a base that is too slow, took part in modelled durations",
                ", ".join(f"{run}: {code}" for run, code in disturbed.items()),
                "make these runs again (--again) on an idle host",
            )
        )
    if error is not None:
        of_others = model_error(pairs.a, pairs.b, whole=True) or error
        rows = _with_error(rows, decides, error, of_others)
    plans = frozenset(str(run.result.experiment.hash) for run in (*pairs.a, *pairs.b))
    called = ("A", "B") if sides[0].name == sides[1].name else (sides[0].name, sides[1].name)
    what = what_was_run(list(zip(called, (pairs.a, pairs.b), strict=True)))
    return Group(
        match.context,
        sides[0],
        sides[1],
        pairs.pairing,
        pairs.why,
        pairs.left_out,
        tuple(rows),
        tuple(warnings),
        what,
        decides,
        plans,
        basis(pairs.a, pairs.b, pairs.pairing, warnings),
        unused.every,
        error,
        disturbed,
    )


def _names(a: Sequence[StoredRun], b: Sequence[StoredRun], over: Sequence[Dimension]) -> list[str]:
    """Name both sides by what is compared; two hosts of one name by a piece of their ids, too."""
    if not over:
        return ["A", "B"]
    names = [
        " and ".join(dict.fromkeys(", ".join(value_name(r, dim) for dim in over) for r in runs))
        for runs in (a, b)
    ]
    if names[0] == names[1] and on_different_hosts(a, b):
        return [f"{name} ({runs[0].host_id[:6]})" for name, runs in zip(names, (a, b), strict=True)]
    return names


def _without_ratios(rows: Sequence[Row], why: str, note: str) -> list[Row]:
    return [
        replace(row, estimate=None, why=why, note=note) if row.estimate else row for row in rows
    ]


def _with_error(
    rows: Sequence[Row], deciding: Headline, error: ModelError, of_others: ModelError
) -> list[Row]:
    """Widen the rows' intervals by the error of a modelled side.

    ``of_others``: of rows that do not decide, such as percentiles, which may wait for the device
    in more of their time than the mean does.
    """
    widened = []
    for row in rows:
        by = error if row.quantity == deciding.quantity else of_others
        estimate = row.estimate and row.estimate.with_model_error(by.low, by.high)
        widened.append(replace(row, estimate=estimate))
    return widened


def _warnings(side: str, runs: Sequence[StoredRun]) -> Iterator[RunWarning]:
    """Warn of limits that were not enforced, and of runs that were not measured in one go."""
    if loose := [run for run in runs if not_enforced(run)]:
        limits = dict.fromkeys(format_bytes(run.spec.memory_limit_bytes or 0) for run in loose)
        yield RunWarning(
            "memory-limit-not-enforced",
            "the page cache had the whole host",
            f"{side}: {' and '.join(limits)}, {len(loose)} of {len(runs)} runs",
        )
    if cut := [steps[-1] for run in runs if (steps := resumed(run))]:
        after = ", ".join(dict.fromkeys(cut))
        yield RunWarning(
            "resumed",
            "measured in several attempts: caches were restored, not retained",
            f"{side}: {len(cut)} of {len(runs)} runs, after {after}",
        )


def _continued(*sides: Sequence[StoredRun]) -> Iterator[RunWarning]:
    """Warn of repeats that were added when results of others may have been known."""
    if any(
        len({interim_analyses_of([run]) for run in side}) > 1 or executed_again(side)
        for side in sides
    ):
        yield RunWarning(
            "repeats-continued",
            "repeats were added when results were known",
            f"corrected for {interim_analyses_of(*sides)} looks, which does not keep the level "
            "altogether",
            "run a new experiment",
        )
