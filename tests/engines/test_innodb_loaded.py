"""MySQL and MariaDB that have loaded TPC-H: the load, connections, plans, answers and counters."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import date
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any

import pymysql
import pytest
from patience import PATIENCE_S, eventually

from engines._innodb import explain
from engines._innodb.connection import MySqlConnection
from engines._innodb.installation import Flavour
from engines._innodb.load import Loader, load_file, loading_settings
from engines._settings import NOT_RECORDED
from harness.engine import LoadRequest, QueryTimeout
from harness.errors import RunFailed
from harness.progress import SilentProgress
from harness.query_plan import ExecutedPlan, Operator
from harness.sql_files import statements
from harness.workloads.tpch.answer_checks import sum_tolerance
from harness.workloads.tpch.answers import SHAPES, CanonicalAnswer, compare
from harness.workloads.tpch.data import estimate_bytes
from harness.workloads.tpch.qgen import QUERIES, parameters
from harness.workloads.tpch.statements import query_sql

REGION = ["r_regionkey", "r_name", "r_comment"]


@pytest.fixture
def elsewhere(innodb, connection):
    """Opens connections to an empty database of the same server, as to a server of the user's."""
    connection.execute("create database elsewhere character set latin1 collate latin1_bin")
    connection.execute("set global local_infile = on")
    yield lambda: MySqlConnection(innodb._login.connect("elsewhere", local_infile=True))
    connection.execute("set global local_infile = default")
    connection.execute("drop database elsewhere")


def test_all_rows_keys_indexes_and_foreign_keys_are_there(connection, tpch_csv):
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


def test_foreign_keys_hold_from_now_on(connection):
    with pytest.raises(RunFailed, match="foreign key constraint fails"):
        connection.execute("insert into nation values (99, 'NOWHERE', 99, '')")


def test_there_are_statistics_of_columns_without_an_index(innodb, connection):
    query = {
        "mysql": "select count(*) from information_schema.column_statistics "
        "where table_name = 'lineitem' and column_name = 'l_shipdate'",
        "mariadb": "select count(*) from mysql.column_stats "
        "where table_name = 'lineitem' and column_name = 'l_shipdate' and histogram is not null",
    }
    assert connection.execute(query[innodb.flavour]).rows == [(1,)]


def test_no_setting_of_the_load_outlives_it(innodb, connection):
    variables = innodb._variables()
    assert variables["innodb_doublewrite"] == "ON"
    assert variables["innodb_flush_log_at_trx_commit"] == "1"
    assert variables["innodb_buffer_pool_size"] == str(128 << 20)  # of the profile
    status = dict(connection.execute("show global status like 'innodb_redo_log_enabled'").rows)
    assert status.get("Innodb_redo_log_enabled", "ON") == "ON"


def test_settings_fit_the_memory_cap_and_the_release():
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
    assert caught.value.problem.endswith(" region from region.1.csv")
    connection.close()


def test_values_arrive_as_they_are_in_the_file(elsewhere, lab):
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
    loader.load(
        LoadRequest(
            innodb.sql_folder / "tpch", tpch_csv.files, tpch_csv.row_counts, SilentProgress()
        )
    )
    ours, theirs = innodb.connect(), elsewhere()
    for table in tpch_csv.files:
        sums = [c.execute(f"checksum table {table}").rows[0][1] for c in (ours, theirs)]
        assert sums[0] == sums[1] and sums[0]
    ours.close()
    theirs.close()


def test_a_missing_row_fails_the_load(innodb, elsewhere, tpch_csv):
    files = {"region": tpch_csv.files["region"], "nation": tpch_csv.files["nation"]}
    counts = {"region": 5, "nation": 26}
    request = LoadRequest(innodb.sql_folder / "tpch", files, counts, SilentProgress())
    with pytest.raises(RunFailed) as caught:
        Loader(elsewhere, innodb.flavour, threads=2).load(request)
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


def _waits_for_a_lock(innodb) -> bool:
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
            request = LoadRequest(folder, {"t": [file]}, {}, SilentProgress())
            loaded.update(loader.load_files(workers, request, task))

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


# Connections: values, time limits, what the server may ask for -------------------

#: More rows than any limit here leaves time for.
ENDLESS = (
    "select count(*) from lineitem a, lineitem b, lineitem c where a.l_tax + b.l_tax < c.l_tax"
)


def test_values_have_the_types_of_their_columns(connection):
    answer = connection.execute(
        "select 7, sum(p_size), 1.50, 2.5e0, 'é', null, date '1998-12-01', count(*), 2 > 1 "
        "from part"
    )
    (row,) = answer.rows
    assert [type(value) for value in row] == [
        int, Decimal, Decimal, float, str, type(None), date, int, int,
    ]  # fmt: skip
    assert row[2:7] == (Decimal("1.50"), 2.5, "é", None, date(1998, 12, 1))


def test_rows_are_those_of_the_clients_own_way_of_reading(innodb, connection):
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
    answer = connection.execute(sql)
    assert answer.rows == expected
    assert answer.columns[:2] == ("l_orderkey", "l_partkey")
    assert answer.duration_ns > 0


def test_a_row_longer_than_a_packet_arrives_whole(innodb, connection):
    connection.execute("set global max_allowed_packet = 67108864")
    other = innodb.connect()  # the limit holds for connections opened from now on
    answer = other.execute("select 1, repeat('x', 17000000), 'end' union all select 2, 'y', 'z'")
    other.close()
    assert [(row[0], len(row[1]), row[2]) for row in answer.rows] == [
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
def test_a_time_limit_ends_the_statement_and_not_the_connection(connection, sql):
    with pytest.raises(QueryTimeout, match=r"within 0\.3 s"):
        connection.execute(sql, timeout_s=0.3)
    assert connection.execute("select count(*) from region").rows == [(5,)]
    assert connection.execute("select 1", timeout_s=60).rows == [(1,)]
    connection.execute("drop table if exists never")


def test_another_user_s_kill_is_not_the_time_limit(innodb, connection):
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
def test_the_servers_own_limit_is_never_shorter_than_ours(connection, limit_s):
    connection.execute("select 1", timeout_s=limit_s)
    name, per_second = {
        "mysql": ("max_execution_time", 1000),
        "mariadb": ("max_statement_time", 1),
    }[connection.flavour]
    ((limit,),) = connection.execute(f"select @@session.{name}", timeout_s=limit_s).rows
    assert limit_s <= float(limit) / per_second < limit_s + 0.001
    ((of_our_own,),) = connection.run(f"select @@session.{name}").rows
    assert float(of_our_own) == 0


def test_a_limit_that_was_not_reached_ends_nothing_later(connection):
    for limit_s in (2.0, 20.0):
        with suppress(QueryTimeout):  # the machine stood still for all of it
            connection.execute("do sleep(0.01)", timeout_s=limit_s)
            break
    connection.execute(f"do sleep({limit_s + 0.5})")
    assert connection.execute(f"select sleep({limit_s + 0.1})").rows == [(0,)]


def test_statements_between_begin_and_commit_are_one_transaction(connection):
    connection.execute("create table pair (i integer primary key)")
    for end, rows in (("rollback", []), ("commit", [(1,), (2,)])):
        connection.execute("BEGIN")
        connection.execute("insert into pair values (1)")
        connection.execute("insert into pair values (2)")
        connection.execute(end)
        assert connection.execute("select i from pair order by i").rows == rows
    connection.execute("drop table pair")


def test_text_is_compared_by_byte(connection):
    answer = connection.execute(
        "select 'a' = 'A', 'abc' like 'ABC', "
        "(select count(*) from region where r_name = 'asia' or r_name like 'as%'), "
        "(select count(*) from region where r_name = 'ASIA')"
    )
    assert answer.rows == [(0, 0, 0, 1)]


def test_what_would_be_cut_is_an_error(connection):
    with pytest.raises(RunFailed, match="too long"):
        connection.execute("insert into region values (9, repeat('x', 26), '')")


def test_files_of_the_client_are_not_sent_unless_requested(innodb, tmp_path):
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


# Executed plans: of real servers, and of recordings ------------------------------

RECORDINGS = Path(__file__).parent / "recordings"


def recorded(name: str) -> str:
    return (RECORDINGS / name).read_text()


def of_relation(plan: ExecutedPlan, table: str) -> list[Operator]:
    return [operator for operator in plan.operators.walk() if operator.relation == table]


@pytest.mark.parametrize("query", [1, 2, 11, 13, 15, 16, 18, 20, 21, 22])
def test_a_plan_adds_up_to_its_executions_time(innodb, connection, query):
    sql = query_sql(query, parameters(query, None, 0.01), innodb.sql_folder / "tpch")
    plan = innodb.explain(connection, sql)
    total = sum(plan.time_by_kind_ns().values())
    assert 0.9 * plan.duration_ns <= total <= 1.1 * plan.duration_ns
    assert plan.clock == "wall" and plan.note
    operators = sum(operator.time_ns for operator in plan.operators.walk())
    assert 0 < operators <= 1.1 * plan.extra["engine_duration_ns"]


def test_scans_name_their_table_and_count_its_rows(innodb, connection, tpch_csv):
    plan = innodb.explain(connection, "select sum(l_quantity) from lineitem where l_tax >= 0")
    (scan,) = of_relation(plan, "lineitem")
    assert (scan.kind, scan.rows) == ("scan", tpch_csv.row_counts["lineitem"])
    assert scan.time_ns > 0


def test_profiling_leaves_the_connection_as_it_was(innodb, connection):
    innodb.explain(connection, "select count(*) from region")
    assert connection.execute("select count(*) from region").rows == [(5,)]


def test_a_recorded_tree_of_mysql_in_exclusive_times():
    plan = explain.translate_json(recorded("mysql-9.7.4-tpch-q20.json"), 200_000_000)
    total = plan.extra["engine_duration_ns"]
    assert abs(sum(o.time_ns for o in plan.operators.walk()) - total) < total / 1000
    (lineitem,) = of_relation(plan, "lineitem")
    assert lineitem.name == "Index lookup on lineitem using lineitem_part_supplier"
    assert lineitem.kind == "scan"
    (subquery,) = [o for o in plan.operators.walk() if "Select #4" in o.name]
    assert (subquery.kind, subquery.rows) == ("aggregate", 760)  # once for each of 760 loops
    assert plan.outside_ns == {"planning and client": 200_000_000 - total}


def test_the_text_of_older_releases_gives_the_same_tree():
    new = explain.translate_json(recorded("mysql-9.7.4-tpch-q20.json"), 10**9)
    old = explain.translate_tree(recorded("mysql-9.7.4-tpch-q20.tree.txt"), 10**9)
    assert old.raw_format == "text"

    def shape(plan: ExecutedPlan) -> list[tuple[str, str | None]]:
        nodes = [o for o in plan.operators.walk() if not o.name.startswith("Select #")]
        return [(o.kind, o.relation) for o in nodes]

    assert shape(old) == shape(new)
    assert (
        abs(sum(o.time_ns for o in old.operators.walk()) / old.extra["engine_duration_ns"] - 1)
        < 0.02
    )


def test_what_never_ran_has_no_time():
    text = (
        "-> Filter: (a.x = (select #2))  (actual time=0.5..2.0 rows=1 loops=2)\n"
        "    -> Table scan on a  (cost=2 rows=3) (actual time=0.1..1.25e+0 rows=3 loops=2)\n"
        "    -> Select #2 (subquery in condition; run only once)\n"
        "        -> Table scan on b  (cost=2 rows=3) (never executed)\n"
    )
    root = explain.translate_tree(text, 5_000_000).operators
    assert [(o.kind, o.relation, o.rows, o.time_ns) for o in root.walk()] == [
        ("scan", None, 2, 1_500_000),
        ("scan", "a", 6, 2_500_000),
        ("other", None, 0, 0),
        ("scan", "b", 0, 0),
    ]


@pytest.mark.parametrize("query", [11, 16])
def test_a_recorded_sort_of_mariadb_counts_nothing_twice(query):
    text = recorded(f"mariadb-10.11.19-tpch-q{query}.json")
    plan = explain.translate_mariadb(text, 10**9)
    total = plan.extra["engine_duration_ns"] - plan.extra["planning_ns"]
    assert abs(sum(o.time_ns for o in plan.operators.walk()) - total) < total / 1000
    sorts = [o for o in plan.operators.walk() if o.kind == "sort"]
    assert sorts and sum(o.time_ns for o in sorts) < total / 20  # what they read is not theirs


def test_a_recorded_plan_of_mariadb_separates_reading_from_the_rest():
    plan = explain.translate_mariadb(recorded("mariadb-10.11.19-tpch-q16.json"), 10**8)
    (part,) = of_relation(plan, "part")
    assert (part.kind, part.name, part.rows) == ("scan", "ALL", 20_000)
    (partsupp,) = of_relation(plan, "partsupp")
    assert partsupp.name == "ref using PRIMARY"
    joins = [o for o in plan.operators.walk() if o.kind == "join"]
    assert [o.name for o in joins] == ["nested loop join"]
    assert "joins and grouping" in plan.note


# Answers, configuration and counters ---------------------------------------------

SCALE = 0.01


def test_all_answers_are_the_reference_ones(innodb, connection):
    shipped = resources.files("harness.workloads.tpch") / "answers" / f"sf{SCALE}.json"
    references = json.loads(shipped.read_text())["answers"]
    for query in QUERIES:
        sql = query_sql(query, parameters(query, None, SCALE), innodb.sql_folder / "tpch")
        rows = connection.execute(sql, timeout_s=300).rows
        reference = CanonicalAnswer.from_json(references[str(query)])
        agreement = compare(SHAPES[query], reference, rows, sum_tolerance(SCALE))
        assert agreement.agrees, f"Q{query}: {agreement.detail}"


def test_the_configuration_has_what_was_set_and_no_secret(innodb, connection):
    connection.execute("set global init_connect = 'set @pin = 4711'")
    config = innodb.effective_config()
    connection.execute("set global init_connect = ''")
    assert config.get("init_connect", NOT_RECORDED) == NOT_RECORDED
    assert "4711" not in str(config)
    assert config["innodb_buffer_pool_size"] == str(128 << 20)
    assert config["innodb_flush_log_at_trx_commit"] == "1"
    assert "version" in config
    assert not [name for name in config if "password" in name or name.startswith("ssl_")]
    assert innodb._password not in config.values()


def test_reading_counters_adds_nothing_to_them(innodb):
    # What the server still does in the background by itself comes to an end.
    first, deadline = innodb.counters(), time.monotonic() + PATIENCE_S
    while (second := innodb.counters()) != first and time.monotonic() < deadline:
        first = second
    assert first == second
    assert {name.rpartition("_")[2] for name in first} <= {"bytes", "count", "ns"}
    assert first["innodb_data_read_bytes"] > 0


def test_a_sort_that_does_not_fit_is_counted(innodb, connection):
    before = innodb.counters()
    connection.execute("set session sort_buffer_size = 65536")
    connection.execute("select l_comment from lineitem order by l_comment, l_tax limit 50000, 1")
    after = innodb.counters()
    assert after["server_sort_merge_passes_count"] > before["server_sort_merge_passes_count"]
    if innodb.flavour == "mysql":
        # At least the comments themselves, 27 bytes each on average.
        assert after["spilled_bytes"] - before["spilled_bytes"] > 60_000 * 20
    else:  # its performance schema does not count a sort's files: left out, not zero
        assert "spilled_bytes" not in after


def test_log_bytes_are_counted(innodb, connection):
    connection.execute("create table logged (t longtext)")
    before = innodb.counters()["innodb_log_written_bytes"]
    connection.execute("insert into logged values (repeat('x', 1000000))")
    grown = innodb.counters()["innodb_log_written_bytes"] - before
    connection.execute("drop table logged")
    assert 1_000_000 <= grown < 3_000_000


def test_the_redo_log_and_its_checkpoint_are_counted(innodb):
    counters = innodb.counters()
    assert counters["innodb_redo_bytes"] >= counters["innodb_redo_checkpointed_bytes"] > 0


@pytest.mark.parametrize("stem", ["20_keys", "30_indexes", "40_foreign_keys"])
def test_both_row_stores_have_the_same_keys_and_indexes(innodb, stem):
    postgres = innodb.sql_folder.parents[1] / "postgres" / "sql" / "tpch"
    theirs = statements(postgres, stem)
    assert theirs == statements(innodb.sql_folder / "tpch", stem)[: len(theirs)]
    assert theirs
