"""What every loader of files of rows asks: is the first line a header, were all rows loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import RunFailed


def has_header(file: Path, columns: Sequence[str]) -> bool:
    """Whether the first line of a CSV file names the table's columns."""
    with file.open("rb") as stream:
        return stream.readline().decode().strip().lower().split(",") == list(columns)


def verify_counts(loaded: Mapping[str, int], wanted: Mapping[str, int]) -> None:
    """RunFailed for the first table that has another number of rows than it should."""
    for table, rows in wanted.items():
        if loaded.get(table, 0) != rows:
            raise RunFailed(
                f"load {rows} rows into {table}",
                f"{loaded.get(table, 0)} were loaded",
                "the source files are not complete: remove them with `harness data rm`",
            )
