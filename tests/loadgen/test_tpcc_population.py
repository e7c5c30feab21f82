"""TPC-C's initial database by clause 4.3.3.1, which depends on data seed and size only."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from drawn_numbers import CHANCE, assert_nurand, assert_uniform
from ycsb_store import execute, job_of

Loadgen = Callable[[dict[str, Any]], dict[str, Any]]
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
    columns: dict[str, list[str]] = {}
    for package in packages(directory, table):
        head, _, body = package.removesuffix("\n").partition("\n")
        names = head.split(", ")
        assert {line.count("\t") for line in body.split("\n")} == {len(names) - 1}
        cells = body.replace("\n", "\t").split("\t")
        for place, name in enumerate(names):
            columns.setdefault(name, []).extend(cells[place :: len(names)])
    return {name: np.array(column) for name, column in columns.items()}


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
    assert scipy.stats.kstest((taken + 0.5) / (room + 1), "uniform").statistic < 0.03


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
        assert scipy.stats.chisquare(counts).pvalue > CHANCE


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
