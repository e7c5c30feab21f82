"""The generated files as a DuckDB in this process, as loaded or after refresh functions."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import _duckdb as duckdb  # the package around it takes three times as long to import

from harness.engine import Scalar
from harness.errors import RunFailed
from harness.supervise.silence import VARIABLE, limit_s
from harness.workloads.tpch.data import GeneratedFiles
from harness.workloads.tpch.refresh_data import PRIMARY_KEYS, RefreshData
from harness.workloads.tpch.tables import COLUMNS

#: The state of data that no refresh function has changed.
LOADED = 0
_LOOK_S = 0.05


class SourceDatabase:
    """The eight tables at any state of the data.

    ``spill``: an existing directory for what does not fit into memory. ``load``: read files of
    text once into a database there, instead of again for every statement, if it has room.
    """

    def __init__(
        self,
        source: GeneratedFiles,
        spill: Path,
        refresh: RefreshData | None = None,
        load: bool = False,
    ) -> None:
        self._connection = open_views(source, spill)
        self._refresh = refresh
        self._pairs = 0
        self._state = LOADED
        if load and source.format != "parquet" and _has_room(source, spill):
            self._load(spill)

    def close(self) -> None:
        """Let go of memory and files."""
        self._connection.close()

    def at(self, state: int) -> duckdb.DuckDBPyConnection:
        """The data after ``state`` refresh functions: RF1(1), RF2(1), RF1(2) …"""
        if state != self._state:
            self._apply(state)
            self._state = state
        return self._connection

    def _load(self, spill: Path) -> None:
        execute = partial(rows_of, self._connection)
        execute(f"attach '{spill / 'source.duckdb'}' as loaded")
        for table in COLUMNS:
            execute(f"create table loaded.{table} as from {table}")
            execute(f"create or replace view {table} as from loaded.{table}")

    def _apply(self, state: int) -> None:
        """Views over the base and the sets: (state + 1) // 2 inserted, state // 2 deleted."""
        if self._refresh is None:
            raise ValueError("no refresh sets are known")
        execute = partial(rows_of, self._connection)
        if self._pairs == 0:
            for table in PRIMARY_KEYS:
                execute(f"alter view {table} rename to base_{table}")
                execute(
                    f"create table added_{table} as select 0 as pair, * from base_{table} limit 0"
                )
            execute("create table removed (pair integer, orderkey bigint)")
        while self._pairs < (state + 1) // 2:
            self._pairs += 1
            self._read_pair(self._refresh, self._pairs)
        for table, (key, *_) in PRIMARY_KEYS.items():
            columns = ", ".join(COLUMNS[table])
            execute(
                f"create or replace view {table} as "
                f"select {columns} from base_{table} where {key} not in "
                f"(select orderkey from removed where pair <= {state // 2}) union all "
                f"select {columns} from added_{table} where pair <= {(state + 1) // 2}"
            )

    def _read_pair(self, refresh: RefreshData, number: int) -> None:
        pair = refresh.pair(number)
        execute = partial(rows_of, self._connection)
        for table, file in pair.inserted.items():
            rows = tbl_rows([str(file)], COLUMNS[table])
            columns = ", ".join(COLUMNS[table])
            execute(f"insert into added_{table} select {number}, {columns} from {rows}")
        rows = tbl_rows([str(pair.removed["orders"])], COLUMNS["orders"])
        execute(f"insert into removed select {number}, o_orderkey from {rows}")


def _has_room(source: GeneratedFiles, folder: Path) -> bool:
    """Return whether twice the files' bytes are free: a database of them takes less than half."""
    needed = 2 * sum(file.stat().st_size for files in source.files.values() for file in files)
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize > needed


def open_memory(spill: Path | None) -> duckdb.DuckDBPyConnection:
    """An empty DuckDB in memory; without ``spill`` it writes no file."""
    connection = duckdb.connect()
    connection.execute("set enable_progress_bar = false")  # it would write over the harness's
    connection.execute(f"set temp_directory = '{spill or ''}'")
    return connection


def open_views(source: GeneratedFiles, spill: Path | None) -> duckdb.DuckDBPyConnection:
    """The same, with a view over the generated files of every table."""
    connection = open_memory(spill)
    connection.execute(f"set threads = {len(os.sched_getaffinity(0))}")
    for table, columns in COLUMNS.items():
        files = [str(file) for file in source.files[table]]
        names = ", ".join(columns)
        connection.execute(
            f"create view {table} as select {names} from {_reader(source, files, columns)}"
        )
    return connection


def _reader(source: GeneratedFiles, files: Sequence[str], columns: Mapping[str, str]) -> str:
    if source.format == "parquet":
        return f"read_parquet({files!r})"
    if source.format == "csv":
        return _read_csv(files, """header = true, delim = ',', quote = '"'""", columns)
    return tbl_rows(files, columns)


def tbl_rows(files: Sequence[str], columns: Mapping[str, str]) -> str:
    """The expression for the rows of dbgen's own files, with a last column that is empty."""
    form = "header = false, delim = '|', quote = ''"
    return _read_csv(files, form, {**columns, "line_end": "varchar"})


def _read_csv(files: Sequence[str], form: str, columns: Mapping[str, str]) -> str:
    return f"read_csv({list(files)!r}, {form}, columns = {dict(columns)!r})"


def rows_of(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Scalar, ...]]:
    """All rows of a statement; Ctrl-C and SIGTERM end it at once, RunFailed at its limit.

    DuckDB of several threads notices them by chance, else at the statement's end, which may be
    minutes away. So another thread waits for it, and a third one ends it: a second signal may
    interrupt this one anywhere but in an assignment, and leave locks held that Python code holds
    (a future's), but not those of a simple queue. A signal that another thread gets wakes this
    one from no wait, so it looks for them.
    """
    over = False
    ended: SimpleQueue[Future[list[tuple[Scalar, ...]]]] = SimpleQueue()

    def fetch() -> list[tuple[Scalar, ...]]:
        return connection.execute(sql).fetchall()

    def attend() -> None:
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(fetch)
            while wait([pending], _LOOK_S).not_done:
                if over:  # again and again: before its beginning none would end it
                    connection.interrupt()
        ended.put(pending)

    thread = Thread(target=attend)
    deadline = time.monotonic() + limit_s("statement")
    try:
        thread.start()
        while time.monotonic() < deadline:
            with suppress(Empty):
                return ended.get(timeout=_LOOK_S).result(0)
        raise RunFailed(
            "compute reference answers",
            f"DuckDB has not answered within {limit_s('statement'):g} s, the limit: {sql[:200]}",
            f"raise the limit: {VARIABLE}=statement=SECONDS",
        )
    finally:
        over = True
        if thread.is_alive():
            thread.join()
