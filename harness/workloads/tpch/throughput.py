"""The throughput test (clause 5.3.4): query streams and a refresh stream at the same time.

Every stream has a session and a thread of its own; all begin together. The refresh stream
executes as many pairs as there are query streams, one after the other from the start.
Nothing is read or written between two queries of a stream, and counters only before and
after the whole: the use of one query among concurrent ones cannot be measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from harness.counters import difference
from harness.engine import Engine, SqlConnection
from harness.progress import Task
from harness.structs import convert
from harness.workload import Session
from harness.workloads.query_runs import Execution, WarmUp, execute, warm_up
from harness.workloads.resume import ResumeCursor
from harness.workloads.streams import QueryStreams
from harness.workloads.tpch.params import TpchParams
from harness.workloads.tpch.refresh import FUNCTIONS, Applied, Function, RefreshFunctions
from harness.workloads.tpch.statements import TpchStatement, power_statements, stream_statements

_STEP = "throughput"


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
            convert(document["refresh"], list[Applied], f"step {_STEP}"),
            document["counters"],
            convert(document["warm_up"], WarmUp, f"step {_STEP}"),
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
            result = _run_streams(params, engine, statements, functions, refresh, task)
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


def _run_streams(
    params: TpchParams,
    engine: Engine,
    statements: Sequence[Sequence[TpchStatement]],
    functions: RefreshFunctions | None,
    refresh: Sequence[tuple[Function, int]],
    task: Task,
) -> ThroughputTest:
    """Start all streams together, wait for all."""
    executions: list[list[Execution[TpchStatement]]] = [[] for _ in statements]
    applied: list[Applied] = []
    with QueryStreams(engine) as streams:
        works = [
            streams.queries(stream, into, params.query_timeout_s, task)
            for stream, into in zip(statements, executions, strict=True)
        ]

        def apply(connection: SqlConnection) -> None:
            assert functions is not None
            for function, pair in refresh:
                if streams.stopped:
                    return
                applied.append(functions.apply(connection, function, pair))
                task.advance(note=f"{function} of pair {pair} done")

        streams.start([*works, *([apply] if functions is not None else [])])
        streams.wait()
    return ThroughputTest(executions, applied)
