"""Loading into MySQL and MariaDB: what is there afterwards, and what is an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import pytest
from patience import PATIENCE_S, eventually

from engines._innodb.connection import MySqlConnection
from engines._innodb.installation import Flavour
from engines._innodb.load import Loader, load_file, loading_settings
from harness.errors import RunFailed
from harness.progress import SilentProgress
from harness.workloads.tpch.data import estimate_bytes

REGION = ["r_regionkey", "r_name", "r_comment"]


@pytest.fixture
def elsewhere(innodb: Any, connection: Any) -> Iterator[Any]:
    """Opens connections to an empty database of the same server, as to a server of the user's."""
    connection.execute("create database elsewhere character set latin1 collate latin1_bin")
    connection.execute("set global local_infile = on")
    yield lambda: MySqlConnection(innodb._login.connect("elsewhere", local_infile=True))
    connection.execute("set global local_infile = default")
    connection.execute("drop database elsewhere")


def test_all_rows_keys_indexes_and_foreign_keys_are_there(connection: Any, tpch_csv: Any) -> None:
    for table, rows in tpch_csv.row_counts.items():
        assert connection.execute(f"select count(*) from {table}").rows == [(rows,)]
    indexes = connection.execute(
        "select index_name = 'PRIMARY', count(distinct table_name, index_name) "
        "from information_schema.statistics where table_schema = database() group by 1 order by 1"
    ).rows
    assert indexes == [(0, 7), (1, 8)]
    keys = connection.execute(
        "select count(*) from information_schema.referential_constraints "
        "where constraint_schema = database()"
    ).rows
    assert keys == [(8,)]


def test_foreign_keys_hold_from_now_on(connection: Any) -> None:
    with pytest.raises(RunFailed, match="foreign key constraint fails"):
        connection.execute("insert into nation values (99, 'NOWHERE', 99, '')")


def test_there_are_statistics_of_columns_without_an_index(innodb: Any, connection: Any) -> None:
    query = {
        "mysql": "select count(*) from information_schema.column_statistics "
        "where table_name = 'lineitem' and column_name = 'l_shipdate'",
        "mariadb": "select count(*) from mysql.column_stats "
        "where table_name = 'lineitem' and column_name = 'l_shipdate' and histogram is not null",
    }
    assert connection.execute(query[innodb.flavour]).rows == [(1,)]


def test_no_setting_of_the_load_outlives_it(innodb: Any, connection: Any) -> None:
    variables = innodb._variables()
    assert variables["innodb_doublewrite"] == "ON"
    assert variables["innodb_flush_log_at_trx_commit"] == "1"
    assert variables["innodb_buffer_pool_size"] == str(128 << 20)  # of the profile
    status = dict(connection.execute("show global status like 'innodb_redo_log_enabled'").rows)
    assert status.get("Innodb_redo_log_enabled", "ON") == "ON"


def test_settings_fit_the_memory_cap_and_the_release() -> None:
    settings = loading_settings("mysql", (9, 7, 4), 4, 1 << 30, 10 << 20)
    assert int(settings["innodb_buffer_pool_size"]) <= 1 << 29
    assert "innodb_ddl_threads" in settings and "innodb_log_file_size" not in settings
    releases: tuple[tuple[Flavour, tuple[int, int, int], int], ...] = (
        ("mysql", (8, 0, 15), 2),
        ("mariadb", (10, 11, 19), 1),
    )
    for flavour, version, files in releases:
        older = loading_settings(flavour, version, 4, 1 << 30, 1 << 30)
        assert "innodb_ddl_threads" not in older and "innodb_redo_log_capacity" not in older
        reserved = estimate_bytes(1, "csv")["wal"]  # a little more than 1 GiB of files
        assert int(older["innodb_log_file_size"]) * files <= reserved


@pytest.mark.parametrize("by_server", [True, False], ids=["server-side", "local"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"6,{'x' * 26},comment", "Data (too long|truncated) for column 'r_name'"),
        ("6,SHORT", "doesn't contain data for all columns"),
        ("six,SIX,comment", "Incorrect integer value"),
        ("6,SIX,comment,more", "more data than there were input columns"),
        ("0,AGAIN,comment", "Duplicate entry '0'"),
    ],
    ids=["too-long", "too-few", "no-number", "too-many", "twice"],
)
def test_a_row_that_does_not_fit_is_an_error(elsewhere, lab, by_server, text, words):
    folder = lab.directory("csv")
    folder.chmod(0o755)
    file = folder / "region.1.csv"
    file.write_text(f"{','.join(REGION)}\n0,AFRICA,first\n{text}\n")
    connection = elsewhere()
    connection.execute("create table region (r_regionkey integer not null primary key, "
                       "r_name char(25) not null, r_comment varchar(152) not null)")  # fmt: skip
    with pytest.raises(RunFailed, match=words) as caught:
        load_file(connection, "region", file, REGION, by_server)
    assert caught.value.problem == "load table region from region.1.csv"
    connection.close()


def test_values_arrive_as_they_are_in_the_file(elsewhere: Any, lab: Any) -> None:
    folder = lab.directory("csv")
    folder.chmod(0o755)
    file = folder / "it's.1.csv"
    file.write_text('I,b,a\n1,back\\slash,"a, ""b"""\n2,"",NULL\n')
    connection = elsewhere()
    connection.execute("create table t (i integer primary key, a varchar(20), b varchar(20))")
    for by_server in (True, False):
        connection.execute("delete from t")
        assert load_file(connection, "t", file, ["i", "a", "b"], by_server) == 2
        assert connection.execute("select * from t order by i").rows == [
            (1, 'a, "b"', "back\\slash"),
            (2, None, ""),
        ]
    connection.close()


def test_a_server_of_the_users_is_sent_the_files(innodb, elsewhere, tpch_csv):
    loader = Loader(elsewhere, innodb.flavour, threads=2)
    loader.load(innodb.sql_folder / "tpch", tpch_csv.files, tpch_csv.row_counts, SilentProgress())
    ours, theirs = innodb.connect(), elsewhere()
    for table in tpch_csv.files:
        sums = [c.execute(f"checksum table {table}").rows[0][1] for c in (ours, theirs)]
        assert sums[0] == sums[1] and sums[0]
    ours.close()
    theirs.close()


def test_a_missing_row_fails_the_load(innodb: Any, elsewhere: Any, tpch_csv: Any) -> None:
    files = {"region": tpch_csv.files["region"], "nation": tpch_csv.files["nation"]}
    folder = innodb.sql_folder / "tpch"
    load = partial(Loader(elsewhere, innodb.flavour, threads=2).load, folder)
    with pytest.raises(RunFailed) as caught:
        load(files, {"region": 5, "nation": 26}, SilentProgress())
    assert (caught.value.problem, caught.value.context) == (
        "load 26 rows into nation",
        "25 were loaded",
    )


@contextmanager
def locking(elsewhere: Callable[[], MySqlConnection], *statements: str) -> Iterator[Any]:
    """Another session with a transaction under way, which is rolled back at the end."""
    with closing(elsewhere()) as other:
        other.execute("set session transaction isolation level read committed")
        for statement in ("begin", *statements):
            other.execute(statement)
        yield other
        other.execute("rollback")


def _waits_for_a_lock(innodb: Any) -> bool:
    time.sleep(0.2)  # the server keeps the view as it is while it is read every 100 ms
    waiting = "select 1 from information_schema.innodb_trx where trx_state = 'LOCK WAIT'"
    return bool(innodb.connect().execute(waiting).rows)


def test_a_file_that_a_deadlock_undid_is_loaded_again_and_counted(innodb, elsewhere, tmp_path):
    """The server undoes the transaction that has changed less: the file's, up to its row 2."""
    (folder := tmp_path / "sql").mkdir()
    (folder / "10_tables.sql").write_text("create table t (i integer not null);")
    (folder / "20_keys.sql").write_text("alter table t add primary key (i);")
    (file := tmp_path / "t.1.csv").write_text("i\n1\n2\n3\n")
    many = ", ".join(f"({number})" for number in range(2, 1000))
    loader = Loader(elsewhere, innodb.flavour, threads=1)
    loaded: dict[str, int] = {}

    def load() -> None:
        with SilentProgress().task("") as task:
            loaded.update(loader.load_files(workers, folder, {"t": [file]}, task))

    with loader.empty_tables(folder, 0) as workers:
        loading = threading.Thread(target=load)
        with locking(elsewhere, f"insert into t values {many}") as other:
            loading.start()
            assert eventually(lambda: _waits_for_a_lock(innodb))
            other.execute("insert into t values (1)")  # for which it waits, in turn
        loading.join(PATIENCE_S)
    assert loaded == {"t": 3}
    assert loader.retries.by_table == {"t": 1}
    with closing(elsewhere()) as connection:
        assert connection.execute("select * from t order by i").rows == [(1,), (2,), (3,)]
