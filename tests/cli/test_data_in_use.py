"""Two commands on the same data, and a tmpfs of one's own that stands in for PMem."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest

from harness.execution.host_lock import one_at_a_time
from harness.progress import SilentProgress

RUN = ["run", "tpch", "--engine", "duckdb", "--scale", "0.01", "--queries", "6"]


def test_data_are_not_removed_under_a_run(loaded):
    process = loaded.start(*RUN, "--placement", "ssd-both", "--repeats", "40")
    _stop_at_work(loaded, process)  # between two runs nobody would use them
    done = loaded("data", "rm", "--all", "--yes")
    process.send_signal(signal.SIGCONT)
    assert process.poll() is None, process.communicate()
    assert loaded.interrupt(process).code == 130
    assert done.code == 2
    assert "in use" in done.err
    kinds = {entry["kind"] for entry in loaded("data", "list", "--json").json["data"]}
    assert kinds == {"golden", "source"}


def test_the_host_is_locked_as_soon_as_a_run_has_files_on_a_tier(loaded):
    """Restoring and starting would be in the numbers of another harness."""
    process = loaded.start(*RUN, "--placement", "ssd-both", "--repeats", "40")
    _stop_at_work(loaded, process)
    messages: list[str] = []
    with pytest.raises(_Waits), one_at_a_time(_Asks(messages)):
        pass
    process.send_signal(signal.SIGCONT)
    assert loaded.interrupt(process).code == 130
    assert f"process {process.pid}" in messages[0]


def test_nothing_is_loaded_while_another_harness_measures(harness):
    with one_at_a_time(SilentProgress()):
        process = harness.start(*RUN, "--placement", "ssd-both")
        messages = next(line for line in process.stderr if "waiting" in line)
        assert f"process {os.getpid()}" in messages
        assert not [path for path in harness.data.rglob("*") if ".partial-" in path.name]
    _, errors = process.communicate()
    assert process.returncode == 0, errors


class _Waits(Exception):
    pass


class _Asks(SilentProgress):
    """Does not wait for the lock."""

    def __init__(self, messages):
        self.messages = messages

    def say(self, text):
        self.messages.append(text)
        raise _Waits


def _stop_at_work(loaded, process):
    """Stop a command while one of its runs has its data in place."""
    while process.poll() is None:
        if loaded.at_work():
            process.send_signal(signal.SIGSTOP)
            _wait_until_stopped(process.pid)
            if loaded.at_work():  # still
                return
            process.send_signal(signal.SIGCONT)
        time.sleep(0.02)
    raise AssertionError(process.communicate())


def _wait_until_stopped(pid):
    """A signal takes its time: what the process does now it does no longer behind this."""
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "TZ":
        time.sleep(0.001)


@pytest.fixture
def tmpfs_directory():
    path = Path(tempfile.mkdtemp(prefix="tierbench-test-", dir="/dev/shm"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def test_a_run_uses_the_tmpfs_it_was_told(loaded, tmpfs_directory):
    emulate = ("--placement", "pmem-both", "--emulate", f"pmem={tmpfs_directory}")
    done = loaded(*RUN, *emulate, "--json")
    run = done.run
    assert run["emulated"] == [{"tier": "pmem", "by": f"tmpfs at {tmpfs_directory}"}]
    assert run["spec"]["emulate"] == ["pmem"]
    assert list(tmpfs_directory.iterdir()) == []
