"""A new engine is one new folder and no edit elsewhere: SQLite, found by a path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
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


def test_it_is_found_with_the_others() -> None:
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


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Open to the servers' user, whose directories a run makes."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_the_command_runs_it_end_to_end(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from harness.cli import main; main()"]
    arguments = "run tpch --engine sqlite --placement ssd-both --scale 0.01 --queries 1,6 --json"
    done = subprocess.run(
        [*command, *arguments.split()],
        cwd=tmp_path,
        env=os.environ | {"HARNESS_DATA": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert run["spec"]["engine"] == "sqlite"
    assert run["part_bytes"]["data"] >= run["data_bytes"] > 0
    assert [check["status"] for check in run["checks"]] == ["passed", "passed"]


def _rounded(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(v if isinstance(v, str) else round(float(v), 2) for v in row) for row in rows]
