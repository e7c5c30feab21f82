"""Output of the official client, and the result of it: the window, nothing else."""

import base64
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from narrowed import present

from harness import hdr
from harness.drivers.ycsb.client import Done, properties_text
from harness.drivers.ycsb.metrics import measured
from harness.drivers.ycsb.output_parser import (
    STORED,
    StatusInterval,
    Tick,
    YcsbOutput,
    length_ms,
    read_logs,
    stored,
)
from harness.errors import RunFailed
from harness.hdr import Histogram, Layout
from harness.workloads.ycsb import properties

LAYOUT = Layout(1, 131_071, 3)
#: Status lines a second apart, the third one late; each second's operations by measurement.
LINES = [1_000, 2_000, 3_400, 4_000, 5_000]
SECONDS = {
    "READ": [10, 20, 30, 40],
    "READ-NOT_FOUND": [0, 0, 1, 0],
    "UPDATE": [5, 6, 7, 8],
    "READ-MODIFY-WRITE": [5, 6, 7, 8],
}


def interval(begin_ms: int, end_ms: int, count: int, value_us: int = 50) -> StatusInterval:
    counts = np.zeros(LAYOUT.counters, dtype=np.int64)
    counts[value_us] = count
    return StatusInterval(begin_ms, end_ms, Histogram(LAYOUT, counts))


def log(counts, behind_ms: int, value_us: int) -> list[StatusInterval]:
    """An interval ends shortly after its status line, and the last two with the client."""
    ends = [line + behind_ms for line in LINES]
    intervals = [interval(ends[0] - 900, ends[0], 3, value_us)]
    for i, count in enumerate(counts):
        intervals.append(interval(ends[i], ends[i + 1], count, value_us))
    ended = ends[-1] + 700
    return [*intervals, interval(ends[-1], ended, 1000, value_us), interval(ended, ended + 5, 1)]


def done(**more) -> Done:
    logs = {name: log(counts, i, 50) for i, (name, counts) in enumerate(SECONDS.items())}
    intended = {f"Intended-{name}": log(counts, 4, 500) for name, counts in SECONDS.items()}
    ticks = [Tick(at_ms, 100 * (i + 1)) for i, at_ms in enumerate([*LINES, 5_690])]
    clocks = ((2_001, 7_001_000_000), (5_002, 10_002_000_000))
    result = Done(YcsbOutput(), ticks, 1, 4, clocks, 12, {**logs, **intended}, {}, ({}, {}))
    return replace(result, **more)


def of(given: Done, asked=("read", "read_modify_write"), target=None, bounded=True):
    return measured(given, asked, target, bounded)


def test_the_window_is_made_of_the_seconds_between_its_two_lines():
    result = of(done())
    assert result.window_ns == 3_000_000_000
    # The client measures the halves of a pair too: 20 + 30 + 40 reads, 21 of them halves.
    assert result.operations["read"].count == 90 + 1 - 21
    assert result.operations["read"].not_found_count == 1
    assert result.operations["read_modify_write"].count == 21
    assert set(result.operations) == {"read", "read_modify_write"}
    latencies = hdr.decode(result.operations["read"].latency_hdr)
    assert latencies.total == 91
    assert latencies.percentile(50) == pytest.approx(50_500, rel=0.01)


def test_the_series_begins_its_seconds_on_our_clock_and_adds_up_to_the_window():
    result = of(done())
    assert [second.monotonic_ns for second in result.series] == [
        7_000_000_000, 8_400_000_000, 9_000_000_000,
    ]  # fmt: skip
    assert [second.counts for second in result.series] == [
        {"read": 14, "read_modify_write": 6},
        {"read": 24, "read_modify_write": 7},
        {"read": 32, "read_modify_write": 8},
    ]
    for name, operation in result.operations.items():
        assert sum(second.counts[name] for second in result.series) == operation.count


def test_percentiles_over_time_are_of_the_seconds_of_the_series():
    result = of(done(), target=200)
    assert [latency.monotonic_ns for latency in result.latencies] == [
        second.monotonic_ns for second in result.series
    ]
    reads = [latency.operations["read"] for latency in result.latencies]
    assert [read.count for read in reads] == [20, 31, 40]  # those that found nothing, too
    for read in reads:
        assert read.p50_ns == read.p99_ns == pytest.approx(500_500, rel=0.01)


def test_a_long_window_has_as_many_percentiles_as_a_chart_can_show(monkeypatch):
    monkeypatch.setattr("harness.drivers.result.MOST_LATENCIES", 2)
    first, second = of(done()).latencies
    assert (first.monotonic_ns, second.monotonic_ns) == (7_000_000_000, 9_000_000_000)
    assert [latency.operations["read"].count for latency in (first, second)] == [51, 40]


def test_intervals_belong_to_lines_by_their_order_however_late_they_are_closed():
    """One histogram is closed 700 ms after the others, which is after the next line, too."""
    plain = done()
    result = of(done(logs={**plain.logs, "READ-MODIFY-WRITE": log([5, 6, 7, 8], 700, 50)}))
    assert result.operations["read_modify_write"].count == 21
    assert result.operations["read"].count == 90 + 1 - 21
    assert result.ends_apart_ns == 0  # each of its seconds began as late as it ended
    late = [*plain.logs["READ-MODIFY-WRITE"]]
    late[4] = interval(late[4].begin_ms, late[4].end_ms + 300, 8)
    result = of(done(logs={**plain.logs, "READ-MODIFY-WRITE": late}))
    assert result.operations["read_modify_write"].count == 21
    assert result.ends_apart_ns == 300_000_000


def test_more_intervals_than_status_lines_fail_the_run():
    plain = done()
    with pytest.raises(RunFailed, match="8 intervals"):
        of(done(logs={**plain.logs, "READ": [interval(0, 1, 1), *plain.logs["READ"]]}))


def test_with_a_rate_latencies_are_the_intended_ones_and_what_is_due_is_told():
    result = of(done(), target=200)
    latencies = hdr.decode(result.operations["read"].latency_hdr)
    assert latencies.percentile(50) == pytest.approx(500_500, rel=0.01)
    assert result.offered_count == 600
    # Since the first interval began, at 100 ms: 380 due and 200 done, 980 due and 500 done.
    assert result.backlog_count == (180, 480)


def test_without_a_bound_in_time_everything_is_measured():
    words = YcsbOutput(results={("OVERALL", "RunTime(ms)"): 5_600.0})
    result = of(done(words=words), bounded=False)
    assert result.window_ns == 5_600_000_000
    pairs = result.operations["read_modify_write"].count
    assert pairs == 3 + 26 + 1001
    assert result.operations["read"].count == 3 + 100 + 1001 + (3 + 1 + 1001) - pairs


def test_a_clock_that_was_set_in_the_window_fails_the_run():
    with pytest.raises(RunFailed, match=r"-1\.500 s astray"):
        of(done(clocks=((2_001, 7_001_000_000), (3_502, 10_002_000_000))))


def test_how_late_its_counters_were_read_is_known():
    assert done().late_ns == 2_000_000
    late = ((2_001, 7_001_000_000), (5_700, 10_700_000_000))
    assert done(clocks=late).late_ns == 700_000_000


# Lines that the real client has said ------------------------------------------------

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
    tick = present(YcsbOutput().read_line(STATUS))
    assert tick.operations == 728
    assert tick.at_ms % 60_000 == 18_351
    assert tick.at_ms // 86_400_000 == 20_778  # days from 1970 to that one


@pytest.mark.parametrize("line", FAILURES)
def test_the_first_line_that_tells_of_a_failure_is_kept(line):
    words = YcsbOutput()
    words.read_line(HARMLESS[0])
    words.read_line(line)
    words.read_line("java.lang.RuntimeException: another one")
    assert words.failure == line
    on_stdout = YcsbOutput()
    on_stdout.read_result(line)
    assert on_stdout.failure == line


def test_bindings_tell_failures_retries_clocks_and_counters():
    words = YcsbOutput()
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
    words = YcsbOutput()
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


# Histogram logs that HdrHistogram itself has written, in the client's release of it ---


@pytest.fixture
def logs(java, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    lines = java("Histograms", {}, folder / "READ.hdr")
    return folder, lines


def test_intervals_and_percentiles_are_those_that_were_written(logs):
    folder, (total, *percentiles) = logs
    intervals = read_logs(folder)["READ"]
    assert [interval.count for interval in intervals] == [5000, 0, 3]
    assert [(interval.begin_ms, interval.end_ms) for interval in intervals] == [
        (1_000_000, 1_001_000), (1_001_000, 1_002_500), (1_002_500, 1_003_000),
    ]  # fmt: skip
    assert length_ms([intervals[:2], intervals[2:]]) == 2500
    latencies = hdr.decode(stored(intervals))
    assert latencies.layout == STORED
    assert latencies.total == int(total) == 5003
    for line in percentiles:
        percentile, us = map(float, line.split())
        # What is told as n microseconds was cut off, and lies between n and n + 1.
        assert us * 1000 <= latencies.percentile(percentile) <= (us + 1) * 1000 * 1.002, line
    assert latencies.max == pytest.approx(60e9, rel=2e-3)


def test_a_highest_value_of_before_the_last_growth_does_not_matter(logs):
    """Two threads that let a histogram grow at the same time leave it like this."""
    folder, _ = logs
    before = read_logs(folder)["READ"]
    log = folder / "READ.hdr"
    lines = log.read_text().splitlines()
    *told, encoded = lines[-1].split(",")
    envelope, deflated = base64.b64decode(encoded)[:4], base64.b64decode(encoded)[8:]
    plain = bytearray(zlib.decompress(deflated))
    assert struct.unpack_from(">Q", plain, 24)[0] >= 60_000_000
    struct.pack_into(">Q", plain, 24, 4095)
    deflated = zlib.compress(bytes(plain))
    changed = base64.b64encode(envelope + struct.pack(">I", len(deflated)) + deflated).decode()
    log.write_text("\n".join([*lines[:-1], ",".join([*told, changed])]) + "\n")
    after = read_logs(folder)["READ"]
    assert [interval.count for interval in after] == [5000, 0, 3]
    assert stored(after) == stored(before)


def test_a_log_that_was_cut_off_fails_the_run(logs):
    folder, _ = logs
    log = folder / "READ.hdr"
    text = log.read_text()
    log.write_text(text[: len(text) - 40])
    with pytest.raises(RunFailed, match=r"READ\.hdr:"):
        read_logs(folder)


def test_nothing_measured_is_an_empty_histogram():
    assert hdr.decode(stored([])).total == 0
    assert length_ms([]) == 0


# Property files that we write, read by Java itself ----------------------------------

GIVEN = {
    "plain": "words with = and : and # and !",
    "with space": " leading and trailing ",
    "jdbc.with.password": "p\\q=é€😀\tand\nmore",
    "rocksdb.cf_option.block_based_table_factory": "{block_cache=64M;filter_policy=bloomfilter:10}",
    "!odd": "#",
    "empty": "",
    "truth": True,
    "number": 2147483647,
    "share": 0.05,
    "left.out": None,
}
READ = {
    **{n: v for n, v in GIVEN.items() if isinstance(v, str)},
    "truth": "true", "number": "2147483647", "share": "0.05",
}  # fmt: skip


def test_java_reads_what_was_given(java):
    told = dict(line.split(" ", 1) for line in java("Told", GIVEN))
    assert {bytes.fromhex(n).decode("utf-16-be"): bytes.fromhex(v).decode("utf-16-be", "replace")
            for n, v in told.items()} == READ  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_our_own_reader_reads_it_too(name, tmp_path):
    file = tmp_path / "given.properties"
    file.write_text(properties_text(GIVEN))
    values = properties.read(file)
    # It does not put the halves of a character beyond 16 bits together.
    assert values[name].encode("utf-16-be", "surrogatepass") == READ[name].encode("utf-16-be")
    assert values.keys() == READ.keys()
