"""Streams: sessions with a thread each, which work on one engine at the same time."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import TracebackType

from harness.engine import Engine, SqlConnection
from harness.errors import RunFailed
from harness.progress import Task
from harness.workloads.query_runs import Execution, S, execute

#: The work of one stream, with a session of its own.
Work = Callable[[SqlConnection], None]
#: Number and interval of requests to a server to cancel a statement.
_CANCELS = 5
_CANCEL_WAIT_S = 1.0
#: The same where the server goes on afterwards.
_STOPPING_CANCELS = 120


class QueryStreams:
    """Streams that connect, then begin together. The first failure of one ends them all.

    ::

        with QueryStreams(engine) as streams:
            streams.start([streams.queries(statements, executions, None, task), …])
            streams.wait()           # until each has ended; raises the first failure
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stopped = threading.Event()
        self._ends: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._connections: list[SqlConnection] = []
        self._barrier = threading.Barrier(1)
        self._at_work = 0

    def __enter__(self) -> QueryStreams:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and self._at_work:
            # Without its server a statement under way ends; then the thread does.
            self._stopped.set()
            self._barrier.abort()
            if self._engine.kind == "external":
                self._cancel(_CANCELS)
            self._engine.kill()
        for thread in self._threads:
            thread.join()
        for connection in self._connections:
            connection.close()

    def start(self, works: Sequence[Work]) -> None:
        """Connect once for each, and begin together."""
        for _ in works:
            self._connections.append(self._engine.connect())
        self._barrier = threading.Barrier(len(works))
        self._threads = [
            threading.Thread(target=self._run, args=(work, connection), daemon=True)
            for work, connection in zip(works, self._connections, strict=True)
        ]
        self._at_work = len(works)
        for thread in self._threads:
            thread.start()

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until all have ended, or for that time; raises the first failure."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self._at_work:
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                error = self._ends.get(timeout=left_s)
            except queue.Empty:
                return
            if error is not None:
                raise error
            self._at_work -= 1

    def stop(self) -> None:
        """Cancel the statements under way, and end all streams; raises the first failure."""
        self._stopped.set()
        self._cancel(_STOPPING_CANCELS)
        if any(thread.is_alive() for thread in self._threads):
            raise RunFailed(
                "end the query streams",
                f"a statement still runs after {_STOPPING_CANCELS} requests to cancel it",
                "the server's log may say why",
            )
        self.wait()

    def queries(
        self,
        statements: Iterable[S],
        into: list[Execution[S]],
        timeout_s: float | None,
        task: Task,
    ) -> Work:
        """Return the work of a stream of queries, one after the other, without a pause."""

        def work(connection: SqlConnection) -> None:
            for statement in statements:
                if self.stopped:
                    return
                submitted_ns = time.monotonic_ns()
                result = execute(connection, statement, timeout_s)
                ended_ns = time.monotonic_ns()
                execution: Execution[S] = Execution(
                    statement, None, submitted_ns=submitted_ns, ended_ns=ended_ns
                )
                if result is not None:
                    execution = replace(
                        execution,
                        duration_ns=result.duration_ns,
                        rows=result.rows,
                        columns=result.columns,
                        left_out=result.left_out,
                        checksum=result.checksum % 2**64,
                    )
                into.append(execution)
                task.advance(note=f"{statement.name} done")

        return work

    @property
    def stopped(self) -> bool:
        """Return whether the streams are to end."""
        return self._stopped.is_set()

    def _run(self, work: Work, connection: SqlConnection) -> None:
        try:
            self._barrier.wait()
            work(connection)
        except BaseException as error:
            # What was cancelled fails; that is no failure of the run.
            self._ends.put(None if self.stopped else error)
        else:
            self._ends.put(None)

    def _cancel(self, requests: int) -> None:
        """Cancel the statements on a server that continues them without our connections.

        More than once: a thread may have been just about to send its next statement.
        """
        for _ in range(requests):
            left = [
                (thread, connection)
                for thread, connection in zip(self._threads, self._connections, strict=True)
                if thread.is_alive()
            ]
            if not left:
                return
            for _, connection in left:
                connection.cancel()
            for thread, _ in left:
                thread.join(_CANCEL_WAIT_S)
