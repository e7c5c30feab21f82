"""TPC-C by the letter, in Python: a small database, and what each transaction does to it.

Row by row as clauses 2.4 to 2.8 tell it, for comparison with an engine's procedures. Times
are only "then" (as loaded) or "now".
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

THEN, NOW = "then", "now"
LOADED = "2020-01-01 00:00:00"
WAREHOUSES, DISTRICTS, ITEMS = 2, 10, 20
#: Customers 1, 2 … of every district, by last name; first names are not in their order.
NAMES = ("BARBARBAR", "BARBAROUGHT", "BARBARBAR", "BARBARBAR", "BARBAROUGHT", "ABLEABLEABLE")
FIRST = ("Zoe", "Yan", "Ann", "Max", "Eve", "Kim")
#: The first order that is not delivered, and the district that has none (of warehouse 1).
ORDERS, FIRST_NEW, NOTHING_NEW = 6, 4, 3
UNUSED_ITEM = 100_001

TABLES: Mapping[str, tuple[str, ...]] = {
    "warehouse": ("w_id", "w_name", "w_street_1", "w_street_2", "w_city", "w_state", "w_zip",
                  "w_tax", "w_ytd"),
    "district": ("d_w_id", "d_id", "d_name", "d_street_1", "d_street_2", "d_city", "d_state",
                 "d_zip", "d_tax", "d_ytd", "d_next_o_id"),
    "customer": ("c_w_id", "c_d_id", "c_id", "c_first", "c_middle", "c_last", "c_street_1",
                 "c_street_2", "c_city", "c_state", "c_zip", "c_phone", "c_since", "c_credit",
                 "c_credit_lim", "c_discount", "c_balance", "c_ytd_payment", "c_payment_cnt",
                 "c_delivery_cnt", "c_data"),
    "history": ("h_c_id", "h_c_d_id", "h_c_w_id", "h_d_id", "h_w_id", "h_date", "h_amount",
                "h_data"),
    "new_order": ("no_w_id", "no_d_id", "no_o_id"),
    "orders": ("o_w_id", "o_d_id", "o_id", "o_c_id", "o_entry_d", "o_carrier_id", "o_ol_cnt",
               "o_all_local"),
    "order_line": ("ol_w_id", "ol_d_id", "ol_o_id", "ol_number", "ol_i_id", "ol_supply_w_id",
                   "ol_delivery_d", "ol_quantity", "ol_amount", "ol_dist_info"),
    "item": ("i_id", "i_im_id", "i_name", "i_price", "i_data"),
    "stock": ("s_w_id", "s_i_id", "s_quantity", *(f"s_dist_{d:02}" for d in range(1, 11)),
              "s_ytd", "s_order_cnt", "s_remote_cnt", "s_data"),
}  # fmt: skip
TIMES = frozenset({"c_since", "h_date", "o_entry_d", "ol_delivery_d"})
_KEYS = {"warehouse": 1, "district": 2, "customer": 3, "new_order": 3, "orders": 3,
         "order_line": 4, "item": 1, "stock": 2}  # fmt: skip

Row = dict[str, Any]
Line = tuple[int, int, int]  # item, supplying warehouse, quantity


@dataclass
class Database:
    """Rows by table and key; history is a list."""

    tables: dict[str, dict[tuple[Any, ...], Row]] = field(default_factory=dict)
    history: list[Row] = field(default_factory=list)

    def add(self, table: str, *values) -> None:
        row = dict(zip(TABLES[table], values, strict=True))
        if table == "history":
            self.history.append(row)
        else:
            self.tables.setdefault(table, {})[values[: _KEYS[table]]] = row

    def __getitem__(self, table: str) -> dict[tuple[Any, ...], Row]:
        return self.tables.setdefault(table, {})

    def rows(self, table: str) -> list[Row]:
        return self.history if table == "history" else list(self[table].values())

    def copy(self) -> Database:
        return copy.deepcopy(self)


def sorted_rows(rows) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: [str(value) for value in row])


def small_database() -> Database:
    """Two warehouses, six customers and six orders a district, half of these delivered."""
    database = Database()
    for i in range(1, ITEMS + 1):
        data = "an ORIGINAL item" if i % 5 == 0 else "an item like others"
        database.add("item", i, i * 7, f"item {i}", Decimal(100 + 37 * i) / 100, data)
    for w in range(1, WAREHOUSES + 1):
        _add_warehouse(database, w)
    return database


def _add_warehouse(database: Database, w: int) -> None:
    database.add("warehouse", w, f"house{w}", "street", "lane", "city", "ST", "123411111",
                 Decimal("0.0700") + Decimal(w) / 1000, Decimal("300000.00"))  # fmt: skip
    for i in range(1, ITEMS + 1):
        dists = [f"{w}-{i:02}-{d:02}".ljust(24, "x") for d in range(1, 11)]
        data = "ORIGINAL stock" if i % 10 == 0 else "stock like others"
        database.add("stock", w, i, 10 + i, *dists, 0, 0, 0, data)
    for d in range(1, DISTRICTS + 1):
        _add_district(database, w, d)


def _add_district(database: Database, w: int, d: int) -> None:
    database.add("district", w, d, f"dist{d}", "street", "lane", "city", "ST", "987611111",
                 Decimal(d) / 100, Decimal("30000.00"), ORDERS + 1)  # fmt: skip
    for c, (last, first) in enumerate(zip(NAMES, FIRST, strict=True), start=1):
        credit, data = ("BC", "y" * 495) if c % 2 == 0 else ("GC", "some words of a customer")
        database.add("customer", w, d, c, first, "OE", last, "street", "lane", "city", "ST",
                     "555511111", "0123456789012345", THEN, credit, Decimal("50000.00"),
                     Decimal(c) / 100, Decimal("-10.00"), Decimal("10.00"), 1, 0,
                     data)  # fmt: skip
        database.add("history", c, d, w, d, w, THEN, Decimal("10.00"), "loaded")
    for o in range(1, ORDERS + 1):
        new = o >= FIRST_NEW and (w, d) != (1, NOTHING_NEW)
        c = o % len(NAMES) + 1
        database.add("orders", w, d, o, c, THEN, None if new else 7, 5, 1)
        if new:
            database.add("new_order", w, d, o)
        for number in range(1, 6):
            item = (o * 5 + number + d) % ITEMS + 1
            amount = Decimal(100 * o + number) / 100 if new else Decimal("0.00")
            database.add("order_line", w, d, o, number, item, w, None if new else THEN, 5,
                         amount, "loaded".ljust(24, "x"))  # fmt: skip


def new_order(database: Database, w: int, d: int, c: int, lines: Sequence[Line]) -> Row | None:
    """Clause 2.4.2.2: what the terminal shows; None (and nothing done) for an unused item."""
    before = database.copy()
    warehouse, district = database["warehouse"][w,], database["district"][w, d]
    customer = database["customer"][w, d, c]
    o = district["d_next_o_id"]
    district["d_next_o_id"] += 1
    local = int(all(supply == w for _, supply, _ in lines))
    database.add("orders", w, d, o, c, NOW, None, len(lines), local)
    database.add("new_order", w, d, o)
    shown, total = [], Decimal(0)
    for number, (i, supply, quantity) in enumerate(lines, start=1):
        if (i,) not in database["item"]:
            database.tables, database.history = before.tables, before.history
            return None
        item, stock = database["item"][i,], database["stock"][supply, i]
        enough = stock["s_quantity"] >= quantity + 10
        stock["s_quantity"] += -quantity if enough else 91 - quantity
        stock["s_ytd"] += quantity
        stock["s_order_cnt"] += 1
        stock["s_remote_cnt"] += supply != w
        amount = quantity * item["i_price"]
        total += amount
        original = "ORIGINAL" in item["i_data"] and "ORIGINAL" in stock["s_data"]
        shown.append((number, supply, i, item["i_name"], quantity, "B" if original else "G",
                      item["i_price"], amount))  # fmt: skip
        database.add("order_line", w, d, o, number, i, supply, None, quantity, amount,
                     stock[f"s_dist_{d:02}"])  # fmt: skip
    tax = 1 + warehouse["w_tax"] + district["d_tax"]
    cents = total * (1 - customer["c_discount"]) * tax * 100
    return {"o_id": o, "total_cents": int(cents.quantize(Decimal(1), ROUND_HALF_UP)),
            "lines": shown}  # fmt: skip


def named(database: Database, w: int, d: int, last: str) -> int:
    """The customer in the middle of those with the name: at ceil(n/2) by first name."""
    customers = sorted(
        (row["c_first"], row["c_id"])
        for (c_w, c_d, _), row in database["customer"].items()
        if (c_w, c_d, row["c_last"]) == (w, d, last)
    )
    return int(customers[(len(customers) + 1) // 2 - 1][1])


def payment(database, w: int, d: int, c_w: int, c_d: int, c: int | str, amount) -> int:
    """Clause 2.5.2.2, by number or last name: the customer's number."""
    warehouse, district = database["warehouse"][w,], database["district"][w, d]
    c = named(database, c_w, c_d, c) if isinstance(c, str) else c
    customer = database["customer"][c_w, c_d, c]
    warehouse["w_ytd"] += amount
    district["d_ytd"] += amount
    customer["c_balance"] -= amount
    customer["c_ytd_payment"] += amount
    customer["c_payment_cnt"] += 1
    if customer["c_credit"] == "BC":
        told = " ".join(map(str, (c, c_d, c_w, d, w, amount)))
        customer["c_data"] = f"{told} {customer['c_data']}"[:500]
    name = f"{warehouse['w_name']}    {district['d_name']}"
    database.add("history", c, c_d, c_w, d, w, NOW, amount, name)
    return c


def order_status(database, w: int, d: int, c: int | str) -> tuple[int, int, list[Any]]:
    """Clause 2.6.2.2: customer, newest order, and its lines: item, warehouse, quantity, amount."""
    c = named(database, w, d, c) if isinstance(c, str) else c
    newest = max(
        o
        for (o_w, o_d, o), row in database["orders"].items()
        if (o_w, o_d, row["o_c_id"]) == (w, d, c)
    )
    lines = [
        (row["ol_i_id"], row["ol_supply_w_id"], row["ol_quantity"], row["ol_amount"])
        for key, row in sorted(database["order_line"].items())
        if key[:3] == (w, d, newest)
    ]
    return c, newest, lines


def delivery(database: Database, w: int, carrier: int) -> list[int]:
    """Clause 2.7.4.2 for the ten districts: the orders delivered, 0 where there was none."""
    delivered = []
    for d in range(1, DISTRICTS + 1):
        waiting = [o for no_w, no_d, o in database["new_order"] if (no_w, no_d) == (w, d)]
        if not waiting:
            delivered.append(0)
            continue
        o = min(waiting)
        del database["new_order"][w, d, o]
        database["orders"][w, d, o]["o_carrier_id"] = carrier
        total = Decimal(0)
        for key, line in database["order_line"].items():
            if key[:3] == (w, d, o):
                line["ol_delivery_d"] = NOW
                total += line["ol_amount"]
        customer = database["customer"][w, d, database["orders"][w, d, o]["o_c_id"]]
        customer["c_balance"] += total
        customer["c_delivery_cnt"] += 1
        delivered.append(o)
    return delivered


def stock_level(database: Database, w: int, d: int, threshold: int) -> int:
    """Clause 2.8.2.2: distinct items of the last twenty orders with less than the threshold."""
    after = database["district"][w, d]["d_next_o_id"]
    items = {
        row["ol_i_id"]
        for (ol_w, ol_d, o, _), row in database["order_line"].items()
        if (ol_w, ol_d) == (w, d) and after - 20 <= o < after
    }
    return sum(database["stock"][w, i]["s_quantity"] < threshold for i in items)
