"""Bulk load: parallel COPY, keys, indexes and foreign keys, each as soon as it may start.

Speed comes from five things, none of which outlives the load. A managed server has
settings of its own while it loads, whatever the tuning profile says (golden data must
not depend on who was first to load them): WAL at ``minimal`` and no fsync (a crash then
costs the load, which would be repeated anyway); afterwards everything is fsynced. A
table is truncated and filled in one transaction, so PostgreSQL writes no WAL for it, and
its rows are frozen at once (``COPY FREEZE``): the first measured query finds hint bits
and visibility map set. Only where one connection would hold up many is a table's files
spread over several. The server reads the files itself where it may. Keys of one table
are built while another is being copied (_workers.py), the largest first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from engines import _loading
from engines._loading import LoadingServer, has_header, readable_by
from engines._statement import head
from engines._workers import Job, Workers
from engines.postgres.connection import PostgresConnection
from harness.errors import RunFailed
from harness.progress import Task
from harness.sql_files import statements, tables_of
from harness.store.spec import JsonObject
from harness.units import GIB, MIB

_Job = Job[PostgresConnection]
_PIECE_BYTES = 1 << 20
#: Spread rows are logged and vacuumed, about half as much work again: it pays from 5 connections.
_SPREAD_FACTOR = 3
_DEFAULT_MAINTENANCE_BYTES = 512 * MIB
_SPARE_CONNECTIONS = 20


def loading_settings(threads: int, memory_bytes: int | None) -> dict[str, str]:
    """Server settings that hold only while loading, on top of the server's defaults."""
    share = (memory_bytes or 8 * _DEFAULT_MAINTENANCE_BYTES) // 8
    maintenance = max(64 * MIB, min(2 * GIB, share // max(1, threads // 4)))
    return {
        "fsync": "off",
        "full_page_writes": "off",
        "synchronous_commit": "off",
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "archive_mode": "off",
        "max_wal_size": "16GB",
        "checkpoint_timeout": "1h",
        "autovacuum": "off",
        "max_connections": str(threads + _SPARE_CONNECTIONS),
        "max_worker_processes": str(max(8, threads)),
        "shared_buffers": f"{max(128 * MIB, min(4 * GIB, share)) // 1024}kB",
        "maintenance_work_mem": f"{maintenance // 1024}kB",
        "max_parallel_maintenance_workers": str(max(1, min(8, threads // 2))),
    }


class _Load:
    """One load under way: its files, its jobs, and the rows copied so far."""

    def __init__(
        self,
        files: Mapping[str, Sequence[Path]],
        connections: int,
        by_server: bool,
        task: Task,
    ) -> None:
        self.files = files
        self.by_server = by_server
        self.task = task
        self.copied = dict.fromkeys(files, 0)
        self._lock = threading.Lock()
        self.bytes = {t: sum(p.stat().st_size for p in paths) for t, paths in files.items()}
        #: A table above this size would keep one connection busy long after the others.
        self._spread_above = _SPREAD_FACTOR * sum(self.bytes.values()) / connections

    def copy_jobs(self, stage: int) -> list[_Job]:
        """One job a table, or one a file for the tables that are spread."""
        jobs: list[_Job] = []
        for table, paths in self.files.items():
            if self.bytes[table] > self._spread_above and len(paths) > 1:
                jobs += [self._copy_job(stage, table, [path], whole=False) for path in paths]
            else:
                jobs.append(self._copy_job(stage, table, paths, whole=True))
        return jobs

    def _copy_job(self, stage: int, table: str, paths: Sequence[Path], whole: bool) -> _Job:
        def run(connection: PostgresConnection) -> None:
            rows = self._copy(connection.raw, table, paths, whole)
            with self._lock:
                self.copied[table] += rows

        weight = sum(path.stat().st_size for path in paths)
        return _Job(stage, frozenset({table}), not whole, weight, run)

    def _copy(
        self, raw: psycopg.Connection[Any], table: str, paths: Sequence[Path], whole: bool
    ) -> int:
        """COPY the files in one transaction; ``whole``: they are all of the table."""
        rows = 0
        try:
            with raw.transaction():
                if whole:
                    raw.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(table)))
                for path in paths:
                    rows += _copy_file(raw, table, path, self.by_server, freeze=whole)
                    self.task.advance(path.stat().st_size, note=table)
        except psycopg.Error as error:
            found = error.diag.message_primary or str(error).strip()
            raise RunFailed(
                f"load table {table}", found, error.diag.message_hint or error.diag.context or ""
            ) from error
        return rows


class Loader(_loading.Loader[PostgresConnection]):
    """COPY over several connections."""

    def __init__(
        self,
        connect: Callable[[], PostgresConnection],
        threads: int,
        index_tablespace: str | None = None,
        server: LoadingServer | None = None,
    ) -> None:
        self._connect = connect
        self._connections = max(1, threads)
        self._index_tablespace = index_tablespace
        self._server = server

    def load_files(
        self,
        workers: Workers[PostgresConnection],
        folder: Path,
        files: Mapping[str, Sequence[Path]],
        task: Task,
    ) -> Mapping[str, int]:
        """A table at a time on every connection, or a file where one would hold up many."""
        load = _Load(files, self._connections, readable_by(self._server, files), task)
        workers.run([*load.copy_jobs(1), *self.jobs_behind(folder, load.bytes, task)])
        return load.copied

    @contextmanager
    def empty_tables(
        self, folder: Path, source_bytes: int, params: JsonObject | None = None
    ) -> Iterator[Workers[PostgresConnection]]:
        """Without keys; the connections put indexes where they belong."""
        if self._server is not None:
            settings = loading_settings(self._connections, self._server.memory_bytes)
            self._server.restart_for_loading(settings)
        with Workers(self._connect, self._connections) as workers:
            for statement in statements(folder, "10_tables", params):
                workers.connections[0].execute(statement)
            if self._index_tablespace is not None:
                for connection in workers.connections:
                    connection.raw.execute(f"SET default_tablespace = {self._index_tablespace}")
            yield workers
        if self._server is not None:
            self._server.restart_for_use()

    def jobs_behind(self, folder: Path, weights: Mapping[str, int], task: Task) -> list[_Job]:
        """Only builds of indexes share a table."""
        final = statements(folder, "50_analyze") or [f"VACUUM (ANALYZE) {t}" for t in weights]
        stages = [
            (2, statements(folder, "20_keys"), False),
            (3, statements(folder, "30_indexes"), True),
            (4, statements(folder, "40_foreign_keys"), False),
            (5, final, False),
        ]
        return [
            _statement_job(stage, text, shared, weights, task)
            for stage, texts, shared in stages
            for text in texts
        ]

    def run(self, connection: PostgresConnection, sql: str) -> None:
        connection.execute(sql)


def _statement_job(
    stage: int, text: str, shared: bool, weights: Mapping[str, int], task: Task
) -> _Job:
    """A statement, on the tables it names (on all of them if it names none)."""
    tables = tables_of(text, weights) or list(weights)

    def run(connection: PostgresConnection) -> None:
        connection.execute(text)
        task.advance(0, note=head(text, 60))

    return _Job(stage, frozenset(tables), shared, weights[tables[0]], run)


def _copy_file(
    raw: psycopg.Connection[Any], table: str, path: Path, by_server: bool, freeze: bool
) -> int:
    """COPY one CSV file; returns its rows."""
    source = sql.Literal(str(path)) if by_server else sql.SQL("STDIN")
    command = sql.SQL("COPY {} FROM {} WITH (FORMAT csv, HEADER {}, FREEZE {})").format(
        sql.Identifier(table),
        source,
        sql.Literal(_has_header(raw, table, path)),
        sql.Literal(freeze),
    )
    with raw.cursor() as cursor:
        if by_server:
            cursor.execute(command)
            return cursor.rowcount
        with cursor.copy(command) as copy, path.open("rb", buffering=0) as stream:
            while piece := stream.read(_PIECE_BYTES):
                copy.write(piece)
        return cursor.rowcount


def _has_header(raw: psycopg.Connection[Any], table: str, path: Path) -> bool:
    query = sql.SQL("SELECT * FROM {} LIMIT 0").format(sql.Identifier(table))
    columns = [c.name for c in raw.execute(query).description or ()]
    return has_header(path, columns)
