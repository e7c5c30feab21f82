"""When RocksDB flushed and compacted, from its info log."""

from __future__ import annotations

import json

from engines.rocksdb.background import background_tasks

#: The wall clock, ahead of the monotonic one by AHEAD.
BEGAN_US, AHEAD, S = 1_700_000_000_000_000, 1_699_999_000 * 10**9, 10**9


def event(at_s: float, name: str, job: int) -> str:
    text = json.dumps({"time_micros": BEGAN_US + round(at_s * 1e6), "job": job, "event": name})
    return f"2023/11/14-22:13:20.000000 140 EVENT_LOG_v1 {text}\n"


def test_jobs_that_overlap_are_one_time_at_work() -> None:
    log = "".join([
        event(1, "compaction_started", 1),
        event(2, "compaction_started", 2),
        event(2, "flush_started", 3),
        event(3, "compaction_finished", 1),
        event(4, "flush_finished", 3),
        event(5, "compaction_finished", 2),
        event(7, "compaction_started", 4),
        event(8, "compaction_finished", 4),
    ])  # fmt: skip
    assert background_tasks(log, AHEAD, 0) == {
        "flush": [(1002 * S, 1004 * S)],
        "compaction": [(1001 * S, 1005 * S), (1007 * S, 1008 * S)],
    }


def test_a_job_that_did_not_end_lasts_until_the_database_was_closed() -> None:
    log = event(1, "flush_started", 1)
    assert background_tasks(log, AHEAD, 1009 * S) == {"flush": [(1001 * S, 1009 * S)]}
