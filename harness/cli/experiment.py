"""``harness experiment``: profiles, expanded and run."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.common import (
    EmulateOption,
    HostOption,
    JsonOption,
    QuietOption,
    ResultsOption,
    key_values,
)
from harness.cli.options import CommonOptions
from harness.cli.run_list import run_or_list
from harness.experiment.profile import find_profile, load_profile
from harness.yamlfile import scalar

app = typer.Typer(help="Run a profile: a YAML file of axes that expands to runs.")


@app.command("run")
def run(
    profile: Annotated[str, typer.Argument(help="Profile file, or a name under profiles/.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and list the runs; run nothing.")
    ] = False,
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
        typer.Option(min=1, max=10_000, help="Override the number of interleaved repeats."),
    ] = None,
    emulate: EmulateOption = None,
    host: HostOption = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Expand a profile; run incomplete runs and resume interrupted ones."""
    plan = load_profile(
        find_profile(profile),
        tuple(emulate or ()),
        size,
        {name: scalar(value) for name, value in key_values(param, "--param").items()},
        repeats,
    )
    options = CommonOptions(dry_run=dry_run, host=host, results=results, json_=json_, quiet=quiet)
    from_scratch = again and not resume
    run_or_list(plan, options, again=from_scratch, restart=from_scratch)
