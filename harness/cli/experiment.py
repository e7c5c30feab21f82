"""``harness experiment``: profiles, expanded and run."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import registry
from harness.cli.common import (
    JsonOption,
    ModelOption,
    ResultsOption,
    given,
    names,
    print_json,
    stand_ins,
    store,
)
from harness.cli.options import CommonOptions, RunCommand, callback, words_of
from harness.cli.run_list import hours
from harness.cli.study import conduct_experiment
from harness.execution.host_lock import taking_turns
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_time import Estimator
from harness.experiment import slurm, slurm_status
from harness.experiment.profile import Plan, find_profile, known_profiles, load_profile
from harness.experiment.selection import only
from harness.experiment.sequential import Goal
from harness.sequences import grouped
from harness.store.documents import members
from harness.store.spec import canonical_json
from harness.terminal import print_table, say
from harness.units import counted, format_bytes, parse_duration_ns, parse_share
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


@dataclass(frozen=True, kw_only=True)
class SubmitOptions(ExperimentOptions):
    """Options of ``harness experiment submit``: those of the job's ``experiment run``, too."""

    slurm: Annotated[
        bool, typer.Option("--slurm", help="Submit to Slurm (default: it is the only choice).")
    ] = True
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST,...",
            help="Run all of it on each of these hosts, node[1-3] too [one that Slurm chooses].",
        ),
    ] = None
    local_results: Annotated[
        Path | None,
        typer.Option(
            "--local-results",
            metavar="DIR",
            help="Each host's own results directory; jobs import it into --results at their end.",
        ),
    ] = None
    partition: Annotated[str | None, typer.Option(help="Slurm's partition.")] = None
    constraint: Annotated[
        str | None, typer.Option(metavar="FEATURES", help="Features that hosts must have.")
    ] = None
    account: Annotated[str | None, typer.Option(help="Slurm's account.")] = None
    time: Annotated[
        str | None,
        typer.Option(
            metavar="LIMIT", help="Time limit of a job, 8:00:00; it is requeued to resume."
        ),
    ] = None


def _goal(options: ExperimentOptions) -> Goal | None:
    if options.budget is None and options.resolve is None:
        return None
    return Goal(
        parse_duration_ns(options.budget) if options.budget is not None else None,
        parse_share(options.resolve) if options.resolve is not None else None,
        options.repeats,
    )


def _plan(options: ExperimentOptions) -> Plan:
    plan = load_profile(
        find_profile(options.profile),
        tuple(stand_ins(options.emulate, options.model)),
        options.size,
        {name: scalar(value) for name, value in options.pairs.items()},
        options.repeats,
        names(options.monitor),
        names(options.driver),
    )
    return only(
        plan, {key: names(getattr(options, key)) for key in ("engine", "placement", "driver")}
    )


def run(options: ExperimentOptions) -> None:
    """Expand a profile; run incomplete runs and resume interrupted ones."""
    goal, plan = _goal(options), _plan(options)
    options = replace(options, again=options.again and not options.resume)
    with nullcontext() if options.dry_run else taking_turns(plan.name, store(options.results).root):
        conduct_experiment(
            plan, options, options.again, goal, each=True, with_canary=not options.no_canary
        )


def submit(options: SubmitOptions) -> None:
    """Submit an experiment to Slurm: each host runs all of it, and resumes after a requeue."""
    _goal(options)
    plan, profile = _plan(options), find_profile(options.profile)
    installed = profile == known_profiles().get(options.profile)
    without = {"profile", "results", "dry_run", "json_", *_NEVER_SUBMITTED}
    words = words_of(options, ExperimentOptions, without)
    job = slurm.new_job(
        store(options.results).root,
        plan,
        slurm.SlurmOptions(
            slurm.expanded_hosts(options.hosts or ()),
            *(options.partition, options.constraint, options.account, options.time),
        ),
        [*([options.profile] if installed else []), *words],
        None if installed else profile,
        options.local_results.absolute() if options.local_results else None,
    )
    if options.dry_run:
        if options.json_:
            print_json({"script": job.script, "hosts": job.options.hosts, "folder": job.folder})
        else:
            print(job.script, end="")
        return
    submission = slurm.submit(job)
    if options.json_:
        print_json({**submission.to_json(), "folder": job.folder})
        return
    where = ", ".join(submission.hosts) or "a host that Slurm chooses"
    say(
        f"job {submission.job_id}: {counted(len(plan.runs), 'run')} of {plan.name} on {where}\n"
        f"results: {store(options.results).root}\nlogs: {job.folder}\n"
        f"`harness experiment status{given(options.results)}` shows what is complete; "
        f"`scancel {submission.job_id}` ends it"
    )


@app.command()
def status(
    submission: Annotated[
        str | None,
        typer.Argument(help="Job id, experiment or folder of a submission [all]."),
    ] = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
) -> None:
    """Show the jobs of submitted experiments: host, state, complete runs, logs."""
    root = store(results).root
    states = slurm_status.states(root, submission)
    if json_:
        print_json({"submissions": [members(state) for state in states]})
        return
    if not states:
        about = f" of {submission}" if submission else ""
        say(f"no submission{about} in {root / slurm.FOLDER}")
        return
    print_table(
        ("experiment", "job", "host", "state", "complete", "failed"),
        [
            (
                state.experiment,
                task.job,
                task.host or "–",
                _state_text(task),
                f"{task.complete} of {state.planned}",
                task.failed or "",
            )
            for state in states
            for task in state.tasks
        ],
        title=f"runs in {root}",
    )
    for state in states:
        say(f"logs of {state.job_id}: {state.folder}/HOST.log")


def _state_text(task: slurm_status.TaskState) -> str:
    details = [task.reason] if task.reason else []
    details += [f"exit status {task.exit_status}"] if task.exit_status is not None else []
    return f"{task.state} ({', '.join(details)})" if details else task.state


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


#: A requeued job would repeat what it has completed.
_NEVER_SUBMITTED = ("again", "resume")
app.command("submit", cls=RunCommand)(
    callback(SubmitOptions, submit, without=("cpus", "seed", "no_monitor", *_NEVER_SUBMITTED))
)
_NOT_SHOWN = ("again", "resume", "retries", "dry_run", "no_canary")
app.command("show", cls=RunCommand)(
    callback(ExperimentOptions, show, without=("cpus", "seed", "no_monitor", *_NOT_SHOWN))
)
app.command("run", cls=RunCommand)(
    callback(ExperimentOptions, run, without=("cpus", "seed", "no_monitor"))
)
