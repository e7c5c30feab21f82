"""The user's own queries: the example on each engine, and what fails a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ENGINES = ("duckdb", "postgres", "mariadb")


@pytest.fixture
def shop(loaded: Any, tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    done = loaded("workload", "init", folder, "--json")
    assert done.code == 0 and len(done.json["files"]) == 15, done.err
    return folder


def measure(loaded: Any, shop: Path, engine: str, *more: object) -> tuple[int, Any]:
    command = ("run", "sql", "--folder", shop, "--engine", engine, "--placement", "ssd-both")
    done = loaded(*command, *more, "--json")
    (run,) = done.json["runs"]
    return done.code, run


@pytest.mark.parametrize("engine", ENGINES)
def test_the_example_runs_as_it_is(loaded: Any, shop: Path, engine: str) -> None:
    code, run = measure(loaded, shop, engine, "--cache", "cold-per-run")
    assert (code, run["status"]) == (0, "complete")
    assert {check["status"] for check in run["checks"]} == {"passed"}
    assert sorted(check["name"] for check in run["checks"]) == ["answer"] * 5 + ["check.sql"] * 2
    names = {path.stem for path in (shop / "queries").iterdir()}
    for metric in ("query_duration_ns", "plan_run_duration_ns"):
        found = [m["labels"]["query"] for m in run["metrics"] if m["name"] == metric]
        assert set(found) == names and len(found) == 5


def test_spark_runs_a_query_of_it(loaded: Any, shop: Path) -> None:
    only = ("--queries", "never_bought", "--no-plans", "--cache", "warm")
    code, run = measure(loaded, shop, "spark", *only)
    assert (code, run["status"]) == (0, "complete")
    assert {check["status"] for check in run["checks"]} == {"passed"}


def test_a_row_of_the_check_and_a_wrong_answer_fail_the_run(loaded: Any, shop: Path) -> None:
    (shop / "check.sql").write_text("select 1 as bad where 1 = 2; select id from customer;")
    (shop / "answers/never_bought.csv").write_text("id,name\n1,Product 1\n")
    only = ("--queries", "never_bought", "--no-plans", "--retries", "0")
    code, run = measure(loaded, shop, "postgres", *only)
    assert (code, run["status"]) == (1, "failed")
    failed = [(c["name"], c["labels"]) for c in run["checks"] if c["status"] == "failed"]
    assert failed == [("answer", {"query": "never_bought"}), ("check.sql", {"statement": "2"})]


def test_a_query_that_fails_leaves_the_times_of_the_others(loaded: Any, shop: Path) -> None:
    (shop / "queries/colours.sql").write_text("select colour from product")
    code, run = measure(loaded, shop, "postgres", "--queries", "colours,never_bought")
    assert (code, run["status"]) == (0, "unknown")
    times = [m["labels"] for m in run["metrics"] if m["name"] == "query_duration_ns"]
    assert times == [{"query": "never_bought"}]
    (check,) = [c for c in run["checks"] if c["status"] == "unknown"]
    assert check["labels"] == {"query": "colours"} and "colour" in check["detail"]


def test_answers_of_a_run_become_the_expected_ones(loaded: Any, shop: Path) -> None:
    shipped = (shop / "answers/top_customers.csv").read_text()
    for path in (shop / "answers").iterdir():
        path.unlink()
    _, run = measure(loaded, shop, "duckdb", "--no-plans")
    assert [c["name"] for c in run["checks"] if c["status"] == "unknown"] == ["answers-compared"]
    done = loaded("workload", "answers", shop, run["run_id"], "--json")
    assert done.code == 0 and len(done.json["files"]) == 5, done.err
    written = (shop / "answers/top_customers.csv").read_text()
    assert sorted(written.splitlines()[1:]) == sorted(shipped.splitlines()[1:])
    _, again = measure(loaded, shop, "duckdb", "--no-plans")
    assert again["status"] == "complete"
