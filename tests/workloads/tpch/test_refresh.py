"""The refresh functions' statements."""

import re
from typing import Any

import pytest
from narrowed import present

from harness.workloads.tpch.refresh import (
    LARGEST_STATEMENT_BYTES,
    rf1_statements,
    rf2_statements,
)
from harness.workloads.tpch.refresh_data import RefreshPair, prepare, rows_of_file

INSERT = re.compile(r"INSERT INTO (orders|lineitem) \([a-z_, ]+\) VALUES\n(.*)", re.DOTALL)


@pytest.fixture(scope="module")
def pair(tmp_path_factory, quiet):
    return prepare(1, range(2, 3), tmp_path_factory.mktemp("refresh"), quiet).pair(2)


def inserted_keys(statement):
    table, rows = present(INSERT.fullmatch(statement)).groups()
    return table, [int(row.split(",")[0][1:]) for row in rows.split(",\n")]


def test_an_order_and_its_lines_are_inserted_in_the_same_transaction(pair):
    lines: dict[Any, list[Any]] = {}
    for row in rows_of_file(pair.inserted["lineitem"], "lineitem"):
        lines.setdefault(row[0], []).append(row[0])
    keys = []
    for transaction in rf1_statements(pair, 100):
        found: dict[str, list[Any]] = {"orders": [], "lineitem": []}
        for statement in transaction:
            table, part = inserted_keys(statement)
            assert table == "orders" or found["orders"], "lines before their orders"
            found[table] += part
        assert len(found["orders"]) == 100
        assert found["lineitem"] == [key for order in found["orders"] for key in lines[order]]
        keys += found["orders"]
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
