"""The throughput test (clause 5.3.4): query streams and a refresh stream at the same time.

Every stream has a session and a thread of its own; all begin together. The refresh stream
executes as many pairs as there are query streams, one after the other from the start.
Nothing is read or written between two queries of a stream, and counters only before and
after the whole: the use of one query among concurrent ones cannot be measured.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from harness.counters import difference
from harness.engine import Engine, SqlConnection
from harness.progress import Task
from harness.store.documents import from_members
from harness.workload import Session
from harness.workloads.query_runs import Execution, WarmUp, execute, warm_up
from harness.workloads.resume import ResumeCursor
from harness.workloads.tpch.params import TpchParams
from harness.workloads.tpch.refresh import FUNCTIONS, Applied, Function, RefreshFunctions
from harness.workloads.tpch.statements import TpchStatement, power_statements, stream_statements

_STEP = "throughput"
#: Number and interval of requests to a server to cancel a statement.
_CANCELS = 5
_CANCEL_WAIT_S = 1.0


@dataclass(frozen=True)
class ThroughputTest:
    """The result of a throughput test: each stream's executions, and its refresh functions.

    ``warm_up``: untimed passes over the query set.
    """

    streams: Sequence[Sequence[Execution[TpchStatement]]]
    refresh: Sequence[Applied] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
    warm_up: WarmUp = field(default_factory=WarmUp)

    @property
    def executions(self) -> list[Execution[TpchStatement]]:
        return [execution for stream in self.streams for execution in stream]

    @property
    def finished(self) -> bool:
        """Return whether every query ended before its limit."""
        return all(execution.finished for execution in self.executions)

    @property
    def interval_ns(self) -> int:
        """Clause 5.3.6: first query or refresh function submitted to the last one ended."""
        spans: list[Execution[TpchStatement] | Applied] = [*self.executions, *self.refresh]
        return max(s.ended_ns for s in spans) - min(s.submitted_ns for s in spans)

    @classmethod
    def from_json(
        cls, statements: Sequence[Sequence[TpchStatement]], document: Mapping[str, Any]
    ) -> ThroughputTest:
        """Return the stored result of the streams of ``statements``."""
        return cls(
            [
                [Execution.from_json(s, entry) for s, entry in zip(stream, entries, strict=True)]
                for stream, entries in zip(statements, document["streams"], strict=True)
            ],
            [from_members(Applied, entry) for entry in document["refresh"]],
            document["counters"],
            from_members(WarmUp, document["warm_up"]),
        )


def run_throughput(
    params: TpchParams,
    session: Session,
    engine: Engine,
    functions: RefreshFunctions | None,
    first_pair: int,
    cursor: ResumeCursor,
) -> ThroughputTest:
    """Run all streams once, as one step of the run; it cannot be resumed in the middle."""
    folder = engine.sql("tpch")
    statements = [
        stream_statements(params, folder, stream) for stream in range(1, (params.streams or 0) + 1)
    ]
    refresh = _refresh_stream(params, functions, first_pair)

    def measure() -> ThroughputTest:
        passes = WarmUp()
        if first_pair == 1:  # no power test has come before it
            passes = warm_up(partial(_untimed_pass, params, engine, cursor), params.warmups)
        cursor.close()
        total = sum(map(len, statements)) + len(refresh)
        before = dict(session.counters("before"))
        with session.progress.task(f"{len(statements)} TPC-H query streams", total) as task:
            streams = _Streams(engine, params.query_timeout_s, task)
            result = streams.run(statements, functions, refresh)
        counters = difference(before, session.counters("after"))
        return replace(result, counters=counters, warm_up=passes)

    again = None if functions is None else partial(functions.again, refresh)
    read = partial(ThroughputTest.from_json, statements)
    return cursor.step(_STEP, "the throughput test", measure, again, read, changes_data=True)


def _refresh_stream(
    params: TpchParams, functions: RefreshFunctions | None, first_pair: int
) -> list[tuple[Function, int]]:
    """Return as many pairs as query streams (clause 5.3.7.7), RF1 before RF2."""
    if functions is None:
        return []
    pairs = range(first_pair, first_pair + (params.streams or 0))
    return [(function, pair) for pair in pairs for function in FUNCTIONS]


def _untimed_pass(params: TpchParams, engine: Engine, cursor: ResumeCursor) -> int | None:
    """The query set of stream 0: a stream's own queries cannot be warmed one by one.

    Return the sum of its times in ns; None where a query reached its limit.
    """
    total_ns = 0
    for statement in power_statements(params, engine.sql("tpch")):
        result = execute(cursor.connection(), statement, params.query_timeout_s)
        if result is None:
            return None
        total_ns += result.duration_ns
    return total_ns


class _Streams:
    """The threads of one throughput test. The first failure of one ends them all."""

    def __init__(self, engine: Engine, timeout_s: float | None, task: Task) -> None:
        self._engine = engine
        self._timeout_s = timeout_s
        self._task = task
        self._stopped = threading.Event()
        self._ends: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def run(
        self,
        statements: Sequence[Sequence[TpchStatement]],
        functions: RefreshFunctions | None,
        refresh: Sequence[tuple[Function, int]],
    ) -> ThroughputTest:
        """Connect, start together, wait for all."""
        executions: list[list[Execution[TpchStatement]]] = [[] for _ in statements]
        applied: list[Applied] = []
        work: list[Callable[[SqlConnection], None]] = [
            partial(self._query, stream, into)
            for stream, into in zip(statements, executions, strict=True)
        ]
        if functions is not None:
            work.append(partial(self._refresh, functions, refresh, applied))
        with ExitStack() as stack:
            connect = self._engine.connect
            connections = [stack.enter_context(closing(connect())) for _ in work]
            self._together(work, connections)
        return ThroughputTest(executions, applied)

    def _together(
        self, work: Sequence[Callable[[SqlConnection], None]], connections: Sequence[SqlConnection]
    ) -> None:
        start = threading.Barrier(len(work))
        threads = [
            threading.Thread(target=self._thread, args=(start, task, connection), daemon=True)
            for task, connection in zip(work, connections, strict=True)
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in threads:
                if (error := self._ends.get()) is not None:
                    raise error
        except BaseException:
            # Without its server a statement under way ends; then the thread does.
            self._stopped.set()
            start.abort()
            if self._engine.kind == "external":
                _cancel(threads, connections)
            self._engine.kill()
            for thread in threads:
                thread.join()
            raise
        for thread in threads:
            thread.join()

    def _thread(
        self,
        start: threading.Barrier,
        work: Callable[[SqlConnection], None],
        connection: SqlConnection,
    ) -> None:
        try:
            start.wait()
            work(connection)
        except BaseException as error:
            self._ends.put(error)
        else:
            self._ends.put(None)

    def _query(
        self,
        stream: Sequence[TpchStatement],
        into: list[Execution[TpchStatement]],
        connection: SqlConnection,
    ) -> None:
        for statement in stream:
            if self._stopped.is_set():
                return
            submitted_ns = time.monotonic_ns()
            result = execute(connection, statement, self._timeout_s)
            ended_ns = time.monotonic_ns()
            duration_ns, rows = (None, []) if result is None else (result.duration_ns, result.rows)
            into.append(
                Execution(
                    statement, duration_ns, rows, submitted_ns=submitted_ns, ended_ns=ended_ns
                )
            )
            self._task.advance(note=f"{statement.name} done")

    def _refresh(
        self,
        functions: RefreshFunctions,
        todo: Sequence[tuple[Function, int]],
        into: list[Applied],
        connection: SqlConnection,
    ) -> None:
        for function, pair in todo:
            if self._stopped.is_set():
                return
            into.append(functions.apply(connection, function, pair))
            self._task.advance(note=f"{function} of pair {pair} done")


def _cancel(threads: Sequence[threading.Thread], connections: Sequence[SqlConnection]) -> None:
    """Cancel the statements on an external server, which continues them without our connections.

    More than once: a thread may have been just about to send its next statement.
    """
    for _ in range(_CANCELS):
        left = [
            (thread, connection)
            for thread, connection in zip(threads, connections, strict=True)
            if thread.is_alive()
        ]
        for _, connection in left:
            connection.cancel()
        for thread, _ in left:
            thread.join(_CANCEL_WAIT_S)
