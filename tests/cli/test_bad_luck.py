"""What goes wrong under way: told with its reason, stored as failed, nothing left behind."""

from __future__ import annotations

import os
import random
import re
import signal
import time

import pytest
from patience import PATIENCE_S

POSTGRES = ["run", "tpch", "--engine", "postgres", "--scale", "0.01"]
YCSB = ["run", "ycsb", "--engine", "postgres", "--workload", "d", "--records", "1000"]


def test_a_server_that_does_not_start_shows_its_log(harness):
    done = harness(*POSTGRES, "--placement", "ssd-both", "--set", "shared_buffers=64TB")
    assert done.code in (1, 2), done.err
    assert "shared_buffers" in done.err + done.out
    assert "Traceback" not in done.err
    assert harness.settled() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")
@pytest.mark.parametrize("small_disk", ["2G"], indirect=True)
def test_a_disk_that_fills_up_half_way_fails_the_run_with_its_reason(harness, small_disk):
    """The space was there when it was checked; then somebody else took it, and records come in."""
    argv = [*YCSB, "--placement", "small-both", "--host", small_disk.host, "--ramp-up", "0s"]
    first = harness(*argv, "--operations", "10")
    assert first.code == 0, first.err
    process = harness.start(*argv, "--operations", "1000000", "--retries", "0")
    while process.poll() is None and not small_disk.used():
        time.sleep(0.005)
    small_disk.fill()
    _, err = process.communicate(timeout=PATIENCE_S)
    small_disk.free()
    assert process.returncode == 1, err
    # Of a block of which a part had room, PostgreSQL has other words.
    assert re.search(r"No space left|wrote only \d+ of \d+ bytes", err), err
    listed = harness("runs", "list", "--json").json
    assert sorted(run["status"] for run in listed["runs"]) == ["complete", "failed"]
    assert harness.settled() == []


def test_sigterm_ends_in_order_and_leaves_nothing(loaded):
    """As Ctrl-C does (test_tpcc.py, test_resume.py)."""
    before = loaded("runs", "list", "--json").json
    process = loaded.start(*POSTGRES, "--placement", "ssd-both", "--repeats", "50")
    while not loaded.at_work() and process.poll() is None:
        time.sleep(0.02)
    time.sleep(0.5)
    done = loaded.interrupt(process, signal.SIGTERM)
    assert done.code == 128 + signal.SIGTERM, done.err
    assert "Traceback" not in done.err
    assert loaded.settled() == []
    left = set(loaded("runs", "list", "--json").json["unfinished"]) - set(before["unfinished"])
    for name in left:  # finished steps are never lost, and it is said that they are kept
        assert f"{name}: " in done.err
        assert "finished steps are kept" in done.err
    assert loaded("runs", "rm", "--unfinished", "--yes").code == 0


def test_kill_9_at_random_moments_leaves_nothing_and_loses_nothing(loaded):
    """The bar of the design is 50 moments: HARNESS_TEST_KILLS=50 (a few here, for time)."""
    argv = [*POSTGRES, "--engine", "duckdb", "--placement", "ssd-data-pmem-wal",
            "--emulate", "pmem", "--queries", "6", "--memory-limit", "1GiB"]  # fmt: skip
    assert loaded(*argv).code == 0
    draw = random.Random(20231)
    for kill in range(int(os.environ.get("HARNESS_TEST_KILLS", "2"))):
        finished = {run["run_id"] for run in loaded("runs", "list", "--json").json["runs"]}
        if kill % 2 == 1:  # from time to time while the data are loaded, too
            loaded("data", "rm", "--all", "--yes")
        process = loaded.start(*argv)
        time.sleep(draw.uniform(0.2, 6))
        process.kill()
        process.communicate()
        assert loaded.settled() == [], f"kill {kill}"
        listed = loaded("runs", "list", "--json").json
        assert finished <= {run["run_id"] for run in listed["runs"]}
        for name in listed["unfinished"]:
            assert not (loaded.results / "runs" / name / "run.json").exists()
    assert loaded(*argv).code == 0
