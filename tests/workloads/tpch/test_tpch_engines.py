"""DuckDB and PostgreSQL themselves, at scale 0.01, agreeing."""

import os

import pytest

from harness.workloads.tpch.answers import SHAPES, Answer, compare
from harness.workloads.tpch.qgen import QUERIES, parameters
from harness.workloads.tpch.reference import sum_tolerance
from harness.workloads.tpch.statements import query_sql

SCALE = 0.01
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
            answer = Answer.of(SHAPES[query], duck.rows)
            found = connections["postgres"].execute(query_sql(query, values, folders["postgres"]))
            agreement = compare(SHAPES[query], answer, found.rows, sum_tolerance(SCALE))
            if not agreement.agrees:
                problems.append((seed, query, agreement.detail))
    for connection in connections.values():
        connection.close()
    assert problems == []
