"""``harness workload``: a folder of the user's own tables, data and queries."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.common import JsonOption, ResultsOption, print_json, store
from harness.errors import UsageError
from harness.workloads.sql.answers import write_answers
from harness.workloads.sql.example import write_example
from harness.workloads.sql.folder import read_folder
from harness.workloads.sql.params import SqlParams

app = typer.Typer(no_args_is_help=True)

_Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder, such as shop/.")]


@app.command("init")
def init(folder: _Folder, json_: JsonOption = False) -> None:
    """Write an example: three tables with rows, five queries, answers, a check."""
    _print(folder, write_example(folder), json_)
    if not json_:
        name = shlex.quote(str(folder))
        print(f"next: harness run sql --folder {name} --engine duckdb --placement ssd-both")


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


def _print(folder: Path, files: list[Path], json_: bool) -> None:
    if json_:
        print_json({"folder": str(folder), "files": [str(path) for path in files]})
        return
    print("\n".join(f"wrote {path}" for path in files) or "each query has an answer already")
