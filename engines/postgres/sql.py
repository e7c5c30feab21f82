"""SQL on PostgreSQL, managed or external: connections, plans, loading, counters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from engines._jdbc.binding import ThroughJdbc, postgres_properties
from engines._sql_engine import SqlEngine
from engines.postgres import checkpoints, counters, explain
from engines.postgres.configuration import SETTINGS
from engines.postgres.connection import PostgresConnection, connecting
from engines.postgres.waits import ActivityObserver
from harness.engine import Credentials, SqlConnection
from harness.query_plan import ExecutedPlan
from harness.units import NS_PER_S
from harness.warnings import RunWarning

_CONFIG_SQL = """
SELECT name, current_setting(name), vartype <> 'string' FROM pg_settings
WHERE (source NOT IN ('default', 'override', 'client', 'session') OR name = ANY(%s))
ORDER BY name"""

#: In seconds and bytes, in this order.
_INTERVAL_SQL = """
SELECT setting FROM pg_settings WHERE name IN ('checkpoint_timeout', 'block_size')
ORDER BY name DESC"""

#: Values by which a loss of power may take acknowledged commits. (Without standbys, ``local``,
#: ``remote_write`` and ``remote_apply`` wait for the log as ``on`` does.)
_LOST_WITHOUT_POWER: Mapping[str, str] = {
    "synchronous_commit=off": "commits are acknowledged before their log is written",
    "fsync=off": "nothing that is written is forced to the device",
    "full_page_writes=off": "torn pages cannot be repaired from the log",
}
_SETTINGS_SQL = "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name"

#: Sessions of the native client plan a statement in a procedure once, for any values. By default,
#: each session would first plan every statement five times for the values at hand.
NATIVE_OPTIONS = "-c client_min_messages=warning -c plan_cache_mode=force_generic_plan"
#: Do not log errors that the client receives anyway: each New-Order that is to be rolled back
#: would write four lines. For roles that may set it.
NO_ERRORS_LOGGED = "-c log_min_messages=fatal"


class SqlOnPostgres(SqlEngine[PostgresConnection], ThroughJdbc):
    """SQL abilities over ``_open``, which returns a new psycopg connection."""

    native_backend = "postgres"
    sysbench_driver = "pgsql"
    sql_folder: Path = Path(__file__).parent / "sql"
    #: The owner of the directory that contains the server's socket.
    _user: Credentials | None = None
    jdbc_properties = staticmethod(postgres_properties)
    durability_settings = (
        "fsync",
        "full_page_writes",
        "synchronous_commit",
        "wal_sync_method",
    )

    #: See PUBLISH_SQL in loadgen.c.
    published_after_ns = NS_PER_S
    publication_cost: Mapping[str, float] = {"postgres_commits_count": 1.0}

    def first_rows(self, sql: str, count: int) -> str:
        """Keep the limit from the plan: of few rows it expects the first soon, by nested loops."""
        return f"WITH every AS MATERIALIZED (\n{sql.rstrip()}\n)\nSELECT * FROM every LIMIT {count}"

    @abstractmethod
    def _open(self) -> psycopg.Connection[Any]:
        """A new connection in autocommit mode."""

    @abstractmethod
    def _open_monitor(self) -> tuple[psycopg.Connection[Any], str]:
        """A connection for reading counters, and the database whose sums are read."""

    def explain(self, connection: SqlConnection, sql: str) -> ExecutedPlan:
        """Execute ``sql`` under EXPLAIN ANALYZE; see explain.py for its times."""
        return explain.explain(connection, sql)

    def wait_observer(self) -> ActivityObserver:
        return ActivityObserver(self._open_for_waits, local=self.kind == "managed")

    def effective_config(self) -> Mapping[str, str]:
        """Settings that differ from their defaults and those always recorded; no secrets."""
        rows = self._raw_query(_CONFIG_SQL, [list(SETTINGS.recorded)])
        # Numbers, switches and listed words are no secrets.
        texts = SETTINGS.record({name: value for name, value, typed in rows if not typed})
        return {name: value for name, value, typed in rows if typed} | texts

    def lost_without_power(self) -> Mapping[str, str]:
        """Read in a session of the harness."""
        names = [pair.partition("=")[0] for pair in _LOST_WITHOUT_POWER]
        pairs = [f"{name}={value}" for name, value in self._raw_query(_SETTINGS_SQL, [names])]
        return {pair: _LOST_WITHOUT_POWER[pair] for pair in pairs if pair in _LOST_WITHOUT_POWER}

    def write_back_warnings(
        self, ramp_up: Mapping[str, float], window: Mapping[str, float], window_ns: int
    ) -> Iterable[RunWarning]:
        interval_s, block_bytes = (int(value) for (value,) in self._raw_query(_INTERVAL_SQL))
        return checkpoints.write_back_warnings(
            ramp_up, window, window_ns, interval_s=interval_s, block_bytes=block_bytes
        )

    def _open_for_waits(self) -> psycopg.Connection[Any]:
        """A connection for sampling sessions, whose commits do not count as the workload's."""
        return self._open_monitor()[0]

    def _new_connection(self) -> PostgresConnection:
        with connecting():
            return PostgresConnection(self._open(), self._user)

    def _new_monitor(self) -> counters.PostgresCounterReader:
        with connecting():
            raw, database = self._open_monitor()
        return counters.PostgresCounterReader(
            raw,
            database,
            lambda: [connection for connection in self._connections if connection.open],
        )

    def _raw_query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with closing(self.connect()) as connection:
            return connection.raw.execute(sql, values or None).fetchall()
