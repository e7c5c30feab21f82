"""Whether the transactions were mixed as they should be, from what each driver tells."""

from __future__ import annotations

import pytest

from harness.drivers.hammerdb import Measured
from harness.drivers.hammerdb.time_profile import ResponseTimes
from harness.drivers.result import Operation
from harness.workloads.tpcc.consistency import check_mix
from harness.workloads.tpcc.drivers import DriverResult
from harness.workloads.tpcc.hammerdb import _driven

DECK = {"new_order": 10, "payment": 10, "order_status": 1, "delivery": 1, "stock_level": 1}


def by_hammerdb(**calls: int) -> DriverResult:
    times = {name: ResponseTimes(count, 1, 1, 1, 1, 1, 1) for name, count in calls.items()}
    return _driven(Measured("HammerDB 4.12", None, 2, 1, 2, 0, 60, None, {}, times))


def many(times: int) -> dict[str, int]:
    return {name: times * share for name, share in DECK.items()}


def test_calls_tell_the_mix_where_nothing_else_does():
    assert check_mix("deck", 2, by_hammerdb(**many(1000))).status == "passed"


def test_calls_in_another_mix_are_seen():
    calls = many(1000) | {"delivery": 5000}
    assert check_mix("deck", 2, by_hammerdb(**calls)).status == "failed"


@pytest.mark.parametrize("transactions", [{}, {"payment": Operation()}])
def test_what_is_not_told_is_unknown(transactions):
    silent = DriverResult("hammerdb", "HammerDB 4.12", 60, transactions, new_orders_per_minute=1)
    assert check_mix("deck", 2, silent).status == "unknown"


@pytest.mark.parametrize(("rolled_back", "status"), [(2, "passed"), (0, "passed"), (9, "failed")])
def test_a_short_run_is_not_failed_by_chance(rolled_back, status):
    """Two of ten, at 1 %, come in one run of 250: that is chance. Nine of ten are none."""
    of = {name: Operation(count) for name, count in DECK.items()}
    of["new_order"] = Operation(10 - rolled_back, rolled_back_count=rolled_back)
    assert (
        check_mix("deck", 2, DriverResult("loadgen", "1", 60, of, new_orders_per_minute=1)).status
        == status
    )
