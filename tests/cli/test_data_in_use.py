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
    while not list(loaded.data.glob("tiers/ssd/tierbench-work/*/*")) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGSTOP)  # between two runs nobody would use them
    done = loaded("data", "rm", "--all", "--yes")
    process.send_signal(signal.SIGCONT)
    assert process.poll() is None, process.communicate()
    assert loaded.interrupt(process).code == 130
    assert done.code == 2
    assert "in use" in done.err
    kinds = {entry["kind"] for entry in loaded("data", "list", "--json").json["data"]}
    assert kinds == {"golden", "source"}


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
