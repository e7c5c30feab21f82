"""``harness micro``, and what ``harness run micro`` does: suites of microbenchmarks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from harness.cli import show
from harness.cli.common import JsonOption, print_json, print_table, store
from harness.cli.micro_table import print_figures
from harness.cli.options import CommonOptions
from harness.errors import UsageError
from harness.execution.environment import open_environment
from harness.micro.host_capacity import variables_here
from harness.micro.native import NAME
from harness.micro.perma_result import memory_of, perma_results
from harness.micro.runner import ResolvedSuite, SuiteRequest, planned_by, prepare, run
from harness.micro.suite import (
    find_suite,
    known_suites,
    load_documents,
    load_suite,
    suite_name,
)
from harness.progress import progress_on_stderr
from harness.store.runs import StoredRun
from harness.units import NS_PER_S, counted, format_bytes, format_ns
from harness.warnings import RunWarning

app = typer.Typer(help="Suites of microbenchmarks: `harness run micro --suite NAME` runs one.")

SuiteArgument = Annotated[str, typer.Argument(help="A suite's name, or a file.")]
_FORMATS = ("table", "perma")


@app.command("suites")
def suites(json_: JsonOption = False) -> None:
    """The suites that come along; the numbers are of configurations on this host."""
    found = []
    for name, path in known_suites().items():
        suite = load_suite(path, variables_here())
        planned = planned_by(suite.program, suite.params, suite.repeats)
        every = planned.configurations if planned else suite.measurements
        found.append(
            {
                "name": name,
                "configurations": len({one.configuration for one in every}),
                "program": suite.program,
                "description": suite.description,
            }
        )
    if json_:
        print_json({"suites": found})
        return
    print_table(
        ("suite", "configurations", "description"),
        [
            (one["name"], f"{one['configurations']}{_by(one['program'])}", one["description"])
            for one in found
        ],
    )


def _by(program: object) -> str:
    return "" if program == NAME else f" by {program}"


@app.command("show")
def show_(suite: SuiteArgument, json_: JsonOption = False) -> None:
    """What a suite measures: every configuration, before it is fitted to a tier."""
    loaded = load_suite(find_suite(suite), variables_here())
    rows = [
        (
            one.configuration,
            _bound(one.duration_ns, one.jobs[0].operations),
            ", ".join(format_bytes(job.range_bytes) for job in one.jobs),
        )
        for one in loaded.measurements
    ]
    if planned := planned_by(loaded.program, loaded.params, loaded.repeats):
        rows = [
            (it.configuration, _bound(it.duration_ns, it.operations), format_bytes(it.range_bytes))
            for it in planned.configurations
        ]
    if json_:
        print_json(
            {
                "suite": {
                    "name": loaded.name,
                    "description": loaded.description,
                    "configurations": [row[0] for row in rows],
                }
            }
        )
        return
    print(f"{loaded.name}: {loaded.description}")
    print_table(("configuration", "for", "range"), rows)


def _bound(duration_ns: int | None, operations: int | None) -> str:
    return format_ns(duration_ns) if duration_ns else f"{operations or 0:,} operations"


# harness run micro ---------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MicroOptions(CommonOptions):
    """A suite of microbenchmarks on a tier."""

    suite: Annotated[
        str | None, typer.Option(help="Name of a suite (`harness micro suites`), or its file.")
    ] = None
    tier: Annotated[list[str] | None, typer.Option(help="Tier to measure; may repeat.")] = None
    threads: Annotated[int | None, typer.Option(min=1, help="Most threads.")] = None
    duration: Annotated[
        str | None, typer.Option(help="Duration of each measurement: 1s [the suite's].")
    ] = None
    ramp_up: Annotated[
        str | None, typer.Option(help="Time before each measurement: 100ms [the suite's].")
    ] = None
    operations: Annotated[
        int | None, typer.Option(help="Most operations of a measurement [the suite's].")
    ] = None
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite the content of a raw device.")
    ] = False
    format_: Annotated[
        str, typer.Option("--format", help="table, or perma (PerMA-Bench's JSON).")
    ] = "table"


def _parameters(options: MicroOptions) -> dict[str, str]:
    """From ``--param`` and the options of the same names; UsageError for one given twice."""
    given = dict(options.pairs)
    plain = {
        "threads": options.threads,
        "cpus": options.cpus,
        "duration": options.duration,
        "warm_up": options.ramp_up,
        "operations": options.operations,
    }
    for key, value in plain.items():
        if value is not None and key in given:
            raise UsageError(
                f"--param {key}={given[key]}",
                f"{key} is {value} already",
                "leave one of the two out",
            )
    return given | {key: str(value) for key, value in plain.items() if value is not None}


def run_micro(options: MicroOptions) -> None:
    """Run a suite on each tier, or say what would be run."""
    request = _asked(options)
    with (
        progress_on_stderr(options.quiet) as progress,
        open_environment(options.host, options.emulate or [], progress) as env,
    ):
        resolved = [prepare(one, env) for one in request]
        if options.format_ == "perma":
            _check_perma(resolved)
        if options.dry_run:
            _print_plan(resolved, options.json_)
            return
        into = store(options.results)
        finished = [run(one, env, into) for one in resolved]
    _print(finished, resolved, options)
    show.exit_for(finished)


def _asked(options: MicroOptions) -> list[SuiteRequest]:
    if options.format_ not in _FORMATS:
        raise UsageError(
            f"--format {options.format_}",
            "no such format",
            f"one of {', '.join(_FORMATS)}; --json for the run itself",
        )
    if options.format_ == "perma" and options.json_:
        raise UsageError("--json with --format perma", "both print JSON", "leave one of them out")
    if options.suite is None:
        raise UsageError(
            "run micro",
            "no suite is named",
            "add --suite quick, say (`harness micro suites` lists them), or a file",
        )
    if not options.tier:
        raise UsageError(
            "run micro", "no tier is named", "add --tier dram, say (harness doctor lists the tiers)"
        )
    path = find_suite(options.suite)
    params = _parameters(options)
    documents = load_documents(path)
    emulated = tuple(dict.fromkeys(request.partition("=")[0] for request in options.emulate or ()))
    return [
        SuiteRequest(
            suite_name(path),
            documents,
            tier,
            params,
            options.repeats,
            options.seed,
            emulated,
            options.overwrite,
        )
        for tier in dict.fromkeys(options.tier)
    ]


def _check_perma(resolved: Sequence[ResolvedSuite]) -> None:
    for one in resolved:
        if one.scaled is None or not all(m.source for m in one.scaled.measurements):
            raise UsageError(
                "--format perma", f"{one.suite.name} is no suite of PerMA-Bench's", "use --json"
            )


def _print_plan(resolved: Sequence[ResolvedSuite], json_: bool) -> None:
    if json_:
        print_json({"plan": [_plan_json(one) for one in resolved]})
        return
    for one in resolved:
        scaled = one.scaled
        if scaled is None:
            _print_other(one)
            continue
        count = len(scaled.measurements)
        print_table(
            ("configuration", "threads", "range", "for"),
            [
                (
                    m.configuration,
                    " + ".join(str(job.threads) for job in m.jobs),
                    " + ".join(format_bytes(job.range_bytes) for job in m.jobs),
                    _bound(m.duration_ns, m.jobs[0].operations),
                )
                for m in scaled.measurements
            ],
            title=f"{one.suite.name} on {one.tier.name}: {counted(count, 'configuration')} × "
            f"{one.repeats}, {_duration_text(one)}; nothing is run",
        )
        for finding in scaled.warnings:
            print(f"warning: {finding}")


def _print_other(resolved: ResolvedSuite) -> None:
    """The plan of another program."""
    title = f"{resolved.suite.name} on {resolved.tier.name}, by {resolved.program}"
    planned = resolved.planned
    assert planned is not None
    measuring = f", {format_ns(planned.measuring_ns)} of measuring" if planned.measuring_ns else ""
    print_table(
        ("configuration", "threads", "range", "for"),
        [
            (
                one.configuration,
                one.threads,
                format_bytes(one.range_bytes),
                _bound(one.duration_ns, one.operations),
            )
            for one in planned.configurations
        ],
        title=f"{title}: {counted(len(planned.configurations), 'configuration')} "
        f"× {resolved.repeats}"
        f"{measuring} and {planned.extra}; nothing is run",
    )


def _duration_text(resolved: ResolvedSuite) -> str:
    """``about 3 min 20 s``, with what is not in it."""
    expected = resolved.expected
    assert expected is not None
    counted = f" and {expected.counted} that end by a count" if expected.counted else ""
    return f"about {format_ns(expected.total_ns)}{counted}"


def _plan_json(resolved: ResolvedSuite) -> dict[str, Any]:
    planned = resolved.planned
    every = (
        resolved.scaled.measurements
        if resolved.scaled
        else planned.configurations
        if planned
        else ()
    )
    expected = resolved.expected
    told = expected or planned
    measuring_ns = told.measuring_ns if told else None
    return {
        "suite": resolved.suite.name,
        "tier": resolved.tier.name,
        "program": resolved.program,
        "repeats": resolved.repeats,
        "measuring_s": None if measuring_ns is None else measuring_ns / NS_PER_S,
        "setup_s": expected.setup_ns / NS_PER_S if expected else None,
        "ended_by_a_count": expected.counted if expected else None,
        "configurations": [one.configuration for one in every],
        "scaled": [one.to_json() for one in resolved.scaled.warnings] if resolved.scaled else [],
    }


def _print(
    finished: Sequence[StoredRun], resolved: Sequence[ResolvedSuite], options: MicroOptions
) -> None:
    if options.format_ == "perma":
        print_json(
            [
                entry
                for stored, one in zip(finished, resolved, strict=True)
                for entry in _perma(stored, one)
            ]
        )
        for stored in finished:  # not part of that JSON's figures: whoever keeps these sees it
            for line in (_headline(stored), *_warnings(stored.run)):
                print(line, file=sys.stderr)
        return
    if options.json_:
        print_json({"runs": [stored.run for stored in finished]})
        return
    for stored in finished:
        _print_run(stored)


def _perma(stored: StoredRun, resolved: ResolvedSuite) -> list[dict[str, Any]]:
    kept = stored.artifact("microbench")
    if kept is None or resolved.scaled is None:  # it failed
        return []
    return perma_results(
        resolved.scaled.measurements,
        kept["result"],
        resolved.repeats,
        memory_of(resolved.tier),
        stored.run["uncontrolled"],
    )


def _print_run(stored: StoredRun) -> None:
    print(_headline(stored))
    print_figures(stored.run)
    for line in _warnings(stored.run):
        print(line)


def _headline(stored: StoredRun) -> str:
    marks = "".join(f"  EMULATED by {one['by']}" for one in stored.run["emulated"])
    return f"{stored.run_id}  {stored.run['status']}{marks}"


def _warnings(run_: Mapping[str, Any]) -> Iterator[str]:
    """What is to be known of a run's figures: what was not controlled, checks, its error."""
    for entry in run_["uncontrolled"]:
        yield f"warning: {RunWarning.from_json(entry)}"
    for check in run_["checks"]:
        if check["status"] != "passed":
            of = " ".join(check["labels"].values())
            yield f"{check['name']} {of} {check['status']}: {check['detail']}"
    if error := run_["error"]:
        yield f"error: {error['problem']}: {error['context']}\n  {error['hint']}"
