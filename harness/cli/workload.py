"""``harness workload``: a folder of the user's own tables, data and queries."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness import paths, registry
from harness.capture.capture import DIALECTS, capture_log
from harness.capture.server import WEIGHTS, capture_server
from harness.capture.summary import sample_summary, summary
from harness.cli.common import JsonOption, QuietOption, ResultsOption, print_json, store
from harness.errors import UsageError, unknown
from harness.install import install_packages
from harness.progress import progress_on_stderr
from harness.units import parse_duration_ns, parse_share
from harness.workloads.sql.answers import write_answers
from harness.workloads.sql.example import refuse_used, write_example
from harness.workloads.sql.folder import read_folder
from harness.workloads.sql.params import SqlParams
from harness.workloads.sql.public import BENCHMARKS, public_benchmark, write_public

app = typer.Typer(no_args_is_help=True)

_ENGINE = "duckdb"

_Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder, such as shop/.")]


@app.command("init")
def init(
    folder: _Folder,
    benchmark: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="BENCHMARK",
            help=f"A public benchmark instead, generated here: {', '.join(BENCHMARKS)}.",
        ),
    ] = None,
    scale: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="With --from: its scale [1].")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(metavar="ENGINE", help=f"With --from: whose SQL to write [{_ENGINE}]."),
    ] = None,
    quiet: QuietOption = False,
    json_: JsonOption = False,
) -> None:
    """Write an example: three tables with rows, five queries, answers, a check.

    Of a public benchmark: tables with rows, its queries, and DuckDB's answers to them.
    """
    if benchmark is None and (scale, engine) != (None, None):
        raise UsageError("--scale, --engine", "they are of a public benchmark", "add --from")
    engine = engine or _ENGINE
    if benchmark is None:
        files = write_example(folder)
    else:
        size = 1.0 if scale is None else scale
        public = public_benchmark(benchmark, size)
        engines = registry.engines_of(SqlParams.workload)
        if engine not in engines:
            context = f"workload {SqlParams.workload} has no such engine"
            raise unknown(f"--engine {engine}", context, engine, sorted(engines))
        refuse_used(folder)
        with progress_on_stderr(quiet or json_) as progress:
            packages = install_packages(
                public.generator, public.requirements, paths.engines_prefix(), progress
            )
            dialect = engines[engine].sql_dialect or engine
            files = write_public(benchmark, folder, size, dialect, packages, progress)
    _print(folder, files, json_)
    if not json_:
        name = shlex.quote(str(folder))
        print(f"next: harness run sql --folder {name} --engine {engine} --placement ssd-both")


@app.command("answers")
def answers(
    folder: _Folder,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run of this folder, by its id.")],
    results: ResultsOption = None,
    json_: JsonOption = False,
) -> None:
    """Take a run's answers as the expected ones, of queries without answers.

    Look at them first: `harness runs show RUN --json`.
    """
    stored = store(results).run(run)
    if stored.spec.workload != SqlParams.workload:
        raise UsageError(f"run {run}", "it is not of workload sql", "name a run of this folder")
    read, problem = read_folder(folder), f"answers of run {run}"
    if stored.spec.params["content"] != read.content:
        raise UsageError(problem, f"{folder} had other files then", "run the folder as it is now")
    if (answers := stored.artifact("answers")) is None:
        raise UsageError(problem, "it has stored none", "name another run")
    _print(folder, write_answers(read, answers), json_)


@app.command("capture")
def capture(
    folder: _Folder,
    engine: Annotated[
        Literal["postgres", "mysql", "mariadb"],
        typer.Option("--engine", help="DBMS that wrote the log."),
    ],
    log: Annotated[
        list[Path] | None,
        typer.Option("--log", metavar="FILE", help="File of the log, or a folder; repeats."),
    ] = None,
    dsn: Annotated[str, typer.Option("--dsn", help="Server to dump ('env': $HARNESS_DSN).")] = "",
    for_: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="Time of counting statements (--dsn)."),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option("--rows", metavar="SHARE", help="Part of the rows, as in 1% [all] (--dsn)."),
    ] = None,
    database: Annotated[
        str, typer.Option("--database", help="Database (default: that of almost all statements).")
    ] = "",
    user: Annotated[
        list[str] | None,
        typer.Option("--user", help="User whose sessions are taken; repeats (default: all)."),
    ] = None,
    literals: Annotated[
        Literal["hide", "keep"],
        typer.Option("--literals", help="Print statements with their values (keep)."),
    ] = "hide",
    quiet: QuietOption = False,
    json_: JsonOption = False,
) -> None:
    """Record a load from a server's log, to be replayed: harness run sql --replay.

    PostgreSQL: csvlog or jsonlog with log_min_duration_statement=0. MySQL, MariaDB: the slow log
    with long_query_time=0, or the general log. --dsn dumps a server (--rows: a part of the rows),
    and writes the weights of statements if it counts them (pg_stat_statements,
    performance_schema).
    """
    if bool(log) == bool(dsn):
        raise UsageError("capture", "neither or both of --log and --dsn", "name one of them")
    if log is None or dsn:
        for_s = parse_duration_ns(for_) / 1e9 if for_ else 0.0
        share = parse_share(rows) if rows else None
        with progress_on_stderr(quiet or json_) as progress:
            written = capture_server(folder, DIALECTS[engine], dsn, for_s, share, progress)
        if json_:
            tables = [table.to_json() for table in written.sample]
            files = [str(path) for path in written.files]
            print_json({"folder": str(folder), "files": files, "sample": tables})
            return
        _print(folder, written.files, json_)
        if written.sample:
            print("\n".join(sample_summary(written.sample)))
        if written.uncounted:
            print(f"no {WEIGHTS}: {written.uncounted}")
        return
    if for_ or rows:
        raise UsageError("--for, --rows", "they are not for a log", "leave them out, or name --dsn")
    with progress_on_stderr(quiet or json_) as progress:
        captured = capture_log(folder, log, engine, database, user or (), progress)
    if json_:
        document = captured.header.to_json()
        if literals == "keep":
            document["examples"] = captured.examples
        print_json({"file": str(captured.path), "users": captured.users, **document})
        return
    for line in summary(captured, literals == "keep"):
        print(line)


def _print(folder: Path, files: list[Path], json_: bool) -> None:
    if json_:
        print_json({"folder": str(folder), "files": [str(path) for path in files]})
        return
    print("\n".join(f"wrote {path}" for path in files) or "each query has an answer already")
