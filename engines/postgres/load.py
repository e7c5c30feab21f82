"""Bulk load: parallel COPY, then keys, indexes and foreign keys in parallel.

Speed comes from four things, none of which outlives the load. A managed server runs
with WAL at ``minimal`` and without fsync while it loads (a crash then costs the load,
which would be repeated anyway); afterwards everything is fsynced and the server
restarts with the tuning profile's settings. A table is truncated and filled in one
transaction, so PostgreSQL writes no WAL for it, and its rows are frozen at once
(``COPY FREEZE``): the first measured query finds hint bits and visibility map set.
The server reads the files itself where it may. Work is done largest first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psycopg
from psycopg import sql

from harness.engines._sqlfiles import statements, table_of
from harness.engines.postgres.connection import PostgresConnection, head
from harness.engines.postgres.workers import Job, Workers
from harness.errors import RunFailed
from harness.progress import Progress, Task
from harness.units import GIB, MIB

_PIECE_BYTES = 1 << 20
_DEFAULT_MAINTENANCE_BYTES = 512 * MIB


class LoadingServer(Protocol):
    """What a loader may ask of a managed server."""

    @property
    def memory_bytes(self) -> int | None:
        """The memory cap, if there is one."""

    def restart_for_loading(self, settings: Mapping[str, str]) -> None:
        """Restart with these on top of the profile's."""

    def restart_for_use(self) -> None:
        """Make all durable, restart with the profile's settings alone."""

    def can_read(self, path: Path) -> bool:
        """Whether the server's user may read ``path``."""


def loading_settings(threads: int, memory_bytes: int | None) -> dict[str, str]:
    """Server settings that hold only while loading."""
    share = (memory_bytes or 8 * _DEFAULT_MAINTENANCE_BYTES) // 8
    maintenance = max(64 * MIB, min(2 * GIB, share // max(1, threads // 4)))
    return {
        "fsync": "off", "full_page_writes": "off", "synchronous_commit": "off",
        "wal_level": "minimal", "max_wal_senders": "0", "archive_mode": "off",
        "max_wal_size": "16GB", "checkpoint_timeout": "1h", "autovacuum": "off",
        "maintenance_work_mem": f"{maintenance // 1024}kB",
    }  # fmt: skip


@dataclass
class _Load:
    """One load under way."""

    files: Mapping[str, Sequence[Path]]
    workers: Workers
    by_server: bool
    copied: dict[str, int] = field(default_factory=dict)

    def bytes_of(self, table: str | None) -> int:
        """Size of a table's files: the weight of work on it."""
        return sum(path.stat().st_size for path in self.files.get(table or "", ()))


class Loader:
    """Loads a workload's tables over several connections."""

    def __init__(
        self,
        connect: Callable[[], PostgresConnection],
        threads: int,
        index_tablespace: str | None = None,
        server: LoadingServer | None = None,
    ) -> None:
        self._connect = connect
        self._threads = threads
        self._index_tablespace = index_tablespace
        self._server = server

    def load(
        self,
        folder: Path,
        files: Mapping[str, Sequence[Path]],
        row_counts: Mapping[str, int],
        progress: Progress,
    ) -> None:
        """See BulkLoads.bulk_load; ``folder`` holds ``10_tables.sql`` and so on."""
        if self._server is not None:
            settings = loading_settings(self._threads, self._server.memory_bytes)
            self._server.restart_for_loading(settings)
        with Workers(self._connect, max(1, self._threads)) as workers:
            load = _Load(files, workers, self._readable_by_server(files))
            workers.run([_statement(s, 0) for s in statements(folder, "10_tables")], in_order=True)
            self._copy(load, progress)
            _verify_counts(load.copied, row_counts)
            self._build(load, folder, progress)
        if self._server is not None:
            self._server.restart_for_use()

    def _readable_by_server(self, files: Mapping[str, Sequence[Path]]) -> bool:
        if self._server is None:
            return False
        return all(self._server.can_read(paths[0]) for paths in files.values() if paths)

    def _copy(self, load: _Load, progress: Progress) -> None:
        total = sum(load.bytes_of(table) for table in load.files)
        with progress.task("loading tables", total=total) as task:
            load.workers.run(
                [_copy_job(load, table, task) for table in load.files],
            )

    def _build(self, load: _Load, folder: Path, progress: Progress) -> None:
        """Keys, indexes, foreign keys, then statistics."""
        if self._index_tablespace is not None:
            setting = f"SET default_tablespace = {self._index_tablespace}"
            load.workers.on_each(lambda c: c.raw.execute(setting))
        for stem in ("20_keys", "30_indexes", "40_foreign_keys"):
            _run_all(load, statements(folder, stem), f"{stem[3:].replace('_', ' ')}", progress)
        load.workers.on_each(lambda c: c.raw.execute("RESET default_tablespace"))
        analyse = statements(folder, "50_analyze") or [f"VACUUM (ANALYZE) {t}" for t in load.files]
        _run_all(load, analyse, "statistics", progress)


def _run_all(load: _Load, texts: Sequence[str], what: str, progress: Progress) -> None:
    """Statements in any order, those on large tables first."""
    with progress.task(f"building {what}", total=len(texts)) as task:
        load.workers.run(
            [_statement(t, load.bytes_of(table_of(t, load.files)), task) for t in texts]
        )


def _statement(text: str, weight: int, task: Task | None = None) -> Job:
    def run(connection: PostgresConnection) -> None:
        connection.execute(text)
        if task is not None:
            task.advance(1, note=head(text)[:60])

    return Job(weight, run)


def _copy_job(load: _Load, table: str, task: Task) -> Job:
    """All files of one table in one transaction (see the module's head)."""

    def run(connection: PostgresConnection) -> None:
        rows = 0
        try:
            with connection.raw.transaction():
                truncate = sql.SQL("TRUNCATE {}").format(sql.Identifier(table))
                connection.raw.execute(truncate)
                for path in load.files[table]:
                    rows += _copy_file(connection.raw, table, path, load.by_server)
                    task.advance(path.stat().st_size, note=table)
        except psycopg.Error as error:
            found = error.diag.message_primary or str(error).strip()
            raise RunFailed(
                f"load table {table}", found, error.diag.message_hint or error.diag.context or ""
            ) from error
        load.copied[table] = rows

    return Job(load.bytes_of(table), run)


def _copy_file(raw: psycopg.Connection[object], table: str, path: Path, by_server: bool) -> int:
    """COPY one CSV file; returns its rows."""
    source = sql.Literal(str(path)) if by_server else sql.SQL("STDIN")
    command = sql.SQL("COPY {} FROM {} WITH (FORMAT csv, HEADER {}, FREEZE true)").format(
        sql.Identifier(table), source, sql.Literal(_has_header(raw, table, path))
    )
    with raw.cursor() as cursor:
        if by_server:
            cursor.execute(command)
            return cursor.rowcount
        with cursor.copy(command) as copy, path.open("rb", buffering=0) as stream:
            while piece := stream.read(_PIECE_BYTES):
                copy.write(piece)
        return cursor.rowcount


def _has_header(raw: psycopg.Connection[object], table: str, path: Path) -> bool:
    """Whether the file's first line names the table's columns."""
    query = sql.SQL("SELECT * FROM {} LIMIT 0").format(sql.Identifier(table))
    columns = [c.name for c in raw.execute(query).description or ()]
    with path.open("rb") as stream:
        return stream.readline().decode().strip().lower().split(",") == columns


def _verify_counts(copied: Mapping[str, int], wanted: Mapping[str, int]) -> None:
    for table, rows in wanted.items():
        if copied.get(table, 0) != rows:
            raise RunFailed(
                f"load {rows} rows into {table}",
                f"{copied.get(table, 0)} were loaded",
                "the source files are not complete: remove them with `harness data rm`",
            )
