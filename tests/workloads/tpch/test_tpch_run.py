"""The measured phase: order of cold starts and executions, and what is reported of them.

The engine is a real DuckDB over the generated files, wrapped so that its calls are seen.
"""

import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from idle_engine import IdleEngine
from toy_session import ToySession

from harness.engine import QueryTimeout, SqlResult
from harness.errors import RunFailed
from harness.query_plan import ExecutedPlan, Operator
from harness.store.result import run_status
from harness.workloads.tpch.params import TpchParams
from harness.workloads.tpch.qgen import parameters
from harness.workloads.tpch.source_database import open_views
from harness.workloads.tpch.statements import query_sql
from harness.workloads.tpch.workload import WORKLOAD

SCALE = 0.01


@dataclass
class Toy(IdleEngine):
    """An engine that notes what is done with it."""

    views: Any
    name: str = "toy"
    sql_folder: Path = Path("/nonexistent")
    calls: list = field(default_factory=list)
    dies_in: int = 0
    unexplainable: int = 0
    too_slow: set = field(default_factory=set)
    spoil: dict = field(default_factory=dict)

    def connect(self):
        self.calls.append("connect")
        return self

    def execute(self, sql, *, timeout_s=None):
        if sql == "SELECT 1" and not self.dies_in:
            return SqlResult((), [(1,)], 0, 0)
        query = self._query(sql) if sql != "SELECT 1" else self.dies_in
        if query == self.dies_in:
            raise RunFailed("execute SQL", "the server is gone")
        self.calls.append(f"run {query}")
        if query in self.too_slow:
            raise QueryTimeout
        started = time.monotonic_ns()
        try:
            rows = self.views.execute(sql).fetchall()
        except Exception as error:
            raise RunFailed("execute SQL", str(error)) from error
        rows = self.spoil.get(query, lambda same: same)(rows)
        return SqlResult((), rows, started, time.monotonic_ns() - started)

    def explain(self, connection, sql):
        if self._query(sql) == self.unexplainable:
            raise RunFailed("explain SQL", "out of memory")
        self.calls.append(f"explain {self._query(sql)}")
        scan = Operator("scan", "Seq Scan", 10, 400, "lineitem")
        return ExecutedPlan(Operator("aggregate", "Agg", 1, 100, None, (scan,)), 600, "{}")

    def close(self):
        self.calls.append("close")

    def _query(self, sql):
        return next(
            query
            for query in range(1, 23)
            for seed in (None, 5)
            if sql == query_sql(query, parameters(query, seed, SCALE))
        )


@pytest.fixture
def toy(sources, tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    return Toy(open_views(sources["parquet"], tmp_path))


@pytest.fixture
def measure(toy, sources, quiet):
    def run(**params):
        source = sources["parquet"].files["region"][0].parents[1]
        requested = TpchParams.from_mapping({"scale": SCALE} | params)
        return WORKLOAD.measure(requested, ToySession(toy, quiet, source))

    return run


def metric(outcome, name, **labels):
    return [m for m in outcome.metrics if m.name == name and labels.items() <= m.labels.items()]


def test_cold_per_query_starts_cold_before_each_execution_and_each_plan(measure, toy):
    measure(queries="6,1")
    assert toy.calls == [
        *("cold q6", "connect", "run 6", "close", "cold q1", "connect", "run 1", "close"),
        *("cold q6-plan", "connect", "explain 6", "close"),
        *("cold q1-plan", "connect", "explain 1", "close"),
    ]


def test_cold_per_run_starts_cold_once_and_once_more_for_the_plans(measure, toy):
    measure(queries="6,1", cache="cold-per-run")
    assert toy.calls == [
        *("cold run", "connect", "run 6", "run 1", "close"),
        *("cold run-plan", "connect", "explain 6", "explain 1", "close"),
    ]


def test_warm_runs_each_query_untimed_before_it_is_timed(measure, toy):
    outcome = measure(queries="6,1", cache="warm", warmups=2, plans=False)
    assert toy.calls == ["connect", *["run 6"] * 3, *["run 1"] * 3, "close"]
    assert len(metric(outcome, "query_duration_ns")) == 2


def test_every_query_has_a_time_a_check_its_counters_and_its_plan(measure):
    outcome = measure()
    times = [m.value for m in metric(outcome, "query_duration_ns")]
    assert [m.labels["query"] for m in metric(outcome, "query_duration_ns")] == [
        str(query) for query in range(1, 23)
    ]
    (total,) = metric(outcome, "queries_duration_ns")
    assert total.value == sum(times)
    (geomean,) = metric(outcome, "queries_geomean_ns")
    assert math.isclose(geomean.value, math.prod(t ** (1 / 22) for t in times))
    (read,) = metric(outcome, "query_read_bytes", query="6")
    assert (read.value, read.unit, read.better) == (4096, "B", "none")
    (scan,) = metric(outcome, "plan_operator_ns", query="6", operator="scan")
    assert scan.value == 400
    (planned,) = metric(outcome, "plan_run_duration_ns", query="6")
    assert planned.value == 600
    assert {check.status for check in outcome.checks} == {"passed"}
    assert [check.labels["query"] for check in outcome.checks] == [str(q) for q in range(1, 23)]


def test_a_query_at_its_limit_has_no_time_and_makes_the_run_unknown(measure, toy):
    toy.too_slow = {1}
    outcome = measure(queries="1,6", query_timeout=2)
    assert not metric(outcome, "query_duration_ns", query="1")
    assert not metric(outcome, "queries_duration_ns")
    (limit,) = metric(outcome, "query_timeout_ns", query="1")
    assert (limit.value, limit.better) == (2_000_000_000, "none")
    (check,) = [check for check in outcome.checks if check.name == "query-finished"]
    assert (check.status, check.labels) == ("unknown", {"query": "1"})
    assert run_status(outcome.checks) == "unknown"
    assert "explain 1" not in toy.calls


def test_a_wrong_answer_fails_the_run_however_fast(measure, toy):
    toy.spoil = {4: lambda rows: rows[:-1]}
    outcome = measure(queries="4,6")
    (check,) = [check for check in outcome.checks if check.status == "failed"]
    assert check.labels == {"query": "4"}
    assert "row count: expected 5, found 4" in check.detail
    assert run_status(outcome.checks) == "failed"


def test_rows_of_the_wrong_shape_fail_the_check_and_keep_the_run(measure, toy):
    toy.spoil = {6: lambda rows: [("much",)]}
    outcome = measure(queries="6")
    assert outcome.checks[0].status == "failed"
    assert "revenue" in outcome.checks[0].detail
    assert "malformed" in outcome.artifacts["answers"]["6"]


def test_a_query_that_fails_leaves_the_times_of_the_others(measure, toy):
    toy.views.execute("drop view region")
    outcome = measure(queries="6,5,1")
    assert [m.labels["query"] for m in metric(outcome, "query_duration_ns")] == ["6", "1"]
    assert not metric(outcome, "queries_duration_ns") and not metric(outcome, "query_timeout_ns")
    (check,) = [check for check in outcome.checks if check.name == "query-finished"]
    assert (check.status, check.labels) == ("unknown", {"query": "5"})
    assert "region" in check.detail
    assert "explain 5" not in toy.calls and "explain 1" in toy.calls


def test_an_engine_that_no_longer_answers_fails_the_run_with_the_query(measure, toy):
    toy.dies_in = 5
    with pytest.raises(RunFailed, match="TPC-H query 5"):
        measure(queries="6,5,1")
    assert toy.calls[-1] == "close"


def test_random_parameters_are_checked_against_a_computed_reference(measure, toy):
    outcome = measure(queries="6,13", query_seed=5)
    assert {check.status for check in outcome.checks} == {"passed"}
    assert "computed by DuckDB" in outcome.checks[0].detail
    toy.spoil = {13: lambda rows: [(c, n + 1) for c, n in rows]}
    assert measure(queries="13", query_seed=5).checks[0].status == "failed"


def test_duckdb_cannot_vouch_for_itself_until_another_engine_agreed(measure, toy):
    toy.name = "duckdb"
    check = measure(queries="6", query_seed=5).checks[0]
    assert check.status == "unknown"
    assert "run another engine" in check.detail
    toy.name = "toy"
    assert measure(queries="6", query_seed=5).checks[0].status == "passed"
    toy.name = "duckdb"
    check = measure(queries="6", query_seed=5).checks[0]
    assert (check.status, "answer of toy" in check.detail) == ("passed", True)
