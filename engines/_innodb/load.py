"""Bulk load: parallel LOAD DATA in primary-key order, then indexes, foreign keys, statistics.

InnoDB keeps rows in the primary key's tree, so tables have their keys before they are
loaded, and every file goes in sorted. All secondary indexes of a table are built at once,
in one pass over its rows, while another table is still being loaded. A managed server has
settings of its own while it loads, whatever the tuning profile says (golden data must not
depend on who was first to load them): no doublewrite, no flush at commit, and no redo log
where the release can do without one (MySQL 8.0.21); a crash costs the load, which would be
repeated anyway. Its clean stop afterwards brings every page to its device.

Files of one table are loaded in parallel. ``unique_checks`` stays on, which costs nothing while
there is no secondary index: without it MariaDB locks an empty table exclusively to fill it, and
two connections that begin together deadlock. A file is one transaction, so what a deadlock with
another session undoes is loaded again.

LOAD DATA cuts and converts what does not fit and only warns where the client sends the
file: every warning is an error here.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from engines import _loading
from engines._innodb.connection import MySqlConnection, server_error
from engines._innodb.installation import Flavour
from engines._innodb.wire import LazyResult
from engines._loading import has_header, readable_by
from engines._statement import head
from engines._workers import Job, Workers
from harness.errors import RunFailed
from harness.progress import Task
from harness.sql_files import statements, tables_of
from harness.store.spec import JsonObject
from harness.units import GIB, MIB

_Job = Job[MySqlConnection]
_Answer = TypeVar("_Answer")
_DEADLOCK = 1213
_SPARE_CONNECTIONS = 20
_ATTEMPTS = 5
_LEAST_POOL, _MOST_POOL = 256 * MIB, 8 * GIB
#: Foreign keys are vouched for by the verified counts and the files' origin, not row by row.
_SESSION = "SET SESSION foreign_key_checks = 0"
_CREATE_INDEX = re.compile(
    r"create (?P<unique>unique )?index (?P<name>\w+) on (?P<table>\w+)\s*(?P<rest>\(.*\))",
    re.IGNORECASE | re.DOTALL,
)
_ALTER_TABLE = re.compile(r"alter table (?P<table>\w+) (?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_FIRST_WITHOUT_REDO = (8, 0, 21)
_FIRST_WITH_DDL_THREADS = (8, 0, 27)
_FIRST_WITH_REDO_CAPACITY = (8, 0, 30)


@runtime_checkable
class LoadingServer(_loading.LoadingServer, Protocol):
    """What a loader may ask of a managed server."""

    @property
    def version_tuple(self) -> tuple[int, ...]:
        """(9, 7, 4) of "9.7.4"."""


def loading_settings(
    flavour: Flavour,
    version: tuple[int, ...],
    threads: int,
    memory_bytes: int | None,
    source_bytes: int,
) -> dict[str, str]:
    """Server settings that hold only while loading, on top of the server's defaults."""
    memory = memory_bytes or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    pool = max(_LEAST_POOL, min(_MOST_POOL, memory // 2))
    pool -= pool % (GIB if pool >= GIB else 128 * MIB)  # else the server would round it up
    sorting = max(16 * MIB, min(GIB, memory // 8))
    settings = {
        "innodb_buffer_pool_size": str(pool),
        "innodb_doublewrite": "OFF",
        "innodb_flush_log_at_trx_commit": "0",
        "innodb_io_capacity": "10000",
        "innodb_io_capacity_max": "40000",
        "innodb_log_buffer_size": str(64 * MIB),
        "local_infile": "ON",
        # Ours, and as many of a native client.
        "max_connections": str(2 * threads + _SPARE_CONNECTIONS),
    }
    # What a plan reserves on the redo log's tier: more would make checkpoints rarer.
    redo = min(2 * GIB, 64 * MIB + source_bytes // 4) // MIB * MIB
    if flavour == "mysql" and version >= _FIRST_WITH_REDO_CAPACITY:
        settings["innodb_redo_log_capacity"] = str(redo)
    elif flavour == "mysql":  # two files
        settings["innodb_log_file_size"] = str(redo // 2 // MIB * MIB)
    else:
        settings["innodb_log_file_size"] = str(redo)
    if flavour == "mysql" and version >= _FIRST_WITH_DDL_THREADS:
        settings["innodb_ddl_threads"] = str(max(1, min(16, threads)))
        settings["innodb_ddl_buffer_size"] = str(sorting // max(1, min(4, threads)))
        settings["innodb_parallel_read_threads"] = str(max(1, min(16, threads)))
    else:
        settings["innodb_sort_buffer_size"] = str(64 * MIB)
    return settings


def combined(texts: Sequence[str]) -> list[str]:
    """The statements with those that add to the same table made one ALTER TABLE.

    One pass over the table then builds all its indexes. Statements of another form stay.
    """
    additions: dict[str, list[str]] = {}
    others: list[str] = []
    for text in texts:
        if index := _CREATE_INDEX.fullmatch(text):
            unique = index["unique"] or ""
            addition = f"add {unique}index {index['name']} {index['rest']}"
            additions.setdefault(index["table"], []).append(addition)
        elif alter := _ALTER_TABLE.fullmatch(text):
            additions.setdefault(alter["table"], []).append(alter["rest"])
        else:
            others.append(text)
    merged = [f"alter table {t} {', '.join(parts)}" for t, parts in additions.items()]
    return [*merged, *others]


class Retries:
    """How often a deadlock undid a file or statement of the load, by table. Thread-safe."""

    def __init__(self) -> None:
        self.by_table: Counter[str] = Counter()
        self._lock = threading.Lock()

    def repeat(self, table: str, attempt: Callable[[], _Answer]) -> _Answer:
        """The answer of ``attempt``, which is made again after a deadlock."""
        attempts = 1
        while True:
            try:
                return attempt()
            except RunFailed as error:
                if server_error(error) != _DEADLOCK or attempts == _ATTEMPTS:
                    raise
            attempts += 1
            with self._lock:
                self.by_table[table] += 1


class _Load:
    """One load under way: its files, its jobs, and the rows loaded so far."""

    def __init__(
        self,
        files: Mapping[str, Sequence[Path]],
        by_server: bool,
        task: Task,
        retries: Retries,
    ) -> None:
        self.files = files
        self.by_server = by_server
        self.task = task
        self.retries = retries
        self.loaded = dict.fromkeys(files, 0)
        self._lock = threading.Lock()
        self.bytes = {t: sum(p.stat().st_size for p in paths) for t, paths in files.items()}

    def file_jobs(self, stage: int, columns: Mapping[str, Sequence[str]]) -> list[_Job]:
        """One job a file: the largest table first, its files in their order."""
        return [
            self._file_job(stage, table, path, columns[table])
            for table, paths in self.files.items()
            for path in paths
        ]

    def _file_job(self, stage: int, table: str, path: Path, columns: Sequence[str]) -> _Job:
        def run(connection: MySqlConnection) -> None:
            load = partial(load_file, connection, table, path, columns, self.by_server)
            rows = self.retries.repeat(table, load)
            with self._lock:
                self.loaded[table] += rows
            self.task.advance(path.stat().st_size, note=table)

        return _Job(stage, frozenset({table}), True, self.bytes[table], run)


def _check_admin(text: str, result: LazyResult) -> None:
    """ANALYZE TABLE tells its errors in a row of its result, and succeeds."""
    if result.columns[2:3] != ("Msg_type",):
        return
    for row in result.rows or ():
        if str(row[2]).lower() == "error":
            raise RunFailed(head(text), str(row[3]))


class Loader(_loading.Loader[MySqlConnection]):
    """LOAD DATA over several connections.

    ``server``: None of a server of the user's, which is neither restarted nor given files
    to read: the client sends them.
    """

    def __init__(
        self,
        connect: Callable[[], MySqlConnection],
        flavour: Flavour,
        threads: int,
        server: LoadingServer | None = None,
    ) -> None:
        self._connect = connect
        self._flavour: Flavour = flavour
        self._connections = max(1, threads)
        self._server = server
        self.retries = Retries()

    def load_files(
        self,
        workers: Workers[MySqlConnection],
        folder: Path,
        files: Mapping[str, Sequence[Path]],
        task: Task,
    ) -> Mapping[str, int]:
        """A file at a time on every connection."""
        for connection in workers.connections:
            connection.run(_SESSION)
        first = workers.connections[0]
        columns = {t: first.run(f"SELECT * FROM {t} LIMIT 0").columns for t in files}
        load = _Load(files, readable_by(self._server, files), task, self.retries)
        workers.run([*load.file_jobs(1, columns), *self.jobs_behind(folder, load.bytes, task)])
        return load.loaded

    @contextmanager
    def empty_tables(
        self, folder: Path, source_bytes: int, params: JsonObject | None = None
    ) -> Iterator[Workers[MySqlConnection]]:
        """With their keys, by which rows are stored."""
        without_redo = self._prepare_server(source_bytes)
        with Workers(self._connect, self._connections) as workers:
            first = workers.connections[0]
            if without_redo:
                first.run("ALTER INSTANCE DISABLE INNODB REDO_LOG")
            tables = statements(folder, "10_tables", params)
            for text in (*tables, *statements(folder, "20_keys")):
                first.run(text)
            yield workers
            if without_redo:
                first.run("ALTER INSTANCE ENABLE INNODB REDO_LOG")
        if self._server is not None:
            self._server.restart_for_use()

    def jobs_behind(self, folder: Path, weights: Mapping[str, int], task: Task) -> list[_Job]:
        analyse = statements(folder, f"50_analyze_{self._flavour}")
        stages = [
            (2, combined(statements(folder, "30_indexes")), False),
            # Quick, and two at a time often deadlock in MySQL's data dictionary.
            (3, combined(statements(folder, "40_foreign_keys")), True),
            (4, analyse or [f"ANALYZE TABLE {t}" for t in weights], False),
        ]
        return [
            self._statement_job(stage, text, alone, weights, task)
            for stage, texts, alone in stages
            for text in texts
        ]

    def run(self, connection: MySqlConnection, sql: str) -> None:
        connection.run(sql)

    def _statement_job(
        self, stage: int, text: str, alone: bool, weights: Mapping[str, int], task: Task
    ) -> _Job:
        """A statement, by itself on the tables it names; on all if it is ``alone`` or names none.

        The data dictionary's own locks may undo it.
        """
        tables = tables_of(text, weights) or list(weights)

        def run(connection: MySqlConnection) -> None:
            _check_admin(text, self.retries.repeat(tables[0], partial(connection.run, text)))
            task.advance(0, note=head(text, 60))

        return _Job(stage, frozenset(weights if alone else tables), False, weights[tables[0]], run)

    def _prepare_server(self, source_bytes: int) -> bool:
        """Restart a managed server for loading; whether it can do without its redo log."""
        server = self._server
        if server is None:
            return False
        version = server.version_tuple
        settings = loading_settings(
            self._flavour, version, self._connections, server.memory_bytes, source_bytes
        )
        server.restart_for_loading(settings)
        return self._flavour == "mysql" and version >= _FIRST_WITHOUT_REDO


def load_file(
    connection: MySqlConnection, table: str, path: Path, columns: Sequence[str], by_server: bool
) -> int:
    """LOAD DATA of one CSV file; returns its rows. RunFailed for an error or a warning."""
    local = "" if by_server else "LOCAL "
    header = " IGNORE 1 LINES" if has_header(path, columns) else ""
    connection.raw.local_file = None if by_server else os.fsencode(path)
    try:
        result = connection.run(
            f"LOAD DATA {local}INFILE {_literal(path)} INTO TABLE {table} CHARACTER SET utf8mb4 "
            "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '' "
            rf"LINES TERMINATED BY '\n'{header}"
        )
    except RunFailed as error:
        do = error.hint
        if "error 3948" in error.context or "error 4166" in error.context:
            do = "let the server take files from clients: SET GLOBAL local_infile = ON"
        raise RunFailed(f"load table {table} from {path.name}", error.context, do) from error
    finally:
        connection.raw.local_file = None
    if result.warning_count:
        raise _warned(connection, table, path, result.warning_count)
    return int(result.affected_rows or 0)


def _warned(connection: MySqlConnection, table: str, path: Path, count: int) -> RunFailed:
    shown = connection.run("SHOW WARNINGS LIMIT 3").rows
    words = "; ".join(str(row[2]) for row in shown)
    return RunFailed(
        f"load table {table} from {path.name}",
        f"{count} warnings, the first: {words}",
        "the rows in the table are not those of the file: correct the file or the schema",
    )


def _literal(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
