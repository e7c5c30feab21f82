"""Repeats as needed: blocks until each headline resolves a difference, or the time is over.

Results decide at most :data:`LOOKS` times for a comparison whether it gets more blocks, after
numbers of blocks that are fixed beforehand. However they decide, a p value of such a look is valid
when multiplied by the number of looks (Bonferroni). Plans say so (``Plan.looks``), and
reports.compare corrects p values and intervals of their runs, here as in every report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_time import Budget
from harness.experiment.profile import Plan
from harness.experiment.selection import with_repeats
from harness.experiment.study import Batch, Batches, Cost, StopRule, looks_of
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
    that were taken; ``groups``: the comparisons as of the last one.
    """

    series: frozenset[str]
    comparisons: int
    stage: int = 0
    groups: list[Group] = field(default_factory=list)

    @property
    def width(self) -> float:
        """The ratio of the ends of the widest interval."""
        ends = [
            (estimate.low, estimate.high) for group in self.groups if (estimate := _estimate(group))
        ]
        return max((h / low if low and h else math.inf for low, h in ends), default=0.0)

    @property
    def _estimated(self) -> list[Group]:
        return [group for group in self.groups if _estimate(group) is not None]

    @property
    def missing(self) -> bool:
        """Return whether a comparison has no result: an arm failed, or no metric stands for all."""
        return len(self._estimated) < self.comparisons

    def resolved(self, difference: float) -> bool:
        """Return whether each comparison that has a result resolves this difference (a share)."""
        return all(resolved(group, difference) for group in self._estimated)

    def settled(self, goal: Goal) -> bool:
        """Return whether more repeats are of no use."""
        return not self._estimated or (goal.resolve is not None and self.resolved(goal.resolve))


def _estimate(group: Group) -> Ratio | None:
    row = group.deciding
    return row.estimate if row is not None else None


def resolved(group: Group, difference: float) -> bool:
    """Return whether a difference is shown, or one of this share is excluded."""
    from reports.statistics import ALPHA

    row, estimate = group.deciding, _estimate(group)
    if row is None or estimate is None or estimate.low is None or estimate.high is None:
        return False
    if estimate.smallest_p > ALPHA:
        return False  # so few pairs that the interval covers less than it should
    bound = 1 + difference
    return row.shown or (1 / bound <= estimate.low and estimate.high <= bound)


@dataclass(frozen=True, kw_only=True)
class Sequential(StopRule):
    """Repeats as needed: ``counts`` are the numbers of blocks after which results are looked at."""

    goal: Goal
    over: str
    together: tuple[Together, ...]

    def counted(self, plan: Plan, steps: Sequence[ResolvedRun]) -> tuple[Plan, list[ResolvedRun]]:
        """Leave out complete runs whose results did not decide under the same rule.

        Such a run says of fewer looks, so its comparison would not be corrected for them. Runs of
        an earlier execution that count may have been looked at as well: within a budget, where
        the time decides on the number of blocks, that is one look more. UsageError where a run
        needs another host mode.
        """
        _refuse_other_modes(steps)
        steps = [
            replace(step, done=None, why="its earlier run is of another number of looks")
            if step.done and step.runnable and looks_of(step.done) < plan.looks
            else step
            for step in steps
        ]
        earlier = [looks_of(step.done) for step in steps if step.done]
        spent = max([plan.looks, *earlier])
        if self.goal.budget_ns is not None and earlier:
            spent += 1
            warn(
                RunWarning(
                    "repeats-continued",
                    "results of earlier repeats may have decided on another budget",
                    f"{len(earlier)} runs are complete; corrected for {spent} looks",
                    "--again starts from scratch",
                )
            )
        return replace(plan, looks=spent), steps

    def batches(
        self,
        plan: Plan,
        steps: Sequence[ResolvedRun],
        cost_ns: Cost,
        say: Callable[[str], None],
    ) -> Batches:
        """Yield blocks: all up to the first look, then those of the widest comparison."""
        blocks = grouped((step.spec.block, step) for step in steps)
        finished: list[StoredRun] = []

        def blocks_of(
            first: int, end: int, chosen: Together | None
        ) -> Generator[Batch, Sequence[StoredRun], str]:
            for block in range(first, end):
                selected = [
                    s for s in blocks[block] if not chosen or s.spec.series() in chosen.series
                ]
                if why := self.budget.refuses(cost_ns(selected)):
                    return why
                finished.extend((yield Batch(plan, selected)))
            return ""

        counts, together = self.counts, self.together
        why = yield from blocks_of(0, counts[0], None)
        self.look(finished, together)
        while not why:
            open_ = [
                group
                for group in together
                if group.stage < len(counts) and not group.settled(self.goal)
            ]
            if not open_:
                return self._why_ended()
            widest = max(open_, key=lambda group: group.width)
            say(f"{counts[widest.stage - 1]} repeats: {'; '.join(_texts(widest))}; continuing")
            why = yield from blocks_of(counts[widest.stage - 1], counts[widest.stage], widest)
            self.look(finished, [widest])
        return why

    def blocks_within(self, steps: Sequence[ResolvedRun], cost_ns: Cost) -> int | None:
        blocks = grouped((step.spec.block, step) for step in steps)
        block_ns = cost_ns([replace(step, done=None) for step in blocks[0]])
        if self.goal.budget_ns is None or not block_ns:
            return None
        complete = sum(all(step.done for step in steps) for steps in blocks.values())
        return min(len(blocks), complete + self.goal.budget_ns // block_ns)

    def look(self, finished: Sequence[StoredRun], now: Sequence[Together]) -> None:
        """Compare all runs that there are, as reports do; those ``now`` have spent a look more."""
        from reports.series import panels

        compared = panels(finished, self.over, None)
        for group in self.together:
            group.groups = [
                comparison
                for panel in compared
                if panel.runs[0].spec.series() in group.series
                for comparison in panel.groups
            ]
        for group in now:
            group.stage += 1

    def _why_ended(self) -> str:
        """Say why no comparison gets more repeats. The command prints it."""
        resolve = self.goal.resolve
        if any(group.missing for group in self.together):
            return "a comparison has no result"
        if resolve is not None and all(group.resolved(resolve) for group in self.together):
            return "all resolved"
        return "largest number of repeats"


def sequence_of(
    plan: Plan, goal: Goal, host_mode: str, budget: Budget | None = None
) -> tuple[Plan, Sequential]:
    """Plan as many blocks as there may be, and their rule; UsageError where nothing is compared.

    ``budget``: that of the goal, where its time runs already.
    """
    from reports.planned_repeats import compared_together
    from reports.ranks import repeats_needed
    from reports.resolution import MOST_REPEATS
    from reports.statistics import ALPHA

    over, compared = compared_together(with_repeats(plan, 1).runs, host_mode)
    together = tuple(
        Together(frozenset(spec.series() for arm in arms for spec in arm), len(arms) - 1)
        for arms in compared
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
    comparisons = sum(group.comparisons for group in together)
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
    budget = budget or Budget(goal.budget_ns)
    return whole, Sequential(goal=goal, over=over, together=together, counts=counts, budget=budget)


def numbers_of_blocks(first: int, most: int, looks: int) -> tuple[int, ...]:
    """From ``first`` to ``most``, each by the same factor more than the last one."""
    if looks == 1:
        return (most,)
    growth = (most / first) ** (1 / (looks - 1))
    return tuple(dict.fromkeys(round(first * growth**look) for look in range(looks)))


def _refuse_other_modes(steps: Sequence[ResolvedRun]) -> None:
    for step in steps:
        if not step.runnable and step.done is None:
            raise UsageError(
                "--budget or --resolve",
                f"a run {step.why}, and blocks are not divided",
                "leave it out with --placement or --engine, or give --repeats",
            )


def _texts(together: Together) -> Iterator[str]:
    from reports.formatting import ratio_text

    for group in together.groups:
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


def results(rule: Sequential, finished: Sequence[StoredRun]) -> list[ComparisonResult]:
    """Compare the finished runs."""
    rule.look(finished, ())
    resolve = rule.goal.resolve
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
        for member in rule.together
        for group in member.groups
        if (estimate := _estimate(group)) is not None
    ]
