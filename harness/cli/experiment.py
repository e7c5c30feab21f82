"""``harness experiment``: profiles, expanded and run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import registry
from harness.cli.common import (
    JsonOption,
    ModelOption,
    ResultsOption,
    names,
    print_json,
    stand_ins,
    store,
)
from harness.cli.options import CommonOptions, RunCommand, callback
from harness.cli.run_list import hours
from harness.cli.study import conduct_experiment
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_time import Estimator
from harness.experiment.profile import Plan, find_profile, known_profiles, load_profile
from harness.experiment.selection import only
from harness.experiment.sequential import Goal
from harness.sequences import grouped
from harness.store.spec import canonical_json
from harness.terminal import print_table, say
from harness.units import format_bytes, parse_duration_ns, parse_share
from harness.workload import with_log_limit
from harness.yamlfile import scalar

#: Of a bulk load, the format after which data take most space.
_LARGEST_FORMAT = "csv"

app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions(CommonOptions):
    """Options of ``harness experiment run``."""

    profile: Annotated[str, typer.Argument(help="Profile file, or a name under profiles/.")]
    again: Annotated[
        bool, typer.Option("--again", help="Repeat complete runs too; resume none.")
    ] = False
    resume: Annotated[bool, typer.Option("--resume", help="Resume interrupted runs (default).")] = (
        False
    )
    size: Annotated[
        float | None, typer.Option(help="Override the profile's size of data and memory.")
    ] = None
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            metavar="NAME=VALUE",
            help="Override a workload parameter in all runs.",
        ),
    ] = None
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, help="Interleaved repeats; with --budget or --resolve the most."
        ),
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Repeat where intervals are widest, for 2h."),
    ] = None
    resolve: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Repeat until headlines show or exclude 5%."),
    ] = None
    engine: Annotated[
        list[str] | None, typer.Option(help="Only this engine of the profile; may repeat.")
    ] = None
    placement: Annotated[
        list[str] | None, typer.Option(help="Only this placement of the profile; may repeat.")
    ] = None
    driver: Annotated[
        list[str] | None, typer.Option(help="This driver in place of the profile's; may repeat.")
    ] = None
    no_canary: Annotated[
        bool, typer.Option("--no-canary", help="Do not measure the tiers before and after.")
    ] = False
    model: ModelOption = None


def run(options: ExperimentOptions) -> None:
    """Expand a profile; run incomplete runs and resume interrupted ones."""
    goal = None
    if options.budget is not None or options.resolve is not None:
        goal = Goal(
            parse_duration_ns(options.budget) if options.budget is not None else None,
            parse_share(options.resolve) if options.resolve is not None else None,
            options.repeats,
        )
    plan = load_profile(
        find_profile(options.profile),
        tuple(stand_ins(options.emulate, options.model)),
        options.size,
        {name: scalar(value) for name, value in options.pairs.items()},
        options.repeats,
        names(options.monitor),
        names(options.driver),
    )
    plan = only(
        plan, {key: names(getattr(options, key)) for key in ("engine", "placement", "driver")}
    )
    options = replace(options, again=options.again and not options.resume)
    conduct_experiment(
        plan, options, options.again, goal, each=True, with_canary=not options.no_canary
    )


@app.command("list")
def list_(results: ResultsOption = None, json_: JsonOption = False) -> None:
    """List the installed profiles, with their time and space here."""
    times = Estimator(store(results).runs())
    rows: list[dict[str, Any]] = []
    for name, path in known_profiles().items():
        plan = load_profile(path)
        rows.append(
            {
                "name": name,
                "description": " ".join(plan.description.split()),
                "workload": plan.runs[0].workload,
                "runs": len(plan.runs),
                "estimated_duration_ns": times.total_ns(map(ResolvedRun, plan.runs)),
                "needs_bytes": _needs_bytes(plan),
            }
        )
    if json_:
        print_json({"profiles": rows})
        return
    by_folder = grouped((str(Path(row["name"]).parent), row) for row in rows)
    for folder, rows_of_folder in by_folder.items():
        print_table(
            ("profile", "runs", "time", "space", ""),
            [
                (
                    Path(row["name"]).name,
                    row["runs"],
                    hours(row["estimated_duration_ns"]) if row["estimated_duration_ns"] else "–",
                    format_bytes(row["needs_bytes"]),
                    row["description"],
                )
                for row in rows_of_folder
            ],
            title="" if folder == "." else f"{folder}/…",
        )
    say("time: by earlier runs here, else assumed (–: known after a first run); space: at most")


def _needs_bytes(plan: Plan) -> int:
    """The space of all datasets of a plan, and of its largest run: an upper estimate."""
    datasets: dict[str, int] = {}
    workload = registry.workload(plan.runs[0].workload)
    for spec in plan.runs:
        sizes = workload.estimate_bytes(registry.parameters_of(spec), _LARGEST_FORMAT)
        parts = with_log_limit(sizes)
        datasets[canonical_json([spec.engine, spec.driver, parts])] = sum(parts.values())
    return sum(datasets.values()) + max(datasets.values())


def show(options: ExperimentOptions) -> None:
    """Describe a profile, and print its runs here with their time and space; run nothing."""
    if not options.json_:
        say(" ".join(load_profile(find_profile(options.profile)).description.split()))
    run(replace(options, dry_run=True))


_NOT_SHOWN = ("again", "resume", "retries", "dry_run", "no_canary")
app.command("show", cls=RunCommand)(
    callback(ExperimentOptions, show, without=("cpus", "seed", "no_monitor", *_NOT_SHOWN))
)
app.command("run", cls=RunCommand)(
    callback(ExperimentOptions, run, without=("cpus", "seed", "no_monitor"))
)
