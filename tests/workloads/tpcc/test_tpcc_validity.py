"""What makes the numbers of a window doubtful, told from what the driver saw."""

from __future__ import annotations

from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from harness.drivers.result import SERIES_NS, DriverResult, Operation
from harness.drivers.validity import load_warnings
from harness.store.result import SeriesPoint
from harness.store.spec import Json
from harness.workloads.tpcc.params import TpccParams
from harness.workloads.tpcc.workload import NOUNS, own_warnings

CLOSED: dict[str, Json] = {"think_time": True, "users": 10, "connections": 4, "warehouses": 1}


def doubts(driven: DriverResult, **params: Any) -> dict[str, str]:
    given = TpccParams.from_mapping(CLOSED | params)
    found = [*load_warnings(driven, NOUNS, closed=False), *own_warnings(given, driven)]
    return {finding.code: finding.context for finding in found}


@pytest.mark.parametrize(("connections", "took_ms", "told"), [(4, 37, True), (4, 20, False),
                                                              (10, 99, False)])  # fmt: skip
def test_waiting_for_a_shared_connection_is_told(connections, took_ms, told):
    """Little's law: 1,000 transactions of 37 ms in 10 s are 3.7 at a time, on 4 connections."""
    recorded = HdrHistogram(1, 3_600_000_000_000, 3)
    recorded.record_value(took_ms * 1_000_000, 1000)
    done = Operation(1000, latency_hdr=recorded.encode().decode())
    driven = DriverResult("loadgen", "1", 10 * SERIES_NS, {"payment": done})
    found = doubts(driven, connections=connections)
    assert ("shared-connections" in found) == told
    if told:
        assert found["shared-connections"].startswith("3.7 transactions")


def test_more_users_than_a_warehouse_has_terminals_are_told_if_they_think():
    driven = DriverResult("loadgen", "1", 60 * SERIES_NS)
    assert "10 terminals" in doubts(driven, users=11)["more-users-than-terminals"]
    assert "more-users-than-terminals" not in doubts(driven, users=10)
    assert "more-users-than-terminals" not in doubts(driven, users=11, think_time=False)


@pytest.mark.parametrize(
    ("skipped", "done", "told"),
    [(None, 500, False), (1, 5, False), (5, 500, False), (6, 500, True), (2, 5, True)],
)
def test_deliveries_without_orders_are_told_above_one_per_cent(skipped, done, told):
    """Clause 2.7.4.2: in more than 1 %, or in more than one, whichever is greater."""
    delivery = Operation(done, skipped_count=skipped)
    found = doubts(DriverResult("loadgen", "1", 60 * SERIES_NS, {"delivery": delivery}))
    assert ("skipped-deliveries" in found) == told
    if told:
        assert found["skipped-deliveries"].startswith(f"{skipped} of {done} deliveries")


def series(*done: int) -> list[SeriesPoint]:
    return [
        SeriesPoint(second * SERIES_NS, {"new_order": count}) for second, count in enumerate(done)
    ]


def test_an_interval_that_is_cut_off_is_no_trend():
    """Ten and a half seconds at an even rate, and as many whose rate has halved."""
    flat, fallen = [100] * 10 + [50], [100] * 5 + [50] * 5 + [25]
    for done, told in ((flat, False), (fallen, True)):
        window_ns = 10 * SERIES_NS + SERIES_NS // 2
        found = doubts(DriverResult("loadgen", "1", window_ns, series=series(*done)))
        assert ("not-steady-state" in found) == told


def test_transactions_without_an_answer_are_reported():
    ages = HdrHistogram(1, 3_600_000_000_000, 3)
    ages.record_value(10**10, 1000)
    delivery = Operation(990, unfinished_count=10, latency_hdr=ages.encode().decode())
    found = doubts(DriverResult("loadgen", "1", 60 * SERIES_NS, {"delivery": delivery}))
    assert "unanswered-operations" in found
