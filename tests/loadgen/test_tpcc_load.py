"""Loading in parallel: what fails ends it with its reason, and it needs little memory."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ycsb_store import execute


def spec(
    backend: str, connection: dict[str, Any], warehouses: int, threads: int = 4
) -> dict[str, Any]:
    return {
        "schema": 1,
        "task": "load",
        "backend": backend,
        "connection": connection,
        "workload": {"name": "tpcc", "params": {"warehouses": warehouses, "data_seed": 7}},
        "threads": threads,
    }


@pytest.mark.parametrize("table", ["stock", "item", "warehouse"])
def test_rows_that_the_server_has_not_stored_fail_the_load(
    loadgen_build: Path, tmp_path: Path, table: str
) -> None:
    connection = {"directory": str(tmp_path), "loses": table}
    _, result = execute(loadgen_build / "loadgen", spec("record", connection, 1))
    assert result["status"] == "failed"
    assert "rows" not in result
    assert f"load table {table}, warehouses 1 to 1: " in result["error"]


def test_a_failure_stops_the_other_threads_early(loadgen_build: Path, tmp_path: Path) -> None:
    """The item table fails early in a load of thousands of warehouses."""
    connection = {"directory": str(tmp_path), "loses": "item"}
    many = spec("record", connection, warehouses=5_000, threads=9)
    status, result = execute(loadgen_build / "loadgen", many)
    assert status == 1
    assert "load table item" in result["error"]
    written = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert written < 50 * 70_000_000  # of 350 GB


def test_memory_does_not_grow_with_the_warehouses(loadgen_build: Path) -> None:
    peaks = {}
    for warehouses in (1, 5):
        process = subprocess.Popen(
            [loadgen_build / "loadgen", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None and process.stdout is not None
        given = spec("stub", {}, warehouses, threads=2)
        process.stdin.write(json.dumps(given).encode())
        process.stdin.close()
        result = json.loads(process.stdout.read())
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        assert result["rows"]["stock"] == 100_000 * warehouses
        peaks[warehouses] = used.ru_maxrss
    assert peaks[5] < 1.2 * peaks[1]
