"""What decides a comparison: a latency where the rate was set, and one experiment's question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from narrowed import present
from report_runs import PLACES, driven, interleaved, lognormal, metric

from harness.store.runs import StoredRun
from reports.compare import Group, compare
from reports.compare_output import to_json
from reports.series import panels

WINDOW_S = 60
#: What a client of core workload a asks for, and of b.
A = {"readproportion": 0.5, "updateproportion": 0.5, "rate": 50}
B = {"readproportion": 0.95, "updateproportion": 0.05, "rate": 50}


def ycsb(update_ms: float, read_ms: float = 1.0, done: int = 3000, seed: int = 0) -> list[Any]:
    """3,000 operations offered in a minute."""
    times = {"read": lognormal(read_ms * 1e6, seed), "update": lognormal(update_ms * 1e6, seed)}
    counts = {"read": done // 2, "update": done - done // 2}
    return [
        metric("operations_per_second", done / WINDOW_S, "higher"),
        metric("offered_operations_per_second", 50.0),
        *(metric("operation_duration_ns", text, "lower", operation=o) for o, text in times.items()),
        *(metric("operation_count", count, operation=o) for o, count in counts.items()),
        metric("window_duration_ns", WINDOW_S * 10**9),
    ]


def tpcc(new_order_ms: float, per_s: float = 10.0, seed: int = 0) -> list[Any]:
    """With what was offered only where a test adds it."""
    times = lognormal(new_order_ms * 1e6, seed, count=int(per_s * WINDOW_S))
    return [
        metric("new_orders_per_minute", 27 * per_s, "higher"),
        metric("transaction_duration_ns", times, "lower", transaction="new_order"),
        metric("transaction_count", per_s * WINDOW_S - 3, transaction="new_order"),
        metric("transaction_rolled_back_count", 3, transaction="new_order"),
        metric("window_duration_ns", WINDOW_S * 10**9),
    ]


def compared(a: list[StoredRun], b: list[StoredRun]) -> tuple[Group, dict[str, Any]]:
    found = compare(a, b)
    (document,) = to_json(found)["groups"]
    return found.groups[0], document


def ycsb_sides(root: Path, params: dict[str, Any], fast: dict[str, Any], n: int = 6) -> Any:
    """A: updates of 5 ms, reads of 1 ms; B: the same with ``fast``."""
    kinds = dict(zip(PLACES, ({}, fast), strict=True))
    return interleaved(
        root,
        lambda place, k: ycsb(**({"update_ms": 5.0} | kinds[place]), seed=k),
        n,
        spec_changes=driven("ycsb", **params),
    )


def test_with_a_rate_the_headline_is_a_latency_of_the_main_operation(tmp_path: Path) -> None:
    group, document = compared(*ycsb_sides(tmp_path, A, {"update_ms": 0.2}))
    update = {"operation": "update", "percentile": "50"}
    assert document["headline"] == {"metric": "operation_duration_ns", "labels": update}
    assert document["second"]["labels"] == update | {"percentile": "99"}
    assert document["verdict"] == "faster"
    assert document["set_rate"]["by"] == "option" and document["set_rate"]["not_kept"] == []
    row = present(group.row(group.headline.quantity))
    assert present(row.estimate).value == pytest.approx(25, rel=0.01)
    second = present(group.row(group.headline.second))
    assert present(second.decision).outcome == "shown"  # after the first, at the same level


@pytest.mark.parametrize(
    ("params", "fast", "n", "operation", "verdict", "missed"),
    [
        (B, {"update_ms": 0.2}, 6, "read", "no difference", 0),  # reads have the largest share
        (A, {"update_ms": 50.0}, 5, "update", "not resolvable", 0),
        (A, {"update_ms": 50.0}, 6, "update", "slower", 0),
        (A, {"update_ms": 0.2, "done": 2900}, 6, "update", "rate not kept", 6),
        # Operations that were due in the ramp-up were done in the window.
        (A, {"update_ms": 0.2, "done": 3100}, 6, "update", "rate not kept", 6),
    ],
)
def test_verdict_under_a_rate(tmp_path, params, fast, n, operation, verdict, missed):
    _, document = compared(*ycsb_sides(tmp_path, params, fast, n))
    assert document["headline"]["labels"]["operation"] == operation
    assert document["verdict"] == verdict
    rate = document["set_rate"]
    assert (rate["not_kept"], rate["b"]["missed"]) == (["b"] if missed else [], missed)
    assert rate["a"]["kept"]


def test_a_driver_without_counts_keeps_the_rate_by_the_rate_it_reports(tmp_path: Path) -> None:
    def rates_only(place: str, _: int) -> list[Any]:
        made = ycsb(update_ms=1.0, done=2900 if place == PLACES[0] else 3000)
        return [m for m in made if not m["name"].endswith("_count")]

    _, document = compared(*interleaved(tmp_path, rates_only, spec_changes=driven("ycsb", **A)))
    assert document["verdict"] == "rate not kept" and document["set_rate"]["not_kept"] == ["a"]


def test_one_repeat_that_missed_the_rate_does_not_decide(tmp_path: Path) -> None:
    def metrics(place: str, k: int) -> list[Any]:
        late = {"update_ms": 0.2, "done": 2000 if k == 5 else 3000}
        return ycsb(**(late if place == PLACES[1] else {"update_ms": 5.0}), seed=k)

    _, document = compared(*interleaved(tmp_path, metrics, spec_changes=driven("ycsb", **A)))
    assert document["verdict"] == "faster" and document["set_rate"]["b"]["missed"] == 1


@pytest.mark.parametrize(
    ("begin", "end", "kept"),
    [
        (60, 60, True),  # answers take six seconds, at both ends of the window
        (60, 70, True),  # by chance
        (0, 60, False),  # one in ten is missing
        (60, 0, False),  # what was due in the ramp-up was done in the window
    ],
)
def test_a_rate_is_kept_if_no_more_is_outstanding_at_the_end(tmp_path, begin, end, kept):
    """Ten a second for a minute, of which 540 are counted: as many as there are users in flight."""
    spec = driven("tpcc", users=60, think_time=False, rate=10)
    ends = [metric("outstanding_count", n, at=at) for at, n in (("begin", begin), ("end", end))]
    sides = interleaved(tmp_path, lambda _, k: [*tpcc(5.0, 9.0, k), *ends], spec_changes=spec)
    _, document = compared(*sides)
    assert document["set_rate"]["not_kept"] == ([] if kept else ["a", "b"])


@pytest.mark.parametrize(
    ("params", "per_s", "by"),
    [
        ({"users": 4, "think_time": False, "rate": None}, 12.0, None),
        # Transactions that are rolled back count as done.
        ({"users": 4, "think_time": False, "rate": 10}, 10.0, "option"),
        # Ten transactions a second of 5 ms keep one user waiting for 5 % of the time.
        ({"users": 200, "think_time": True, "rate": None}, 10.0, "think time"),
        ({"users": 1, "think_time": True, "rate": None}, 12.0, None),
    ],
)
def test_new_orders_decide_unless_a_rate_is_set(tmp_path, params, per_s, by):
    of = dict(zip(PLACES, ((5.0, 10.0), (1.0, per_s)), strict=True))
    sides = interleaved(
        tmp_path, lambda place, k: tpcc(*of[place], k), spec_changes=driven("tpcc", **params)
    )
    _, document = compared(*sides)
    assert document["verdict"] == "faster"
    assert (document["set_rate"] or {}).get("by") == by
    median = {"transaction": "new_order", "percentile": "50"}
    name, labels = ("transaction_duration_ns", median) if by else ("new_orders_per_minute", {})
    assert document["headline"] == {"metric": name, "labels": labels}
    if by == "option":
        assert document["set_rate"]["a"]["done_per_s"] == 10.0


def conclusions(runs: list[StoredRun], users: int) -> list[tuple[str, float]]:
    """Verdict and p of the panels with this number of users."""
    return [
        (group.verdict, row.decision.adjusted_p)
        for panel in panels(runs, "placement", None)
        if panel.runs[0].document["spec"]["params"]["users"] == users
        for group in panel.groups
        if (row := group.row(group.headline.quantity)) and row.decision
    ]


def test_a_family_is_the_comparisons_of_one_experiment(tmp_path: Path) -> None:
    def runs(folder: str, *names: str) -> list[StoredRun]:
        made: list[StoredRun] = []
        for users, name in zip((4, 8), names, strict=False):
            spec = driven("tpcc", warehouses=1, think_time=False, rate=None, users=users)
            slow, fast = interleaved(
                tmp_path / folder,
                lambda place, k: tpcc(5.0, 10.0 if place == PLACES[0] else 12.0 + k, k),
                spec_changes=spec,
                experiment=name,
            )
            made += [*slow, *fast]
        return made

    assert conclusions(runs("one", "x"), 4) == [("faster", 2 / 2**6)]
    assert conclusions(runs("apart", "x", "y"), 4) == [("faster", 2 / 2**6)]
    assert conclusions(runs("together", "x", "x"), 4) == [("not resolvable", 4 / 2**6)]


def test_every_two_arms_are_compared_without_changing_what_the_baseline_shows(tmp_path):
    spec = driven("tpcc", warehouses=1, users=4, think_time=False, rate=None)
    rates = {"ssd-both": 10.0, "ssd-data-pmem-wal": 12.0, "pmem-both": 15.0}
    arms = interleaved(
        tmp_path, lambda p, k: tpcc(5.0, rates[p] + 0.1 * k, k), 7, [*rates], spec_changes=spec
    )
    (panel,) = panels([run for arm in arms for run in arm], "placement", "ssd-both")
    (other,) = panel.others
    assert {other.a.name, other.b.name} == {"ssd-data-pmem-wal", "pmem-both"}
    assert other.verdict == ("faster" if other.b.name == "pmem-both" else "slower")
    row = other.row(other.headline.quantity)
    assert row is not None and row.decision is not None and row.decision.family == 1
    assert [r.decision.family for g in panel.groups
            if (r := g.row(g.headline.quantity)) and r.decision] == [2, 2]  # fmt: skip


def test_a_worsening_that_is_shown_goes_before_a_larger_one_that_is_not(tmp_path: Path) -> None:
    of = dict(zip(PLACES, ((5.0, 1.0, 1.0), (5.5, 0.8, 9.0)), strict=True))

    def metrics(place: str, k: int) -> list[Any]:
        update, read, up = of[place]
        return ycsb(update, read * (1 if k % 2 else up), seed=k)

    _, document = compared(*interleaved(tmp_path, metrics, 12, spec_changes=driven("ycsb", **A)))
    assert document["verdict"] == "slower"
    assert document["worsening"]["labels"]["operation"] == "update"
    assert document["worsening"]["outcome"] == "shown"
