"""What this host has room for, against what connections need; limits set on a real process."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.drivers.loadgen.driver import check_connections
from harness.errors import UsageError
from harness.host import limits
from harness.host.limits import room_for_files, room_for_tasks, room_to_commit
from harness.tiers.linux.kernel import Kernel

SERVER: Any = SimpleNamespace(kind="managed", name="some server")


def test_there_is_no_more_room_than_the_kernel_has_numbers() -> None:
    found = room_for_tasks()
    assert found is not None
    assert 0 < found[0] < int(Path("/proc/sys/kernel/pid_max").read_text())


def test_more_users_than_the_host_has_tasks_are_refused_before_anything_is_loaded() -> None:
    with pytest.raises(UsageError, match="process or thread for each") as refused:
        check_connections(10_000_000, SERVER, {}, "users or connections")
    assert "users or connections" in refused.value.hint
    check_connections(10, SERVER, {}, "users or connections")


def test_a_server_of_the_users_has_tasks_elsewhere_and_its_client_files_here() -> None:
    external: Any = SimpleNamespace(kind="external", name="some server")
    soft = room_for_files()
    if soft is None or soft[0] > 10_000_000:
        check_connections(10_000_000, external, {}, "users")
        return
    with pytest.raises(UsageError, match="ulimit -n"):
        check_connections(10_000_000, external, {}, "users")


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


@pytest.mark.parametrize(
    ("mode", "committed_kb", "room"),
    [
        (0, 1_000, None),
        (1, 1_000, None),
        (2, 0, 16 << 30),
        (2, 3 << 20, 13 << 30),
        (2, 20 << 20, 0),
    ],
)
def test_without_overcommitment_the_commit_limit_is_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, committed_kb: int, room: int | None
) -> None:
    (tmp_path / "proc/sys/vm").mkdir(parents=True)
    (tmp_path / "proc/sys/vm/overcommit_memory").write_text(f"{mode}\n")
    (tmp_path / "proc/meminfo").write_text(
        f"MemTotal: {32 << 20} kB\nCommitLimit: {16 << 20} kB\nCommitted_AS: {committed_kb} kB\n"
    )
    monkeypatch.setattr(limits, "LIVE", Kernel(tmp_path))
    assert room_to_commit() == room
