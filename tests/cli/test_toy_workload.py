"""A new workload is one folder and no edit elsewhere: counting, found by a path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

TOYS = {"HARNESS_WORKLOAD_PATH": str(Path(__file__).parents[1] / "toy_workloads")}


def test_its_command_has_its_options(loaded: Any) -> None:
    done = loaded("run", "counting", "--help", **TOYS)
    assert done.code == 0, done.err
    assert "--rows" in done.out and "--warehouses" not in done.out


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_it_runs_and_is_checked(loaded: Any, engine: str) -> None:
    arguments = f"run counting --engine {engine} --placement ssd-both --rows 1500 --json"
    done = loaded(*arguments.split(), **TOYS)
    run = done.run
    assert run["spec"]["params"] == {"rows": 1500, "times": 3}
    assert [check["status"] for check in run["checks"]] == ["passed"]
    (counts,) = [m for m in run["metrics"] if m["name"] == "count_duration_ns"]
    assert len(counts["samples"]) == 3


def test_an_engine_without_sql_is_an_error_before_the_run(loaded: Any) -> None:
    arguments = "run counting --engine rocksdb --placement ssd-both --json"
    assert loaded(*arguments.split(), **TOYS).code == 2
