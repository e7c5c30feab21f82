"""A new monitor is one new file and no edit elsewhere: context switches, found by a path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TOYS = {"HARNESS_MONITOR_PATH": str(Path(__file__).parents[1] / "toy_monitors")}
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
    done = loaded("experiment", "run", profile, "--json", **TOYS)
    run = done.run
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
    done = loaded.microbench(*suite, "--tier", "dram", *options, "--json", **TOYS)
    run = done.run
    artifacts = loaded.results / "runs" / run["run_id"] / "artifacts"
    stored = {path.stem for path in artifacts.glob("monitor-*.json")}
    assert {"monitor-context-switches", "monitor-process"} <= stored
    assert not {"monitor-vm", "monitor-waits", "monitor-io"} & stored
    assert run["spec"]["no_monitors"] == ["vm"]
    samples = json.loads((artifacts / "monitor-process.json").read_text())["samples"]
    assert any(one.get("cpu_ns") for one in samples), "of the measuring program"
    (elapsed,) = [one for one in run["metrics"] if one["name"] == "phase_elapsed_ns"]
    assert elapsed["value"] > 0 and elapsed["labels"] == {}
