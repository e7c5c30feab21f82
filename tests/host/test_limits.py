"""What this host has room for, against what connections need; limits set on a real process."""

from __future__ import annotations

import resource
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from harness.drivers.loadgen.driver import check_connections
from harness.errors import UsageError

SERVER: Any = SimpleNamespace(kind="managed", name="some server")


def test_more_users_than_the_host_has_tasks_are_refused_before_anything_is_loaded() -> None:
    with pytest.raises(UsageError, match="process or thread for each") as refused:
        check_connections(10_000_000, SERVER, {}, "users or connections")
    assert "users or connections" in refused.value.hint
    check_connections(10, SERVER, {}, "users or connections")


def test_open_files_are_those_of_one_client_process() -> None:
    """200 connections and 100 files: refused of one process, taken of four."""
    script = (
        "from types import SimpleNamespace as S; from harness.drivers.loadgen.driver import "
        "check_connections as c; import sys; "
        "c(200, S(kind='managed', name='x'), {}, 'users', int(sys.argv[1]))"
    )

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    def ends(clients: int) -> str:
        argv = [sys.executable, "-c", script, str(clients)]
        done = subprocess.run(argv, check=False, preexec_fn=lower, capture_output=True, text=True)
        return done.stderr if done.returncode else ""

    assert "100 open files (ulimit -n 100)" in ends(1)
    assert ends(4) == ""
