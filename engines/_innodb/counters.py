"""The server's cumulative counters, as numbers with their unit in the name.

Storage counters are InnoDB's global sums (``innodb_…``), the others are those of the SQL layer
(``server_…``). One connection reads them while the server runs, and reads them a few times before
its first reading counts: then the parts of the data dictionary that it needs are in memory, and a
reading adds nothing to these counters.

``spilled_bytes`` are the bytes that MySQL wrote to temporary files: sorts, hash joins and
internal temporary tables on disk, from the performance schema's sums of file writes (for its
TempTable engine, of file-backed memory). It is missing if that schema is off or not readable by
the user of an external server, and always on MariaDB: even with a performance schema, 10.11
counted nothing for a sort with 165 merge passes. Missing does not mean zero.

They show whether a window writes pages back as a long run does: the redo log is reused when the
pages that it describes are written, so in a long run its checkpoint advances as fast as the log
grows. Until then, a window writes fewer pages than it changes.

The server's variables show whether a loss of power may take acknowledged commits: data that were
not forced to the device are in the page cache or in the device's own cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pymysql

from engines import _sql_engine
from engines._innodb.connection import LazyConnection, close, message
from engines._innodb.installation import TITLES, Flavour
from engines._thread_waits import GROUP_COMMIT, event_of
from engines._thread_waits import RESOURCES as CALLS
from harness.engine import ProcessId
from harness.errors import RunFailed
from harness.host.threads import KeptFiles, Thread, blocked
from harness.units import MIB, format_bytes
from harness.waits import Observation, Resource, WaitObserver
from harness.warnings import RunWarning
from harness.yamlfile import shipped_yaml

_WARM_READINGS = 3
_STATUS: Mapping[str, str] = shipped_yaml(Path(__file__).with_name("counters.yml"))
_STATUS_SQL = (
    "SHOW GLOBAL STATUS WHERE variable_name IN (" + ", ".join(f"'{name}'" for name in _STATUS) + ")"
)
#: By kind of file; InnoDB's temporary tablespaces by name. Mapped files of MySQL's TempTable
#: engine are counted as memory.
_SPILLED_SQL = """
SELECT (SELECT sum(sum_number_of_bytes_write)
        FROM performance_schema.file_summary_by_event_name
        WHERE event_name IN ('wait/io/file/sql/io_cache', 'wait/io/file/sql/hash_join',
                             'wait/io/file/innodb/innodb_temp_file'))
     + (SELECT coalesce(sum(sum_number_of_bytes_write), 0)
        FROM performance_schema.file_summary_by_instance
        WHERE file_name LIKE '%.ibt' OR file_name LIKE '%ibtmp1')
     + (SELECT coalesce(sum(sum_number_of_bytes_alloc), 0)
        FROM performance_schema.memory_summary_global_by_event_name
        WHERE event_name = 'memory/temptable/physical_disk')"""


class InnoDBCounterReader(_sql_engine.CounterReader):
    """The monitoring connection of one server start."""

    def __init__(self, raw: LazyConnection, flavour: Flavour) -> None:
        self._raw = raw
        self._flavour: Flavour = flavour
        self._reports_spills = self._can_read_spills()
        for _ in range(_WARM_READINGS):
            self.read()

    def read(self) -> Mapping[str, float]:
        """Cumulative counters; those that the server does not have are left out."""
        try:
            status = {str(name).lower(): value for name, value in self._raw.run(_STATUS_SQL).rows}
            counters = {_STATUS[name]: float(value) for name, value in status.items()}
            if self._reports_spills:
                counters["spilled_bytes"] = float(self._raw.run(_SPILLED_SQL).rows[0][0] or 0)
        except pymysql.Error as error:
            raise RunFailed(f"read {TITLES[self._flavour]}'s counters", message(error)) from error
        return counters

    def close(self) -> None:
        close(self._raw)

    def _can_read_spills(self) -> bool:
        """Whether the server counts all spills and the user may read them."""
        if self._flavour == "mariadb":
            return False
        try:
            on: Any = self._raw.run("SELECT @@performance_schema").rows
            if not int(on[0][0]):
                return False
            self._raw.run(_SPILLED_SQL)
        except pymysql.Error:
            return False
        return True


#: A window that logs less has next to nothing to write back.
_LITTLE_BYTES = 16 * MIB
#: How far the checkpoint may lag or catch up, as a share of the log's growth.
_TOLERANCE = 0.2


def write_back_warnings(window: Mapping[str, float]) -> Iterator[RunWarning]:
    """``window``: increase of each counter; no warnings for releases without these counters."""
    redo = window.get("innodb_redo_bytes", 0.0)
    if redo < _LITTLE_BYTES:
        return
    advanced = window.get("innodb_redo_checkpointed_bytes", 0.0)
    pages = window.get("innodb_pages_written_count", 0.0)
    if abs(redo - advanced) > _TOLERANCE * redo:
        yield RunWarning(
            "redo-checkpoint-not-steady",
            f"{'fewer' if advanced < redo else 'more'} pages were written than in a long run",
            f"the redo log grew by {format_bytes(redo)}, its checkpoint advanced by "
            f"{format_bytes(advanced)} ({advanced / redo:.0%}); {pages:,.0f} pages were written",
            "raise --ramp-up, or have pages written sooner with a smaller redo log or a lower "
            "--set innodb_adaptive_flushing_lwm=…",
        )


#: The variables that decide durability.
DURABILITY_SETTINGS = (
    "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "log_bin",
    "sync_binlog",
)
_UNSYNCED = (
    "pages are written without fsync: a device with a volatile cache may lose pages whose log "
    "a checkpoint has discarded"
)
#: Values of innodb_flush_method that do not force log and pages.
_FLUSH_METHODS = {
    "o_direct_no_fsync": _UNSYNCED,
    "littlesync": _UNSYNCED,
    "nosync": "nothing that is written is forced to the device",
}


def lost_without_power(variables: Mapping[str, str]) -> dict[str, str]:
    """``setting=value`` → consequence; ``variables``: the server's global variables."""
    reported = {name: value for name, value in variables.items() if value}
    return {f"{name}={reported[name]}": meaning for name, meaning in _risks(reported)}


def _risks(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    def value(name: str) -> str:
        return variables.get(name, "").lower()

    # 3 (MariaDB) forces the log as 1 does.
    flushed = value("innodb_flush_log_at_trx_commit")
    if flushed == "0":
        yield (
            "innodb_flush_log_at_trx_commit",
            "commits are acknowledged before their log is written",
        )
    if flushed == "2":
        yield (
            "innodb_flush_log_at_trx_commit",
            "commits are acknowledged before their log is forced to the device",
        )
    # Recovery follows the binary log: transactions that it lacks are rolled back.
    if value("log_bin") in ("on", "1") and value("sync_binlog") not in ("1", ""):
        yield (
            "sync_binlog",
            "commits are acknowledged before the binary log is forced to the device",
        )
    if (method := value("innodb_flush_method")) in _FLUSH_METHODS:
        yield "innodb_flush_method", _FLUSH_METHODS[method]
    doublewrite = value("innodb_doublewrite")
    if doublewrite in ("off", "0", "detect_only"):
        yield "innodb_doublewrite", "torn pages cannot be repaired"
    if doublewrite == "fast":  # MariaDB
        yield "innodb_doublewrite", _UNSYNCED


# Waits: row locks, the server's thread states, and Linux's calls ------------------
#
# The performance schema's own waits are off in MySQL and the schema itself is in MariaDB: turning
# them on would change what is measured. Row locks come from ``innodb_trx`` and states from the
# list of sessions. What a session's thread does meanwhile (reading a page, forcing the redo log)
# is its system call; on a user's server it is not known.
#
# InnoDB checkpoints gradually, as pages are written: the checkpoint is at work where its position
# in the redo log has advanced.

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
    """Whether the file is of the redo log or the binary log."""
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
