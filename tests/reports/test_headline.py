"""What decides a comparison: a latency where the rate was set, and one experiment's question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_runs import Case, write

from harness import hdr
from harness.store.runs import StoredRun
from reports.compare import Group, compare
from reports.compare_output import to_json
from reports.series import panels

LAYOUT = hdr.Layout(1000, 3_600_000_000_000, 3)
WINDOW_S = 60
PLACES = ("ssd-both", "pmem-both")
#: What a client of core workload a asks for, and of b.
A = {"readproportion": 0.5, "updateproportion": 0.5, "target": 50}
B = {"readproportion": 0.95, "updateproportion": 0.05, "target": 50}


def histogram(middle_ms: float, seed: int, count: int = 400) -> str:
    values = np.random.default_rng(seed).lognormal(np.log(middle_ms * 1e6), 0.3, count)
    at = np.searchsorted(LAYOUT.bounds()[0], values, "right") - 1
    return hdr.Histogram(LAYOUT, np.bincount(at, minlength=LAYOUT.counters)).encode()


def metric(name: str, value: float | str, better: str = "none", **labels: str) -> dict[str, Any]:
    form = "hdr" if isinstance(value, str) else "value"
    unit = "ns" if name.endswith("_ns") else "1"
    return {"name": name, "unit": unit, "better": better, "labels": labels, form: value}


def ycsb(update_ms: float, read_ms: float = 1.0, done: int = 3000, seed: int = 0) -> list[Any]:
    """3,000 operations offered in a minute."""
    window = WINDOW_S * 10**9
    return [
        metric("operations_per_second", done / WINDOW_S, "higher"),
        metric("offered_operations_per_second", 50.0),
        metric("operation_duration_ns", histogram(read_ms, seed), "lower", operation="read"),
        metric("operation_duration_ns", histogram(update_ms, seed), "lower", operation="update"),
        metric("operation_count", done // 2, operation="read"),
        metric("operation_count", done - done // 2, operation="update"),
        metric("window_duration_ns", window),
    ]


def tpcc(new_order_ms: float, per_s: float = 10.0, seed: int = 0) -> list[Any]:
    """With what was offered only where a test adds it."""
    return [
        metric("new_orders_per_minute", 27 * per_s, "higher"),
        metric("transaction_duration_ns", histogram(new_order_ms, seed, int(per_s * WINDOW_S)),
               "lower", transaction="new_order"),
        metric("transaction_count", per_s * WINDOW_S - 3, transaction="new_order"),
        metric("transaction_rolled_back_count", 3, transaction="new_order"),
        metric("window_duration_ns", WINDOW_S * 10**9),
    ]  # fmt: skip


def block(root: Path, number: int, workload: str, params: dict[str, Any], place: str,
          metrics: list[Any], **changes: Any) -> StoredRun:  # fmt: skip
    spec = {"workload": workload, "params": params, "driver": "loadgen"}
    return write(root, Case(placement=place, block=number, spec_changes=spec, metrics=metrics,
                            **changes))  # fmt: skip


def compared(a: list[StoredRun], b: list[StoredRun]) -> tuple[Group, dict[str, Any]]:
    found = compare(a, b)
    (document,) = to_json(found)["groups"]
    return found.groups[0], document


def ycsb_sides(root: Path, params: dict[str, Any], fast: dict[str, Any], n: int = 6) -> Any:
    """A: updates of 5 ms, reads of 1 ms; B: the same with ``fast``."""
    return [
        [
            block(root, k, "ycsb", params, place, ycsb(**({"update_ms": 5.0} | kind), seed=k))
            for k in range(n)
        ]
        for place, kind in zip(PLACES, ({}, fast), strict=True)
    ]


def test_with_a_rate_the_headline_is_a_latency_of_the_main_operation(tmp_path: Path) -> None:
    group, document = compared(*ycsb_sides(tmp_path, A, {"update_ms": 0.2}))
    update = {"operation": "update", "percentile": "50"}
    assert document["headline"] == {"metric": "operation_duration_ns", "labels": update}
    assert document["second"]["labels"] == update | {"percentile": "99"}
    assert document["verdict"] == "faster"
    assert document["set_rate"]["by"] == "option" and document["set_rate"]["not_kept"] == []
    row = group.row(group.headline.quantity)
    assert row is not None and row.estimate is not None
    assert row.estimate.ratio == pytest.approx(25, rel=0.01)
    second = group.row(group.headline.second)
    assert second is not None and second.judgement is not None
    assert second.judgement.outcome == "shown"  # after the first, at the same level


def test_the_main_operation_is_that_with_the_largest_share(tmp_path: Path) -> None:
    _, document = compared(*ycsb_sides(tmp_path, B, {"update_ms": 0.2}))
    assert document["headline"]["labels"]["operation"] == "read"
    assert document["verdict"] == "no difference"


@pytest.mark.parametrize(("n", "verdict"), [(5, "not resolvable"), (6, "slower")])
def test_too_few_repeats_resolve_nothing(tmp_path: Path, n: int, verdict: str) -> None:
    _, document = compared(*ycsb_sides(tmp_path, A, {"update_ms": 50.0}, n))
    assert document["verdict"] == verdict


@pytest.mark.parametrize("done", [2900, 3100])
def test_a_side_that_did_not_keep_the_rate_loses_by_that(tmp_path: Path, done: int) -> None:
    """3,100: operations that were due in the ramp-up were done in the window."""
    _, document = compared(*ycsb_sides(tmp_path, A, {"update_ms": 0.2, "done": done}))
    assert document["verdict"] == "rate not kept"
    assert document["set_rate"]["not_kept"] == ["b"]
    assert document["set_rate"]["b"]["missed"] == 6 and document["set_rate"]["a"]["kept"]


def test_a_driver_without_counts_keeps_the_rate_by_the_rate_it_reports(tmp_path: Path) -> None:
    def rates_only(done: int) -> list[Any]:
        return [m for m in ycsb(update_ms=1.0, done=done) if not m["name"].endswith("_count")]

    a, b = (
        [block(tmp_path, k, "ycsb", A, place, rates_only(done)) for k in range(6)]
        for place, done in zip(PLACES, (2900, 3000), strict=True)
    )
    _, document = compared(a, b)
    assert document["verdict"] == "rate not kept" and document["set_rate"]["not_kept"] == ["a"]


def test_one_repeat_that_missed_the_rate_does_not_decide(tmp_path: Path) -> None:
    a, b = ycsb_sides(tmp_path, A, {"update_ms": 0.2}, 5)
    late = ycsb(update_ms=0.2, done=2000)
    a.append(block(tmp_path, 5, "ycsb", A, PLACES[0], ycsb(update_ms=5.0)))
    b.append(block(tmp_path, 5, "ycsb", A, PLACES[1], late))
    _, document = compared(a, b)
    assert document["verdict"] == "faster" and document["set_rate"]["b"]["missed"] == 1


def tpcc_sides(root: Path, params: dict[str, Any], fast_ms: float, per_s: float = 10.0) -> Any:
    return [
        [block(root, k, "tpcc", params, place, tpcc(ms, rate, k)) for k in range(6)]
        for place, ms, rate in zip(PLACES, (5.0, fast_ms), (10.0, per_s), strict=True)
    ]


def test_without_a_rate_new_orders_decide(tmp_path: Path) -> None:
    params = {"warehouses": 1, "users": 4, "think_time": False, "rate_per_s": None}
    _, document = compared(*tpcc_sides(tmp_path, params, 1.0, 12.0))
    assert document["headline"] == {"metric": "new_orders_per_minute", "labels": {}}
    assert document["verdict"] == "faster" and document["set_rate"] is None


def test_rollbacks_count_as_done_under_a_rate(tmp_path: Path) -> None:
    params = {"warehouses": 1, "users": 4, "think_time": False, "rate_per_s": 10}
    _, document = compared(*tpcc_sides(tmp_path, params, 1.0))
    assert document["headline"]["labels"] == {"transaction": "new_order", "percentile": "50"}
    assert document["set_rate"]["a"]["done_per_s"] == 10.0
    assert document["verdict"] == "faster"


@pytest.mark.parametrize(("users", "by"), [(200, "think time"), (1, None)])
def test_think_times_set_the_rate_where_users_hardly_wait(
    tmp_path: Path, users: int, by: str | None
) -> None:
    """Ten transactions a second of 5 ms keep one user waiting for 5 % of the time."""
    params = {"warehouses": 20, "users": users, "think_time": True, "rate_per_s": None}
    _, document = compared(*tpcc_sides(tmp_path, params, 1.0))
    assert (document["set_rate"] or {}).get("by") == by
    expected = "transaction_duration_ns" if by else "new_orders_per_minute"
    assert document["headline"]["metric"] == expected


def conclusions(runs: list[StoredRun], users: int) -> list[tuple[str, float]]:
    """Verdict and p of the panels with this number of users."""
    return [
        (group.verdict, row.judgement.adjusted_p)
        for panel in panels(runs, "placement", None)
        if panel.runs[0].run["spec"]["params"]["users"] == users
        for group in panel.groups
        if (row := group.row(group.headline.quantity)) and row.judgement
    ]


def test_another_experiment_in_the_report_changes_no_verdict(tmp_path: Path) -> None:
    params = {"warehouses": 1, "think_time": False, "rate_per_s": None}
    own, other = (
        [
            block(tmp_path, k, "tpcc", params | {"users": users}, place, tpcc(5.0, rate, k),
                  experiment=f"with-{users}")
            for k in range(6)
            for place, rate in zip(PLACES, (10.0, 12.0 + k), strict=True)
        ]
        for users in (4, 8)
    )  # fmt: skip
    alone = conclusions(own, 4)
    assert alone == [("faster", 2 / 2**6)]
    assert conclusions([*own, *other], 4) == alone


def test_comparisons_of_one_experiment_are_one_family(tmp_path: Path) -> None:
    params = {"warehouses": 1, "think_time": False, "rate_per_s": None}
    runs = [
        block(tmp_path, k, "tpcc", params | {"users": users}, place, tpcc(5.0, rate, k))
        for k in range(6)
        for users in (4, 8)
        for place, rate in zip(PLACES, (10.0, 12.0 + k), strict=True)
    ]
    assert conclusions(runs, 4) == [("not resolvable", 4 / 2**6)]


def test_every_two_arms_are_compared_without_changing_what_the_baseline_shows(
    tmp_path: Path,
) -> None:
    params = {"warehouses": 1, "users": 4, "think_time": False, "rate_per_s": None}
    rates = {"ssd-both": 10.0, "ssd-data-pmem-wal": 12.0, "pmem-both": 15.0}
    runs = [
        block(tmp_path, k, "tpcc", params, place, tpcc(5.0, rate + 0.1 * k, k))
        for k in range(7)
        for place, rate in rates.items()
    ]
    (panel,) = panels(runs, "placement", "ssd-both")
    (other,) = panel.others
    assert {other.a.name, other.b.name} == {"ssd-data-pmem-wal", "pmem-both"}
    assert other.verdict == ("faster" if other.b.name == "pmem-both" else "slower")
    row = other.row(other.headline.quantity)
    assert row is not None and row.judgement is not None and row.judgement.family == 1
    assert [r.judgement.family for g in panel.groups
            if (r := g.row(g.headline.quantity)) and r.judgement] == [2, 2]  # fmt: skip


def test_the_largest_worsening_is_named_next_to_the_gain(tmp_path: Path) -> None:
    _, document = compared(*ycsb_sides(tmp_path, A, {"update_ms": 0.2, "read_ms": 16.0}))
    assert document["verdict"] == "faster"
    lost = document["worsening"]
    assert lost["labels"]["operation"] == "read" and lost["ratio"] == pytest.approx(1 / 16, rel=0.1)
    assert lost["outcome"] == "cannot be shown"  # six repeats for a family of six rows
    assert document["gain"]["labels"]["operation"] == "update"


def test_a_worsening_that_is_shown_goes_before_a_larger_one_that_is_not(tmp_path: Path) -> None:
    sides = [
        [
            block(tmp_path, k, "ycsb", A, place, ycsb(u, r * (1 if k % 2 else up), seed=k))
            for k in range(12)
        ]
        for place, u, r, up in (("ssd-both", 5.0, 1.0, 1.0), ("pmem-both", 5.5, 0.8, 9.0))
    ]
    _, document = compared(*sides)
    assert document["verdict"] == "slower"
    assert document["worsening"]["labels"]["operation"] == "update"
    assert document["worsening"]["outcome"] == "shown"
