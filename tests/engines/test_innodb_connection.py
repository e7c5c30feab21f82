"""Connections to MySQL and MariaDB: values, time limits, what the server may ask for."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql
import pytest

from harness.engine import QueryTimeout
from harness.errors import RunFailed

#: More rows than any limit here leaves time for.
ENDLESS = (
    "select count(*) from lineitem a, lineitem b, lineitem c where a.l_tax + b.l_tax < c.l_tax"
)


def test_values_have_the_types_of_their_columns(connection: Any) -> None:
    found = connection.execute(
        "select 7, sum(p_size), 1.50, 2.5e0, 'é', null, date '1998-12-01', count(*), 2 > 1 "
        "from part"
    )
    (row,) = found.rows
    assert [type(value) for value in row] == [
        int, Decimal, Decimal, float, str, type(None), date, int, int,
    ]  # fmt: skip
    assert row[2:7] == (Decimal("1.50"), 2.5, "é", None, date(1998, 12, 1))


def test_rows_are_those_of_the_clients_own_way_of_reading(innodb: Any, connection: Any) -> None:
    sql = "select * from lineitem order by l_orderkey, l_linenumber limit 2000"
    raw = innodb._open()
    plain = pymysql.connect(
        unix_socket=raw.unix_socket, user=raw.user, password=raw.password, database=raw.db,
        ssl_disabled=True, charset="utf8mb4",
    )  # fmt: skip
    raw.close()
    with plain, plain.cursor() as cursor:
        cursor.execute(sql)
        expected = list(cursor.fetchall())
    found = connection.execute(sql)
    assert found.rows == expected
    assert found.columns[:2] == ("l_orderkey", "l_partkey")
    assert found.duration_ns > 0


def test_a_row_longer_than_a_packet_arrives_whole(innodb: Any, connection: Any) -> None:
    connection.execute("set global max_allowed_packet = 67108864")
    other = innodb.connect()  # the limit holds for connections opened from now on
    found = other.execute("select 1, repeat('x', 17000000), 'end' union all select 2, 'y', 'z'")
    other.close()
    assert [(row[0], len(row[1]), row[2]) for row in found.rows] == [
        (1, 17_000_000, "end"),
        (2, 1, "z"),
    ]


def test_an_error_in_the_middle_of_rows_is_an_error_and_the_connection_goes_on(connection):
    with pytest.raises(RunFailed, match="out of range"):
        connection.execute("select exp(p_partkey) from part order by p_partkey")
    assert connection.execute("select 1").rows == [(1,)]


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS,
        f"with x (n) as ({ENDLESS}) select n from x",
        "select a.* from lineitem a, lineitem b order by a.l_comment, b.l_comment limit 1",
        f"create table never as {ENDLESS}",
    ],
    ids=["select", "with", "sort", "create"],
)
def test_a_time_limit_ends_the_statement_and_not_the_connection(connection: Any, sql: str) -> None:
    with pytest.raises(QueryTimeout, match=r"within 0\.3 s"):
        connection.execute(sql, timeout_s=0.3)
    assert connection.execute("select count(*) from region").rows == [(5,)]
    assert connection.execute("select 1", timeout_s=60).rows == [(1,)]
    connection.execute("drop table if exists never")


def test_another_user_s_kill_is_not_the_time_limit(innodb: Any, connection: Any) -> None:
    statement = f"create table never as {ENDLESS}"
    looking = innodb.connect()

    def kill() -> None:  # once it runs: before, there is nothing that would be ended
        running = f"select id from information_schema.processlist where info = '{statement}'"
        while not looking.execute(running).rows:
            time.sleep(0.01)
        connection.cancel()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(RunFailed, match="interrupted"):
        connection.execute(statement, timeout_s=60)
    killer.join()
    looking.close()
    connection.execute("drop table if exists never")


@pytest.mark.parametrize("limit_s", [60.2504, 60.2500004])
def test_the_servers_own_limit_is_never_shorter_than_ours(connection: Any, limit_s: float) -> None:
    connection.execute("select 1", timeout_s=limit_s)
    name, per_second = {
        "mysql": ("max_execution_time", 1000),
        "mariadb": ("max_statement_time", 1),
    }[connection.flavour]
    ((limit,),) = connection.execute(f"select @@session.{name}", timeout_s=limit_s).rows
    assert limit_s <= float(limit) / per_second < limit_s + 0.001


def test_a_limit_that_was_not_reached_ends_nothing_later(connection: Any) -> None:
    for limit_s in (2.0, 20.0):
        with suppress(QueryTimeout):  # the machine stood still for all of it
            connection.execute("do sleep(0.01)", timeout_s=limit_s)
            break
    connection.execute(f"do sleep({limit_s + 0.5})")
    assert connection.execute(f"select sleep({limit_s + 0.1})").rows == [(0,)]


def test_statements_between_begin_and_commit_are_one_transaction(connection: Any) -> None:
    connection.execute("create table pair (i integer primary key)")
    for end, rows in (("rollback", []), ("commit", [(1,), (2,)])):
        connection.execute("BEGIN")
        connection.execute("insert into pair values (1)")
        connection.execute("insert into pair values (2)")
        connection.execute(end)
        assert connection.execute("select i from pair order by i").rows == rows
    connection.execute("drop table pair")


def test_text_is_compared_by_byte(connection: Any) -> None:
    found = connection.execute(
        "select 'a' = 'A', 'abc' like 'ABC', "
        "(select count(*) from region where r_name = 'asia' or r_name like 'as%'), "
        "(select count(*) from region where r_name = 'ASIA')"
    )
    assert found.rows == [(0, 0, 0, 1)]


def test_what_would_be_cut_is_an_error(connection: Any) -> None:
    with pytest.raises(RunFailed, match="too long"):
        connection.execute("insert into region values (9, repeat('x', 26), '')")


def test_files_of_the_client_are_not_sent_unless_requested(innodb: Any, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("9,X,y\n")
    statement = f"load data local infile '{file}' into table region fields terminated by ','"
    setup = innodb.connect()
    setup.execute("set global local_infile = on")
    with pytest.raises(RunFailed):
        setup.execute(statement)
    sender = innodb._new_connection(local_infile=True)
    sender.raw.local_file = b"/another/file"
    with pytest.raises(RunFailed, match="requested the file"):
        sender.execute(statement)
    setup.close()
    check = innodb.connect()
    assert check.execute("select count(*) from region").rows == [(5,)]
    check.execute("set global local_infile = default")
    check.close()
