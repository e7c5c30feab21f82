"""A new kernel is one file and one line in the registry: tests/toy_kernels/increment.c."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from microbench_build import execute, spec_of


def run(build: Path, **keys: Any) -> subprocess.CompletedProcess[str]:
    spec = spec_of(
        {"t0": {"kind": "dram", "size_bytes": 1 << 20}},
        {"duration_ns": 10_000_000, "repeats": 1, "jobs": [{"kind": "increment", **keys}]},
    )
    return execute(build / "microbench", spec)


def test_it_runs_in_a_measurement(release_build: Path) -> None:
    done = run(release_build, step_bytes=128)
    assert done.returncode == 0, done.stderr
    (measurement,) = json.loads(done.stdout)["measurements"]
    (job,) = measurement["repeats"][0]["jobs"]
    assert job["operations"] > 0
    assert job["written_bytes"] == 64 * job["operations"]


def test_it_accepts_only_its_own_keys(release_build: Path) -> None:
    assert run(release_build, stride_bytes=128).returncode == 2
