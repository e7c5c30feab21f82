"""Servers of another user find what the harness makes for them, whatever its umask."""

from __future__ import annotations

import json
import os

import pytest

#: Without any permission for others.
_UMASK = 0o077


@pytest.mark.slow
def test_a_managed_engine_runs_under_any_umask(harness):
    before = os.umask(_UMASK)
    try:
        process = harness.start("run", "tpch", "--engine", "postgres", "--placement", "ssd-both",
                                "--scale", "0.01", "--queries", "6", "--json", "-q")  # fmt: skip
    finally:
        os.umask(before)
    out, err = process.communicate()
    assert process.returncode == 0, err
    (run,) = json.loads(out)["runs"]
    assert run["status"] == "complete"
