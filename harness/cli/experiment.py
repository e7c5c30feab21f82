"""``harness experiment``: profiles, expanded and run."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.common import (
    DryRunOption,
    EmulateOption,
    HostOption,
    JsonOption,
    ModelOption,
    QuietOption,
    ResultsOption,
    RetriesOption,
    key_values,
    names,
    stand_ins,
)
from harness.cli.options import CommonOptions
from harness.cli.run_list import run_or_list
from harness.experiment.profile import find_profile, load_profile
from harness.experiment.selection import only
from harness.experiment.sequential import Goal
from harness.units import parse_duration_ns, parse_share
from harness.yamlfile import scalar

app = typer.Typer(
    help="Run a profile: a YAML file of axes that expands to runs.", no_args_is_help=True
)


@app.command("run")
def run(
    profile: Annotated[str, typer.Argument(help="Profile file, or a name under profiles/.")],
    dry_run: DryRunOption = False,
    again: Annotated[
        bool,
        typer.Option("--again", help="Repeat complete runs too; resume none."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume interrupted runs (default).")
    ] = False,
    size: Annotated[
        float | None,
        typer.Option(help="Override the profile's size of data and memory."),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            help="Override a workload parameter in all runs, key=value.",
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, help="Interleaved repeats; with --budget or --resolve the most."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Repeat where intervals are widest, for 2h."),
    ] = None,
    resolve: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Repeat until headlines show or exclude 5%."),
    ] = None,
    engine: Annotated[
        list[str] | None, typer.Option(help="Only this engine of the profile; may repeat.")
    ] = None,
    placement: Annotated[
        list[str] | None, typer.Option(help="Only this placement of the profile; may repeat.")
    ] = None,
    driver: Annotated[
        list[str] | None, typer.Option(help="Only this driver of the profile; may repeat.")
    ] = None,
    monitor: Annotated[
        list[str] | None, typer.Option(help="Monitor to add to all runs; may repeat.")
    ] = None,
    retries: RetriesOption = 1,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out engines that are not installed.")
    ] = False,
    no_canary: Annotated[
        bool, typer.Option("--no-canary", help="Do not measure the tiers before and after.")
    ] = False,
    emulate: EmulateOption = None,
    model: ModelOption = None,
    host: HostOption = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Expand a profile; run incomplete runs and resume interrupted ones."""
    goal = None
    if budget is not None or resolve is not None:
        goal = Goal(
            parse_duration_ns(budget) if budget is not None else None,
            parse_share(resolve) if resolve is not None else None,
            repeats,
        )
    plan = load_profile(
        find_profile(profile),
        tuple(stand_ins(emulate, model)),
        size,
        {name: scalar(value) for name, value in key_values(param, "--param").items()},
        repeats,
        names(monitor),
    )
    chosen = {"engine": names(engine), "placement": names(placement), "driver": names(driver)}
    plan = only(plan, chosen)
    from_scratch = again and not resume
    options = CommonOptions(
        again=from_scratch,
        retries=retries,
        dry_run=dry_run,
        host=host,
        results=results,
        json_=json_,
        quiet=quiet,
    )
    run_or_list(plan, options, from_scratch, goal, skip_missing, with_canary=not no_canary)
