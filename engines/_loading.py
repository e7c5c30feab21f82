"""What every loader of files of rows asks: of the server, of the files, of the loaded rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from harness.errors import RunFailed


class LoadingServer(Protocol):
    """What a loader may ask of a managed server."""

    @property
    def memory_bytes(self) -> int | None:
        """The memory cap, if there is one."""

    def restart_for_loading(self, settings: Mapping[str, str]) -> None:
        """Restart with these, and of the profile's only what decides what is stored."""

    def restart_for_use(self) -> None:
        """Make all durable, restart without them."""

    def can_read(self, paths: Sequence[Path]) -> bool:
        """Whether the server's user may read every one of ``paths``."""


def readable_by(server: LoadingServer | None, files: Mapping[str, Sequence[Path]]) -> bool:
    """Whether the server's own user may read all of ``files``; of an external one not known."""
    return server is not None and server.can_read([p for paths in files.values() for p in paths])


def has_header(file: Path, columns: Sequence[str]) -> bool:
    """Whether the first line of a CSV file names the table's columns."""
    with file.open("rb") as stream:
        return stream.readline().decode().strip().lower().split(",") == list(columns)


def verify_counts(
    loaded: Mapping[str, int],
    wanted: Mapping[str, int],
    do: str = "the source files are not complete: remove them with `harness data rm`",
) -> None:
    """RunFailed for the first table that has another number of rows than it should."""
    for table, rows in wanted.items():
        if loaded.get(table, 0) != rows:
            raise RunFailed(
                f"load {rows} rows into {table}",
                f"{loaded.get(table, 0)} were loaded",
                do,
            )
