"""Several connections that run jobs which depend on one another by table.

A job belongs to a stage (copy, keys, indexes …) and uses tables. It may start when every job of
an earlier stage on its tables is done and no running job holds a lock on them that would block
it. So keys of one table are built while another is still being copied, and no connection waits
for a lock. Of the jobs that may start, the heaviest starts first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, TypeVar

from harness.engine import SqlConnection

Connection = TypeVar("Connection", bound=SqlConnection)


@dataclass(frozen=True, eq=False)
class Job(Generic[Connection]):
    """``weight``: amount of work, in any unit. ``shared``: its locks on its tables are compatible
    with those of other shared jobs.
    """

    stage: int
    tables: frozenset[str]
    shared: bool
    weight: int
    run: Callable[[Connection], None]


class Schedule(Generic[Connection]):
    """The waiting and the running jobs. Thread-safe."""

    def __init__(self, jobs: Sequence[Job[Connection]]) -> None:
        self._waiting = sorted(jobs, key=lambda job: job.weight, reverse=True)
        self._running: list[Job[Connection]] = []
        self._changed = threading.Condition()

    def take(self) -> Job[Connection] | None:
        """Wait for a job that may start and return it; None if no job is left."""
        with self._changed:
            while self._waiting:
                for job in self._waiting:
                    if self._may_start(job):
                        self._waiting.remove(job)
                        self._running.append(job)
                        return job
                self._changed.wait()
            return None

    def done(self, job: Job[Connection]) -> None:
        """Note that ``job`` has ended, successfully or not."""
        with self._changed:
            self._running.remove(job)
            self._changed.notify_all()

    def abandon(self) -> None:
        with self._changed:
            self._waiting.clear()
            self._changed.notify_all()

    def _may_start(self, job: Job[Connection]) -> bool:
        for other in self._running:
            compatible = job.shared and other.shared and job.stage == other.stage
            if job.tables & other.tables and not compatible:
                return False
        return not any(o.stage < job.stage and o.tables & job.tables for o in self._waiting)


class Workers(Generic[Connection]):
    """``count`` connections, opened at the start of the block and closed at its end.

    Any exception during ``run``, Ctrl-C included, cancels the running statements, so that the
    harness does not wait for an obsolete index build.
    """

    def __init__(self, connect: Callable[[], Connection], count: int) -> None:
        self._connect = connect
        self._count = count
        self.connections: list[Connection] = []

    def __enter__(self) -> Workers[Connection]:
        try:
            for _ in range(self._count):
                self.connections.append(self._connect())
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        for connection in self.connections:
            connection.close()

    def run(self, jobs: Sequence[Job[Connection]]) -> None:
        """Run all jobs; raises the first failure after cancelling the rest."""
        schedule = Schedule(jobs)
        with ThreadPoolExecutor(self._count) as pool:
            futures = [pool.submit(_work, c, schedule) for c in self.connections]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
                for future in futures:
                    if future.done():
                        future.result()
            except BaseException:
                schedule.abandon()
                self._cancel()
                raise

    def _cancel(self) -> None:
        for connection in self.connections:
            connection.cancel()


def _work(connection: Connection, schedule: Schedule[Connection]) -> None:
    while (job := schedule.take()) is not None:
        try:
            job.run(connection)
        except BaseException:
            schedule.abandon()
            raise
        finally:
            schedule.done(job)
