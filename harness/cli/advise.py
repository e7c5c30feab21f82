"""``harness advise WORKLOAD``: which part of a database pays off on a faster device."""

from __future__ import annotations

import math
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from harness import registry
from harness.cli.advise_memory import MEMORY, MemoryArm, memory_arms
from harness.cli.advise_relations import MOST_ARMS, budgets, check_engine, relation_arms
from harness.cli.common import given, print_json, stand_ins, store
from harness.cli.curve import (
    NOT_OF_PLANNED_RUNS,
    CurveOptions,
    More,
    curve,
    refuse_several,
    say_more,
)
from harness.cli.options import workload_commands
from harness.cli.run import RunOptions, of_arms, plan_of
from harness.cli.show import exit_for
from harness.cli.study import conduct, conduct_experiment
from harness.errors import RunFailed, UsageError
from harness.execution.environment import command_environment
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_time import Estimator, assumed_overhead_ns
from harness.experiment.placement import PARTS
from harness.experiment.profile import Plan
from harness.experiment.sequential import Goal
from harness.experiment.study import Made, Study
from harness.metrics import load_of
from harness.models.curve import FACTORS
from harness.models.device import find_model
from harness.monitors.io import IoMonitor
from harness.store.documents import as_json
from harness.store.runs import StoredRun
from harness.store.spec import RunSpec, content_hash
from harness.terminal import say, say_command
from harness.tiers.linux.model import DIRECTORY_KINDS, TIER_NAME, Tier
from harness.units import NS_PER_S, counted, format_bytes, parse_duration_ns
from harness.workloads.parameters import Parameters, option_text

if TYPE_CHECKING:
    from reports.advice import PlacementPrediction
    from reports.relations import RelationUse

#: A difference that is not shown is excluded from this share on.
_RESOLVE = 0.05
_MOST_PAIRS = 24
#: Of a response curve: repeats that show a difference, and the fewest that are measured.
_DECIDING_REPEATS, _FEWEST_REPEATS = 6, 3
_LOOKS = 2
#: Typical data of a run that has to be short; the upper estimate would leave no time for windows.
#: Earlier runs do not count: the same command has the same phases again, so that it resumes.
_OTHER_NS = assumed_overhead_ns(copied_bytes=450_000_000)
#: Runs that have less time have less data, too: restoring and checking them takes most of it.
_SHORT_RUN_S = 25.0
_SHORTEST_S, _LONGEST_S = 3.0, 120.0
_BUDGET = "20m"
#: Of the hash in an experiment's name.
_NAME_DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class AdviseOptions(RunOptions):
    """Options of ``harness advise``, in addition to those of a run."""

    from_: Annotated[str, typer.Option("--from", metavar="TIER", help="Today's tier.")] = "ssd"
    to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TIER|MODEL|memory=TIER",
            help="Faster tier, or a model of a device; may repeat [other tiers, else a curve]. "
            "memory=cxl: does more, slower memory pay?",
        ),
    ] = None
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE[,SIZE]",
            help="Cap on the engine and its page cache: 4GiB. With --to memory=TIER: today's "
            "memory and the total, 52GiB,208GiB.",
        ),
    ] = None
    budget: Annotated[
        str,
        typer.Option(
            metavar="DURATION[,SIZE]",
            help="Time of this command, loading included. With --by-table also bytes to move: "
            "10GB.",
        ),
    ] = _BUDGET
    by_table: Annotated[
        bool, typer.Option("--by-table", help="Which tables and indexes to move, not parts.")
    ] = False


@dataclass(frozen=True)
class _Trials:
    """Arms of the plan. ``arms``: parts that move, and their tier, by placement; without today's.

    ``today``: its placement, and its tier in words. ``memory``: arms of a question of memory.
    ``notes``: what is not tried, and why.
    """

    today: tuple[str, str]
    arms: Mapping[str, tuple[tuple[str, ...], str]]
    memory: tuple[MemoryArm, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def every(self) -> dict[str, tuple[tuple[str, ...], str]]:
        """Return the arms, today's first."""
        placement, tier = self.today
        return {placement: ((), tier), **self.arms}

    def plan(self, parameters: type[Parameters], options: AdviseOptions) -> Plan:
        """Return the plan of all arms."""
        if not self.memory:
            return plan_of(parameters, replace(options, placement=[*self.every]))
        each = (
            replace(
                options,
                placement=[arm.placement],
                memory_limit=str(arm.limit_bytes),
                label=arm.label,
            )
            for arm in self.memory
        )
        return of_arms([plan_of(parameters, arm) for arm in each])


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
    duration, budget_bytes = budgets(options.budget, _BUDGET)
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
        _by_table(parameters, options, every_tier, budget_bytes)
        return
    parts = _parts(parameters, options)
    trials = _memory_trials(options, every_tier) if of_memory else None
    if trials is None:
        tiers = _faster(options, every_tier)
        if not tiers:
            _by_curve(parameters, options, parts)
            return
        today = (f"{options.from_}-both", options.from_)
        trials = _Trials(today, _arms(options.from_, tiers, parts))
    budget_ns = parse_duration_ns(options.budget)
    arms = len(trials.every)
    # Of a question of memory the data must not fit in today's.
    less = {} if of_memory else _less_data(parameters, options, budget_ns / 1e9, arms)
    sized = {**less, **options.pairs}
    phases = _phases(parameters, sized, budget_ns / 1e9, arms, _pairs(arms))
    name = f"advise-{parameters.workload}-{(options.engine or [''])[0]}"
    options = replace(options, name=name, pairs=phases)
    goal = Goal(budget_ns, _RESOLVE, _MOST_PAIRS, _LOOKS)
    # Runs of other options are of another experiment: they are not in its report.
    series = {spec.series() for spec in trials.plan(parameters, options).runs}
    options = replace(options, name=f"{name}-{content_hash(sorted(series))[:_NAME_DIGITS]}")
    plan = trials.plan(parameters, options)
    expectations = [] if of_memory else _expected(plan, options, every_tier, str(host_id))
    if not options.json_:
        for line in (*trials.notes, *(expectation.sentence for expectation in expectations)):
            say(line)
    answer = partial(_answer, trials, options, less, expectations)
    check = partial(_check_data, parameters, trials) if of_memory else None
    conduct_experiment(plan, options, False, goal, answer=answer, check=check)


def _by_table(
    parameters: type[Parameters],
    options: AdviseOptions,
    tiers: Mapping[str, Tier],
    budget_bytes: int | None,
) -> None:
    """Measure which tables and indexes pay off on the faster tier, and print the answer."""
    from reports.relations import relation_uses

    began_ns = time.monotonic_ns()
    factory = registry.engine((options.engine or [""])[0], parameters.workload)
    check_engine(factory)
    if IoMonitor.name in (options.no_monitor or ()):
        context = "the I/O trace ranks the tables"
        raise UsageError("advise --by-table --no-monitor io", context, "leave --no-monitor out")
    faster = _faster(options, tiers)
    if len(faster) != 1:
        context = f"there are several: {', '.join(faster)}" if faster else "there is no other tier"
        raise UsageError("advise --by-table", context, "name one faster tier: --to TIER")
    today, (to,) = f"{options.from_}-both", faster
    supported = factory.supported_parts({})
    stay = "".join(f",{part}={options.from_}" for part in ("wal", "temp") if part in supported)
    everything = f"data={to}{stay}"
    budget_ns = parse_duration_ns(options.budget)
    less = _less_data(parameters, options, budget_ns / 1e9, MOST_ARMS)
    sized = {**less, **options.pairs}
    pairs = _phases(parameters, sized, budget_ns / 1e9, MOST_ARMS, _pairs(MOST_ARMS))
    name = f"advise-{parameters.workload}-{factory.name}-tables"
    options = replace(options, name=name, pairs=pairs)
    # Not one of the arms: it chooses them.
    ranking = replace(options, placement=[today], label="ranking", name=f"{name}-ranking")
    made = list[Made]()
    plan = plan_of(parameters, ranking)
    conduct(ranking, plan.emulate, lambda _: Study(plan, made.append, again=False))
    if options.dry_run:
        if not options.json_:
            say("The other arms follow from this run: it ranks tables and indexes.")
        return
    attempts = [run for batch in made[0].batches for run in batch] or made[0].attempts
    complete = [run for run in attempts if run.result.status != "failed"]
    if not complete:
        exit_for(made[0].attempts)
        raise RunFailed("advise --by-table", "the run that ranks tables is not complete", "")
    uses = relation_uses(complete[-1])
    arms = relation_arms(uses, options.from_, tiers[to], everything, factory, budget_bytes)
    if not arms.placements:
        _print_no_relation(uses, options)
        return
    every = [*arms.placements, *([arms.everything] if arms.everything else [])]
    trials = _Trials(
        (today, options.from_), dict.fromkeys(every, (("relations",), to)), notes=arms.notes
    )
    series = {spec.series() for spec in trials.plan(parameters, options).runs}
    options = replace(options, name=f"{name}-{content_hash(sorted(series))[:_NAME_DIGITS]}")
    left_ns = max(1, budget_ns - (time.monotonic_ns() - began_ns))
    goal = Goal(left_ns, _RESOLVE, _MOST_PAIRS, _LOOKS)
    if not options.json_:
        for line in arms.notes:
            say(line)
    suffix = f",{budget_bytes}B" if budget_bytes is not None else ""
    answer = partial(_answer_by_table, trials, options, less, suffix)
    conduct_experiment(trials.plan(parameters, options), options, False, goal, answer=answer)


def _print_no_relation(uses: Sequence[RelationUse], options: AdviseOptions) -> None:
    """Print that nothing is to be measured."""
    reason = (
        "no session waited for a table or an index"
        if uses
        else "the trace saw no table (see the warnings of the run)"
    )
    sentence = f"Leave tables and indexes on {options.from_}: {reason}."
    if options.json_:
        answer = {"question": "Which tables and indexes should move?", "sentence": sentence}
        print_json({"answers": [{**answer, "rows": [], "arms": []}]})
        return
    say(sentence)


def _answer_by_table(
    planned: _Trials, options: AdviseOptions, less: Mapping[str, str], suffix: str, made: Made
) -> None:
    """Print the answer of ``--by-table``. ``suffix``: the bytes of its budget."""
    from reports.advice import measured, trials_of
    from reports.page import print_blocks
    from reports.relations import relation_answers
    from reports.series import panels

    base, _ = planned.today
    usable = [run for run in made.attempts if run.result.status != "failed"]
    today = next((arm for arm in trials_of(usable, planned.every) if arm.placement == base), None)
    answers = list(relation_answers(panels(usable, "placement", base))) if today else []
    pairs = min((len(arm.runs) for arm in trials_of(usable, planned.every)), default=0)
    further_ns = _further_ns(usable, pairs, len(planned.every)) or parse_duration_ns(options.budget)
    more = _more(options, further_ns, less=tuple(less), suffix=suffix)
    if today is None or not answers:
        raise RunFailed(
            "advise --by-table", "no two arms are complete", f"see the failed runs; {more.text}"
        )
    (answer,) = answers
    if options.json_:
        document = {"answers": [answer.to_json()], "ended": made.ended, "experiment": options.name}
        on = {"measured": measured(today), "less_data": dict(less), "not_tried": [*planned.notes]}
        print_json({**document, **on, "more": more.to_json() if answer.undecided else None})
        exit_for(made.attempts)
        return
    say(answer.sentence)
    print_blocks(answer.tables())
    say(f"Measured: {measured(today)}.")
    if answer.undecided:
        say_more(more)
    say(f"ended: {made.ended}. A report with a chart of bytes and gain:")
    say_command(f"harness report -e {options.name}{given(options.results)}")
    exit_for(made.attempts)


def _check_data(
    parameters: type[Parameters], trials: _Trials, block: Sequence[ResolvedRun]
) -> None:
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


def _memory_trials(options: AdviseOptions, tiers: Mapping[str, Tier]) -> _Trials:
    """Return the arms of ``--to memory=cxl``."""
    to, *more = list(options.to or ())
    if more:
        context = f"--to is given {1 + len(more)} times"
        raise UsageError("advise --to memory=TIER", context, "give it alone")
    _check_from(options, tiers)
    slower = to.removeprefix(MEMORY.rstrip("=")).removeprefix("=")
    question = memory_arms(options.from_, slower, options.memory_limit, tiers)
    today, *others = question.arms
    arms = {arm.placement: (("memory",), arm.memory) for arm in others}
    return _Trials((today.placement, today.memory), arms, question.arms, question.untried)


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


def _faster(options: AdviseOptions, tiers: Mapping[str, Tier]) -> list[str]:
    """Return the tiers to try: those that are named, else every other directory of the host."""
    _check_from(options, tiers)
    for name in options.to or ():
        if name not in tiers:
            context = f"no tier and no device model has this name (tiers: {', '.join(tiers)})"
            raise UsageError(f"--to {name}", context, "`harness model list` lists the models")
        if tiers[name].facts.kind == "numa":
            context = f"{name} is a tier of memory, without files"
            raise UsageError(f"--to {name}", context, f"did you mean --to {MEMORY}{name}?")
    others = [n for n, tier in tiers.items() if tier.facts.kind in DIRECTORY_KINDS]
    return list(options.to or [name for name in others if name != options.from_])


def _check_from(options: AdviseOptions, tiers: Mapping[str, Tier]) -> None:
    if options.from_ not in tiers:
        names = ", ".join(tiers)
        raise UsageError(f"--from {options.from_}", "no such tier", f"tiers: {names}")


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


def _pairs(arms: int) -> int:
    """Return how many pairs can show a difference, with each look at each comparison.

    Arms are compared with today's, and those that move something with one another.
    """
    from reports.ranks import repeats_needed
    from reports.statistics import ALPHA

    family = max(arms - 1, math.comb(arms - 1, 2))
    return repeats_needed(ALPHA / _LOOKS / family, "paired")


def _less_data(
    parameters: type[Parameters], options: AdviseOptions, budget_s: float, arms: int
) -> dict[str, str]:
    """Return the parameters that make less data than by default where runs have to be short."""
    if budget_s / (_pairs(arms) * arms) >= _SHORT_RUN_S:
        return {}
    return {name: v for name, v in parameters.small.items() if name not in options.pairs}


def _phases(
    parameters: type[Parameters],
    given: Mapping[str, str],
    budget_s: float,
    arms: int,
    pairs: int,
) -> dict[str, str]:
    """Return phases with which the budget has as many pairs as show a difference."""
    loads = load_of(parameters.workload, given) is not None
    phased = loads and {"ramp_up", "duration"} <= parameters.declared().keys()
    if "operations" in given or not phased:
        return dict(given)
    each_s = 0.85 * budget_s / (pairs * arms) - _OTHER_NS / NS_PER_S
    window_s = min(_LONGEST_S, max(_SHORTEST_S, each_s * 0.75))
    ramp_up_s = max(1.0, window_s / 4)
    return {"ramp_up": f"{ramp_up_s:.0f}s", "duration": f"{window_s:.0f}s", **given}


def _by_curve(parameters: type[Parameters], options: AdviseOptions, parts: Sequence[str]) -> None:
    """No second tier: measure how fast the device of each part has to be, within the budget."""
    budget_s = parse_duration_ns(options.budget) / 1e9
    points = 1 + len(FACTORS) * (len(parts) or 1)
    repeats, pairs, took_s = _repeats_of_curve(parameters, options, budget_s, points)
    names = {"from_", "to", "budget", "pairs", "repeats"}
    common = {k: v for k, v in vars(options).items() if k not in names}
    chosen = ",".join(parts) or "data"
    options = replace(options, pairs=pairs)
    more_ns = round(took_s * 1e9) * (_DECIDING_REPEATS - repeats) // repeats
    wanted = ["--parts", chosen, "--repeats", str(_DECIDING_REPEATS)]
    curve(
        parameters,
        CurveOptions(
            **common,
            pairs=pairs,
            repeats=repeats,
            from_=options.from_,
            parts=chosen,
            out=Path("curve"),
        ),
        _more(options, more_ns, "curve", wanted) if more_ns else None,
    )


def _repeats_of_curve(
    parameters: type[Parameters], options: AdviseOptions, budget_s: float, points: int
) -> tuple[int, dict[str, str], float]:
    """Return repeats, phases and seconds that fit into the budget; UsageError where none do."""
    for repeats in (_DECIDING_REPEATS, _FEWEST_REPEATS):
        count = repeats * points
        pairs = _phases(parameters, options.pairs, budget_s, points, repeats)
        phases = (pairs[name] for name in ("ramp_up", "duration") if name in pairs)
        took_s = count * (_OTHER_NS + sum(map(parse_duration_ns, phases))) / NS_PER_S
        if took_s <= budget_s:
            return repeats, pairs, took_s
    minutes = math.ceil(took_s / 60)
    raise UsageError(
        f"--budget {options.budget}",
        f"a response curve takes {count} runs, about {counted(minutes, 'minute')}",
        f"give --budget {minutes}m, or a second tier (--to, --emulate, --model)",
    )


def _answer(
    trials: _Trials,
    options: AdviseOptions,
    less: Mapping[str, str],
    expectations: Sequence[PlacementPrediction],
    made: Made,
) -> None:
    """Print the answers. ``less``: parameters with which there were less data than by default."""
    _print(trials, options, less, expectations, made.attempts, made.ended)
    exit_for(made.attempts)


def _print(
    planned: _Trials,
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
    further_ns = _further_ns(runs, pairs, len(planned.every)) or parse_duration_ns(options.budget)
    more = _more(options, further_ns, less=tuple(less))
    misplaced = _misplaced(runs)
    if today.placement != base or not trials:
        context = f"runs are complete of {today.placement if today.runs else 'no placement'} alone"
        hint = f"see the failed runs above; {more.text}"
        raise RunFailed("advise", "; ".join([context, *misplaced]), _FREE if misplaced else hint)
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


def _data(planned: _Trials, runs: Sequence[StoredRun]) -> dict[str, int] | None:
    """Return the data's size, and whether they fit in today's memory.

    None unless the question is one of memory, and the size is known.
    """
    size = max((run.result.data_bytes or 0 for run in runs), default=0)
    if not planned.memory or not size:
        return None
    return {"bytes": size, "fit_in_memory": size <= planned.memory[0].limit_bytes}


def _further_ns(runs: Sequence[StoredRun], pairs: int, arms: int) -> int | None:
    """Return how long the pairs take that are missing, by those so far; None where there are none.

    A continued command is corrected for a look more, which takes a pair more.
    """
    steps = {run.spec.series(): ResolvedRun(run.spec) for run in runs}
    block_ns = Estimator(runs).total_ns(steps.values())
    missing = max(1, _pairs(arms) + 1 - pairs)
    return round(1.2 * block_ns * missing) if block_ns else None


def _more(
    options: AdviseOptions,
    further_ns: int,
    command: str = "advise",
    wanted: Sequence[str] = (),
    less: Sequence[str] = (),
    suffix: str = "",
) -> More:
    """Return the command that keeps the complete runs, with these phases and as much data.

    ``wanted``: its own options; without any, the further time as its budget. ``less``: the
    parameters that made less data, which a larger budget would not. ``suffix``: of the budget.
    """
    minutes = math.ceil(further_ns / 60e9)
    words = [Path(sys.argv[0]).name, command, *sys.argv[2:]]
    retained = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if before != "--budget" and not word.startswith("--budget") and word != "--again"
    ]
    phases = [
        word
        for name in (*less, "ramp_up", "duration")
        if name in options.pairs and option_text(name) not in retained
        for word in (option_text(name), options.pairs[name])
    ]
    ends = wanted or ["--budget", f"{minutes}m{suffix}"]
    return More(minutes, shlex.join([*retained, *phases, *ends]))


app = workload_commands(
    AdviseOptions,
    advise,
    "Measure what moving each part gains, or more memory; the first line is the answer.",
    (*NOT_OF_PLANNED_RUNS, "repeats"),
)
