"""``harness experiment``: profiles, expanded and run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from harness.cli.common import ModelOption, names, stand_ins
from harness.cli.options import CommonOptions, callback
from harness.cli.run_list import execute_experiment
from harness.experiment.profile import find_profile, load_profile
from harness.experiment.selection import only
from harness.experiment.sequential import Goal
from harness.units import parse_duration_ns, parse_share
from harness.yamlfile import scalar

app = typer.Typer(
    help="Run a profile: a YAML file of axes that expands to runs.", no_args_is_help=True
)


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
        typer.Option("--param", "-p", help="Override a workload parameter in all runs, key=value."),
    ] = None
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, help="Interleaved repeats; with --budget or --resolve the most."
        ),
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Repeat where intervals are widest, for 2h."),
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
        list[str] | None, typer.Option(help="Only this driver of the profile; may repeat.")
    ] = None
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out engines that are not installed.")
    ] = False
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
    )
    plan = only(
        plan, {key: names(getattr(options, key)) for key in ("engine", "placement", "driver")}
    )
    options = replace(options, again=options.again and not options.resume)
    execute_experiment(
        plan, options, options.again, goal, options.skip_missing, not options.no_canary
    )


app.command("run")(callback(ExperimentOptions, run, without=("cpus", "seed", "no_monitor")))
