"""The server's cumulative statistics, as numbers with their unit in the name.

Reading them is work for the server, which must not be attributed to the query between two
readings. So one monitoring connection stays open while the server runs, to another database if
there is one (which leaves the sums of the measured database and its catalogs unchanged), and
reads everything a few times before its first reading counts. What remains in the database's sums
is the cost of making the measured connections publish their counters: readings with nothing in
between measure it, and it is subtracted from every later reading.

Before PostgreSQL 15, a session cannot be made to publish its sums, which appear up to a second
late: no counters are read. Counters that the server does not have are left out, never 0: times
without ``track_io_timing``, the database's sums without ``track_counts``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import psycopg

from engines import _sql_engine
from engines.postgres.connection import PostgresConnection
from harness.errors import RunFailed

#: First release with pg_stat_force_next_flush().
FIRST_VERSION = 150000
_PREFIX = "postgres_"
#: Counters that have the same name for every engine: bytes written to temporary files.
_NEUTRAL = frozenset({"spilled_bytes"})
_WARM_READINGS = 2
_CALIBRATIONS = 2
_DATABASE = """
SELECT blks_read * b.size AS blocks_read_bytes,
       blks_hit * b.size AS blocks_hit_bytes,
       temp_bytes AS spilled_bytes,
       temp_files AS temp_files_count,
       CASE WHEN current_setting('track_io_timing')::bool
            THEN blk_read_time * 1e6 END AS block_read_ns,
       CASE WHEN current_setting('track_io_timing')::bool
            THEN blk_write_time * 1e6 END AS block_write_ns,
       xact_commit AS commits_count,
       xact_rollback AS rollbacks_count,
       deadlocks AS deadlocks_count
FROM pg_stat_database, (SELECT current_setting('block_size')::bigint AS size) b
WHERE datname = %s AND current_setting('track_counts')::bool"""
_WAL = """
SELECT wal_bytes AS wal_written_bytes, wal_records AS wal_records_count,
       wal_fpi AS wal_full_page_images_count, wal_buffers_full AS wal_buffers_full_count
FROM pg_stat_wal"""
_CHECKPOINTER_17 = """
SELECT num_timed AS checkpoints_timed_count, num_requested AS checkpoints_requested_count,
       buffers_written * current_setting('block_size')::bigint AS checkpoint_written_bytes
FROM pg_stat_checkpointer"""
_CHECKPOINTER_BEFORE_17 = """
SELECT checkpoints_timed AS checkpoints_timed_count, checkpoints_req AS checkpoints_requested_count,
       buffers_checkpoint * current_setting('block_size')::bigint AS checkpoint_written_bytes,
       buffers_backend * current_setting('block_size')::bigint AS backend_written_bytes
FROM pg_stat_bgwriter"""
_IO_18 = """
SELECT sum(read_bytes) AS io_read_bytes, sum(write_bytes) AS io_written_bytes,
       sum(extend_bytes) AS io_extended_bytes, sum(fsyncs) AS io_fsyncs_count
FROM pg_stat_io WHERE object <> 'wal'"""
_IO_16 = """
SELECT sum(reads * op_bytes) AS io_read_bytes, sum(writes * op_bytes) AS io_written_bytes,
       sum(extends * op_bytes) AS io_extended_bytes, sum(fsyncs) AS io_fsyncs_count
FROM pg_stat_io"""


def read(raw: psycopg.Connection[Any], database: str) -> dict[str, float]:
    """Counters since the statistics were last reset; PostgreSQL's own have a prefix."""
    version = raw.info.server_version
    if version < FIRST_VERSION:
        return {}
    counters = _row(raw, _DATABASE, [database])
    counters |= _row(raw, _CHECKPOINTER_17 if version >= 170000 else _CHECKPOINTER_BEFORE_17)
    counters |= _row(raw, _WAL)
    if version >= 160000:
        counters |= _row(raw, _IO_18 if version >= 180000 else _IO_16)
    return counters


def _row(
    raw: psycopg.Connection[Any], query: str, values: list[str] | None = None
) -> dict[str, float]:
    with raw.cursor() as cursor:
        row = cursor.execute(query, values).fetchone()
        names = [column.name for column in cursor.description or ()]
    pairs = zip(names, row or (), strict=False)
    return {
        name if name in _NEUTRAL else f"{_PREFIX}{name}": float(value)
        for name, value in pairs
        if value is not None
    }


class PostgresCounterReader(_sql_engine.CounterReader):
    """The monitoring connection of one server start.

    ``connections`` returns the open connections whose work is counted. A warm reading costs each
    of them the same, so the calibration depends on which of them are open.
    """

    def __init__(
        self,
        raw: psycopg.Connection[Any],
        database: str,
        connections: Callable[[], list[PostgresConnection]],
    ) -> None:
        self._raw = raw
        self._database = database
        self._connections = connections
        self._calibrated_for: frozenset[int] | None = None
        self._cost: dict[str, float] = {}
        self._costs: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def read(self) -> Mapping[str, float]:
        """Sums without the cost of reading them; never less than in the previous reading."""
        try:
            connections = self._connections()
            if self._calibrated_for != (present := frozenset(map(id, connections))):
                self._calibrate(connections)
                self._calibrated_for = present
            reading = self._raw_reading(connections)
        except psycopg.Error as error:
            raise RunFailed("read PostgreSQL's counters", str(error).strip()) from error
        for name, cost in self._cost.items():
            self._costs[name] = self._costs.get(name, 0.0) + cost
        net = {name: value - self._costs.get(name, 0.0) for name, value in reading.items()}
        self._last = {name: max(value, self._last.get(name, 0.0)) for name, value in net.items()}
        return dict(self._last)

    def close(self) -> None:
        self._raw.close()

    def _calibrate(self, connections: list[PostgresConnection]) -> None:
        """Measure what a reading adds to the database's sums: the minimum of a few readings.

        What the calibration itself added is subtracted too.
        """
        readings = [self._raw_reading(connections) for _ in range(_WARM_READINGS + _CALIBRATIONS)]
        of_database = set(_row(self._raw, _DATABASE, [self._database]))
        pairs = list(pairwise(readings[_WARM_READINGS - 1 :]))
        for name in of_database & set(readings[0]):
            self._cost[name] = max(0.0, min(after[name] - before[name] for before, after in pairs))
            added = readings[-1][name] - readings[0][name] + self._cost[name]
            self._costs[name] = self._costs.get(name, 0.0) + added

    def _raw_reading(self, connections: list[PostgresConnection]) -> dict[str, float]:
        for connection in connections:
            connection.flush_statistics()
        return read(self._raw, self._database)
