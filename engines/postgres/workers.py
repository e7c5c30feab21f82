"""Several connections that work through a list of jobs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from queue import SimpleQueue
from types import TracebackType

import psycopg

from harness.engines.postgres.connection import PostgresConnection


@dataclass(frozen=True)
class Job:
    """``weight``: how long it may take, in any unit; the heaviest are done first."""

    weight: int
    run: Callable[[PostgresConnection], None]


class Workers:
    """``count`` connections, opened at the start of the block and closed at its end.

    Whatever ends a ``run`` early, Ctrl-C included, cancels the statements under way,
    so that nothing waits for an index build that nobody wants any more.
    """

    def __init__(self, connect: Callable[[], PostgresConnection], count: int) -> None:
        self._connect = connect
        self._count = count
        self._connections: list[PostgresConnection] = []

    def __enter__(self) -> Workers:
        try:
            for _ in range(self._count):
                self._connections.append(self._connect())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections:
            connection.close()

    def on_each(self, action: Callable[[PostgresConnection], object]) -> None:
        """Do something on every connection, one after the other."""
        for connection in self._connections:
            action(connection)

    def run(self, jobs: Sequence[Job], in_order: bool = False) -> None:
        """Do all jobs; raises the first failure after cancelling the rest."""
        if in_order:
            for job in jobs:
                job.run(self._connections[0])
            return
        queue: SimpleQueue[Job] = SimpleQueue()
        for job in sorted(jobs, key=lambda j: j.weight, reverse=True):
            queue.put(job)
        with ThreadPoolExecutor(self._count) as pool:
            futures = [pool.submit(_work, connection, queue) for connection in self._connections]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
                for future in futures:
                    if future.done():
                        future.result()
            except BaseException:
                _drain(queue)
                self._cancel()
                raise

    def _cancel(self) -> None:
        for connection in self._connections:
            with contextlib.suppress(psycopg.Error):
                connection.raw.cancel_safe(timeout=10)


def _work(connection: PostgresConnection, queue: SimpleQueue[Job]) -> None:
    while not queue.empty():
        try:
            job = queue.get_nowait()
        except Exception:
            return
        job.run(connection)


def _drain(queue: SimpleQueue[Job]) -> None:
    while not queue.empty():
        queue.get()
