"""Whether operations were mixed as they should be, from what each driver reports."""

from __future__ import annotations

import pytest

from harness.drivers.result import DriverResult, Operation
from harness.workloads.tpcc.params import shares
from harness.workloads.tpcc.workload import NOUNS
from harness.workloads.window import check_mix

DECK = {"new_order": 10, "payment": 10, "order_status": 1, "delivery": 1, "stock_level": 1}


HALVES = {"read": 0.5, "update": 0.5, "insert": 0.0, "scan": 0.0, "read_modify_write": 0.0}


def deck_status(driven: DriverResult) -> str:
    return check_mix(driven, NOUNS, shares("deck"), 2, rolled_back=0.01).status


def driven_by(operations: dict[str, Operation]) -> DriverResult:
    return DriverResult("loadgen", "1", 60, operations)


@pytest.mark.parametrize(("changes", "status"), [({}, "passed"), ({"delivery": 5000}, "failed")])
def test_calls_of_hammerdb_are_compared_with_the_deck(changes, status):
    calls = {name: 1000 * share for name, share in DECK.items()} | changes
    operations = {name: Operation(called_count=count) for name, count in calls.items()}
    assert deck_status(driven_by(operations)) == status


@pytest.mark.parametrize(("rolled_back", "status"), [(2, "passed"), (0, "passed"), (9, "failed")])
def test_a_short_run_is_not_failed_by_chance(rolled_back, status):
    """Two of ten, at 1 %, come in one run of 250: that is chance. Nine of ten are none."""
    operations = {name: Operation(count) for name, count in DECK.items()}
    operations["new_order"] = Operation(10 - rolled_back, rolled_back_count=rolled_back)
    assert deck_status(driven_by(operations)) == status


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        ({"read": 5000, "update": 5000}, "passed"),
        ({"read": 6000, "update": 4000}, "failed"),
        ({"read": 1, "update": 1}, "passed"),
        ({"read": 500, "update": 500, "scan": 20}, "failed"),  # no scans were requested
        ({"read": None}, "unknown"),
    ],
)
def test_counts_are_compared_with_the_requested_shares(counts, status):
    driven = driven_by({name: Operation(count) for name, count in counts.items()})
    assert check_mix(driven, NOUNS, HALVES, 2).status == status
