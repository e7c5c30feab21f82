"""Compare two sets of runs: refuse what is not comparable, then say by how much and how sure.

``compare`` takes A and B, matches what belongs together (same engine, same scale …; only
the compared dimension differs), checks that nothing else differs, pairs the repeats by
block where they ran next to each other, and decides every row within its family. A family is
the question of one experiment: its headlines, one for each comparison, or its rows of one metric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from harness.errors import UsageError
from harness.experiment.placement import DIRECTORY_PARTS, Part
from harness.sequences import grouped
from harness.store.result import Better
from harness.store.runs import StoredRun
from harness.units import format_bytes
from harness.warnings import RunWarning
from reports.arm import Arm
from reports.basis import Fact, basis, canary_warnings
from reports.headline import NONE, Headline, headline
from reports.labels import ShownFact, not_enforced, resumed, value_name, what_was_run
from reports.matching import Difference, Match, find, paired
from reports.metric_registry import MetricInfo, metric_info, metric_title
from reports.run_configuration import Dimension, dimension, facts
from reports.statistics import ALPHA, Decision, Missing, Pairing, Ratio, compare_values, decide
from reports.values import (
    Measured,
    Quantity,
    Summary,
    duration_of,
    in_order,
    is_ready_made,
    limit_of,
    measured_together,
    summarise,
)

#: A change that is not resolved is named from this ratio on.
_WORTH_NAMING = 1.1


@dataclass(frozen=True)
class Group:
    """Runs of A and B that differ in nothing but the compared dimension.

    ``warnings``: such as a memory limit that was not enforced; ``what``: the workload, its
    driver and every parameter; ``headline``: what decides; ``plans``: hashes of the plans that
    its runs are of; ``rests_on``: what its certainty rests on; ``unused``: whether no part that
    moved was used, so that no row has a ratio.
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
        if self.headline.rate is not None and self.headline.rate.not_kept:
            return "rate not kept"
        row = self.deciding
        return row.verdict if row is not None else "not resolvable"

    def regressed(self, above: float) -> bool:
        """Return whether B is shown to be worse by more than this share (0.05: 5 %).

        By the headline: its whole interval is beyond, and the difference is shown. A side that
        does not keep a set rate is worse than one that does; so is one that reaches a time limit
        in half of its runs or more, unless the other does, too.
        """
        if any(self._limited(row) == (False, True) for row in self.rows):
            return True
        row, rate = self.deciding, self.headline.rate
        if rate is not None and rate.not_kept:
            return rate.not_kept == ("b",)
        if row is None or row.estimate is None or row.better == "none" or not row.shown:
            return False
        return row.estimate.high is not None and row.estimate.high * (1 + above) < 1

    def inconclusive(self, above: float) -> bool:
        """Whether B is neither shown to be worse by more than this share, nor shown not to be."""
        row = self.deciding
        estimate = row.estimate if row is not None else None
        if self.regressed(above) or estimate is None or estimate.low is None:
            return not self.regressed(above)
        return not estimate.covered or estimate.low * (1 + above) < 1

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
    known = {run.directory: facts(run) for run in (*kept_a, *kept_b)}
    found = find(kept_a, kept_b, known, [dimension(name) for name in over])
    if found.differences and not force:
        raise UsageError(
            "compare A with B",
            _refusal(found.over, found.differences),
            "compare runs that differ in one thing; --over NAME says which; "
            "--anyway compares them all the same and prints the differences",
        )
    if not found.matches:
        raise UsageError(
            "compare A with B",
            "no run of A has a counterpart in B",
            f"without a counterpart: {'; '.join(found.unmatched)}",
        )
    for match in found.matches:
        _refuse_mixed(match, found.over, known)
    groups = [_group(match, found.over, neighbours, only) for match in found.matches]
    return Comparison(
        tuple(dim.name for dim in found.over),
        tuple(decided(groups)),
        tuple(found.differences),
        excluded,
        tuple(found.unmatched),
    )


def decided(groups: Sequence[Group]) -> list[Group]:
    """Return the groups with every row decided in its family (see the module).

    What else a report holds changes nothing: groups that share no plan, directly or by
    others, are of different experiments.
    """
    experiments = _experiments([group.plans for group in groups])
    own = list(zip(groups, experiments, strict=True))
    families = grouped(
        ((number, _family(group, row)), row.estimate)
        for group, number in own
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
        for group, number in own
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
    for own in plans:
        touching = [one for one in joined if one & own]
        joined = [one for one in joined if not one & own]
        joined.append(set(own).union(*touching))
    return [next(i for i, one in enumerate(joined) if own <= one) for own in plans]


def _comparable(side: str, runs: Sequence[StoredRun]) -> list[StoredRun]:
    kept = [run for run in runs if run.result.status != "failed"]
    if not kept:
        reasons = "; ".join(f"{run.run_id}: {run.result.why_failed}" for run in runs[:3])
        raise UsageError(
            f"compare {side}",
            f"every one of its {len(runs)} runs failed ({reasons})" if runs else "it has no runs",
            "a failed run has no result to compare; run it again",
        )
    return kept


def _refusal(over: Sequence[Dimension], differences: Sequence[Difference]) -> str:
    compared = " and ".join(dim.name for dim in over)
    more = f", and in {len(differences) - 1} more" if len(differences) > 1 else ""
    listed = f"{differences[0]}{more}"
    return f"they differ in more than {compared}: {listed}" if over else f"they differ: {listed}"


def _refuse_mixed(
    match: Match, over: Sequence[Dimension], known: Mapping[Path, Mapping[str, str]]
) -> None:
    """Refuse a side of two placements (say): it has no median, not even with --anyway."""
    for letter, runs in (("A", match.a), ("B", match.b)):
        for dim in over:
            values = dict.fromkeys(known[run.directory].get(dim.fact, "none") for run in runs)
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
    found = paired(match.a, match.b, neighbours)
    sides, warnings = [], list[RunWarning]()
    for runs, letter in ((found.a, "A"), (found.b, "B")):
        names = dict.fromkeys(", ".join(value_name(r, dim) for dim in over) for r in runs)
        name = " and ".join(names) if over else letter
        warnings += _warnings(name, runs)
        sides.append(Arm(name, name, tuple(runs)))
    warnings += _continued(found.a, found.b)
    warnings += canary_warnings([*found.a, *found.b])
    unused = unused_parts(found.a, found.b)
    warnings += unused.warnings(" and ".join(dict.fromkeys(side.name for side in sides)))
    rows = compared_rows(found.a, found.b, found.pairing, only, (match.a, match.b))
    comparable = {row.quantity: row.better for row in rows if row.estimate}
    if unused.every:
        note = f"not used: {', '.join(unused.parts)}"
        rows = [replace(row, estimate=None, note=note) if row.estimate else row for row in rows]
    plans = frozenset(str(run.result.experiment.hash) for run in (*found.a, *found.b))
    called = ("A", "B") if sides[0].name == sides[1].name else (sides[0].name, sides[1].name)
    what = what_was_run(list(zip(called, (found.a, found.b), strict=True)))
    return Group(
        match.context,
        sides[0],
        sides[1],
        found.pairing,
        found.why,
        found.left_out,
        tuple(rows),
        tuple(warnings),
        what,
        headline(found.a, found.b, comparable),
        plans,
        basis(found.a, found.b, found.pairing, warnings),
        unused.every,
    )


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


# One quantity of two sides: summaries, the ratio with its interval, a verdict ----------

Verdict = Literal[
    "faster", "slower", "no difference", "not resolvable", "rate not kept", "part not used"
]


@dataclass(frozen=True)
class Row:
    """A row compares one quantity.

    ``estimate``: how much better B is than A (A/B where lower is better, else B/A), None with a
    ``note`` where there is no ratio.
    """

    quantity: Quantity
    unit: str
    better: Better
    a: Summary | None
    b: Summary | None
    estimate: Ratio | None
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
        for one in side.compared
        for q in one
        if metric_info(q, one[q].better).role != "mark" and (not only or q in only)
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
    """A side holds what its compared runs measured, and what all of its runs did."""

    compared: Sequence[Mapping[Quantity, Measured]]
    every: Sequence[Mapping[Quantity, Measured]]

    def values(self, quantity: Quantity) -> list[float]:
        return [value for run in self.every if (value := _value(run, quantity)) is not None]


def _values_of(runs: Sequence[StoredRun], every: Sequence[StoredRun]) -> _SideValues:
    known = dict(zip((run.run_id for run in every), measured_together(every), strict=True))
    return _SideValues([known[run.run_id] for run in runs], list(known.values()))


def _row(
    quantity: Quantity, a: _SideValues, b: _SideValues, pairing: Pairing, interim_analyses: int
) -> Row:
    compared = (*a.compared, *b.compared)
    found = [run[quantity] for run in compared if quantity in run]
    one = found[0]
    sides = [[_value(run, quantity) for run in side.compared] for side in (a, b)]
    over, under = sides if one.better == "lower" else reversed(sides)
    ratio = compare_values(over, under, pairing, interim_analyses)
    at_a, at_b = (
        sum(_cut_off(run, quantity, one.better) for run in side.compared) for side in (a, b)
    )
    if reached := at_a + at_b:
        # What is left are the values of the runs that happened to be fast enough.
        ratio = Missing(f"the time limit was reached in {reached} of {len(compared)} runs")
    estimate = None if isinstance(ratio, Missing) else ratio
    note = ratio.code if isinstance(ratio, Missing) else ""
    # How numbers that are compared came about; of others, why a run has none.
    how = next((one.note for one in found if (one.value is not None) == bool(estimate)), "")
    return Row(
        quantity,
        one.unit,
        one.better,
        summarise(a.values(quantity)),
        summarise(b.values(quantity)),
        estimate,
        "; ".join(part for part in (note, how) if part),
        any(is_ready_made(one) for one in found),
        (at_a, at_b),
    )


def _cut_off(run: Mapping[Quantity, Measured], quantity: Quantity, better: Better) -> bool:
    """Return whether a time limit stands for this value.

    The limit is that of the query itself, or of a query without which there is no total.
    """
    if Quantity(limit_of(quantity.name), quantity.labels) in run:
        return True
    if quantity in run or metric_info(quantity, better).role not in ("headline", "part"):
        return False
    return any(duration_of(q.name) for q in run)


def _value(run: Mapping[Quantity, Measured], quantity: Quantity) -> float | None:
    return run[quantity].value if quantity in run else None


# Parts that two sides have on different tiers and that their runs neither read nor wrote ---------
#
# Such runs did the same, so their difference is noise: it says nothing about the tiers.

#: With less of a part's bytes seen, the I/O trace does not show that another part has none.
_SEEN = 0.95


@dataclass(frozen=True)
class UnusedParts:
    """``every``: whether nothing else moved, so that a comparison shows nothing."""

    parts: tuple[Part, ...] = ()
    every: bool = False

    def warnings(self, sides: str) -> Iterator[RunWarning]:
        if self.parts:
            yield RunWarning(
                "part-not-used",
                "a part is on different tiers, and no byte of it was read or written",
                f"{sides}: {', '.join(self.parts)}",
                "run a workload that uses it: less memory for temp, writes for wal",
            )


def unused_parts(a: Sequence[StoredRun], b: Sequence[StoredRun]) -> UnusedParts:
    """Return the unused parts of A and B; a part is used unless each run shows that it was not.

    Where other parts moved and were used, a part that merely follows ``data`` is not listed.
    """
    first, second = a[0].spec.placement, b[0].spec.placement
    if first is None or second is None or first.memory != second.memory:
        return UnusedParts()
    moved = [part for part in DIRECTORY_PARTS if first.tier_of(part) != second.tier_of(part)]
    idle = [part for part in moved if all(_is_idle(run, part) for run in (*a, *b))]
    if moved and idle == moved:
        return UnusedParts(tuple(idle), every=True)
    of_data = first.data, second.data
    apart = [p for p in idle if (first.tier_of(p), second.tier_of(p)) != of_data]
    return UnusedParts(tuple(apart))


def _is_idle(run: StoredRun, part: Part) -> bool:
    """Return whether a run is known to have moved no byte of a part."""
    if part == "temp" and _sum(run, "spilled_bytes"):
        return False
    if (traced := _traced_bytes(run, part)) is not None:
        return traced == 0
    if part == "temp" and _sum(run, "spilled_bytes") == 0:
        return True
    return _tier_bytes(run, part) == 0


def _traced_bytes(run: StoredRun, part: Part) -> float | None:
    """Return a part's bytes by the I/O trace; None where it was off, or missed bytes."""
    shares = list(_values(run, "io_trace_coverage_share"))
    if not shares or min(shares) < _SEEN:
        return None
    return sum(_values(run, "io_bytes", part=part))


def _tier_bytes(run: StoredRun, part: Part) -> float | None:
    """Return what a part's device moved; None where it holds other parts, or is not counted."""
    placement = run.spec.placement
    assert placement is not None
    tier = placement.tier_of(part)
    if sum(placement.tier_of(other) == tier for other in DIRECTORY_PARTS) > 1:
        return None
    found = [_sum(run, f"tier_{way}_bytes", tier=tier) for way in ("read", "write")]
    return None if None in found else sum(size or 0.0 for size in found)


def _sum(run: StoredRun, name: str, **labels: str | None) -> float | None:
    """Sum the window's counter and the queries'; None where neither was counted."""
    found = [v for of in ("window", "query") for v in _values(run, f"{of}_{name}", **labels)]
    return sum(found) if found else None


def _values(run: StoredRun, name: str, **labels: str | None) -> Iterator[float]:
    for metric in run.result.metrics:
        same = metric.name == name and labels.items() <= metric.labels.items()
        if same and metric.value is not None:
            yield metric.value
