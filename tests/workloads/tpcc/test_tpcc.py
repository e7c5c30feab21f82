"""TPC-C: parameters, the figures of a window and their doubts, what is looked for after a kill."""

from types import SimpleNamespace
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from harness.drivers.result import SERIES_NS, DriverResult, Operation
from harness.drivers.validity import load_warnings
from harness.errors import RunFailed
from harness.progress import SilentProgress
from harness.store.artifacts import SeriesPoint
from harness.store.spec import Json
from harness.workloads.tpcc.drivers import HammerDbDriver, remote_lines
from harness.workloads.tpcc.durability import CommitJournal, check_durability
from harness.workloads.tpcc.params import TpccParams, shares
from harness.workloads.tpcc.population import row_counts
from harness.workloads.tpcc.workload import NOUNS, own_warnings
from harness.workloads.window import check_mix, window_metrics

DECK = {"new_order": 10, "payment": 10, "order_status": 1, "delivery": 1, "stock_level": 1}


def normalised(given):
    return TpccParams.from_mapping(given).to_json()


def test_users_that_think_are_ten_a_warehouse_at_home_and_share_connections():
    params = normalised({"warehouses": 1000, "think_time": True})
    assert (params["users"], params["home"]) == (10_000, "fixed")
    assert params["connections"] == 32
    assert normalised(params) == params


def test_the_deck_has_ten_ten_one_one_one():
    assert shares("deck") == {name: cards / 23 for name, cards in DECK.items()}


def test_weights_are_of_their_sum():
    mix = normalised({"mix": {"new_order": 3, "payment": 1}})["mix"]
    assert shares(mix) == dict.fromkeys(DECK, 0) | {"new_order": 0.75, "payment": 0.25}


def test_the_native_client_is_told_what_transactions_depend_on():
    native = TpccParams.from_mapping({"warehouses": 3}).native_json()
    assert native == {"warehouses": 3, "home": "all", "mix": "deck", "data_seed": 1}


def test_an_isolation_level_is_one_that_every_engine_has():
    assert "isolation" not in normalised({})
    assert normalised({"isolation": "repeatable-read"})["isolation"] == "repeatable-read"


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


# The figures of a run, from what its driver saw -------------------------------------


def recorded(*times_ns: int, each: int = 1) -> str:
    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    for time_ns in times_ns:
        histogram.record_value(time_ns, each)
    return str(histogram.encode().decode())


def driven_by(operations: dict[str, Operation], window_ns: int = 10**9, **more) -> DriverResult:
    return DriverResult("loadgen", "1", window_ns, operations, **more)


def test_a_transaction_that_never_happened_has_no_times():
    never = Operation(0, 0, latency_hdr=recorded())
    twice = Operation(2, latency_hdr=recorded(10**6, 2 * 10**6))
    driven = driven_by({"new_order": never, "payment": twice})
    metrics = window_metrics(driven, {}, NOUNS, [])
    timed = [m.labels["transaction"] for m in metrics if m.name == "transaction_duration_ns"]
    assert timed == ["payment"]
    counted = {m.labels["transaction"]: m.value for m in metrics if m.name == "transaction_count"}
    assert counted == {"new_order": 0, "payment": 2}


def test_a_server_s_time_of_a_few_ticks_is_no_time_of_a_transaction():
    """The kernel counts in ticks of 10 ms: three Payments of ten back ends add up to none."""
    for spent_ns, told in ((0, False), (90_000_000, False), (100_000_000, True)):
        driven = driven_by({"payment": Operation(3)}, client_cpu_ns=3000)
        values = {m.name: m.value for m in window_metrics(driven, {"cpu_ns": spent_ns}, NOUNS, [])}
        assert ("server_cpu_per_transaction_ns" in values) == told
        assert values["client_cpu_per_transaction_ns"] == 1000


def test_energy_is_that_of_each_transaction_by_zone():
    driven = driven_by({"payment": Operation(4)})
    counters = {"energy_j[zone=package]": 100.0, "energy_j[zone=dram]": 8.0}
    metrics = [m for m in window_metrics(driven, counters, NOUNS, []) if "energy_per" in m.name]
    assert {m.labels["zone"]: (m.value, m.unit) for m in metrics} == {
        "package": (25.0, "J"), "dram": (2.0, "J"),
    }  # fmt: skip
    assert {m.name for m in metrics} == {"energy_per_transaction_j"}


def test_a_transaction_that_was_never_answered_has_no_times():
    """At a set rate its age is in the histogram: no latency of the server."""
    ages = Operation(0, unfinished_count=2, latency_hdr=recorded(10**10, 2 * 10**10))
    some = Operation(1, unfinished_count=1, latency_hdr=recorded(10**6, 10**10))
    driven = driven_by({"delivery": ages, "payment": some})
    metrics = window_metrics(driven, {}, NOUNS, [])
    timed = [m.labels["transaction"] for m in metrics if m.name == "transaction_duration_ns"]
    assert timed == ["payment"]


# What makes the numbers of a window doubtful ----------------------------------------

CLOSED: dict[str, Json] = {"think_time": True, "users": 10, "connections": 4, "warehouses": 1}


def doubts(driven: DriverResult, **params) -> dict[str, str]:
    given = TpccParams.from_mapping(CLOSED | params)
    warnings = [*load_warnings(driven, NOUNS, closed=False), *own_warnings(given, driven)]
    return {finding.code: finding.context for finding in warnings}


@pytest.mark.parametrize(("connections", "took_ms", "told"), [(4, 37, True), (4, 20, False),
                                                              (10, 99, False)])  # fmt: skip
def test_waiting_for_a_shared_connection_is_told(connections, took_ms, told):
    """Little's law: 1,000 transactions of 37 ms in 10 s are 3.7 at a time, on 4 connections."""
    done = Operation(1000, latency_hdr=recorded(took_ms * 1_000_000, each=1000))
    contexts = doubts(driven_by({"payment": done}, 10 * SERIES_NS), connections=connections)
    assert ("shared-connections" in contexts) == told
    if told:
        assert contexts["shared-connections"].startswith("3.7 transactions")


def test_more_users_than_a_warehouse_has_terminals_are_told_if_they_think():
    driven = driven_by({}, 60 * SERIES_NS)
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
    contexts = doubts(driven_by({"delivery": delivery}, 60 * SERIES_NS))
    assert ("skipped-deliveries" in contexts) == told
    if told:
        assert contexts["skipped-deliveries"].startswith(f"{skipped} of {done} deliveries")


def series(*done: int) -> list[SeriesPoint]:
    numbered = enumerate(done)
    return [SeriesPoint(second * SERIES_NS, {"new_order": count}) for second, count in numbered]


def test_an_interval_that_is_cut_off_is_no_trend():
    """Ten and a half seconds at an even rate, and as many whose rate has halved."""
    flat, fallen = [100] * 10 + [50], [100] * 5 + [50] * 5 + [25]
    for done, told in ((flat, False), (fallen, True)):
        window_ns = 10 * SERIES_NS + SERIES_NS // 2
        contexts = doubts(driven_by({}, window_ns, series=series(*done)))
        assert ("not-steady-state" in contexts) == told


def test_transactions_without_an_answer_are_reported():
    ages = recorded(10**10, each=1000)
    delivery = Operation(990, unfinished_count=10, latency_hdr=ages)
    contexts = doubts(driven_by({"delivery": delivery}, 60 * SERIES_NS))
    assert "unanswered-operations" in contexts


# Whether operations were mixed as they should be ------------------------------------

HALVES = {"read": 0.5, "update": 0.5, "insert": 0.0, "scan": 0.0, "read_modify_write": 0.0}


def deck_status(driven: DriverResult) -> str:
    return check_mix(driven, NOUNS, shares("deck"), 2, rolled_back=0.01).status


@pytest.mark.parametrize(("changes", "status"), [({}, "passed"), ({"delivery": 5000}, "failed")])
def test_calls_of_hammerdb_are_compared_with_the_deck(changes, status):
    calls = {name: 1000 * share for name, share in DECK.items()} | changes
    operations = {name: Operation(called_count=count) for name, count in calls.items()}
    assert deck_status(driven_by(operations)) == status


def test_hammerdb_draws_remote_lines_of_postgres_from_all_warehouses():
    hammerdb = HammerDbDriver(TpccParams.from_mapping({"warehouses": 4}))

    def share(word: str) -> float:
        engine: Any = SimpleNamespace(hammerdb_database=word, kind="managed")
        return remote_lines(hammerdb, engine)

    assert (share("pg"), share("mysql")) == (0.0075, 0.01)


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


# What is looked for after a kill: of a journal, in rows that a database may have ----

LINES = """\
N 1 2 3001 17 9
N 1 2 3002 18 5
P 1 2 1 2 17 250000
P 1 2 1 2 17 250000
D 1 7 2101,0,2102,2101,2101,2101,2101,2101,2101,2101
"""


class Connection:
    """Answers the two questions from lists of rows."""

    def __init__(self, orders: list[tuple[Any, ...]], history: list[tuple[Any, ...]]) -> None:
        self.orders, self.history = orders, history

    def execute(self, sql: str, *, timeout_s: float | None = None):
        rows = self.history if "history" in sql else self.orders
        return type("Result", (), {"rows": rows})()

    def close(self) -> None:
        pass


ORDERS = [
    (2, 3001, 17, 9, None),
    (2, 3002, 18, 5, 3),  # delivered meanwhile
    (1, 2101, 5, 5, 7),
    (3, 2102, 5, 5, 7),
    *((d, 2101, 5, 5, 7) for d in range(4, 11)),
]
HISTORY = [(1, 2, 1, 2, 17, "2500.00", 2)]


def statuses(tmp_path, orders, history, lines=LINES):
    file = tmp_path / "journal"
    file.write_text(lines)
    engine = type("Engine", (), {"connect": lambda self: Connection(orders, history)})()
    checks = check_durability(CommitJournal.read([file]), engine, SilentProgress())
    return {check.labels["transaction"]: (check.status, check.detail) for check in checks}


def test_everything_there(tmp_path):
    results = statuses(tmp_path, ORDERS, HISTORY)
    assert results.keys() == {"new_order", "payment", "delivery"}
    assert {status for status, _ in results.values()} == {"passed"}
    assert all("loss of power" in detail for _, detail in results.values())


@pytest.mark.parametrize(
    ("orders", "history", "lost"),
    [
        (ORDERS[1:], HISTORY, "new_order"),
        ([(2, 3001, 16, 9, None), *ORDERS[1:]], HISTORY, "new_order"),
        ([(2, 3001, 17, 8, None), *ORDERS[1:]], HISTORY, "new_order"),
        ([*ORDERS[:2], (1, 2101, 5, 5, None), *ORDERS[3:]], HISTORY, "delivery"),
        ([*ORDERS[:2], (1, 2101, 5, 5, 8), *ORDERS[3:]], HISTORY, "delivery"),
        (ORDERS, [(1, 2, 1, 2, 17, "2500.00", 1)], "payment"),
        (ORDERS, [], "payment"),
    ],
)
def test_what_is_lost_is_named(tmp_path, orders, history, lost):
    results = statuses(tmp_path, orders, history)
    assert [name for name, (status, _) in results.items() if status == "failed"] == [lost]
    assert "w=1 d=" in results[lost][1]


def test_nothing_committed_proves_nothing(tmp_path):
    results = statuses(tmp_path, ORDERS, HISTORY, "")
    assert {status for status, _ in results.values()} == {"unknown"}


def test_a_line_that_is_none_is_named(tmp_path):
    with pytest.raises(RunFailed, match="line 2 is none"):
        statuses(tmp_path, ORDERS, HISTORY, "N 1 2 3001 17 9\nX 1\n")
