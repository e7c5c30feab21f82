"""Repeats as needed: blocks until each headline resolves a difference, or the time is over.

Results decide at most :data:`LOOKS` times for a comparison whether it gets more blocks, after
numbers of blocks that are fixed beforehand. However they decide, a p value of such a look is valid
when multiplied by the number of looks (Bonferroni). Plans say so (``Plan.looks``), and
reports.compare corrects p values and intervals of their runs, here as in every report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.execution.run import ResolvedRun
from harness.execution.run_time import Budget
from harness.experiment.profile import Plan
from harness.experiment.selection import with_repeats
from harness.sequences import grouped
from harness.store.runs import StoredRun
from harness.store.spec import JsonObject
from harness.warnings import RunWarning, warn

if TYPE_CHECKING:  # reports are loaded where they are needed
    from reports.compare import Group
    from reports.statistics import Ratio

LOOKS = 4
#: Most repeats, in multiples of the fewest that show a difference, where no time limits them.
_MOST_TIMES = 3


@dataclass(frozen=True)
class Goal:
    """When there are enough repeats; at least one of ``budget_ns`` and ``resolve`` is set.

    ``resolve``: a difference, as a share. ``most``: repeats, whatever is resolved. ``looks``: how
    often results may decide whether there are more.
    """

    budget_ns: int | None = None
    resolve: float | None = None
    most: int | None = None
    looks: int = LOOKS


@dataclass
class Together:
    """Runs that are compared with one another: the ``series`` of all arms.

    ``comparisons``: one of each arm with the baseline, which the reports choose. ``stage``: looks
    that were taken; ``found``: the comparisons as of the last one.
    """

    series: frozenset[str]
    comparisons: int
    stage: int = 0
    found: list[Group] = field(default_factory=list)

    @property
    def width(self) -> float:
        """The ratio of the ends of the widest interval."""
        ends = [(one.low, one.high) for group in self.found if (one := _estimate(group))]
        return max((h / low if low and h else math.inf for low, h in ends), default=0.0)

    @property
    def _known(self) -> list[Group]:
        return [group for group in self.found if _estimate(group) is not None]

    @property
    def missing(self) -> bool:
        """Whether a comparison has no result: an arm failed, or nothing stands for the whole."""
        return len(self._known) < self.comparisons

    def resolved(self, difference: float) -> bool:
        """Whether each comparison that has a result resolves this difference (a share)."""
        return all(resolved(group, difference) for group in self._known)

    def settled(self, goal: Goal) -> bool:
        """Whether more repeats are of no use."""
        return not self._known or (goal.resolve is not None and self.resolved(goal.resolve))


def _estimate(group: Group) -> Ratio | None:
    row = group.deciding
    return row.estimate if row is not None else None


def resolved(group: Group, difference: float) -> bool:
    """Whether a difference is shown, or one of this share is excluded."""
    from reports.statistics import ALPHA

    row, estimate = group.deciding, _estimate(group)
    if row is None or estimate is None or estimate.low is None or estimate.high is None:
        return False
    if estimate.smallest_p > ALPHA:
        return False  # so few pairs that the interval covers less than it should
    bound = 1 + difference
    return row.shown or (1 / bound <= estimate.low and estimate.high <= bound)


@dataclass(frozen=True)
class Sequential:
    """A plan with the numbers of blocks (``counts``) after which its results are looked at."""

    plan: Plan
    goal: Goal
    over: str
    together: tuple[Together, ...]
    counts: tuple[int, ...]


def sequence_of(plan: Plan, goal: Goal, host_mode: str) -> Sequential:
    """The plan with as many blocks as there may be; UsageError where nothing is compared."""
    from reports.series import compared_together
    from reports.statistics import ALPHA, MOST_REPEATS, repeats_needed

    over, found = compared_together(with_repeats(plan, 1).runs, host_mode)
    together = tuple(
        Together(frozenset(spec.series() for arm in arms for spec in arm), len(arms) - 1)
        for arms in found
        if len(arms) > 1
    )
    if not together:
        raise UsageError(
            f"--budget or --resolve with {plan.name}",
            "no two of its runs are compared",
            "give --repeats",
        )
    decides = goal.resolve is not None or len(together) > 1
    looks = goal.looks if decides else 1
    comparisons = sum(one.comparisons for one in together)
    first = repeats_needed(ALPHA / looks / comparisons, "paired")
    most = goal.most or (MOST_REPEATS if goal.budget_ns is not None else _MOST_TIMES * first)
    if most < first:
        raise UsageError(
            f"--repeats {most} of {plan.name}",
            f"{comparisons} comparisons, looked at {looks} times, need {first} repeats",
            f"give --repeats {first} or more, or restrict the profile",
        )
    counts = numbers_of_blocks(first, most, looks)
    whole = replace(with_repeats(plan, most), looks=len(counts))
    return Sequential(whole, goal, over, together, counts)


def numbers_of_blocks(first: int, most: int, looks: int) -> tuple[int, ...]:
    """From ``first`` to ``most``, each by the same factor more than the last one."""
    if looks == 1:
        return (most,)
    growth = (most / first) ** (1 / (looks - 1))
    return tuple(dict.fromkeys(round(first * growth**look) for look in range(looks)))


def own_steps(
    sequence: Sequential, steps: Sequence[ResolvedRun]
) -> tuple[Sequential, list[ResolvedRun]]:
    """The steps, without complete runs whose results did not decide under the same rule.

    Such a run says of fewer looks, so its comparison would not be corrected for them. Runs of an
    earlier execution that count may have been looked at as well: within a budget, where the time
    decides on the number of blocks, that is one look more. UsageError where a run needs another
    host mode.
    """
    _refuse_other_modes(steps)
    looks = [_looks_of(step) if step.done else 0 for step in steps]
    own = [
        replace(step, done=None, why="its earlier run is of another number of looks")
        if step.done and step.runnable and one < sequence.plan.looks
        else step
        for step, one in zip(steps, looks, strict=True)
    ]
    most = max((one for step, one in zip(own, looks, strict=True) if step.done), default=0)
    spent = max(most, sequence.plan.looks)
    if sequence.goal.budget_ns is not None and most:
        spent += 1
        complete = sum(step.done is not None for step in own)
        warn(
            RunWarning(
                "repeats-continued",
                "results of earlier repeats may have decided on another budget",
                f"{complete} runs are complete; corrected for {spent} looks",
                "--again starts from scratch",
            )
        )
    return replace(sequence, plan=replace(sequence.plan, looks=spent)), own


def continued(plan: Plan, steps: Sequence[ResolvedRun]) -> Plan:
    """The plan; with a look more where it adds repeats to runs whose results may have been seen.

    That is a series with complete runs of another plan, such as one of fewer repeats, and blocks
    after them to run. What remains of an interrupted command is of the same plan.
    """
    done = [(step.spec, step.done, _looks_of(step)) for step in steps if step.done]
    own = [looks for _, run, looks in done if run.result.experiment.hash == plan.hash]
    ends: dict[str, int] = {}
    for spec, run, _ in done:
        if run.result.experiment.hash != plan.hash:
            ends[spec.series()] = max(spec.block, ends.get(spec.series(), 0))
    todo = [step.spec for step in steps if step.done is None]
    new = [spec for spec in todo if spec.block > ends.get(spec.series(), math.inf)]
    if own or not new:  # what remains of a command has its looks
        return replace(plan, looks=max([plan.looks, *own]))
    looks = 1 + max(looks for spec, _, looks in done if spec.series() in ends)
    warn(
        RunWarning(
            "repeats-continued",
            "results of earlier repeats may have decided on more of them",
            f"{len(new)} runs are added to complete ones; corrected for {looks} looks",
            "decide on --repeats beforehand; --again starts from scratch",
        )
    )
    return replace(plan, looks=looks)


def _looks_of(step: ResolvedRun) -> int:
    assert step.done is not None
    return int(step.done.result.experiment.looks)


def run_sequence(
    sequence: Sequential,
    steps: Sequence[ResolvedRun],
    run: Callable[[Sequence[ResolvedRun]], Sequence[StoredRun]],
    cost_ns: Callable[[Sequence[ResolvedRun]], int | None],
    budget: Budget,
    say: Callable[[str], None],
) -> tuple[list[StoredRun], str]:
    """The runs, and why there are no more of them.

    ``steps`` of all blocks; ``run`` runs those of a block, which is not divided.
    """
    blocks = grouped((step.spec.block, step) for step in steps)
    finished: list[StoredRun] = []

    def run_blocks(first: int, end: int, chosen: Together | None) -> str:
        for block in range(first, end):
            own = [s for s in blocks[block] if chosen is None or s.spec.series() in chosen.series]
            if why := budget.refuses(cost_ns(own)):
                return why
            finished.extend(run(own))
        return ""

    counts, together = sequence.counts, sequence.together
    why = run_blocks(0, counts[0], None)
    _look(sequence, finished, together)
    while not why:
        open_ = [
            one for one in together if one.stage < len(counts) and not one.settled(sequence.goal)
        ]
        if not open_:
            return finished, _why_ended(sequence)
        widest = max(open_, key=lambda one: one.width)
        say(f"{counts[widest.stage - 1]} repeats: {'; '.join(_texts(widest))}; continuing")
        why = run_blocks(counts[widest.stage - 1], counts[widest.stage], widest)
        _look(sequence, finished, [widest])
    return finished, why


def _why_ended(sequence: Sequential) -> str:
    """Why no comparison gets more repeats. The command prints it."""
    resolve = sequence.goal.resolve
    if any(one.missing for one in sequence.together):
        return "a comparison has no result"
    if resolve is not None and all(one.resolved(resolve) for one in sequence.together):
        return "all resolved"
    return "largest number of repeats"


def _refuse_other_modes(steps: Sequence[ResolvedRun]) -> None:
    for step in steps:
        if not step.runnable and step.done is None:
            raise UsageError(
                "--budget or --resolve",
                f"a run {step.why}, and blocks are not divided",
                "leave it out with --placement or --engine, or give --repeats",
            )


def _look(sequence: Sequential, finished: Sequence[StoredRun], now: Sequence[Together]) -> None:
    """Compare all runs that there are, as reports do; those ``now`` have spent one look more."""
    from reports.series import panels

    found = panels(finished, sequence.over, None)
    for one in sequence.together:
        one.found = [
            group
            for panel in found
            if panel.runs[0].spec.series() in one.series
            for group in panel.groups
        ]
    for one in now:
        one.stage += 1


def _texts(one: Together) -> Iterator[str]:
    from reports.formatting import ratio_text

    for group in one.found:
        if (estimate := _estimate(group)) is not None and estimate.low is not None:
            yield f"{group.b.name} against {group.a.name}: {ratio_text(estimate)}"


@dataclass(frozen=True)
class ComparisonResult:
    """A comparison of the finished runs as a report has it, for ``--json``."""

    context: Mapping[str, str]
    a: str
    b: str
    repeats: int
    speed_up: float
    low: float | None
    high: float | None
    confidence: float | None
    verdict: str
    resolved: bool | None
    rests_on: Sequence[JsonObject]


def results(sequence: Sequential, finished: Sequence[StoredRun]) -> list[ComparisonResult]:
    """Each comparison of the finished runs."""
    _look(sequence, finished, ())
    resolve = sequence.goal.resolve
    return [
        ComparisonResult(
            dict(group.context),
            group.a.name,
            group.b.name,
            estimate.repeats,
            estimate.value,
            estimate.low,
            estimate.high,
            None if estimate.low is None else estimate.confidence,
            group.verdict,
            None if resolve is None else resolved(group, resolve),
            [vars(fact) for fact in group.rests_on],
        )
        for one in sequence.together
        for group in one.found
        if (estimate := _estimate(group)) is not None
    ]
