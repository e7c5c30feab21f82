"""A new engine is one new folder and no edit elsewhere: SQLite, found by a path."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scratch import open_directory

from harness import registry
from harness.progress import SilentProgress
from harness.workloads.tpch.qgen import parameters
from harness.workloads.tpch.statements import query_sql

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
    with open_directory() as folder:
        yield folder


RUN = "run tpch --engine sqlite --placement ssd-both --scale 0.01 --queries 1,6 --json"


def harness(folder: Path, arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from harness.cli import main; main()", *arguments.split()],
        cwd=folder,
        env=os.environ | {"HARNESS_DATA": str(folder / "data"), **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_runs_it_end_to_end(tmp_path: Path) -> None:
    done = harness(tmp_path, f"{RUN} --memory-limit 128MiB")
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert run["spec"]["engine"] == "sqlite"
    assert run["part_bytes"]["data"] >= run["data_bytes"] > 0
    assert [check["status"] for check in run["checks"]] == ["passed", "passed"]
    # It works in the harness's own process, which no limit holds.
    assert "memory-limit-not-enforced" in [warning["code"] for warning in run["uncontrolled"]]
    (manifest,) = tmp_path.rglob("manifest.json")
    assert json.loads(manifest.read_text())["memory_cap"]["method"] == "none"


def test_an_exception_that_it_does_not_foresee_fails_one_attempt_alone(tmp_path: Path) -> None:
    failures = tmp_path / "failures"
    failures.mkdir()
    for name in "abc":  # of the first run both attempts, of the second one the first
        (failures / name).touch()
    done = harness(tmp_path, f"{RUN} --repeats 3", TOY_FAILURES=str(failures))
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    runs = json.loads(done.stdout)["runs"]
    ended = [(run["spec"]["block"], run["status"]) for run in runs]
    assert ended == [(0, "failed"), (0, "failed"), (1, "failed"), (2, "complete")]
    for run in runs[:3]:
        assert "LookupError" in run["error"]["context"]
        assert "in restore" in run["error"]["traceback"]
    again = [[one["code"] for one in run["uncontrolled"]].count("run-retried") for run in runs]
    assert again == [0, 1, 0, 0]
    (failures / "d").touch()
    done = harness(tmp_path, RUN, TOY_FAILURES=str(failures))
    assert done.returncode == 0, done.stderr  # complete at the second attempt
    assert [run["status"] for run in json.loads(done.stdout)["runs"]] == ["failed", "complete"]
    listed = json.loads(harness(tmp_path, "runs list --json").stdout)
    assert len(listed["runs"]) == 6 and not listed["unfinished"]


DEMO = """\
schema: 1
name: demo
description: the demo on a small engine
workload: tpch
axes: {engine: [sqlite], placement: [ssd-both, pmem-both]}
fixed: {params: {scale: 0.01, queries: [6], cache: warm}}
repeats: 2
"""


def test_the_demo_ends_with_its_verdicts_although_a_run_failed(tmp_path: Path) -> None:
    program, script = tmp_path / ".venv/bin/harness", tmp_path / "scripts/demo.sh"
    for file in (program, script):
        file.parent.mkdir(parents=True)
    main = "from harness.cli import main; main()"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{main}" "$@"\n')
    program.chmod(0o755)
    program.with_name("python").symlink_to("/usr/bin/python3")
    shutil.copy(TOYS.parents[1] / "scripts/demo.sh", script)
    (tmp_path / "demo").write_text(DEMO)
    failures = tmp_path / "failures"
    failures.mkdir()
    for name in "abcd":  # both attempts at both runs of the first block
        (failures / name).touch()
    env = {"HARNESS_DATA": str(tmp_path / "data"), "TOY_FAILURES": str(failures)}
    done = subprocess.run(
        [script], env=os.environ | env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    *_, verdict, a, b, c, d, report = done.stdout.splitlines()
    assert " against ssd-both" in verdict
    assert all(line.startswith("failed: ") for line in (a, b, c, d))
    assert Path(report.removeprefix("report: ")).is_file()


def _rounded(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(v if isinstance(v, str) else round(float(v), 2) for v in row) for row in rows]
