"""Waits: row locks, the server's thread states, and Linux's calls.

The performance schema's own waits are off in MySQL and the schema itself is in MariaDB: turning
them on would change what is measured. Row locks come from ``innodb_trx`` and states from the
list of sessions. What a session's thread does meanwhile (reading a page, forcing the redo log)
is its system call; on a user's server it is not known.

InnoDB checkpoints gradually, as pages are written: the checkpoint is at work where its position
in the redo log has advanced.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import pymysql

from engines._innodb.connection import LazyConnection, close
from engines._innodb.installation import Flavour
from engines._thread_waits import GROUP_COMMIT, event_of
from engines._thread_waits import RESOURCES as CALLS
from harness.engine import ProcessId
from harness.host.threads import KeptFiles, Thread, blocked
from harness.waits import Observation, Resource, WaitObserver

_COMMIT, _ROW_LOCK = "commit", "row lock"
_RESOURCES: Mapping[str, Resource] = {
    **CALLS,
    _COMMIT: "log sync",
    _ROW_LOCK: "lock",
    "server lock": "lock",
    "network": "client",
}
#: States by a word in them, in lower case; the first that fits applies.
_STATES = {
    "handler commit": _COMMIT,
    "prior transaction to commit": _COMMIT,
    "commit": _COMMIT,
    "lock": "server lock",
    "user sleep": "user sleep",
    "to net": "network",
    "from net": "network",
    "to client": "network",
}
#: Session, the thread's number on the host, command, state, seconds since its last statement.
_SESSIONS: Mapping[Flavour, str] = {
    "mysql": "SELECT processlist_id, thread_os_id, processlist_command, processlist_state, "
    "processlist_time FROM performance_schema.threads "
    "WHERE processlist_command IN ('Query', 'Execute', 'Sleep') "
    "AND processlist_id <> CONNECTION_ID()",
    "mariadb": "SELECT id, tid, command, state, time_ms / 1000 FROM information_schema.processlist "
    "WHERE command IN ('Query', 'Execute', 'Sleep') AND id <> CONNECTION_ID()",
}
_LOCKED = (
    "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
)
#: The position up to which every page that the redo log describes is on its device. Older releases
#: of MySQL (before 8.0.30) do not have it.
_CHECKPOINT: Mapping[Flavour, str] = {
    "mysql": "SHOW GLOBAL STATUS LIKE 'innodb_redo_log_checkpoint_lsn'",
    "mariadb": "SHOW GLOBAL STATUS LIKE 'innodb_lsn_last_checkpoint'",
}
#: The server gathers all of its status for it.
_CHECKPOINT_EVERY_S = 1.0
#: An idle session whose last statement ended longer ago is in none of its client's.
_TURNAROUND_S = 0.1


def is_log(path: str) -> bool:
    """Return whether the file is of the redo log or the binary log."""
    name = path.rpartition("/")[2]
    return name.startswith(("ib_logfile", "#ib_redo", "binlog.", "mysql-bin."))


class SessionObserver(WaitObserver):
    """Samples sessions on one connection, which is opened again after a restart.

    ``processes``: of the server, where its threads are on this host.
    """

    events = _RESOURCES

    def __init__(
        self,
        connect: Callable[[], LazyConnection],
        flavour: Flavour,
        processes: Callable[[], Sequence[ProcessId]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect, self._flavour, self._processes = connect, flavour, processes
        self._connection: LazyConnection | None = None
        self._pid: int | None = None
        self._clock = clock
        self._checkpoint: int | None = None
        self._checkpoint_due_s = 0.0
        self._files = KeptFiles()

    def observe(self) -> Sequence[Observation]:
        if self._connection is None:
            self._connection = self._connect()
            # Finding a server's processes takes milliseconds; they end with the connection.
            self._pid = next((process.pid for process in self._processes()), None)
        try:
            sessions = self._connection.run(_SESSIONS[self._flavour]).rows
            locked = {row[0] for row in self._connection.run(_LOCKED).rows}
            advanced = self._checkpoint_advanced(self._connection)
        except (pymysql.Error, OSError):
            self.close()
            raise
        observations = [Observation("background", "checkpoint")] if advanced else []
        for number, tid, command, state, seconds in sessions:
            thread = Thread(self._pid, int(tid)) if self._pid and tid else None
            if command == "Sleep":
                if seconds is not None and seconds < _TURNAROUND_S:
                    observations.append(Observation("idle", thread=thread))
            elif number in locked:
                observations.append(Observation("waiting", _ROW_LOCK, thread))
            else:
                observations.append(_active(thread, _of_state(state), self._files))
        return observations

    def _checkpoint_advanced(self, connection: LazyConnection) -> bool:
        """Since the last reading, of which there is one a second."""
        if (now := self._clock()) < self._checkpoint_due_s:
            return False
        self._checkpoint_due_s = now + _CHECKPOINT_EVERY_S
        rows = connection.run(_CHECKPOINT[self._flavour]).rows
        before, self._checkpoint = self._checkpoint, int(rows[0][1]) if rows else None
        return None not in (before, self._checkpoint) and before != self._checkpoint

    def close(self) -> None:
        self._files.close()
        connection, self._connection, self._checkpoint = self._connection, None, None
        if connection is not None:
            close(connection)


def _of_state(state: str | None) -> str | None:
    lower = (state or "").lower()
    return next((event for word, event in _STATES.items() if word in lower), None)


def _active(thread: Thread | None, of_state: str | None, files: KeptFiles) -> Observation:
    """The thread is more precise than the state, unless it waits for another one."""
    if thread is None:
        return Observation("waiting", of_state) if of_state else Observation("running")
    try:
        wait = blocked(thread, files.read)
    except ProcessLookupError:
        return Observation("running", thread=thread)
    if wait is None:
        return Observation("running", thread=thread)
    event = event_of(wait, is_log)
    if event == "futex":
        event = GROUP_COMMIT if of_state == _COMMIT else of_state or event
    return Observation("waiting", event, thread)
