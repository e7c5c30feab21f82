"""``harness run WORKLOAD``: an experiment given on the command line."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import registry
from harness.cli import micro, show
from harness.cli.common import (
    EmulateOption,
    HostOption,
    JsonOption,
    QuietOption,
    ResultsOption,
    key_values,
    store,
)
from harness.cli.params import takes, workload_params
from harness.cli.run_list import print_run_list, say_repeats
from harness.errors import UsageError
from harness.execution.opening import open_environment
from harness.execution.run_list import plan_steps, run_plan
from harness.experiment.profile import expand
from harness.progress import progress_on_stderr
from harness.yamlfile import Document

_WORKLOADS = ", ".join([*registry.workload_names(), "micro"])
_ENGINES = ", ".join(registry.engine_names())
#: The experiment of runs without a name.
_UNNAMED = "command-line"
_CACHE = (
    "tpch: cold-per-query, cold-per-run or warm [cold-per-query; cold-per-run where streams run]."
)


def run(
    workload: Annotated[str, typer.Argument(help=_WORKLOADS)],
    engine: Annotated[
        list[str] | None,
        typer.Option(
            help=f"{_ENGINES}; may repeat. tpcc wants one with a server, ycsb one of these or "
            "rocksdb."
        ),
    ] = None,
    placement: Annotated[
        list[str] | None,
        typer.Option(help="ssd-both, ssd-data-pmem-wal, data=ssd,wal=pmem; may repeat."),
    ] = None,
    scale: Annotated[str | None, typer.Option(help="tpch: scale factor [1].")] = None,
    queries: Annotated[str | None, typer.Option(help="tpch: which queries: 1,6 [all].")] = None,
    query_seed: Annotated[
        str | None,
        typer.Option(help="tpch: seed of random query parameters [validation values]."),
    ] = None,
    query_timeout: Annotated[
        str | None, typer.Option(help="tpch: time limit of one query in seconds [none].")
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(
            help="tpch: queries, power, throughput or both (power, throughput) [queries]. "
            "tpcc: throughput or durability [throughput]."
        ),
    ] = None,
    streams: Annotated[
        int | None,
        typer.Option(help="tpch: query streams of a throughput test [the specification's]."),
    ] = None,
    refresh: Annotated[
        bool | None,
        typer.Option(
            "--refresh/--no-refresh",
            help="tpch: refresh functions in power and throughput tests [refresh].",
        ),
    ] = None,
    warehouses: Annotated[
        int | None, typer.Option(help="tpcc: how many warehouses, of 100 to 150 MB each [10].")
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(help="tpcc: emulated users [8; with --think-time ten for each warehouse]."),
    ] = None,
    ramp_up: Annotated[
        str | None,
        typer.Option(
            help="Time before anything is measured: 30s, 3m. tpcc: [2m]. ycsb: [2m; 0s "
            "where --operations bound the window]."
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(
            help="Length of the measured window: 90s, 3m. tpcc: [3m]. ycsb: [1m; or as long as "
            "--operations take]."
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="So many are offered, whatever the engine answers. tpcc: transactions a second; "
            "ycsb: operations a second [none: each user or client thread waits for its answer]."
        ),
    ] = None,
    think_time: Annotated[
        bool | None,
        typer.Option(
            "--think-time/--no-think-time",
            help="tpcc: keying and think times of users [no-think-time].",
        ),
    ] = None,
    core: Annotated[
        str | None,
        typer.Option(
            "--workload",
            help="ycsb: which core workload: a, b, c, d, e, f [a; or as properties say].",
        ),
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(help="ycsb: records of the data, of about 1.1 kB each [1000000]."),
    ] = None,
    operations: Annotated[
        int | None,
        typer.Option(help="ycsb: operations of the measured window [as --duration allows]."),
    ] = None,
    update: Annotated[
        str | None,
        typer.Option(
            help="ycsb: what an update of a key-value engine is: read-modify-write, blind, merge "
            "[read-modify-write]."
        ),
    ] = None,
    properties: Annotated[
        list[Path] | None,
        typer.Option(
            "--properties",
            "-P",
            help="ycsb: a property file of the official client; may repeat, options override it.",
        ),
    ] = None,
    driver: Annotated[
        str | None,
        typer.Option(
            help="What offers the load. tpcc: loadgen, hammerdb; ycsb: loadgen, ycsb (the "
            "official client); or both in turn [loadgen]."
        ),
    ] = None,
    cache: Annotated[str | None, typer.Option(help=_CACHE)] = None,
    plans: Annotated[
        bool | None,
        typer.Option(
            "--plans/--no-plans",
            help="tpch: keep plans from a second execution [plans; not where streams run].",
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(help="micro: a suite's name (`harness micro suites`), or its file."),
    ] = None,
    tier: Annotated[
        list[str] | None, typer.Option(help="micro: the tier that is measured; may repeat.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="micro: a raw device's content may go.")
    ] = False,
    format_: Annotated[
        str, typer.Option("--format", help="micro: table, or perma (PerMA-Bench's JSON).")
    ] = "table",
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check everything and print the runs; run nothing."),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(
            help="Experiment of these runs; several commands may add to one (not micro) "
            "[command-line]."
        ),
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="Any workload parameter: key=value.")
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Interleaved repeats [1; micro: the suite's]."),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Threads or parallel workers of the engine. ycsb: client threads, each on a "
            "connection of its own [8].",
        ),
    ] = None,
    cpus: Annotated[
        str | None,
        typer.Option(help="Processors the engine may run on: 0-7,16-23, socket:0, node:0 [all]."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS[:PORT]",
            help="Address of this host on which the server listens, with TLS, for the hosts of "
            "-p client_hosts=… [none: they come through ssh].",
        ),
    ] = None,
    memory_limit: Annotated[
        str | None, typer.Option(help="Cap on the engine and its page cache: 4GiB.")
    ] = None,
    tuning: Annotated[str, typer.Option(help="Tuning profile: computed, paper, or a file.")] = (
        "computed"
    ),
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Override an engine setting: key=value.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", help="Engine option: key=value.")
    ] = None,
    dsn: Annotated[
        str | None, typer.Option(help="An external server ($HARNESS_DSN keeps it out of argv).")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Names what you set up on an external server.")
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            help="Seed of what a workload draws: the users' choices of TPC-C, operations and keys "
            "of YCSB. TPC-H draws nothing of its own: its query parameters follow --query-seed.",
        ),
    ] = 0,
    again: Annotated[
        bool, typer.Option("--again", help="Start anew: go on with nothing that was cut off.")
    ] = False,
    emulate: EmulateOption = None,
    host: HostOption = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a workload on engines and placements; repeats are interleaved blocks.

    The same command again goes on with a run that was cut off.
    """
    given: dict[str, Any] = {
        "scale": scale,
        "queries": queries,
        "query_seed": query_seed,
        "query_timeout": query_timeout,
        "test": test,
        "streams": streams,
        "refresh": refresh,
        "cache": cache,
        "plans": plans,
        "warehouses": warehouses,
        "users": users,
        "ramp_up": ramp_up,
        "duration": duration,
        "rate": rate,
        "think_time": think_time,
        "workload": core,
        "records": records,
        "operations": operations,
        "update": update,
    }
    own: dict[str, Any] = {"suite": suite, "tier": tier, "overwrite": overwrite or None}
    own["format"] = None if format_ == "table" else format_
    if workload == "micro":
        others = {
            "engine": engine,
            "placement": placement,
            "driver": driver,
            "dsn": dsn,
            "properties": properties,
            "memory_limit": memory_limit,
            "set": set_,
            "option": option,
            "label": label,
            "listen": listen,
            "name": name,
        }
        micro.run_micro(
            micro.Options(
                suite,
                tier or [],
                micro.parameters(given | others, {"threads": threads, "cpus": cpus}, param),
                repeats,
                seed,
                emulate or [],
                host,
                results,
                format_,
                json_,
                dry_run,
                overwrite,
                quiet,
            )
        )
        return
    micro.refuse_own(workload, own)
    if takes(workload, "threads"):
        given["threads"], threads = threads, None
    params = workload_params(workload, given, param, properties)
    options: dict[str, Any] = key_values(option, "--option")
    if dsn is not None:
        options["dsn"] = dsn
    if not engine:
        known = ", ".join(sorted(registry.engines()))
        raise UsageError(f"run {workload}", "no engine is named", f"add --engine; known: {known}")
    profile: dict[str, Any] = {
        "schema": 1,
        "name": _experiment_name(name),
        "description": "given on the command line",
        "workload": workload,
        "axes": {"engine": list(dict.fromkeys(engine))},
        "fixed": {
            "params": params,
            "settings": key_values(set_, "--set"),
            "engine_options": dict.fromkeys(engine, options),
            "tuning": tuning,
            "seed": seed,
            "emulate": emulate or [],
        },
        "repeats": repeats or 1,
    }
    if driver is not None:
        both = list(registry.drivers(workload)) if driver == "both" else [driver]
        profile["axes"]["driver"] = both
    if placement:
        profile["axes"]["placement"] = list(dict.fromkeys(placement))
    given = {
        "threads": threads,
        "cpus": cpus,
        "memory_limit": memory_limit,
        "label": label,
        "listen": listen,
    }
    profile["fixed"] |= {key: value for key, value in given.items() if value is not None}
    plan = expand(
        Document("command line", profile, {}), registry.normalise, driver=registry.default_driver
    )
    plan = replace(plan, several_commands=name is not None)
    into = store(results)
    with (
        progress_on_stderr(quiet) as progress,
        open_environment(host, plan.emulate, progress) as env,
    ):
        steps = plan_steps(plan, env, into, again=True)
        if dry_run:
            print_run_list(steps, env, into, json_)
            return
        say_repeats(steps, env)
        finished = run_plan(plan, steps, env, into, anew=again)
    show.runs(finished, json_)
    show.exit_for(finished)


def _experiment_name(name: str | None) -> str:
    """The name that was given, of the form that profiles have."""
    if name is None:
        return _UNNAMED
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name) or name == _UNNAMED:
        raise UsageError(
            f"--name {name}",
            "the name of runs without one" if name == _UNNAMED else "not a name of an experiment",
            "use lower-case letters, digits and dashes, such as log-or-data",
        )
    return name
