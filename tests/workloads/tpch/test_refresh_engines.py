"""Refresh functions on real servers: what they change, what they leave, and beside queries."""

import hashlib
import threading

import pytest

from harness.engine import SqlResult
from harness.workloads.tpch.qgen import parameters
from harness.workloads.tpch.refresh import (
    base_totals,
    check_pair,
    check_tables,
    rf1_statements,
    rf2_statements,
)
from harness.workloads.tpch.refresh_data import RefreshPair, prepare
from harness.workloads.tpch.statements import query_order, query_sql
from harness.workloads.tpch.tables import COLUMNS

SCALE = 0.01
ENGINES = {"duckdb": "parquet", "postgres": "csv", "mariadb": "csv"}
KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey, l_linenumber"}


@pytest.fixture(scope="module", params=ENGINES)
def engine(request, tpch_root, sources, start_engine, quiet):
    """An engine of this module's own: its data change."""
    source = tpch_root / ENGINES[request.param] / "content"
    with start_engine(request.param, source, quiet) as started:
        yield started


@pytest.fixture(scope="module")
def refresh(tmp_path_factory, quiet):
    return prepare(SCALE, range(1, 4), tmp_path_factory.mktemp("refresh"), quiet)


@pytest.fixture(scope="module")
def base(tmp_path_factory, tpch_root, sources):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_DATA", str(tmp_path_factory.mktemp("data")))
        totals = base_totals(SCALE, tpch_root / "parquet" / "content")
        assert base_totals(SCALE, None) == totals, "they are kept"
        yield totals


@pytest.fixture
def connection(engine):
    connection = engine.connect()
    yield connection
    connection.close()


def execute(connection):
    return lambda sql: connection.execute(sql).rows


def apply(connection, transactions):
    for statements in transactions:
        connection.execute("BEGIN")
        for statement in statements:
            connection.execute(statement)
        connection.execute("COMMIT")


def digests(connection):
    """SHA-256 of both tables, every column of every row in the order of the primary key."""
    found = {}
    for table, key in KEYS.items():
        columns = ", ".join(COLUMNS[table])
        rows = connection.execute(f"SELECT {columns} FROM {table} ORDER BY {key}").rows
        found[table] = hashlib.sha256(repr(rows).encode()).hexdigest()
    return found


def statuses(checks):
    return [check.status for check in checks]


def test_a_pair_is_seen_at_every_stage_and_its_inverse_restores_every_column(
    connection, refresh, base
):
    pair, ask = refresh.pair(1), execute(connection)
    before = digests(connection)
    orders = ask("SELECT count(*) FROM orders")

    apply(connection, rf1_statements(pair, 7))
    assert statuses(check_pair(ask, pair, deleted=False)) == ["passed"] * 2
    assert statuses(check_tables(ask, refresh, base, inserted={1}, deleted=())) == ["passed"] * 2
    assert statuses(check_pair(ask, pair)) == ["failed"] * 2

    apply(connection, rf2_statements(pair, 7))
    assert statuses(check_pair(ask, pair)) == ["passed"] * 2
    assert statuses(check_tables(ask, refresh, base, inserted={1}, deleted={1})) == ["passed"] * 2
    assert ask("SELECT count(*) FROM orders") == orders
    assert digests(connection) != before

    back = RefreshPair(1, inserted=pair.removed, removed=pair.inserted)
    apply(connection, rf1_statements(back, 100))
    apply(connection, rf2_statements(back, 100))
    assert digests(connection) == before
    assert statuses(check_pair(ask, back)) == ["passed"] * 2
    assert statuses(check_tables(ask, refresh, base, inserted=(), deleted=())) == ["passed"] * 2


@pytest.mark.parametrize(
    ("damage", "rows", "totals"),
    [
        ("UPDATE lineitem SET l_tax = l_tax + 0.01 WHERE l_orderkey = {inserted}", True, True),
        (
            "UPDATE orders SET o_clerk = 'Clerk#000000000' WHERE o_orderkey = {inserted}",
            True,
            False,
        ),
        ("DELETE FROM lineitem WHERE l_orderkey = {inserted}", True, True),
        ("DELETE FROM lineitem WHERE l_orderkey = {untouched}", False, True),
        ("UPDATE lineitem SET l_comment = '' WHERE l_orderkey = {untouched}", False, True),
        (
            "UPDATE lineitem SET l_quantity = l_quantity + 1 "
            "WHERE l_orderkey = {untouched} AND l_linenumber = 1",
            False,
            True,
        ),
        ("UPDATE orders SET o_orderkey = 92 WHERE o_orderkey = {inserted}", True, True),
        (
            "UPDATE orders SET o_custkey = 1 + (o_custkey + 1) % 1500 WHERE o_orderkey = 59972",
            False,
            True,
        ),
    ],
)
def test_what_is_wrong_is_found(connection, refresh, base, damage, rows, totals):
    """Between RF1 and RF2 of pair 2; ``untouched`` is an order of no pair."""
    pair, ask = refresh.pair(2), execute(connection)
    connection.execute("BEGIN")
    try:
        for statements in rf1_statements(pair, 100):
            for statement in statements:
                connection.execute(statement)
        if "SET o_orderkey" in damage:  # foreign keys: lines must not lose their order
            connection.execute(f"DELETE FROM lineitem WHERE l_orderkey = {pair.insert_keys[3]}")
        connection.execute(damage.format(inserted=pair.insert_keys[3], untouched=59_971))
        found = check_pair(ask, pair, deleted=False)
        whole = check_tables(ask, refresh, base, inserted={2}, deleted=())
    finally:
        connection.execute("ROLLBACK")
    assert ("failed" in statuses(found)) == rows
    assert ("failed" in statuses(whole)) == totals
    assert all("expected" in check.detail for check in found + whole if check.status == "failed")


def test_without_the_source_untouched_rows_are_unknown_not_passed(connection, refresh):
    checks = check_tables(execute(connection), refresh, None, inserted=(), deleted=())
    assert statuses(checks) == ["unknown"] * 2


def test_the_refresh_stream_runs_beside_query_streams(engine, refresh, base):
    """Two query streams in their own orders, and three pairs: none fails, nothing is lost."""
    errors = []

    def guarded(work):
        connection = engine.connect()
        try:
            work(connection)
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    def queries(stream):
        def work(connection):
            for query in query_order(stream):
                values = parameters(query, stream, SCALE)
                result = connection.execute(query_sql(query, values, engine.sql_folder / "tpch"))
                assert isinstance(result, SqlResult)

        return work

    def pairs(connection):
        for number in (1, 2, 3):
            apply(connection, rf1_statements(refresh.pair(number), 5))
            apply(connection, rf2_statements(refresh.pair(number), 5))

    work = [queries(1), queries(2), pairs]
    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    connection = engine.connect()
    ask, done = execute(connection), (1, 2, 3)
    checks = check_tables(ask, refresh, base, inserted=done, deleted=done)
    for number in done:
        checks += check_pair(ask, refresh.pair(number))
    connection.close()
    assert statuses(checks) == ["passed"] * 8
