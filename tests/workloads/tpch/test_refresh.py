"""The refresh functions: their sets, their statements, and what they do on real servers."""

import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from generated import shared_files
from narrowed import present
from scratch import session_directory

from harness.engine import SqlResult
from harness.errors import RunFailed
from harness.workloads.tpch import data, refresh_sets
from harness.workloads.tpch.dbgen_columns import order_key, row_of_key
from harness.workloads.tpch.qgen import parameters
from harness.workloads.tpch.refresh import LARGEST_STATEMENT_BYTES, rf1_statements, rf2_statements
from harness.workloads.tpch.refresh_checks import base_totals, check_pair, check_tables
from harness.workloads.tpch.refresh_data import RefreshPair, rows_of_file
from harness.workloads.tpch.refresh_sets import prepare
from harness.workloads.tpch.statements import query_order, query_sql
from harness.workloads.tpch.tables import COLUMNS

RECORDING = Path(__file__).parent / "recordings" / "dbgen-2.14.0-update-sets.tsv"
RECORDED = [
    line.split("\t") for line in RECORDING.read_text().splitlines() if not line.startswith("#")
]


def digests_of_sets(refresh, sets):
    """SHA-256 over the sets' files as dbgen writes them."""
    pairs = [refresh.pair(number) for number in sets]
    texts = {
        "orders": b"".join(pair.inserted["orders"].read_bytes() for pair in pairs),
        "lineitem": b"".join(pair.inserted["lineitem"].read_bytes() for pair in pairs),
        "delete": "".join(f"{key}|\n" for p in pairs for key in p.delete_keys).encode(),
    }
    return {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}


def recorded(scale, sets):
    return {name: digest for s, n, name, _, digest in RECORDED if (s, n) == (str(scale), sets)}


@pytest.fixture(scope="module")
def tenth(tmp_path_factory, quiet):
    """Sets 1 to 4 at scale 0.1."""
    with shared_files(session_directory()):
        return prepare(0.1, range(1, 5), tmp_path_factory.mktemp("refresh") / "sf0.1", quiet)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_sets_at_scale_one_tenth_are_those_of_dbgen(tenth, number):
    assert digests_of_sets(tenth, [number]) == recorded(0.1, str(number))


@pytest.fixture(scope="module")
def whole(tmp_path_factory, quiet):
    """Sets 2 and 3 at scale 1."""
    return prepare(1, range(2, 4), tmp_path_factory.mktemp("refresh"), quiet)


def test_sets_at_scale_one_are_those_of_dbgen(whole, tmp_path, quiet):
    assert digests_of_sets(whole, [3]) == recorded(1, "3")
    last = prepare(1, range(999, 1000), tmp_path, quiet)
    assert digests_of_sets(last, [999]) == recorded(1, "999")


def test_smallest_sets_hold_the_rows_of_dbgen_in_its_order(refresh):
    assert digests_of_sets(refresh, [1, 2]) == recorded(0.01, "1-3")


def test_removed_rows_are_the_rows_of_the_base(refresh, sources):
    base = sources["tbl"]
    for table in ("orders", "lineitem"):
        wanted = b"".join(file.read_bytes() for file in base.files[table]).splitlines(True)
        removed = [refresh.pair(number).removed[table] for number in (1, 2, 3)]
        removed_lines = b"".join(file.read_bytes() for file in removed).splitlines(True)
        assert len(removed_lines) >= 45
        assert removed_lines == wanted[: len(removed_lines)]


def test_keys_of_sets_are_disjoint_from_each_other_and_from_the_base(tenth):
    base = {order_key(row, 0) for row in range(150_000)}
    inserted = [key for n in range(1, 5) for key in tenth.pair(n).insert_keys]
    deleted = [key for n in range(1, 5) for key in tenth.pair(n).delete_keys]
    assert len(set(inserted)) == len(inserted) == 4 * 150
    assert len(set(deleted)) == len(deleted) == 4 * 150
    assert not base & set(inserted)
    assert set(deleted) < base


@pytest.mark.parametrize("gap", [0, 1, 2, 3])
def test_keys_and_rows_are_each_others_inverse(gap):
    assert all(row_of_key(order_key(row, gap)) == (row, gap) for row in range(100))


def test_a_generator_that_draws_otherwise_is_not_believed(tmp_path, quiet, monkeypatch):
    def altered(arguments, folder, *rest):
        with shared_files(session_directory()):
            data.run_generator(arguments, folder, *rest)
        (orders,) = (folder / "orders").iterdir()
        orders.write_text(orders.read_text().replace("|Clerk#", "|Clerk#1"))

    monkeypatch.setattr(refresh_sets, "run_generator", altered)
    with pytest.raises(RunFailed, match="otherwise than dbgen"):
        prepare(0.01, range(1, 4), tmp_path, quiet)
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small file system")
def test_a_full_disk_is_named_with_the_room_that_is_needed(tmp_path, quiet):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "small", tmp_path], check=True)
    try:
        with pytest.raises(RunFailed) as failure:
            prepare(1, range(1, 4), tmp_path, quiet)
        assert "make room" in failure.value.hint
        assert not [path for path in tmp_path.iterdir() if path.name.startswith("set-")]
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_killed_preparation_leaves_whole_sets_and_the_next_one_makes_the_others(tmp_path, quiet):
    folder = tmp_path / "sets"
    program = f"""
from pathlib import Path
from harness.progress import SilentProgress
from harness.workloads.tpch.refresh_sets import prepare
prepare(0.1, range(1, 5), Path({str(folder)!r}), SilentProgress())
"""
    process = subprocess.Popen([sys.executable, "-c", program])
    while not (folder.exists() and any(folder.glob("partial/*"))):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert all(len(list(made.iterdir())) == 4 for made in folder.glob("set-*"))
    with shared_files(session_directory()):
        refresh = prepare(0.1, range(1, 5), folder, quiet)
    assert digests_of_sets(refresh, [3]) == recorded(0.1, "3")
    assert not (folder / "partial").exists()


# Their statements -------------------------------------------------------------------

INSERT = re.compile(r"INSERT INTO (orders|lineitem) \([a-z_, ]+\) VALUES\n(.*)", re.DOTALL)


@pytest.fixture(scope="module")
def pair(whole):
    return whole.pair(2)


def inserted_keys(statement):
    table, rows = present(INSERT.fullmatch(statement)).groups()
    return table, [int(row.split(",")[0][1:]) for row in rows.split(",\n")]


def test_an_order_and_its_lines_are_inserted_in_the_same_transaction(pair):
    lines: dict[Any, list[Any]] = {}
    for row in rows_of_file(pair.inserted["lineitem"], "lineitem"):
        lines.setdefault(row[0], []).append(row[0])
    keys = []
    for transaction in rf1_statements(pair, 100):
        inserted: dict[str, list[Any]] = {"orders": [], "lineitem": []}
        for statement in transaction:
            table, part = inserted_keys(statement)
            assert table == "orders" or inserted["orders"], "lines before their orders"
            inserted[table] += part
        assert len(inserted["orders"]) == 100
        assert inserted["lineitem"] == [key for order in inserted["orders"] for key in lines[order]]
        keys += inserted["orders"]
    assert keys == list(pair.insert_keys)


def test_lines_are_deleted_before_their_orders_and_in_the_same_transaction(pair):
    deleted = []
    for transaction in rf2_statements(pair, 700):
        lines, orders = transaction
        assert lines.startswith("DELETE FROM lineitem WHERE l_orderkey IN (")
        assert orders.startswith("DELETE FROM orders WHERE o_orderkey IN (")
        assert lines.split("(")[1] == orders.split("(")[1]
        deleted += [int(key) for key in orders.split("(")[1].rstrip(")").split(",")]
    assert deleted == list(pair.delete_keys)


def test_the_last_batch_may_be_smaller(pair):
    assert [len(inserted_keys(t[0])[1]) for t in rf1_statements(pair, 1000)] == [1000, 500]
    assert len(list(rf2_statements(pair, 1))) == 1500


def test_statements_stay_below_the_limit_however_large_the_batch(pair):
    (inserts,) = rf1_statements(pair, 10**9)
    (deletes,) = rf2_statements(pair, 10**9)
    sizes = [len(statement.encode()) for statement in inserts + deletes]
    assert max(sizes) <= LARGEST_STATEMENT_BYTES
    assert len(inserts) <= sum(map(len, inserts)) // LARGEST_STATEMENT_BYTES + 3  # nearly full
    rows = [
        key for s in inserts if s.startswith("INSERT INTO orders") for key in inserted_keys(s)[1]
    ]
    assert rows == list(pair.insert_keys)


def test_a_row_is_written_with_quotes_around_text_and_dates(tmp_path):
    files = {"orders": tmp_path / "orders", "lineitem": tmp_path / "lines"}
    files["orders"].write_text("9|12|O|1.20|1998-07-06|5-LOW|Clerk#000000248|0| it's final |\n")
    files["lineitem"].write_text(
        "9|7|5|1|45|84818.25|0.09|0.05|N|O|1998-10-20|1998-09-10|1998-11-15|NONE|SHIP|'|\n"
    )
    ((order, line),) = rf1_statements(RefreshPair(1, files, files), 10)
    assert order.endswith(
        "VALUES\n(9,12,'O',1.20,'1998-07-06','5-LOW','Clerk#000000248',0,' it''s final ')"
    )
    assert line.endswith(
        "VALUES\n(9,7,5,1,45,84818.25,0.09,0.05,'N','O','1998-10-20','1998-09-10',"
        "'1998-11-15','NONE','SHIP','''')"
    )


# On real servers: what they change, what they leave, and next to queries ------------

SCALE = 0.01
ENGINES = {"duckdb": "parquet", "postgres": "csv", "mariadb": "csv"}


@pytest.fixture(scope="module", params=ENGINES)
def engine(request, tpch_root, sources, start_engine, quiet):
    """An engine of this module's own: its data change."""
    source = tpch_root / ENGINES[request.param] / "content"
    with start_engine(request.param, source, quiet) as started:
        yield started


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
    """Number of rows and checksum of both tables, every column of every row."""
    digests = {}
    for table in ("orders", "lineitem"):
        result = connection.execute(f"SELECT {', '.join(COLUMNS[table])} FROM {table}", keep=0)
        digests[table] = (result.left_out, result.checksum % 2**64)
    return digests


def statuses(checks):
    return [check.status for check in checks]


def test_a_pair_is_seen_at_every_stage_and_taken_back(connection, refresh, base):
    pair, ask = refresh.pair(1), execute(connection)
    before = digests(connection)
    orders = ask("SELECT count(*) FROM orders")

    apply(connection, rf1_statements(pair, 7))
    assert statuses(check_pair(ask, pair, deleted=False)) == ["passed"] * 2
    assert statuses(check_tables(ask, refresh, base, inserted={1}, deleted=())) == ["passed"] * 2
    assert statuses(check_pair(ask, pair)) == ["failed"] * 2

    def ask_of_texts(sql):  # of an engine that keeps dates as texts
        return [tuple(str(v) if isinstance(v, date) else v for v in row) for row in ask(sql)]

    assert statuses(check_pair(ask_of_texts, pair, deleted=False)) == ["passed"] * 2

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
        of_pair = check_pair(ask, pair, deleted=False)
        whole = check_tables(ask, refresh, base, inserted={2}, deleted=())
    finally:
        connection.execute("ROLLBACK")
    assert ("failed" in statuses(of_pair)) == rows
    assert ("failed" in statuses(whole)) == totals
    assert all("expected" in check.detail for check in of_pair + whole if check.status == "failed")


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
    threads = [threading.Thread(target=guarded, args=(function,)) for function in work]
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
