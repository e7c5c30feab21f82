"""``harness micro``, and what ``harness run micro`` does: suites of microbenchmarks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import show
from harness.cli.common import JsonOption, ObserveOption, names, print_json
from harness.cli.options import CommonOptions
from harness.cli.run_list import plan_json
from harness.cli.show import print_figures
from harness.cli.study import conduct
from harness.errors import UsageError
from harness.execution.environment import Environment
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_list import last_attempts
from harness.experiment.study import Made, Study
from harness.micro.host_capacity import variables_here
from harness.micro.importing import import_suite
from harness.micro.metrics import SuiteResult
from harness.micro.model import Measurement, Suite
from harness.micro.native import NAME
from harness.micro.perma import is_perma
from harness.micro.perma_result import memory_of, perma_results
from harness.micro.protocol import Planned
from harness.micro.runner import ResolvedSuite, SuiteRequest, other_program, suite_plan
from harness.micro.suite import (
    SUFFIXES,
    find_suite,
    known_suites,
    load_documents,
    load_suite,
    suite_name,
)
from harness.store.documents import write_atomically
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.terminal import print_table, say
from harness.tiers.stand_ins import stand_in_names
from harness.units import counted, format_bytes, format_ns
from harness.yamlfile import YamlDocument, load_yaml

app = typer.Typer(no_args_is_help=True)

SuiteArgument = Annotated[str, typer.Argument(help="A suite's name, or a file.")]
_FORMATS = ("table", "perma")


@app.command("list")
def list_(json_: JsonOption = False) -> None:
    """List suites, with their configurations on this host."""
    suites = [load_suite(path, variables_here()) for path in known_suites().values()]
    entries = [
        {
            "name": suite.name,
            "configurations": len(
                {measurement.configuration for measurement in _configurations(suite)}
            ),
            "program": suite.program,
            "description": suite.description,
        }
        for suite in suites
    ]
    if json_:
        print_json({"suites": entries})
        return
    rows = []
    for entry in entries:
        by = "" if entry["program"] == NAME else f" by {entry['program']}"
        rows.append((entry["name"], f"{entry['configurations']}{by}", entry["description"]))
    print_table(("suite", "configurations", "description"), rows)


@app.command("show")
def show_(suite: SuiteArgument, json_: JsonOption = False) -> None:
    """List a suite's configurations."""
    loaded = load_suite(find_suite(suite), variables_here())
    measurements = _configurations(loaded)
    if json_:
        named = {"name": loaded.name, "description": loaded.description}
        configurations = [measurement.configuration for measurement in measurements]
        print_json({"suite": named | {"configurations": configurations}})
        return
    say(f"{loaded.name}: {loaded.description}")
    _print_configurations(measurements)


@app.command("import")
def import_(
    file: Annotated[
        Path, typer.Argument(help="Workload file of PerMA-Bench or CXL-Bench.", metavar="FILE")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="SUITE", help="Suite to write.")],
    json_: JsonOption = False,
) -> None:
    """Write a suite from a workload file of another program."""
    document = load_yaml(file)
    if not is_perma(document.value):
        raise UsageError(
            str(file), "it is a suite already", "name a workload of PerMA-Bench or CXL-Bench"
        )
    if out.suffix not in SUFFIXES or out.exists():
        problem = "there is such a file" if out.exists() else "no .yml file"
        raise UsageError(f"--out {out}", problem, "name a new file.yml")
    suite = import_suite(document, out.stem)
    try:
        write_atomically(out, suite.text.encode())
    except OSError as error:
        raise UsageError(f"--out {out}", error.strerror or str(error), "name another") from error
    if json_:
        print_json(
            {
                "suite": str(out),
                "configurations": suite.configurations,
                "measurements": suite.measurements,
                "device": suite.device or None,
            }
        )
        return
    say(
        f"{out}: {counted(suite.configurations, 'configuration')} in "
        f"{counted(suite.measurements, 'measurement')}"
    )
    if suite.device:
        say(f"the file measures {suite.device}: name its tier with --tier")


def _configurations(suite: Suite) -> Sequence[Measurement]:
    """Return the configurations as requested."""
    other = other_program(suite)
    return other.planned(suite.repeats).configurations if other else suite.measurements


def _print_configurations(configurations: Sequence[Measurement], title: str = "") -> None:
    """Print a line for each configuration; a plus sign joins jobs that run together."""
    rows = []
    for measurement in configurations:
        threads = " + ".join(str(job.threads) for job in measurement.jobs)
        ranges = " + ".join(format_bytes(job.range_bytes) for job in measurement.jobs)
        count = f"{measurement.jobs[0].operations or 0:,} operations"
        duration = format_ns(measurement.duration_ns) if measurement.duration_ns else count
        rows.append((measurement.configuration, threads, ranges, duration))
    print_table(("configuration", "threads", "range", "for"), rows, title)


# harness run micro ---------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MicroOptions(CommonOptions):
    """A suite of microbenchmarks on a tier."""

    suite: Annotated[
        str | None, typer.Option(help="Name of a suite (`harness micro list`), or its file.")
    ] = None
    tier: Annotated[list[str] | None, typer.Option(help="Tier to measure; may repeat.")] = None
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite the content of a raw device.")
    ] = False
    observe: ObserveOption = None
    format_: Annotated[
        str, typer.Option("--format", help="table, or perma (PerMA-Bench's JSON).")
    ] = "table"


def run_micro(options: MicroOptions) -> None:
    """Run a suite on each tier, or say what would be run."""
    requests = _requests(options)

    def study_of(env: Environment) -> Study:
        plan, suites = suite_plan(requests, env)
        if options.format_ == "perma":
            _check_perma(suites)

        def answer(made: Made) -> None:
            _print(last_attempts(made.attempts), suites, options)
            show.exit_for(made.attempts)

        listing = partial(_print_plan, suites, options.json_)
        return Study(plan, answer, resolved=suites, listing=listing)

    conduct(options, options.emulate or [], study_of)


def _requests(options: MicroOptions) -> list[SuiteRequest]:
    if options.format_ not in _FORMATS:
        raise UsageError(
            f"--format {options.format_}",
            "no such format",
            f"one of {', '.join(_FORMATS)}; --json for the run itself",
        )
    if options.format_ == "perma" and options.json_:
        raise UsageError("--json with --format perma", "both print JSON", "leave one of them out")
    if not options.tier:
        raise UsageError(
            "run micro", "no tier is named", "add --tier dram, say (harness doctor lists the tiers)"
        )
    name, documents = _suite(options)
    request = SuiteRequest(
        name,
        documents,
        "",
        options.pairs,
        options.repeats,
        options.seed,
        stand_in_names(options.emulate),
        options.overwrite,
        tuple(names(options.monitor)),
        tuple(names(options.no_monitor)),
        tuple(names(options.observe)),
    )
    return [replace(request, tier=tier) for tier in dict.fromkeys(options.tier)]


def _suite(options: MicroOptions) -> tuple[str, list[YamlDocument]]:
    """Return the name and the files of the suite."""
    if options.suite is None:
        raise UsageError(
            "run micro",
            "no suite is named",
            "add --suite quick, say (`harness micro list` lists them), or a file",
        )
    path = find_suite(options.suite)
    return suite_name(path), load_documents(path)


def _check_perma(resolved: Sequence[ResolvedSuite]) -> None:
    for suite in resolved:
        if suite.program.name != NAME or not all(m.source for m in suite.host_suite.measurements):
            raise UsageError(
                "--format perma", f"{suite.suite.name} is no suite of PerMA-Bench's", "use --json"
            )


def _print_plan(
    suites: Sequence[ResolvedSuite], json_: bool, steps: Sequence[ResolvedRun], earlier: Store
) -> None:
    if json_:
        print_json(plan_json(steps, earlier))
        return
    for step, suite in zip(steps, suites, strict=True):
        planned, program = suite.planned, suite.program
        by = "" if program.name == NAME else f", by {program.name}"
        count = counted(len(planned.configurations), "configuration")
        state = f"complete: {step.done.run_id}" if step.done else "nothing is run"
        _print_configurations(
            planned.configurations,
            f"{suite.suite.name} on {suite.tier.name}{by}: "
            f"{count} × {suite.repeats}{_time(planned)}; {state}",
        )
        for warning in suite.host_suite.warnings:
            say(f"warning: {warning}")


def _time(planned: Planned) -> str:
    """Return ``, about 3 min 20 s``, with what is not in it."""
    if planned.setup_ns is not None:
        by_count = f" and {planned.counted} that end by a count" if planned.counted else ""
        return f", about {format_ns(planned.known_ns)}{by_count}"
    measuring = f", {format_ns(planned.measuring_ns)} of measuring" if planned.measuring_ns else ""
    return f"{measuring} and {planned.extra}"


def _print(
    finished: Sequence[StoredRun], resolved: Sequence[ResolvedSuite], options: MicroOptions
) -> None:
    from reports.formatting import stand_in_text  # reports are loaded where they are needed
    from reports.run_configuration import stand_ins

    if options.json_:
        print_json({"runs": [stored.document for stored in finished]})
        return
    perma = options.format_ == "perma"
    if perma:
        pairs = zip(finished, resolved, strict=True)
        print_json([entry for stored, suite in pairs for entry in _perma(stored, suite)])
    for stored in finished:
        out = sys.stderr if perma else sys.stdout  # no part of that JSON
        notes = (stand_in_text(stand_ins(stored)), "resumed" * bool(stored.result.resumed))
        marks = filter(None, notes)
        say("  ".join([stored.run_id, stored.result.status, *marks]), file=out)
        if not perma:
            print_figures(stored.result.metrics)
        for warning in stored.result.uncontrolled:
            say(f"warning: {warning}", file=out)
        for line in show.problems(stored.result):
            say(line, file=out)


def _perma(stored: StoredRun, resolved: ResolvedSuite) -> list[dict[str, Any]]:
    artifact = stored.artifact("microbench")
    if artifact is None:  # it failed
        return []
    result = SuiteResult.read(
        resolved.host_suite.measurements, resolved.repeats, artifact["result"]
    )
    return perma_results(result, memory_of(resolved.tier), stored.result.uncontrolled)
