"""Two commands on the same data, and a tmpfs of one's own that stands in for PMem."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest

RUN = ["run", "tpch", "--engine", "duckdb", "--scale", "0.01", "--queries", "6"]


def test_data_are_not_removed_under_a_run(loaded):
    process = loaded.start(*RUN, "--placement", "ssd-both", "--repeats", "200")
    _stop_at_work(loaded, process)  # between two runs nobody would use them
    done = loaded("data", "rm", "--all", "--yes")
    process.send_signal(signal.SIGCONT)
    assert process.poll() is None, process.communicate()
    assert loaded.interrupt(process).code == 130
    assert done.code == 2
    assert "in use" in done.err
    kinds = {entry["kind"] for entry in loaded("data", "list", "--json").json["data"]}
    assert kinds == {"golden", "source"}


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
    assert done.code == 0, done.err
    (run,) = done.json["runs"]
    assert run["emulated"] == [{"tier": "pmem", "by": f"tmpfs at {tmpfs_directory}"}]
    assert run["spec"]["emulate"] == ["pmem"]
    assert list(tmpfs_directory.iterdir()) == []
