"""A new monitor is one new file and no edit elsewhere: context switches, found by a path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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


def test_the_doctor_lists_it_with_its_cost(loaded: Any) -> None:
    listed = {
        monitor["name"]: monitor for monitor in loaded("doctor", "--json", **TOYS).json["monitors"]
    }
    assert listed["context-switches"]["cost"] == "reads /proc/stat at both ends"
    assert listed["context-switches"]["available"] and not listed["context-switches"]["default"]
    assert listed["process"]["available"] and listed["process"]["default"]
    unavailable = [monitor for monitor in listed.values() if not monitor["available"]]
    assert all(one["code"] and one["problem"] and one["hint"] for one in unavailable)


@pytest.mark.parametrize("key", ["monitors", "no_monitors"])
def test_an_unknown_monitor_names_the_nearest(loaded: Any, key: str) -> None:
    profile = loaded.root / "toy-monitor.yml"
    profile.write_text(PROFILE.replace("monitors: [context-switches]", f"{key}: [proces]"))
    done = loaded("experiment", "run", profile, "--json", **TOYS)
    assert done.code == 2
    assert "did you mean 'process'" in done.json["error"]["context"]


@pytest.mark.parametrize(
    "argv", [["tpch", "--engine", "duckdb"], ["micro", "--suite", "quick", "--tier", "dram"]]
)
@pytest.mark.parametrize(
    ("options", "context"),
    [
        (["--monitor", "blok"], "did you mean 'block'"),
        (["--no-monitor", "blok"], "did you mean 'block'"),
        (["--monitor", "block", "--no-monitor", "block"], "both"),
    ],
)
def test_options_that_cannot_be_met(
    loaded: Any, argv: list[str], options: list[str], context: str
) -> None:
    placed = [] if argv[0] == "micro" else ["--placement", "ssd-both"]
    done = loaded("run", *argv, *placed, *options, "--dry-run", "--json")
    assert done.code == 2
    assert context in done.json["error"]["context"]


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
