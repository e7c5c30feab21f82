"""Parts that SQL servers have in common, managed or external: connections, loading, counters."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Generic

from engines._loading import Connection, Loader
from harness.engine import Engine, FillRequest, LoadRequest, Scalar
from harness.sql_files import calls
from harness.store.spec import JsonObject


class CounterReader(ABC):
    """A connection that reads the counters of one server start."""

    @abstractmethod
    def read(self) -> Mapping[str, float]:
        """Return cumulative counters, without those that the server does not have."""

    def close(self) -> None:
        """Close; no error if the server no longer runs."""


class CallsSql(Engine, ABC):
    """Reads a server's counters, and natively calls the SQL in ``sql/<workload>/``."""

    sql_folder: Path
    _monitor: CounterReader | None = None

    @abstractmethod
    def _new_monitor(self) -> CounterReader:
        """Open a connection for reading counters."""

    def counters(self) -> Mapping[str, float]:
        """Return cumulative counters of the server: each engine names its own."""
        if self._monitor is None:
            self._monitor = self._new_monitor()
        return self._monitor.read()

    def native_calls(self, workload: str, params: JsonObject) -> Mapping[str, str | Sequence[str]]:
        return calls(self.sql_folder / workload, params)

    def _close_monitor(self) -> None:
        monitor, self._monitor = self._monitor, None
        if monitor is not None:
            monitor.close()


class SqlEngine(CallsSql, Generic[Connection]):
    """Runs, loads and natively calls the SQL in ``sql/<workload>/``."""

    load_format = "csv"
    loads_dumps = True
    threads: int

    def __init__(self) -> None:
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()

    @abstractmethod
    def _new_connection(self) -> Connection:
        """Open a connection in autocommit mode."""

    @abstractmethod
    def _loader(self) -> Loader[Connection]:
        """Return what loads rows into the database."""

    def connect(self) -> Connection:
        """Open a connection in autocommit mode."""
        connection = self._new_connection()
        self._connections.add(connection)
        return connection

    def bulk_load(self, request: LoadRequest) -> None:
        """Load schema, files in parallel, keys, indexes, statistics; verify row counts."""
        self._loader().load(request)

    def native_load(self, request: FillRequest) -> None:
        """Load schema, keys, indexes and procedures around ``fill``; verify row counts."""
        folder = self.sql_folder / request.workload
        self._loader().fill(folder, request, self.native_connection)

    def _query(self, sql: str) -> list[tuple[Scalar, ...]]:
        """Return the rows of one statement, read by a connection of its own."""
        with closing(self.connect()) as connection:
            return connection.execute(sql).rows
