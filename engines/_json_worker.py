"""Engines in a worker process that runs SQL: one line of JSON a request, and an answer."""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import jsonfile
from harness.engine import (
    Credentials,
    Engine,
    Process,
    ProcessId,
    QueryTimeout,
    SqlConnection,
    SqlResult,
)
from harness.errors import RunFailed
from harness.sql_script import head
from harness.sql_values import decode
from harness.supervise.failures import log_tail
from harness.supervise.process import process_identity
from harness.supervise.silence import limit_s, phase


class WorkerError(Exception):
    """The engine's error on a request; ``str()`` is its message."""


class Worker:
    """Requests to a worker process and its answers. Safe to call from several threads."""

    def __init__(
        self, title: str, process: Process, log: Path, user: Credentials | None = None
    ) -> None:
        self.title = title
        self.process = process
        self._user = user
        self._log = log
        self._ids = itertools.count()
        self._waiting: dict[int, queue.SimpleQueue[dict[str, Any] | None]] = {}
        self._lock = threading.Lock()
        self._ended = False
        self._no_answer = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def request(self, op: str, timeout_s: float | None = None, **fields: Any) -> dict[str, Any]:
        """Send a request, return its answer; WorkerError, or RunFailed if the process exited.

        It is killed where it does not answer within ``timeout_s`` (default: a statement's limit).
        """
        mailbox: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        with self._lock:
            number = next(self._ids)
            self._waiting[number] = mailbox
            if self._ended:
                mailbox.put(None)
            else:
                self._send({"id": number, "op": op, **fields})
        limit = limit_s("statement") if timeout_s is None else timeout_s
        try:
            answer = mailbox.get(timeout=limit)
        except queue.Empty:
            self.process.kill()
            raise RunFailed(
                f"{self.title}: {op}", f"killed: no answer within {limit:g} s"
            ) from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if answer is None:
            raise self._death(op)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def _send(self, document: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # it exited: the reader notifies all waiting threads
            self.process.stdin.write(json.dumps(document).encode() + b"\n")
            self.process.stdin.flush()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in self.process.stdout:
                try:
                    answer = jsonfile.parse(line)
                    number = answer["id"]
                except (ValueError, TypeError, KeyError):
                    self._no_answer = line
                    break
                with self._lock:
                    mailbox = self._waiting.get(number)
                if mailbox is not None:
                    mailbox.put(answer)
        with self._lock:
            self._ended = True
            for mailbox in self._waiting.values():
                mailbox.put(None)

    def _death(self, op: str) -> RunFailed:
        try:
            status = self.process.wait(5)
        except TimeoutError:
            context = "the worker closed its output but still runs"
            if self._no_answer:
                said = self._no_answer.decode(errors="replace").strip()
                context = f"the worker still runs, but wrote what is no answer: {said}"
            return RunFailed(f"{self.title}: {op}", context)
        hint = "if it exceeded the memory cap, lower the engine's memory" if status == -9 else ""
        return RunFailed(
            f"{self.title}: {op}",
            f"the worker process exited with status {status}; the last lines of its log:\n"
            f"{log_tail(self._log, self._user)}",
            hint,
        )


class WorkerConnection(SqlConnection):
    """One connection inside the worker."""

    def __init__(self, worker: Worker, number: int) -> None:
        self._worker = worker
        self._number = number

    def execute(
        self, sql: str, *, timeout_s: float | None = None, keep: int | None = None
    ) -> SqlResult:
        """Run one statement, timed inside the worker; QueryTimeout at the limit."""
        try:
            # Not timeout_s, which is Worker.request's own for the answer.
            answer = self._worker.request(
                "execute", connection=self._number, sql=sql, limit_s=timeout_s, keep=keep
            )
        except WorkerError as error:
            raise RunFailed(f"{self._worker.title}: {head(sql)}", str(error)) from error
        if answer.get("timeout"):
            raise QueryTimeout(f"{head(sql)}: no answer within {timeout_s:g} s")
        return SqlResult(
            tuple(answer["columns"]),
            [tuple(decode(value) for value in row) for row in answer["rows"]],
            answer["started_ns"],
            answer["duration_ns"],
            answer["left_out"],
            int(answer["checksum"]),
        )

    def close(self) -> None:
        with contextlib.suppress(RunFailed, WorkerError):
            self._worker.request("close", connection=self._number)


class WorkerEngine(Engine):
    """An engine that is one worker process; ``start`` sets ``_worker``."""

    _worker: Worker | None = None

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def stop(self) -> None:
        """Have the worker close what it has open and exit; it is killed at the limit."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        limit = limit_s("stop")
        try:
            with phase("stop"):
                worker.request("shutdown", timeout_s=limit)
                worker.process.wait(limit)
        except WorkerError as error:
            worker.process.kill()
            raise RunFailed(f"stop {worker.title}", str(error)) from error
        except TimeoutError:
            worker.process.kill()
            context = f"killed: still running after {limit:g} s"
            raise RunFailed(f"stop {worker.title}", context) from None

    def kill(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.process.kill()
            worker.process.wait()

    def processes(self) -> Sequence[ProcessId]:
        identity = process_identity(self._worker.process.pid) if self._worker else None
        return [identity] if identity else []

    @property
    def _running(self) -> Worker:
        if self._worker is None:
            raise RuntimeError("start comes first")
        return self._worker
