"""SQLite as a toy engine: an engine is one folder, with no edit elsewhere.

It runs in the harness's own process, neither capped nor killed with a worker: not for
measuring. Found by ``HARNESS_ENGINE_PATH=tests/toy_engines``. A restore fails for each file in
the folder ``TOY_FAILURES``, and removes it.
"""

from __future__ import annotations

import csv
import os
import shutil
import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.engine import (
    DataDirectories,
    Engine,
    EngineContext,
    EngineFactory,
    EngineKind,
    EngineVersion,
    SqlConnection,
    SqlResult,
)
from harness.errors import RunFailed
from harness.experiment.placement import Part
from harness.progress import Progress
from harness.sql_files import statements


def installed(options: Mapping[str, Any], engines_prefix: Path) -> EngineVersion:
    """Always there: it is part of Python."""
    return EngineVersion("sqlite", sqlite3.sqlite_version, sqlite3.sqlite_version, "Python")


class SqliteConnection(SqlConnection):
    """sqlite3's own connection, timed."""

    def __init__(self, path: Path) -> None:
        self.raw = sqlite3.connect(path)

    def execute(self, sql: str, *, timeout_s: float | None = None) -> SqlResult:
        try:
            started = time.monotonic_ns()
            cursor = self.raw.execute(sql)
            rows = cursor.fetchall()
            duration = time.monotonic_ns() - started
        except sqlite3.Error as error:
            raise RunFailed(f"SQLite: {sql[:80]}", str(error)) from error
        return SqlResult(tuple(c[0] for c in cursor.description or ()), rows, started, duration)

    def close(self) -> None:
        self.raw.close()


class Sqlite(Engine):
    """One database file in the directory of ``data``."""

    name = "sqlite"
    kind: EngineKind = "embedded"
    supported_parts: frozenset[Part] = frozenset({"data", "wal"})
    sql_folder = Path(__file__).parent / "sql"
    load_format = "csv"

    def __init__(self, context: EngineContext) -> None:
        self.file: Path | None = None

    @property
    def path(self) -> Path:
        assert self.file is not None, "initialise or restore comes first"
        return self.file

    def version(self) -> EngineVersion:
        return installed({}, Path())

    def _use(self, directories: DataDirectories) -> None:
        if directories["wal"].stat().st_dev != directories["data"].stat().st_dev:
            raise RunFailed("SQLite's journal on another tier", "it is next to the database file")
        self.file = directories["data"] / "bench.sqlite"

    def initialise(self, directories: DataDirectories) -> None:
        self._use(directories)
        self.connect().close()

    def connect(self) -> SqliteConnection:
        return SqliteConnection(self.path)

    def effective_config(self) -> Mapping[str, str]:
        return {"page_size": str(self.connect().execute("pragma page_size").rows[0][0])}

    def files(self) -> Sequence[Path]:
        return [self.path]

    def snapshot(self, dataset: Path) -> None:
        shutil.move(self.path, dataset / "bench.sqlite")

    def restore(self, dataset: Path, directories: DataDirectories) -> None:
        for failure in Path(os.environ.get("TOY_FAILURES", "/nonexistent")).glob("*"):
            failure.unlink()
            raise LookupError(f"planted: {failure.name}")
        self._use(directories)
        shutil.copyfile(dataset / "bench.sqlite", self.path)

    def bulk_load(
        self,
        workload: str,
        files: Mapping[str, Sequence[Path]],
        row_counts: Mapping[str, int],
        progress: Progress,
    ) -> None:
        connection = self.connect().raw
        for statement in statements(self.sql_folder / workload, "10_tables"):
            connection.execute(statement)
        for table, paths in files.items():
            for path in paths:
                with path.open(newline="") as stream:
                    reader = csv.reader(stream)
                    marks = ", ".join("?" for _ in next(reader))
                    connection.executemany(f"insert into {table} values ({marks})", reader)
            (found,) = connection.execute(f"select count(*) from {table}").fetchone()
            if found != row_counts[table]:
                raise RunFailed(f"load {row_counts[table]} rows into {table}", f"{found} came")
        connection.commit()
        connection.close()


ENGINE = EngineFactory(
    name="sqlite",
    title="SQLite (toy)",
    kinds=("embedded",),
    options={},
    workloads=("tpch",),
    placeable=Sqlite.supported_parts,
    make=Sqlite,
    installation=installed,
)
