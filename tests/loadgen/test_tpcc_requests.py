"""Requests of TPC-C's terminals, by its clauses 2.4.1 to 2.8.1."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from drawn_numbers import CHANCE, assert_nurand, assert_uniform
from ycsb_store import job_of

BOTH = ("new_order", "payment")

Calls = dict[str, list[dict[str, str]]]
NULL = r"\N"
OFFERED = {
    "new_order": "w_id d_id c_id ol_cnt all_local rollback warehouses "
    "item_ids supply_w_ids quantities",
    "payment": "w_id d_id c_w_id c_d_id c_id c_last by_name amount warehouses",
    "order_status": "w_id d_id c_id c_last by_name",
    "delivery": "w_id carrier_id",
    "stock_level": "w_id d_id threshold",
}


def calling(to: Path, **changes) -> dict[str, Any]:
    """A run of the back end that records every call; `params` are added to."""
    to.mkdir()
    params = {"warehouses": 8, "data_seed": 7, **changes.pop("params", {})}
    statements = {
        name: " ".join(f":{value}" for value in values.split()) for name, values in OFFERED.items()
    }
    closed = {"kind": "closed", "think_time": False}
    bounds = {"connections": 10, "mode": closed, "ramp_up_ns": 0, "operations": 100_000}
    run = {"backend": "record", "statements": statements, "seed": 3, **bounds, **changes}
    return job_of("tpcc", {"directory": str(to)}, params, **run)


def read_calls(directory: Path) -> Calls:
    calls: Calls = {name: [] for name in OFFERED}
    for path in directory.glob("*.calls"):
        for line in path.read_text("ascii").splitlines():
            name, *values = line.split("\t")
            calls[name].append(dict(zip(OFFERED[name].split(), values, strict=True)))
    return calls


@pytest.fixture(scope="session")
def requests(loadgen, tmp_path_factory):
    """100,000 transactions by deck over all of 8 warehouses, and the result of the run."""
    directory = tmp_path_factory.mktemp("tpcc") / "requests"
    result = loadgen(calling(directory))
    return read_calls(directory), result


def column(calls: list[dict[str, str]], name: str) -> np.ndarray:
    return np.array([int(call[name]) for call in calls])


def listed(call: dict[str, str], name: str) -> list[int]:
    return [int(number) for number in call[name].split(",")]


def assert_share(chosen: int, of: int, share: float) -> None:
    assert scipy.stats.binomtest(chosen, of, share).pvalue > CHANCE


def test_the_mix_is_the_decks(requests):
    calls, result = requests
    finished = {
        name: operation["count"] + operation["rolled_back_count"]
        for name, operation in result["operations"].items()
    }
    assert finished == {name: len(made) for name, made in calls.items()}
    assert sum(finished.values()) == 100_000
    # Whole decks of 23 a terminal; only the last deck of each of the ten may be cut off.
    for name, number in finished.items():
        cards = 10 if name in BOTH else 1
        assert abs(number - 100_000 * cards / 23) <= 10 * cards
    # Clause 5.2.3's minima.
    assert min(finished.values()) > 4_000 and finished["payment"] > 43_000


def test_a_terminal_deals_whole_shuffled_decks(loadgen, tmp_path):
    loadgen(calling(tmp_path / "one", connections=1, threads=1, operations=2_300))
    [path] = (tmp_path / "one").glob("*.calls")
    names = [line.split("\t")[0] for line in path.read_text().splitlines()]
    decks = [tuple(names[i : i + 23]) for i in range(0, 2_300, 23)]
    for deck in decks:
        assert Counter(deck) == {name: 10 if name in BOTH else 1 for name in OFFERED}
    assert len(set(decks)) == len(decks)
    assert len({deck.index("delivery") for deck in decks}) > 15


def test_new_order(requests):
    calls, result = requests
    orders = calls["new_order"]
    c_run = result["notes"]["c_run"]
    assert_uniform(column(orders, "w_id"), 1, 8)
    assert_uniform(column(orders, "d_id"), 1, 10)
    assert_uniform(column(orders, "ol_cnt"), 5, 15)
    assert_nurand(column(orders, "c_id"), 1023, 1, 3000, c_run["c_id"])
    assert set(column(orders, "warehouses")) == {8}
    quantities = [listed(order, "quantities") for order in orders]
    assert_uniform(np.concatenate(quantities), 1, 10)
    for order in orders:
        lines = int(order["ol_cnt"])
        assert len(listed(order, "item_ids")) == len(listed(order, "supply_w_ids")) == lines
        assert len(listed(order, "quantities")) == lines
        at_home = set(listed(order, "supply_w_ids")) == {int(order["w_id"])}
        assert order["all_local"] == str(int(at_home))


def test_items_of_new_order(requests):
    """NURand items; in one order of a hundred the last one, and only that, is unused."""
    calls, result = requests
    orders = calls["new_order"]
    items = np.array(",".join(order["item_ids"] for order in orders).split(","), np.int64)
    last = np.cumsum(column(orders, "ol_cnt")) - 1
    assert last[-1] == len(items) - 1
    unused = last[column(orders, "rollback") == 1]
    rolled_back = len(unused)
    assert (items[unused] > 100_000).all()
    used = np.delete(items, unused)
    assert_nurand(used, 8191, 1, 100_000, result["notes"]["c_run"]["ol_i_id"])
    assert_share(rolled_back, len(orders), 0.01)
    assert result["operations"]["new_order"]["rolled_back_count"] == rolled_back


def test_one_line_in_a_hundred_is_supplied_from_elsewhere(requests):
    calls, _ = requests
    lines, distances = 0, []
    for order in calls["new_order"]:
        supply = listed(order, "supply_w_ids")
        lines += len(supply)
        distances += [(w - int(order["w_id"])) % 8 for w in supply if w != int(order["w_id"])]
    assert_share(len(distances), lines, 0.01)
    assert_uniform(np.array(distances), 1, 7)


def test_payment(requests):
    calls, _ = requests
    payments = calls["payment"]
    assert_uniform(column(payments, "w_id"), 1, 8)
    assert_uniform(column(payments, "d_id"), 1, 10)
    assert_uniform(column(payments, "amount"), 100, 500_000)
    remote = [call for call in payments if call["w_id"] != call["c_w_id"]]
    assert_share(len(remote), len(payments), 0.15)
    assert_uniform((column(remote, "c_w_id") - column(remote, "w_id")) % 8, 1, 7)
    assert_uniform(column(remote, "c_d_id"), 1, 10)
    assert_share(sum(call["d_id"] == call["c_d_id"] for call in remote), len(remote), 0.1)
    home = [call for call in payments if call["w_id"] == call["c_w_id"]]
    assert all(call["d_id"] == call["c_d_id"] for call in home)


@pytest.mark.parametrize("transaction", ["payment", "order_status"])
def test_customers_are_asked_for_by_name_or_number(requests, transaction, last_names):
    calls, result = requests
    c_run = result["notes"]["c_run"]
    by_name = [call for call in calls[transaction] if call["by_name"] == "1"]
    by_id = [call for call in calls[transaction] if call["by_name"] == "0"]
    assert_share(len(by_name), len(calls[transaction]), 0.6)
    assert len(by_name) + len(by_id) == len(calls[transaction])
    assert {call["c_id"] for call in by_name} == {NULL}
    assert {call["c_last"] for call in by_id} == {NULL}
    assert_nurand(column(by_id, "c_id"), 1023, 1, 3000, c_run["c_id"])
    numbers = np.array([last_names.index(call["c_last"]) for call in by_name])
    assert_nurand(numbers, 255, 0, 999, c_run["c_last"])


def test_order_status_delivery_and_stock_level(requests):
    calls, _ = requests
    for transaction in ("order_status", "delivery", "stock_level"):
        assert_uniform(column(calls[transaction], "w_id"), 1, 8)
    for transaction in ("order_status", "stock_level"):
        assert_uniform(column(calls[transaction], "d_id"), 1, 10)
    assert_uniform(column(calls["delivery"], "carrier_id"), 1, 10)
    assert_uniform(column(calls["stock_level"], "threshold"), 10, 20)


def test_one_warehouse_has_no_remote_one(loadgen, tmp_path):
    loadgen(calling(tmp_path / "one", params={"warehouses": 1}, operations=20_000))
    calls = read_calls(tmp_path / "one")
    assert {call["c_w_id"] for call in calls["payment"]} == {"1"}
    assert {call["all_local"] for call in calls["new_order"]} == {"1"}


def test_fixed_homes_are_one_district_a_terminal(loadgen, tmp_path):
    """With as many terminals as connections, each connection's file is of some terminals only."""
    seats = {"connections": 20, "first_terminal": 10, "all_terminals": 30}
    # One thread: of two, one might do all of it while the other stands still.
    fixed = {"params": {"warehouses": 3, "home": "fixed"}, "threads": 1, "operations": 20_000}
    loadgen(calling(tmp_path / "fixed", **seats, **fixed))
    calls = read_calls(tmp_path / "fixed")
    for transaction, made in calls.items():
        assert {call["w_id"] for call in made} == {"2", "3"}, transaction
    districts = {(call["w_id"], call["d_id"]) for call in calls["stock_level"]}
    assert districts == {(w, str(d)) for w in "23" for d in range(1, 11)}
    assert {call["d_id"] for call in calls["payment"]} == {str(d) for d in range(1, 11)}


def test_weights_instead_of_the_deck(loadgen, tmp_path):
    mix = {"new_order": 45, "payment": 43, "order_status": 4, "stock_level": 8}
    loadgen(calling(tmp_path / "mix", params={"mix": mix}))
    calls = read_calls(tmp_path / "mix")
    assert calls["delivery"] == []
    for transaction, weight in mix.items():
        assert_share(len(calls[transaction]), 100_000, weight / 100)


def test_a_seed_names_a_sequence(loadgen, tmp_path):
    """One terminal asks the same of any run with that seed, and other things with another."""
    texts = {}
    for name, seed, number in (("a", 5, 4), ("b", 5, 4), ("seed", 6, 4), ("terminal", 5, 5)):
        settings = {"connections": 1, "threads": 1, "first_terminal": number, "all_terminals": 9}
        loadgen(calling(tmp_path / name, seed=seed, operations=500, **settings))
        [path] = (tmp_path / name).glob("*.calls")
        texts[name] = path.read_text()
    assert texts["a"] == texts["b"]
    assert len(set(texts.values())) == 3


def test_the_journal_has_every_committed_transaction(loadgen, tmp_path):
    journal = tmp_path / "journal"
    loadgen(calling(tmp_path / "run", journal=str(journal), operations=5_000))
    calls = read_calls(tmp_path / "run")
    lines = [line.split(" ") for line in journal.read_text().splitlines()]
    committed = [call for call in calls["new_order"] if call["rollback"] == "0"]
    by_kind = Counter(line[0] for line in lines)
    made = {"N": committed, "P": calls["payment"], "D": calls["delivery"]}
    assert by_kind == {kind: len(those) for kind, those in made.items()}

    def sorted_calls(made: list[dict[str, str]], *names: str) -> list[list[str]]:
        return sorted([call[name] for name in names] for call in made)

    orders = [line for line in lines if line[0] == "N"]
    journalled = sorted([w, d, c, lines_] for _, w, d, _, c, lines_ in orders)
    assert journalled == sorted_calls(committed, "w_id", "d_id", "c_id", "ol_cnt")
    assert {int(line[3]) for line in orders} == set(range(3001, 3001 + len(committed)))
    assert sorted(line[1:5] + line[6:] for line in lines if line[0] == "P") == sorted_calls(
        calls["payment"], "w_id", "d_id", "c_w_id", "c_d_id", "amount"
    )
    assert sorted(line[1:] for line in lines if line[0] == "D") == sorted(
        [w, carrier, "1,2,3,4,5,6,7,8,9,0"]
        for w, carrier in sorted_calls(calls["delivery"], "w_id", "carrier_id")
    )
