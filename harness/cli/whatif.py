"""``harness whatif WORKLOAD``: what would a faster or slower device for one part give?

A run whose planted delay changes in short random blocks (docs/what-if.md), and predictions from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from harness.cli import show
from harness.cli.common import print_json, store
from harness.cli.options import workload_commands
from harness.cli.run import RunOptions, plan_of
from harness.cli.run_list import print_run_list
from harness.errors import UsageError
from harness.execution.environment import Environment, command_environment
from harness.execution.run_list import Retries, Step, last_attempts, plan_steps, run_plan
from harness.experiment.profile import Plan
from harness.explain import question
from harness.explain.fit import Refusal
from harness.explain.question import Answer, Device, Operation
from harness.iotrace.page import OPERATIONS, PARTS
from harness.iotrace.plant import varied
from harness.store.runs import Store, StoredRun
from harness.store.spec import RunSpec
from harness.terminal import print_table
from harness.workloads.parameters import Parameters

_LEVELS = "auto"
#: Of an engine, whatever its parts are.
_MOST_OPERATIONS = len(PARTS) * len(OPERATIONS)
_NAME = "what-if"
#: Options of a run that have no meaning here.
_WITHOUT = ("plant", "observe", "dsn", "label", "listen", "repeats", "name", "load_curve")


@dataclass(frozen=True, kw_only=True)
class WhatIfOptions(RunOptions):
    """Options of ``harness whatif``, in addition to those of a run."""

    part: Annotated[
        str | None, typer.Option(help="Part whose operation is delayed: data, wal, temp, index.")
    ] = None
    operation: Annotated[
        str | None, typer.Option(help="Operation that is delayed: read, write, sync.")
    ] = None
    levels: Annotated[
        str,
        typer.Option(
            metavar="TIME,TIME,…", help="Planted delays, ascending, >= 100us; auto: by the calls."
        ),
    ] = _LEVELS
    latency: Annotated[
        str | None, typer.Option(metavar="TIME", help="Predict a device of this latency: 2us.")
    ] = None
    like_tier: Annotated[
        str | None, typer.Option(metavar="TIER", help="Predict the operation as served there.")
    ] = None
    over: Annotated[
        str | None,
        typer.Option(metavar="part", help="Vary each operation of each part, in a run each."),
    ] = None
    which_part_first: Annotated[
        bool, typer.Option("--which-part-first", help="The same as --over part.")
    ] = False


def whatif(parameters: type[Parameters], options: WhatIfOptions) -> None:
    """Run with varied delays, unless such a run is stored, and predict."""
    every = options.which_part_first or options.over is not None
    _check(options, every)
    into = store(options.results)
    with command_environment(options.host, tuple(options.emulate or ()), options.quiet) as env:
        if options.like_tier is not None:
            question.check_tier(into.runs(), options.like_tier, list(env.tiers))
        command = _Command(options, env, into)
        places = [(str(options.part), str(options.operation))]
        not_varied: list[Operation] = []
        steps: list[Step] = []
        if every:
            plan = plan_of(parameters, replace(options, name=_NAME))
            steps += command.steps(plan)
            if options.dry_run and steps[0].done is None:
                print_run_list(steps, env, into, options.json_, follow=_MOST_OPERATIONS)
                return
            stored = steps[0].done if options.dry_run else command.run(plan, steps)
            assert stored is not None
            _exit_if_failed(stored, options.json_)
            chosen, not_varied = question.operations_to_vary(stored)
            places = [(one.part, one.operation) for one in chosen]
        todo: list[tuple[Plan, list[Step], Device | None]] = []
        for part, operation in places:
            delays = f"{part}.{operation}=+{options.levels.replace(',', '/')}"
            plan = plan_of(parameters, replace(options, name=_NAME, plant=[delays]))
            device = command.device(plan.runs[0], part, operation)
            todo.append((plan, command.steps(plan), device))
        if options.dry_run:
            steps += [step for _, own, _ in todo for step in own]
            print_run_list(steps, env, into, options.json_)
            return
        found: list[Answer] = []
        not_fitted: list[StoredRun] = []
        for plan, own, device in todo:
            stored = command.run(plan, own)
            if stored.run["status"] == "failed":
                not_fitted.append(stored)
            else:
                found += question.answers(stored, device)
    if not found:
        show.runs(not_fitted, options.json_)
        raise typer.Exit(1)
    if every:
        _print_ranking(question.ranked(found), not_fitted, not_varied, options.json_)
    else:
        _print(found, options.json_)


@dataclass(frozen=True)
class _Command:
    """What the options ask for, on this host; ``into``: the store."""

    options: WhatIfOptions
    env: Environment
    into: Store

    def steps(self, plan: Plan) -> list[Step]:
        with plan.blaming():
            return plan_steps(plan, self.env, self.into, self.options.again)

    def run(self, plan: Plan, steps: Sequence[Step]) -> StoredRun:
        """The plan's run, stored or made now."""
        retries = Retries(self.options.retries)
        runs = run_plan(plan, steps, self.env, self.into, self.options.again, retries)
        (stored,) = last_attempts(runs)
        return stored

    def device(self, spec: RunSpec, part: str, operation: str) -> Device | None:
        if self.options.latency is not None:
            return question.device_of_latency(self.options.latency)
        if (tier := self.options.like_tier) is not None:
            runs, here = self.into.runs(), self.env.tiers
            return question.device_like_tier(runs, tier, spec, part, operation, here)
        return None


def _exit_if_failed(stored: StoredRun, json_: bool) -> None:
    if stored.run["status"] == "failed":
        show.runs([stored], json_)
        raise typer.Exit(1)


def _check(options: WhatIfOptions, every: bool) -> None:
    """UsageError for options that do not make one question."""
    for name, values in (("--engine", options.engine), ("--placement", options.placement)):
        if len(values or ()) != 1:
            raise UsageError(
                "what-if", f"{name} is given {len(values or ())} times", "give it once"
            )
    if options.over not in (None, "part"):
        raise UsageError(f"--over {options.over}", "not known", "write --over part")
    if every and (options.part or options.operation):
        raise UsageError(
            "what-if", "one operation of one part, and all of them", "leave one of them out"
        )
    if not every and not (options.part and options.operation):
        raise UsageError(
            "what-if",
            "neither one operation of one part, nor all of them",
            "add --part wal --operation sync, or --which-part-first",
        )
    if options.levels != _LEVELS and options.levels.count(",") < 2:
        raise UsageError(
            f"--levels {options.levels}",
            "a line needs three levels",
            f"write 100us,200us,400us,800us, say, or {_LEVELS}",
        )
    if options.latency is not None and options.like_tier is not None:
        raise UsageError("--latency and --like-tier", "both are given", "leave one of them out")
    if options.driver == "both":
        raise UsageError("--driver both", "a what-if run has one driver", "leave --driver out")


def _print(found: Sequence[Answer], json_: bool) -> None:
    """The answer to one question as an object of its own; of several queries as ``answers``."""
    if json_:
        documents = [answer.to_json() for answer in found]
        print_json(documents[0] if len(documents) == 1 else {"answers": documents})
        return
    _print_table(found)


def _print_ranking(
    found: Sequence[Answer],
    not_fitted: Sequence[StoredRun],
    not_varied: Sequence[Operation],
    json_: bool,
) -> None:
    """All answers, what every part would save, and operations without an answer."""
    plants = [varied(one.spec.plant) for one in not_fitted]
    ranking = question.ranking(found, {plant.part for plant in plants if plant})
    if json_:
        failed = [{"run_id": one.run_id, "error": one.run["error"]} for one in not_fitted]
        answers = [answer.to_json() for answer in found]
        left_out = [vars(one) for one in not_varied]
        print_json(
            {"answers": answers, **ranking.to_json(), "failed": failed, "not_varied": left_out}
        )
        return
    _print_table(found)
    for one in not_fitted:
        for line in show.problems(one.run):
            print(f"{one.run_id}: {line}")
    for part, share in ranking.shares.items():
        interval = f"[{share.low:.1%}, {share.high:.1%}]"
        print(f"{part}: its calls without latency would save {share.value:.1%} {interval}")
    refused = [one for one in found if isinstance(one.at_zero, Refusal)]
    if counted := [question.title(one.whatif) for one in refused if one.counts]:
        print(f"refused, but counted with the interval or the floor: {', '.join(counted)}")
    if without := [question.title(one.whatif) for one in refused if not one.counts]:
        print(f"not counted, since refused: {', '.join(without)}")
    if not_varied:
        print(f"not varied, below {question.LEAST}: {', '.join(o.text for o in not_varied)}")
    print(f"move first: {ranking.first or 'not resolved'}")


def _print_table(found: Sequence[Answer]) -> None:
    device = next((answer.device.title for answer in found if answer.device), "")
    columns = ("delayed", "call", "calls/op", "latency", "slope", "linear", "at zero latency")
    print_table((*columns, *([device] if device else [])), question.rows(found))
    for text in dict.fromkeys(question.levels_text(answer.whatif) for answer in found):
        print(text)
    for answer in found:
        if (problem := answer.whatif.fit.not_linear) is not None:
            print(f"{answer.run_id}: {problem.code}: {problem.context}")


app = workload_commands(
    "Predict what another device for a part of an engine gives.",
    WhatIfOptions,
    whatif,
    "Predict the latency with another device from planted delays.",
    _WITHOUT,
)
