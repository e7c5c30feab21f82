"""A new kernel is one file and one line in the registry: tests/toy_kernels/increment.c."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from microbench_build import jobs, runner


def test_it_runs_in_a_measurement(release_build: Path) -> None:
    toy = {"duration_ns": 10_000_000, "jobs": [{"kind": "increment", "step_bytes": 128}]}
    dram = {"t0": {"kind": "dram", "size_bytes": 1 << 20}}
    (job,) = jobs(runner(release_build / "microbench")(dram, toy))
    assert job["operations"] > 0
    assert job["written_bytes"] == 64 * job["operations"]


def test_suites_know_it_by_the_keys_next_to_its_file(release_build: Path, tmp_path: Path) -> None:
    native, suite = tmp_path / "native", tmp_path / "toy.yml"
    install = ["cmake", "--install", str(release_build), "--prefix", str(native)]
    subprocess.run(install, check=True, capture_output=True)
    (next(native.glob("**/kernels")) / "other.json").write_text('{"count": {"help": "h"}}')
    suite.write_text(
        "schema: 1\nname: toy\ndescription: d\nmeasurements:\n  lines:\n"
        "    matrix: {step: [64, 128]}\n"
        "    args: {kind: increment, range: 1MiB, duration: 100ms}\n"
    )
    argv = ["run", "micro", "--suite", str(suite), "--tier", "dram", "--dry-run", "--json", "-q"]
    done = subprocess.run(
        [sys.executable, "-c", "from harness.cli import main; main()", *argv],
        env={**os.environ, "HARNESS_NATIVE": str(native)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (plan,) = json.loads(done.stdout)["plan"]
    assert plan["configurations"] == ["lines/step=64", "lines/step=128"]
