"""``harness experiment``: profiles, expanded and run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from harness import registry
from harness.cli import show
from harness.cli.common import (
    EmulateOption,
    HostOption,
    JsonOption,
    QuietOption,
    ResultsOption,
    print_json,
    print_table,
    store,
)
from harness.experiment import Step, plan_steps, run_plan
from harness.opening import open_environment
from harness.preflight import needed_bytes, placement_label
from harness.profile import find_profile, load_profile
from harness.progress import progress_on_stderr
from harness.units import format_bytes

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
    emulate: EmulateOption = None,
    host: HostOption = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Expand a profile and run what is not complete yet; what was cut off is gone on with."""
    plan = load_profile(find_profile(profile), registry.normalise, tuple(emulate or ()), size)
    into = store(results)
    with (
        progress_on_stderr(quiet) as progress,
        open_environment(host, plan.emulate, progress) as env,
    ):
        with plan.blaming():
            steps = plan_steps(plan, env, into, again and not resume)
        if dry_run:
            _print_plan(steps, json_)
            return
        finished = run_plan(plan, steps, env, into, anew=again and not resume)
    show.runs(finished, json_)
    show.exit_for(finished)


def _print_plan(steps: list[Step], json_: bool) -> None:
    rows: list[dict[str, Any]] = []
    for step in steps:
        spec, prepared = step.spec, step.prepared
        needed = needed_bytes(prepared) if prepared and not prepared.external else {}
        rows.append(
            {
                "spec_hash": spec.hash(),
                "workload": spec.workload,
                "engine": spec.engine,
                "version": prepared.version.version if prepared else None,
                "placement": placement_label(spec.placement, spec.label),
                "block": spec.block,
                "params": dict(spec.params),
                "needs_bytes": dict(needed),
                "complete": step.done.run_id if step.done else None,
                "host_mode": spec.required_host_mode,
                "why": step.why,
            }
        )
    if json_:
        print_json({"plan": rows})
        return
    print_table(
        ("engine", "version", "placement", "block", "needs", "state"),
        [
            (
                row["engine"],
                row["version"] or "–",
                row["placement"],
                row["block"],
                ", ".join(f"{part} {format_bytes(n)}" for part, n in row["needs_bytes"].items()),
                f"complete: {row['complete']}" if row["complete"] else _to_run(row["why"]),
            )
            for row in rows
        ],
        title=f"{len(rows)} runs, {sum(r['complete'] is None for r in rows)} to do; nothing is run",
    )


def _to_run(why: str) -> str:
    return f"to run: {why}" if why else "to run"
