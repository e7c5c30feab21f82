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

They show whether a measurement window has as many checkpoints as a long run. A checkpoint writes
the pages changed since the previous one, spread over most of its interval, and makes the first
change of each page after it log the whole page. So the rate of both is that of a long run if a
checkpoint has started before the window and the window is a whole number of intervals long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from engines import _sql_engine
from engines.postgres.connection import PostgresConnection
from harness.errors import RunFailed
from harness.host.threads import Thread
from harness.units import MIB, NS_PER_S, format_bytes
from harness.waits import Observation, Resource, WaitObserver
from harness.warnings import RunWarning
from harness.yamlfile import shipped_yaml

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


#: A window that logs less than a WAL segment has next to nothing to write back.
_LITTLE_BYTES = 16 * MIB
#: Tolerated error of a rate due to an incomplete last interval.
_TOLERANCE = 0.2
#: Share of the log above which full-page images dominate the load on a log tier.
_MOST = 0.5


def write_back_warnings(
    ramp_up: Mapping[str, float],
    window: Mapping[str, float],
    window_ns: int,
    *,
    interval_s: float,
    block_bytes: int,
) -> Iterator[RunWarning]:
    """Warn about a window without the checkpoints of a long run.

    ``interval_s``: checkpoint_timeout. ``block_bytes``: block_size.
    """
    log = window.get("postgres_wal_written_bytes", 0.0)
    if log < _LITTLE_BYTES:
        return
    window_s = window_ns / NS_PER_S
    intervals = window_s / interval_s
    written = window.get("postgres_checkpoint_written_bytes", 0.0)
    counters = (
        f"{_started(window):.0f} checkpoints started in the window of {window_s:.0f} s and "
        f"{_started(ramp_up):.0f} before it; checkpoints wrote {format_bytes(written)} of data "
        f"pages, the log grew by {format_bytes(log)}"
    )
    shorter = (
        f"use a --duration that is a multiple of checkpoint_timeout ({interval_s:.0f} s), or "
        "lower that with --set checkpoint_timeout=… (at least 30 s)"
    )
    longer = f"raise --ramp-up above checkpoint_timeout ({interval_s:.0f} s)"
    # A window of one interval may start just after a checkpoint and contain all its writes.
    if not _started(window) and (intervals < 1 - _TOLERANCE or not written):
        yield RunWarning(
            "no-checkpoint-in-window",
            "no checkpoint started in the window",
            counters,
            f"{shorter}; {longer}",
        )
    elif not _started(ramp_up):
        yield RunWarning(
            "no-checkpoint-in-ramp-up", "no checkpoint started in the ramp-up", counters, longer
        )
    elif _timed(window) and abs(intervals - round(intervals)) > _TOLERANCE * intervals:
        yield RunWarning(
            "checkpoint-cut-off",
            "the window is not a multiple of the checkpoint interval",
            counters,
            shorter,
        )
    images = window.get("postgres_wal_full_page_images_count", 0.0)
    if images * block_bytes > _MOST * log:
        yield RunWarning(
            "full-page-images",
            "most of the log is full-page images; checkpoints further apart write fewer, and a "
            "faster log tier then gains less",
            f"up to {min(1.0, images * block_bytes / log):.0%} of {format_bytes(log)} "
            f"({images:,.0f} pages)",
            "raise checkpoint_timeout with --set, and --ramp-up and --duration with it",
        )


def _started(counters: Mapping[str, float]) -> float:
    requested = counters.get("postgres_checkpoints_requested_count", 0.0)
    return counters.get("postgres_checkpoints_timed_count", 0.0) + requested


def _timed(counters: Mapping[str, float]) -> bool:
    """Whether checkpoints start by time, not by the size of the log."""
    return not counters.get("postgres_checkpoints_requested_count")


# Wait events by resource, sampled from the sessions' activity ---------------------
#
# A session is active in an operation (``state`` other than ``idle``) with a wait event or without:
# then it computes, or waits for something that PostgreSQL does not report. Parallel workers count
# as sessions; a leader that waits for its workers does not. The checkpointer is at work unless it
# waits for its next checkpoint.

_EVENTS: Mapping[str, Resource] = {
    event: resource
    for resource, events in shipped_yaml(Path(__file__).with_name("waits.yml")).items()
    for event in events
}
#: A leader that waits for its workers, which are observed themselves.
_FOR_WORKERS = frozenset(
    ("ExecuteGather", "ParallelFinish", "MessageQueueReceive", "MessageQueueInternal")
)
#: An idle session whose last operation ended longer ago is in none of its client's.
_TURNAROUND_S = 0.1
_ACTIVITY = f"""
SELECT pid, state, wait_event_type, wait_event, backend_type
FROM pg_stat_get_activity(NULL)
WHERE backend_type IN ('client backend', 'parallel worker') AND pid <> pg_backend_pid()
  AND (state <> 'idle' OR state_change > clock_timestamp() - interval '{_TURNAROUND_S} s')
  OR backend_type = 'checkpointer' AND wait_event IS DISTINCT FROM 'CheckpointerMain'
"""

#: Of the prepared statement.
_NAME, _COLUMNS = b"activity", 5


def _check(result: PGresult) -> PGresult:
    """OperationalError where PostgreSQL reports an error."""
    if result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        return result
    raise psycopg.OperationalError(result.error_message.decode(errors="replace").strip())


class ActivityObserver(WaitObserver):
    """Samples sessions on one connection, which is opened again after a restart.

    ``local``: whether the sessions are processes of this host.
    """

    events = _EVENTS

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], local: bool) -> None:
        self._connect = connect
        self._local = local
        self._connection: psycopg.Connection[Any] | None = None

    def observe(self) -> Sequence[Observation]:
        try:
            if self._connection is None:
                self._connection = self._connect()
                _check(self._connection.pgconn.prepare(_NAME, _ACTIVITY.encode()))
            rows = self._rows(self._connection.pgconn)
        except psycopg.Error:
            self.close()
            raise
        return [self._observation(*row) for row in rows if row[3] not in _FOR_WORKERS]

    @staticmethod
    def _rows(connection: PGconn) -> list[tuple[Any, ...]]:
        """Without a cursor, which takes three times as long."""
        result = _check(connection.exec_prepared(_NAME, None))
        return [
            tuple(
                None if (value := result.get_value(row, column)) is None else value.decode()
                for column in range(_COLUMNS)
            )
            for row in range(result.ntuples)
        ]

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _observation(
        self, pid: str, state: str | None, kind: str | None, event: str | None, backend: str
    ) -> Observation:
        if backend == "checkpointer":
            return Observation("background", "checkpoint")
        thread = Thread(int(pid), int(pid)) if self._local else None
        if state == "idle":
            return Observation("idle", thread=thread)
        if kind is None:
            return Observation("running", thread=thread)
        return Observation("waiting", f"{kind}:{event}", thread)
