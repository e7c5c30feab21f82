"""``harness data``: generated source files and golden (loaded) databases."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from harness import paths
from harness.cli.common import (
    JsonOption,
    QuietOption,
    confirm,
    print_json,
    print_table,
)
from harness.errors import UsageError
from harness.golden import Dataset, DatasetStore
from harness.opening import dataset_stores
from harness.progress import progress_on_stderr
from harness.units import format_bytes

app = typer.Typer(help="List, remove and verify source and golden data.")


def _all() -> list[tuple[str, DatasetStore, Dataset]]:
    return [
        (kind, where, dataset)
        for kind, where in dataset_stores().items()
        for dataset in where.datasets()
    ]


def _named(names: list[str] | None) -> list[tuple[str, DatasetStore, Dataset]]:
    found = _all()
    if not names:
        return found
    unknown = sorted(set(names) - {dataset.name for _, _, dataset in found})
    if unknown:
        raise UsageError(
            f"data {', '.join(unknown)}", f"not in {paths.data_root()}", "see `harness data list`"
        )
    return [entry for entry in found if entry[2].name in names]


@app.command("list")
def list_(json_: JsonOption = False) -> None:
    """Every complete dataset."""
    entries = _all()
    if json_:
        print_json(
            {
                "data": [
                    {
                        "name": dataset.name,
                        "kind": kind,
                        "size_bytes": dataset.size_bytes,
                        "directory": str(dataset.directory),
                        "key": dataset.record["key"],
                    }
                    for kind, _, dataset in entries
                ]
            }
        )
        return
    print_table(
        ("name", "kind", "size", "directory"),
        [(d.name, kind, format_bytes(d.size_bytes), d.directory) for kind, _, d in entries],
    )


@app.command("rm")
def rm(
    names: Annotated[list[str] | None, typer.Argument(help="Names from `harness data list`.")] = (
        None
    ),
    all_: Annotated[bool, typer.Option("--all", help="Every dataset.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go.")] = False,
) -> None:
    """Remove datasets; they are made again when a run needs them."""
    if not names and not all_:
        raise UsageError("data rm", "no dataset is named", "name some, or say --all")
    targets = _named(names)
    for _, _, dataset in targets:
        print(f"remove {dataset.directory} ({format_bytes(dataset.size_bytes)})", file=sys.stderr)
    if dry_run or not targets:
        return
    confirm(f"remove {len(targets)} datasets for good", yes)
    for _, where, dataset in targets:
        where.remove(dataset)


@app.command("verify")
def verify(
    names: Annotated[list[str] | None, typer.Argument(help="Names; all when none.")] = None,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Read every file and compare it with what was recorded when it was made."""
    with progress_on_stderr(quiet) as progress:
        problems = {dataset.name: dataset.verify(progress) for _, _, dataset in _named(names)}
    if json_:
        print_json({"data": [{"name": n, "problems": found} for n, found in problems.items()]})
    else:
        for name, found in problems.items():
            print(f"{name}: {'sound' if not found else '; '.join(found)}")
    if any(problems.values()):
        raise typer.Exit(1)
