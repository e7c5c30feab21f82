"""Processes that can no longer work are ended, and named with the phase of the run."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from narrowed import present
from patience import PATIENCE_S, eventually

from harness.errors import RunFailed, UsageError
from harness.supervise import silence
from harness.supervise.process import descendants, process_stat
from harness.supervise.silence import LIMITS, Watch, changed_limits, current_phase, limit_s, phase
from harness.supervise.supervisor import SupervisedProcess

#: A process in vfork(2): the state of one that waits for a device, without one.
BLOCKED = """
import os, sys
fifo = sys.argv[1]
actions = [(os.POSIX_SPAWN_OPEN, 0, fifo, os.O_RDONLY, 0)]
os.posix_spawn("/bin/true", ["true"], {}, file_actions=actions)
"""


def state_of(pid: int) -> str:
    stat = process_stat(pid)
    return stat.state if stat else ""


def first_of(watch: Watch) -> silence.Silence:
    return present(watch.found)


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    assert eventually(lambda: state_of(pid) == "T")


@pytest.fixture(autouse=True)
def at_rest(monkeypatch):
    """The tests look themselves, at times of their own."""
    monkeypatch.setattr(Watch, "_EVERY_S", PATIENCE_S)


@pytest.mark.parametrize(
    "text", ["statment=60", "start", "start=", "start=0", "start=-1", "start=nan", "start=soon"]
)
def test_an_invalid_limit_is_refused(monkeypatch, text):
    monkeypatch.setenv(silence.VARIABLE, text)
    with pytest.raises(UsageError):
        changed_limits()


def test_the_variable_changes_the_limits_that_it_names(monkeypatch):
    monkeypatch.setenv(silence.VARIABLE, "start=7,stop=0.5")
    assert (limit_s("start"), limit_s("stop")) == (7, 0.5)
    assert limit_s("connect") == LIMITS["connect"].seconds


def test_the_documented_table_is_that_of_the_code():
    page = (Path(__file__).parents[2] / "docs/silence.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| (.+?) \| ([\d,]+) s \| (.*?) \|$", page, re.MULTILINE)
    assert [(name, silent, float(seconds.replace(",", "")), option.replace("`", ""))
            for name, silent, seconds, option in rows] == [
        (name, limit.silent, limit.seconds, limit.option) for name, limit in LIMITS.items()
    ]  # fmt: skip


def test_phases_nest_and_follow_one_another():
    with phase("warm-up"):
        with phase("counters"):
            assert current_phase() == "counters"
        silence.enter("measure")
        assert current_phase() == "measure"
    assert current_phase() == "prepare"


@pytest.mark.parametrize("command", [["sleep", "1000"], ["sh", "-c", "sleep 1000 & wait"]])
def test_a_stopped_process_is_killed_at_its_limit(supervisor, command):
    process = supervisor.spawn(command)
    watch = Watch(supervisor.silence._supervisor, lambda: [process])
    below = [stat.id.pid for stat in descendants(process.pid)]
    while len(command) > 2 and not below:
        below = [stat.id.pid for stat in descendants(process.pid)]
    stopped = below[0] if below else process.pid
    stop(stopped)
    watch.look(0)
    watch.look(LIMITS["stopped"].seconds - 1)
    assert watch.found is None
    with phase("query"):
        watch.look(LIMITS["stopped"].seconds)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    found = first_of(watch)
    assert (found.phase, found.process.pid, found.limit) == ("query", stopped, "stopped")


def test_a_process_that_continues_in_time_is_left_alone(supervisor):
    process = supervisor.spawn(["sleep", "1000"])
    watch = Watch(supervisor.silence._supervisor, lambda: [process])
    stop(process.pid)
    watch.look(0)
    os.kill(process.pid, signal.SIGCONT)
    assert eventually(lambda: state_of(process.pid) == "S")
    watch.look(LIMITS["stopped"].seconds)
    stop(process.pid)
    watch.look(2 * LIMITS["stopped"].seconds)
    assert watch.found is None and process.poll() is None


def test_a_thread_that_waits_for_a_device_is_ended_at_its_limit(supervisor, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = supervisor.spawn([sys.executable, "-c", BLOCKED, str(fifo)])
    watch = Watch(supervisor.silence._supervisor, lambda: [process])
    assert eventually(lambda: state_of(process.pid) == "D")
    watch.look(0)
    watch.look(LIMITS["blocked"].seconds - 1)
    assert watch.found is None
    watch.look(2 * LIMITS["blocked"].seconds)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    assert first_of(watch).limit == "blocked"


def test_a_stopped_supervisor_is_killed_and_what_waits_for_it_fails(supervisor):
    server = supervisor.spawn(["sleep", "1000"])
    stop(supervisor.pid)
    watch = supervisor.silence

    def end() -> None:
        watch.look(0)
        watch.look(LIMITS["supervisor"].seconds)

    threading.Timer(0.1, end).start()
    with pytest.raises(RunFailed) as failed, watch.naming(), phase("stop"):
        supervisor.spawn(["true"])
    assert failed.value.problem == watch.found.failure().problem
    assert (watch.found.phase, watch.found.limit) == ("stop", "supervisor")
    assert eventually(lambda: process_stat(server.pid) is None)


class Unkillable:
    """A process that waits for a disk that is dead."""

    def __init__(self, identity):
        self.id = identity

    def kill(self):
        raise RunFailed("kill", "it does not die")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT interrupts, whatever handler the tests before this one have left."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_what_cannot_be_killed_is_not_waited_for(supervisor):
    process = supervisor.spawn(["sleep", "1000"])
    watch = Watch(
        supervisor.silence._supervisor, lambda: [cast(SupervisedProcess, Unkillable(process.id))]
    )
    stop(process.pid)
    watch.look(0)
    # Once this thread waits: an interruption while it starts another one may be lost.
    thread = threading.Timer(0.5, watch.look, (LIMITS["stopped"].seconds,))
    with pytest.raises(RunFailed) as failed, watch.naming():
        thread.start()
        threading.Event().wait(PATIENCE_S)
    watch.stop()
    thread.join()
    assert failed.value.problem == first_of(watch).failure().problem
    assert not first_of(watch).died


def test_another_failure_keeps_its_name(supervisor):
    with pytest.raises(RunFailed) as failed, supervisor.silence.naming():
        raise RunFailed("another", "failure")
    assert failed.value.problem == "another"
