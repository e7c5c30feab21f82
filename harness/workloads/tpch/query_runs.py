"""The query runs of one session: timed, then explained.

Times are the connection's own. Between two timed executions only counters are read and
what was measured is written down; answers are compared after the last one, and plans come
from a second pass from the same cache state, because profiling distorts (see harness.query_plan).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from harness.counters import difference
from harness.engine import (
    CannotExplain,
    Engine,
    QueryTimeout,
    Scalar,
    SqlConnection,
    SqlResult,
)
from harness.errors import RunFailed
from harness.query_plan import ExecutedPlan, account
from harness.sql_values import decode, encode
from harness.store.documents import from_members, members
from harness.store.result import Metric
from harness.waits import Breakdown, explain_alone, take
from harness.workload import Session
from harness.workloads.tpch.params import TpchParams
from harness.workloads.tpch.resume import ResumeCursor
from harness.workloads.tpch.statements import Statement


@dataclass(frozen=True)
class Execution:
    """One timed execution.

    ``duration_ns`` None: it reached its time limit and has neither time nor answer.
    ``counters``: what it added to the session's counters; empty if others ran concurrently.
    ``submitted_ns`` and ``ended_ns``: the client's stamps around it, monotonic.
    """

    statement: Statement
    duration_ns: int | None
    rows: Sequence[tuple[Scalar, ...]] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
    submitted_ns: int = 0
    ended_ns: int = 0

    @property
    def finished(self) -> bool:
        """Whether it ended before its limit."""
        return self.duration_ns is not None

    def waits(self) -> tuple[Breakdown | None, dict[str, float]]:
        """The parts of its time, and the counters without those of waits."""
        totals, rest = take(self.counters)
        if totals is None or self.duration_ns is None:
            return None, rest
        return explain_alone(totals, self.duration_ns, self.counters.get("cpu_ns")), rest

    def to_json(self) -> dict[str, Any]:
        """Return the document of a run's step: everything but the statement."""
        return {
            "duration_ns": self.duration_ns,
            "rows": [[encode(value) for value in row] for row in self.rows],
            "counters": dict(self.counters),
            "submitted_ns": self.submitted_ns,
            "ended_ns": self.ended_ns,
        }

    @classmethod
    def from_json(cls, statement: Statement, document: Mapping[str, Any]) -> Execution:
        """The inverse of :meth:`to_json` for the execution of ``statement``."""
        rows = [tuple(decode(value) for value in row) for row in document["rows"]]
        return cls(statement, **{**document, "rows": rows})


@dataclass(frozen=True)
class Explained:
    """A query's plan: its metrics, and the document that is stored with the run."""

    query: int
    metrics: tuple[Metric, ...]
    document: Mapping[str, Any]


def execute(
    connection: SqlConnection, statement: Statement, timeout_s: float | None
) -> SqlResult | None:
    """Run it; None where it reached its limit. RunFailed names the query."""
    with explained_failure(statement):
        try:
            return connection.execute(statement.sql, timeout_s=timeout_s)
        except QueryTimeout:
            return None


class QueryRuns:
    """The query runs of one session, each from the requested cache state."""

    def __init__(
        self, session: Session, engine: Engine, params: TpchParams, cursor: ResumeCursor
    ) -> None:
        self._session = session
        self._engine = engine
        self._cursor = cursor
        self._timeout_s = params.query_timeout_s
        self._warmups = params.warmups
        self._plans = params.plans
        #: What a query touches shows only from a cold start of its own.
        self._footprints = params.cache == "cold-per-query" and not self._warmups
        #: Why requested plans are missing.
        self.unexplained = ""

    def time(self, todo: Sequence[Statement]) -> list[Execution]:
        """Time each query once; those of an earlier attempt are read from their steps."""
        executions = []
        with self._session.progress.task("run TPC-H queries", len(todo)) as task:
            for statement in todo:
                execution = self._cursor.step(
                    statement.step,
                    statement.name,
                    partial(self._time, statement),
                    partial(self._again, statement),
                    partial(Execution.from_json, statement),
                    query=True,
                )
                executions.append(execution)
                task.advance(note=f"Q{statement.query} done")
        return executions

    def _time(self, statement: Statement) -> Execution:
        connection = self._cursor.connection()
        for _ in range(self._warmups):
            execute(connection, statement, self._timeout_s)
        with explained_failure(statement):
            footprint = self._session.footprint() if self._footprints else None
            before = dict(self._session.counters("before"))
            result = execute(connection, statement, self._timeout_s)
            if result is None:
                return Execution(statement, None)
            counters = difference(before, self._session.counters("after"))
            counters |= footprint.taken() if footprint else {}
        ended_ns = result.started_ns + result.duration_ns
        return Execution(
            statement, result.duration_ns, result.rows, counters, result.started_ns, ended_ns
        )

    def _again(self, statement: Statement) -> None:
        """Execute it for what it leaves in the caches."""
        execute(self._cursor.connection(), statement, self._timeout_s)

    def explain(self, executions: Sequence[Execution]) -> list[Explained]:
        """Execute each finished query again, with profiling on.

        Nothing if the engine cannot, or plans are off.
        """
        if not self._plans:
            return []
        todo = [execution for execution in executions if execution.finished]
        explained = []
        with self._session.progress.task("explain TPC-H queries", len(todo)) as task:
            for execution in todo:
                statement = execution.statement
                try:
                    plan = self._cursor.step(
                        f"{statement.step}-plan",
                        f"{statement.name}'s plan",
                        partial(self._explain, self._engine, execution),
                        partial(self._again, statement),
                        partial(from_members, Explained),
                    )
                except CannotExplain as error:
                    self.unexplained = str(error)
                    return []
                explained.append(plan)
                task.advance(note=f"Q{statement.query} done")
        return explained

    def _explain(self, engine: Engine, execution: Execution) -> Explained:
        """The plan as executed now, held against the timed execution."""
        statement = execution.statement
        assert execution.duration_ns is not None
        with explained_failure(statement):
            connection = self._cursor.connection()
            before = self._session.counters("before untimed")
            plan = engine.explain(connection, statement.sql)
            spent = difference(before, self._session.counters("after untimed"))
            known = execution.counters.get("cpu_ns")
            accounting = account(plan, execution.duration_ns, spent.get("cpu_ns"), known)
        document = members(plan) | {"accounting": members(accounting)}
        return Explained(statement.query, tuple(_plan_metrics(statement, plan)), document)


@contextmanager
def explained_failure(statement: Statement) -> Iterator[None]:
    """Name the query in what goes wrong with it."""
    stream = "" if statement.stream is None else f" of stream {statement.stream}"
    with named_failure(f"TPC-H query {statement.query}{stream}"):
        yield


@contextmanager
def named_failure(what: str) -> Iterator[None]:
    """Begin what goes wrong in here with ``what``."""
    try:
        yield
    except RunFailed as error:
        if error.problem.startswith(what):
            raise
        found = ": ".join(part for part in (error.problem, error.context) if part)
        raise RunFailed(what, found, error.hint) from error


def _plan_metrics(statement: Statement, plan: ExecutedPlan) -> list[Metric]:
    labels = statement.labels
    return [
        Metric("plan_run_duration_ns", "ns", "none", labels, value=plan.duration_ns),
        *(
            Metric("plan_operator_ns", "ns", "none", labels | {"operator": kind}, value=time_ns)
            for kind, time_ns in plan.time_by_kind_ns().items()
        ),
    ]
