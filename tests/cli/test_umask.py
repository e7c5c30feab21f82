"""Servers of another user find what the harness makes for them, whatever its umask."""

from __future__ import annotations

import json
import os

import pytest

#: Without any permission for others.
_UMASK = 0o077


#: A server, and an engine in the native client's process (others: engines/test_lifecycle.py).
RUNS = {
    "postgres": ("tpch", "--scale", "0.01", "--queries", "6"),
    "rocksdb": ("ycsb", "-p", "recordcount=1000", "--operations", "1000", "--ramp-up", "0s"),
}


@pytest.mark.slow
@pytest.mark.parametrize("engine", RUNS)
def test_a_managed_engine_runs_under_any_umask(harness, engine):
    before = os.umask(_UMASK)
    try:
        process = harness.start("run", *RUNS[engine], "--engine", engine,
                                "--placement", "ssd-both", "--json", "-q")  # fmt: skip
    finally:
        os.umask(before)
    out, err = process.communicate()
    assert process.returncode == 0, err
    (run,) = json.loads(out)["runs"]
    assert run["status"] == "complete"
