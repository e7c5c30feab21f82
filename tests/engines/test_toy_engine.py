"""A new engine is one new folder and no edit elsewhere: SQLite, found by a path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import registry
from harness.progress import SilentProgress
from harness.workloads.tpch.qgen import parameters
from harness.workloads.tpch.sql import query_sql

TOYS = Path(__file__).parents[1] / "toy_engines"


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_ENGINE_PATH", str(TOYS))


def test_it_is_found_beside_the_others() -> None:
    assert {"sqlite", "duckdb", "postgres"} <= set(registry.engines())


def test_it_loads_tpch_and_answers_like_duckdb(lab: Any, tpch_csv: Any, tpch_parquet: Any) -> None:
    answers: dict[str, list[Any]] = {}
    for name, source in (("sqlite", tpch_csv), ("duckdb", tpch_parquet)):
        engine = lab.engine(name)
        engine.initialise(lab.places())
        engine.start()
        engine.bulk_load("tpch", source.files, source.row_counts, SilentProgress())
        connection = engine.connect()
        for query in (1, 6, 12):
            sql = query_sql(query, parameters(query, None, 0.01), engine.sql_folder / "tpch")
            answers.setdefault(name, []).append(_rounded(connection.execute(sql).rows))
        connection.close()
        engine.stop()
    assert answers["sqlite"] == answers["duckdb"]
    assert len(answers["sqlite"][0]) == 4


def _rounded(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(v if isinstance(v, str) else round(float(v), 2) for v in row) for row in rows]
