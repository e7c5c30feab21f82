"""TPC-C by the native client on PostgreSQL: types, plans and sessions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from native_client import COUNTS, Native, loaded, operation

from engines.postgres.external import _may_set_logging
from harness.progress import SilentProgress


@pytest.fixture(scope="module")
def native(module_lab: Any) -> Iterator[Native]:
    """One warehouse, loaded by the client."""
    native = loaded(module_lab, "postgres", {"max_connections": "60"})
    yield native
    native.engine.kill()


CALLS = (
    "tpcc_new_order(1, 1, 1, 3, 1, '{1,2,3}', '{1,1,1}', '{1,1,1}')",
    "tpcc_payment(1, 1, 1, 1, null, 'BARBARBAR', 1.00)",
    "tpcc_order_status(1, 1, 1, null)",
    "tpcc_delivery(1, 1)",
    "tpcc_stock_level(1, 1, 15)",
)


def test_a_schema_of_its_own_in_a_server_of_the_user(module_lab: Any, native: Native) -> None:
    """Data and procedures lie in a schema of ours, where the client finds them."""
    given = native.engine.native_connection()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", given["password"])
        dsn = "host={host} port={port} user={user} dbname={database}".format(**given)
        engine = module_lab.engine("postgres", options={"dsn": dsn})
        engine.prepare("tpcc-w1")
        users = Native(module_lab, engine)
        engine.native_load("tpcc", users.load, COUNTS, SilentProgress())
        before = native.rows("select count(*) from public.orders")
        result = users.run(operations=200)
        users.holds()
        found = users.rows("select count(*) from orders")[0][0]
        assert found == 30_000 + operation(result, "new_order").count
        assert native.rows("select count(*) from public.orders") == before
        engine.stop()


def test_the_right_to_keep_errors_out_of_the_log_is_queried(native: Native) -> None:
    with closing(native.engine._open()) as connection:
        assert _may_set_logging(connection)
        connection.execute("create role plain")
        connection.execute("set role plain")
        assert not _may_set_logging(connection)
        connection.execute("reset role")
        connection.execute("drop role plain")


def test_a_serialization_failure_is_retried(native: Native) -> None:
    result = native.run(
        operations=2000,
        connections=8,
        mix={"payment": 100},
        connection={**native.engine.native_connection(), "isolation": "serializable"},
    )
    payment = operation(result, "payment")
    assert result.errors.get("40001", 0) == payment.retried_count > 0 < payment.count
    native.holds()


def test_values_arrive_as_they_are_for_every_type(native: Native) -> None:
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


def test_every_statement_reaches_its_rows_by_an_index(native: Native) -> None:
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


def test_no_two_transactions_wait_for_one_another(native: Native) -> None:
    """Sixteen that change the same few rows, and none is retried: locks have one order."""
    mix = {"new_order": 45, "payment": 45, "delivery": 10}
    result = native.run(operations=3000, connections=16, threads=2, mix=mix)
    assert result.errors == {}
    assert all(operation(result, name).count > 0 for name in ("new_order", "payment"))
    native.holds()


@pytest.mark.parametrize("plans", ["force_generic_plan", "force_custom_plan"])
def test_no_plan_depends_on_how_many_dead_rows_were_counted(native: Native, plans: str) -> None:
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


def test_deliveries_that_find_a_district_empty_are_counted(native: Native) -> None:
    """The last test on this database: it leaves a district without an order to deliver."""
    by_district = "select count(*) from new_order group by no_d_id"
    fewest = native.rows(f"select min(count) from ({by_district}) as undelivered")[0][0]
    result = native.run(operations=fewest + 20, mix={"delivery": 100})
    delivery = operation(result, "delivery")
    assert (delivery.count, delivery.skipped_count) == (fewest + 20, 20)
    native.holds()
