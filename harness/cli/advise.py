"""``harness advise WORKLOAD``: which part of a database pays off on a faster device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from harness import registry
from harness.cli.advise_memory import MEMORY, memory_arms
from harness.cli.advise_relations import advise_by_table, budgets
from harness.cli.advise_trials import (
    BUDGET,
    LOOKS,
    MOST_PAIRS,
    NAME_DIGITS,
    OTHER_NS,
    RESOLVE,
    AdviseOptions,
    Trials,
    check_from,
    faster_tiers,
    further_ns,
    less_data,
    more_command,
    pairs_needed,
    phases_within,
    unanswered,
)
from harness.cli.common import given, print_json, stand_ins, store
from harness.cli.curve import (
    NOT_OF_PLANNED_RUNS,
    CurveOptions,
    curve,
    refuse_several,
    say_more,
)
from harness.cli.options import workload_commands
from harness.cli.run_plan import RunOptions
from harness.cli.show import exit_for
from harness.cli.study import conduct_experiment
from harness.errors import RunFailed, UsageError
from harness.execution.environment import command_environment
from harness.execution.resolved_run import ResolvedRun
from harness.experiment.placement import PARTS
from harness.experiment.profile import Plan
from harness.experiment.sequential import Goal
from harness.experiment.study import Made
from harness.metrics import load_of
from harness.models.curve import FACTORS
from harness.models.model_file import find_model
from harness.store.documents import as_json
from harness.store.runs import StoredRun
from harness.store.spec import RunSpec, content_hash
from harness.terminal import say, say_command
from harness.tiers.linux.model import TIER_NAME, Tier
from harness.units import NS_PER_S, counted, format_bytes, parse_duration_ns
from harness.workloads.parameters import Parameters

if TYPE_CHECKING:
    from reports.advice import PlacementPrediction

#: Of a response curve: repeats that show a difference, and the fewest that are measured.
_DECIDING_REPEATS, _FEWEST_REPEATS = 6, 3


def advise(parameters: type[Parameters], options: AdviseOptions) -> None:
    """Measure what moving each part would gain, and print the answer first."""
    of_memory = any(f"{name}=".startswith(MEMORY) for name in options.to or ())
    if options.to and not of_memory and "," in (options.memory_limit or ""):
        raise UsageError(
            f"advise --to {options.to[0]} --memory-limit {options.memory_limit}",
            "two sizes are for a question of memory",
            f"did you mean --to {MEMORY}{options.to[0]}?",
        )
    refuse_several("advise", replace(options, memory_limit=None) if of_memory else options)
    duration, budget_bytes = budgets(options.budget, BUDGET)
    if budget_bytes is not None and not options.by_table:
        raise UsageError(
            f"--budget {options.budget}",
            "a size is the budget of --by-table",
            "add --by-table, or give a duration",
        )
    options = replace(options, budget=duration)
    options = options if of_memory else _with_models(options)
    requests = stand_ins(options.emulate, options.model)
    with command_environment(options.host, requests, options.quiet) as env:
        every_tier, host_id = env.tiers, env.host.host_id
    if options.by_table:
        advise_by_table(parameters, options, every_tier, budget_bytes)
        return
    parts = _parts(parameters, options)
    trials = _memory_trials(options, every_tier) if of_memory else None
    near = trials.cpus if trials and options.cpus is None else None
    options = replace(options, cpus=options.cpus or near)
    if trials is None:
        tiers = faster_tiers(options, every_tier)
        if not tiers:
            _by_curve(parameters, options, parts)
            return
        today = (f"{options.from_}-both", options.from_)
        trials = Trials(today, _arms(options.from_, tiers, parts))
    budget_ns = parse_duration_ns(options.budget)
    arms = len(trials.every)
    # Of a question of memory the data must not fit in today's.
    less = {} if of_memory else less_data(parameters, options, budget_ns / 1e9, arms)
    sized = {**less, **options.pairs}
    phases = phases_within(parameters, sized, budget_ns / 1e9, arms, pairs_needed(arms))
    name = f"advise-{parameters.workload}-{(options.engine or [''])[0]}"
    options = replace(options, name=name, pairs=phases)
    goal = Goal(budget_ns, RESOLVE, MOST_PAIRS, LOOKS)
    # Runs of other options are of another experiment: they are not in its report.
    series = {spec.series() for spec in trials.plan(parameters, options).runs}
    options = replace(options, name=f"{name}-{content_hash(sorted(series))[:NAME_DIGITS]}")
    plan = trials.plan(parameters, options)
    expectations = [] if of_memory else _expected(plan, options, every_tier, str(host_id))
    if not options.json_:
        of_cpus = (f"processors: {near}, those next to dram (--cpus names others)",) if near else ()
        expected = (expectation.sentence for expectation in expectations)
        for line in (*of_cpus, *trials.notes, *expected):
            say(line)
    answer = partial(_answer, trials, options, less, expectations)
    check = partial(_check_data, parameters, trials) if of_memory else None
    conduct_experiment(plan, options, False, goal, answer=answer, check=check)


def _check_data(parameters: type[Parameters], trials: Trials, block: Sequence[ResolvedRun]) -> None:
    """UsageError where the data fit in today's memory: more of it can gain nothing."""
    today, *others = trials.memory
    step = block[0]
    if not 0 < step.copied_bytes <= today.limit_bytes:
        return
    largest = max(arm.limit_bytes for arm in others)
    hint = "give more data"
    for parameter in parameters.options().values():
        size = step.spec.params.get(parameter.name)
        if parameter.option in parameters.smaller.split() and isinstance(size, int | float):
            more = math.ceil(size * largest / step.copied_bytes)
            hint = f"give more data, up to {parameter.option} {more} for {format_bytes(largest)}"
    raise UsageError(
        f"advise {parameters.workload} --to {MEMORY}TIER",
        f"the data, at most {format_bytes(step.copied_bytes)}, fit in today's memory of "
        f"{format_bytes(today.limit_bytes)}: more memory gains nothing",
        hint,
    )


def _memory_trials(options: AdviseOptions, tiers: Mapping[str, Tier]) -> Trials:
    """Return the arms of ``--to memory=cxl``."""
    to, *more = list(options.to or ())
    if more:
        context = f"--to is given {1 + len(more)} times"
        raise UsageError("advise --to memory=TIER", context, "give it alone")
    check_from(options, tiers)
    slower = to.removeprefix(MEMORY.rstrip("=")).removeprefix("=")
    question = memory_arms(options.from_, slower, options.memory_limit, tiers)
    today, *others = question.arms
    arms = {arm.placement: (("memory",), arm.memory) for arm in others}
    arms_today = (today.placement, today.memory)
    return Trials(arms_today, arms, question.arms, question.untried, question.cpus)


def _expected(
    plan: Plan, options: AdviseOptions, tiers: Mapping[str, Tier], host_id: str
) -> list[PlacementPrediction]:
    """Predict the arms by earlier runs of today's on this host, whatever their phases."""
    from reports.advice import expected
    from reports.explain.devices import TierSources

    def without_phases(spec: RunSpec) -> str:
        params = {k: v for k, v in spec.params.items() if k not in ("ramp_up", "duration")}
        return msgspec.structs.replace(spec, params=params, label=None).series()

    placements: dict[str, dict[str, str]] = {
        spec.placement.name: {
            part: _device(tiers[tier]) for part in PARTS if (tier := spec.placement.tier_of(part))
        }
        for spec in plan.runs
        if spec.placement and not any(tiers[tier].model for tier in spec.placement.tiers())
    }
    base = f"{options.from_}-both"
    placements.pop(base, None)
    planned = {without_phases(s) for s in plan.runs if s.placement and s.placement.name == base}
    every = store(options.results).runs()
    today = [
        run
        for run in every
        if run.head.host
        and run.head.host.host_id == host_id
        and run.spec.engine == (options.engine or [""])[0]
        and without_phases(run.spec) in planned
    ]
    return expected(today, placements, TierSources.of(every, ()))


def _device(tier: Tier) -> str:
    """The tier as reports name it, with what stands in for it."""
    return f"{tier.name} by {tier.stand_in}" if tier.emulated else tier.name


def _with_models(options: AdviseOptions) -> AdviseOptions:
    """A device model that is named as a tier becomes a modelled tier: ``--to optane-p4800x``."""
    to, model = [], list(options.model or ())
    named = {word.partition("=")[0] for word in (*model, *(options.emulate or ()))}
    for name in options.to or ():
        tier = "".join(c if c.isalnum() else "_" for c in name)
        if name in named or (TIER_NAME.match(name) and not _is_model(name)):
            to.append(name)
            continue
        find_model(name)
        to.append(tier)
        model.append(f"{tier}={name}")
    return replace(options, to=to or None, model=model or None)


def _is_model(name: str) -> bool:
    try:
        find_model(name)
    except UsageError:
        return False
    return True


def _parts(parameters: type[Parameters], options: AdviseOptions) -> tuple[str, ...]:
    """Return the parts that may move alone: of a workload that writes, the log and the data."""
    engine = registry.engine((options.engine or [""])[0], parameters.workload)
    apart = {"data", "wal"} <= set(engine.supported_parts({}))
    writes = load_of(parameters.workload, options.pairs) is not None
    return ("wal", "data") if apart and writes else ()


def _arms(
    today: str, tiers: Sequence[str], parts: Sequence[str]
) -> dict[str, tuple[tuple[str, ...], str]]:
    """Return the parts that move, and their tier, by placement: each part alone, and all."""
    arms: dict[str, tuple[tuple[str, ...], str]] = {}
    for tier in tiers:
        if parts:
            arms[f"{today}-data-{tier}-wal"] = (("wal",), tier)
            arms[f"{tier}-data-{today}-wal"] = (("data",), tier)
        arms[f"{tier}-both"] = (("wal", "data") if parts else ("data",), tier)
    return arms


def _by_curve(parameters: type[Parameters], options: AdviseOptions, parts: Sequence[str]) -> None:
    """No second tier: measure how fast the device of each part has to be, within the budget."""
    budget_s = parse_duration_ns(options.budget) / 1e9
    points = 1 + len(FACTORS) * (len(parts) or 1)
    repeats, pairs, took_s = _repeats_of_curve(parameters, options, budget_s, points)
    common = {f.name: getattr(options, f.name) for f in fields(RunOptions)}
    chosen = ",".join(parts) or "data"
    options = replace(options, pairs=pairs)
    more_ns = round(took_s * 1e9) * (_DECIDING_REPEATS - repeats) // repeats
    wanted = ["--parts", chosen, "--repeats", str(_DECIDING_REPEATS)]
    curve(
        parameters,
        CurveOptions(
            **{**common, "pairs": pairs, "repeats": repeats},
            from_=options.from_,
            parts=chosen,
            out=Path("curve"),
        ),
        more_command(options, more_ns, "curve", wanted) if more_ns else None,
    )


def _repeats_of_curve(
    parameters: type[Parameters], options: AdviseOptions, budget_s: float, points: int
) -> tuple[int, dict[str, str], float]:
    """Return repeats, phases and seconds that fit into the budget; UsageError where none do."""
    for repeats in (_DECIDING_REPEATS, _FEWEST_REPEATS):
        count = repeats * points
        pairs = phases_within(parameters, options.pairs, budget_s, points, repeats)
        phases = (pairs[name] for name in ("ramp_up", "duration") if name in pairs)
        took_s = count * (OTHER_NS + sum(map(parse_duration_ns, phases))) / NS_PER_S
        if took_s <= budget_s:
            return repeats, pairs, took_s
    minutes = math.ceil(took_s / 60)
    raise UsageError(
        f"--budget {options.budget}",
        f"a response curve takes {count} runs, about {counted(minutes, 'minute')}",
        f"give --budget {minutes}m, or a second tier (--to, --emulate, --model)",
    )


def _answer(
    trials: Trials,
    options: AdviseOptions,
    less: Mapping[str, str],
    expectations: Sequence[PlacementPrediction],
    made: Made,
) -> None:
    """Print the answers. ``less``: parameters with which there were less data than by default."""
    _print(trials, options, less, expectations, made.attempts, made.ended)
    exit_for(made.attempts)


def _print(
    planned: Trials,
    options: AdviseOptions,
    less: Mapping[str, str],
    expectations: Sequence[PlacementPrediction],
    runs: Sequence[StoredRun],
    ended: str,
) -> None:
    from reports.advice import (
        PlannedArm,
        answers,
        lines,
        measured,
        memory_prices,
        met,
        trials_of,
    )

    base, tier = planned.today
    today, *trials = trials_of(runs, planned.every) or [PlannedArm(base, (), tier, ())]
    pairs = min((len(trial.runs) for trial in trials), default=0)
    left_ns = further_ns(runs, pairs, len(planned.every)) or parse_duration_ns(options.budget)
    more = more_command(options, left_ns, less=tuple(less))
    misplaced = _misplaced(runs)
    if today.placement != base or not trials:
        complete = f"{today.placement} alone" if today.runs else "no placement"
        context = f"runs are complete of {complete}"
        if misplaced:
            raise RunFailed("advise", "; ".join([context, *misplaced]), _FREE)
        raise unanswered("advise", context, runs, ended, more)
    given_answers = answers(today, trials, runs)
    # More time does not help an arm whose memory was elsewhere.
    undecided = not misplaced and any(answer.undecided for answer in given_answers)
    checked = met(expectations, today, trials)
    prices = memory_prices(today, trials) if planned.memory else []
    if options.json_:
        documents = [answer.to_json() for answer in given_answers]
        document = {"answers": documents, "ended": ended, "experiment": options.name}
        on = {"measured": measured(today), "less_data": dict(less), "expected": as_json(checked)}
        memory = {
            "data": _data(planned, today.runs),
            "not_tried": [*planned.notes],
            "misplaced": misplaced,
            "prices": [price.to_json() for answer in prices for price in answer.prices],
        }
        more_json = more.to_json() if undecided else None
        print_json({**document, **on, **memory, "more": more_json})
        return
    for line in (*lines(given_answers), *(expectation.sentence for expectation in checked)):
        say(line)
    smaller = ", ".join(f"{name} {value}" for name, value in less.items())
    note = f" ({smaller}: less data than by default, so that runs fit into the budget)"
    say(f"Measured: {measured(today)}{note if less else ''}.")
    if (data := _data(planned, today.runs)) and data["fit_in_memory"]:
        size = format_bytes(data["bytes"])
        say(f"The data, {size}, fit in today's memory: the answer says nothing of more data.")
    for text in misplaced:
        say(f"{text} ({_FREE})")
    if undecided:
        say_more(more)
    say(f"ended: {ended}. A report with charts:")
    say_command(f"harness report -e {options.name}{given(options.results)}")
    for answer in prices:
        say(answer.sentence)


#: What helps an arm whose memory was not where its policy has it.
_FREE = "free memory on that node, or give a smaller --memory-limit"


def _misplaced(runs: Sequence[StoredRun]) -> list[str]:
    """Name each arm that failed the check of its memory, with what its nodes had left."""
    failed = {
        run.spec.arm or run.spec.where: check.detail
        for run in runs
        for check in run.result.checks
        if check.name == "memory-policy" and check.status == "failed"
    }
    return [f"{arm} failed its check memory-policy: {detail}" for arm, detail in failed.items()]


def _data(planned: Trials, runs: Sequence[StoredRun]) -> dict[str, int] | None:
    """Return the data's size, and whether they fit in today's memory.

    None unless the question is one of memory, and the size is known.
    """
    size = max((run.result.data_bytes or 0 for run in runs), default=0)
    if not planned.memory or not size:
        return None
    return {"bytes": size, "fit_in_memory": size <= planned.memory[0].limit_bytes}


app = workload_commands(
    AdviseOptions,
    advise,
    "Measure what moving each part gains, or more memory; the first line is the answer.",
    (*NOT_OF_PLANNED_RUNS, "repeats"),
)
