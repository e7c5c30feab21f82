"""VoltDB: its settings, its snapshots, and its procedures of TPC-C by the letter."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from engines.voltdb.deployment import deployment, settled
from harness.errors import RunFailed
from harness.progress import SilentProgress
from harness.sql_script import text_of

sys.path.insert(0, str(Path(__file__).parent))
import tpcc_reference as by_the_letter
from lab import open_lab
from open_files import LOOPBACK, listening
from test_tpcc_procedures import (  # noqa: F401
    Served,
    Shown,
    test_a_failed_call_leaves_nothing,
    test_a_local_order_is_stored_and_shown,
    test_a_long_mix_agrees_with_the_reference_row_by_row,
    test_a_payment,
    test_an_order_with_remote_lines_or_an_item_twice,
    test_an_unused_item_rolls_the_order_back,
    test_deliveries_until_nothing_is_left,
    test_only_the_last_twenty_orders_count,
    test_the_status_of_the_newest_order,
    test_the_stock_level_counts_an_item_once,
)

from engines.voltdb.engine import SNAPSHOT_BYTES, SNAPSHOTS_ENDED
from engines.voltdb.engine import write_back_warnings as window_warnings

SETTINGS = {"sitesperhost": "2", "snapshot_enabled": "false"}
_CALL = re.compile(r"(\w+)(?: when :(\w+)(?: = :(\w+))? else (\w+))? \((.*)\)", re.S)
_LOADED_MICROSECONDS = 1_577_836_800_000_000


# Settings -----------------------------------------------------------------------


def test_passwords_are_hashed_in_the_deployment_file() -> None:
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
    found = window_warnings(window, settled(settings, 2), 10**10)
    assert [warning.code for warning in found] == codes


# The server ---------------------------------------------------------------------


def test_it_listens_on_the_loopback_alone(server: Any) -> None:
    addresses, ports = zip(*listening(server.processes()[0].pid), strict=True)
    assert {server.ports[name] for name in ("port", "internalport", "zkport")} <= set(ports)
    assert set(addresses) <= LOOPBACK


def test_root_s_server_is_in_a_network_that_no_other_user_reaches(server: Any) -> None:
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


def test_the_recorded_configuration_has_settings_and_no_secret(server: Any) -> None:
    config = server.effective_config()
    assert config["sitesperhost"] == "2"
    assert config["snapshotenabled"] == "false"
    assert config["java_heap"] == "1024M"
    assert server.native_connection()["password"] not in str(config)


def test_calls_are_counted_and_errors_are_the_server_s(server: Any) -> None:
    before = server.counters()["voltdb_calls_count"]
    with closing(server.connect()) as connection:
        for _ in range(20):
            assert connection.execute("select count(*) from warehouse").rows == [(2,)]
        with pytest.raises(RunFailed, match="NO_SUCH_TABLE"):
            connection.execute("select * from no_such_table")
    assert server.counters()["voltdb_calls_count"] - before >= 20


# Snapshots ----------------------------------------------------------------------


def test_automatic_snapshots_are_counted_and_survive_a_kill(lab: Any) -> None:
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


# Procedures, by the letter ------------------------------------------------------


class ServedByVoltDb(Served):
    """Calls of procedures instead of statements; answers of one or two tables."""

    def call(self, transaction: str, **values: Any) -> list[dict[str, Any]]:
        return self.tables(transaction, **values)[0]

    def tables(self, transaction: str, **values: Any) -> list[list[dict[str, Any]]]:
        file = self.engine.sql_folder / "tpcc" / "calls" / f"{transaction}.sql"
        match = _CALL.fullmatch(text_of(file).strip())
        assert match is not None
        first, a, b, other, names = match.groups()
        holds = not a or (values[a] == values[b] if b else values[a])
        parameters = [values[name.strip()[1:]] for name in names.split(",")]
        answer = self.connection.call(first if holds else other, *parameters)
        return [table.records() for table in answer.tables]

    def new_order(self, w: int, d: int, c: int, lines: Any) -> Shown | None:
        items, supplies, quantities = zip(*lines, strict=True)
        try:
            (head,), rows = self.tables(
                "new_order", w_id=w, d_id=d, c_id=c, all_local=int(set(supplies) == {w}),
                item_ids=items, supply_w_ids=supplies, quantities=quantities,
            )  # fmt: skip
        except RunFailed as error:
            if f"item {by_the_letter.UNUSED_ITEM} is not in use" in str(error):
                return None
            raise
        total = int((head["total_amount"] * 100).to_integral_value("ROUND_HALF_UP"))
        return super().shown(
            [{"o_id": head["o_id"], "total_cents": total, **row} for row in rows], lines
        )

    def order_status(self, w: int, d: int, c: int | str) -> tuple[int, int, list[tuple[Any, ...]]]:
        by_name = isinstance(c, str)
        (head,), rows = self.tables(
            "order_status", w_id=w, d_id=d, c_id=None if by_name else c,
            c_last=c if by_name else None,
        )  # fmt: skip
        return self.status([{**head, **row} for row in rows])

    def found(self) -> dict[str, list[tuple[Any, ...]]]:
        return {table: self._rows(table) for table in by_the_letter.TABLES}

    def _rows(self, table: str) -> list[tuple[Any, ...]]:
        columns = by_the_letter.TABLES[table]
        rows = self.connection.execute(f"select {', '.join(columns)} from {table}").rows
        return by_the_letter.sorted_rows(
            tuple(_comparable(c, v) for c, v in zip(columns, row, strict=True)) for row in rows
        )

    def unchanged_but_as_expected(self) -> None:
        found = self.found()
        for table, columns in by_the_letter.TABLES.items():
            expected = by_the_letter.sorted_rows(
                tuple(_comparable(c, row[c]) for c in columns) for row in self.expected.rows(table)
            )
            assert found[table] == expected, table


def _comparable(column: str, value: Any) -> Any:
    """Times as "then" and "now", and decimals however many zeros they end with."""
    if column in by_the_letter.TIMES and isinstance(value, int):
        return "then" if value == _LOADED_MICROSECONDS else "now"
    return value.normalize() if isinstance(value, Decimal) else value


def _store(connection: Any, columns: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The small database's rows, by the procedures that every table has; ``columns`` in order."""
    database = by_the_letter.small_database()
    counts = {}
    for table in by_the_letter.TABLES:
        rows = database.rows(table)
        for row in rows:
            values = [
                _LOADED_MICROSECONDS if c in by_the_letter.TIMES and row[c] is not None else row[c]
                for c in columns[table]
            ]
            connection.call(f"{table.upper()}.insert", *values)
        counts[table] = len(rows)
    return counts


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with open_lab() as lab:
        engine = lab.started("voltdb", SETTINGS)

        def fill(given: Mapping[str, Any]) -> Mapping[str, int]:
            engine.columns = {
                table: [name for name, _, _ in columns]
                for table, columns in given["tables"].items()
            }
            with closing(engine.connect()) as connection:
                return _store(connection, engine.columns)

        engine.native_load("tpcc", fill, {"item": by_the_letter.ITEMS}, SilentProgress())
        yield engine
        engine.kill()


@pytest.fixture
def served(server: Any) -> Iterator[Served]:
    served = ServedByVoltDb(server)
    for table in by_the_letter.TABLES:
        served.connection.execute(f"truncate table {table}")
    _store(served.connection, server.columns)
    yield served
    served.connection.close()
