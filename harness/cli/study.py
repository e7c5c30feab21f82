"""Conduct a study: plan its runs, make or list them, and print its answer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

from harness.cli import show
from harness.cli.common import print_json, store
from harness.cli.options import CommonOptions
from harness.cli.run_list import forecast, print_run_list
from harness.execution.environment import Environment, command_environment
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_list import checked_runs, plan_steps
from harness.execution.run_time import Budget, Estimator
from harness.experiment.profile import Plan
from harness.experiment.selection import in_this_mode, with_repeats
from harness.experiment.sequential import Goal, Sequential, results, sequence_of
from harness.experiment.study import Made, StopRule, Study, make_runs
from harness.store.documents import as_json
from harness.store.run_store import Store
from harness.terminal import print_table
from harness.units import counted
from harness.warnings import RunWarning, warn


def conduct(
    options: CommonOptions,
    stand_ins: Sequence[str],
    study_of: Callable[[Environment], Study],
) -> None:
    """Make the runs of a study and print its answer; with --dry-run print its runs instead.

    ``stand_ins``: tiers that are emulated or modelled.
    """
    made = None
    try:
        with command_environment(options.host, stand_ins, options.quiet) as env:
            study = study_of(env)
            earlier = store(options.results)
            into = study.into or earlier
            with study.plan.blaming():
                steps = plan_steps(
                    study.plan,
                    env,
                    into,
                    study.again,
                    study.enough,
                    resume=not options.again,
                    resolved=study.resolved,
                )
            plan, steps = study.rule.counted(study.plan, steps)
            _warn_of_a_short_budget(study.rule, plan, steps, env, earlier)
            if options.dry_run:
                listing = study.listing or partial(
                    print_run_list,
                    env=env,
                    json_=options.json_,
                    rule=study.rule,
                    looks=plan.looks,
                    refused=study.refused,
                )
                listing(steps, earlier)
                return
            for refusal in study.refused:
                warn(RunWarning("runs-refused", "runs are left out", str(refusal)))
            if study.forecast:
                for text in forecast(steps, env, into, plan.looks).texts:
                    env.progress.say(text)
            made = Made(plan)
            make_runs(
                made,
                study.rule,
                steps,
                env,
                into,
                restart=options.again,
                retries=options.retries,
                resumes=not options.again or "--again" in sys.argv,  # the same command without it
                again=study.again,
                around=study.around(plan, steps),
            )
    except BaseException:  # Ctrl-C, or a failure of more than a run: whole batches count
        if made is not None and made.batches:
            study.interrupted(made)
        raise
    study.answer(made)


def conduct_experiment(
    plan: Plan,
    options: CommonOptions,
    again: bool,
    goal: Goal | None = None,
    each: bool = False,
    with_canary: bool = False,
    answer: Callable[[Made], None] | None = None,
    check: Callable[[Sequence[ResolvedRun]], None] | None = None,
) -> None:
    """Run an experiment and print its results; with --dry-run print its runs instead.

    ``again``: complete runs are repeated, too. ``goal``: when there are enough repeats, in place
    of the plan's number. ``each``: leave out runs that are not possible here, unless
    all are.
    ``with_canary``: the tiers are measured before and after all runs, too. ``answer``: prints
    something else than the runs and their comparisons. ``check``: of the checked runs of a block,
    with a goal.
    """
    budget = Budget(goal.budget_ns if goal else None)

    def study_of(env: Environment) -> Study:
        into = store(options.results)
        checked = checked_runs(plan, env, each)
        whole, rule = checked.plan, StopRule()
        if goal is not None:
            first = with_repeats(whole, 1)
            block = plan_steps(first, env, into, resolved=checked.of(first))
            if check is not None:
                check(block)
            whole = in_this_mode(whole, block)
        if goal is not None:
            whole, rule = sequence_of(whole, goal, env.host.mode, budget)

        def canary(plan: Plan, steps: Sequence[ResolvedRun]) -> AbstractContextManager[None]:
            from harness.micro.canary import canary

            return canary(plan, steps, env, into, goal.budget_ns if goal else None)

        results = partial(_print_results, rule, options.json_)
        study = Study(
            whole,
            answer or results,
            rule,
            checked.of(whole),
            again=again,
            forecast=True,
            refused=checked.refused,
        )
        return replace(study, around=canary) if with_canary else study

    conduct(options, plan.emulate, study_of)


def _warn_of_a_short_budget(
    rule: StopRule, plan: Plan, steps: Sequence[ResolvedRun], env: Environment, earlier: Store
) -> None:
    """Warn where it ends before any difference can be shown."""
    if rule.budget.left_ns() is None:
        return
    from reports.planned_repeats import planned_repeats

    blocks = rule.blocks_within(steps, Estimator(earlier.runs()).total_ns)
    if blocks is None:
        return
    needed = planned_repeats([step.spec for step in steps], env.host.mode, plan.looks).needed
    if needed is not None and blocks < needed:
        warn(
            RunWarning(
                "budget-too-short",
                "the budget ends before a difference can be shown",
                f"about {counted(blocks, 'repeat')} of {needed}",
                "give a larger --budget, or restrict the profile",
            )
        )


def _print_results(rule: StopRule, json_: bool, made: Made) -> None:
    """Print the runs, and each comparison with its repeats. As JSON ``{runs, sequence}``."""
    if isinstance(rule, Sequential):
        _print_sequence(rule, json_, made)
    else:
        show.runs(made.attempts, json_)
    show.exit_for(made.attempts)


def _print_sequence(rule: Sequential, json_: bool, made: Made) -> None:
    from reports.formatting import interval_text, times, verdict_text
    from reports.statistics import Value

    compared, looks = results(rule, made.attempts), made.plan.looks
    if json_:
        sequence = {"looks": looks, "counts": list(rule.counts), "ended": made.ended}
        comparisons = {**sequence, "comparisons": as_json(compared)}
        print_json({**show.as_document(made.attempts), "sequence": comparisons})
        return
    show.runs(made.attempts, json_)
    print_table(
        ("engine", "compared", "repeats", "speed-up", "interval", "verdict"),
        [
            (
                row.context.get("engine", ""),
                f"{row.b} against {row.a}",
                row.repeats,
                times(row.speed_up),
                interval_text(Value(row.speed_up, row.low, row.high, row.confidence or 0.0)),
                verdict_text(row.verdict),
            )
            for row in compared
        ],
        title=f"ended: {made.ended}"
        + (f"; intervals and verdicts are corrected for {looks} looks" if looks > 1 else ""),
    )
