"""TPC-C by the native client on real servers: it loads, runs, retries and reports failures."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from narrowed import present
from native_client import COUNTS, Native, loaded, operation, started
from patience import PATIENCE_S

from harness.drivers.result import WindowCallbacks
from harness.errors import RunFailed
from harness.progress import SilentProgress
from harness.sql_script import text_of
from harness.workloads.tpcc.params import TRANSACTIONS

SETTINGS = {
    "postgres": {"max_connections": "60"},
    "mysql": {"innodb_buffer_pool_size": "268435456"},
}


@pytest.fixture(scope="module", params=SETTINGS)
def native(request: pytest.FixtureRequest, module_lab: Any) -> Iterator[Native]:
    """One warehouse, loaded by the client."""
    name = request.param
    native = loaded(module_lab, name, SETTINGS[name])
    yield native
    native.engine.kill()


@pytest.fixture
def empty(native: Native, lab: Any) -> Iterator[Native]:
    """Another server of the same engine, with an empty database."""
    name = native.engine.name
    other = started(lab, name, SETTINGS[name])
    yield other
    other.engine.kill()


def connection_with(native: Native, **members: Any) -> dict[str, Any]:
    return {**native.engine.native_connection(), **members}


# Loading ------------------------------------------------------------------------


def test_the_reported_rows_are_in_the_database(native: Native) -> None:
    assert native.told == native.counted
    assert native.told.keys() == {*COUNTS, "order_line"}


#: Changes of the schema by which rows do not fit, with the words of the error.
UNFIT = {
    "postgres": (
        ("alter table item alter i_name type varchar(3)", "item.*too long"),
        ("alter table item drop i_name", "item.*i_name.* does not exist"),
        ("alter table item alter i_id type smallint", "item.*out of range"),
    ),
    "mysql": (("alter table item modify i_name varchar(3)", r"item.*do not fit.*i_name"),),
}


def test_rows_that_do_not_fit_are_an_error(empty: Native) -> None:
    for change, words in UNFIT[empty.engine.name]:

        def fill(connection: Mapping[str, Any], change: str = change) -> Mapping[str, int]:
            with closing(empty.engine.connect()) as changing:
                changing.execute(change)
            return empty.load(connection)

        with pytest.raises(RunFailed, match=words):
            empty.engine.native_load("tpcc", fill, COUNTS, SilentProgress())
        with closing(empty.engine.connect()) as connection:
            for table in (*COUNTS, "order_line"):
                connection.execute(f"drop table {table}")


@pytest.mark.only("postgres")
def test_missing_rows_are_an_error(empty: Native) -> None:
    with pytest.raises(RunFailed, match="99999 were loaded"):
        empty.engine.native_load(
            "tpcc", lambda _: {**COUNTS, "stock": 99_999}, COUNTS, SilentProgress()
        )


# Running ------------------------------------------------------------------------


def test_sixteen_connections_on_one_warehouse(native: Native) -> None:
    """All that the client had confirmed is there, and the conditions hold."""
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
    counts = {name: one.count for name, one in result.operations.items()}
    assert all(counts.values()) and len(counts) == 5
    assert result.window().done_count == 2000
    assert counts["new_order"] == orders.total()


def _keys(native: Native, what: str) -> Counter[tuple[int, ...]]:
    return Counter(tuple(map(int, row)) for row in native.rows(f"select {what}"))


def test_the_password_is_on_no_command_line(native: Native) -> None:
    """The password travels on stdin: no process's command line has it."""
    password = native.engine.native_connection()["password"]
    seen: list[str] = []

    def look() -> None:
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                seen.append(line.read_text(errors="replace"))
            except OSError:
                continue

    native.run(watch=WindowCallbacks(on_measuring=look))
    assert any("loadgen" in line for line in seen)
    assert not any(password in line for line in seen)


def test_an_unused_item_is_rolled_back_and_counted_apart(native: Native) -> None:
    count = "select count(*) from orders"
    before = native.rows(count)[0][0]
    result = native.run(operations=2000, mix={"new_order": 100})
    new_order = operation(result, "new_order")
    assert 2 <= new_order.rolled_back_count <= 60  # 1 % of 2000
    assert native.rows(count)[0][0] == before + new_order.count
    if native.engine.name == "postgres":  # an expected error is not logged
        assert "is not in use" not in native.engine.log.read_text()


def set_lock_timeout(native: Native, seconds: int) -> None:
    with closing(native.engine.connect()) as connection:
        connection.execute(f"set global innodb_lock_wait_timeout = {seconds}")


def test_a_lock_timeout_repeats_the_transaction_and_is_counted_by_its_code(native: Native) -> None:
    if native.engine.name == "postgres":
        lock_s, code = 2.0, "55P03"
        given = connection_with(native, options="-c lock_timeout=50ms")
    else:
        lock_s, code = 5.0, "1205"
        given = connection_with(native)
        set_lock_timeout(native, 1)
    history = native.rows("select count(*) from history")[0][0]
    with closing(native.engine.connect()) as connection:
        connection.execute("begin")
        connection.execute("select * from warehouse for update")
        released = threading.Timer(lock_s, connection.execute, ("rollback",))
        # From when the payments begin, however long a busy machine takes until then.
        watch = WindowCallbacks(on_measuring=released.start)
        result = native.run(mix={"payment": 100}, operations=100, watch=watch, connection=given)
        released.join()
    payment = operation(result, "payment")
    assert result.errors.get(code, 0) == payment.retried_count >= 2
    assert payment.count == 100
    assert native.rows("select count(*) from history")[0][0] == history + 100
    native.holds()
    if native.engine.name == "mysql":
        set_lock_timeout(native, 50)


@pytest.mark.only("mysql")
def test_sessions_have_the_isolation_level_of_the_connection(native: Native) -> None:
    for level, found in (("serializable", "SERIALIZABLE"), ("read committed", "READ-COMMITTED")):
        result = native.run(
            operations=10,
            statements={
                "stock_level": f"select if(@@transaction_isolation = '{found}', 1, 'another')"
            },
            mix={"stock_level": 100},
            connection=connection_with(native, isolation=level),
        )
        assert operation(result, "stock_level").count == 10


@pytest.mark.only("mysql")
def test_an_answer_in_several_parts_is_read_to_its_end(native: Native) -> None:
    """Of several statements and result sets the first row is the answer."""
    calls = native.engine.sql_folder / "tpcc" / "calls"
    stock_level = text_of(calls / "stock_level.sql").strip().rstrip(";")
    several = f"set @a = 1; select 1 from item where i_id < 0; {stock_level}; select 'more'"
    result = native.run(
        operations=50, statements={"stock_level": several}, mix={"stock_level": 100}
    )
    assert operation(result, "stock_level").count == 50


@pytest.mark.only("mysql")
def test_retries_within_a_procedure_are_counted(native: Native) -> None:
    twice = "select 0 as delivered, '0,0,0,0,0,0,0,0,0,0' as order_ids, 2 as retries"
    result = native.run(operations=50, statements={"delivery": twice}, mix={"delivery": 100})
    assert operation(result, "delivery").retried_count == 100
    assert result.errors == {"in-procedure": 100}


#: Order-Status as a statement that the server refuses, with the words of the error.
REFUSED = {
    "postgres": (
        ("select * from no_such_function(:w_id)", "no_such_function.* does not exist"),
        ("select 1 where", "syntax error"),
        ("select 1, 2, 1 / (:w_id - 1)", "22012: division by zero"),
    ),
    "mysql": (
        ("call no_such_procedure(:w_id)", "no_such_procedure does not exist"),
        ("select 1 where", "syntax"),
        ("select 3000000 as o_id", "3000000"),
    ),
}


def test_a_refused_statement_ends_the_run_with_the_server_s_words(native: Native) -> None:
    for statement, words in REFUSED[native.engine.name]:
        began = time.monotonic()
        with pytest.raises(RunFailed, match=words) as caught:
            native.run(
                seconds=2 * PATIENCE_S,
                statements={"order_status": statement},
                mix={"order_status": 100},
            )
        assert "order_status" in caught.value.context
        assert time.monotonic() - began < PATIENCE_S


# Failures -----------------------------------------------------------------------


def test_a_server_that_dies_ends_the_run(empty: Native) -> None:
    sleeping = "select ifnull(:c_id, 1), 1, sleep(0.01)"
    if empty.engine.name == "postgres":
        sleeping = "select coalesce(:c_id, 1), 1, pg_sleep(0.01)"
    words = r"(?i)closed the connection|terminating connection|57P0|lost connection|gone away"
    died: list[float] = []

    def kill() -> None:
        died.append(time.monotonic())
        empty.engine.kill()

    watch = WindowCallbacks(on_measuring=lambda: threading.Timer(1, kill).start())
    statements = dict.fromkeys(TRANSACTIONS, "select 1") | {"order_status": sleeping}
    with pytest.raises(RunFailed, match=words):
        empty.run(
            seconds=2 * PATIENCE_S,
            watch=watch,
            mix={"order_status": 100},
            statements=statements,
        )
    assert time.monotonic() - died[0] < PATIENCE_S  # and not by the end of its window


@pytest.mark.only("mysql")
def test_the_server_has_counted_every_acknowledged_transaction_at_once(native: Native) -> None:
    name = "server_commit_statements_count"
    counts = [native.engine.counters()[name]]
    watch = WindowCallbacks(on_measured=lambda: counts.append(native.engine.counters()[name]))
    result = native.run(operations=500, watch=watch)
    assert counts[1] - counts[0] == sum(present(one.count) for one in result.operations.values())
