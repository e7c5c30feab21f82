"""The measured phase: each query timed once from a stated cache state, then explained.

Times are the connection's own. Between two timed executions only counters are read;
answers are compared after the last one, and plans come from a second pass over the
queries from the same cache state, because profiling distorts (see harness.plan).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.counters import counter_metrics, difference
from harness.engine import Explains, QueryTimeout, RunsSql, SqlConnection, SqlResult
from harness.errors import RunFailed, UsageError
from harness.plan import ExecutedPlan
from harness.result import Check, Metric
from harness.workload import CacheMode, Outcome, Session
from harness.workloads.tpch.answers import SHAPES, Answer, MalformedAnswer
from harness.workloads.tpch.checks import check_answers
from harness.workloads.tpch.qgen import Values, parameters
from harness.workloads.tpch.sql import query_sql


@dataclass(frozen=True)
class Statement:
    """One query of the run."""

    query: int
    values: Values
    sql: str

    @property
    def labels(self) -> dict[str, str]:
        """Labels of its metrics and checks."""
        return {"query": str(self.query)}


@dataclass
class _Timed:
    """What the timed pass gave, by query; a query without a result reached its limit."""

    results: dict[int, SqlResult] = field(default_factory=dict)
    counters: dict[int, dict[str, float]] = field(default_factory=dict)


def statements(params: Mapping[str, Any], folder: Path) -> list[Statement]:
    """The queries of a run in the order of their execution, in the engine's dialect."""
    made = []
    for query in params["queries"]:
        values = parameters(query, params["query_seed"], params["scale"])
        made.append(Statement(query, values, query_sql(query, values, folder)))
    return made


def measure(params: Mapping[str, Any], session: Session) -> Outcome:
    """See harness.workload.Workload.measure; the metrics are listed in the workload's docs."""
    engine = session.engine
    if not isinstance(engine, RunsSql):
        raise UsageError(f"tpch on {engine.name}", "it does not run SQL", "choose another engine")
    todo = statements(params, engine.sql_folder / "tpch")
    passes = _Passes(session, engine, params)
    timed = passes.time(todo)
    plans = passes.explain([s for s in todo if s.query in timed.results])
    checks = [*_finished(todo, timed, params["query_timeout_s"])]
    rows = {query: result.rows for query, result in timed.results.items()}
    checks += check_answers(params, engine.name, session.source, rows, session.progress)
    metrics = [*_query_metrics(todo, timed, params["query_timeout_s"]), *_plan_metrics(plans)]
    return Outcome(metrics, checks, _artifacts(todo, timed, plans))


class _Passes:
    """The passes over the queries, each from the cache state that was asked for."""

    def __init__(self, session: Session, engine: RunsSql, params: Mapping[str, Any]) -> None:
        self._session = session
        self._engine = engine
        self._cache: CacheMode = params["cache"]
        self._timeout_s: float | None = params["query_timeout_s"]
        self._warmups: int = params["warmups"]
        self._plans: bool = params["plans"]

    def time(self, todo: Sequence[Statement]) -> _Timed:
        """Each query once, timed."""
        timed = _Timed()
        for statement, connection in self._each(todo, "", "run TPC-H queries"):
            with _explained_failure(statement):
                for _ in range(self._warmups):
                    self._execute(connection, statement)
                before = dict(self._session.counters("before"))
                result = self._execute(connection, statement)
                after = self._session.counters("after")
            if result is not None:
                timed.results[statement.query] = result
                timed.counters[statement.query] = difference(before, after)
        return timed

    def explain(self, todo: Sequence[Statement]) -> dict[int, ExecutedPlan]:
        """Each query again with profiling on; nothing where the engine cannot or was not asked."""
        engine = self._engine
        if not self._plans or not isinstance(engine, Explains):
            return {}
        plans = {}
        for statement, connection in self._each(todo, "-plan", "explain TPC-H queries"):
            with _explained_failure(statement):
                plans[statement.query] = engine.explain(connection, statement.sql)
        return plans

    def _execute(self, connection: SqlConnection, statement: Statement) -> SqlResult | None:
        try:
            return connection.execute(statement.sql, timeout_s=self._timeout_s)
        except QueryTimeout:
            return None

    def _each(
        self, todo: Sequence[Statement], suffix: str, title: str
    ) -> Iterator[tuple[Statement, SqlConnection]]:
        """The queries in order, each with a connection opened before its turn."""
        connection: SqlConnection | None = None
        try:
            with self._session.progress.task(title, len(todo)) as task:
                for number, statement in enumerate(todo):
                    label = self._cold_label(number, statement, suffix)
                    if label is not None:
                        if connection is not None:
                            connection.close()
                            connection = None
                        self._session.cold_start(label)
                    if connection is None:
                        connection = self._engine.connect()
                    yield statement, connection
                    task.advance(note=f"Q{statement.query} done")
        finally:
            if connection is not None:
                connection.close()

    def _cold_label(self, number: int, statement: Statement, suffix: str) -> str | None:
        if self._cache == "cold-per-query":
            return f"q{statement.query}{suffix}"
        if self._cache == "cold-per-run" and number == 0:
            return f"run{suffix}"
        return None


@contextmanager
def _explained_failure(statement: Statement) -> Iterator[None]:
    """Name the query in what goes wrong with it."""
    try:
        yield
    except RunFailed as error:
        raise RunFailed(
            f"TPC-H query {statement.query}",
            ": ".join(part for part in (error.asked, error.found) if part),
            error.do,
        ) from error


def _query_metrics(
    todo: Sequence[Statement], timed: _Timed, timeout_s: float | None
) -> list[Metric]:
    metrics = []
    for statement in todo:
        result = timed.results.get(statement.query)
        if result is None:
            limit_ns = int((timeout_s or 0) * 1e9)
            metrics.append(
                Metric("query_timeout_ns", "ns", "none", statement.labels, value=limit_ns)
            )
            continue
        metrics.append(
            Metric("query_duration_ns", "ns", "lower", statement.labels, value=result.duration_ns)
        )
        counted = timed.counters[statement.query]
        metrics += counter_metrics("query_", statement.labels, counted)
    if len(timed.results) == len(todo):  # a total without some of its queries is no total
        metrics += _totals([result.duration_ns for result in timed.results.values()])
    return metrics


def _totals(durations_ns: Sequence[int]) -> list[Metric]:
    logs = [math.log(max(1, duration)) for duration in durations_ns]
    geomean = math.exp(math.fsum(logs) / len(logs))
    return [
        Metric("queries_duration_ns", "ns", "lower", value=sum(durations_ns)),
        Metric("queries_geomean_ns", "ns", "lower", value=geomean),
    ]


def _plan_metrics(plans: Mapping[int, ExecutedPlan]) -> list[Metric]:
    metrics = []
    for query, plan in plans.items():
        labels = {"query": str(query)}
        metrics.append(Metric("plan_run_duration_ns", "ns", "none", labels, value=plan.duration_ns))
        metrics += [
            Metric("plan_operator_ns", "ns", "none", labels | {"operator": kind}, value=time_ns)
            for kind, time_ns in plan.time_by_kind_ns().items()
        ]
    return metrics


def _finished(todo: Sequence[Statement], timed: _Timed, timeout_s: float | None) -> Iterator[Check]:
    for statement in todo:
        if statement.query not in timed.results:
            yield Check(
                "query-finished",
                "unknown",
                f"reached its limit of {timeout_s:g} s and was stopped: it has no time and no "
                "answer, and the totals are left out",
                statement.labels,
            )


def _artifacts(
    todo: Sequence[Statement], timed: _Timed, plans: Mapping[int, ExecutedPlan]
) -> dict[str, Any]:
    artifacts: dict[str, Any] = {
        "queries": {str(s.query): {"parameters": s.values, "sql": s.sql} for s in todo},
        "answers": {str(q): _answer(q, result) for q, result in timed.results.items()},
    }
    if plans:
        artifacts["plans"] = {str(query): _plan(plan) for query, plan in plans.items()}
    return artifacts


def _answer(query: int, result: SqlResult) -> dict[str, Any]:
    try:
        return Answer.of(SHAPES[query], result.rows).to_json(SHAPES[query])
    except MalformedAnswer as error:  # the check says so; the run is kept
        return {"rows": len(result.rows), "malformed": str(error)}


def _plan(plan: ExecutedPlan) -> dict[str, Any]:
    return {
        "duration_ns": plan.duration_ns,
        "clock": plan.clock,
        "note": plan.note,
        "operators": plan.root.to_json(),
        "raw_format": plan.raw_format,
        "raw": plan.raw,
        "extra": plan.extra,
    }
