"""TPC-C's procedures of every engine against TPC-C by the letter, row by row; VoltDB's server."""

import json
import os
import random
import re
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
import tpcc_reference as by_the_letter
from narrowed import present
from open_files import LOOPBACK, listening
from tpcc_reference import LOADED, NOTHING_NEW, TABLES, TIMES, UNUSED_ITEM, Line

from engines.voltdb.counters import SNAPSHOT_BYTES, SNAPSHOTS_ENDED
from engines.voltdb.counters import write_back_warnings as window_warnings
from engines.voltdb.deployment import deployment, settled
from harness.engine import FillRequest
from harness.errors import RunFailed
from harness.progress import SilentProgress
from harness.sql_files import text_of

#: A name, or those of arrays that follow one another.
_PARAMETERS = re.compile(r"(?<!:)(?::[a-z_]+)+")
#: A call of VoltDB's: a procedure, or one of two by a condition, and its values.
_CALL = re.compile(r"(\w+)(?: when :(\w+)(?: = :(\w+))? else (\w+))? \((.*)\)", re.S)
_LOADED_MICROSECONDS = 1_577_836_800_000_000
SETTINGS = {
    "postgres": {},
    "mysql": {"innodb_buffer_pool_size": "134217728"},
    "voltdb": {"sitesperhost": "2", "snapshot_enabled": "false"},
}


@dataclass
class Shown:
    """A terminal's display of a New-Order: ``lines`` in their order, as in the reference."""

    o_id: int
    total_cents: int
    lines: list[tuple[Any, ...]]
    stock_quantities: list[int]


class Served:
    """An engine with the small database, and what should be in it now."""

    def __init__(self, engine) -> None:
        self.engine = engine
        self.expected = by_the_letter.small_database()
        self.connection = engine.connect()

    def call(self, transaction: str, **values) -> list[dict[str, Any]]:
        """Its statement with these values, as the native client writes them; the rows."""
        file = self.engine.sql_folder / "tpcc" / "calls" / f"{transaction}.sql"

        def written(match: re.Match[str]) -> str:
            value, *others = (values[name] for name in match[0][1:].split(":"))
            if others:
                return f"'{json.dumps(list(zip(value, *others, strict=True)))}'"
            if value is None:
                return "NULL"
            if isinstance(value, tuple):
                return f"'{{{','.join(map(str, value))}}}'"
            return f"'{value}'" if isinstance(value, str) else str(value)

        result = self.connection.execute(_PARAMETERS.sub(written, text_of(file)))
        return [dict(zip(result.columns, row, strict=True)) for row in result.rows]

    def new_order(self, w: int, d: int, c: int, lines: Sequence[Line]) -> Shown | None:
        """None where it was rolled back for an unused item."""
        items, supplies, quantities = zip(*lines, strict=True)
        try:
            rows = self.call(
                "new_order", w_id=w, d_id=d, c_id=c, ol_cnt=len(lines),
                all_local=int(set(supplies) == {w}), item_ids=items, supply_w_ids=supplies,
                quantities=quantities,
            )  # fmt: skip
        except RunFailed as error:
            if f"item {UNUSED_ITEM} is not in use" in str(error):
                return None
            raise
        return self.shown(rows, lines)

    def shown(self, rows: list[dict[str, Any]], lines: Sequence[Line]) -> Shown | None:
        """From a row for each line."""
        if rows[0]["o_id"] is None:
            return None
        assert {(row["o_id"], row["total_cents"]) for row in rows} == {tuple(rows[0].values())[:2]}
        names = ("ol_number", "ol_supply_w_id", "ol_i_id", "i_name", "ol_quantity",
                 "brand_generic", "i_price", "ol_amount")  # fmt: skip
        return Shown(
            rows[0]["o_id"],
            rows[0]["total_cents"],
            [tuple(row[name] for name in names) for row in rows],
            [row["s_quantity"] for row in rows],
        )

    def payment(self, w, d, c_w, c_d, c: int | str, amount: Decimal) -> dict[str, Any]:
        (row,) = self.call(
            "payment", w_id=w, d_id=d, c_w_id=c_w, c_d_id=c_d, amount=amount, **_customer(c)
        )
        return row

    def order_status(self, w: int, d: int, c: int | str) -> tuple[int, int, list[tuple[Any, ...]]]:
        """Return it in the reference's form."""
        return self.status(self.call("order_status", w_id=w, d_id=d, **_customer(c)))

    def status(self, rows: list[dict[str, Any]]) -> tuple[int, int, list[tuple[Any, ...]]]:
        """From a row for each line."""
        ((customer, newest),) = {(row["c_id"], row["o_id"]) for row in rows}
        names = ("ol_i_id", "ol_supply_w_id", "ol_quantity", "ol_amount")
        return customer, newest, [tuple(row[name] for name in names) for row in rows]

    def delivery(self, w: int, carrier: int) -> list[int]:
        (row,) = self.call("delivery", w_id=w, carrier_id=carrier)
        orders = [int(o) for o in row["order_ids"].split(",")]
        assert row["delivered"] == sum(o > 0 for o in orders)
        return orders

    def stock_level(self, w: int, d: int, threshold: int) -> int:
        (row,) = self.call("stock_level", w_id=w, d_id=d, threshold=threshold)
        return int(row["low_stock"])

    def unchanged_but_as_expected(self) -> None:
        for table, columns in TABLES.items():
            rows = self.connection.execute(f"select {', '.join(columns)} from {table}").rows
            stored_rows = (zip(columns, row, strict=True) for row in rows)
            expected = (row.items() for row in self.expected.rows(table))
            assert comparable(stored_rows) == comparable(expected), table

    def insert_rows(self) -> dict[str, int]:
        """By plain SQL; the number by table."""
        for table, columns in TABLES.items():
            values = ", ".join(
                "(" + ", ".join(_literal(c, row[c]) for c in columns) + ")"
                for row in self.expected.rows(table)
            )
            self.connection.execute(f"insert into {table} ({', '.join(columns)}) values {values}")
        return {table: len(self.expected.rows(table)) for table in TABLES}

    def replace_rows(self) -> None:
        self.connection.execute("begin")
        for table in TABLES:
            self.connection.execute(f"delete from {table}")
        self.insert_rows()
        self.connection.execute("commit")


class ServedByPostgres(Served):
    """PostgreSQL answers with one row, in which the lines are one text or arrays."""

    def shown(self, rows: list[dict[str, Any]], lines: Sequence[Line]) -> Shown | None:
        (row,) = rows
        lines_shown = sorted(
            (int(number), name, int(stock), brand, Decimal(price), Decimal(amount))
            for number, name, stock, brand, price, amount in (
                line.split("\t") for line in row["lines"].split("\n")
            )
        )
        return Shown(
            row["o_id"],
            _rounded(row["total_amount"] * 100),
            [
                (number, supply, item, name, quantity, brand, price, amount)
                for (number, name, _, brand, price, amount), (item, supply, quantity) in zip(
                    lines_shown, lines, strict=True
                )
            ],
            [stock for _, _, stock, *_ in lines_shown],
        )

    def status(self, rows: list[dict[str, Any]]) -> tuple[int, int, list[tuple[Any, ...]]]:
        (row,) = rows
        lines = zip(row["items"], row["supplies"], row["quantities"], row["amounts"], strict=True)
        return row["c_id"], row["o_id"], list(lines)


class ServedByVoltDb(Served):
    """Calls of procedures instead of statements; answers of one table, or of a head and lines."""

    def call(self, transaction: str, **values) -> list[dict[str, Any]]:
        text = text_of(self.engine.sql_folder / "tpcc" / "calls" / f"{transaction}.sql")
        first, a, b, other, names = present(_CALL.fullmatch(text.strip())).groups()
        holds = not a or (values[a] == values[b] if b else values[a])
        parameters = [values[name.strip()[1:]] for name in names.split(",")]
        answer = self.connection.call(first if holds else other, *parameters)
        rows, *lines = [table.records() for table in answer.tables]
        return [rows[0] | line for line in lines[0]] if lines else rows

    def shown(self, rows: list[dict[str, Any]], lines: Sequence[Line]) -> Shown | None:
        cents = _rounded(rows[0]["total_amount"] * 100)
        return super().shown([{"o_id": r["o_id"], "total_cents": cents, **r} for r in rows], lines)

    def insert_rows(self) -> dict[str, int]:
        """By the procedures that every table has."""
        for table, columns in self.engine.columns.items():
            for row in self.expected.rows(table):
                values = (
                    _LOADED_MICROSECONDS if c in TIMES and row[c] else row[c] for c in columns
                )
                self.connection.call(f"{table.upper()}.insert", *values)
        return {table: len(self.expected.rows(table)) for table in TABLES}

    def replace_rows(self) -> None:
        for table in TABLES:
            self.connection.execute(f"truncate table {table}")
        self.insert_rows()


SERVED = {"postgres": ServedByPostgres, "mysql": Served, "voltdb": ServedByVoltDb}


def _customer(c: int | str) -> dict[str, Any]:
    by_name = isinstance(c, str)
    return {
        "c_id": None if by_name else c, "c_last": c if by_name else None, "by_name": int(by_name)
    }  # fmt: skip


def _literal(column: str, value) -> str:
    if value is None:
        return "null"
    if column in by_the_letter.TIMES:
        return f"'{by_the_letter.LOADED}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


def comparable(rows) -> list[tuple[Any, ...]]:
    """Rows of pairs of column and value, in an order of their own."""
    return by_the_letter.sorted_rows(tuple(_comparable(*pair) for pair in row) for row in rows)


def _comparable(column: str, value):
    """Times as "then" and "now", and decimals however many zeros they end with."""
    if column in TIMES and value is not None:
        return "then" if str(value) in ("then", LOADED, str(_LOADED_MICROSECONDS)) else "now"
    return value.normalize() if isinstance(value, Decimal) else value


def _rounded(number: Decimal) -> int:
    return int(number.quantize(Decimal(1), ROUND_HALF_UP))


@pytest.fixture(scope="module", params=SERVED)
def server(request, module_lab):
    """An engine with the schema and the procedures."""
    engine = module_lab.started(request.param, SETTINGS[request.param])

    def fill(given: Mapping[str, Any]) -> Mapping[str, int]:
        tables = given.get("tables", {})
        engine.columns = {table: [name for name, *_ in tables[table]] for table in tables}
        served = SERVED[engine.name](engine)
        with closing(served.connection):
            return served.insert_rows()

    engine.native_load(FillRequest("tpcc", fill, {"item": by_the_letter.ITEMS}, SilentProgress()))
    yield engine
    engine.kill()


@pytest.fixture
def served(server):
    served = SERVED[server.name](server)
    served.replace_rows()
    yield served
    served.connection.close()


LINES: Sequence[Line] = ((4, 1, 3), (20, 1, 10), (1, 1, 1), (10, 1, 5), (7, 1, 2))


def test_a_local_order_is_stored_and_shown(served):
    shown = served.new_order(1, 2, 5, LINES)
    expected = by_the_letter.new_order(served.expected, 1, 2, 5, LINES)
    assert shown is not None and expected is not None
    assert (shown.o_id, shown.total_cents) == (expected["o_id"], expected["total_cents"])
    assert shown.lines == expected["lines"]
    assert shown.stock_quantities == [
        served.expected["stock"][1, i]["s_quantity"] for i, _, _ in LINES
    ]
    served.unchanged_but_as_expected()


@pytest.mark.parametrize(
    "lines",
    [
        [(i, 1, 10) for i in range(1, 16)],
        [(i, 2 if i % 2 else 1, i) for i in (9, 3, 8, 1, 6)],
        # An item twice and three times, from one warehouse or two; the stock wraps around.
        [(1, 1, 9), (5, 1, 1), (1, 1, 9), (5, 2, 10), (1, 1, 9), (5, 1, 2)],
        [(3, 1, 10)] * 15,
        [(20, 1, 10), (20, 2, 10), (20, 1, 10), (20, 2, 1), (2, 2, 2)],
    ],
)
def test_an_order_with_remote_lines_or_an_item_twice(served, lines):
    shown = served.new_order(1, 3, 1, lines)
    expected = by_the_letter.new_order(served.expected, 1, 3, 1, lines)
    assert shown is not None and expected is not None
    assert (shown.o_id, shown.total_cents) == (expected["o_id"], expected["total_cents"])
    assert shown.lines == expected["lines"]
    served.unchanged_but_as_expected()


@pytest.mark.parametrize(
    "lines", [[*LINES[:4], (UNUSED_ITEM, 1, 3)], [(2, 1, 4), (2, 1, 4), (3, 2, 1), (2, 1, 1),
                                                 (UNUSED_ITEM, 1, 5)]]
)  # fmt: skip
def test_an_unused_item_rolls_the_order_back(served, lines):
    assert by_the_letter.new_order(served.expected, 1, 2, 5, lines) is None
    assert served.new_order(1, 2, 5, lines) is None
    served.unchanged_but_as_expected()
    # The connection is as new: the next order is stored.
    shown = served.new_order(1, 2, 5, LINES)
    assert shown is not None and shown.o_id == by_the_letter.ORDERS + 1


@pytest.mark.parametrize(
    ("c_w", "c_d", "c"),
    [
        (1, 1, 5),  # good credit
        (1, 1, 2),  # bad credit: c_data grows on the left and is cut
        (2, 7, 4),  # remote
        (1, 1, "BARBARBAR"),  # of three the second
        (2, 1, "BARBAROUGHT"),  # of two the first
        (1, 1, "ABLEABLEABLE"),  # the only one
    ],
)
def test_a_payment(served, c_w, c_d, c):
    amount = Decimal("1234.56")
    row = served.payment(1, 1, c_w, c_d, c, amount)
    paid = by_the_letter.payment(served.expected, 1, 1, c_w, c_d, c, amount)
    assert next(iter(row.values())) == paid
    customer = served.expected["customer"][c_w, c_d, paid]
    for name in ("c_first", "c_last", "c_credit", "c_discount", "c_balance", "c_phone"):
        assert row[name] == customer[name]
    bad = customer["c_credit"] == "BC"
    assert (row["c_data"] or "") == (customer["c_data"][:200] if bad else "")
    served.unchanged_but_as_expected()


@pytest.mark.parametrize("c", [1, 4, "BARBARBAR", "BARBAROUGHT"])
def test_the_status_of_the_newest_order(served, c):
    served.new_order(2, 4, 2, LINES)
    by_the_letter.new_order(served.expected, 2, 4, 2, LINES)
    assert served.order_status(2, 4, c) == by_the_letter.order_status(served.expected, 2, 4, c)
    served.unchanged_but_as_expected()


def test_deliveries_until_nothing_is_left(served):
    for carrier in range(1, 5):
        delivered = served.delivery(1, carrier)
        assert delivered == by_the_letter.delivery(served.expected, 1, carrier)
        assert delivered[NOTHING_NEW - 1] == 0
    assert delivered == [0] * 10
    served.unchanged_but_as_expected()


def test_the_stock_level_counts_an_item_once(served):
    for _ in range(3):
        served.new_order(1, 6, 1, LINES)
        by_the_letter.new_order(served.expected, 1, 6, 1, LINES)
    thresholds = (0, 12, 15, 20, 200)
    counts = [served.stock_level(1, 6, t) for t in thresholds]
    assert counts == [by_the_letter.stock_level(served.expected, 1, 6, t) for t in thresholds]
    assert 0 < counts[2] < counts[-1]


def test_only_the_last_twenty_orders_count(served):
    for number in range(22):
        lines = [(number % 5 + 1 + (10 if number < 2 else 0), 1, 1)] * 5
        served.new_order(1, 6, 1, lines)
        by_the_letter.new_order(served.expected, 1, 6, 1, lines)
    assert served.stock_level(1, 6, 200) == 5
    assert by_the_letter.stock_level(served.expected, 1, 6, 200) == 5


def test_a_long_mix_agrees_with_the_reference_row_by_row(served):
    chance = random.Random(20)
    expected = served.expected

    def order() -> None:
        w, d, c = chance.randint(1, 2), chance.randint(1, 10), chance.randint(1, 6)
        lines = [
            (chance.randint(1, 20), chance.choice((w, w, w, 3 - w)), chance.randint(1, 10))
            for _ in range(chance.randint(5, 15))
        ]
        if chance.random() < 0.1:
            lines[-1] = (UNUSED_ITEM, w, 1)
        made = by_the_letter.new_order(expected, w, d, c, lines)
        shown = served.new_order(w, d, c, lines)
        assert (shown and shown.o_id) == (made and made["o_id"])

    def pay() -> None:
        w, d, c_w, c_d = (chance.randint(1, n) for n in (2, 10, 2, 10))
        c = chance.choice((*range(1, 7), *by_the_letter.NAMES))
        amount = (Decimal(chance.randint(100, 500_000)) / 100).quantize(Decimal("0.01"))
        paid = by_the_letter.payment(expected, w, d, c_w, c_d, c, amount)
        assert served.payment(w, d, c_w, c_d, c, amount)["c_id"] == paid

    def deliver() -> None:
        w, carrier = chance.randint(1, 2), chance.randint(1, 10)
        assert served.delivery(w, carrier) == by_the_letter.delivery(expected, w, carrier)

    kinds: list[Callable[[], None]] = [*[order] * 10, *[pay] * 10, deliver]
    for _ in range(120):
        chance.choice(kinds)()
    served.unchanged_but_as_expected()


def test_a_failed_call_leaves_nothing(served):
    for nobody in (999, "NOBODY"):
        with pytest.raises(RunFailed, match="no such customer"):
            served.payment(1, 1, 1, 1, nobody, Decimal("1.00"))
    served.unchanged_but_as_expected()


# VoltDB: settings -----------------------------------------------------------------------


def test_passwords_are_hashed_in_the_deployment_file():
    text = deployment(settled({"snapshot_enabled": "off"}, 4), Path("/s & t"), "secret")
    assert "secret" not in text
    assert 'path="/s &amp; t"' in text
    assert 'sitesperhost="3"' in text and '<snapshot prefix="auto" enabled="false"' in text


@pytest.mark.parametrize(
    ("window", "settings", "codes"),
    [
        ({SNAPSHOTS_ENDED: 2.0, SNAPSHOT_BYTES: 1e8}, {}, []),
        ({SNAPSHOTS_ENDED: 0.0, SNAPSHOT_BYTES: 0.0}, {}, ["no-snapshot-in-window"]),
        ({SNAPSHOTS_ENDED: 0.0}, {"snapshot_enabled": "false"}, ["no-snapshots"]),
        ({}, {}, []),
    ],
)
def test_a_window_without_a_snapshot_has_a_warning(window, settings, codes):
    warnings = window_warnings(window, settled(settings, 2), 10**10)
    assert [warning.code for warning in warnings] == codes


# VoltDB: the server ---------------------------------------------------------------------


@pytest.mark.only("voltdb")
def test_it_listens_on_the_loopback_alone(server):
    addresses, ports = zip(*listening(server.processes()[0].pid), strict=True)
    assert {server.ports[name] for name in ("port", "internalport", "zkport")} <= set(ports)
    assert set(addresses) <= LOOPBACK


@pytest.mark.only("voltdb")
def test_root_s_server_is_in_a_network_that_no_other_user_reaches(server):
    """Its internal port and its ZooKeeper take anyone, and hold what a login sends."""
    assert (server.network() is not None) == (os.geteuid() == 0)
    assert bool(server.exposed()) == (server.network() is None)
    if server.network() is None:
        return
    for port in server.ports.values():
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
    process = server.processes()[0].pid
    joined = ["nsenter", f"--net=/proc/{process}/ns/net", "true"]
    other: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []}
    assert subprocess.run(joined, check=False, capture_output=True, **other).returncode != 0
    assert [line.split(":")[0].strip() for line in
            Path(f"/proc/{process}/net/dev").read_text().splitlines()[2:]] == ["lo"]  # fmt: skip


@pytest.mark.only("voltdb")
def test_the_recorded_configuration_has_settings_and_no_secret(server):
    config = server.effective_config()
    assert config["sitesperhost"] == "2"
    assert config["snapshotenabled"] == "false"
    assert config["java_heap"] == "1024M"
    assert server.native_connection()["password"] not in str(config)


@pytest.mark.only("voltdb")
def test_calls_are_counted_and_errors_are_the_server_s(server):
    before = server.counters()["voltdb_calls_count"]
    with closing(server.connect()) as connection:
        for _ in range(20):
            assert connection.execute("select count(*) from warehouse").rows == [(2,)]
        with pytest.raises(RunFailed, match="NO_SUCH_TABLE"):
            connection.execute("select * from no_such_table")
    assert server.counters()["voltdb_calls_count"] - before >= 20


# VoltDB: snapshots ----------------------------------------------------------------------


def test_automatic_snapshots_are_counted_and_survive_a_kill(lab):
    settings = {"sitesperhost": "1", "snapshot_frequency": "1s", "snapshot_retain": "1"}
    engine = lab.started("voltdb", settings)
    try:
        assert "snapshot_frequency=1s" in engine.lost_without_power()
        with closing(engine.connect()) as connection:
            connection.execute("create table t (a integer not null, primary key (a))")
            connection.execute("partition table t on column a")
            connection.execute("insert into t values (1)")
        begun = engine.counters()[SNAPSHOTS_ENDED]
        while engine.counters()[SNAPSHOTS_ENDED] < begun + 2:
            time.sleep(0.1)
        engine.kill()
        engine.start()
        with closing(engine.connect()) as connection:
            assert connection.execute("select a from t").rows == [(1,)]
    finally:
        engine.kill()
