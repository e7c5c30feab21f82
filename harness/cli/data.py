"""``harness data``: generated source files and loaded databases."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.common import HostOption, JsonOption, QuietOption, available, confirm, print_json
from harness.errors import UsageError
from harness.execution.environment import dataset_stores
from harness.progress import Progress, progress_on_stderr
from harness.store.datasets import Dataset, remove_datasets
from harness.supervise.user_files import regular_bytes
from harness.terminal import print_table, say
from harness.units import format_bytes

app = typer.Typer(no_args_is_help=True)


def _directories(names: list[str] | None, host: Path | None) -> list[Path]:
    """Return the directories of the named datasets, else of all, readable or not."""
    directories = [path for where in dataset_stores(host).values() for path in where.directories()]
    if not names:
        return directories
    unknown = sorted(set(names) - {path.name for path in directories})
    if unknown:
        raise UsageError(f"data {', '.join(unknown)}", "no such dataset", "see `harness data list`")
    return [path for path in directories if path.name in names]


@app.command("list")
def list_(host: HostOption = None, json_: JsonOption = False) -> None:
    """List every complete dataset."""
    entries = [
        (kind, dataset)
        for kind, where in dataset_stores(host).items()
        for dataset in where.datasets()
    ]
    if json_:
        print_json(
            {
                "data": [
                    {
                        "name": dataset.name,
                        "kind": kind,
                        "size_bytes": dataset.size_bytes,
                        "directory": str(dataset.directory),
                        "key": dataset.record.key,
                    }
                    for kind, dataset in entries
                ]
            }
        )
        return
    print_table(
        ("name", "kind", "size", "what", "directory"),
        [(d.name, kind, format_bytes(d.size_bytes), _what(d), d.directory) for kind, d in entries],
    )


def _what(dataset: Dataset) -> str:
    """``scale=1, built by DuckDB 2.0.0``: what the name's hash stands for."""
    key = dataset.record.key
    sizes = key.get("data")
    pairs = sizes.items() if isinstance(sizes, Mapping) else ()
    data = ", ".join(f"{name}={value}" for name, value in pairs)
    return ", built by ".join(text for text in (data, str(key.get("build", ""))) if text)


@app.command("rm")
def rm(
    names: Annotated[list[str] | None, typer.Argument(help="Names as in `harness data list`.")] = (
        None
    ),
    all_: Annotated[bool, typer.Option("--all", help="Every dataset.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not prompt.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed.")
    ] = False,
    host: HostOption = None,
) -> None:
    """Remove datasets; runs create them again when needed."""
    if not names and not all_:
        raise UsageError("data rm", "no dataset is named", "name some, or use --all")
    targets = _directories(names, host)
    for directory in targets:
        size = format_bytes(regular_bytes(directory, None))
        say(f"remove {directory} ({size})", file=sys.stderr)
    if dry_run or not targets:
        return
    confirm(f"permanently remove {len(targets)} datasets", yes)
    remove_datasets(targets)


def _problems(directory: Path, progress: Progress) -> list[str]:
    dataset, unreadable = available(partial(Dataset.read, directory))
    if unreadable:
        return [unreadable]
    return dataset.verify(progress) if dataset else []


@app.command("verify")
def verify(
    names: Annotated[list[str] | None, typer.Argument(help="Names [all].")] = None,
    host: HostOption = None,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare every file with its recorded checksum."""
    with progress_on_stderr(quiet) as progress:
        problems = {path.name: _problems(path, progress) for path in _directories(names, host)}
    if json_:
        print_json({"data": [{"name": n, "problems": texts} for n, texts in problems.items()]})
    else:
        for name, texts in problems.items():
            say(f"{name}: {'; '.join(texts) or 'ok'}")
    if any(problems.values()):
        raise typer.Exit(1)
