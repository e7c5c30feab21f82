"""TPC-C by its clauses: the initial database (4.3.3.1), what terminals ask for (2.4.1 to 2.8.1)."""

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from ycsb_store import execute, job_of

# Whether drawn numbers fit their distribution ---------------------------------------

#: A fit is refused where chance alone gives a worse one in a million runs.
CHANCE = 1e-6


def assert_uniform(drawn: np.ndarray, low: int, high: int) -> None:
    """Each number of [low, high] is there, none beyond, and their counts fit chance."""
    assert drawn.min() >= low
    assert drawn.max() <= high
    bins = min(high - low + 1, 100)
    edges = np.linspace(low, high + 1, bins + 1)
    whole = np.array([np.ceil(b) - np.ceil(a) for a, b in pairwise(edges)])
    counts, _ = np.histogram(drawn, edges)
    expected = whole / whole.sum() * len(drawn)
    assert stats.chisquare(counts, expected).pvalue > CHANCE


def assert_nurand(drawn: np.ndarray, a: int, low: int, high: int, c: int) -> None:
    """Counts fit NURand(A, low, high), from its formula (clause 2.1.6).

    Rare numbers are taken together, so that each bin counts.
    """
    span = high - low + 1
    weights = np.zeros(span)
    numbers = np.arange(low, high + 1)
    for bits in range(a + 1):
        weights += np.bincount(((bits | numbers) + c) % span, minlength=span)
    assert drawn.min() >= low
    assert drawn.max() <= high
    order = np.argsort(weights, kind="stable")
    counts = np.bincount(drawn - low, minlength=span)[order]
    expected = weights[order] / weights.sum() * len(drawn)
    assert counts[expected == 0].sum() == 0
    bins = np.minimum(np.cumsum(expected) / len(drawn) * 200, 199).astype(int)
    observed, required = np.bincount(bins, counts), np.bincount(bins, expected)
    used = required > 0
    statistic = ((observed[used] - required[used]) ** 2 / required[used]).sum()
    assert required[used].min() > 5
    assert stats.chi2.sf(statistic, used.sum() - 1) > CHANCE


# Inputs -----------------------------------------------------------------------------

BOTH = ("new_order", "payment")
Loadgen = Callable[[dict[str, Any]], dict[str, Any]]
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
    assert stats.binomtest(chosen, of, share).pvalue > CHANCE


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
    used: list[int] = []
    rolled_back = 0
    for order in calls["new_order"]:
        *items, last = listed(order, "item_ids")
        used += items
        if order["rollback"] == "1":
            rolled_back += 1
            assert last > 100_000
        else:
            used.append(last)
    assert_nurand(np.array(used), 8191, 1, 100_000, result["notes"]["c_run"]["ol_i_id"])
    assert_share(rolled_back, len(calls["new_order"]), 0.01)
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


# The initial database depends on data seed and size only ----------------------------

Table = dict[str, np.ndarray]

ENTRY_DATE = "2020-01-01 00:00:00"


def load(loadgen: Loadgen, to: Path, warehouses: int, threads: int) -> dict[str, Any]:
    to.mkdir()
    return loadgen(spec({"directory": str(to)}, warehouses, threads))


def packages(directory: Path, table: str) -> list[str]:
    """Return what each bulk load of a table sent, in an order that threads do not change."""
    return sorted(path.read_text("ascii") for path in directory.glob(f"{table}.*.rows"))


def read(directory: Path, table: str) -> Table:
    """Columns of a table, as text."""
    columns: list[str] = []
    rows: list[list[str]] = []
    for package in packages(directory, table):
        head, *lines = package.removesuffix("\n").split("\n")
        columns = head.split(", ")
        rows += [line.split("\t") for line in lines]
    assert {len(row) for row in rows} == {len(columns)}
    values = zip(*rows, strict=True)
    return {name: np.array(column) for name, column in zip(columns, values, strict=True)}


@pytest.fixture(scope="session")
def loaded(loadgen, tmp_path_factory):
    """Two warehouses as four threads load them, and the result of the load."""
    directory = tmp_path_factory.mktemp("tpcc") / "two"
    return directory, load(loadgen, directory, warehouses=2, threads=4)


@pytest.fixture(scope="session")
def tables(loaded):
    directory, result = loaded
    return {table: read(directory, table) for table in result["rows"]}


def integers(column: np.ndarray) -> np.ndarray:
    return column.astype(np.int64)


def scaled(column: np.ndarray, places: int) -> np.ndarray:
    """Decimal numbers as integers in 10^-places; each has exactly that number of places."""
    assert all(re.fullmatch(rf"-?\d+\.\d{{{places}}}", text) for text in np.unique(column))
    return integers(np.char.replace(column, ".", ""))


def assert_strings(column: np.ndarray, low: int, high: int) -> None:
    """Random a-strings: alphanumeric, lengths evenly within [low, high]."""
    text = "".join(column[:20000])
    assert re.fullmatch("[0-9A-Za-z]+", text)
    lengths = np.char.str_len(column)
    assert lengths.min() >= low
    assert lengths.max() <= high
    if len(column) > 1000 and high > low:
        assert_uniform(lengths, low, high)
    if len(column) > 1000:
        assert len(np.unique(column)) > 0.9 * len(column)


def assert_original(column: np.ndarray, groups: np.ndarray) -> None:
    """Exactly a tenth of the rows hold ORIGINAL, anywhere in the string."""
    places = np.char.find(column, "ORIGINAL")
    for group in np.unique(groups):
        rows = groups == group
        assert (places[rows] >= 0).sum() == rows.sum() // 10
    taken = places[places >= 0]
    room = np.char.str_len(column[places >= 0]) - 8
    assert taken.min() == 0
    assert (taken == room).any()
    assert stats.kstest((taken + 0.5) / (room + 1), "uniform").statistic < 0.03


def test_row_counts_are_those_of_the_clause(loaded, tables):
    _, result = loaded
    rows = {name: len(next(iter(table.values()))) for name, table in tables.items()}
    assert (result["status"], result["rows"]) == ("complete", rows)
    lines = rows.pop("order_line")
    assert rows == {
        **{"warehouse": 2, "district": 20, "stock": 200_000, "item": 100_000},
        **dict.fromkeys(("customer", "history", "orders"), 60_000),
        "new_order": 18_000,
    }
    assert lines == integers(tables["orders"]["o_ol_cnt"]).sum()
    assert 595_000 < lines < 605_000


def test_keys_are_complete_and_unique(tables):
    def keys(table: str, *columns: str) -> list[tuple[int, ...]]:
        picked = [integers(tables[table][column]).tolist() for column in columns]
        return sorted(zip(*picked, strict=True))

    districts = [(w, d) for w in (1, 2) for d in range(1, 11)]
    each_of_3000 = [(w, d, i) for w, d in districts for i in range(1, 3001)]
    assert keys("item", "i_id") == [(i,) for i in range(1, 100_001)]
    assert keys("warehouse", "w_id") == [(1,), (2,)]
    assert keys("district", "d_w_id", "d_id") == districts
    assert keys("stock", "s_w_id", "s_i_id") == [(w, i) for w in (1, 2) for i in range(1, 100_001)]
    assert keys("customer", "c_w_id", "c_d_id", "c_id") == each_of_3000
    assert keys("history", "h_c_w_id", "h_c_d_id", "h_c_id") == each_of_3000
    assert keys("orders", "o_w_id", "o_d_id", "o_id") == each_of_3000
    assert keys("new_order", "no_w_id", "no_d_id", "no_o_id") == [
        key for key in each_of_3000 if key[2] > 2100
    ]
    orders = tables["orders"]
    heads = (integers(orders[c]).tolist() for c in ("o_w_id", "o_d_id", "o_id", "o_ol_cnt"))
    assert keys("order_line", "ol_w_id", "ol_d_id", "ol_o_id", "ol_number") == sorted(
        (w, d, o, n) for w, d, o, lines in zip(*heads, strict=True) for n in range(1, lines + 1)
    )


def test_item(tables):
    item = tables["item"]
    assert_uniform(integers(item["i_im_id"]), 1, 10_000)
    assert_strings(item["i_name"], 14, 24)
    assert_uniform(scaled(item["i_price"], 2), 100, 10_000)
    assert_strings(item["i_data"], 26, 50)
    assert_original(item["i_data"], np.zeros(100_000))


def test_stock(tables):
    stock = tables["stock"]
    assert_uniform(integers(stock["s_quantity"]), 10, 100)
    for district in range(1, 11):
        assert_strings(stock[f"s_dist_{district:02}"], 24, 24)
    for counter in ("s_ytd", "s_order_cnt", "s_remote_cnt"):
        assert set(stock[counter]) == {"0"}
    assert_strings(stock["s_data"], 26, 50)
    assert_original(stock["s_data"], stock["s_w_id"])


def test_no_character_is_favoured(tables):
    text = "".join(tables["stock"]["s_dist_03"])
    codes = np.frombuffer(text.encode("ascii"), np.uint8).reshape(-1, 24)
    for place in (0, 9, 10, 23):  # within draws, at their ends
        _, counts = np.unique(codes[:, place], return_counts=True)
        assert len(counts) == 62
        assert stats.chisquare(counts).pvalue > CHANCE


@pytest.mark.parametrize(
    ("table", "prefix", "ytd"), [("warehouse", "w", "300000.00"), ("district", "d", "30000.00")]
)
def test_warehouse_and_district(tables, table, prefix, ytd):
    rows = tables[table]
    assert_strings(rows[f"{prefix}_name"], 6, 10)
    assert_address(rows, prefix)
    tax = scaled(rows[f"{prefix}_tax"], 4)
    assert tax.min() >= 0
    assert tax.max() <= 2000
    assert set(rows[f"{prefix}_ytd"]) == {ytd}
    if table == "district":
        assert set(rows["d_next_o_id"]) == {"3001"}


def assert_address(rows: Table, prefix: str) -> None:
    for part in ("street_1", "street_2", "city"):
        assert_strings(rows[f"{prefix}_{part}"], 10, 20)
    assert all(re.fullmatch("[0-9A-Za-z]{2}", state) for state in rows[f"{prefix}_state"])
    assert all(re.fullmatch(r"\d{4}11111", code) for code in rows[f"{prefix}_zip"])


def test_customer(tables):
    customer = tables["customer"]
    assert_strings(customer["c_first"], 8, 16)
    assert set(customer["c_middle"]) == {"OE"}
    assert_address(customer, "c")
    assert_uniform(integers(np.array([code[:4] for code in customer["c_zip"]])), 0, 9999)
    assert all(re.fullmatch(r"\d{16}", phone) for phone in customer["c_phone"])
    assert set(customer["c_since"]) == {ENTRY_DATE}
    assert set(customer["c_credit"]) == {"GC", "BC"}
    for w, d in {*zip(customer["c_w_id"], customer["c_d_id"], strict=True)}:
        rows = (customer["c_w_id"] == w) & (customer["c_d_id"] == d)
        assert (customer["c_credit"][rows] == "BC").sum() == 300
    assert_uniform(scaled(customer["c_discount"], 4), 0, 5000)
    assert_strings(customer["c_data"], 300, 500)
    counters = {"payment_cnt": "1", "delivery_cnt": "0"}
    amounts = {"credit_lim": "50000.00", "balance": "-10.00", "ytd_payment": "10.00"}
    for column, value in (amounts | counters).items():
        assert set(customer[f"c_{column}"]) == {value}


def test_last_names(loaded, tables, last_names):
    """The first thousand have each name once, the others follow NURand(255, 0, 999)."""
    _, result = loaded
    customer = tables["customer"]
    ids = integers(customer["c_id"])
    number_of = {name: number for number, name in enumerate(last_names)}
    numbers = np.array([number_of[name] for name in customer["c_last"]])
    first = ids <= 1000
    assert (numbers[first] == ids[first] - 1).all()

    c_load = result["notes"]["c_load"]
    assert 0 <= c_load <= 255
    assert_nurand(numbers[~first], 255, 0, 999, c_load)


def test_history(tables):
    history = tables["history"]
    assert (history["h_c_d_id"] == history["h_d_id"]).all()
    assert (history["h_c_w_id"] == history["h_w_id"]).all()
    assert set(history["h_date"]) == {ENTRY_DATE}
    assert set(history["h_amount"]) == {"10.00"}
    assert_strings(history["h_data"], 12, 24)


def test_orders_are_a_permutation_of_the_customers(tables):
    orders = tables["orders"]
    seen = set()
    for w, d in {*zip(orders["o_w_id"], orders["o_d_id"], strict=True)}:
        rows = (orders["o_w_id"] == w) & (orders["o_d_id"] == d)
        customers = integers(orders["o_c_id"][rows])[np.argsort(integers(orders["o_id"][rows]))]
        assert sorted(customers) == list(range(1, 3001))
        fixed_points = (customers == np.arange(1, 3001)).sum()
        assert fixed_points < 12  # a random permutation has one, give or take one
        seen.add(tuple(customers))
    assert len(seen) == 20


def test_orders(tables):
    orders = tables["orders"]
    delivered = integers(orders["o_id"]) < 2101
    assert set(orders["o_carrier_id"][~delivered]) == {r"\N"}
    assert_uniform(integers(orders["o_carrier_id"][delivered]), 1, 10)
    assert_uniform(integers(orders["o_ol_cnt"]), 5, 15)
    assert set(orders["o_entry_d"]) == {ENTRY_DATE}
    assert set(orders["o_all_local"]) == {"1"}


def test_order_lines(tables):
    line = tables["order_line"]
    delivered = integers(line["ol_o_id"]) < 2101
    assert_uniform(integers(line["ol_i_id"]), 1, 100_000)
    assert (line["ol_supply_w_id"] == line["ol_w_id"]).all()
    assert set(line["ol_quantity"]) == {"5"}
    assert set(line["ol_delivery_d"][delivered]) == {ENTRY_DATE}
    assert set(line["ol_delivery_d"][~delivered]) == {r"\N"}
    assert set(line["ol_amount"][delivered]) == {"0.00"}
    assert_uniform(scaled(line["ol_amount"][~delivered], 2), 1, 999_999)
    assert_strings(line["ol_dist_info"], 24, 24)


def test_data_do_not_depend_on_threads_or_on_other_warehouses(loadgen, loaded, tmp_path):
    two, result = loaded
    load(loadgen, tmp_path / "again", warehouses=2, threads=1)
    for table in result["rows"]:
        assert packages(tmp_path / "again", table) == packages(two, table), table
    load(loadgen, tmp_path / "one", warehouses=1, threads=2)
    for table in ("stock", "customer", "order_line"):
        [alone] = packages(tmp_path / "one", table)
        assert alone in packages(two, table)


# Loading in parallel -----------------------------------------------------------


def spec(connection: dict[str, Any], warehouses: int, threads: int = 4, backend: str = "record"):
    params = {"warehouses": warehouses, "data_seed": 7}
    return job_of("tpcc", connection, params, task="load", backend=backend, threads=threads)


@pytest.mark.parametrize("table", ["stock", "item", "warehouse"])
def test_rows_that_the_server_has_not_stored_fail_the_load(loadgen_build, tmp_path, table):
    connection = {"directory": str(tmp_path), "loses": table}
    _, result = execute(loadgen_build / "loadgen", spec(connection, 1))
    assert result["status"] == "failed"
    assert "rows" not in result
    assert f"load table {table}, warehouses 1 to 1: " in result["error"]


def test_a_failure_stops_the_other_threads_early(loadgen_build, tmp_path):
    """The item table fails early in a load of thousands of warehouses."""
    connection = {"directory": str(tmp_path), "loses": "item"}
    many = spec(connection, warehouses=5_000, threads=9)
    status, result = execute(loadgen_build / "loadgen", many)
    assert status == 1
    assert "load table item" in result["error"]
    written = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert written < 50 * 70_000_000  # of 350 GB


def test_memory_does_not_grow_with_the_warehouses(loadgen_build):
    peaks = {}
    for warehouses in (1, 5):
        process = subprocess.Popen(
            [loadgen_build / "loadgen", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None and process.stdout is not None
        given = spec({}, warehouses, 2, "stub")
        process.stdin.write(json.dumps(given).encode())
        process.stdin.close()
        result = json.loads(process.stdout.read())
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        assert result["rows"]["stock"] == 100_000 * warehouses
        peaks[warehouses] = used.ru_maxrss
    assert peaks[5] < 1.2 * peaks[1]
