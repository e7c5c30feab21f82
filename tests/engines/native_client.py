"""The native client beside an engine that a test has started, and what every engine's does alike.

The tests in it are those of each engine: its test module takes them in by their names.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S

from harness.drivers.loadgen import processes
from harness.errors import RunFailed
from harness.progress import SilentProgress
from harness.sql_files import text_of
from harness.workload import Clients
from harness.workloads.tpcc.consistency import check_conditions
from harness.workloads.tpcc.params import TRANSACTIONS

SECOND = 1_000_000_000
COUNTS = {"warehouse": 1, "district": 10, "customer": 30_000, "history": 30_000,
          "orders": 30_000, "new_order": 9_000, "item": 100_000, "stock": 100_000}  # fmt: skip


class Native:
    """A started engine with TPC-C's schema, and the client beside it."""

    def __init__(self, lab: Any, engine: Any) -> None:
        self.engine = engine
        self.clients = Clients(lab.supervisor, lab.credentials, lab.directory("c"))
        #: Rows by table, as the client told of its load and as the server counted then.
        self.told: dict[str, int] = {}
        self.counted: dict[str, int] = {}

    def load(self, connection: Mapping[str, Any]) -> Mapping[str, int]:
        result = processes.load({**self._spec(connection), "threads": 2}, self.clients)
        self.told = result["rows"]
        self.counted = {t: self.rows(f"select count(*) from {t}")[0][0] for t in self.told}
        return self.told

    def run(
        self,
        *,
        seconds: float = 1,
        statements: Mapping[str, str] = {},
        mix: Any = "deck",
        watch: processes.Watch | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        calls = self.engine.sql_folder / "tpcc" / "calls"
        spec = {
            **self._spec(self.engine.native_connection()),
            "task": "run", "threads": 1, "connections": 2,
            "statements": {f.stem: text_of(f) for f in calls.glob("*.sql")} | dict(statements),
            "mode": {"kind": "closed", "think_time": False},
            "ramp_up_ns": 0, "drain_ns": 10 * SECOND, "seed": 3,
            # So many seconds, or so many operations however long the machine stands still.
            **({} if "operations" in more else {"duration_ns": int(seconds * SECOND)}), **more,
        }  # fmt: skip
        spec["workload"]["params"] |= {"home": "all", "mix": mix}
        return processes.drive([spec], self.clients, watch)

    def _spec(self, connection: Mapping[str, Any]) -> dict[str, Any]:
        params = {"warehouses": 1, "data_seed": 1}
        return {
            "schema": 1, "backend": self.engine.native_backend(), "connection": dict(connection),
            "workload": {"name": "tpcc", "params": params},
        }  # fmt: skip

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(self.engine.connect()) as connection:
            return list(connection.execute(sql).rows)

    def holds(self) -> None:
        checks = check_conditions(self.engine, SilentProgress())
        assert [(c.name, c.detail) for c in checks if c.status != "passed"] == []


def restored(lab: Any, golden: Path, name: str, settings: Mapping[str, str]) -> Native:
    """A started engine with nothing in it."""
    engine = lab.engine(name, settings)
    engine.restore(golden, lab.places())
    engine.start()
    return Native(lab, engine)


def loaded(lab: Any, golden: Path, name: str, settings: Mapping[str, str]) -> Native:
    """With one warehouse, loaded by the client."""
    native = restored(lab, golden, name, settings)
    native.engine.native_load("tpcc", native.load, COUNTS, SilentProgress())
    native.holds()
    return native


def operation(result: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = {one["type"]: one for one in result["operations"]}[name]
    return found


def is_refused(native: Native, statement: str, words: str) -> None:
    """A statement ends the run at once, with the server's words and the transaction's name."""
    began = time.monotonic()
    with pytest.raises(RunFailed, match=words) as caught:
        native.run(
            seconds=2 * PATIENCE_S,
            statements={"order_status": statement},
            mix={"order_status": 100},
        )
    assert "order_status" in caught.value.context
    assert time.monotonic() - began < PATIENCE_S


def ends_when_the_server_dies(empty: Native, sleeping: str, words: str) -> None:
    """``sleeping``: an Order-Status that takes some milliseconds and needs no tables."""
    died: list[float] = []

    def kill() -> None:
        died.append(time.monotonic())
        empty.engine.kill()

    watch = processes.Watch(on_measuring=lambda: threading.Timer(1, kill).start())
    statements = dict.fromkeys(TRANSACTIONS, "select 1") | {"order_status": sleeping}
    with pytest.raises(RunFailed, match=words):
        empty.run(
            seconds=2 * PATIENCE_S,
            watch=watch,
            mix={"order_status": 100},
            statements=statements,
        )
    assert time.monotonic() - died[0] < PATIENCE_S  # and not by the end of its window


def retried_while_locked(native: Native, lock_s: float, code: str, **run: Any) -> None:
    """Payments while somebody holds the warehouse: the whole transaction again, counted by code.

    Held for longer where the client stood still for all of that time.
    """
    for longer in (1, 5, 20):
        history = native.rows("select count(*) from history")[0][0]
        with closing(native.engine.connect()) as connection:
            connection.execute("begin")
            connection.execute("select * from warehouse for update")
            released = threading.Timer(longer * lock_s, connection.execute, ("rollback",))
            # From when the payments begin, however long a busy machine takes until then.
            watch = processes.Watch(on_measuring=released.start)
            result = native.run(mix={"payment": 100}, operations=100, watch=watch, **run)
            released.join()
        payment = operation(result, "payment")
        if payment["retried"] >= 2:
            break
    assert result["errors"].get(code, 0) == payment["retried"] >= 2
    assert payment["count"] == 100
    assert native.rows("select count(*) from history")[0][0] == history + 100
    native.holds()


def test_what_the_client_told_of_its_load_is_there(native: Native) -> None:
    assert native.told == native.counted
    assert native.told.keys() == {*COUNTS, "order_line"}


def test_sixteen_connections_on_one_warehouse(native: Native) -> None:
    """All that the client was told is there, and the conditions hold."""
    journal = native.clients.scratch / "journal"
    orders = _keys(native, "o_d_id, o_id, o_c_id, o_ol_cnt from orders")
    paid = _keys(native, "h_d_id, h_c_d_id, h_c_id, h_amount * 100 from history")
    delivered = _keys(native, "o_d_id, o_id, o_carrier_id from orders where o_carrier_id > 0")
    result = native.run(operations=2000, connections=16, threads=2, journal=str(journal))
    native.holds()
    told = [line.split() for line in journal.read_text().splitlines()]
    orders = _keys(native, "o_d_id, o_id, o_c_id, o_ol_cnt from orders") - orders
    paid = _keys(native, "h_d_id, h_c_d_id, h_c_id, h_amount * 100 from history") - paid
    delivered = (
        _keys(native, "o_d_id, o_id, o_carrier_id from orders where o_carrier_id > 0") - delivered
    )
    assert orders == Counter(tuple(map(int, t[2:])) for t in told if t[0] == "N")
    assert paid == Counter(tuple(map(int, (t[2], *t[4:]))) for t in told if t[0] == "P")
    assert delivered == Counter(
        (district, order, int(t[2]))
        for t in told
        if t[0] == "D"
        for district, order in enumerate(map(int, t[3].split(",")), start=1)
        if order > 0
    )
    counts = {one["type"]: one["count"] for one in result["operations"]}
    assert all(counts.values()) and len(counts) == 5
    assert sum(counts.values()) + _rolled_back(result) == 2000
    assert counts["new_order"] == orders.total()


def _rolled_back(result: Mapping[str, Any]) -> int:
    return sum(one["rolled_back"] for one in result["operations"])


def _keys(native: Native, what: str) -> Counter[tuple[int, ...]]:
    return Counter(tuple(map(int, row)) for row in native.rows(f"select {what}"))


def test_secrets_are_nobody_elses(native: Native) -> None:
    """The password travels on stdin: no process's command line has it."""
    password = native.engine.native_connection()["password"]
    seen: list[str] = []

    def look() -> None:
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                seen.append(line.read_text(errors="replace"))
            except OSError:
                continue

    native.run(watch=processes.Watch(on_measuring=look))
    assert any("loadgen" in line for line in seen)
    assert not any(password in line for line in seen)
