"""The price at which a tier pays, predicted from planted delays, next to the measured one."""

from __future__ import annotations

from pathlib import Path

import pytest
from explained_runs import suites, tpcc, what_if

from harness.store.runs import Store
from reports.explain.comparisons import Evidence
from reports.page import render
from reports.report import view_of
from reports.select import unplanted


def test_the_predicted_break_even_price_is_next_to_the_measured_one(tmp_path: Path) -> None:
    """The log's 10 GB move to PMem; 90 GB of data stay on the SSD, at 0.4 for a GB."""
    made = [
        tpcc(tmp_path, placement, block, rate * (1 + 0.01 * block))
        for block in range(6)
        for placement, rate in (("ssd-both", 60_000), ("ssd-data-pmem-wal", 90_000))
    ]
    suites(tmp_path, made[0])
    what_if(tmp_path, "wal", "sync", 1.0)
    every = Store(tmp_path).runs()
    chosen = [run for run in unplanted(every) if run.spec.workload != "micro"]
    view = view_of(chosen, "x", evidence=Evidence.of(every))
    _, fast = view.money.tables[0].rows
    assert fast.break_even.value == pytest.approx((1.5 * 40 - 36) / 10)
    # 399 of 1,000 µs less for each transaction.
    assert fast.predicted.value == pytest.approx((1000 / 601 * 40 - 36) / 10, rel=5e-3)
    assert fast.predicted.low < fast.predicted.value < fast.predicted.high
    assert "the same, predicted" in render("report.j2", view, "html")
