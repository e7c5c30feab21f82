"""Bulk load: rows of CSV files as TDS bulk inserts into heaps, then keys, indexes, statistics."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from engines import _loading
from engines._loading import FileLoad, LoadJob, Workers, columns_in, loading
from engines.sqlserver.connection import ERRORS, SqlServerConnection
from harness.engine import (
    LoadRequest,
)
from harness.errors import RunFailed
from harness.progress import Task
from harness.sql_files import statements
from harness.store.spec import JsonObject


class Loader(_loading.Loader[SqlServerConnection]):
    """Loads a workload's tables over several connections."""

    @contextmanager
    def empty_tables(
        self, folder: Path, source_bytes: int, params: JsonObject | None = None
    ) -> Iterator[Workers[SqlServerConnection]]:
        with Workers(self._connect, self._connections) as workers:
            for text in statements(folder, "10_tables", params):
                self.run(workers.connections[0], text)
            yield workers

    def load_files(
        self,
        workers: Workers[SqlServerConnection],
        request: LoadRequest,
        task: Task,
    ) -> Mapping[str, int]:
        """The largest table first; the files of a heap are loaded at the same time."""
        load = FileLoad[SqlServerConnection](request.files, task)

        def job(table: str, path: Path) -> LoadJob[SqlServerConnection]:
            size = path.stat().st_size

            def copy(connection: SqlServerConnection) -> int:
                with loading(path):
                    rows = insert(connection, table, path)
                task.advance(size, note=path.name)
                return rows

            return load.job(1, table, load.bytes[table], copy, shared=True)

        jobs = [job(table, path) for table, paths in request.files.items() for path in paths]
        workers.run([*jobs, *self.final_jobs(request.schema, load.bytes, task)])
        return load.rows

    def run_dump(self, dump: Path) -> None:
        raise RunFailed(f"load {dump.name}", "SQL Server loads no dumps", "export tables as CSV")

    def final_jobs(
        self, folder: Path, weights: Mapping[str, int], task: Task
    ) -> list[LoadJob[SqlServerConnection]]:
        """A clustered key is built before the other indexes, which contain it."""
        stems = ("20_keys", "30_indexes", "40_foreign_keys", "50_analyze")
        stages = [(n, statements(folder, stem), False) for n, stem in enumerate(stems, 2)]
        return self._statement_jobs(stages, weights, task)

    def run(self, connection: SqlServerConnection, sql: str, table: str = "") -> None:
        connection.execute(sql)


def insert(connection: SqlServerConnection, table: str, path: Path) -> int:
    """Insert the rows of a CSV file as texts, which the server converts; return their number."""
    columns = connection.execute(f"select top 0 * from {table}").columns
    count = 0

    def rows(reader: Iterator[list[str]]) -> Iterator[list[str]]:
        nonlocal count
        for row in reader:
            count += 1
            yield row

    with path.open(encoding="utf-8", newline="") as stream:
        reader = csv.reader(stream)
        names = columns_in(path, columns)
        next(reader, None)
        try:
            with connection.raw.cursor() as cursor:
                cursor.copy_to(data=rows(reader), table_or_view=table, columns=names, tablock=True)
        except ERRORS as error:
            raise RunFailed(f"load {path.name} into {table}", str(error)) from error
    return count
