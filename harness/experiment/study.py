"""A study: arms in an order, a rule that says when there are enough runs of them, and an answer.

Every command that makes runs is one (docs/studies.md has the list). It states what differs; what
does not is here and in harness.cli.study: plan, dry run, resuming, retries, time, interruption.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import ClassVar

from harness.errors import UsageError
from harness.execution.environment import Environment
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_list import RefusedRuns, Retries, prepare_data, run_batch, stop_for_mode
from harness.execution.run_time import Budget, Estimator
from harness.execution.schedule import Schedule
from harness.experiment.profile import Plan
from harness.sequences import grouped
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.warnings import RunWarning, warn

#: Estimated time of the runs to do; None if that of one is not known.
Cost = Callable[[Sequence[ResolvedRun]], int | None]


@dataclass(frozen=True)
class Batch:
    """Runs that are made together, such as a block, with the plan that they are stored under."""

    plan: Plan
    steps: Sequence[ResolvedRun]


#: Yields batches, receives all attempts at the runs of each, and returns why there are no more.
Batches = Generator[Batch, Sequence[StoredRun], str]


@dataclass(frozen=True, kw_only=True)
class StopRule:
    """All blocks of the plan are made; derived rules end earlier, go on, or choose the next runs.

    ``budget``: time that the runs may take. ``counts``: numbers of blocks after which results
    decide, where they do. ``loads_first``: all data are loaded before the first run.
    """

    budget: Budget = field(default_factory=lambda: Budget(None))
    counts: Sequence[int] = ()
    loads_first: ClassVar[bool] = True

    def counted(self, plan: Plan, steps: Sequence[ResolvedRun]) -> tuple[Plan, list[ResolvedRun]]:
        """Return plan and steps with the number of times that results may decide on more."""
        return continued(plan, steps), list(steps)

    def batches(
        self,
        plan: Plan,
        steps: Sequence[ResolvedRun],
        cost_ns: Cost,
        say: Callable[[str], None],
    ) -> Batches:
        """Yield what is made next, until there are enough runs."""
        for block in grouped((step.spec.block, step) for step in steps).values():
            yield Batch(plan, block)
        return ""

    def blocks_within(self, steps: Sequence[ResolvedRun], cost_ns: Cost) -> int | None:
        """Return how many whole blocks the budget allows; None: not known, or no budget."""
        return None


class ModelsCompared(StopRule):
    """All blocks; of earlier results, those on modelled tiers alone may have decided on more."""

    def counted(self, plan: Plan, steps: Sequence[ResolvedRun]) -> tuple[Plan, list[ResolvedRun]]:
        return continued(plan, [step for step in steps if step.spec.models]), list(steps)


@dataclass
class Made:
    """The runs of a study so far.

    ``attempts``: at all runs, failed ones included; runs that were complete before count.
    ``batches``: of each whole batch the last attempt at each run, in its order. ``ended``: why
    there are no more; empty where all are made. ``plan``: as the runs have it, with its looks.
    """

    plan: Plan
    attempts: list[StoredRun] = field(default_factory=list)
    batches: list[Sequence[StoredRun]] = field(default_factory=list)
    ended: str = ""


@dataclass(frozen=True)
class Study:
    """Arms in their order, the rule that stops them, and the answer.

    ``plan``: the arms in blocks, in the order in which they are made. ``answer``: prints what the
    runs say. ``resolved``: the runs, checked, unless they are on engines. ``again``: complete runs
    of earlier commands are repeated; else ``enough`` has the statuses of those that are not.
    ``into``: another store than that of the command.
    ``listing``: prints a dry run, with the store to estimate from. ``interrupted``: called with
    what is made when the study is interrupted. ``forecast``: what the repeats can show is printed
    beforehand. ``around``: what is measured before and after the runs. ``refused``: runs that are
    not in the plan, since they are not possible here.
    """

    plan: Plan
    answer: Callable[[Made], None]
    rule: StopRule = field(default_factory=StopRule)
    resolved: Sequence[ResolvedRun] | None = None
    again: bool = True
    enough: Collection[str] = ("complete",)
    into: Store | None = None
    listing: Callable[[Sequence[ResolvedRun], Store], None] | None = None
    interrupted: Callable[[Made], None] = lambda _: None
    forecast: bool = False
    around: Callable[[Plan, Sequence[ResolvedRun]], AbstractContextManager[None]] = (
        lambda plan, steps: nullcontext()
    )
    refused: Sequence[RefusedRuns] = ()


def drive(batches: Batches, make: Callable[[Batch], Sequence[StoredRun]]) -> str:
    """Make batches until there are no more; return why. The rule gets a batch's UsageError."""
    try:
        batch = next(batches)
        while True:
            try:
                runs = make(batch)
            except UsageError as error:
                batch = batches.throw(error)
            else:
                batch = batches.send(runs)
    except StopIteration as end:
        return str(end.value)


def make_runs(
    made: Made,
    rule: StopRule,
    steps: Sequence[ResolvedRun],
    env: Environment,
    store: Store,
    *,
    restart: bool = False,
    retries: int = 0,
    resumes: bool = True,
    again: bool = False,
    around: AbstractContextManager[None] | None = None,
) -> Made:
    """Run those of ``made.plan`` that are not done, as the rule chooses; ``made`` gets them.

    Interrupted runs are resumed, unless ``restart``. What can be run in the present host mode is
    run first; then a run that needs another one stops the study with what to do: finished runs
    stay, and the same command resumes, unless ``resumes`` is false. ``again``: complete runs of
    other commands are repeated. ``around``: within it they are made.
    """

    def cost_ns(runs: Sequence[ResolvedRun]) -> int | None:
        return Estimator(store.runs()).total_ns(runs)

    plan, budget = made.plan, rule.budget
    early = len(rule.counts) > 0
    schedule = Schedule(plan, steps, env, store, budget.left_ns, resumes, early, again)
    tries = Retries(retries, lambda failed: budget.refuses(cost_ns(failed)))

    def make(batch: Batch) -> Sequence[StoredRun]:
        if not rule.loads_first:
            prepare_data(batch.steps, env, schedule)
        first = len(made.attempts)
        made.batches.append(
            run_batch(batch.plan, batch.steps, env, store, made.attempts, schedule, tries, restart)
        )
        return made.attempts[first:]

    with schedule.running(), around or nullcontext():
        if rule.loads_first:
            prepare_data(steps, env, schedule)
        made.ended = drive(rule.batches(plan, steps, cost_ns, env.progress.say), make)
        stop_for_mode(steps, env)
    return made


def continued(plan: Plan, steps: Sequence[ResolvedRun]) -> Plan:
    """The plan; with a look more where it adds repeats to runs whose results may have been seen.

    That is a series with complete runs of another plan, such as one of fewer repeats, and blocks
    after them to run. What remains of an interrupted command is of the same plan.
    """
    done = [(step.spec, step.done, looks_of(step.done)) for step in steps if step.done]
    earlier = [looks for _, run, looks in done if run.result.experiment.hash == plan.hash]
    ends: dict[str, int] = {}
    for spec, run, _ in done:
        if run.result.experiment.hash != plan.hash:
            ends[spec.series()] = max(spec.block, ends.get(spec.series(), 0))
    todo = [step.spec for step in steps if step.done is None]
    new = [spec for spec in todo if spec.block > ends.get(spec.series(), math.inf)]
    if earlier or not new:  # what remains of a command has its looks
        return replace(plan, looks=max([plan.looks, *earlier]))
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


def looks_of(run: StoredRun) -> int:
    """Number of times that results may have decided on more runs like this one."""
    return int(run.result.experiment.looks)
