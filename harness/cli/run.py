"""``harness run WORKLOAD``: an experiment given on the command line.

A workload's sub-command has the options of its parameters (``harness/workloads/*/params.py``) and
those of :class:`harness.cli.run_plan.RunOptions`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import msgspec
import typer

from harness import registry
from harness.cli import micro
from harness.cli.common import (
    store,
)
from harness.cli.options import RunCommand, RunGroup, callback
from harness.cli.run_plan import RunOptions, arms_of, of_arms, plan_of, swept_of
from harness.cli.study import conduct, conduct_experiment
from harness.cli.target import list_search, print_target
from harness.errors import UsageError
from harness.execution.environment import Environment
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_list import checked_runs, last_attempts, plan_steps
from harness.execution.schedule import kept_of_interrupted
from harness.experiment.profile import Plan
from harness.experiment.selection import SHARES, peak_rates
from harness.experiment.study import Made, Study
from harness.experiment.target import TargetSearch, parse_target
from harness.metrics import workload_info
from harness.micro.keys import MicroParams
from harness.store.result import LatencyTarget
from harness.store.spec import RunSpec
from harness.terminal import say
from harness.units import parse_share
from harness.workloads.kinds import Count
from harness.workloads.parameters import Parameters, option_text

#: That of the closed-loop runs whose rates others are a share of.
_CAPACITY = "capacity"


def run(parameters: type[Parameters], options: RunOptions) -> None:
    """Run a workload on engines and placements."""
    rate = parameters.options().get("--rate")
    given = options.pairs.get(rate.name, "") if rate else ""
    if options.target is not None:
        _to_target(parameters, options, options.target)
    elif rate is not None and (options.load_curve or given.endswith("%")):
        _at_shares(parameters, options, rate.name, given)
    else:
        plans = []
        for arm in arms_of(parameters, options):
            swept, rest = swept_of(parameters, arm.pairs)
            plans.append(plan_of(parameters, replace(arm, pairs=rest), swept))
        plan = of_arms(plans)
        conduct_experiment(plan, options, again=True)


def _at_shares(parameters: type[Parameters], options: RunOptions, name: str, given: str) -> None:
    """Run at shares of what the arms do in a closed loop, which is measured first."""
    if options.load_curve and given:
        raise UsageError(
            f"--load-curve with --rate {given}", "it has rates of its own", "leave one of them out"
        )
    shares = SHARES if options.load_curve else tuple(map(parse_share, given.split(",")))
    pairs = {key: value for key, value in options.pairs.items() if key != name}
    curve = "load-curve" if options.load_curve else None
    options = replace(options, pairs=pairs, name=options.name or curve)
    one_each = replace(options, repeats=1, name=_CAPACITY, observe=None)

    def at(options: RunOptions, rates: Sequence[float] = ()) -> Plan:
        varied = {name: rates} if rates else None
        return of_arms([plan_of(parameters, a, varied) for a in arms_of(parameters, options)])

    probe = replace(at(one_each), several_commands=False)
    rated = at(options, [1])

    def closed_loop(env: Environment) -> Study:
        with rated.blaming():
            plan_steps(rated, env, store(options.results), again=True)
        return Study(probe, at_shares, again=options.again)

    def at_shares(made: Made) -> None:
        peaks = peak_rates(last_attempts(made.attempts))
        rates = peaks.rates(shares)
        if not options.quiet:
            offered = ", ".join(f"{rate:,}/s" for rate in rates)
            say(f"closed loop: {peaks.text}; offered: {offered}", file=sys.stderr)
        plan = peaks.within(at(options, rates), name, shares)
        conduct_experiment(plan, options, again=True)

    conduct(options, probe.emulate, closed_loop)


def _to_target(parameters: type[Parameters], options: RunOptions, text: str) -> None:
    """Search the most load within a latency on each arm."""
    target, users = _target(parameters, options, text)
    name = target.parameter
    options = replace(options, name=options.name or "target")

    def at(load: float | None) -> Plan:
        plans = []
        for arm in arms_of(parameters, options):
            swept, rest = swept_of(parameters, arm.pairs)
            pairs = {key: value for key, value in rest.items() if key != name}
            pairs |= {} if load is None else {name: f"{load:g}"}
            plans.append(plan_of(parameters, replace(arm, pairs=pairs), swept))
        return replace(of_arms(plans), target=target, several_commands=False)

    plan = at(None if users is None else users[0])

    def study_of(env: Environment) -> Study:
        into = store(options.results)
        earlier = [] if options.again else kept_of_interrupted(into, plan, env)

        def resolve(spec: RunSpec) -> ResolvedRun:
            of_window = replace(plan, runs=(spec,), part_of=plan.hash)
            (step,) = plan_steps(of_window, env, into, again=True, resume=True, completed=earlier)
            return step

        if users is None:
            rated = at(1)
            with rated.blaming():
                checked_runs(rated, env)
        rule = TargetSearch(target=target, at=at, resolve=resolve, users=users)
        answer = partial(print_target, json_=options.json_)
        return Study(plan, answer, rule, listing=partial(list_search, env=env, json_=options.json_))

    conduct(options, plan.emulate, study_of)


def _target(
    parameters: type[Parameters], options: RunOptions, text: str
) -> tuple[LatencyTarget, tuple[int, int] | None]:
    """Return the target, and the first and largest number of users where these are searched.

    UsageError for what the workload or a driver does not measure, and where the load is set.
    """
    load = workload_info(parameters.workload).load
    problem = f"--target {text}"
    if load is None:
        context = f"{parameters.workload} states no load that could be searched"
        raise UsageError(problem, context, "leave it out")
    target = parse_target(text, load.rate)
    for option, given in {
        "--load-curve": options.load_curve,
        "--repeats": options.repeats is not None,
        "--observe": options.observe,
    }.items():
        if given:
            context = "the search chooses its loads, and repeats windows as needed"
            raise UsageError(f"{problem} with {option}", context, f"leave {option} out")
    users: tuple[int, int] | None = None
    for arm in arms_of(parameters, options):
        if (rate := arm.pairs.get(load.rate)) is not None:
            context = "the rate is what is searched"
            raise UsageError(f"{problem} with --rate {rate}", context, "leave one of them out")
        swept, rest = swept_of(parameters, arm.pairs)
        params, _ = parameters.from_text(rest, arm.properties or ())
        if params.get(load.rate) is not None:
            context = "a property file sets the rate, which is what is searched"
            raise UsageError(problem, context, "leave it out of the file")
        values = parameters.from_mapping({**params, **{key: v[0] for key, v in swept.items()}})
        drivers = list(parameters.drivers) if arm.driver == "both" else [arm.driver or ""]
        for driver in drivers:
            _check_measured(problem, target, values, driver)
            if not values.takes_rate(driver):
                kind = parameters.declared()[load.users].kind
                assert isinstance(kind, Count)
                users = int(rest.get(load.users) or 1), kind.most
                if load.users in swept:
                    option = option_text(load.users)
                    context = "the number of users is what is searched"
                    raise UsageError(f"{problem} with a list of {option}", context, "give one")
    if users is not None:
        target = msgspec.structs.replace(target, parameter=load.users)
    return target, users


def _check_measured(problem: str, target: LatencyTarget, values: Parameters, driver: str) -> None:
    measured = values.latency_statistics(driver)
    if target.statistic not in measured:
        has = ", ".join("mean" if name == "mean" else f"p{name}" for name in measured)
        of = f"{values.workload}{f' with driver {driver}' if driver else ''}"
        raise UsageError(
            problem,
            f"{of} measures {has}" if has else f"{of} measures no latencies with these parameters",
            "choose one of these" if has else "see `harness run --help` for loads with latencies",
        )


app = typer.Typer(
    cls=RunGroup,
    no_args_is_help=True,
)
for _workload, _parameters in registry.all_parameters().items():
    _unused = {
        "driver": len(_parameters.drivers) == 1,
        "properties": not _parameters.property_files,
        "load_curve": "--rate" not in _parameters.options(),
        "target": "--rate" not in _parameters.options(),
    }
    app.command(_workload, cls=RunCommand, help=_parameters.__doc__)(
        callback(
            RunOptions,
            partial(run, _parameters),
            _parameters,
            without=[name for name, unused in _unused.items() if unused],
        )
    )
app.command(MicroParams.workload, cls=RunCommand, help=MicroParams.__doc__)(
    callback(micro.MicroOptions, micro.run_micro, MicroParams)
)
