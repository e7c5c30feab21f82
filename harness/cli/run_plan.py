"""The plan that the options of ``harness run`` stand for: arms, sweeps and a profile."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import paths, registry
from harness.cli.common import (
    UNNAMED,
    ModelOption,
    ObserveOption,
    key_values,
    names,
    stand_ins,
)
from harness.cli.options import CommonOptions
from harness.errors import UsageError, unknown
from harness.experiment.profile import Plan, expand
from harness.store.documents import attributes
from harness.store.spec import RunSpec
from harness.workloads.kinds import Count, Number, Time
from harness.workloads.parameters import Parameters
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


def arms_of(parameters: type[Parameters], options: RunOptions) -> list[RunOptions]:
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


def swept_of(
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
