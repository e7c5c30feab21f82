"""The native client on MySQL and MariaDB: it loads, runs, retries, and says what went wrong."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.errors import RunFailed
from harness.progress import SilentProgress
from harness.sql_files import text_of

sys.path.insert(0, str(Path(__file__).parent))

from native_client import (  # noqa: F401
    COUNTS,
    Native,
    ends_when_the_server_dies,
    is_refused,
    loaded,
    operation,
    restored,
    retried_while_locked,
    test_secrets_are_nobody_elses,
    test_sixteen_connections_on_one_warehouse,
    test_what_the_client_told_of_its_load_is_there,
)
from patience import PATIENCE_S

SETTINGS = {"innodb_buffer_pool_size": "268435456"}


@pytest.fixture(scope="module", params=("mysql", "mariadb"))
def native(request: pytest.FixtureRequest, module_lab: Any, empty_engines: Any) -> Iterator[Native]:
    """One warehouse, loaded by the client."""
    native = loaded(module_lab, empty_engines.data(request.param), request.param, SETTINGS)
    yield native
    native.engine.kill()


def test_a_lock_that_is_waited_for_too_long_is_retried(native: Native) -> None:
    """Counted by the server's number."""
    with closing(native.engine.connect()) as connection:
        connection.execute("set global innodb_lock_wait_timeout = 1")
        try:
            retried_while_locked(native, 3.5, "1205")
        finally:
            connection.execute("set global innodb_lock_wait_timeout = 50")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("call no_such_procedure(:w_id)", "no_such_procedure does not exist"),
        ("select 1 where", "syntax"),
        ("select 3000000 as o_id", "3000000"),
    ],
)
def test_what_the_server_refuses_ends_the_run(native: Native, statement: str, words: str) -> None:
    is_refused(native, statement, words)


def test_an_answer_in_several_parts_is_read_to_its_end(native: Native) -> None:
    """Of several statements and result sets the first row is the answer."""
    calls = native.engine.sql_folder / "tpcc" / "calls"
    stock_level = text_of(calls / "stock_level.sql").strip().rstrip(";")
    several = f"set @a = 1; select 1 from item where i_id < 0; {stock_level}; select 'more'"
    result = native.run(
        operations=50, statements={"stock_level": several}, mix={"stock_level": 100}
    )
    assert operation(result, "stock_level")["count"] == 50


def test_a_delivery_tells_how_often_its_procedure_began_again(native: Native) -> None:
    """Of two on one warehouse the second finds its orders taken when the first has ended."""
    told: list[int] = []

    def deliver() -> None:
        with closing(native.engine.connect()) as connection:
            (row,) = connection.execute("call tpcc_delivery(1, 1)").rows
            told.append(int(row[2]))

    threads = [threading.Thread(target=deliver) for _ in range(2)]
    with closing(native.engine.connect()) as blocker:
        blocker.execute("start transaction")
        blocker.execute(
            "select count(*) from orders where o_w_id = 1 and o_d_id = 1 and o_id > 2100 for update"
        )
        for waiting, thread in enumerate(threads, 1):
            thread.start()
            while _waiting(blocker) < waiting and thread.is_alive():
                time.sleep(0.2)
        blocker.execute("rollback")
    for thread in threads:
        thread.join()
    assert sorted(told) == [0, 1]


def _waiting(connection: Any) -> int:
    """Transactions that wait for a lock."""
    sql = "select count(*) from information_schema.innodb_trx where trx_state = 'LOCK WAIT'"
    return int(connection.execute(sql).rows[0][0])


def test_retries_within_a_procedure_are_counted(native: Native) -> None:
    twice = "select 0 as delivered, '0,0,0,0,0,0,0,0,0,0' as order_ids, 2 as retries"
    result = native.run(operations=50, statements={"delivery": twice}, mix={"delivery": 100})
    assert operation(result, "delivery")["retried"] == 100
    assert result["errors"] == {"in-procedure": 100}


def test_sessions_have_the_isolation_level_of_the_connection(native: Native) -> None:
    variable = {"mysql": "transaction_isolation", "mariadb": "tx_isolation"}[native.engine.name]
    for level, found in (("serializable", "SERIALIZABLE"), ("read committed", "READ-COMMITTED")):
        result = native.run(
            operations=10,
            statements={"stock_level": f"select if(@@{variable} = '{found}', 1, 'another')"},
            mix={"stock_level": 100},
            connection={**native.engine.native_connection(), "isolation": level},
        )
        assert operation(result, "stock_level")["count"] == 10


@pytest.fixture
def empty(native: Native, lab: Any, empty_engines: Any) -> Iterator[Native]:
    """Another server of the same kind, with nothing in it."""
    name = native.engine.name
    other = restored(lab, empty_engines.data(name), name, SETTINGS)
    yield other
    other.engine.kill()


def test_a_server_that_takes_no_files_is_told(empty: Native) -> None:
    with closing(empty.engine.connect()) as connection:
        connection.execute("create table item (i_id int)")
        connection.execute("set global local_infile = off")
    with pytest.raises(RunFailed, match="SET GLOBAL local_infile = ON"):
        empty.load(empty.engine.native_connection())


def test_rows_that_do_not_fit_are_an_error(empty: Native) -> None:
    def fill(connection: Mapping[str, Any]) -> Mapping[str, int]:
        with closing(empty.engine.connect()) as changing:
            changing.execute("alter table item modify i_name varchar(3)")
        return empty.load(connection)

    with pytest.raises(RunFailed, match=r"item.*do not fit.*i_name"):
        empty.engine.native_load("tpcc", fill, COUNTS, SilentProgress())


def test_no_load_waits_for_a_lock_on_a_whole_empty_table(empty: Native) -> None:
    """Two connections that would both wait for it deadlock."""

    def fill(connection: Mapping[str, Any]) -> Mapping[str, int]:
        with closing(empty.engine.connect()) as other:
            other.execute("set session transaction isolation level read committed")
            other.execute("begin")
            other.execute("select * from item where i_id = 1 for update")
            release = threading.Timer(PATIENCE_S, partial(other.execute, "rollback"))
            release.start()
            rows = empty.load(connection)
            assert release.is_alive()
            release.cancel()
            return rows

    empty.engine.native_load("tpcc", fill, COUNTS, SilentProgress())


def test_a_server_that_dies_ends_the_run(empty: Native) -> None:
    sleeping = "select ifnull(:c_id, 1), 1, sleep(0.01)"
    ends_when_the_server_dies(empty, sleeping, r"(?i)lost connection|gone away")
