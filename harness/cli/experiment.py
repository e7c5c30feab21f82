"""``harness experiment``: profiles, expanded and run."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli import show
from harness.cli.common import (
    EmulateOption,
    HostOption,
    JsonOption,
    QuietOption,
    ResultsOption,
    key_values,
    store,
)
from harness.cli.run_list import print_run_list, say_repeats
from harness.execution.opening import open_environment
from harness.execution.run_list import plan_steps, run_plan
from harness.experiment.profile import find_profile, load_profile
from harness.progress import progress_on_stderr
from harness.yamlfile import scalar

app = typer.Typer(help="Run a profile: a YAML file of axes that expands to runs.")


@app.command("run")
def run(
    profile: Annotated[str, typer.Argument(help="A profile's file, or its name under profiles/.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check all and print the plan; run nothing.")
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Run also what is already complete, and go on with nothing cut off."
        ),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where it stopped (the default; says so).")
    ] = False,
    size: Annotated[
        float | None,
        typer.Option(help="Instead of the profile's size: scales data and memory together."),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            help="Instead of the profile's, in all its runs: a workload parameter, key=value.",
        ),
    ] = None,
    emulate: EmulateOption = None,
    host: HostOption = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Expand a profile and run what is not complete yet; what was cut off is gone on with."""
    plan = load_profile(
        find_profile(profile),
        tuple(emulate or ()),
        size,
        {name: scalar(value) for name, value in key_values(param, "--param").items()},
    )
    into = store(results)
    with (
        progress_on_stderr(quiet) as progress,
        open_environment(host, plan.emulate, progress) as env,
    ):
        with plan.blaming():
            steps = plan_steps(plan, env, into, again and not resume)
        if dry_run:
            print_run_list(steps, env, into, json_)
            return
        say_repeats(steps, env)
        finished = run_plan(plan, steps, env, into, anew=again and not resume)
    show.runs(finished, json_)
    show.exit_for(finished)
