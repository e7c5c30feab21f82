"""``harness run WORKLOAD``: an experiment given on the command line.

A workload's sub-command has the options of its parameters (``harness/workloads/*/params.py``) and
those of :class:`RunOptions`.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from harness import paths, registry
from harness.cli import micro
from harness.cli.common import (
    UNNAMED,
    ModelOption,
    ObserveOption,
    key_values,
    names,
    stand_ins,
    store,
)
from harness.cli.options import CommonOptions, RunCommand, RunGroup, callback
from harness.cli.study import conduct, conduct_experiment
from harness.cli.target import list_search, print_target
from harness.errors import UsageError, unknown
from harness.execution.environment import Environment
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_list import checked_runs, last_attempts, plan_steps
from harness.execution.schedule import kept_of_interrupted
from harness.experiment.profile import Plan, expand
from harness.experiment.selection import SHARES, peak_rates
from harness.experiment.study import Made, Study
from harness.experiment.target import TargetSearch, parse_target
from harness.metrics import workload_info
from harness.micro.keys import MicroParams
from harness.store.documents import attributes
from harness.store.result import LatencyTarget
from harness.store.spec import RunSpec
from harness.terminal import say
from harness.units import parse_share
from harness.workloads.kinds import Count, Number, Time
from harness.workloads.parameters import Parameters, option_text
from harness.yamlfile import YamlDocument, scalar

#: Kinds of parameters of which a list is a sweep.
_NUMBERS = (Count, Number, Time)
_MOST_THREADS = 100_000
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
#: The options that arms may differ in, in addition to the workload's; with the field of each.
_ARM_OPTIONS = {
    "--placement": "placement",
    "--set": "set_",
    "--set-file": "set_file",
    "--option": "option",
    "--env": "env",
    "--tuning": "tuning",
    "--threads": "threads",
    "--cpus": "cpus",
    "--memory-limit": "memory_limit",
    "--param": "pairs",
    "-p": "pairs",
}
#: Lines about files that this command has printed: several arms may have one file.
_NOTED = set[str]()
#: That of the closed-loop runs whose rates others are a share of.
_CAPACITY = "capacity"


@dataclass(frozen=True, kw_only=True)
class RunOptions(CommonOptions):
    """Options of a run on engines and placements."""

    engine: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(registry.engine_names())}; may repeat.")
    ] = None
    placement: Annotated[
        list[str] | None,
        typer.Option(help="ssd-both, ssd-data-pmem-wal, data=ssd,wal=pmem; may repeat."),
    ] = None
    driver: Annotated[
        str | None, typer.Option(help="Client program that offers the load; both: in turn.")
    ] = None
    properties: Annotated[
        list[Path] | None,
        typer.Option(
            "--properties", "-P", help="Property file of the official YCSB client; may repeat."
        ),
    ] = None
    threads: Annotated[
        str | None,
        typer.Option(metavar="N", help="Threads or parallel workers of the engine."),
    ] = None
    memory_limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Cap on the engine and its page cache: 4GiB."),
    ] = None
    tuning: Annotated[str, typer.Option(help="Tuning profile: computed, paper, or a file.")] = (
        "computed"
    )
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Override an engine setting."),
    ] = None
    set_file: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Settings of a server's my.cnf or postgresql.conf; may repeat."
        ),
    ] = None
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="Engine option.")
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", metavar="NAME=VALUE", help="Environment of the engine: LD_PRELOAD; may repeat."
        ),
    ] = None
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS[:PORT]",
            help="Address where the server listens, with TLS, for -p client_hosts=… [none: ssh].",
        ),
    ] = None
    model: ModelOption = None
    plant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART.OPERATION=+TIME",
            help="Delay the engine's file I/O: wal.sync=+200us, jittered +200us~50us; may repeat.",
        ),
    ] = None
    observe: ObserveOption = None
    dsn: Annotated[
        str | None, typer.Option(help="External server ($HARNESS_DSN keeps it out of argv).")
    ] = None
    label: Annotated[str | None, typer.Option(help="Name of the set-up of an external server.")] = (
        None
    )
    name: Annotated[
        str | None,
        typer.Option(help=f"Experiment of these runs; commands may share one [{UNNAMED}]."),
    ] = None
    arm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:'OPTIONS'",
            help="Interleave arms with own options: b:'--set synchronous_commit=off'; may repeat.",
        ),
    ] = None
    load_curve: Annotated[
        bool, typer.Option("--load-curve", help="Latency over the rate, up to what each arm does.")
    ] = False
    target: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENTILE=TIME",
            help="Search the most load within a latency: p50, p95, p99, p999 or mean.",
        ),
    ] = None


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
        for arm in _arms(parameters, options):
            swept, rest = _swept(parameters, arm.pairs)
            plans.append(plan_of(parameters, replace(arm, pairs=rest), swept))
        plan = of_arms(plans)
        conduct_experiment(plan, options, again=True)


def _arms(parameters: type[Parameters], options: RunOptions) -> list[RunOptions]:
    """Return the options of each arm; without ``--arm``, those of the command."""
    if not options.arm:
        return [options]
    arms: dict[str, RunOptions] = {}
    for text in options.arm:
        name, colon, words = text.partition(":")
        hint = "write --arm release: --arm candidate:'--set synchronous_commit=off'"
        if not colon or not _NAME.fullmatch(name):
            raise UsageError(f"--arm {text}", "not of the form NAME:'OPTIONS'", hint)
        if name in arms:
            raise UsageError(f"--arm {text}", "the name is given twice", hint)
        arms[name] = replace(options, arm=None, label=name, **_of_arm(parameters, options, words))
    return list(arms.values())


def _of_arm(parameters: type[Parameters], options: RunOptions, text: str) -> dict[str, Any]:
    """Return the fields that an arm's own options set."""
    names = {parameter.option: parameter.name for parameter in parameters.options().values()}
    given: dict[str, Any] = {}
    try:
        words = [
            word
            for item in shlex.split(text)
            for word in (item.split("=", 1) if item.startswith("--") else [item])
        ]
    except ValueError as error:
        raise UsageError(f"--arm …:{text}", str(error), "close the quotes") from error
    if len(words) % 2:
        raise UsageError(f"--arm …:{text}", f"{words[-1]} has no value", "write --option value")
    for option, value in zip(words[::2], words[1::2], strict=True):
        field = "pairs" if option in names else _ARM_OPTIONS.get(option, "")
        if not field:
            accepted = [*dict.fromkeys((*names, *_ARM_OPTIONS))]
            context = f"{option} is not an option of an arm"
            raise unknown(f"--arm …:{text}", context, option, accepted, "use {}")
        if field == "pairs":
            pairs = {names[option]: value} if option in names else key_values([value], option)
            given[field] = {**given.get(field, options.pairs), **pairs}
        elif field in ("set_", "option", "env"):
            given[field] = [*given.get(field, getattr(options, field) or ()), value]
        elif field == "set_file":
            given[field] = [*given.get(field, options.set_file or ()), Path(value)]
        elif field == "placement":
            given[field] = [value]
        else:
            given[field] = value
    return given


def of_arms(plans: Sequence[Plan]) -> Plan:
    """Return one plan in which the arms take turns at each point of a sweep.

    Every other block is in reverse.
    """
    runs: list[RunSpec] = []
    for block in sorted({spec.block for plan in plans for spec in plan.runs}):
        by_plan = [[spec for spec in plan.runs if spec.block == block] for plan in plans]
        turns = zip_longest(*(by_plan[::-1] if block % 2 else by_plan))
        runs += [spec for turn in turns for spec in turn if spec is not None]
    return replace(plans[0], runs=tuple(runs))


def _swept(
    parameters: type[Parameters], pairs: Mapping[str, str]
) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Return the numbers of which a list is given, ``--users 1,2,4``, and all other parameters."""
    declared = parameters.declared()
    swept = {
        name: [scalar(word) for word in text.split(",")]
        for name, text in pairs.items()
        if "," in text and name in declared and isinstance(declared[name].kind, _NUMBERS)
    }
    return swept, {name: text for name, text in pairs.items() if name not in swept}


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
        return of_arms([plan_of(parameters, a, varied) for a in _arms(parameters, options)])

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
        for arm in _arms(parameters, options):
            swept, rest = _swept(parameters, arm.pairs)
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
    for arm in _arms(parameters, options):
        if (rate := arm.pairs.get(load.rate)) is not None:
            context = "the rate is what is searched"
            raise UsageError(f"{problem} with --rate {rate}", context, "leave one of them out")
        swept, rest = _swept(parameters, arm.pairs)
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


def plan_of(
    parameters: type[Parameters],
    options: RunOptions,
    varied: Mapping[str, Sequence[Any]] | None = None,
) -> Plan:
    """The profile that the command line stands for, expanded. ``varied``: parameters' values."""
    workload = parameters.workload
    if not options.engine:
        raise UsageError(
            f"run {workload}",
            "no engine is named",
            f"add --engine; known: {', '.join(sorted(registry.engines_of(workload)))}",
        )
    for name in options.pairs.keys() - parameters.declared().keys():
        if others := [
            w for w, params in registry.all_parameters().items() if name in params.declared()
        ]:
            raise UsageError(
                f"--param {name} with {workload}",
                f"{name} is a parameter of {' and '.join(others)}",
                f"`harness run {workload} --help` lists the parameters",
            )
    params, notes = parameters.from_text(options.pairs, options.properties or ())
    for line in notes:
        typer.echo(line, err=True)
    engine_options: dict[str, Any] = dict(key_values(options.option, "--option"))
    if options.dsn is not None:
        engine_options["dsn"] = options.dsn
    axes: dict[str, Any] = {"engine": list(dict.fromkeys(options.engine))}
    if options.driver is not None:
        axes["driver"] = list(parameters.drivers) if options.driver == "both" else [options.driver]
    if varied:
        axes["params"] = varied
    if options.threads is not None:
        threads = options.threads.split(",")
        axes["threads"] = [Count(_MOST_THREADS).parse("--threads", scalar(n)) for n in threads]
    if options.memory_limit is not None:
        axes["memory_limit"] = options.memory_limit.split(",")
    if options.placement:
        axes["placement"] = list(dict.fromkeys(options.placement))
    fixed = {
        "params": params,
        "settings": {
            **_of_files(workload, options, engine_options),
            **key_values(options.set_, "--set"),
        },
        "env": key_values(options.env, "--env"),
        "engine_options": dict.fromkeys(options.engine, engine_options),
        "tuning": options.tuning,
        "seed": options.seed,
        "emulate": stand_ins(options.emulate, options.model),
        **attributes(options, "cpus", "label", "listen", "plant"),
        "monitors": names(options.monitor),
        "no_monitors": names(options.no_monitor),
        "observe": names(options.observe),
    }
    profile = {
        "schema": 1,
        "name": _experiment_name(options.name),
        "description": "given on the command line",
        "workload": workload,
        "axes": axes,
        "fixed": {key: value for key, value in fixed.items() if value is not None},
        "repeats": options.repeats or 1,
    }
    plan = expand(YamlDocument("command line", profile, {}))
    return replace(plan, several_commands=options.name is not None)


def _of_files(
    workload: str, options: RunOptions, engine_options: Mapping[str, Any]
) -> dict[str, str]:
    """Return the settings of ``--set-file``, a later file's over an earlier one's."""
    settings: dict[str, str] = {}
    for path in options.set_file or ():
        problem, engines = f"--set-file {path}", options.engine or [""]
        if len(set(engines)) != 1 or "dsn" in engine_options:
            raise UsageError(
                problem,
                "it is for one engine that the harness runs",
                "name one --engine, without --dsn",
            )
        read = registry.engine(engines[0], workload).read_server_file
        if read is None:
            others = registry.engines_of(workload)
            readers = [e for e in others if registry.engine(e, workload).read_server_file]
            raise UsageError(
                problem,
                f"the harness reads no such files for {engines[0]}",
                f"use --set, or an engine of which it does: {', '.join(sorted(readers))}",
            )
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(problem, str(error), "name a file that can be read") from error
        of_file = read(engine_options, paths.engines_prefix(), str(path), text)
        settings |= of_file.values
        for line in of_file.notes:
            if line not in _NOTED:
                _NOTED.add(line)
                typer.echo(line, err=True)
    return settings


def _experiment_name(name: str | None) -> str:
    if name is None:
        return UNNAMED
    if not _NAME.fullmatch(name) or name == UNNAMED:
        raise UsageError(
            f"--name {name}",
            "the name of runs without one" if name == UNNAMED else "not a name of an experiment",
            "use lower-case letters, digits and dashes, such as log-or-data",
        )
    return name


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
