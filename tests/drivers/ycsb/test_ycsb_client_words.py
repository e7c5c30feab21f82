"""What the client says, and what is made of it: lines that the real one has said."""

from __future__ import annotations

import pytest
from narrowed import present

from harness.drivers.ycsb.output_parser import Words

STATUS = (
    "2026-11-21 17:18:18:351 2 sec: 728 operations; 336.86 current ops/sec; est completion in "
    "71 days 1 hour [READ: Count=434, Max=64735, Min=10, Avg=798.25, 90=104, 99=40319]"
)
HARMLESS = [
    "Command line: -t -s -P client.properties",
    "YCSB Client 0.17.0",
    "Loading workload...",
    "DBWrapper: report latency for each error is true and specific error codes to track for "
    "latency are: []",
    "Maximum execution time specified as: 6 secs",
    "Maximum time elapsed. Requesting stop for the workload.",
    "SLF4J: Failed to load class org.slf4j.impl.StaticLoggerBinder",
]
FAILURES = [
    "site.ycsb.DBException: java.sql.SQLException: no",
    "java.lang.NumberFormatException: null",
    'Exception in thread "main" java.lang.UnsatisfiedLinkError: no such library',
    "org.rocksdb.RocksDBException: No space left on device",
    "Unknown DB tierbench.ycsb.Nothing",
    "Error initializing datastore bindings.",
    "Error: Could not find or load main class tierbench.ycsb.Main",
    "Error inserting, not retrying any more. number of attempts: 1Insertion Retry Limit: 0",
]


def test_a_status_line_tells_its_moment_and_the_operations_so_far():
    tick = present(Words().read_line(STATUS))
    assert tick.operations == 728
    assert tick.at_ms % 60_000 == 18_351
    assert tick.at_ms // 86_400_000 == 20_778  # days from 1970 to that one


@pytest.mark.parametrize("line", FAILURES)
def test_the_first_line_that_tells_of_a_failure_is_kept(line):
    words = Words()
    words.read_line(HARMLESS[0])
    words.read_line(line)
    words.read_line("java.lang.RuntimeException: another one")
    assert words.failure == line
    on_stdout = Words()
    on_stdout.read_result(line)
    assert on_stdout.failure == line


def test_bindings_tell_failures_retries_clocks_and_counters():
    words = Words()
    words.read_line('tierbench: counters begin {"tickers": "a COUNT : 1\\u000a"}')
    words.read_line("tierbench: clock begin 1795281137154 38872169491624")
    words.read_line("tierbench: retried update 40001")
    words.read_line("tierbench: retried read 40001")
    assert words.counters["begin"] == {"tickers": "a COUNT : 1\n"}
    assert words.clocks["begin"] == (1795281137154, 38872169491624)
    assert words.retried == {"40001": 2}
    assert not words.ended
    words.read_line("tierbench: failed read: the connection is gone")
    words.read_line("tierbench: ended ")
    assert words.failure == "read: the connection is gone"
    assert words.ended


def test_results_are_counts_by_group_and_name():
    words = Words()
    for line in (
        "[OVERALL], RunTime(ms), 6299",
        "[OVERALL], Throughput(ops/sec), 1535.48",
        "[READ], Return=OK, 5838",
        "[READ], Return=NOT_FOUND, 2",
        "Warning: the threadcount is bigger than recordcount, the threadcount will be recordcount!",
    ):
        words.read_result(line)
    assert words.results["OVERALL", "RunTime(ms)"] == 6299
    assert words.total("READ", "Return=NOT_FOUND") == 2
    assert words.total("SCAN", "Return=OK") == 0
    assert words.fewer_threads
