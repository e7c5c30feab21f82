"""TPC-H as a workload: its parameters, its data, and the measured phase.

Plans add ``plan_run_duration_ns`` and
``plan_operator_ns`` from the profiled second execution.

The measured phase: the requested test, its checks, and its artifacts.

========== ==========================================================================
queries    the queries named, one after the other (see query_runs.py)
power      RF1, the 22 queries in stream 0's order, RF2 (clause 5.3.3)
throughput S query streams and a refresh stream at the same time (clause 5.3.4)
both       power, then at once throughput on the same data (clause 5.1.1.4)
========== ==========================================================================

Then the requested plans, the check of the data that refresh functions changed,
and the check of the answers.

The figures of a run: times, counters and the composites, with what each is defined as.

None of them is a metric of the TPC's: nothing was audited, no load is timed, no price is
known, ACID is not tested, and intervals are neither rounded to 0.1 s nor lengthened by the
client's pause before the next query.

==================================  ====================================================
metric                              what it is
==================================  ====================================================
query_duration_ns                   of one query: statement handed over → last row held.
                                    Label ``stream`` where streams ran at the same time
queries_duration_ns                 sum over the queries of a run's one stream
queries_geomean_ns                  their geometric mean
query_timeout_ns                    the limit that a query reached, instead of a time
query_<counter>                     what the query added to a counter; only where nothing
                                    else ran
query_wait_ns                       of its time, by ``resource`` (docs/waits.md)
query_wait_cpu_ns                   of its time, on processors
query_wait_accounted_share          of its time, what waits and processor time add up to
query_wait_moments_count            how often sessions were observed
query_wait_sessions_count           how many worked on it, on average
refresh_duration_ns                 of one refresh function: first statement → last commit
                                    (clause 5.3.7.3)
refresh_<counter>                   as query_<counter>, of a refresh function run alone
power_geomean_queries_per_hour      3600 · SF / geometric mean in s over the 22 queries and
                                    RF1, RF2 (clause 5.4.1); queries shorter than 1/1000 of
                                    the longest count as that (clause 5.4.1.4)
stream_duration_ns                  of one stream: first query submitted → last ended
refresh_stream_duration_ns          the same of the refresh stream
throughput_interval_ns              first submission of any stream → last end (5.3.6)
throughput_queries_per_hour         S · 22 · 3600 · SF / interval in s (clause 5.4.2)
throughput_<counter>                what the whole test added to a counter
composite_queries_per_hour          geometric mean of power and throughput (clause 5.4.3)
query_streams_interval_ns           as throughput_interval_ns and
query_streams_queries_per_hour      throughput_queries_per_hour, without a refresh stream
==================================  ====================================================

What a composite is made of must all be there: after a query that reached its limit, or
without the refresh functions, it is left out, and what is measured without them has a
name of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.counters import counter_metrics
from harness.engine import Engine, LoadFormat, LoadRequest
from harness.errors import RunFailed, UsageError
from harness.experiment.placement import Part
from harness.progress import Progress
from harness.store.documents import as_json
from harness.store.result import Check, Metric
from harness.workload import Loading, Outcome, Session, Workload
from harness.workloads.query_runs import (
    Execution,
    Explained,
    QueryRuns,
    ResumeCursor,
    finished_checks,
    geomean,
    plan_artifacts,
    query_metrics,
    query_warnings,
    timeline,
    total_metrics,
)
from harness.workloads.tpch import data
from harness.workloads.tpch.answers import SHAPES, CanonicalAnswer, MalformedAnswer
from harness.workloads.tpch.params import VARIANT_QUERY, TpchParams
from harness.workloads.tpch.reference import Answered, check_answers
from harness.workloads.tpch.refresh import Applied, RefreshFunctions, seen
from harness.workloads.tpch.refresh_data import RefreshData, prepare
from harness.workloads.tpch.source_database import LOADED
from harness.workloads.tpch.statements import (
    Statement,
    chosen_statements,
    other_sql,
    power_statements,
    variant_values,
)
from harness.workloads.tpch.throughput import ThroughputTest, run_throughput

_HOUR_S = 3600
_QUERIES = 22
_NS = 1e9
#: Clause 5.4.1.4: no query counts for less than the longest one divided by this.
_LARGEST_RATIO = 1000


def refresh_metrics(refresh: Sequence[Applied]) -> list[Metric]:
    """Time of every refresh function, and counters of those that ran alone."""
    metrics = []
    for applied in refresh:
        labels = applied.labels
        metrics.append(
            Metric("refresh_duration_ns", "ns", "lower", labels, value=applied.duration_ns)
        )
        metrics += counter_metrics("refresh_", labels, applied.counters)
    return metrics


def power(
    executions: Sequence[Execution[Statement]], refresh: Sequence[Applied], scale: float
) -> float | None:
    """Clause 5.4.1 in queries per hour times scale; None where one of its 24 times is missing."""
    queries_ns = [e.duration_ns for e in executions if e.duration_ns is not None]
    if len(queries_ns) < _QUERIES or len(refresh) < 2:
        return None
    least_ns = max(queries_ns) / _LARGEST_RATIO
    intervals_ns = [max(duration, least_ns) for duration in queries_ns]
    intervals_ns += [applied.duration_ns for applied in refresh]
    return _HOUR_S * scale / (geomean(intervals_ns) / _NS)


def power_metrics(value: float | None) -> list[Metric]:
    """The power figure, where there is one."""
    if value is None:
        return []
    return [Metric("power_geomean_queries_per_hour", "1/h", "higher", value=value)]


def throughput(test: ThroughputTest, scale: float) -> float | None:
    """Clause 5.4.2 in queries per hour times scale; None after a query reached its limit."""
    if not test.finished:
        return None
    return len(test.executions) * _HOUR_S * scale / (test.interval_ns / _NS)


def throughput_metrics(test: ThroughputTest, value: float | None) -> list[Metric]:
    """Streams, interval, figure and counters of a throughput test."""
    metrics = [
        Metric(
            "stream_duration_ns",
            "ns",
            "lower",
            {"stream": str(stream[0].statement.stream)},
            value=_span_ns(stream),
        )
        for stream in test.streams
        if all(execution.finished for execution in stream)
    ]
    if test.refresh:
        metrics.append(
            Metric("refresh_stream_duration_ns", "ns", "lower", value=_span_ns(test.refresh))
        )
    if value is not None:
        name = "throughput" if test.refresh else "query_streams"
        interval = Metric(f"{name}_interval_ns", "ns", "lower", value=test.interval_ns)
        metrics += [interval, Metric(f"{name}_queries_per_hour", "1/h", "higher", value=value)]
    return metrics + counter_metrics("throughput_", {}, test.counters)


def composite_metrics(power_figure: float | None, throughput_figure: float | None) -> list[Metric]:
    """Clause 5.4.3's combination, where there are both."""
    if power_figure is None or throughput_figure is None:
        return []
    value = math.sqrt(power_figure * throughput_figure)
    return [Metric("composite_queries_per_hour", "1/h", "higher", value=value)]


def _span_ns(spans: Sequence[Execution[Statement]] | Sequence[Applied]) -> int:
    return max(s.ended_ns for s in spans) - min(s.submitted_ns for s in spans)


_DATA_CHECK = "data-check"


@dataclass
class _Test:
    """The requested test, and what it has given; parts that it does not have are empty."""

    params: TpchParams
    session: Session
    engine: Engine
    cursor: ResumeCursor
    data: RefreshData | None
    executions: list[Execution[Statement]] = field(default_factory=list)
    refresh: list[Applied] = field(default_factory=list)
    throughput: ThroughputTest | None = None
    plans: list[Explained] = field(default_factory=list)
    unexplained: str = ""
    selected: list[Metric] = field(default_factory=list)
    data_checks: list[Check] = field(default_factory=list)

    @property
    def all_executions(self) -> list[Execution[Statement]]:
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
        query_runs: QueryRuns[Statement] = QueryRuns(
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

    def _power(self, functions: RefreshFunctions | None, query_runs: QueryRuns[Statement]) -> None:
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
        kept = self.session.recalled(_DATA_CHECK)
        if kept is not None:
            return [Check(**check) for check in kept]
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
        test = _Test(params, session, engine, cursor, data)
        test.run()
    checks = [*finished_checks(test.all_executions, params.query_timeout_s), *test.data_checks]
    checks += check_answers(
        params.scale, engine.name, session.source, _answered(test), session.progress, data
    )
    warnings = list(query_warnings(engine, test.executions))
    return Outcome(_metrics(test), checks, _artifacts(test), warnings)


def _refresh_data(params: TpchParams, session: Session) -> RefreshData | None:
    sets = sets_needed(params)
    if not sets:
        return None
    if session.changes is None:
        raise RunFailed("TPC-H refresh functions", "their sets are not there", "run again")
    return prepare(params.scale, range(1, sets + 1), session.changes, session.progress)


def _answered(measured: _Test) -> list[Answered]:
    """Every answer with the states of the data that it may be one of."""
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


def _metrics(measured: _Test) -> list[Metric]:
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


def _artifacts(measured: _Test) -> dict[str, Any]:
    executions = measured.all_executions
    artifacts: dict[str, Any] = {
        "queries": {
            _key(e): {"parameters": e.statement.values, "sql": e.statement.sql} for e in executions
        },
        "answers": {_key(e): _answer(e) for e in executions if e.finished},
        "timeline": _timeline(measured),
    }
    return artifacts | plan_artifacts(measured.plans, measured.unexplained)


def _key(execution: Execution[Statement]) -> str:
    """``6``; ``s2-q6`` where several streams ran."""
    statement = execution.statement
    return str(statement.query) if statement.stream is None else statement.step


def _timeline(measured: _Test) -> list[dict[str, Any]]:
    """Return when everything was submitted and ended, on the monotonic clock of its attempt."""
    queries = timeline(measured.all_executions)
    refresh = [
        {**a.labels, "submitted_ns": a.submitted_ns, "ended_ns": a.ended_ns, "commits": a.commits}
        for a in measured.all_refresh
    ]
    return sorted([*queries, *refresh], key=lambda entry: int(str(entry["submitted_ns"])))


def _answer(execution: Execution[Statement]) -> dict[str, Any]:
    shape = SHAPES[execution.statement.query]
    try:
        return CanonicalAnswer.of(shape, execution.rows).to_json(shape)
    except MalformedAnswer as error:  # the check says so; the run is kept
        return {"rows": len(execution.rows), "malformed": str(error)}


class Tpch(Workload[TpchParams]):
    """The 22 queries over freshly loaded data: one stream, or power and throughput tests."""

    name = "tpch"

    def check_engine(
        self, params: TpchParams, driver: str, engine: Engine, settings: Mapping[str, str]
    ) -> None:
        """Refuse refresh functions on tables that cannot be changed."""
        if engine.unchangeable and sets_needed(params):
            raise UsageError(
                f"refresh functions on {engine.name}", engine.unchangeable, "add --no-refresh"
            )

    def data_key(self, params: TpchParams, driver: str = "native") -> dict[str, Any]:
        """Scale and generator: the parameters of the queries change no data."""
        return {"scale": params.scale, "generator": data.generator()}

    def estimate_bytes(self, params: TpchParams, engine_format: str) -> dict[Part, int]:
        """Upper estimate of the bytes in each part; see harness.workloads.tpch.data."""
        return data.estimate_bytes(params.scale, engine_format)

    def source_bytes(self, params: TpchParams, engine_format: str) -> int:
        """Return the size of the generator's files."""
        return data.source_bytes(params.scale, engine_format)

    def generate(
        self, params: TpchParams, engine: Engine, folder: Path, progress: Progress
    ) -> None:
        """Make the eight tables in chunks; nothing is done where they are whole already."""
        data.generate(params.scale, _load_format(engine), folder, progress)

    def source_key(self, params: TpchParams, engine: Engine) -> str:
        return data.source_name(params.scale, _load_format(engine))

    def changes_key(self, params: TpchParams) -> str:
        """``tpch-sf1-refresh3-tpchgen-4.0.0``: three refresh sets; empty without functions."""
        sets = sets_needed(params)
        return data.refresh_name(params.scale, sets) if sets else ""

    def changes_bytes(self, params: TpchParams) -> int:
        """Return the size of the refresh sets."""
        return data.refresh_bytes(params.scale, sets_needed(params))

    def generate_changes(self, params: TpchParams, folder: Path, progress: Progress) -> None:
        """Make the refresh sets of the run's refresh functions."""
        prepare(params.scale, range(1, sets_needed(params) + 1), folder, progress)

    def load(self, params: TpchParams, loading: Loading) -> dict[str, Any]:
        """Bulk load; the facts are scale, generator and rows of every table."""
        if loading.source is None:
            raise RunFailed("load TPC-H", "its source data are not there", "run again")
        made = data.read_source(loading.source)
        schema = loading.engine.sql(self.name)
        loading.engine.bulk_load(LoadRequest(schema, made.files, made.row_counts, loading.progress))
        return self.data_key(params) | {"row_counts": dict(made.row_counts)}

    def measure(self, params: TpchParams, session: Session) -> Outcome:
        """Run the requested test, check its answers."""
        return measure(params, session)


def _load_format(engine: Engine) -> LoadFormat:
    if engine.load_format is None:
        raise UsageError(
            f"tpch on {engine.name}", "the engine has no bulk load", "choose another engine"
        )
    return engine.load_format


WORKLOAD = Tpch()
