"""Stall cycles by cache level, from perf's output to the report, against numbers by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from report_runs import Case, driven, metric, report, with_artifacts, write

from harness.monitors import MonitorContext
from harness.monitors.perf import PerfMonitor
from harness.store.runs import StoredRun
from reports.series import panels
from reports.stalls import StallTable, per_operation, stall_tables

S = 1_000_000_000
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
    monitor._began = (BEGAN_NS, BEGAN_NS)
    for line in lines:
        monitor._printed.append((BEGAN_NS + round(json.loads(line)["interval"] * S), line))
    return monitor.series()


def tpcc(
    root: Path, placement: str, counts: Mapping[str, float], done: int, block: int = 0,
    lines: list[str] | None = None, looks: int | None = None,
) -> StoredRun:  # fmt: skip
    """Ten seconds from the third on, with ``done`` transactions."""
    metrics = [
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
    found = per_operation(tpcc(tmp_path, "ssd-both", FAST, 1000))
    assert found is not None and (found.each, found.of) == ("transaction", "host")
    # 10 s × 2e9 cycles for 1000 transactions; the ramp-up is not in it.
    assert found.cycles == pytest.approx(
        {"all cycles": 2e7, "memory": 4e6, "L3": 1e6, "L2": 1e6, "stores": 1e6, "other": 1.3e7}
    )


def test_the_difference_of_two_arms_and_its_intervals(tmp_path: Path) -> None:
    runs = []
    for block in range(6):
        drift = 1 + block / 100
        for placement, counts, done in (("ssd-both", FAST, 1000), ("pmem-both", SLOW, 500)):
            own = {name: value * drift for name, value in counts.items()}
            runs.append(tpcc(tmp_path, placement, own, done, block))
    (table,) = tables(runs)
    assert (table.a, table.b, table.each) == ("ssd-both", "pmem-both", "transaction")
    # Twice the time for a transaction. By level, in millions: 24 − 4, 2 − 1, 2 − 1, 4 − 1, 8 − 13.
    drift = 1.025  # the median block's
    expected = {"all cycles": 20, "memory": 20, "L3": 1, "L2": 1, "stores": 3, "other": -5}
    found = {level: difference for level, (_, _, difference) in table.levels.items()}
    assert {name: one.value for name, one in found.items()} == pytest.approx(
        {name: value * 1e6 * drift for name, value in expected.items()}
    )
    assert (table.share("memory"), table.share("other")) == pytest.approx((1.0, -0.25))
    levels = [one.value for name, one in found.items() if name != "all cycles"]
    assert sum(levels) == pytest.approx(found["all cycles"].value)
    for one in found.values():
        assert one.low is not None and one.high is not None and one.low < one.value < one.high
        assert one.confidence == found["all cycles"].confidence > 0.95
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
    confidences = [found.confidence for _, _, found in table.levels.values()]
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
    found = per_operation(with_artifacts(run, artifacts))
    assert (found is not None) == counted
    if found is not None:
        assert found.each == "query" and found.cycles["all cycles"] == pytest.approx(60 * 2e9)
