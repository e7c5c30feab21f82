"""Loading in parallel: what fails ends it with its reason, and it needs little memory."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest


def start(
    build: Path, backend: str, connection: dict[str, Any], warehouses: int, threads: int = 4
) -> subprocess.Popen[str]:
    """A load under way; the spec is with it."""
    spec = {
        "schema": 1,
        "task": "load",
        "backend": backend,
        "modules": [str(build)],
        "connection": connection,
        "workload": {"name": "tpcc", "params": {"warehouses": warehouses, "data_seed": 7}},
        "threads": threads,
    }
    process = subprocess.Popen(
        [str(build / "loadgen"), "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(spec))
    process.stdin.close()
    process.stdin = None
    return process


@pytest.mark.parametrize("table", ["stock", "item", "warehouse"])
def test_rows_that_the_server_has_not_stored_fail_the_load(
    loadgen_build: Path, tmp_path: Path, table: str
) -> None:
    connection = {"directory": str(tmp_path), "loses": table}
    out, err = start(loadgen_build, "record", connection, warehouses=1).communicate()
    result = json.loads(out)
    assert result["status"] == "failed"
    assert "rows" not in result
    assert f"load table {table}, warehouses 1 to 1: " in result["error"]
    assert "the engine stored" in result["error"]
    assert result["error"] in err


def test_a_failure_stops_the_other_threads_early(loadgen_build: Path, tmp_path: Path) -> None:
    """The item table fails early in a load of thousands of warehouses."""
    connection = {"directory": str(tmp_path), "loses": "item"}
    process = start(loadgen_build, "record", connection, warehouses=5_000, threads=9)
    out, _ = process.communicate()
    assert process.returncode == 1
    assert "load table item" in json.loads(out)["error"]
    written = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert written < 50 * 70_000_000  # of 350 GB


def test_a_server_that_cannot_be_reached_fails_the_load(
    loadgen_build: Path, tmp_path: Path
) -> None:
    connection = {"directory": str(tmp_path / "nowhere")}
    process = start(loadgen_build, "record", connection, warehouses=1)
    out, _ = process.communicate()
    assert process.returncode == 1
    assert "nowhere" in json.loads(out)["error"]


def test_memory_does_not_grow_with_the_warehouses(loadgen_build: Path) -> None:
    peaks = {}
    for warehouses in (1, 5):
        process = start(loadgen_build, "stub", {}, warehouses, threads=2)
        assert process.stdout is not None
        result = json.loads(process.stdout.read())
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        process.communicate()
        assert result["rows"]["stock"] == 100_000 * warehouses
        peaks[warehouses] = used.ru_maxrss
    assert peaks[5] < 1.2 * peaks[1]
