"""Servers of another user find what the harness makes for them, whatever its umask."""

from __future__ import annotations

import os

import pytest

#: Without any permission for others.
_UMASK = 0o077


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgres", "mariadb", "duckdb"])
def test_a_managed_server_runs_under_any_umask(harness, engine):
    before = os.umask(_UMASK)
    try:
        done = harness("run", "tpch", "--engine", engine, "--placement", "ssd-both",
                       "--scale", "0.01", "--queries", "6", "--json", "--quiet")  # fmt: skip
    finally:
        os.umask(before)
    assert done.code == 0, done.err
    (run,) = done.json["runs"]
    assert run["status"] == "complete"
