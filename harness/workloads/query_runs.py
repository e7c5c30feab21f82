"""The query runs of one session: timed, then explained; their metrics and checks.

Times are the connection's own. Between two timed executions only counters are read and
what was measured is written down; answers are compared after the last one, and plans come
from a second pass from the same cache state, because profiling distorts (see harness.query_plan).
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from harness.counters import bandwidths, counter_metrics, difference
from harness.drivers.validity import STEADY
from harness.engine import CannotExplain, Engine, QueryTimeout, Scalar, SqlConnection, SqlResult
from harness.errors import RunFailed
from harness.query_plan import ExecutedPlan, account
from harness.sql_values import decode, encode
from harness.store.documents import attributes, members
from harness.store.result import Check, Metric
from harness.structs import convert
from harness.units import NS_PER_S
from harness.waits import Breakdown, explain_alone, take, unaccounted
from harness.warnings import RunWarning
from harness.workload import Session
from harness.workloads.parameters import MOST_WARMUPS, CacheMode
from harness.workloads.resume import ResumeCursor


class Statement(ABC):
    """One query of a run; each workload has a class of its own.

    ``sql``: one statement without a semicolon. ``keep``: rows of its answer that are kept; None:
    all. ``labels``: of its metrics and checks, ``query``
    among them. ``name`` and ``title``: for a person (``Q6``, ``TPC-H query 6``). ``step``: its name
    among the steps of a run.
    """

    sql: str
    keep: int | None = None

    @property
    @abstractmethod
    def labels(self) -> dict[str, str]: ...

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def title(self) -> str: ...

    @property
    @abstractmethod
    def step(self) -> str: ...


S = TypeVar("S", bound=Statement)


@dataclass(frozen=True)
class Execution(Generic[S]):
    """One timed execution.

    ``duration_ns`` None: it reached its time limit, or failed with ``error``, and has neither time
    nor answer.
    ``counters``: what it added to the session's counters; empty if others ran concurrently.
    ``submitted_ns`` and ``ended_ns``: the client's stamps around it, monotonic.
    ``columns``, ``left_out``, ``checksum``: of the answer, see SqlResult. ``warmups``: untimed
    executions before it; ``warmups_differ``: see WarmUp.
    """

    statement: S
    duration_ns: int | None
    rows: Sequence[tuple[Scalar, ...]] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
    submitted_ns: int = 0
    ended_ns: int = 0
    error: str = ""
    columns: tuple[str, ...] = ()
    left_out: int = 0
    checksum: int = 0
    warmups: int = 0
    warmups_differ: float = 0.0

    @property
    def row_count(self) -> int:
        """Rows of the answer, also those that are not kept."""
        return len(self.rows) + self.left_out

    @property
    def finished(self) -> bool:
        """Return whether it ended before its limit, without an error."""
        return self.duration_ns is not None

    def waits(self) -> tuple[Breakdown | None, dict[str, float]]:
        """The parts of its time, and the counters without those of waits."""
        totals, rest = take(self.counters)
        if totals is None or self.duration_ns is None:
            return None, rest
        return explain_alone(totals, self.duration_ns, self.counters.get("cpu_ns")), rest

    def to_json(self) -> dict[str, Any]:
        """Return the document of a run's step: everything but the statement."""
        rows = [[encode(value) for value in row] for row in self.rows]
        others = ("duration_ns", "counters", "submitted_ns", "ended_ns", "error")
        answer = ("columns", "left_out", "checksum")
        warm = ("warmups", "warmups_differ")
        return {"rows": rows, **attributes(self, *others, *answer, *warm)}

    @classmethod
    def from_json(cls, statement: S, document: Mapping[str, Any]) -> Execution[S]:
        """The inverse of :meth:`to_json` for the execution of ``statement``."""
        rows = [tuple(decode(value) for value in row) for row in document["rows"]]
        columns = tuple(document["columns"])
        return cls(statement, **{**document, "rows": rows, "columns": columns})


@dataclass(frozen=True)
class ExplainedQuery:
    """A query's plan: its metrics, and the document that is stored with the run."""

    query: str
    metrics: tuple[Metric, ...]
    document: Mapping[str, Any]


def execute(
    connection: SqlConnection, statement: Statement, timeout_s: float | None
) -> SqlResult | None:
    """Run it; None where it reached its limit. RunFailed names the query."""
    with explained_failure(statement):
        try:
            return connection.execute(statement.sql, timeout_s=timeout_s, keep=statement.keep)
        except QueryTimeout:
            return None


#: Consecutive executions that agree when caches are warm.
_AGREEING = 3


@dataclass(frozen=True)
class WarmUp:
    """Untimed executions. ``differ``: the largest difference among the last, as a share.

    0 where their number was set, and where one of them reached its limit.
    """

    count: int = 0
    differ: float = 0.0

    @property
    def steady(self) -> bool:
        """Return whether the last ones agree as first and last third of a steady window do."""
        return self.differ <= STEADY


def warm_up(execute_once: Callable[[], int | None], count: int | None) -> WarmUp:
    """Execute ``count`` times; None: until the last three agree, at most MOST_WARMUPS times.

    ``execute_once`` returns a duration in ns; None where the time limit was reached.
    """
    if count is not None:
        for _ in range(count):
            execute_once()
        return WarmUp(count)
    durations_ns: list[int] = []
    differ = math.inf
    while differ > STEADY and len(durations_ns) < MOST_WARMUPS:
        duration_ns = execute_once()
        if duration_ns is None:
            return WarmUp(len(durations_ns) + 1)
        durations_ns.append(max(1, duration_ns))
        if len(last := durations_ns[-_AGREEING:]) == _AGREEING:
            differ = max(last) / min(last) - 1
    return WarmUp(len(durations_ns), differ)


def warm_up_warnings(warm_ups: Mapping[str, WarmUp]) -> Iterator[RunWarning]:
    """Warn about what was not steady after all untimed executions; by name, for a person."""
    named = [f"{name} {warm.differ:.0%}" for name, warm in warm_ups.items() if not warm.steady]
    if named:
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        yield RunWarning(
            code="warm-up-not-steady",
            problem=f"not steady after {MOST_WARMUPS} untimed executions",
            context=f"the last {_AGREEING} differ by more than {STEADY:.0%}: "
            f"{', '.join(named[:_MOST_NAMED])}{more}",
            hint="measure on an otherwise idle machine; if times still fall, set more of them with "
            "-p warmups=",
        )


#: Most queries that a warning names.
_MOST_NAMED = 5


class QueryRuns(Generic[S]):
    """The query runs of one session, each from the requested cache state.

    ``what``: whose queries they are, for a person.
    """

    def __init__(
        self,
        session: Session,
        cursor: ResumeCursor,
        what: str,
        *,
        cache: CacheMode,
        timeout_s: float | None,
        warmups: int | None,
    ) -> None:
        self._session = session
        self._engine = session.engine
        self._cursor = cursor
        self._what = what
        self._timeout_s = timeout_s
        self._warmups = warmups
        #: What a query touches shows only from a cold start of its own.
        self._footprints = cache == "cold-per-query" and warmups == 0
        #: Why requested plans are missing.
        self.unexplained = ""

    def time(self, todo: Sequence[S]) -> list[Execution[S]]:
        """Time each query once; those of an earlier attempt are read from their steps."""
        executions = []
        with self._session.progress.task(f"run {self._what}", len(todo)) as task:
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
                task.advance(note=f"{statement.name} done")
        return executions

    def _time(self, statement: S) -> Execution[S]:
        submitted_ns = time.monotonic_ns()
        try:
            connection = self._cursor.connection()
            warm = warm_up(partial(self._untimed, connection, statement), self._warmups)
            with explained_failure(statement):
                footprint = self._session.footprint() if self._footprints else None
                before = dict(self._session.counters("before"))
            submitted_ns = time.monotonic_ns()
            result = execute(connection, statement, self._timeout_s)
        except RunFailed as error:
            ended_ns, text = time.monotonic_ns(), f"{error.problem}: {error.context}"
            self._survive(error)
            self._session.counters("after")  # what follows the session must not take it as open
            return Execution(statement, None, (), {}, submitted_ns, ended_ns, text)
        with explained_failure(statement):
            counters = difference(before, self._session.counters("after"))
            counters |= footprint.taken() if footprint else {}
        if result is None:
            return Execution(
                statement, None, (), {}, submitted_ns, time.monotonic_ns(), warmups=warm.count
            )
        ended_ns = result.started_ns + result.duration_ns
        return Execution(
            statement,
            result.duration_ns,
            result.rows,
            counters,
            result.started_ns,
            ended_ns,
            columns=result.columns,
            left_out=result.left_out,
            checksum=result.checksum % 2**64,
            warmups=warm.count,
            warmups_differ=warm.differ,
        )

    def _untimed(self, connection: SqlConnection, statement: S) -> int | None:
        result = execute(connection, statement, self._timeout_s)
        return None if result is None else result.duration_ns

    def _survive(self, error: RunFailed) -> None:
        """Raise the error of a query unless the engine still answers: the others can go on."""
        try:
            self._cursor.close()
            self._cursor.connection().execute("SELECT 1")
        except RunFailed:
            raise error from None

    def _again(self, statement: S) -> None:
        """Execute it for what it leaves in the caches; its failure is known from before."""
        try:
            execute(self._cursor.connection(), statement, self._timeout_s)
        except RunFailed as error:
            self._survive(error)

    def explain(self, executions: Sequence[Execution[S]]) -> list[ExplainedQuery]:
        """Execute each finished query again, with profiling on; nothing if the engine cannot."""
        todo = [execution for execution in executions if execution.finished]
        explained = []
        with self._session.progress.task(f"explain {self._what}", len(todo)) as task:
            for execution in todo:
                statement = execution.statement
                try:
                    plan = self._cursor.step(
                        f"{statement.step}-plan",
                        f"{statement.name}'s plan",
                        partial(self._explain, self._engine, execution),
                        partial(self._again, statement),
                        partial(convert, kind=ExplainedQuery, source=f"step {statement.step}-plan"),
                    )
                except CannotExplain as error:
                    self.unexplained = str(error)
                    return []
                except RunFailed as error:
                    self._survive(error)
                    self.unexplained = f"{error.problem}: {error.context}"
                    continue
                explained.append(plan)
                task.advance(note=f"{statement.name} done")
        return explained

    def _explain(self, engine: Engine, execution: Execution[S]) -> ExplainedQuery:
        """The plan as executed now, held against the timed execution."""
        statement = execution.statement
        assert execution.duration_ns is not None
        with explained_failure(statement):
            connection = self._cursor.connection()
            before = self._session.counters("before untimed")
            plan = engine.explain(connection, statement.sql)
            spent = difference(before, self._session.counters("after untimed"))
            cpu_ns = execution.counters.get("cpu_ns")
            accounting = account(plan, execution.duration_ns, spent.get("cpu_ns"), cpu_ns)
        document = members(plan) | {"accounting": members(accounting)}
        return ExplainedQuery(
            statement.labels["query"], tuple(_plan_metrics(statement, plan)), document
        )


@contextmanager
def explained_failure(statement: Statement) -> Iterator[None]:
    """Name the query in what goes wrong with it."""
    with named_failure(statement.title):
        yield


@contextmanager
def named_failure(what: str) -> Iterator[None]:
    """Begin what goes wrong in here with ``what``."""
    try:
        yield
    except RunFailed as error:
        if error.problem.startswith(what):
            raise
        context = ": ".join(part for part in (error.problem, error.context) if part)
        raise RunFailed(what, context, error.hint) from error


def _plan_metrics(statement: Statement, plan: ExecutedPlan) -> list[Metric]:
    labels = statement.labels
    return [
        Metric("plan_run_duration_ns", "ns", "none", labels, value=plan.duration_ns),
        *(
            Metric("plan_operator_ns", "ns", "none", labels | {"operator": kind}, value=time_ns)
            for kind, time_ns in plan.time_by_kind_ns().items()
        ),
    ]


def query_metrics(executions: Sequence[Execution[S]], timeout_s: float | None) -> list[Metric]:
    """Time and counters of every query; one that reached its limit has the limit alone."""
    metrics = []
    for execution in executions:
        labels = execution.statement.labels
        if execution.error:
            continue
        if execution.warmups:
            metrics.append(
                Metric("query_warmup_count", "1", "none", labels, value=execution.warmups)
            )
        if execution.duration_ns is None:
            limit_ns = int((timeout_s or 0) * NS_PER_S)
            metrics.append(Metric("query_timeout_ns", "ns", "none", labels, value=limit_ns))
            continue
        metrics.append(
            Metric("query_duration_ns", "ns", "lower", labels, value=execution.duration_ns)
        )
        waits, counters = execution.waits()
        metrics += waits.metrics("query_", labels) if waits else []
        moved = bandwidths(counters, execution.duration_ns)
        metrics += counter_metrics("query_", labels, {**counters, **moved})
    return metrics


def total_metrics(executions: Sequence[Execution[S]]) -> list[Metric]:
    """Sum and geometric mean; none where a query has no time: that is no total."""
    durations_ns = [e.duration_ns for e in executions if e.duration_ns is not None]
    if len(durations_ns) < len(executions):
        return []
    return [
        Metric("queries_duration_ns", "ns", "lower", value=sum(durations_ns)),
        Metric("queries_geomean_ns", "ns", "lower", value=geomean(durations_ns)),
    ]


def geomean(durations: Sequence[float]) -> float:
    """Return the geometric mean of durations, in their unit."""
    logs = [math.log(max(1, duration)) for duration in durations]
    return math.exp(math.fsum(logs) / len(logs))


def finished_checks(executions: Sequence[Execution[S]], timeout_s: float | None) -> Iterator[Check]:
    """Yield an unknown check of each query without a time: what it would answer is not known."""
    for execution in executions:
        if not execution.finished:
            reason = execution.error or f"reached its limit of {timeout_s:g} s and was stopped"
            detail = f"{reason}: it has no time and no answer, and the totals are left out"
            yield Check("query-finished", "unknown", detail, execution.statement.labels)


def query_warnings(engine: Engine, executions: Sequence[Execution[S]]) -> Iterator[RunWarning]:
    """Warn about queries that ran alone: waits that do not add up, and what the engine knows."""
    waits = {execution.statement.name: execution.waits()[0] for execution in executions}
    yield from unaccounted({name: parts for name, parts in waits.items() if parts is not None})
    yield from warm_up_warnings(
        {e.statement.name: WarmUp(e.warmups, e.warmups_differ) for e in executions}
    )
    counters: dict[str, float] = {}
    duration_ns = 0
    for execution in executions:
        if execution.duration_ns is not None and execution.counters:
            for name, value in execution.counters.items():
                counters[name] = counters.get(name, 0.0) + value
            duration_ns += execution.duration_ns
    yield from engine.query_warnings(counters, duration_ns)


def timeline(executions: Sequence[Execution[S]]) -> list[dict[str, Any]]:
    """Return when each was submitted and ended, on the monotonic clock of its attempt."""
    return [
        {**e.statement.labels, "submitted_ns": e.submitted_ns, "ended_ns": e.ended_ns}
        for e in executions
    ]


def plan_artifacts(plans: Sequence[ExplainedQuery], unexplained: str) -> dict[str, Any]:
    """Return the artifacts of plans, or of why there are none."""
    document: dict[str, Any] = {}
    if plans:
        document["plans"] = {plan.query: plan.document for plan in plans}
        document["accounting"] = {plan.query: plan.document["accounting"] for plan in plans}
    return document | ({"unexplained": {"why": unexplained}} if unexplained else {})
