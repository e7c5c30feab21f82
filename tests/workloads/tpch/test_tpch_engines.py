"""DuckDB and PostgreSQL themselves, at scale 0.01: loaded, run, and agreeing."""

from collections.abc import Mapping

import pytest
from toy_session import ToySession

from harness.workload import Moment
from harness.workloads.tpch.answers import SHAPES, Answer, compare
from harness.workloads.tpch.checks import sum_tolerance
from harness.workloads.tpch.params import TpchParams
from harness.workloads.tpch.qgen import QUERIES, parameters
from harness.workloads.tpch.statements import query_sql
from harness.workloads.tpch.workload import WORKLOAD

SCALE = 0.01
SEEDS = range(1, 21)


class WarmSession(ToySession):
    def cold_start(self, label: str) -> None:
        raise AssertionError("a warm run has no cold start")

    def counters(self, moment: Moment = "after") -> Mapping[str, float]:
        counters: Mapping[str, float] = self.engine.counters()
        return counters


@pytest.mark.parametrize(("name", "load_format"), [("duckdb", "parquet"), ("postgres", "csv")])
def test_every_answer_to_the_validation_parameters_is_right(
    engines, sources, quiet, name, load_format
):
    params = TpchParams.from_mapping({"scale": SCALE, "cache": "warm", "warmups": 0})
    source = sources[load_format].files["region"][0].parents[1]
    outcome = WORKLOAD.measure(params, WarmSession(engines[name], quiet, source))
    assert [(c.labels["query"], c.status) for c in outcome.checks] == [
        (str(query), "passed") for query in QUERIES
    ]
    operators = {m.labels["operator"] for m in outcome.metrics if m.name == "plan_operator_ns"}
    assert {"scan", "join", "aggregate"} <= operators


@pytest.mark.slow
def test_the_engines_agree_on_twenty_seeds_of_random_parameters(engines):
    connections = {name: engine.connect() for name, engine in engines.items()}
    folders = {name: engine.sql_folder / "tpch" for name, engine in engines.items()}
    problems = []
    for seed in SEEDS:
        for query in QUERIES:
            values = parameters(query, seed, SCALE)
            duck = connections["duckdb"].execute(query_sql(query, values, folders["duckdb"], 1))
            answer = Answer.of(SHAPES[query], duck.rows)
            found = connections["postgres"].execute(query_sql(query, values, folders["postgres"]))
            agreement = compare(SHAPES[query], answer, found.rows, sum_tolerance(SCALE))
            if not agreement.agrees:
                problems.append((seed, query, agreement.detail))
    for connection in connections.values():
        connection.close()
    assert problems == []


@pytest.mark.parametrize("name", ["duckdb", "postgres"])
def test_the_loaded_tables_have_the_generated_rows(engines, sources, name):
    connection = engines[name].connect()
    found = {
        table: connection.execute(f"select count(*) from {table}").rows[0][0]
        for table in sources["csv"].row_counts
    }
    connection.close()
    assert found == sources["csv"].row_counts
