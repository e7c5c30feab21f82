"""A new workload is one folder, a new monitor one file, and no edit elsewhere: found by a path."""

import json
from pathlib import Path
from typing import Any

import pytest

TOYS = {"HARNESS_WORKLOAD_PATH": str(Path(__file__).parents[1] / "toy_workloads")}
MONITORS = {"HARNESS_MONITOR_PATH": str(Path(__file__).parents[1] / "toy_monitors")}


def test_its_command_has_its_options(loaded: Any) -> None:
    done = loaded("run", "counting", "--help", **TOYS)
    assert done.code == 0, done.err
    assert "--rows" in done.out and "--warehouses" not in done.out


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_it_runs_and_is_checked(loaded: Any, engine: str) -> None:
    arguments = f"run counting --engine {engine} --placement ssd-both --rows 1500 --json"
    run = loaded(*arguments.split(), **TOYS).run
    assert run["spec"]["params"] == {"rows": 1500, "times": 3}
    assert [check["status"] for check in run["checks"]] == ["passed"]
    (counts,) = [m for m in run["metrics"] if m["name"] == "count_duration_ns"]
    assert len(counts["samples"]) == 3
    shown = loaded("runs", "show", run["run_id"], **TOYS).out
    assert "count_duration_ns" in shown and "median of 3" in shown


def test_an_engine_without_sql_is_an_error_before_the_run(loaded: Any) -> None:
    arguments = "run counting --engine rocksdb --placement ssd-both --json"
    assert loaded(*arguments.split(), **TOYS).code == 2


# A monitor --------------------------------------------------------------------------

PROFILE = """
schema: 1
name: toy-monitor
description: a run with a monitor of a folder of its own
workload: tpch
axes: {placement: [ssd-both]}
fixed:
  engine: duckdb
  params: {scale: 0.01, queries: [6]}
  monitors: [context-switches]
"""


def test_a_run_stores_its_samples_and_the_differences_of_its_totals(loaded: Any) -> None:
    profile = loaded.root / "toy-monitor.yml"
    profile.write_text(PROFILE)
    run = loaded("experiment", "run", profile, "--json", **MONITORS).run
    (switches,) = [m for m in run["metrics"] if m["name"] == "query_context_switches_count"]
    assert max(switches.get("samples", [switches.get("value")])) > 0
    artifacts = loaded.results / "runs" / run["run_id"] / "artifacts"
    first, last = json.loads((artifacts / "monitor-context-switches.json").read_text())["counts"]
    assert first < last
    assert json.loads((artifacts / "monitor-process.json").read_text())["samples"]


def test_a_suite_runs_under_the_monitors_that_its_options_leave(loaded: Any) -> None:
    suite = ["--suite", "quick", "--param", "only=chase", "--duration", "3s"]
    requested = ["--monitor", "context-switches", "--monitor", "elapsed"]
    options = [*requested, "--no-monitor", "vm", "--repeats", "1"]
    run = loaded.microbench(*suite, "--tier", "dram", *options, "--json", **MONITORS).run
    artifacts = loaded.results / "runs" / run["run_id"] / "artifacts"
    stored = {path.stem for path in artifacts.glob("monitor-*.json")}
    assert {"monitor-context-switches", "monitor-process"} <= stored
    assert not {"monitor-vm", "monitor-waits", "monitor-io"} & stored
    assert run["spec"]["no_monitors"] == ["vm"]
    samples = json.loads((artifacts / "monitor-process.json").read_text())["samples"]
    assert any(sample.get("cpu_ns") for sample in samples), "of the measuring program"
    (elapsed,) = [metric for metric in run["metrics"] if metric["name"] == "phase_elapsed_ns"]
    assert elapsed["value"] > 0 and elapsed["labels"] == {}
