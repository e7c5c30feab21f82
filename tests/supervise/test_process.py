"""Processes named by pid and start time."""

import os
import signal
import subprocess
import time

import pytest
from narrowed import present
from patience import PATIENCE_S, eventually

from harness.supervise.process import (
    ProcessId,
    alive,
    descendants,
    kill_all,
    process_identity,
    process_stat,
    send_signal,
)


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def test_identity_is_pid_and_start_time(sleeper):
    identity = present(process_identity(sleeper.pid))
    assert alive(identity)
    assert present(process_stat(sleeper.pid)).parent == os.getpid()
    assert not alive(ProcessId(sleeper.pid, identity.start_ticks + 1))
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")
    assert 0 < identity.start_ticks <= since_boot + 1


def test_a_zombie_is_not_alive(sleeper):
    identity = present(process_identity(sleeper.pid))
    sleeper.kill()
    assert eventually(lambda: not alive(identity))
    sleeper.wait()
    assert process_identity(sleeper.pid) is None


def test_a_signal_never_hits_the_next_owner_of_a_pid(sleeper):
    identity = present(process_identity(sleeper.pid))
    earlier = ProcessId(sleeper.pid, identity.start_ticks - 1)
    assert send_signal(earlier, signal.SIGKILL) is False
    assert sleeper.poll() is None
    assert send_signal(identity, signal.SIGKILL) is True
    assert sleeper.wait() == -signal.SIGKILL
    assert send_signal(identity, signal.SIGKILL) is False


def test_what_is_found_is_killed_although_the_time_is_over(sleeper):
    """As where the machine stands still between looking for them and killing them."""

    def found():
        return [stat for stat in [process_stat(sleeper.pid)] if stat is not None]

    kill_all(found, timeout_s=-1.0)
    assert sleeper.wait(PATIENCE_S) == -signal.SIGKILL


def test_a_name_with_parentheses_does_not_confuse(tmp_path):
    program = tmp_path / ") R 1 (x"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "1000"])
    try:
        assert present(process_stat(process.pid)).parent == os.getpid()
    finally:
        process.kill()
        process.wait()


def test_descendants_are_found_at_every_depth():
    process = subprocess.Popen(["sh", "-c", "sh -c 'sleep 1000; :' & wait"], start_new_session=True)
    try:
        assert eventually(lambda: len(descendants(process.pid)) == 2)
        assert process.pid in [stat.id.pid for stat in descendants(os.getpid())]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
