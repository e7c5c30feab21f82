"""Two harnesses do not measure at the same time."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from narrowed import present
from patience import eventually

from harness.errors import RunFailed
from harness.execution import host_lock
from harness.execution.host_lock import Places, one_at_a_time
from harness.progress import SilentProgress
from harness.supervise.supervisor import Supervisor

LOCK = "tierbench-measuring.lock"
#: Holds the lock in the directory of its argument, prints a line, ends with its stdin.
HOLDER = """import pathlib, sys
from harness.execution.host_lock import Places, one_at_a_time
from harness.progress import SilentProgress
with one_at_a_time(SilentProgress(), places=Places([pathlib.Path(sys.argv[1])], None)):
    print(flush=True)
    sys.stdin.read()
"""


class Reports(SilentProgress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def shared(tmp_path):
    """A directory such as /run/lock."""
    tmp_path.chmod(0o1777)
    return tmp_path


def take(directory):
    with one_at_a_time(SilentProgress(), places=Places([directory], None)):
        pass


def test_the_second_waits_for_the_first_and_says_so(shared):
    reports, order = Reports(), []
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with one_at_a_time(SilentProgress(), places=Places([shared], None)):
            inside.set()
            leave.wait()
            order.append("first")

    def second() -> None:
        with one_at_a_time(reports, places=Places([shared], None)):
            order.append("second")

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    inside.wait()
    threads[1].start()
    while not reports.lines:
        time.sleep(0.01)
    leave.set()
    for thread in threads:
        thread.join()
    assert order == ["first", "second"]
    assert "waiting" in reports.lines[0]
    assert f"process {os.getpid()}" in reports.lines[0]  # who holds it


def test_all_users_take_the_directory_that_all_may_write_to(tmp_path, shared):
    """Root could write to the first as well, and would be alone with its lock there."""
    private = tmp_path / "private"
    private.mkdir(mode=0o755)
    with one_at_a_time(SilentProgress(), places=Places([private, shared], None)):
        assert (shared / LOCK).exists()
    assert not (private / LOCK).exists()


def test_other_users_can_lock_it_whatever_the_umask(shared):
    before = os.umask(0o077)
    try:
        take(shared)
    finally:
        os.umask(before)
    assert stat.S_IMODE((shared / LOCK).stat().st_mode) & 0o044 == 0o044


def test_a_link_is_not_followed(shared):
    secret = shared / "secret"
    secret.touch(mode=0o600)
    (shared / LOCK).symlink_to(secret)
    with pytest.raises(RunFailed):
        take(shared)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_a_second_name_of_a_file_of_ours_does_not_open_it_to_others(shared):
    secret = shared / "secret"
    secret.touch(mode=0o600)
    (shared / LOCK).hardlink_to(secret)
    take(shared)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "directory"])
def test_what_is_no_file_is_refused_at_once(shared, make):
    make(shared / LOCK)
    with pytest.raises(RunFailed):
        take(shared)


def test_a_lock_file_that_was_removed_is_made_again_by_all(shared):
    """Whoever waited for the removed one takes the new one, as those do that come later."""
    reports = Reports()
    with one_at_a_time(SilentProgress(), places=Places([shared], None)):
        waiting = threading.Thread(target=lambda: enter(reports, shared))
        waiting.start()
        while not reports.lines:
            time.sleep(0.01)
        (shared / LOCK).unlink()
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(shared)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        present(holder.stdout).readline()
    while len(reports.lines) < 2:
        time.sleep(0.01)
    assert f"process {holder.pid}" in reports.lines[1]
    holder.communicate()
    waiting.join()


def enter(progress, directory):
    with one_at_a_time(progress, places=Places([directory], None)):
        pass


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has a lock of its own")


@pytest.fixture
def places():
    """Those of root and of all users, who cannot enter pytest's directories."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        shared = Path(folder)
        shared.chmod(0o1777)
        (shared / "root").mkdir(mode=0o755)
        yield Places([shared], shared / "root")


@contextmanager
def held_by_user(path):
    """A lock that anybody can hold for ever."""
    command = ["flock", "--no-fork", path, "sh", "-c", "echo; exec sleep 1000"]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, user=65534)
    present(holder.stdout).readline()
    yield holder
    holder.kill()
    holder.communicate()


@needs_root
def test_no_other_user_can_open_the_lock_of_root(places):
    with one_at_a_time(SilentProgress(), places=places):
        pass
    done = subprocess.run(["flock", "-n", places.root / LOCK, "true"], user=65534, check=False)
    assert done.returncode != 0


@needs_root
def test_root_waits_for_a_user_for_a_limited_time(places, monkeypatch):
    monkeypatch.setenv("HARNESS_SILENCE", "lock=0.3")
    take_all(places)
    reports = Reports()
    with (
        held_by_user(places.shared[0] / LOCK) as holder,
        one_at_a_time(reports, places=places) as warnings,
    ):
        pass
    assert [warning.code for warning in warnings] == ["host-lock-held"]
    assert f"process {holder.pid}" in warnings[0].context


def take_all(places):
    with one_at_a_time(SilentProgress(), places=places) as warnings:
        assert warnings == []


@needs_root
def test_a_user_waits_for_root(places, monkeypatch):
    """The user cannot open root's lock file, and sees in /proc/locks that it is held."""
    take_all(places)
    reports, entered = Reports(), threading.Event()

    def user() -> None:
        with one_at_a_time(reports, places=places):
            entered.set()

    with (places.root / LOCK).open() as root:
        fcntl.flock(root, fcntl.LOCK_EX)
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
        waiting = threading.Thread(target=user)
        waiting.start()
        while not reports.lines:
            time.sleep(0.01)
        assert not entered.is_set()
    waiting.join()
    assert entered.is_set()
    assert f"process {os.getpid()}" in reports.lines[0]


def test_a_command_line_cannot_write_to_the_terminal(shared):
    escape = subprocess.Popen(["\x1b[2Jsleep", "1000"], executable="/bin/sleep")
    try:
        # Linux shows a process's arguments a moment after it has started the program.
        assert eventually(lambda: host_lock._command(escape.pid) != "")
        assert host_lock._command(escape.pid) == "?[2Jsleep 1000"
    finally:
        escape.kill()
        escape.wait()


def test_the_supervisor_keeps_the_lock_until_it_has_cleaned_up(shared, tmp_path):
    reports = Reports()
    with Supervisor(tmp_path / "state") as supervisor:
        with one_at_a_time(reports, supervisor.hold, Places([shared], None)):
            pass
        take(shared)  # held for no longer than the block
        descriptor = os.open(shared / LOCK, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        supervisor.hold(descriptor)
        os.close(descriptor)  # as kill -9 does
        with (shared / LOCK).open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    take(shared)
