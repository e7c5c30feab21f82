"""The process that DuckDB runs in: one JSON request per line on stdin, answers on stdout.

Requests: ``{"id", "connection", "op", …}``; answers: ``{"id", …}`` in any order, since each
connection has its own thread. Times are measured here, around execute and fetchall, and exclude
the pipe. The process imports only the wire format, the mount, the change of user and the spill
meter of the harness: all that runs here is attributed to the engine. If it is started as root, it
becomes the unprivileged user before it opens anything.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from engines.duckdb.binding import bind_file
from engines.duckdb.spill import SpillMeter, only_reads
from harness.sql_values import encode
from harness.supervise import linux

spill = SpillMeter()


def answer(document: dict[str, Any]) -> None:
    """Write one line."""
    line = json.dumps(document) + "\n"
    with spill.piping(len(line)):  # one line at a time
        sys.stdout.write(line)
        sys.stdout.flush()


class Session(threading.Thread):
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
        """Run one statement, interrupted at its time limit."""
        limit = request.get("limit_s")
        expired = threading.Event()

        def interrupt() -> None:
            expired.set()
            self.connection.interrupt()

        timer = threading.Timer(limit, interrupt) if limit is not None else None
        reading = only_reads(self.connection, request["sql"])
        spill.begin(reading)
        if timer is not None:
            timer.start()
        try:
            started = time.monotonic_ns()
            self.connection.execute(request["sql"])
            rows = self.connection.fetchall()
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
        }


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
    sessions: dict[int, Session] = {}
    for line in sys.stdin:
        request = json.loads(line)
        number = request.get("connection")
        if request["op"] == "execute":
            if number not in sessions:
                sessions[number] = Session(database.cursor())
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


def become_user(user: int, group: int) -> None:
    """Change the user for good, and renew the parent-death signal, which the change clears."""
    supervisor = os.getppid()
    linux.become(user, group, [group])
    linux.die_with_parent(supervisor, signal.SIGKILL)


def shut(database: duckdb.DuckDBPyConnection, sessions: dict[int, Session]) -> dict[str, Any]:
    """Close every connection, write a checkpoint and close the database."""
    for session in sessions.values():
        session.connection.interrupt()
        session.requests.put(None)
        session.join()
    database.execute("CHECKPOINT")
    database.close()
    return {}


if __name__ == "__main__":
    sys.exit(main())
