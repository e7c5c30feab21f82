"""Wait events by resource, sampled from the sessions' activity.

A session is active in an operation (``state`` other than ``idle``) with a wait event or without:
then it computes, or waits for something that PostgreSQL does not report. Parallel workers count
as sessions; a leader that waits for its workers does not. The checkpointer is at work unless it
waits for its next checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from harness.host.threads import Thread
from harness.waits import Observation, Resource, WaitObserver
from harness.yamlfile import shipped_yaml

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
