"""Waits, from the views of sessions, requests and waiting tasks.

A request is one wait at a time, that of its first task. Where that waits for other tasks of a
parallel plan (CXPACKET and so on), the wait of one of these counts; if none of them waits, the
session runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from engines.sqlserver.connection import SqlServerConnection
from harness.errors import RunFailed
from harness.supervise.silence import limit_s
from harness.waits import Observation, Resource, WaitObserver

#: By the beginning of the wait's type.
_RESOURCES: Mapping[str, Resource] = {
    "PAGEIOLATCH": "data read",
    "WRITELOG": "log sync",
    "HADR_SYNC_COMMIT": "log sync",
    "LOGBUFFER": "log write",
    "LCK": "lock",
    "PAGELATCH": "buffer",
    "LATCH": "buffer",
    "ASYNC_NETWORK_IO": "client",
}
#: It has given its processor up and is in the scheduler's queue.
_YIELDED = "SOS_SCHEDULER_YIELD"
#: The moments since an idle session's last request in ms; status and wait of one under way.
_SESSIONS = """
    select datediff(millisecond, s.last_request_end_time, getdate()), r.status,
           case when r.wait_type like 'CX%' then t.wait_type else r.wait_type end
    from sys.dm_exec_sessions s
    left join sys.dm_exec_requests r on r.session_id = s.session_id
    outer apply (
        select top (1) w.wait_type from sys.dm_os_waiting_tasks w
        where w.session_id = s.session_id and w.wait_type not like 'CX%'
    ) t
    where s.is_user_process = 1 and s.session_id <> @@spid and s.database_id = db_id()
"""
#: An idle session whose last request ended longer ago is in none of its client's.
_TURNAROUND_MS = 100


class SessionObserver(WaitObserver):
    """Samples the sessions in the dataset's database; none without VIEW SERVER STATE."""

    events = _RESOURCES

    def __init__(self, connect: Callable[[], SqlServerConnection]) -> None:
        self._connect = connect
        self._connection: SqlServerConnection | None = None

    def observe(self) -> Sequence[Observation]:
        if self._connection is None:
            self._connection = self._connect()
        try:
            # Without a limit, a server that does not answer stops the run along with the monitor.
            rows = self._connection.execute(_SESSIONS, timeout_s=limit_s("connect")).rows
        except RunFailed:
            self.close()
            raise
        observations = []
        for since_ms, status, wait in rows:
            if status is None:
                if since_ms is not None and int(str(since_ms)) < _TURNAROUND_MS:
                    observations.append(Observation("idle"))
            elif wait is None or wait == _YIELDED:
                observations.append(Observation("running"))
            else:
                observations.append(Observation("waiting", event_of(str(wait))))
        return observations

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def event_of(wait: str) -> str:
    """Return ``LCK:LCK_M_X`` where the beginning is one of ours, else the wait's type."""
    kind = next((kind for kind in _RESOURCES if wait == kind or wait.startswith(f"{kind}_")), "")
    return f"{kind}:{wait}" if kind and kind != wait else wait
