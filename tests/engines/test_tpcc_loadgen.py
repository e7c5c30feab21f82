"""TPC-C by the native client on real servers: it loads, runs, retries and reports failures."""

import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from lab import execute
from narrowed import present
from native_client import COUNTS, Native, loaded, started
from patience import PATIENCE_S

from engines.postgres.external import _may_set_logging
from harness.drivers.result import WindowCallbacks
from harness.engine import FillRequest
from harness.errors import RunFailed
from harness.progress import SilentProgress
from harness.sql_files import text_of
from harness.workloads.tpcc.params import TRANSACTIONS

SETTINGS = {
    "postgres": {"max_connections": "60"},
    "mysql": {"innodb_buffer_pool_size": "268435456"},
}


@pytest.fixture(scope="module", params=SETTINGS)
def native(request, module_lab):
    """One warehouse, loaded by the client."""
    name = request.param
    native = loaded(module_lab, name, SETTINGS[name])
    yield native
    native.engine.kill()


@pytest.fixture
def empty(native, lab):
    """Another server of the same engine, with an empty database."""
    name = native.engine.name
    other = started(lab, name, SETTINGS[name])
    yield other
    other.engine.kill()


def connection_with(native: Native, **members) -> dict[str, Any]:
    return {**native.engine.native_connection(), **members}


# Loading ------------------------------------------------------------------------


def test_the_reported_rows_are_in_the_database(native):
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


def test_rows_that_do_not_fit_are_an_error(empty):
    for change, words in UNFIT[empty.engine.name]:

        def fill(connection, change=change):
            execute(empty.engine, change)
            return empty.load(connection)

        with pytest.raises(RunFailed, match=words):
            empty.engine.native_load(FillRequest("tpcc", fill, COUNTS, SilentProgress()))
        execute(empty.engine, *(f"drop table {table}" for table in (*COUNTS, "order_line")))


@pytest.mark.only("postgres")
def test_missing_rows_are_an_error(empty):
    with pytest.raises(RunFailed, match="99999 were loaded"):
        empty.engine.native_load(
            FillRequest("tpcc", lambda _: {**COUNTS, "stock": 99_999}, COUNTS, SilentProgress())
        )


# Running ------------------------------------------------------------------------


def test_sixteen_connections_on_one_warehouse(native):
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
    counts = {name: operation.count for name, operation in result.operations.items()}
    assert all(counts.values()) and len(counts) == 5
    assert result.window().done_count == 2000
    assert counts["new_order"] == orders.total()


def _keys(native: Native, what: str) -> Counter[tuple[int, ...]]:
    return Counter(tuple(map(int, row)) for row in native.rows(f"select {what}"))


def test_the_password_is_on_no_command_line(native):
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


def test_an_unused_item_is_rolled_back_and_counted_apart(native):
    count = "select count(*) from orders"
    before = native.rows(count)[0][0]
    result = native.run(operations=2000, mix={"new_order": 100})
    new_order = result.operations["new_order"]
    assert 2 <= new_order.rolled_back_count <= 60  # 1 % of 2000
    assert native.rows(count)[0][0] == before + new_order.count
    if native.engine.name == "postgres":  # an expected error is not logged
        assert "is not in use" not in native.engine.log.read_text()


def test_a_lock_timeout_repeats_the_transaction_and_is_counted_by_its_code(native):
    if native.engine.name == "postgres":
        lock_s, code = 2.0, "55P03"
        given = connection_with(native, options="-c lock_timeout=50ms")
    else:
        lock_s, code = 5.0, "1205"
        given = connection_with(native)
        execute(native.engine, "set global innodb_lock_wait_timeout = 1")
    history = native.rows("select count(*) from history")[0][0]
    with closing(native.engine.connect()) as connection:
        connection.execute("begin")
        connection.execute("select * from warehouse for update")
        released = threading.Timer(lock_s, connection.execute, ("rollback",))
        # From when the payments begin, however long a busy machine takes until then.
        watch = WindowCallbacks(on_measuring=released.start)
        result = native.run(mix={"payment": 100}, operations=100, watch=watch, connection=given)
        released.join()
    payment = result.operations["payment"]
    assert result.errors.get(code, 0) == payment.retried_count >= 2
    assert payment.count == 100
    assert native.rows("select count(*) from history")[0][0] == history + 100
    native.holds()
    if native.engine.name == "mysql":
        execute(native.engine, "set global innodb_lock_wait_timeout = 50")


@pytest.mark.only("mysql")
def test_sessions_have_the_isolation_level_of_the_connection(native):
    for level, shown in (("serializable", "SERIALIZABLE"), ("read committed", "READ-COMMITTED")):
        result = native.run(
            operations=10,
            statements={
                "stock_level": f"select if(@@transaction_isolation = '{shown}', 1, 'another')"
            },
            mix={"stock_level": 100},
            connection=connection_with(native, isolation=level),
        )
        assert result.operations["stock_level"].count == 10


@pytest.mark.only("mysql")
def test_an_answer_in_several_parts_is_read_to_its_end(native):
    """The first row of several statements and result sets is the answer."""
    calls = native.engine.sql_folder / "tpcc" / "calls"
    stock_level = text_of(calls / "stock_level.sql").strip().rstrip(";")
    several = f"set @a = 1; select 1 from item where i_id < 0; {stock_level}; select 'more'"
    result = native.run(
        operations=50, statements={"stock_level": several}, mix={"stock_level": 100}
    )
    assert result.operations["stock_level"].count == 50


@pytest.mark.only("mysql")
def test_retries_within_a_procedure_are_counted(native):
    twice = "select 0 as delivered, '0,0,0,0,0,0,0,0,0,0' as order_ids, 2 as retries"
    result = native.run(operations=50, statements={"delivery": twice}, mix={"delivery": 100})
    assert result.operations["delivery"].retried_count == 100
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


def test_a_refused_statement_ends_the_run_with_the_server_s_words(native):
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


def test_a_server_that_dies_ends_the_run(empty):
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
def test_the_server_has_counted_every_acknowledged_transaction_at_once(native):
    name = "server_commit_statements_count"
    counts = [native.engine.counters()[name]]
    watch = WindowCallbacks(on_measured=lambda: counts.append(native.engine.counters()[name]))
    result = native.run(operations=500, watch=watch)
    assert counts[1] - counts[0] == sum(
        present(operation.count) for operation in result.operations.values()
    )


# Types, plans and sessions of PostgreSQL --------------------------------------------

CALLS = (
    "tpcc_new_order(1, 1, 1, 3, 1, '{1,2,3}', '{1,1,1}', '{1,1,1}')",
    "tpcc_payment(1, 1, 1, 1, null, 'BARBARBAR', 1.00)",
    "tpcc_order_status(1, 1, 1, null)",
    "tpcc_delivery(1, 1)",
    "tpcc_stock_level(1, 1, 15)",
)


@pytest.mark.only("postgres")
def test_a_schema_of_its_own_in_a_server_of_the_user(module_lab, native):
    """Data and procedures lie in a schema of ours, where the client finds them."""
    given = native.engine.native_connection()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", given["password"])
        dsn = "host={host} port={port} user={user} dbname={database}".format(**given)
        engine = module_lab.engine("postgres", options={"dsn": dsn})
        engine.prepare("tpcc-w1")
        users = Native(module_lab, engine)
        engine.native_load(FillRequest("tpcc", users.load, COUNTS, SilentProgress()))
        before = native.rows("select count(*) from public.orders")
        result = users.run(operations=200)
        users.holds()
        orders = users.rows("select count(*) from orders")[0][0]
        assert orders == 30_000 + present(result.operations["new_order"].count)
        assert native.rows("select count(*) from public.orders") == before
        engine.stop()


@pytest.mark.only("postgres")
def test_the_right_to_keep_errors_out_of_the_log_is_queried(native):
    with closing(native.engine._open()) as connection:
        assert _may_set_logging(connection)
        connection.execute("create role plain")
        connection.execute("set role plain")
        assert not _may_set_logging(connection)
        connection.execute("reset role")
        connection.execute("drop role plain")


@pytest.mark.only("postgres")
def test_a_serialization_failure_is_retried(native):
    result = native.run(
        operations=2000,
        connections=8,
        mix={"payment": 100},
        connection={**native.engine.native_connection(), "isolation": "serializable"},
    )
    payment = result.operations["payment"]
    assert result.errors.get("40001", 0) == payment.retried_count > 0 < payment.count
    native.holds()


@pytest.mark.only("postgres")
def test_values_arrive_as_they_are_for_every_type(native):
    """Integers of every size, decimals, texts, arrays, NULLs, a name that stands twice."""
    with closing(native.engine.connect()) as connection:
        connection.execute(
            "create table seen (w integer, w2 smallint, w8 bigint, wn numeric, items integer[],"
            " items8 bigint[], items_text text, cnt integer)"
        )
        connection.execute("create table paid (amount numeric, last text, id integer, by smallint)")
    native.run(
        operations=300,
        statements={
            "new_order": "insert into seen values (:w_id, :w_id, :c_id, :c_id, :item_ids,"
            " :item_ids, (:item_ids::integer[])::text, :ol_cnt)"
            " returning case when :rollback = 0 then 3001 end",
            "payment": "with kept as (insert into paid values (:amount, :c_last, :c_id, :by_name))"
            " select coalesce(:c_id, 1)",
        },
        mix={"new_order": 50, "payment": 50},
    )
    wrong = native.rows(
        "select * from seen where w <> w2 or w8 <> wn or items <> items8::integer[]"
        " or items::text <> items_text or cardinality(items) <> cnt or w <> 1"
        " or not w8 between 1 and 3000"
    )
    assert wrong == []
    assert native.rows("select count(*) > 50 from seen")[0][0]
    wrong = native.rows(
        "select * from paid where not amount between 1 and 5000 or scale(amount) <> 2"
        " or (by = 1) <> (id is null) or (by = 1) <> (last is not null)"
    )
    assert wrong == []
    names = native.rows(
        "select count(*), count(c_last) from paid"
        " left join (select distinct c_last from customer) c on c_last = last where by = 1"
    )
    assert names[0][0] == names[0][1] > 0


@pytest.mark.only("postgres")
def test_every_statement_reaches_its_rows_by_an_index(native):
    """Whatever was planned while the tables were small: no plan depends on their size.

    A generic plan of each statement in the procedures, as the server logs it, scans no table
    that grows.
    """
    growing = ("customer", "stock", "orders", "order_line", "new_order", "history", "item")
    with closing(native.engine.connect()) as connection:
        raw = connection.raw
        plans: list[str] = []
        raw.add_notice_handler(lambda notice: plans.append(notice.message_primary or ""))
        for statement in (
            "load 'auto_explain'",
            "set auto_explain.log_min_duration = 0",
            "set auto_explain.log_nested_statements = on",
            "set client_min_messages = log",
            "set plan_cache_mode = force_generic_plan",
            "begin",
            *(f"select * from {call}" for call in CALLS),
            "rollback",
        ):
            raw.execute(statement)
    text = "\n".join(plans)
    assert text.count("Index Scan using") + text.count("Index Only Scan") >= 14
    for table in growing:
        assert f"Seq Scan on {table}" not in text
    assert "Merge Join" not in text


@pytest.mark.only("postgres")
def test_no_two_transactions_wait_for_one_another(native):
    """Sixteen that change the same few rows, and none is retried: locks have one order."""
    mix = {"new_order": 45, "payment": 45, "delivery": 10}
    result = native.run(operations=3000, connections=16, threads=2, mix=mix)
    assert result.errors == {}
    assert all(result.operations[name].count > 0 for name in ("new_order", "payment"))
    native.holds()


@pytest.mark.parametrize("plans", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.only("postgres")
def test_no_plan_depends_on_how_many_dead_rows_were_counted(native, plans):
    """Statistics that were taken while a table was full of dead rows."""

    def buffers(tables: str) -> list[int]:
        with closing(native.engine.connect()) as connection:
            raw = connection.raw
            raw.execute(f"set plan_cache_mode = {plans}")
            raw.execute("begin")
            raw.execute(f"update pg_class set reltuples = 50 * reltuples where relname in {tables}")
            read = []
            for call in CALLS:
                asked = f"explain (analyze, buffers, format json) select * from {call}"
                plan = raw.execute(asked).fetchone()[0][0]["Plan"]
                read.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
            raw.execute("rollback")
            return read

    buffers("('none')")  # what is rolled back leaves dead rows itself
    honest = buffers("('none')")
    with_dead_rows = buffers("('district', 'warehouse', 'new_order')")
    assert min(honest) > 10
    for call, few, many in zip(CALLS, honest, with_dead_rows, strict=True):
        assert many < 1.2 * few + 20, call


@pytest.mark.only("postgres")
def test_deliveries_that_find_a_district_empty_are_counted(native):
    """The last test on this database: it leaves a district without an order to deliver."""
    by_district = "select count(*) from new_order group by no_d_id"
    fewest = native.rows(f"select min(count) from ({by_district}) as undelivered")[0][0]
    result = native.run(operations=fewest + 20, mix={"delivery": 100})
    delivery = result.operations["delivery"]
    assert (delivery.count, delivery.skipped_count) == (fewest + 20, 20)
    native.holds()
