"""``harness whatif``: a run whose delay varies, on a real engine, and what is refused before it."""

from __future__ import annotations

import pytest

WHATIF = ("whatif", "ycsb", "--records", "2000", "--workload", "a", "--ramp-up", "1s",
          "--engine", "rocksdb", "--placement", "ssd-both", "--set", "sync=true")  # fmt: skip
SYNC = ("--part", "wal", "--operation", "sync")
TPCC = ("whatif", "tpcc", "--placement", "ssd-both", *SYNC, "--engine")


def test_the_slope_of_log_syncs_is_stored_and_answers_further_questions(loaded):
    """Half of the operations are updates, each of which waits for one sync."""
    question = (*WHATIF, *SYNC, "--threads", "2", "--duration", "20s",
                "--levels", "10ms,20ms,40ms", "--json")  # fmt: skip
    done = loaded(*question, "--latency", "1ms")
    assert done.code == 0, done.err
    found = done.json
    assert found["slope"]["value"] > 0
    assert [level["planted_ns"] for level in found["levels"]] == [10**7, 2 * 10**7, 4 * 10**7]
    assert all(level["delay_ns"] >= level["planted_ns"] for level in found["levels"])
    assert found["prediction"]["device_call_ns"] == 1_000_000
    assert "-PLANTED-" in found["run_id"]
    shown = loaded("runs", "show", found["run_id"], "--json").json["run"]
    slopes = {m["name"]: m["value"] for m in shown["metrics"] if m["name"].startswith("whatif")}
    assert slopes["whatif_slope"] == found["slope"]["value"]
    again = loaded(*question, "--latency", "2ms")
    assert again.json["run_id"] == found["run_id"]
    elsewhere = loaded(*question, "--like-tier", "pmem")
    assert elsewhere.code == 2  # nothing has measured that tier


@pytest.mark.parametrize(
    "argv",
    [
        (*WHATIF, "--part", "wal"),
        (*WHATIF, *SYNC, "--which-part-first"),
        (*WHATIF, *SYNC, "--latency", "2us", "--like-tier", "pmem"),
        (*WHATIF, "--part", "temp", "--operation", "read"),
        (*WHATIF, *SYNC, "--levels", "200us"),
        (*TPCC, "postgres", "--test", "durability"),
        (*TPCC, "voltdb"),
    ],
)
def test_what_cannot_be_asked_is_refused(harness, argv):
    done = harness(*argv, "--duration", "20s", "--dry-run")
    assert done.code == 2, done.err


def test_a_dry_run_for_all_operations_says_how_many_runs_may_follow(harness):
    """Which operations are varied is decided by the run without delays."""
    done = harness(*WHATIF, "--which-part-first", "--duration", "20s", "--dry-run", "--json")
    assert done.code == 0, done.err
    assert len(done.json["plan"]) == 1 and done.json["follow_at_most"] == 12
