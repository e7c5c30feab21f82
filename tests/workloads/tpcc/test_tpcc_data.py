"""What is known of the population beforehand."""

import pytest

from harness.workloads.tpcc.data import estimate_bytes, row_counts
from harness.workloads.tpcc.params import TpccParams

GB = 1e9


def needed(**params):
    return estimate_bytes(TpccParams.from_mapping(params))


def test_rows_are_those_of_clause_4_3_3_1():
    assert row_counts(7) == {
        "warehouse": 7,
        "district": 70,
        "customer": 210_000,
        "history": 210_000,
        "orders": 210_000,
        "new_order": 63_000,
        "stock": 700_000,
        "item": 100_000,
    }


def test_room_grows_with_warehouses_and_with_what_a_run_adds():
    one, thousand = needed(warehouses=1), needed(warehouses=1000)
    assert thousand["data"] - one["data"] == pytest.approx(999 * 0.115 * GB)
    short, long = needed(duration="1m"), needed(duration="2h")
    assert long["data"] - short["data"] > 10 * GB
    assert long["wal"] == needed(duration="4h")["wal"], "a log is bounded"


def test_a_known_rate_needs_no_more_than_it_writes():
    slow, fast = needed(rate=10, duration="2h"), needed(duration="2h")
    assert slow["data"] < fast["data"] / 5
    thinking = needed(warehouses=10, think_time=True, duration="2h")
    assert thinking["data"] < fast["data"] / 5
