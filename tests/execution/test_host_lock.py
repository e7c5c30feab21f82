"""Two harnesses do not measure at the same time."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time

import pytest

from harness.errors import RunFailed
from harness.execution.host_lock import one_at_a_time
from harness.progress import SilentProgress

LOCK = "tierbench-measuring.lock"
#: Holds the lock in the directory of its argument, prints a line, ends with its stdin.
HOLDER = """import pathlib, sys
from harness.execution.host_lock import one_at_a_time
from harness.progress import SilentProgress
with one_at_a_time(SilentProgress(), [pathlib.Path(sys.argv[1])]):
    print(flush=True)
    sys.stdin.read()
"""


class Told(SilentProgress):
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
    with one_at_a_time(SilentProgress(), [directory]):
        pass


def test_the_second_waits_for_the_first_and_says_so(shared):
    told, order = Told(), []
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with one_at_a_time(SilentProgress(), [shared]):
            inside.set()
            leave.wait()
            order.append("first")

    def second() -> None:
        with one_at_a_time(told, [shared]):
            order.append("second")

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    inside.wait()
    threads[1].start()
    while not told.lines:
        time.sleep(0.01)
    leave.set()
    for thread in threads:
        thread.join()
    assert order == ["first", "second"]
    assert "waiting" in told.lines[0]
    assert f"process {os.getpid()}" in told.lines[0]  # who holds it


def test_all_users_take_the_directory_that_all_may_write_to(tmp_path, shared):
    """Root could write to the first as well, and would be alone with its lock there."""
    private = tmp_path / "private"
    private.mkdir(mode=0o755)
    with one_at_a_time(SilentProgress(), [private, shared]):
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
    told = Told()
    with one_at_a_time(SilentProgress(), [shared]):
        waiting = threading.Thread(target=lambda: enter(told, shared))
        waiting.start()
        while not told.lines:
            time.sleep(0.01)
        (shared / LOCK).unlink()
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(shared)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        holder.stdout.readline()
    while len(told.lines) < 2:
        time.sleep(0.01)
    assert f"process {holder.pid}" in told.lines[1]
    holder.communicate()
    waiting.join()


def enter(progress, directory):
    with one_at_a_time(progress, [directory]):
        pass
