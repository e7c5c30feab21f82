"""Run a plan, or print its runs with their durations and what the repeats can show."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.cli import show
from harness.cli.common import print_json, set_params, store
from harness.cli.options import CommonOptions
from harness.execution.environment import Environment, command_environment
from harness.execution.run import ResolvedRun
from harness.execution.run_list import Retries, plan_steps, run_plan
from harness.execution.run_time import Budget, Estimator, least_ns
from harness.execution.schedule import Schedule
from harness.experiment.profile import Plan
from harness.experiment.selection import in_this_mode, installed, with_repeats
from harness.experiment.sequential import (
    Goal,
    Sequential,
    continued,
    own_steps,
    results,
    run_sequence,
    sequence_of,
)
from harness.sequences import grouped
from harness.store.calibrations import CalibrationStore, latest_of
from harness.store.documents import as_json
from harness.store.runs import Store, StoredRun
from harness.store.spec import RunSpec, canonical_json
from harness.terminal import print_table, say
from harness.units import counted, format_bytes, format_ns
from harness.warnings import RunWarning, warn

if TYPE_CHECKING:  # reports are loaded where they are needed
    from reports.noise import Expected
    from reports.series import PlannedRepeats


def execute(
    plan: Plan,
    options: CommonOptions,
    env: Environment,
    again: bool = False,
    resolved: Sequence[ResolvedRun] | None = None,
    print_plan: Callable[[Sequence[ResolvedRun], Store], None] | None = None,
    into: Store | None = None,
    after_block: Callable[[int, Sequence[StoredRun]], None] = lambda planned, runs: None,
    compares_models: bool = False,
) -> list[StoredRun] | None:
    """Run a plan and return all attempts; with --dry-run print its runs and return None.

    ``again``: complete runs are repeated, too; with the option of that name, interrupted ones are
    not resumed. ``resolved``: the plan's runs, unless they are on engines. ``print_plan``: prints
    them, with the store to estimate from. ``into``: another store than that of the options.
    ``after_block``: see :func:`run_plan`. ``compares_models``: results of runs on modelled tiers
    may have decided whether there are more of them, which counts as a look.
    """
    earlier = store(options.results)
    into = into or earlier
    with plan.blaming():
        steps = plan_steps(plan, env, into, again, resume=not options.again, resolved=resolved)
    if compares_models:
        plan = continued(plan, [step for step in steps if step.spec.models])
    if options.dry_run and print_plan is not None:
        print_plan(steps, earlier)
    elif options.dry_run:
        print_run_list(steps, env, earlier, options.json_)
    else:
        retries = Retries(options.retries)
        schedule = Schedule(plan, steps, env, into, resumes=_resumes(options), again=again)
        with schedule.running():
            return run_plan(
                plan, steps, env, into, options.again, retries, after_block, schedule=schedule
            )
    return None


def _resumes(options: CommonOptions) -> bool:
    """Whether the same command, without --again, keeps the runs that it has completed."""
    return not options.again or "--again" in sys.argv


def execute_experiment(
    plan: Plan,
    options: CommonOptions,
    again: bool,
    goal: Goal | None = None,
    skip_missing: bool = False,
    with_canary: bool = False,
    print_results: Callable[[Sequence[StoredRun], str], None] | None = None,
) -> None:
    """Run an experiment and print its results; with --dry-run print its runs instead.

    ``again``: complete runs are repeated, too. ``goal``: when there are enough repeats, in place
    of the plan's number. ``skip_missing``: leave out engines that are not installed.
    ``with_canary``: the tiers are measured before and after all runs, too. ``print_results``:
    prints all attempts, with the reason why there are no more of them.
    """
    restart = options.again
    into = store(options.results)
    budget = Budget(goal.budget_ns if goal else None)
    with command_environment(options.host, plan.emulate, options.quiet) as env:
        with plan.blaming():
            plan = installed(plan, env, skip_missing)
        if goal:
            with plan.blaming():
                plan = in_this_mode(plan, plan_steps(with_repeats(plan, 1), env, into))
        sequence = sequence_of(plan, goal, env.host["mode"]) if goal else None
        if sequence is not None:
            plan = sequence.plan
        with plan.blaming():
            steps = plan_steps(plan, env, into, again, resume=not restart)
        if sequence is not None:
            sequence, steps = own_steps(sequence, steps)
            plan = sequence.plan
            _warn_of_a_short_budget(sequence, steps, env, into)
        else:
            plan = continued(plan, steps)
        if options.dry_run:
            print_run_list(steps, env, into, options.json_, sequence)
            return
        repeats, expected = _forecast(steps, env, into, plan.looks)
        for text in filter(None, (repeats.text, *(one.text for one in expected))):
            env.progress.say(text)
        early, resumes = sequence is not None, _resumes(options)
        schedule = Schedule(plan, steps, env, into, budget.left_ns, resumes, early, again)
        with (
            schedule.running(),
            _canary(plan, steps, env, into, goal) if with_canary else nullcontext(),
        ):
            retries = Retries(options.retries, lambda own: budget.refuses(_cost_ns(own, into)))

            def run(own: Sequence[ResolvedRun]) -> list[StoredRun]:
                return run_plan(plan, own, env, into, restart, retries, schedule=schedule)

            if sequence is None:
                finished, ended = run(steps), ""
            else:
                cost_ns = partial(_cost_ns, earlier=into)
                finished, ended = run_sequence(
                    sequence, steps, run, cost_ns, budget, env.progress.say
                )
    if print_results is not None:
        print_results(finished, ended)
    elif sequence is None:
        show.runs(finished, options.json_)
    else:
        _print_sequence(sequence, finished, ended, options.json_)
    show.exit_for(finished)


def _canary(
    plan: Plan, steps: Sequence[ResolvedRun], env: Environment, into: Store, goal: Goal | None
) -> AbstractContextManager[None]:
    from harness.micro.canary import canary

    return canary(plan, steps, env, into, goal.budget_ns if goal else None)


def _cost_ns(steps: Sequence[ResolvedRun], earlier: Store) -> int | None:
    """Of the runs to do, by those of the store; None if one of them is not known."""
    return Estimator(earlier.runs()).total_ns(steps)


def _blocks_within(
    sequence: Sequential, steps: Sequence[ResolvedRun], earlier: Store
) -> int | None:
    """The whole blocks that the budget allows, complete ones included; None: not known."""
    blocks = grouped((step.spec.block, step) for step in steps)
    cost_ns = _cost_ns([replace(step, done=None) for step in blocks[0]], earlier)
    if sequence.goal.budget_ns is None or not cost_ns:
        return None
    complete = sum(all(step.done for step in own) for own in blocks.values())
    return min(len(blocks), complete + sequence.goal.budget_ns // cost_ns)


def _warn_of_a_short_budget(
    sequence: Sequential, steps: Sequence[ResolvedRun], env: Environment, into: Store
) -> None:
    """Warn where it ends before any difference can be shown."""
    from reports.series import planned_repeats

    looks = sequence.plan.looks
    needed = planned_repeats([step.spec for step in steps], env.host["mode"], looks).needed
    blocks = _blocks_within(sequence, steps, into)
    if blocks is not None and needed is not None and blocks < needed:
        warn(
            RunWarning(
                "budget-too-short",
                "the budget ends before a difference can be shown",
                f"about {counted(blocks, 'repeat')} of {needed}",
                "give a larger --budget, or restrict the profile",
            )
        )


def _print_sequence(
    sequence: Sequential, finished: Sequence[StoredRun], ended: str, json_: bool
) -> None:
    """Print the runs, and each comparison with its repeats. As JSON ``{runs, sequence}``."""
    from reports.formatting import interval_text, times, verdict_text
    from reports.statistics import Value

    found, looks = results(sequence, finished), sequence.plan.looks
    if json_:
        rule = {"looks": looks, "counts": list(sequence.counts), "ended": ended}
        runs = [stored.document for stored in finished]
        print_json({"runs": runs, "sequence": {**rule, "comparisons": as_json(found)}})
        return
    show.runs(finished, json_)
    print_table(
        ("engine", "compared", "repeats", "speed-up", "interval", "verdict"),
        [
            (
                one.context.get("engine", ""),
                f"{one.b} against {one.a}",
                one.repeats,
                times(one.speed_up),
                interval_text(Value(one.speed_up, one.low, one.high, one.confidence or 0.0)),
                verdict_text(one.verdict),
            )
            for one in found
        ],
        title=f"ended: {ended}"
        + (f"; intervals and verdicts are corrected for {looks} looks" if looks > 1 else ""),
    )


def print_run_list(
    steps: Sequence[ResolvedRun],
    env: Environment,
    earlier: Store,
    json_: bool,
    sequence: Sequential | None = None,
) -> None:
    """Print the runs of a plan and their estimates; ``earlier``: runs to estimate from.

    Of a ``sequence`` the runs before its first look.

    As JSON ``{plan: [a run each], estimated_duration_ns, repeats: {…}, expected: [an engine
    each], counts: [repeats at each look], budget_repeats}``; ``budget_repeats`` None if not known.
    """
    within = _blocks_within(sequence, steps, earlier) if sequence else None
    repeats, expected = _forecast(steps, env, earlier, sequence.plan.looks if sequence else 1)
    counts = list(sequence.counts) if sequence else []
    steps = [step for step in steps if not counts or step.spec.block < counts[0]]
    times = Estimator(earlier.runs())
    rows = list_rows(steps, times)
    total_ns = times.total_ns(steps)
    if json_:
        print_json(
            {
                "plan": rows,
                "estimated_duration_ns": total_ns,
                "repeats": asdict(repeats),
                "expected": as_json(expected),
                "counts": counts,
                "budget_repeats": within,
            }
        )
        return
    alike = Counter(
        (
            row["engine"],
            row["version"] or "–",
            row["placement"],
            difference,
            ", ".join(f"{part} {format_bytes(n)}" for part, n in row["needs_bytes"].items()),
            f"complete: {row['complete']}" if row["complete"] else _to_run(row["why"]),
        )
        for row, difference in zip(rows, _differences([step.spec for step in steps]), strict=True)
    )
    print_table(
        ("engine", "version", "placement", "with", "needs", "state", "runs"),
        [(*row, count) for row, count in alike.items()],
        title=f"{counted(len(rows), 'run')}, {sum(r['complete'] is None for r in rows)} to do"
        f"{_how_long(rows, total_ns)}; no run is started",
    )
    for text in filter(None, (repeats.text, *(one.text for one in expected))):
        say(text)
    if within is not None:
        say(f"the budget allows about {counted(within, 'repeat')}")
    elif sequence and sequence.goal.budget_ns is not None:
        say("what the budget allows is known after one repeat: there are no earlier runs of these")
    if len(counts) > 1:
        say(f"results decide after {', '.join(map(str, counts))} repeats; listed are the first")
    if shared := _shared([step.spec for step in steps]):
        say(f"all runs: {shared}")


def list_rows(steps: Sequence[ResolvedRun], times: Estimator) -> list[dict[str, Any]]:
    """List what is known of each run beforehand."""
    rows = []
    for step in steps:
        spec, took = step.spec, times.run_time(step)
        row = {
            "spec_hash": spec.hash(),
            "workload": spec.workload,
            "engine": spec.engine,
            "version": None,
            "placement": spec.where,
            "block": spec.block,
            "params": dict(spec.params),
            "least_duration_ns": least_ns(spec),
            "estimated_duration_ns": took.duration_ns if took else None,
            "estimated_from": took.basis if took else None,
            "needs_bytes": dict(step.needs_bytes),
            "complete": step.done.run_id if step.done else None,
            "host_mode": spec.required_host_mode,
            "why": step.why,
        }
        rows.append(row | dict(step.details))
    return rows


def _forecast(
    steps: Sequence[ResolvedRun], env: Environment, into: Store, looks: int
) -> tuple[PlannedRepeats, list[Expected]]:
    """What the repeats can show, and what they resolve where the noise was calibrated."""
    from reports.noise import expected
    from reports.series import planned_repeats

    specs = [step.spec for step in steps]
    repeats = planned_repeats(specs, env.host["mode"], looks)
    if not repeats.comparisons:
        return repeats, []
    calibrations = CalibrationStore(into.root).all()
    host_id = str(env.host["host_id"])
    found = []
    for spec in {spec.engine: spec for spec in reversed(specs)}.values():
        if (latest := latest_of(calibrations, host_id, spec)) is not None:
            level = repeats.level / repeats.comparisons
            found.append(expected(latest, spec, repeats.repeats, level))
    return repeats, [one for one in found if one is not None]


def plan_json(steps: Sequence[ResolvedRun], earlier: Store) -> dict[str, Any]:
    """``{plan: [a run each], estimated_duration_ns}``, as every dry run has them."""
    times = Estimator(earlier.runs())
    return {"plan": list_rows(steps, times), "estimated_duration_ns": times.total_ns(steps)}


def _how_long(rows: Sequence[Mapping[str, Any]], estimated_ns: int | None) -> str:
    """The estimate with its basis, and the part of ramp-up and windows."""
    to_do = [row for row in rows if row["complete"] is None]
    shortest_ns = sum(row["least_duration_ns"] for row in to_do)
    windows = f"{hours(shortest_ns)} of it ramp-up and windows" if shortest_ns else ""
    if not estimated_ns:
        return f", at least {windows.replace(' of it', ' of')}" if windows else ""
    bases = dict.fromkeys(row["estimated_from"] for row in to_do)
    known = f"by {' and '.join(bases)}, without loading data"
    return f", about {hours(estimated_ns)} ({'; '.join(filter(None, (known, windows)))})"


def hours(duration_ns: int) -> str:
    """``2 h 20 min``; shorter ones in seconds."""
    minutes = round(duration_ns / 60e9)
    if minutes < 10:
        return format_ns(duration_ns)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def _shared(specs: Sequence[RunSpec]) -> str:
    """The parameters that all runs of the plan share, but for defaults."""
    documents = [set_params(spec) for spec in specs]
    names = [
        name
        for name in dict.fromkeys(name for one in documents for name in one)
        if len({canonical_json(one.get(name)) for one in documents}) == 1
    ]
    first = documents[0] if documents else {}
    return ", ".join(_named(name, first[name]) for name in names if first.get(name) is not None)


#: Keys that distinguish the runs of a plan, in addition to engine, placement and block.
_DISTINCTIVE = (
    "driver",
    "tuning",
    "settings",
    "engine_options",
    "threads",
    "cpus",
    "listen",
    "memory_limit_bytes",
    "required_host_mode",
)


def _differences(specs: Sequence[RunSpec]) -> list[str]:
    """``q6_dates 1994-01-01 to 1995-01-01, cpus 0``: the values in which each run differs."""
    flat = []
    for spec in specs:
        document = spec.to_json()
        params = document["params"]
        own = {f"engine {n}" if n in params else n: document.get(n) for n in _DISTINCTIVE}
        flat.append(params | own)
    names = dict.fromkeys(name for one in flat for name in one)
    apart = [name for name in names if len({canonical_json(one.get(name)) for one in flat}) > 1]
    return [", ".join(_named(name, one[name]) for name in apart if one.get(name)) for one in flat]


def _named(name: str, value: Any) -> str:
    if name == "memory_limit_bytes":
        return f"memory limit {format_bytes(value)}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {inner}" for key, inner in value.items())
    shown = name.removeprefix("required_").replace("host_mode", "host mode")
    return f"{shown} {show.parameter_text(value)}"


def _to_run(why: str) -> str:
    return f"to run: {why}" if why else "to run"
