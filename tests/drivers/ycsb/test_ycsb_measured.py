"""What is made of status lines and intervals of histograms: the window, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness import hdr
from harness.drivers.ycsb.client import Done
from harness.drivers.ycsb.metrics import measured
from harness.drivers.ycsb.output_parser import Interval, Tick, Words
from harness.errors import RunFailed
from harness.hdr import Histogram, Layout

LAYOUT = Layout(1, 131_071, 3)
#: Status lines a second apart, the third one late; each second's operations by measurement.
LINES = [1_000, 2_000, 3_400, 4_000, 5_000]
SECONDS = {
    "READ": [10, 20, 30, 40],
    "READ-NOT_FOUND": [0, 0, 1, 0],
    "UPDATE": [5, 6, 7, 8],
    "READ-MODIFY-WRITE": [5, 6, 7, 8],
}


def interval(begin_ms: int, end_ms: int, count: int, value_us: int = 50) -> Interval:
    counts = np.zeros(LAYOUT.counters, dtype=np.int64)
    counts[value_us] = count
    return Interval(begin_ms, end_ms, Histogram(LAYOUT, counts))


def log(counts, behind_ms: int, value_us: int) -> list[Interval]:
    """An interval ends a little behind its status line, and the last two with the client."""
    ends = [line + behind_ms for line in LINES]
    found = [interval(ends[0] - 900, ends[0], 3, value_us)]
    for i, count in enumerate(counts):
        found.append(interval(ends[i], ends[i + 1], count, value_us))
    ended = ends[-1] + 700
    return [*found, interval(ends[-1], ended, 1000, value_us), interval(ended, ended + 5, 1)]


def done(**more) -> Done:
    logs = {name: log(counts, i, 50) for i, (name, counts) in enumerate(SECONDS.items())}
    intended = {f"Intended-{name}": log(counts, 4, 500) for name, counts in SECONDS.items()}
    ticks = [Tick(at_ms, 100 * (i + 1)) for i, at_ms in enumerate([*LINES, 5_690])]
    clocks = ((2_001, 7_001_000_000), (5_002, 10_002_000_000))
    found = Done(Words(), ticks, 1, 4, clocks, 12, {**logs, **intended}, {}, ({}, {}))
    return replace(found, **more)


def of(given: Done, asked=("read", "read_modify_write"), target=None, bounded=True):
    return measured(given, asked, target, bounded)


def test_the_window_is_made_of_the_seconds_between_its_two_lines():
    found = of(done())
    assert found.window_ns == 3_000_000_000
    # The client measures the halves of a pair too: 20 + 30 + 40 reads, 21 of them halves.
    assert found.operations["read"].count == 90 + 1 - 21
    assert found.operations["read"].not_found_count == 1
    assert found.operations["read_modify_write"].count == 21
    assert set(found.operations) == {"read", "read_modify_write"}
    latencies = hdr.decode(found.operations["read"].latency_hdr)
    assert latencies.total == 91
    assert latencies.percentile(50) == pytest.approx(50_500, rel=0.01)


def test_the_series_begins_its_seconds_on_our_clock_and_adds_up_to_the_window():
    found = of(done())
    assert [second.monotonic_ns for second in found.series] == [
        7_000_000_000, 8_400_000_000, 9_000_000_000,
    ]  # fmt: skip
    assert [second.counts for second in found.series] == [
        {"read": 14, "read_modify_write": 6},
        {"read": 24, "read_modify_write": 7},
        {"read": 32, "read_modify_write": 8},
    ]
    for name, one in found.operations.items():
        assert sum(second.counts[name] for second in found.series) == one.count


def test_percentiles_over_time_are_of_the_seconds_of_the_series():
    found = of(done(), target=200)
    assert [one.monotonic_ns for one in found.latencies] == [
        one.monotonic_ns for one in found.series
    ]
    reads = [one.operations["read"] for one in found.latencies]
    assert [one.count for one in reads] == [20, 31, 40]  # those that found nothing, too
    for one in reads:
        assert one.p50_ns == one.p99_ns == pytest.approx(500_500, rel=0.01)


def test_a_long_window_has_as_many_percentiles_as_a_chart_can_show(monkeypatch):
    monkeypatch.setattr("harness.drivers.result.MOST_LATENCIES", 2)
    first, second = of(done()).latencies
    assert (first.monotonic_ns, second.monotonic_ns) == (7_000_000_000, 9_000_000_000)
    assert [one.operations["read"].count for one in (first, second)] == [51, 40]


def test_intervals_belong_to_lines_by_their_order_however_late_they_are_closed():
    """One histogram is closed 700 ms behind the others, which is behind the next line, too."""
    plain = done()
    found = of(done(logs={**plain.logs, "READ-MODIFY-WRITE": log([5, 6, 7, 8], 700, 50)}))
    assert found.operations["read_modify_write"].count == 21
    assert found.operations["read"].count == 90 + 1 - 21
    assert found.ends_apart_ns == 0  # each of its seconds began as late as it ended
    late = [*plain.logs["READ-MODIFY-WRITE"]]
    late[4] = interval(late[4].begin_ms, late[4].end_ms + 300, 8)
    found = of(done(logs={**plain.logs, "READ-MODIFY-WRITE": late}))
    assert found.operations["read_modify_write"].count == 21
    assert found.ends_apart_ns == 300_000_000


def test_more_intervals_than_status_lines_fail_the_run():
    plain = done()
    with pytest.raises(RunFailed, match="8 intervals"):
        of(done(logs={**plain.logs, "READ": [interval(0, 1, 1), *plain.logs["READ"]]}))


def test_with_a_rate_latencies_are_the_intended_ones_and_what_is_due_is_told():
    found = of(done(), target=200)
    latencies = hdr.decode(found.operations["read"].latency_hdr)
    assert latencies.percentile(50) == pytest.approx(500_500, rel=0.01)
    assert found.offered_count == 600
    # Since the first interval began, at 100 ms: 380 due and 200 done, 980 due and 500 done.
    assert found.backlog_count == (180, 480)


def test_without_a_bound_in_time_everything_is_measured():
    words = Words(results={("OVERALL", "RunTime(ms)"): 5_600.0})
    found = of(done(words=words), bounded=False)
    assert found.window_ns == 5_600_000_000
    pairs = found.operations["read_modify_write"].count
    assert pairs == 3 + 26 + 1001
    assert found.operations["read"].count == 3 + 100 + 1001 + (3 + 1 + 1001) - pairs


def test_a_clock_that_was_set_in_the_window_fails_the_run():
    with pytest.raises(RunFailed, match=r"-1\.500 s astray"):
        of(done(clocks=((2_001, 7_001_000_000), (3_502, 10_002_000_000))))


def test_how_late_its_counters_were_read_is_known():
    assert done().late_ns == 2_000_000
    late = ((2_001, 7_001_000_000), (5_700, 10_700_000_000))
    assert done(clocks=late).late_ns == 700_000_000
