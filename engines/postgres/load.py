"""Bulk load: parallel COPY, keys, indexes and foreign keys, each as soon as it may start.

Speed comes from five measures, none of which outlives the load. A managed server has its own
settings during a load, independent of the tuning profile (a dataset must not depend on the
profile that loaded it): WAL at ``minimal`` and no fsync (a crash costs the load, which would be
repeated anyway); everything is fsynced afterwards. A table is truncated and filled in one
transaction, so PostgreSQL writes no WAL for it, and its rows are frozen at once (``COPY
FREEZE``): the first measured query finds hint bits and visibility map set. The files of a table
are spread over several connections only if one connection would delay the others. The server
reads the files itself where it may. Keys of one table are built while another is being copied
(_loading.py), the largest table first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from engines import _loading
from engines._loading import FileLoad, LoadJob, Workers, columns_in, readable_by
from engines._managed import AnyServer
from engines.postgres.connection import PostgresConnection, failed
from harness.engine import LoadRequest
from harness.errors import RunFailed
from harness.progress import Task
from harness.sql_files import statements
from harness.sql_script import dumped
from harness.store.spec import JsonObject
from harness.units import GIB, MIB

_Job = LoadJob[PostgresConnection]
_PIECE_BYTES = 1 << 20
#: Spread rows are logged and vacuumed, half as much work again: this pays from 5 connections.
_SPREAD_FACTOR = 3
_DEFAULT_MAINTENANCE_BYTES = 512 * MIB
_SPARE_CONNECTIONS = 20
#: Statements that drop each foreign key, and that add it.
_FOREIGN_KEYS = """
SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
       format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname,
              pg_get_constraintdef(pg_constraint.oid))
FROM pg_constraint JOIN pg_namespace ON pg_namespace.oid = connamespace
WHERE contype = 'f' AND conparentid = 0 AND nspname !~ '^(pg_|information_schema$)'"""


def loading_settings(threads: int, memory_bytes: int | None) -> dict[str, str]:
    """Server settings during a load, in addition to the server's defaults."""
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


class Loader(_loading.Loader[PostgresConnection]):
    """COPY over several connections.

    ``server``: the managed server to restart for the load; None for an external one.
    """

    def __init__(
        self,
        connect: Callable[[], PostgresConnection],
        threads: int,
        index_tablespace: str | None = None,
        server: AnyServer | None = None,
    ) -> None:
        super().__init__(connect, threads)
        self._index_tablespace = index_tablespace
        self._server = server

    def load_files(
        self,
        workers: Workers[PostgresConnection],
        request: LoadRequest,
        task: Task,
    ) -> Mapping[str, int]:
        """One table per connection, or one file for tables that would delay the others."""
        load = FileLoad[PostgresConnection](request.files, task)
        copies = copy_jobs(load, self._connections, readable_by(self._server, request.files))
        keys = self._without_foreign_keys()
        final = [
            *self._script_jobs(request, task),
            *self.final_jobs(request.schema, load.bytes, task),
            *self._statement_jobs([(5, keys, False)], load.bytes, task),
        ]
        workers.run([*copies, *final])
        return load.rows

    def run_dump(self, dump: Path) -> None:
        with (
            closing(self._connect()) as connection,
            dump.open(encoding="utf-8-sig", newline="\n") as f,
        ):
            for statement in dumped(f, False, dump.name):
                if statement.rows is None:
                    connection.execute(statement.text)
                else:
                    _copy_rows(connection, statement.text, statement.rows)

    def _without_foreign_keys(self) -> list[str]:
        """Drop the foreign keys that the tables were created with; returns what adds them again.

        Tables are loaded in any order, and one that is referenced cannot be truncated.
        """
        with closing(self._connect()) as connection:
            keys = connection.raw.execute(_FOREIGN_KEYS).fetchall()
            for drop, _ in keys:
                connection.execute(drop)
        return [add for _, add in keys]

    @contextmanager
    def empty_tables(
        self, folder: Path, source_bytes: int, params: JsonObject | None = None
    ) -> Iterator[Workers[PostgresConnection]]:
        """Tables without keys; the connections create indexes in their tablespace."""
        if self._server is not None:
            settings = loading_settings(self._connections, self._server.memory_bytes)
            self._server.restart_for_loading(settings)
        with closing(self._connect()) as creating:  # what they set ends with the session
            for statement in statements(folder, "10_tables", params):
                creating.execute(statement)
            self._place_indexes(creating)  # those of keys in CREATE TABLE
        with Workers(self._connect, self._connections) as workers:
            if self._index_tablespace is not None:
                for connection in workers.connections:
                    connection.raw.execute(f"SET default_tablespace = {self._index_tablespace}")
            yield workers
            self._place_indexes(workers.connections[0])  # those of tables that a client made
        if self._server is not None:
            self._server.restart_for_use()

    def _place_indexes(self, connection: PostgresConnection) -> None:
        if self._index_tablespace is not None:
            connection.execute(
                f"ALTER INDEX ALL IN TABLESPACE pg_default SET TABLESPACE {self._index_tablespace}"
            )

    def final_jobs(self, folder: Path, weights: Mapping[str, int], task: Task) -> list[_Job]:
        """Only index builds share a table."""
        final = statements(folder, "50_analyze") or [f"VACUUM (ANALYZE) {t}" for t in weights]
        stages = [
            (2, statements(folder, "20_keys"), False),
            (3, statements(folder, "30_indexes"), True),
            (4, statements(folder, "35_attachments"), False),
            (5, statements(folder, "40_foreign_keys"), False),
            (7, final, False),
        ]
        script = self._final_script(6, folder, weights)
        return [*self._statement_jobs(stages, weights, task), *script]

    def run(self, connection: PostgresConnection, sql: str, table: str = "") -> None:
        connection.execute(sql)


def copy_jobs(
    load: FileLoad[PostgresConnection], connections: int, by_server: bool
) -> Iterator[_Job]:
    """One job per table, or one per file for tables that would keep one connection busy long
    after the others.
    """
    limit = _SPREAD_FACTOR * sum(load.bytes.values()) / connections
    for table, paths in load.files.items():
        if not paths:
            continue
        spread = load.bytes[table] > limit and len(paths) > 1
        for group in [[path] for path in paths] if spread else [paths]:
            copy = partial(_copy, load.task, table, group, by_server, not spread)
            weight = sum(path.stat().st_size for path in group)
            yield load.job(0, table, weight, copy, shared=spread)


def _copy(
    task: Task,
    table: str,
    paths: Sequence[Path],
    by_server: bool,
    whole: bool,
    connection: PostgresConnection,
) -> int:
    """COPY the files in one transaction; ``whole``: they are all files of the table."""
    raw, rows = connection.raw, 0
    try:
        with raw.transaction():
            # Rows of partitioned tables cannot be frozen, nor can only the table be truncated.
            whole = whole and not _is_partitioned(raw, table)
            if whole:
                raw.execute(f"TRUNCATE ONLY {table}")
            for path in paths:
                rows += _copy_file(raw, table, path, by_server, freeze=whole)
                task.advance(path.stat().st_size, note=table)
    except psycopg.Error as error:
        context = error.diag.message_primary or str(error).strip()
        hint = error.diag.message_hint or error.diag.context or ""
        raise RunFailed(f"load table {table}", context, hint) from error
    return rows


def _copy_file(
    raw: psycopg.Connection[Any], table: str, path: Path, by_server: bool, freeze: bool
) -> int:
    """COPY one CSV file; returns its rows."""
    source = sql.Literal(str(path)) if by_server else sql.SQL("STDIN")
    columns = columns_in(path, _columns(raw, table))
    command = sql.SQL(
        "COPY {} ({}) FROM {} WITH (FORMAT csv, HEADER, NULL 'NULL', FREEZE {})"
    ).format(
        sql.SQL(table),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        source,
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


def _is_partitioned(raw: psycopg.Connection[Any], table: str) -> bool:
    """Return whether a table has partitions, or is one."""
    question = "SELECT relkind = 'p' OR relispartition FROM pg_class WHERE oid = %s::regclass"
    (answer,) = raw.execute(question, [table]).fetchone() or (False,)
    return bool(answer)


def _columns(raw: psycopg.Connection[Any], table: str) -> list[str]:
    description = raw.execute(f"SELECT * FROM {table} LIMIT 0").description
    return [column.name for column in description or ()]


def _copy_rows(connection: PostgresConnection, command: str, rows: Iterator[str]) -> None:
    """COPY the rows of a dump."""
    try:
        with connection.raw.cursor() as cursor, cursor.copy(command) as copy:
            for row in rows:
                copy.write(row)
    except psycopg.Error as error:
        raise failed(command, error) from error
