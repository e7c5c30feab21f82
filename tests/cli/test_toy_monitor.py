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
    assert done.code == 0, done.err
    (run,) = done.json["runs"]
    (switches,) = [m for m in run["metrics"] if m["name"] == "query_context_switches_count"]
    assert max(switches.get("samples", [switches.get("value")])) > 0
    artifacts = loaded.results / "runs" / run["run_id"] / "artifacts"
    first, last = json.loads((artifacts / "monitor-context-switches.json").read_text())["counts"]
    assert first < last
    assert json.loads((artifacts / "monitor-process.json").read_text())["samples"]


def test_the_doctor_lists_it_with_its_cost(loaded: Any) -> None:
    listed = {
        monitor["name"]: monitor for monitor in loaded("doctor", "--json", **TOYS).json["monitors"]
    }
    assert listed["context-switches"]["cost"] == "reads /proc/stat at both ends"
    assert listed["process"]["default"] and not listed["memory-traffic"]["default"]


def test_an_unknown_monitor_names_the_nearest(loaded: Any) -> None:
    profile = loaded.root / "toy-monitor.yml"
    profile.write_text(PROFILE.replace("[context-switches]", "[proces]"))
    done = loaded("experiment", "run", profile, "--json", **TOYS)
    assert done.code == 2
    assert "did you mean 'process'" in done.json["error"]["context"]
