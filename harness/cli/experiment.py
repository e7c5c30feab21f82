"""``harness experiment``: profiles, expanded and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    key_values,
    print_json,
    print_table,
    store,
)
from harness.experiment import Step, plan_steps, run_plan
from harness.opening import open_environment
from harness.preflight import needed_bytes, placement_label
from harness.profile import find_profile, load_profile
from harness.progress import progress_on_stderr
from harness.spec import RunSpec, canonical_json
from harness.units import format_bytes, format_ns, parse_duration_ns
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
        registry.normalise,
        tuple(emulate or ()),
        size,
        registry.default_driver,
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
                "least_duration_ns": _least_ns(spec),
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
        ("engine", "version", "placement", "with", "block", "needs", "state"),
        [
            (
                row["engine"],
                row["version"] or "–",
                row["placement"],
                told,
                row["block"],
                ", ".join(f"{part} {format_bytes(n)}" for part, n in row["needs_bytes"].items()),
                f"complete: {row['complete']}" if row["complete"] else _to_run(row["why"]),
            )
            for row, told in zip(rows, _told_apart([step.spec for step in steps]), strict=True)
        ],
        title=f"{len(rows)} runs, {sum(r['complete'] is None for r in rows)} to do"
        f"{_at_least(rows)}; nothing is run",
    )
    if shared := _shared([step.spec for step in steps]):
        print(f"all of them: {shared}")


def _least_ns(spec: RunSpec) -> int:
    """What a run takes whatever the size of its data: ramp-up and window of a client's load."""
    given = (spec.params.get(name) for name in ("ramp_up", "duration"))
    return sum(parse_duration_ns(text) for text in given if text is not None)


def _at_least(rows: Sequence[Mapping[str, Any]]) -> str:
    """Of those that are to do: loading, restoring and checking come on top."""
    least_ns = sum(row["least_duration_ns"] for row in rows if row["complete"] is None)
    if not least_ns:
        return ""
    return f", at least {_hours(least_ns)} of ramp-up and windows alone at any size"


def _hours(duration_ns: int) -> str:
    """``2 h 20 min``; shorter ones in seconds."""
    minutes = round(duration_ns / 60e9)
    if minutes < 10:
        return format_ns(duration_ns)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def _shared(specs: Sequence[RunSpec]) -> str:
    """The parameters that all runs of the plan have alike."""
    documents = [dict(spec.params) for spec in specs]
    names = [name for name in dict.fromkeys(name for one in documents for name in one)
             if len({canonical_json(one.get(name)) for one in documents}) == 1]  # fmt: skip
    first = documents[0] if documents else {}
    return ", ".join(_named(name, first[name]) for name in names if first.get(name) is not None)


#: What tells the runs of a plan from one another beside engine, placement and block.
_TELLING = (
    "driver",
    "tuning",
    "settings",
    "threads",
    "cpus",
    "listen",
    "memory_limit_bytes",
    "required_host_mode",
)


def _told_apart(specs: Sequence[RunSpec]) -> list[str]:
    """``q6_dates 1994-01-01 to 1995-01-01, cpus 0``: of each run what differs among them."""
    flat = []
    for spec in specs:
        document = spec.to_json()
        flat.append(document["params"] | {name: document.get(name) for name in _TELLING})
    names = dict.fromkeys(name for one in flat for name in one)
    apart = [name for name in names if len({canonical_json(one.get(name)) for one in flat}) > 1]
    return [", ".join(_named(name, one[name]) for name in apart if one.get(name)) for one in flat]


def _named(name: str, value: Any) -> str:
    if name == "memory_limit_bytes":
        return f"memory limit {format_bytes(value)}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {inner}" for key, inner in value.items())
    told = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{name.removeprefix('required_').replace('host_mode', 'host mode')} {told}"


def _to_run(why: str) -> str:
    return f"to run: {why}" if why else "to run"
