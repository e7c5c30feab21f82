"""SQL Server, of which there is none here: its SQL as a parser reads it, its DSN, its warning."""

import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from narrowed import present
from native_client import Native
from sqlglot import exp
from tds_stand_in import Failure, Row, Rows, StandIn
from tsql_stand_in import Databases
from typer.testing import CliRunner

from engines.sqlserver.connection import translate
from engines.sqlserver.waits import event_of
from harness import paths, registry
from harness.cli.app import app
from harness.drivers.hammerdb.script import target_of
from harness.engine import EngineVersion
from harness.errors import RunFailed, UsageError
from harness.experiment.preflight import _untested
from harness.progress import SilentProgress
from harness.sql_files import created, statements
from harness.store.verified import record_verified, verified
from harness.workload import Session
from harness.workloads.tpcc.consistency import conditions
from harness.workloads.tpcc.params import TRANSACTIONS
from harness.workloads.tpch.qgen import QUERIES, parameters
from harness.workloads.tpch.statements import other_sql, query_sql, variant_values

FACTORY = registry.engine("sqlserver")
SQL = Path(__file__).parents[2] / "engines" / "sqlserver" / "sql"
FOLDER = SQL / "tpch"
#: What T-SQL does not have.
MISSING = (exp.Interval, exp.Limit, exp.Extract)
#: A plan as the showplan schema has it, made for this test: an index join below a parallel sum.
PLAN = Path(__file__).parent / "recordings" / "sqlserver_made_up_plan.xml"
MS = 1_000_000


class Answers:
    """The stand-in's answers to TPC-C's calls; every seventh call is a deadlock's victim."""

    def __init__(self) -> None:
        self.calls: dict[str, list[Sequence[Any]]] = {}
        self._orders, self._count = itertools.count(3001), itertools.count(1)

    def __call__(self, name: str, args: Sequence[Any]) -> Sequence[Row] | Failure:
        self.calls.setdefault(name.removeprefix("tpcc_"), []).append(args)
        if next(self._count) % 7 == 0:
            return Failure(1205, "deadlocked")
        if name == "tpcc_new_order":
            unused = any(item > 100_000 for item in json.loads(args[5]))
            return [(None if unused else str(next(self._orders)), "12.30")] * args[3]
        if name == "tpcc_payment":
            return [(args[4] or 7, "x")]
        if name == "tpcc_order_status":
            return [(args[2] or 7, 3000)] * 5
        return [(10, ",".join(["2101"] * 10)) if name == "tpcc_delivery" else (3,)]


@pytest.fixture
def answers():
    return Answers()


@pytest.fixture
def server(answers, lab, monkeypatch):
    """The engine on the stand-in."""
    with StandIn(answers) as stand_in:
        monkeypatch.setenv("HARNESS_DSN", f"mssql://u:secret@127.0.0.1:{stand_in.port}/master")
        yield lab.engine("sqlserver", options={"dsn": "env"})


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_is_t_sql(query):
    (tree,) = sqlglot.parse(query_sql(query, parameters(query, 7, 1), FOLDER), dialect="tsql")
    assert tree is not None
    assert not list(tree.find_all(*MISSING))


def test_the_variant_and_its_count_are_t_sql():
    values = variant_values(("1994-01-01", "1995-01-01"))
    for text in (query_sql(6, values, FOLDER), other_sql("q06_selected", values, FOLDER)):
        (tree,) = sqlglot.parse(text, dialect="tsql")
        assert tree is not None and not list(tree.find_all(*MISSING))


def schema(folder: Path, dialect: str) -> set[tuple[str, ...]]:
    """Tables with their columns, primary and foreign keys."""
    keys: set[tuple[str, ...]] = set()
    for stem in ("10_tables", "20_keys", "40_foreign_keys"):
        for text in statements(folder, stem):
            (tree,) = sqlglot.parse(text, dialect=dialect)
            table = present(present(tree).find(exp.Table)).name
            for column in present(tree).find_all(exp.ColumnDef):
                keys.add((table, "column", column.name))
            for key in present(tree).find_all(exp.PrimaryKey, exp.ForeignKey):
                columns, other = [column.name for column in key.expressions], key.find(exp.Table)
                keys.add((table, key.key, *columns, other.name if other else ""))
    return keys


@pytest.mark.parametrize(("workload", "tables"), [("tpch", 8), ("tpcc", 9)])
def test_the_schema_is_t_sql_and_has_what_postgresql_has(workload, tables):
    """A server takes PostgreSQL's in other tests."""
    folder = SQL / workload
    for text in statements(folder, "30_indexes"):
        (tree,) = sqlglot.parse(text, dialect="tsql")
        assert not isinstance(tree, exp.Command)
    made = schema(folder, "tsql")
    assert made == schema(SQL.parents[1] / "postgres" / "sql" / workload, "postgres")
    assert {table for table, *_ in made} == created(folder)["table"]
    assert len(created(folder)["table"]) == tables


@pytest.mark.parametrize("transaction", TRANSACTIONS)
def test_a_procedure_is_t_sql_and_takes_the_values_of_its_call(transaction):
    text = (SQL / "tpcc" / "procedures" / f"{transaction}.sql").read_text()
    text_without_throw = re.sub(
        r"if .*\nbegin;\n    throw .*\nend;\n", "", text
    )  # it does not know THROW
    (tree,) = sqlglot.parse(text_without_throw, dialect="tsql")
    assert isinstance(tree, exp.Create)
    assert not list(tree.find_all(exp.Command))
    head = text.partition("\nas\n")[0].partition("create procedure")[2]
    parameters = re.findall(r"@(\w+)", head)
    call = (SQL / "tpcc" / "calls" / f"{transaction}.sql").read_text()
    assert re.findall(r":(\w+)", call) == parameters
    assert call.split()[1] == head.split()[0]


def test_the_conditions_are_t_sql(server):
    for sql in conditions(server).values():
        (tree,) = sqlglot.parse(sql, dialect="tsql")
        assert tree is not None and "LIMIT" not in sql


@pytest.mark.parametrize(
    "dsn",
    [
        "mssql://u:secret@localhost/master",
        "mssql://u@db1/master",
        "mssql://localhost/master",
        "postgres://u@localhost/master",
        "mssql://u@localhost/master?key=x",
        "mssql://u@localhost:port/master",
    ],
)
def test_a_dsn_with_a_password_or_without_encryption_is_refused(dsn):
    with pytest.raises(UsageError) as refused:
        FACTORY.available({"dsn": dsn}, paths.engines_prefix())
    assert "secret" not in str(refused.value)


def test_a_password_comes_from_the_environment_and_is_not_shown(monkeypatch):
    from engines.sqlserver.server import dsn_of

    monkeypatch.setenv("HARNESS_DSN", "mssql://u:p%40ss@db1:1444/x?ca=/etc/ca.pem")
    login = dsn_of({"dsn": "env"})
    assert (login.password, login.port, login.ca) == ("p@ss", 1444, "/etc/ca.pem")
    assert "p@ss" not in f"{login!r} {login.address}"


def test_without_a_server_it_says_how_to_name_one():
    for attempt in (lambda: FACTORY.available({}, Path()), lambda: FACTORY.make(None)):  # type: ignore[arg-type]
        with pytest.raises(UsageError) as refused:
            attempt()
        assert "--dsn" in refused.value.hint


def test_its_runs_warn_until_this_build_is_verified(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "data_root", lambda: tmp_path)
    version = EngineVersion("sqlserver", "16.0.4165.4", "build 1", "DSN host=db1")
    assert [warning.code for warning in _untested(FACTORY, version)] == ["engine-untested"]
    record_verified("sqlserver", version, [])
    assert _untested(FACTORY, version) == []
    other = EngineVersion("sqlserver", "16.0.4165.4", "build 2", "DSN host=db1")
    assert _untested(FACTORY, other)
    assert _untested(registry.engine("duckdb"), other) == []


def test_the_client_calls_the_procedures_and_repeats_victims_of_deadlocks(server, answers, lab):
    result = Native(lab, server).run(operations=300)
    operations = result.operations.values()
    assert sum(operation.count + operation.rolled_back_count for operation in operations) == 300
    retried = sum(operation.retried_count for operation in operations)
    assert result.errors == {"1205": retried} and retried > 40
    assert set(answers.calls) == set(TRANSACTIONS)
    w, d, c, count, _, *lists = answers.calls["new_order"][0]
    assert (w, 1 <= d <= 10, 1 <= c <= 3000) == (1, True, True)
    assert {len(json.loads(text)) for text in lists} == {count}
    payments = answers.calls["payment"]
    assert {(call[4] is None) != (call[5] is None) for call in payments} == {True}
    assert all(re.fullmatch(r"\d+\.\d\d", call[6]) for call in payments)


@pytest.mark.parametrize(
    ("wait", "resource"),
    [
        ("PAGEIOLATCH_SH", "data read"),
        ("WRITELOG", "log sync"),
        ("LOGBUFFER", "log write"),
        ("LCK_M_X", "lock"),
        ("PAGELATCH_EX", "buffer"),
        ("ASYNC_NETWORK_IO", "client"),
        ("RESOURCE_SEMAPHORE", "other"),
    ],
)
def test_a_wait_is_for_a_resource(server, wait, resource):
    assert server.wait_observer().resource(event_of(wait)) == resource


def test_a_plan_has_own_times_that_add_up():
    plan = translate(PLAN.read_text(), 130 * MS)
    aggregate, exchange, join, scan, seek = plan.operators.walk()
    assert [operator.kind for operator in (aggregate, exchange, join, scan, seek)] == [
        "aggregate", "other", "join", "scan", "scan"
    ]  # fmt: skip
    times_ms = [operator.time_ns // MS for operator in plan.operators.walk()]
    assert times_ms == [2, 8, 30, 40, 20] and sum(times_ms) == 100
    assert (scan.relation, scan.rows, seek.relation, seek.lookups) == ("orders", 15, "lineitem", 15)
    assert plan.outside_ns == {"planning": 5 * MS, "executor": 3 * MS, "client": 22 * MS}


@pytest.fixture
def databases(lab, monkeypatch):
    """A stand-in that executes batches and bulk inserts, at ``env``."""
    databases_here = Databases(lab.directory("databases"))
    with StandIn(Answers(), databases_here.query, databases_here.insert) as stand_in:
        monkeypatch.setenv("HARNESS_DSN", f"mssql://u:secret@127.0.0.1:{stand_in.port}/master")
        yield databases_here


def test_hammerdb_fills_a_database_of_ours_which_has_no_table_yet(databases, lab):
    engine = lab.engine("sqlserver", options={"dsn": "env"})
    engine.start()
    assert engine.prepared("tpcc-1") is None
    engine.prepare("tpcc-1")
    target = target_of(engine)
    assert (target.dialect, target.database) == ("mssqls", "tierbench_tpcc_1")
    assert databases.query(target.database, "select name from sys.objects") == Rows(
        ["type", "name"], [("view", "tierbench_mark")]
    )
    databases.query(target.database, "create table warehouse (w_id int)")  # as HammerDB does
    engine.mark_prepared("tpcc-1", {"driver": "it's"})
    assert engine.prepared("tpcc-1") == {"driver": "it's"}
    databases.query(target.database, "create table mine (k int)")
    with pytest.raises(RunFailed, match="mine"):
        engine.prepare("tpcc-1")
    databases.query(target.database, "drop table mine")
    engine.prepare("tpcc-1")
    engine.kill()


FOLDERS = {"dsn": "env", "data_folder": "/mnt/pmem/data", "log_folder": "/mnt/pmem/log/"}


def test_a_database_is_made_in_the_named_folders_which_is_checked(databases, lab):
    engine = lab.engine("sqlserver", options=FOLDERS)
    engine.start()
    engine.prepare("tpch-1")
    (rows, log) = databases.files
    assert (rows[0], log[0]) == ("ROWS", "LOG")
    assert rows[1].startswith("/mnt/pmem/data/tierbench_tpch_1_")
    assert log[1].startswith("/mnt/pmem/log/tierbench_tpch_1_")
    engine.mark_prepared("tpch-1", {})
    assert engine.prepared("tpch-1") == {}
    assert engine.effective_config()["folder_of_log"] == "/mnt/pmem/log"
    databases.files[0] = ("ROWS", "/mnt/ssd/data/x.mdf")
    with pytest.raises(RunFailed, match="/mnt/ssd/data"):
        engine.prepared("tpch-1")
    engine.kill()
    elsewhere = lab.engine("sqlserver", options={"dsn": "env"})
    elsewhere.start()
    assert elsewhere.prepared("tpch-1") is None  # a database of its own
    elsewhere.kill()


def test_a_cold_start_is_the_authors_three_statements(databases, lab):
    engine = lab.engine("sqlserver", options={"dsn": "env"})
    engine.start()
    engine.prepare("tpch-1")
    engine.mark_prepared("tpch-1", {})
    engine.prepared("tpch-1")
    databases.batches.clear()
    session = Session(engine, SilentProgress())
    session.cold_start("q1")
    assert [text for text in databases.batches if text.startswith(("checkpoint", "dbcc"))] == [
        "checkpoint", "dbcc dropcleanbuffers", "dbcc freeproccache",
    ]  # fmt: skip
    (cached,) = session.residency
    assert (cached.resident_bytes, cached.total_bytes) == (0, 1000 * 8192)
    assert session.not_cold == []
    engine.kill()


@pytest.mark.slow
def test_nothing_is_recorded_after_a_failure(databases, monkeypatch, tmp_path):
    """The stand-in has no procedures."""
    monkeypatch.setattr(paths, "data_root", lambda: tmp_path)
    done = CliRunner().invoke(app, ["engines", "verify", "sqlserver", "--dsn", "env", "--json"])
    assert done.exit_code == 1, done.output
    results = {check["name"]: check["result"] for check in json.loads(done.stdout)["checks"]}
    assert (results["tpch-answers"], results["tpcc-conditions"]) == ("passed", "failed")
    assert "secret" not in done.output
    assert not verified("sqlserver", FACTORY.available({"dsn": "env"}, Path()))
