"""Time series of a run: charts over time, and stall cycles by cache level."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from narrowed import present
from report_runs import Case, driven, metric, report, with_artifacts, write

from harness.monitors import MonitorContext
from harness.monitors.perf import PerfMonitor
from harness.store.runs import StoredRun
from reports.charts.over_time import draw_timeline
from reports.monitor_series import Strip, TimeSeries
from reports.over_time import Timeline, representative, timeline
from reports.series import panels
from reports.stalls import StallTable, per_operation, stall_tables

S = 1_000_000_000
#: Where the clock stands when the window begins.
T0 = 5_000 * S


def samples(values: Sequence[Mapping[str, Any] | None], every_s: float = 1.0) -> dict[str, Any]:
    """A monitor's series from the window's beginning on; None: a sample that is missing."""
    points = [
        {"monotonic_ns": T0 + round(at * every_s * S), **value}
        for at, value in enumerate(values)
        if value is not None
    ]
    return {"interval_s": every_s, "clock": "monotonic", "samples": points}


def stored(root: Path, rate: float = 600.0, block: int = 0, resumed: Any = (),
           params: Mapping[str, Any] | None = None, **artifacts: Any) -> StoredRun:  # fmt: skip
    """A window of TPC-C of four seconds with these artifacts."""
    series = [{"monotonic_ns": T0 + i * S, "counts": {"payment": n}}
              for i, n in enumerate([10, 20, 0, 5])]  # fmt: skip
    metrics = [metric("new_orders_per_minute", rate, "higher"),
               metric("window_duration_ns", 3.5 * S)]  # fmt: skip
    case = Case(block=block, spec_changes=driven("tpcc", users=2, **(params or {})),
                run_changes={"resumed": list(resumed)}, metrics=metrics)  # fmt: skip
    named = {name.replace("_", "-"): document for name, document in artifacts.items()}
    return with_artifacts(write(root, case), {"series": {"transactions": series}, **named})


def process(seconds: Sequence[float | None], started: Sequence[int] = ()) -> dict[str, Any]:
    """Processor time used until each sample."""
    return samples([
        None if used is None else
        {"cpu_ns": used * S, "first_started_ticks": started[at] if started else 7}
        for at, used in enumerate(seconds)
    ])  # fmt: skip


def strips(run: StoredRun) -> dict[str, Strip]:
    charts = present(timeline(run))
    return {strip.title.partition(" ")[0]: strip for strip in charts.strips}


def values(line: TimeSeries) -> list[tuple[float, float, float]]:
    """Begin and end in seconds of the window, and value."""
    return [((i.begin_ns - T0) / S, (i.end_ns - T0) / S, i.value) for i in line.intervals]


RESUMED = {"unix_ns": 1, "cut_off_run_id": "x", "kept_steps": 1, "after_step": "q1"}
IDLE: dict[str, Any] = {"monitor_process": process([0, 1, 2, 3, 4])}


def test_throughput_is_of_each_interval_by_its_own_length(tmp_path: Path) -> None:
    done = strips(stored(tmp_path, **IDLE))["Throughput,"]
    assert done.unit == "1/s"
    assert values(done.lines[0]) == [(0, 1, 10), (1, 2, 20), (2, 3, 0), (3, 3.5, 10)]


def latencies(*points: Mapping[str, tuple[int, float]]) -> dict[str, Any]:
    """Count and p50 by operation, of each interval of a second; p95 and p99 are 2 and 9 times
    that.
    """

    def of(count: int, p50: float) -> dict[str, float]:
        return {"count": count, "p50_ns": p50, "p95_ns": 2 * p50, "p99_ns": 9 * p50}

    entries = [{"monotonic_ns": T0 + at * S, "operations": {name: of(*o) for name, o in p.items()}}
             for at, p in enumerate(points)]  # fmt: skip
    return {"latencies": {"transactions": entries}}


def test_percentiles_of_the_most_frequent_operations_are_drawn_on_a_log_axis(tmp_path):
    rare, payment, order = (50, 10**6), (200, 3 * 10**6), (300, 7 * 10**6)
    all_three = {"delivery": rare, "payment": payment, "new_order": order}
    points = latencies(all_three, {"payment": (99, 4 * 10**6)}, {}, {"payment": (19, 10)})
    charts = present(timeline(stored(tmp_path, **points)))
    _, first, second = charts.strips
    assert first.title.endswith("payment") and second.title.endswith("new order")
    lines = {line.name: values(line) for line in first.lines}
    assert lines == {
        "p50": [(0, 1, 3e6), (1, 2, 4e6), (3, 3.5, 10)],
        "p95": [(0, 1, 6e6), (1, 2, 8e6)],  # of 20 operations or more
        "p99": [(0, 1, 27e6)],  # of 100 or more
    }
    _, axes, _ = drawn(charts)
    assert axes.get_yscale() == "log"
    assert axes.get_ylim() == (10, 1e8)


def test_percentiles_are_not_averaged(tmp_path: Path) -> None:
    points = latencies(*({"payment": (200, 1000 if at else 9000)} for at in range(3)))
    many = [{**point, "monotonic_ns": T0 + at * S // 1000}
            for at, point in enumerate(points["latencies"]["transactions"] * 400)]  # fmt: skip
    run = stored(tmp_path, latencies={"transactions": many})
    assert {i.value for i in strips(run)["Latency,"].lines[0].intervals} == {1000, 9000}


def with_error(document: dict[str, Any], at: int) -> dict[str, Any]:
    document["samples"][at] = {"monotonic_ns": T0 + at * S, "error": "OSError: gone"}
    return document


@pytest.mark.parametrize(
    ("used", "rates"),
    [
        (process([0, 0.5, 0.75, None, None, 1.0]), [(0, 1, 0.5), (1, 2, 0.25)]),
        (with_error(process([0, 0.5, 0.75, 1.0]), 1), [(2, 3, 0.25)]),
        (process([1.0, 1.5, 1.75, 2.0], started=[7, 7, 9, 9]), [(0, 1, 0.5), (2, 3, 0.25)]),
    ],
    ids=["a missing sample", "a sample that failed", "other processes"],
)
def test_there_is_a_hole_where_nothing_is_known(tmp_path: Path, used: Any, rates: Any) -> None:
    run = stored(tmp_path, monitor_process=used)
    assert values(strips(run)["Processors"].lines[0]) == rates


def test_disks_of_one_tier_are_added_and_their_await_is_weighted_by_requests(tmp_path):
    disk_a = {"block_read_bytes_per_s[device=a]": 100.0, "block_read_per_s[device=a]": 3.0,
           "block_read_await_ns[device=a]": 1e6}  # fmt: skip
    disk_b = {"block_read_bytes_per_s[device=b]": 50.0, "block_read_per_s[device=b]": 1.0,
           "block_read_await_ns[device=b]": 5e6}  # fmt: skip
    block = samples(
        [{}, disk_a | disk_b, disk_a, {**disk_a, "block_read_bytes_per_s[device=b]": 0.0}]
    )
    block["disks"] = {"a": ["ssd"], "b": ["ssd"]}
    by_title = strips(stored(tmp_path, monitor_block=block))
    (read,) = by_title["Device"].lines
    assert (read.name, by_title["Device"].unit) == ("ssd read", "B/s")
    assert values(read) == [(0, 1, 150), (2, 3, 100)]  # b's figure is missing in between
    assert [i.value for i in by_title["Time"].lines[0].intervals] == [2e6, 1e6, 1e6]


def test_sessions_compute_only_as_far_as_linux_counted_it(tmp_path: Path) -> None:
    def at(sync: float, running: float, cpu: float, queued: float) -> dict[str, float]:
        return {"wait_ns[resource=log sync]": sync * S, "wait_running_ns": running * S,
                "wait_cpu_ns": cpu * S, "wait_queued_ns": queued * S,
                "wait_samples_count": 1.0}  # fmt: skip

    waits = samples([at(0, 0, 0, 0), at(0.5, 1.0, 0.5, 0.25), at(1.5, 1.25, 0.75, 1.0)])
    sessions = strips(stored(tmp_path, monitor_waits=waits))["Sessions"]
    assert sessions.stacked
    shares = {line.name: [interval.value for interval in line.intervals] for line in sessions.lines}
    assert shares == {"log sync": [0.5, 1.0], "processor": [0.75, 0.75], "other": [0.25, 0.0]}


def cell(part: str, operation: str, role: str, calls: int, size: int, took: float) -> Any:
    """One cell of the I/O trace's page."""
    labels = f"[operation={operation},part={part},role={role}]"
    counters = {"calls_count": calls, "bytes": size, "duration_ns": took}
    return {name + labels: float(value) for name, value in counters.items()}


def test_the_io_trace_shows_each_part_whatever_it_is_on(tmp_path: Path) -> None:
    moved = cell("data", "write", "foreground", 3, 9, 50)
    moved |= cell("data", "write", "background", 2, 300, 9)
    io = samples([cell("data", "write", "foreground", 1, 5, 10), moved, moved])
    by_title = strips(stored(tmp_path, monitor_io=io))
    files, background = by_title["File"], by_title["Written"]
    (moved_at, written_at) = (*files.lines, *background.lines)
    assert (moved_at.name, values(moved_at)) == ("data write", [(0, 1, 304), (1, 2, 0)])
    assert (written_at.name, values(written_at)) == ("data", [(0, 1, 300), (1, 2, 0)])
    calls = by_title["Time"]
    assert (calls.unit, values(calls.lines[0])) == ("ns", [(0, 1, 20)])  # then none was made


def test_what_happened_after_the_window_is_not_shown(tmp_path: Path) -> None:
    """It ends after 3.5 s: an interval is shown as far as more than half of it is inside."""
    monitor = process([0, 1, 2, 3])
    last = monitor["samples"][-1]
    for after_s, shown in ((0.9, 4), (1.1, 3)):
        checked = {**last, "monotonic_ns": last["monotonic_ns"] + round(after_s * S)}
        series = {**monitor, "samples": [*monitor["samples"], {**checked, "cpu_ns": 100.0 * S}]}
        run = stored(tmp_path / str(shown), monitor_process=series)
        assert len(strips(run)["Processors"].lines[0].intervals) == shown


@pytest.mark.parametrize(
    "changes",
    [{"params": {"client_hosts": ["client1"]}}, {"resumed": [RESUMED]}],
    ids=["another host's clock", "measured in two parts"],
)
def test_there_is_no_chart_without_series_of_one_clock(tmp_path, changes):
    assert timeline(stored(tmp_path, **IDLE, **changes)) is None


def test_the_run_of_the_median_stands_for_its_repeats(tmp_path: Path) -> None:
    made = [stored(tmp_path, rate, i, **IDLE) for i, rate in enumerate((900, 300, 600))]
    (panel,) = panels(made, "placement", None)
    charts = present(representative(panel.arms[0]))
    assert charts.run_id == made[2].run_id
    assert "3" in charts.chosen


def drawn(charts: Timeline) -> list[Axes]:
    made: list[Figure] = []

    def keep(engine: ConstrainedLayoutEngine, figure: Figure) -> None:
        made.append(figure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConstrainedLayoutEngine, "execute", keep)
        draw_timeline(charts, "postgres", "1-over-time-1")
    return made[0].axes


# Stall cycles by cache level ------------------------------------------------------


BEGAN_NS = 1_000 * S
#: For each second, as perf names them.
FAST = {"cycles": 2e9, "stalls_l1d_miss": 6e8, "stalls_l2_miss": 5e8, "stalls_l3_miss": 4e8,
        "bound_on_stores": 1e8}  # fmt: skip
SLOW = {"cycles": 2e9, "stalls_l1d_miss": 1.4e9, "stalls_l2_miss": 1.3e9, "stalls_l3_miss": 1.2e9,
        "bound_on_stores": 2e8}  # fmt: skip
EVENT = {"cycles": "cycles", "bound_on_stores": "exe_activity.bound_on_stores"}


def printed(counts: Mapping[str, float], seconds: int, ramp_up: int = 2) -> list[str]:
    """perf's stream (``-j -I 1000``) in the form of recordings/perf-6.1-virtual-machine.jsonl.

    While the client ramps up, everything is counted tenfold.
    """
    return [
        json.dumps({
            "interval": float(at), "counter-value": f"{value * (10 if at <= ramp_up else 1):f}",
            "unit": "", "event": EVENT.get(name, f"cycle_activity.{name}"),
            "event-runtime": S, "pcnt-running": 100.0, "metric-value": 0.0, "metric-unit": "",
        })
        for at in range(1, seconds + 1)
        for name, value in counts.items()
    ]  # fmt: skip


def series_of(lines: list[str]) -> Mapping[str, Any]:
    monitor = PerfMonitor(MonitorContext())
    monitor.perf.earliest_ns = monitor.perf.latest_ns = BEGAN_NS
    for line in lines:
        monitor.perf.receive(line, BEGAN_NS + round(json.loads(line)["interval"] * S))
    return monitor.series()


def tpcc(
    root: Path, placement: str, counts: Mapping[str, float], done: int, block: int = 0,
    lines: list[str] | None = None, looks: int | None = None,
    metrics: Sequence[dict[str, Any]] = (),
) -> StoredRun:  # fmt: skip
    """Ten seconds from the third on, with ``done`` transactions."""
    metrics = [
        *metrics,
        metric("new_orders_per_minute", done * 6.0, "higher"),
        metric("transaction_count", done, transaction="new_order"),
        metric("window_duration_ns", 10 * S),
    ]
    points = [
        {"monotonic_ns": BEGAN_NS + (2 + at) * S, "counts": {"new_order": done // 10}}
        for at in range(10)
    ]
    spec = driven("tpcc", warehouses=1, users=1, rate=None, think_time=False)
    run = write(root, Case(placement=placement, block=block, spec_changes=spec, metrics=metrics,
                           run_changes={"experiment.looks": looks} if looks else {}))  # fmt: skip
    perf = series_of(lines if lines is not None else printed(counts, 13))
    return with_artifacts(run, {"series": {"transactions": points}, "monitor-perf": perf})


def tables(runs: list[StoredRun]) -> list[StallTable]:
    return [table for panel in panels(runs, "placement", None) for table in stall_tables(panel)]


def test_cycles_of_a_transaction_are_divided_by_where_its_loads_were_served(tmp_path: Path) -> None:
    cycles = present(per_operation(tpcc(tmp_path, "ssd-both", FAST, 1000)))
    assert (cycles.each, cycles.of) == ("transaction", "host")
    # 10 s × 2e9 cycles for 1000 transactions; the ramp-up is not in it.
    assert cycles.cycles == pytest.approx(
        {"all cycles": 2e7, "memory": 4e6, "L3": 1e6, "L2": 1e6, "stores": 1e6, "other": 1.3e7}
    )


def test_the_difference_of_two_arms_and_its_intervals(tmp_path: Path) -> None:
    runs = []
    for block in range(6):
        drift = 1 + block / 100
        for placement, counts, done in (("ssd-both", FAST, 1000), ("pmem-both", SLOW, 500)):
            drifted = {name: value * drift for name, value in counts.items()}
            runs.append(tpcc(tmp_path, placement, drifted, done, block))
    (table,) = tables(runs)
    assert (table.a, table.b, table.each) == ("ssd-both", "pmem-both", "transaction")
    # Twice the time for a transaction. By level, in millions: 24 − 4, 2 − 1, 2 − 1, 4 − 1, 8 − 13.
    drift = 1.025  # the median block's
    expected = {"all cycles": 20, "memory": 20, "L3": 1, "L2": 1, "stores": 3, "other": -5}
    differences = {level: difference for level, (_, _, difference) in table.levels.items()}
    assert {name: difference.value for name, difference in differences.items()} == pytest.approx(
        {name: value * 1e6 * drift for name, value in expected.items()}
    )
    assert (table.share("memory"), table.share("other")) == pytest.approx((1.0, -0.25))
    levels = [difference.value for name, difference in differences.items() if name != "all cycles"]
    assert sum(levels) == pytest.approx(differences["all cycles"].value)
    for difference in differences.values():
        assert present(difference.low) < difference.value < present(difference.high)
        assert difference.confidence == differences["all cycles"].confidence > 0.95
    files, _ = report(runs, tmp_path)
    text = files.markdown.read_text(encoding="utf-8")
    assert "| memory | 4,100,000 | 24,600,000 | 20,500,000 |" in text
    assert "not counted here" not in text


def test_intervals_are_corrected_for_looks(tmp_path: Path) -> None:
    """As those of the report, where results decided whether there were more repeats."""
    runs = [
        tpcc(tmp_path, placement, counts, 1000, block, looks=4)
        for block in range(8)
        for placement, counts in (("ssd-both", FAST), ("pmem-both", SLOW))
    ]
    (table,) = tables(runs)
    confidences = [difference.confidence for _, _, difference in table.levels.values()]
    assert confidences == pytest.approx([1 - 4 * 2 / 2**8] * len(confidences))  # the whole range


def test_what_one_arm_did_not_count_is_not_compared(tmp_path: Path) -> None:
    caches = {"cycles": 2e9, "cache-misses": 1e6}
    runs = [tpcc(tmp_path, "ssd-both", FAST, 1000), tpcc(tmp_path, "pmem-both", caches, 500)]
    assert tables(runs) == []
    files, _ = report(runs, tmp_path)
    assert "not counted here" in files.markdown.read_text(encoding="utf-8")
    cut_off = tpcc(tmp_path / "b", "ssd-both", FAST, 1000, lines=printed(FAST, 9))
    assert per_operation(cut_off) is None  # perf was killed after seven of the ten seconds


@pytest.mark.parametrize(("seconds", "counted"), [(3, False), (60, True)])
def test_queries_must_be_long_beside_perf_s_intervals(tmp_path, seconds, counted):
    at, spans = BEGAN_NS, []
    for query in ("1", "6"):  # ten seconds of cold start before each
        at += 10 * S
        spans.append({"query": query, "submitted_ns": at, "ended_ns": at + seconds * S})
        at += seconds * S
    lines = printed(FAST, (at - BEGAN_NS) // S, 0)
    run = write(tmp_path, Case(queries=(1, 6)))
    artifacts = {"timeline": spans, "monitor-perf": series_of(lines)}
    cycles = per_operation(with_artifacts(run, artifacts))
    assert (cycles is not None) == counted
    if cycles is not None:
        assert cycles.each == "query" and cycles.cycles["all cycles"] == pytest.approx(60 * 2e9)
