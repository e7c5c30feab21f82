"""A new kernel is one file and one line in the registry: tests/toy_kernels/increment.c."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from microbench_build import SOURCE, execute, spec_of

TOY = Path(__file__).parents[1] / "toy_kernels/increment.c"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """microbench with the toy, built from a copy of the sources."""
    sources = tmp_path_factory.mktemp("toy")
    for name in ("microbench", "native"):
        shutil.copytree(SOURCE.parent / name, sources / name)
    (sources / "harness").mkdir()
    shutil.copy(SOURCE.parent / "harness/native_programs.py", sources / "harness")
    shutil.copy(TOY, sources / "microbench/kernels")
    registry = sources / "microbench/kernel_registry.c"
    text = registry.read_text()
    text = text.replace("mb_log, mb_page;", "mb_log, mb_page, mb_increment;")
    registry.write_text(text.replace("&mb_page,\n", "&mb_page, &mb_increment,\n"))
    folder = sources / "build"
    for command in (
        ["cmake", "-S", str(sources / "microbench"), "-B", str(folder)],
        ["cmake", "--build", str(folder), "--target", "microbench"],
    ):
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
    return folder / "microbench"


def run(program: Path, **keys: Any) -> Any:
    spec = spec_of(
        {"t0": {"kind": "dram", "size_bytes": 1 << 20}},
        {"duration_ns": 10_000_000, "repeats": 1, "jobs": [{"kind": "increment", **keys}]},
    )
    return execute(program, spec)


def test_it_runs_in_a_measurement(program: Path) -> None:
    done = run(program, step_bytes=128)
    assert done.returncode == 0, done.stderr
    (measurement,) = json.loads(done.stdout)["measurements"]
    (job,) = measurement["repeats"][0]["jobs"]
    assert job["operations"] > 0
    assert job["written_bytes"] == 64 * job["operations"]


def test_it_accepts_only_its_own_keys(program: Path) -> None:
    assert run(program, stride_bytes=128).returncode == 2
