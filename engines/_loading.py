"""What every loader of rows does and asks: of the server, of the files, of the loaded rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol

from engines._workers import Connection, Job, Workers
from harness.drivers.loadgen.protocols import Fill
from harness.engine import LoadFormat
from harness.errors import RunFailed
from harness.progress import Progress, Task
from harness.sql_files import calls, text_of
from harness.store.spec import JsonObject

#: Of a source that is no file, for what a loader sizes by its source.
_ABOUT_ROW_BYTES = 400


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


class Loader(ABC, Generic[Connection]):
    """Loads a workload's tables over several connections."""

    @abstractmethod
    def empty_tables(
        self, folder: Path, source_bytes: int, params: JsonObject | None = None
    ) -> AbstractContextManager[Workers[Connection]]:
        """Connections to empty tables; at the end all is durable.

        A managed server has its settings for loading meanwhile.
        """

    @abstractmethod
    def load_files(
        self,
        workers: Workers[Connection],
        folder: Path,
        files: Mapping[str, Sequence[Path]],
        task: Task,
    ) -> Mapping[str, int]:
        """All files, and behind them what ``jobs_behind`` has; the rows loaded by table."""

    @abstractmethod
    def jobs_behind(
        self, folder: Path, weights: Mapping[str, int], task: Task
    ) -> list[Job[Connection]]:
        """All work on the filled tables, by stages; ``weights``: their sizes, in any unit."""

    @abstractmethod
    def run(self, connection: Connection, sql: str) -> None:
        """One statement."""

    def load(
        self,
        folder: Path,
        files: Mapping[str, Sequence[Path]],
        row_counts: Mapping[str, int],
        progress: Progress,
    ) -> None:
        """See BulkLoads.bulk_load; ``folder`` holds ``10_tables.sql`` and so on."""
        total = sum(path.stat().st_size for paths in files.values() for path in paths)
        with (
            self.empty_tables(folder, total) as workers,
            progress.task("loading tables", total, "B") as task,
        ):
            verify_counts(self.load_files(workers, folder, files, task), row_counts)

    def fill(
        self,
        folder: Path,
        fill: Callable[[], Mapping[str, int]],
        row_counts: Mapping[str, int],
        progress: Progress,
        params: JsonObject,
    ) -> None:
        """See LoadsNatively.native_load; ``folder`` has ``procedures/`` too."""
        about_bytes = sum(row_counts.values()) * _ABOUT_ROW_BYTES
        with self.empty_tables(folder, about_bytes, params) as workers:
            stored = fill()
            verify_counts(stored, row_counts, "load again; the server's log may tell why")
            with progress.task("building indexes", total=None) as task:
                workers.run(self.jobs_behind(folder, stored, task))
            for file in sorted((folder / "procedures").glob("*.sql")):
                self.run(workers.connections[0], text_of(file))


class LoadedBySql(ABC, Generic[Connection]):
    """What SQL engines do by the files in ``sql/<workload>/``: loaded, and driven natively."""

    load_format: ClassVar[LoadFormat] = "csv"
    sql_folder: Path

    @abstractmethod
    def _loader(self) -> Loader[Connection]:
        """What loads rows into it."""

    @abstractmethod
    def native_connection(self) -> Mapping[str, Any]:
        """As the native back end takes it: where the data are, with the password."""

    def bulk_load(
        self,
        workload: str,
        files: Mapping[str, Sequence[Path]],
        row_counts: Mapping[str, int],
        progress: Progress,
    ) -> None:
        """Schema, files in parallel, keys, indexes, statistics; row counts verified."""
        self._loader().load(self.sql_folder / workload, files, row_counts, progress)

    def native_calls(self, workload: str, params: JsonObject) -> Mapping[str, str | Sequence[str]]:
        """From ``sql/<workload>/calls/``."""
        return calls(self.sql_folder / workload, params)

    def native_load(
        self,
        workload: str,
        fill: Fill,
        row_counts: Mapping[str, int],
        progress: Progress,
        params: JsonObject | None = None,
    ) -> None:
        """Schema, ``fill``, keys, indexes, statistics, procedures; row counts verified."""
        self._loader().fill(
            self.sql_folder / workload,
            lambda: fill(self.native_connection()),
            row_counts,
            progress,
            params or {},
        )
