"""What managed and external PostgreSQL have in common: SQL, plans, loading, counters."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from engines._jdbc import ThroughJdbc, postgres_properties
from engines._loading import LoadedBySql
from engines.postgres import counters, explain
from engines.postgres.connection import PostgresConnection, connecting
from engines.postgres.window import warnings as window_warnings
from harness.engine import Credentials, SqlConnection
from harness.query_plan import ExecutedPlan
from harness.warnings import RunWarning

#: Settings worth recording even at their defaults.
_ALWAYS = (
    "block_size",
    "checkpoint_completion_target",
    "checkpoint_timeout",
    "data_checksums",
    "default_transaction_isolation",
    "effective_cache_size",
    "effective_io_concurrency",
    "fsync",
    "full_page_writes",
    "huge_pages",
    "huge_pages_status",
    "io_method",
    "jit",
    "maintenance_work_mem",
    "max_connections",
    "max_parallel_workers",
    "max_parallel_workers_per_gather",
    "max_wal_size",
    "max_worker_processes",
    "random_page_cost",
    "server_version",
    "shared_buffers",
    "synchronous_commit",
    "wal_buffers",
    "wal_compression",
    "wal_level",
    "wal_segment_size",
    "wal_sync_method",
    "work_mem",
)
_SECRET = ("password", "passphrase", "primary_conninfo", "ssl_", "krb_", "_command")
_CONFIG_SQL = """
SELECT name, current_setting(name) FROM pg_settings
WHERE (source NOT IN ('default', 'override', 'client', 'session') OR name = ANY(%s))
ORDER BY name"""

#: In seconds and bytes, in this order.
_INTERVAL_SQL = """
SELECT setting FROM pg_settings WHERE name IN ('checkpoint_timeout', 'block_size')
ORDER BY name DESC"""

#: ``setting=value`` by which a loss of power may take commits that were acknowledged. (Without
#: standbys ``local``, ``remote_write`` and ``remote_apply`` wait for the log as ``on`` does.)
_LOST_WITHOUT_POWER: Mapping[str, str] = {
    "synchronous_commit=off": "commits are acknowledged before their log is written",
    "fsync=off": "nothing that is written is forced to the device",
    "full_page_writes=off": "pages that are half written then cannot be repaired from the log",
}


#: How the native client's sessions plan: a statement in a procedure once, for whatever values.
#: Else each session would first plan every one five times for the values at hand.
NATIVE_OPTIONS = "-c client_min_messages=warning -c plan_cache_mode=force_generic_plan"
#: That the server's log has no line of an error which the client is told anyway: every New-Order
#: that is to be rolled back would write four. For roles that may set it.
NO_ERRORS_LOGGED = "-c log_min_messages=fatal"


class SqlOnPostgres(LoadedBySql[PostgresConnection], ThroughJdbc):
    """SQL abilities over ``_open``, which gives a new psycopg connection."""

    sql_folder: Path = Path(__file__).parent / "sql"
    threads: int
    #: In whose directory the server's socket lies.
    _user: Credentials | None = None
    jdbc_properties = staticmethod(postgres_properties)

    def __init__(self) -> None:
        self._connections: weakref.WeakSet[PostgresConnection] = weakref.WeakSet()
        self._monitor: counters.Monitor | None = None

    @abstractmethod
    def _open(self) -> psycopg.Connection[Any]:
        """A new connection in autocommit mode."""

    @abstractmethod
    def _open_monitor(self) -> tuple[psycopg.Connection[Any], str]:
        """A connection for reading counters, and the database whose sums are read."""

    def connect(self) -> PostgresConnection:
        """A new connection in autocommit mode."""
        with connecting():
            connection = PostgresConnection(self._open(), self._user)
        self._connections.add(connection)
        return connection

    def explain(self, connection: SqlConnection, sql: str) -> ExecutedPlan:
        """The plan of ``sql`` as executed now (EXPLAIN ANALYZE); see explain.py for its times."""
        return explain.explain(connection, sql)

    def native_backend(self) -> str:
        """libpq."""
        return "postgres"

    def effective_config(self) -> Mapping[str, str]:
        """What differs from the defaults and what matters anyway, without secrets."""
        connection = self.connect()
        try:
            rows = connection.raw.execute(_CONFIG_SQL, [list(_ALWAYS)]).fetchall()
        finally:
            connection.close()
        return {name: value for name, value in rows if not any(s in name for s in _SECRET)}

    def lost_without_power(self) -> Mapping[str, str]:
        """As the settings of a session of ours are."""
        names = [pair.partition("=")[0] for pair in _LOST_WITHOUT_POWER]
        connection = self.connect()
        try:
            rows = connection.raw.execute(
                "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name", [names]
            ).fetchall()
        finally:
            connection.close()
        found = [f"{name}={value}" for name, value in rows]
        return {pair: _LOST_WITHOUT_POWER[pair] for pair in found if pair in _LOST_WITHOUT_POWER}

    def write_back_warnings(
        self, ramp_up: Mapping[str, float], window: Mapping[str, float], window_ns: int
    ) -> Sequence[RunWarning]:
        """See window.py."""
        connection = self.connect()
        try:
            rows = connection.raw.execute(_INTERVAL_SQL).fetchall()
        finally:
            connection.close()
        interval_s, block_bytes = (int(value) for (value,) in rows)
        return list(
            window_warnings(
                ramp_up, window, window_ns, interval_s=interval_s, block_bytes=block_bytes
            )
        )

    def counters(self) -> Mapping[str, float]:
        """Cumulative counters of the server; see counters.py."""
        if self._monitor is None:
            with connecting():
                raw, database = self._open_monitor()
            self._monitor = counters.Monitor(raw, database, self._open_connections)
        return self._monitor.read()

    def _open_connections(self) -> list[PostgresConnection]:
        return [connection for connection in self._connections if connection.open]

    def _close_monitor(self) -> None:
        monitor, self._monitor = self._monitor, None
        if monitor is not None:
            monitor.close()
