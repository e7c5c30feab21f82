"""The measured phase: order of cold starts and executions, and what is reported of them."""

import contextlib
import math
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest
from idle_engine import IdleEngine
from narrowed import present
from toy_session import ToySession

import engines
from harness.engine import QueryTimeout, SqlResult
from harness.errors import RunFailed
from harness.query_plan import ExecutedPlan, Operator
from harness.sql_files import text_of
from harness.store.result import run_status
from harness.workloads.query_runs import WarmUp, warm_up, warm_up_warnings
from harness.workloads.tpch import data
from harness.workloads.tpch.answer_checks import sum_tolerance
from harness.workloads.tpch.answers import SHAPES, CanonicalAnswer, compare
from harness.workloads.tpch.params import TpchParams
from harness.workloads.tpch.qgen import QUERIES, parameters
from harness.workloads.tpch.source_database import open_views
from harness.workloads.tpch.statements import query_sql
from harness.workloads.tpch.tables import COLUMNS, TABLES, expected_rows, keys_are_unique
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
    lasts_ns: int | None = None

    def connect(self):
        self.calls.append("connect")
        return self

    def execute(self, sql, *, timeout_s=None, keep=None):
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
        return SqlResult((), rows, started, self.lasts_ns or time.monotonic_ns() - started)

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


def test_warm_runs_each_query_until_three_executions_agree(measure, toy):
    toy.lasts_ns = 1000
    outcome = measure(queries="6,1", cache="warm", plans=False)
    assert toy.calls == ["connect", *["run 6"] * 4, *["run 1"] * 4, "close"]
    assert [m.value for m in metric(outcome, "query_warmup_count")] == [3, 3]
    assert "warm-up-not-steady" not in [warning.code for warning in outcome.uncontrolled]


def test_a_query_that_is_not_steady_after_ten_executions_is_named():
    falling = iter(range(100, 0, -8))
    warm = warm_up(lambda: next(falling), None)
    assert (warm.count, warm.steady) == (10, False)
    (warning,) = warm_up_warnings({"Q6": warm, "Q1": WarmUp(3, 0.1)})
    assert warning.code == "warm-up-not-steady"
    assert "Q6" in warning.context
    assert "Q1" not in warning.context


def test_a_warm_up_ends_when_times_agree_or_one_reaches_the_limit():
    durations = iter([900, 400, 130, 128, 128, 128])
    assert warm_up(lambda: next(durations), None) == WarmUp(5, 130 / 128 - 1)
    assert warm_up(lambda: None, None) == WarmUp(1)
    assert warm_up(lambda: 5, 2) == WarmUp(2)


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


# The generator's output: whole, counted, in chunks, or a clear failure --------------

ROWS_001 = {
    "region": 5, "nation": 25, "supplier": 100, "customer": 1_500, "part": 2_000,
    "partsupp": 8_000, "orders": 15_000, "lineitem": 60_175,
}  # fmt: skip


@pytest.mark.parametrize("load_format", ["csv", "tbl", "parquet"])
def test_every_row_is_counted_in_every_format(sources, load_format):
    assert sources[load_format].row_counts == ROWS_001
    assert all(
        file.stat().st_size for files in sources[load_format].files.values() for file in files
    )


def test_generating_again_does_nothing_and_a_partial_folder_is_not_whole(tmp_path, quiet):
    data.generate(0.0031, "tbl", tmp_path, quiet)
    file = data.read_source(tmp_path).files["lineitem"][0]
    before = file.stat().st_mtime_ns
    data.generate(0.0031, "tbl", tmp_path, quiet)
    assert file.stat().st_mtime_ns == before
    whole = file.read_bytes()
    (tmp_path / "source.json").unlink()
    file.write_bytes(whole[:100])  # as a generator that was cut off leaves it
    with pytest.raises(RunFailed, match="not whole"):
        data.read_source(tmp_path)
    data.generate(0.0031, "tbl", tmp_path, quiet)
    assert file.read_bytes() == whole


def test_a_killed_generator_is_a_failed_run(tmp_path, quiet):
    def kill_it():
        while not (children := _generators()):
            time.sleep(0.01)
        os.kill(children[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_it)
    killer.start()
    with pytest.raises(RunFailed, match="killed by signal 9"):
        data.generate(1, "csv", tmp_path, quiet)
    killer.join()
    assert not (tmp_path / "source.json").exists()


def test_a_generator_that_writes_nothing_is_killed_at_its_limit(tmp_path, quiet, monkeypatch):
    monkeypatch.setenv("HARNESS_SILENCE", "load=0.2")
    monkeypatch.setattr(data, "_command", lambda *_: ["sh", "-c", "echo $$ > pid; sleep 1000"])
    with pytest.raises(RunFailed) as failed:
        data.run_generator([], tmp_path, 1, "data", quiet)
    assert "HARNESS_SILENCE=load=" in failed.value.hint


def test_a_generator_begins_nothing_once_its_harness_has_ended(tmp_path, quiet, monkeypatch):
    """Killed between its start of the generator and the request to die with it."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: ended.pid)
        with pytest.raises(RunFailed):
            data.generate(0.0031, "csv", tmp_path, quiet)
    assert [path.name for path in tmp_path.iterdir()] == ["generator.log"]


def _generators():
    """Generators among our own children, once they are what they will be (exec)."""
    processes = []
    for children in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread or a process of that moment
            for pid in children.read_text().split():
                if b"tpchgen-cli" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]:
                    processes.append(int(pid))
    return processes


def test_a_generator_that_stops_early_is_not_believed():
    short = ROWS_001 | {"customer": 1_499}
    with pytest.raises(RunFailed, match=r"customer.* 1499 .*1500"):
        data._verify(0.01, short)
    with pytest.raises(RunFailed, match="not 6001215"):
        data._verify(1, {"lineitem": 6_001_214})


def test_cardinalities_are_cut_as_the_generator_cuts_them():
    assert expected_rows("supplier", 0.57) == 5_699  # 0.57 * 10000 is below 5700 in binary
    assert expected_rows("partsupp", 0.29) == 231_996
    assert expected_rows("lineitem", 1) == 6_001_215
    assert expected_rows("lineitem", 0.5) is None


def test_where_keys_are_said_to_be_unique_they_are(tmp_path, quiet):
    data.generate(0.0031, "parquet", tmp_path, quiet)
    assert keys_are_unique(0.0031)
    assert _duplicate_keys(tmp_path) == 0


def _duplicate_keys(folder):
    query = f"""select count(*) - count(distinct (ps_partkey, ps_suppkey))
                from read_parquet('{folder}/partsupp/*.parquet')"""
    return present(duckdb.execute(query).fetchone())[0]


# Every query renders in every dialect there is, from one text -----------------------

ENGINE_FOLDERS = sorted(
    path for path in Path(engines.__path__[0]).resolve().glob("*/sql/tpch") if path.is_dir()
)


@pytest.fixture
def dialect(tmp_path):
    """An engine's folder that writes dates as text and one query in its own way."""
    (tmp_path / "dialect.sql.j2").write_text(
        "{% macro sql_date(day) %}{{ text(day) }}{% endmacro %}"
        "{% macro months_after(day, months) %}date({{ text(day) }}, '+{{ months }} months')"
        "{% endmacro %}"
    )
    (tmp_path / "q15.sql.j2").write_text("select 15 where {{ sql_date(date) }} is not null\n")
    return tmp_path


@pytest.mark.parametrize("folder", [None, *ENGINE_FOLDERS], ids=lambda f: f and f.parts[-3])
@pytest.mark.parametrize("seed", [None, 1, 4711])
def test_every_query_is_one_statement_in_every_dialect(folder, seed):
    for query in QUERIES:
        sql = query_sql(query, parameters(query, seed, 1), folder)
        assert duckdb.extract_statements(sql).__len__() == 1
        assert not {"{", "}", ";"} & set(sql)


def test_an_engine_replaces_macros_and_whole_queries_and_keeps_the_rest(dialect):
    values = parameters(4, None, 1)
    assert "o_orderdate >= '1993-07-01'" in query_sql(4, values, dialect)
    assert "date('1993-07-01', '+3 months')" in query_sql(4, values, dialect)
    assert "o_orderdate >= date '1993-07-01'" in query_sql(4, values)
    assert (
        query_sql(15, parameters(15, None, 1), dialect)
        == "select 15 where '1996-01-01' is not null"
    )
    assert query_sql(16, parameters(16, None, 1), dialect) == query_sql(16, parameters(16, None, 1))


@pytest.mark.parametrize("folder", ENGINE_FOLDERS, ids=lambda f: f.parts[-3])
def test_an_engines_tables_have_the_columns_of_the_files(folder):
    connection = duckdb.connect()
    connection.execute(text_of(folder / "10_tables.sql"))
    for table in TABLES:
        columns = connection.execute(f"select * from {table} limit 0").description
        assert [column[0] for column in columns] == list(COLUMNS[table])


def test_answers_have_the_columns_that_are_checked(sources):
    connection = open_views(sources["csv"], sources["csv"].files["region"][0].parent)
    for query in QUERIES:
        relation = connection.execute(query_sql(query, parameters(query, None, 0.01)))
        names = [column[0] for column in relation.description]
        assert names == [column.name for column in SHAPES[query].columns]


# DuckDB and PostgreSQL themselves, at scale 0.01, agreeing --------------------------

#: A few here, for time; the bar of the design is 20: HARNESS_TEST_SEEDS=20.
SEEDS = range(1, 1 + int(os.environ.get("HARNESS_TEST_SEEDS", "3")))


@pytest.mark.slow
def test_the_engines_agree_on_random_parameters(engines):
    connections = {name: engine.connect() for name, engine in engines.items()}
    folders = {name: engine.sql_folder / "tpch" for name, engine in engines.items()}
    problems = []
    for seed in SEEDS:
        for query in QUERIES:
            values = parameters(query, seed, SCALE)
            duck = connections["duckdb"].execute(query_sql(query, values, folders["duckdb"], 1))
            answer = CanonicalAnswer.of(SHAPES[query], duck.rows)
            result = connections["postgres"].execute(query_sql(query, values, folders["postgres"]))
            agreement = compare(SHAPES[query], answer, result.rows, sum_tolerance(SCALE))
            if not agreement.agrees:
                problems.append((seed, query, agreement.detail))
    for connection in connections.values():
        connection.close()
    assert problems == []
