"""The measured phase: the requested test, its checks, and its artifacts.

========== ==========================================================================
queries    the queries named, one after the other (see query_runs.py)
power      RF1, the 22 queries in stream 0's order, RF2 (clause 5.3.3)
throughput S query streams and a refresh stream at the same time (clause 5.3.4)
both       power, then at once throughput on the same data (clause 5.1.1.4)
========== ==========================================================================

Then the requested plans, the check of the data that refresh functions changed,
and the check of the answers.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.engine import Engine
from harness.errors import RunFailed
from harness.store.documents import as_json
from harness.store.result import Check, Metric
from harness.workload import Outcome, Session
from harness.workloads.query_runs import (
    Execution,
    ExplainedQuery,
    QueryRuns,
    finished_checks,
    plan_artifacts,
    query_metrics,
    query_warnings,
    timeline,
    total_metrics,
    warm_up_warnings,
)
from harness.workloads.resume import ResumeCursor
from harness.workloads.tpch.answer_checks import Answered, check_answers
from harness.workloads.tpch.answers import SHAPES, CanonicalAnswer, MalformedAnswer
from harness.workloads.tpch.params import VARIANT_QUERY, TpchParams
from harness.workloads.tpch.refresh import Applied, RefreshFunctions, seen
from harness.workloads.tpch.refresh_data import RefreshData
from harness.workloads.tpch.refresh_sets import prepare
from harness.workloads.tpch.run_metrics import (
    composite_metrics,
    power,
    power_metrics,
    refresh_metrics,
    throughput,
    throughput_metrics,
)
from harness.workloads.tpch.source_database import LOADED
from harness.workloads.tpch.statements import (
    TpchStatement,
    chosen_statements,
    other_sql,
    power_statements,
    variant_values,
)
from harness.workloads.tpch.throughput import ThroughputTest, run_throughput

_DATA_CHECK = "data-check"


@dataclass
class _TpchTest:
    """The requested test, and what it has given; parts that it does not have are empty."""

    params: TpchParams
    session: Session
    engine: Engine
    cursor: ResumeCursor
    data: RefreshData | None
    executions: list[Execution[TpchStatement]] = field(default_factory=list)
    refresh: list[Applied] = field(default_factory=list)
    throughput: ThroughputTest | None = None
    plans: list[ExplainedQuery] = field(default_factory=list)
    unexplained: str = ""
    selected: list[Metric] = field(default_factory=list)
    data_checks: list[Check] = field(default_factory=list)

    @property
    def all_executions(self) -> list[Execution[TpchStatement]]:
        """The executions of the one stream, then of those that ran at the same time."""
        return [*self.executions, *(self.throughput.executions if self.throughput else [])]

    @property
    def all_refresh(self) -> list[Applied]:
        """The refresh functions in the order of their execution."""
        return [*self.refresh, *(self.throughput.refresh if self.throughput else [])]

    def run(self) -> None:
        """Execute its parts in their order; those of an earlier attempt are recalled."""
        params, cursor, functions = self.params, self.cursor, None
        if self.data is not None:
            functions = RefreshFunctions(
                self.session, self.engine, self.data, params.refresh_batch_orders
            )
        query_runs: QueryRuns[TpchStatement] = QueryRuns(
            self.session,
            cursor,
            "TPC-H queries",
            cache=params.cache,
            timeout_s=params.query_timeout_s,
            warmups=params.warmups,
        )
        cursor.cold_point("run")
        if params.test == "queries":
            self.executions = query_runs.time(chosen_statements(params, self._sql))
        if params.test in ("power", "both"):
            self._power(functions, query_runs)
        if params.test in ("throughput", "both"):
            first = 2 if params.test == "both" else 1
            self.throughput = run_throughput(
                params, self.session, self.engine, functions, first, cursor
            )
        cursor.close()
        cursor.cold_point("run-plan")
        self.plans = query_runs.explain(self.executions) if params.plans else []
        self.unexplained = query_runs.unexplained
        cursor.close()
        self.selected = self._select()
        if functions is not None:
            self.data_checks = self._check_data(functions)

    @property
    def _sql(self) -> Path:
        return self.engine.sql("tpch")

    def _power(
        self, functions: RefreshFunctions | None, query_runs: QueryRuns[TpchStatement]
    ) -> None:
        """Clause 5.3.3.2: RF1, the query stream, RF2."""
        if functions is not None:
            self.refresh.append(functions.timed("RF1", 1, self.cursor))
        self.executions = query_runs.time(power_statements(self.params, self._sql))
        if functions is not None:
            self.refresh.append(functions.timed("RF2", 1, self.cursor))

    def _select(self) -> list[Metric]:
        """``query_selected_fraction`` of query 6 with dates, counted by the engine in its data."""
        if not self.params.q6_dates:
            return []
        sql = other_sql("q06_selected", variant_values(self.params.q6_dates), self._sql)
        with closing(self.engine.connect()) as connection:
            [[selected, rows]] = connection.execute(sql).rows
        if not isinstance(rows, int) or not rows:
            raise RunFailed("count the rows of lineitem", f"the engine answered {rows!r}")
        labels = {"query": str(VARIANT_QUERY)}
        fraction = float(str(selected)) / rows
        return [Metric("query_selected_fraction", "1", "none", labels, value=fraction)]

    def _check_data(self, functions: RefreshFunctions) -> list[Check]:
        """Check the data that refresh functions changed; a step, as it needs those data."""
        stored = self.session.recalled(_DATA_CHECK)
        if stored is not None:
            return [Check(**check) for check in stored]
        self.cursor.data_ready("the check of the data")
        checks = functions.check(range(1, sets_needed(self.params) + 1))
        self.session.remember(_DATA_CHECK, as_json(checks))
        return checks


def sets_needed(params: TpchParams) -> int:
    """Refresh sets that a run works on: one for power, one for each stream of throughput."""
    if not params.refresh:
        return 0
    of_power = 0 if params.test == "throughput" else 1
    return of_power + (params.streams or 0)


def measure(params: TpchParams, session: Session) -> Outcome:
    """See harness.workload.Workload.measure; the metrics are listed in metrics.py."""
    engine = session.engine
    data = _refresh_data(params, session)
    streams = params.streams or 0
    power = params.test != "throughput"
    total = len(params.queries) * (power + streams)
    with closing(ResumeCursor(session, engine, params.cache, total)) as cursor:
        test = _TpchTest(params, session, engine, cursor, data)
        test.run()
    checks = [*finished_checks(test.all_executions, params.query_timeout_s), *test.data_checks]
    checks += check_answers(
        params.scale, engine.name, session.source, _answered(test), session.progress, data
    )
    warnings = list(query_warnings(engine, test.executions))
    if test.throughput is not None:
        warnings += warm_up_warnings({"the query set": test.throughput.warm_up})
    return Outcome(_metrics(test), checks, _artifacts(test), warnings)


def _refresh_data(params: TpchParams, session: Session) -> RefreshData | None:
    sets = sets_needed(params)
    if not sets:
        return None
    if session.changes is None:
        raise RunFailed("TPC-H refresh functions", "their sets are not there", "run again")
    return prepare(params.scale, range(1, sets + 1), session.changes, session.progress)


def _answered(measured: _TpchTest) -> list[Answered]:
    """Answers with the states of the data that it may be one of."""
    after_rf1 = LOADED + 1 if measured.refresh else LOADED
    answers = [
        Answered(execution.statement, execution.rows, (after_rf1,))
        for execution in measured.executions
        if execution.finished
    ]
    if measured.throughput is None:
        return answers
    before = LOADED + len(measured.refresh)
    for execution in measured.throughput.executions:
        if execution.finished:
            states, between = seen(execution, measured.throughput.refresh, before)
            answers.append(Answered(execution.statement, execution.rows, states, between))
    return answers


def _metrics(measured: _TpchTest) -> list[Metric]:
    scale, timeout_s = measured.params.scale, measured.params.query_timeout_s
    metrics = query_metrics(measured.all_executions, timeout_s)
    if measured.executions:
        metrics += total_metrics(measured.executions)
    metrics += measured.selected
    metrics += refresh_metrics(measured.all_refresh)
    power_figure = power(measured.executions, measured.refresh, scale)
    metrics += power_metrics(power_figure)
    if measured.throughput is not None:
        figure = throughput(measured.throughput, scale)
        metrics += throughput_metrics(measured.throughput, figure)
        with_refresh = figure if measured.throughput.refresh else None
        metrics += composite_metrics(power_figure, with_refresh)
    return metrics + [metric for plan in measured.plans for metric in plan.metrics]


def _artifacts(measured: _TpchTest) -> dict[str, Any]:
    executions = measured.all_executions
    artifacts: dict[str, Any] = {
        "queries": {
            _key(e): {"parameters": e.statement.values, "sql": e.statement.sql} for e in executions
        },
        "answers": {_key(e): _answer(e) for e in executions if e.finished},
        "timeline": _timeline(measured),
    }
    return artifacts | plan_artifacts(measured.plans, measured.unexplained)


def _key(execution: Execution[TpchStatement]) -> str:
    """``6``; ``s2-q6`` where several streams ran."""
    statement = execution.statement
    return str(statement.query) if statement.stream is None else statement.step


def _timeline(measured: _TpchTest) -> list[dict[str, Any]]:
    """Return when everything was submitted and ended, on the monotonic clock of its attempt."""
    queries = timeline(measured.all_executions)
    refresh = [
        {**a.labels, "submitted_ns": a.submitted_ns, "ended_ns": a.ended_ns, "commits": a.commits}
        for a in measured.all_refresh
    ]
    return sorted([*queries, *refresh], key=lambda entry: int(str(entry["submitted_ns"])))


def _answer(execution: Execution[TpchStatement]) -> dict[str, Any]:
    shape = SHAPES[execution.statement.query]
    try:
        return CanonicalAnswer.of(shape, execution.rows).to_json(shape)
    except MalformedAnswer as error:  # the check says so; the run is kept
        return {"rows": len(execution.rows), "malformed": str(error)}
