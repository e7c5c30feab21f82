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
from harness.execution.environment import open_environment
from harness.execution.run_list import plan_steps, run_plan
from harness.experiment.profile import find_profile, load_profile
from harness.progress import progress_on_stderr
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
        finished = run_plan(plan, steps, env, into, restart=again and not resume)
    show.runs(finished, json_)
    show.exit_for(finished)
