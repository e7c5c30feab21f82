"""Bulk load: parallel LOAD DATA in primary-key order, then indexes, foreign keys, statistics.

InnoDB keeps rows in the primary key's tree, so tables have their keys before they are
loaded, and every file is loaded in key order. All secondary indexes of a table are built at
once, in one pass over its rows, while another table is still being loaded. A managed server has
its own settings during a load, independent of the tuning profile (a dataset must not depend on
the profile that loaded it): no doublewrite, no flush at commit, and no redo log if the release
can run without one (MySQL 8.0.21); a crash costs the load, which would be repeated anyway. The
clean stop afterwards writes every page to its device.

Files of one table are loaded in parallel. ``unique_checks`` stays on, which costs nothing while
there is no secondary index: without it, MariaDB locks an empty table exclusively to fill it, and
two connections that begin together deadlock. A file is one transaction: if a deadlock with
another session undoes it, it is loaded again.

LOAD DATA truncates and converts values that do not fit and only warns if the client sends the
file: every warning is an error here.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from engines import _loading
from engines._innodb.connection import LazyResult, MySqlConnection, server_error
from engines._innodb.installation import Flavour
from engines._loading import FileLoad, LoadJob, Workers, columns_in, readable_by
from engines._managed import AnyServer
from harness.engine import LoadRequest
from harness.errors import RunFailed
from harness.progress import Task
from harness.sql_files import statements
from harness.sql_script import dumped, head
from harness.store.spec import JsonObject
from harness.units import GIB, MIB

_Job = LoadJob[MySqlConnection]
_Answer = TypeVar("_Answer")
_DEADLOCK = 1213
_SPARE_CONNECTIONS = 20
_ATTEMPTS = 5
_LEAST_POOL, _MOST_POOL = 256 * MIB, 8 * GIB
#: The verified counts and the files' origin vouch for foreign keys; rows are not checked.
_SESSION = "SET SESSION foreign_key_checks = 0"
_CREATE_INDEX = re.compile(
    r"create (?P<unique>unique )?index (?P<name>\w+) on (?P<table>\w+)\s*(?P<rest>\(.*\))",
    re.IGNORECASE | re.DOTALL,
)
_ALTER_TABLE = re.compile(r"alter table (?P<table>\w+) (?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_FIRST_WITHOUT_REDO = (8, 0, 21)
_FIRST_WITH_DDL_THREADS = (8, 0, 27)
_FIRST_WITH_REDO_CAPACITY = (8, 0, 30)
#: Rows are in the tree of an invisible column's key; the schema's primary keys become unique ones.
_ROWS_APART = "SET SESSION sql_generate_invisible_primary_key = ON"
_PRIMARY_KEY = re.compile(r"\badd primary key\b", re.IGNORECASE)


def loading_settings(
    flavour: Flavour,
    version: tuple[int, ...],
    threads: int,
    memory_bytes: int | None,
    source_bytes: int,
) -> dict[str, str]:
    """Server settings during a load, in addition to the server's defaults."""
    memory = memory_bytes or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    pool = max(_LEAST_POOL, min(_MOST_POOL, memory // 2))
    pool -= pool % (GIB if pool >= GIB else 128 * MIB)  # otherwise, the server rounds it up
    sorting = max(16 * MIB, min(GIB, memory // 8))
    settings = {
        "innodb_buffer_pool_size": str(pool),
        "innodb_doublewrite": "OFF",
        "innodb_flush_log_at_trx_commit": "0",
        "innodb_io_capacity": "10000",
        "innodb_io_capacity_max": "40000",
        "innodb_log_buffer_size": str(64 * MIB),
        "local_infile": "ON",
        # The loader's connections, and as many of a native client.
        "max_connections": str(2 * threads + _SPARE_CONNECTIONS),
    }
    # The space that preflight reserves on the redo log's tier; more would make checkpoints rarer.
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
    """The statements, with all additions to one table in one ALTER TABLE.

    One pass over the table then builds all its indexes. Other statements are unchanged.
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


class DeadlockRetries:
    """How often a deadlock undid a file or a statement of the load, by table. Thread-safe."""

    def __init__(self) -> None:
        self.by_table: Counter[str] = Counter()
        self._lock = threading.Lock()

    def repeat(self, table: str, attempt: Callable[[], _Answer]) -> _Answer:
        """The result of ``attempt``, which is repeated after a deadlock."""
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


def _check_admin(text: str, result: LazyResult) -> None:
    """RunFailed for the errors of ANALYZE TABLE, which succeeds and returns them as rows."""
    if result.columns[2:3] != ("Msg_type",):
        return
    for row in result.rows or ():
        if str(row[2]).lower() == "error":
            raise RunFailed(head(text), str(row[3]))


class Loader(_loading.Loader[MySqlConnection]):
    """LOAD DATA over several connections.

    ``server``: the managed server to restart for the load. None for an external one, to which
    the client sends the files. ``version``: (9, 7, 4) of "9.7.4", of a managed server.
    ``rows_apart``: no index of the schema is clustered.
    """

    def __init__(
        self,
        connect: Callable[[], MySqlConnection],
        flavour: Flavour,
        threads: int,
        server: AnyServer | None = None,
        version: tuple[int, ...] = (),
        rows_apart: bool = False,
    ) -> None:
        super().__init__(connect, threads)
        self._rows_apart = rows_apart
        self._version = version
        self._flavour: Flavour = flavour
        self._server = server
        self.retries = DeadlockRetries()

    def load_files(
        self,
        workers: Workers[MySqlConnection],
        request: LoadRequest,
        task: Task,
    ) -> Mapping[str, int]:
        """One file at a time per connection: the largest table first, its files in order."""
        for connection in workers.connections:
            connection.run(_SESSION)
        first = workers.connections[0]
        columns = {t: first.run(f"SELECT * FROM {t} LIMIT 0").columns for t in request.files}
        load = FileLoad[MySqlConnection](request.files, task)
        by_server = readable_by(self._server, request.files)

        def load_one(table: str, path: Path, connection: MySqlConnection) -> int:
            attempt = partial(load_file, connection, table, path, columns[table], by_server)
            rows = self.retries.repeat(table, attempt)
            task.advance(path.stat().st_size, note=table)
            return rows

        jobs = [
            load.job(0, table, load.bytes[table], partial(load_one, table, path), shared=True)
            for table, paths in request.files.items()
            for path in paths
        ]
        jobs += self._script_jobs(request, task)
        workers.run([*jobs, *self.final_jobs(request.schema, load.bytes, task)])
        return load.rows

    def run_dump(self, dump: Path) -> None:
        with (
            closing(self._connect()) as connection,
            dump.open(encoding="utf-8-sig", newline="\n") as f,
        ):
            connection.run(_SESSION)
            for statement in dumped(f, True, dump.name):
                connection.run(statement.text)
            connection.run("COMMIT")  # where the dump turns autocommit off

    def run_statements(self, texts: Sequence[str]) -> None:
        super().run_statements([_SESSION, *texts] if texts else [])

    @contextmanager
    def empty_tables(
        self, folder: Path, source_bytes: int, params: JsonObject | None = None
    ) -> Iterator[Workers[MySqlConnection]]:
        """Tables with their primary keys, by which rows are stored."""
        without_redo = self._prepare_server(source_bytes)
        with Workers(self._connect, self._connections) as workers:
            first = workers.connections[0]
            if without_redo:
                first.run("ALTER INSTANCE DISABLE INNODB REDO_LOG")
            with closing(self._connect()) as creating:  # what they set ends with the session
                if self._rows_apart:
                    creating.run(_ROWS_APART)
                for stem in ("10_tables", "20_keys"):
                    for text in statements(folder, stem, params, backslash=True):
                        unique = _PRIMARY_KEY.sub("add unique key", text)
                        creating.run(unique if self._rows_apart else text)
            yield workers
            if without_redo:
                first.run("ALTER INSTANCE ENABLE INNODB REDO_LOG")
        if self._server is not None:
            self._server.restart_for_use()

    def final_jobs(self, folder: Path, weights: Mapping[str, int], task: Task) -> list[_Job]:
        """No statement shares a table."""
        analyse = statements(folder, f"50_analyze_{self._flavour}")
        stages = [
            (2, combined(statements(folder, "30_indexes", backslash=True)), False),
            (3, combined(statements(folder, "40_foreign_keys", backslash=True)), False),
            (5, analyse or [f"ANALYZE TABLE {t}" for t in weights], False),
        ]
        # Foreign keys are quick, and two at a time often deadlock in MySQL's data dictionary.
        jobs = self._statement_jobs(stages, weights, task, alone=[3])
        return [*jobs, *self._final_script(4, folder, weights)]

    def run(self, connection: MySqlConnection, sql: str, table: str = "") -> None:
        """Locks of the data dictionary may undo a statement on ``table``, which is repeated."""
        if not table:
            connection.run(sql)
            return
        _check_admin(sql, self.retries.repeat(table, partial(connection.run, sql)))

    def _prepare_server(self, source_bytes: int) -> bool:
        """Restart a managed server for loading; whether it can run without its redo log."""
        server = self._server
        if server is None:
            return False
        settings = loading_settings(
            self._flavour, self._version, self._connections, server.memory_bytes, source_bytes
        )
        server.restart_for_loading(settings)
        return self._flavour == "mysql" and self._version >= _FIRST_WITHOUT_REDO


def load_file(
    connection: MySqlConnection, table: str, path: Path, columns: Sequence[str], by_server: bool
) -> int:
    """LOAD DATA of one CSV file; returns its rows. RunFailed for an error or a warning.

    ``columns``: of the table; the file's first line has the names of its own.
    """
    local = "" if by_server else "LOCAL "
    names = ", ".join(f"`{name.replace('`', '``')}`" for name in columns_in(path, columns))
    connection.raw.local_file = None if by_server else os.fsencode(path)
    try:
        result = connection.run(
            f"LOAD DATA {local}INFILE {_literal(path)} INTO TABLE {table} CHARACTER SET utf8mb4 "
            "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '' "
            rf"LINES TERMINATED BY '\n' IGNORE 1 LINES ({names})"
        )
    except RunFailed as error:
        hint = error.hint
        if "error 3948" in error.context or "error 4166" in error.context:
            hint = "let the server accept files from clients: SET GLOBAL local_infile = ON"
        raise RunFailed(f"load table {table} from {path.name}", error.context, hint) from error
    finally:
        connection.raw.local_file = None
    if result.warning_count:
        raise _warned(connection, table, path, result.warning_count)
    return int(result.affected_rows or 0)


def _warned(connection: MySqlConnection, table: str, path: Path, count: int) -> RunFailed:
    rows = connection.run("SHOW WARNINGS LIMIT 3").rows
    return RunFailed(
        f"load table {table} from {path.name}",
        f"{count} warnings, the first: {'; '.join(str(row[2]) for row in rows)}",
        "the rows in the table are not those of the file: correct the file or the schema",
    )


def _literal(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
