"""The process that DuckDB runs in: one JSON request per line on stdin, answers on stdout.

Requests: ``{"id", "connection", "op", …}``; answers: ``{"id", …}`` in any order, since each
connection has its own thread. Times are measured here, around execute and fetchall, and exclude
the pipe. The process imports only the wire format, the mount, the change of user and the spill
meter of the harness: all that runs here is attributed to the engine. If it is started as root, it
becomes the unprivileged user before it opens anything.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import queue
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or "PYTHONPATH" in os.environ:  # of another release (installation.py)
    import duckdb
else:  # the extension alone: the package around it takes three times as long to import
    import _duckdb as duckdb

from harness.sql_values import encode
from harness.supervise import linux
from harness.supervise.user_files import Credentials, acting_as

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_SLAVE = 0x80000

_IO = Path("/proc/self/io")
#: Rows that are not kept are fetched and dropped as many at a time.
_DROPPED_ROWS = 2048
#: Releases before 0.10 cannot say of what kind a statement is.
_HAS_KINDS = hasattr(duckdb, "StatementType")
#: Releases before 0.9 cannot interrupt a statement from Python.
_INTERRUPTS = hasattr(duckdb.DuckDBPyConnection, "interrupt")

_libc = ctypes.CDLL(None, use_errno=True)


class SpillMeter:
    """Bytes spilled by this process's statements since its start. Thread-safe.

    DuckDB reports them only in its profiles. A statement that only reads writes only to temporary
    files. So the bytes that the process wrote with write(2) and similar calls (/proc/self/io,
    wchar, proc(5)) while such statements ran, minus those written to the pipe to the harness, are
    the spilled bytes, on any file system. If a writing statement ran at the same time, the
    bytes cannot be attributed, and from then on the number is unknown.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[bool] = []  # for each statement: whether it only reads
        self._piped = 0
        self._seen = self._file_bytes()
        self._spilled = 0
        self._certain = True

    @contextmanager
    def piping(self, length: int) -> Iterator[None]:
        """Around a write of ``length`` bytes to the pipe."""
        with self._lock:
            yield
            self._piped += length

    def begin(self, reading: bool) -> None:
        with self._lock:
            self._settle()
            self._running.append(reading)

    def end(self, reading: bool) -> None:
        """A statement has ended, successfully or not."""
        with self._lock:
            self._settle()
            self._running.remove(reading)

    def spilled_bytes(self) -> int | None:
        """The sum so far; None if it cannot be distinguished from other writes."""
        with self._lock:
            self._settle()
            return self._spilled if self._certain else None

    def _settle(self) -> None:
        """Attribute the bytes written since the last call to the statements running since then."""
        now = self._file_bytes()
        written, self._seen = now - self._seen, now
        if written and any(self._running):
            self._certain = self._certain and all(self._running)
            self._spilled += written

    def _file_bytes(self) -> int:
        fields = dict(line.split(": ") for line in _IO.read_text().splitlines())
        return int(fields["wchar"]) - self._piped


spill = SpillMeter()


def answer(document: dict[str, Any]) -> None:
    """Write one answer as a line of JSON."""
    line = json.dumps(document) + "\n"
    with spill.piping(len(line)):  # one line at a time
        sys.stdout.write(line)
        sys.stdout.flush()


def only_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> bool:
    """Return whether every statement of the text is a query (or explains one).

    False where the release cannot say: what it writes then has no known reason.
    """
    if not _HAS_KINDS:
        return False
    reading = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    try:
        return all(item.type in reading for item in connection.extract_statements(sql))
    except duckdb.Error:  # the execution will report it
        return False


class ConnectionThread(threading.Thread):
    """One connection and its thread, which executes requests in order."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        super().__init__(daemon=True)
        self.connection = connection
        self.requests: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()

    def run(self) -> None:
        """Execute requests until None arrives."""
        while (request := self.requests.get()) is not None:
            answer({"id": request["id"], **attempt(partial(self.execute, request))})
        self.connection.close()

    def execute(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one statement, interrupted at its time limit.

        The process ends there where the release cannot interrupt.
        """
        limit = request["limit_s"]
        expired = threading.Event()

        def interrupt() -> None:
            expired.set()
            if not _INTERRUPTS:
                text = f"DuckDB {duckdb.__version__} cannot interrupt a statement after {limit:g} s"
                print(text, file=sys.stderr, flush=True)
                os._exit(1)
            self.connection.interrupt()

        timer = threading.Timer(limit, interrupt) if limit is not None else None
        reading = only_reads(self.connection, request["sql"])
        spill.begin(reading)
        if timer is not None:
            timer.start()
        try:
            started = time.monotonic_ns()
            self.connection.execute(request["sql"])
            rows, left_out, total = self._fetch(request["keep"])
            duration = time.monotonic_ns() - started
        except duckdb.InterruptException:
            if expired.is_set():
                return {"timeout": True}
            raise
        finally:
            if timer is not None:
                timer.cancel()
                timer.join()
            spill.end(reading)
        return {
            "columns": [column[0] for column in self.connection.description or ()],
            "rows": [[encode(value) for value in row] for row in rows],
            "started_ns": started,
            "duration_ns": duration,
            "left_out": left_out,
            "checksum": total if request["keep"] is None else total + checksum(rows),
        }

    def _fetch(self, keep: int | None) -> tuple[list[tuple[Any, ...]], int, int]:
        """All rows, or the first ``keep`` ones with the number and checksum of the others."""
        if keep is None:
            return self.connection.fetchall(), 0, 0
        rows, left_out, total = self.connection.fetchmany(keep), 0, 0
        while dropped := self.connection.fetchmany(_DROPPED_ROWS):
            left_out += len(dropped)
            total += checksum(dropped)
        return rows, left_out, total


def checksum(rows: list[tuple[Any, ...]]) -> int:
    """A sum of the rows' hashes, which are the same in each process (PYTHONHASHSEED)."""
    return sum(map(_hash, rows)) % 2**64


def _hash(row: tuple[Any, ...]) -> int:
    try:
        return hash(row) if None not in row else hash(repr(row))  # None has none of its own
    except TypeError:  # lists and dictionaries
        return hash(repr(row))


def attempt(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of ``work``, or its error as an answer."""
    try:
        return work()
    except Exception as error:
        return {"error": str(error), "kind": type(error).__name__}


def main() -> int:
    """Open the database that the first line names; serve until stdin ends."""
    first = json.loads(sys.stdin.readline())
    try:
        if first["bind"] is not None:
            bind_file(Path(first["bind"]), Path(first["path"]), first["user"])
        if first["user"] is not None and os.geteuid() == 0:
            become_user(*first["user"])
        os.chdir(first["home"])
        os.environ["HOME"] = first["home"]
        database = duckdb.connect(first["path"], config=first["config"])
    except Exception as error:
        answer({"id": first["id"], "error": str(error), "kind": type(error).__name__})
        return 1
    answer({"id": first["id"]})
    sessions: dict[int, ConnectionThread] = {}
    for line in sys.stdin:
        request = json.loads(line)
        number = request.get("connection")
        if request["op"] == "execute":
            if number not in sessions:
                sessions[number] = ConnectionThread(database.cursor())
                sessions[number].start()
            sessions[number].requests.put(request)
        elif request["op"] == "close":
            if (session := sessions.pop(number, None)) is not None:
                session.requests.put(None)
                session.join()
            answer({"id": request["id"]})
        elif request["op"] == "counters":
            answer({"id": request["id"], "spilled_bytes": spill.spilled_bytes()})
        elif request["op"] == "shutdown":
            answer({"id": request["id"], **attempt(partial(shut, database, sessions))})
            return 0
    return 0


def bind_file(source: Path, target: Path, owner: Sequence[int] | None = None) -> None:
    """Mount the file ``source`` on the existing file ``target``; OSError if it is not allowed.

    DuckDB resolves the links of a database's path before it derives the WAL's path from it, so a
    link cannot place the WAL; a mount is not resolved. No clean-up is needed: the mount namespace
    and its mounts end with the process. Unprivileged processes need a user namespace, if Linux
    allows it.

    ``owner``: user and group of the directories of both. Root mounts only what that user can
    reach, and follows no links. Only for a process with one thread.
    """
    if os.geteuid() == 0:
        _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    else:
        user, group = os.geteuid(), os.getegid()
        _check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "unshare")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    # Slave: unmounts on the host propagate to this namespace, mounts here not to the host.
    _check(_libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None), "mount")
    reached_by = Credentials(owner[0], owner[1]) if owner else None
    with acting_as(reached_by):
        opened = [os.open(path, os.O_PATH | os.O_NOFOLLOW) for path in (source, target)]
    try:
        for descriptor, path in zip(opened, (source, target), strict=True):
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(path))
        here, there = (f"/proc/self/fd/{descriptor}".encode() for descriptor in opened)
        _check(_libc.mount(here, there, None, _MS_BIND, None), "mount")
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def become_user(user: int, group: int) -> None:
    """Change the user for good, and renew the parent-death signal, which the change clears."""
    supervisor = os.getppid()
    linux.become(user, group, [group])
    linux.die_with_parent(supervisor, signal.SIGKILL)


def shut(
    database: duckdb.DuckDBPyConnection, sessions: dict[int, ConnectionThread]
) -> dict[str, Any]:
    """Close every connection, write a checkpoint and close the database."""
    for session in sessions.values():
        if _INTERRUPTS:
            session.connection.interrupt()
        session.requests.put(None)
        session.join()
    database.execute("CHECKPOINT")
    database.close()
    return {}


if __name__ == "__main__":
    sys.exit(main())
