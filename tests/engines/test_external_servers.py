"""Servers of the user, here ones that the tests start: PostgreSQL, MySQL and MariaDB by DSN."""

import os
import signal
import threading
from functools import partial

import pytest
from lab import execute
from patience import PATIENCE_S, eventually, stop

from harness import paths, registry
from harness.engine import LoadRequest
from harness.errors import RunFailed, UsageError
from harness.progress import SilentProgress
from harness.workloads.streams import QueryStreams
from harness.workloads.tpch.statements import TpchStatement

KEY, SCHEMA = "tpch-abc123", "tierbench_tpch_abc123"
OF_OWNER = (
    "create user 'owner'@'localhost' identified by 'p@ss/word'",
    "set global local_infile = on",  # as load.py requires
    r"grant all on `tierbench\_%`.* to 'owner'@'localhost'",
)
ENV = {"dsn": "env"}


@pytest.fixture(scope="module", params=("postgres", "mysql"))
def server(request, module_lab):
    engine = module_lab.started(request.param)
    execute(engine, *(OF_OWNER if engine.name == "mysql" else ("create database another",)))
    yield engine
    engine.kill()


def address_of(server) -> str:
    if server.name == "postgres":
        return f"host={server._context.scratch} port=5432 dbname=harness"
    return f"socket={server.socket}"


@pytest.fixture
def dsn(server, monkeypatch):
    """The DSN of that server, in the environment."""
    text = f"{server.name}://owner:p%40ss%2Fword@/?{address_of(server)}"
    if server.name == "postgres":
        text = f"{address_of(server)} user=harness password={server._password}"
    monkeypatch.setenv("HARNESS_DSN", text)
    return text


@pytest.fixture
def external(server, dsn, lab):
    engine = lab.engine(server.name, options=ENV)
    engine.start()
    yield engine
    engine.kill()
    cascade = "cascade" if server.name == "postgres" else ""
    execute(server, f"drop schema if exists {SCHEMA} {cascade}")


def test_the_server_is_recorded_without_the_password(server, dsn):
    factory = registry.engine(server.name)
    version = factory.available(ENV, paths.engines_prefix())
    assert version.version == server.version().version
    assert version.source == f"DSN {address_of(server)}"
    assert "p@ss" not in repr(version) and server._password not in repr(version)
    assert factory.supported_parts(ENV) == frozenset()


def test_data_are_loaded_once_and_found_by_their_mark(external, server, lab, tpch_csv):
    assert (external.kind, server.kind) == ("external", "managed")
    assert external.prepared(KEY) is None
    external.prepare(KEY)
    external.bulk_load(
        LoadRequest(external.sql("tpch"), tpch_csv.files, tpch_csv.row_counts, SilentProgress())
    )
    assert external.prepared(KEY) is None, "incomplete data count as missing"
    external.mark_prepared(KEY, {"rows": tpch_csv.row_counts})
    again = lab.engine(server.name, options=ENV)
    assert again.prepared(KEY) == {"rows": tpch_csv.row_counts}
    rows = tpch_csv.row_counts["lineitem"]
    assert execute(again, "select count(*) from lineitem") == [(rows,)]
    assert again.data_bytes() > rows * 50
    assert again.effective_config() and again.counters()
    again.stop()
    assert execute(server, f"select count(*) from {SCHEMA}.nation") == [(25,)]
    if server.name == "mysql":
        assert "latin1_bin" in execute(server, f"show create database {SCHEMA}")[0][1]


def test_incomplete_data_are_replaced(external):
    external.prepare(KEY)
    execute(external, "create table region (i int)")
    external.prepare(KEY)
    with pytest.raises(RunFailed, match="region"):
        execute(external, "select * from region")


@pytest.mark.parametrize("mark", [None, "no json", '{"made_by": "me"}'])
def test_a_schema_that_the_harness_did_not_make_is_refused(external, server, mark):
    table = f"{SCHEMA}.tierbench_mark"
    comments = [f"create table {table} (mark text)", f"insert into {table} values ('{mark}')"]
    if server.name == "postgres":
        comments = [f"comment on schema {SCHEMA} is '{mark}'"]
    execute(server, f"create schema {SCHEMA}", f"create table {SCHEMA}.mine (i int)")
    execute(server, *(comments if mark else ["select 1"]))
    for verb in (external.prepared, external.prepare):
        with pytest.raises(RunFailed, match="not made by") as refused:
            verb(KEY)
        assert SCHEMA in refused.value.problem
    assert execute(server, f"select * from {SCHEMA}.mine") == []


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        ("table", "create table mine (i int)"),
        ("view", "create view mine as select * from region"),
        ("view", f"create view public.mine as select * from {SCHEMA}.region"),
        ("procedure", "create procedure mine() select 1"),
    ],
)
def test_objects_of_its_owner_in_our_schema_are_not_dropped(external, kind, statement):
    if ("public" in statement) > (external.name == "postgres"):
        return  # other servers have no schema of that name
    if (kind == "procedure") > (external.name == "mysql"):
        return
    external.prepare(KEY)
    execute(external, "create table region (i int)", statement)
    with pytest.raises(RunFailed) as refused:
        external.prepare(KEY)
    assert "mine" in refused.value.context
    assert execute(external, "select * from region") == []
    execute(external, f"drop {kind} {'public.' if 'public.' in statement else ''}mine")
    external.prepare(KEY)


def test_two_harnesses_do_not_use_one_server(external, server, lab, dsn, monkeypatch):
    """In PostgreSQL, an advisory lock is visible in its own database only."""
    holder = f"process {os.getpid()} (user harness, database harness"
    if server.name == "postgres":
        monkeypatch.setenv("HARNESS_DSN", f"{dsn} dbname=another")
    else:
        ((number,),) = execute(server, "select is_used_lock('tierbench')")
        holder = f"user owner from localhost, connection {number}"
    another = lab.engine(server.name, options=ENV)
    external.stop()  # as for a cold start
    with pytest.raises(RunFailed) as refused:
        another.start()
    assert holder in refused.value.context
    external.kill()
    another.start()
    another.kill()


def test_its_files_and_placement_are_the_user_s(external, lab, tmp_path):
    for verb in (
        lambda: external.initialise(lab.places()),
        lambda: external.snapshot(tmp_path),
        lambda: external.restore(tmp_path, lab.places()),
    ):
        with pytest.raises(UsageError):
            verb()
    assert external.files() == [] and external.processes() == []
    assert (external.kind, external.supported_parts) == ("external", frozenset())


@pytest.mark.only("mysql")
def test_a_server_of_the_other_engine_is_refused(server, dsn):
    with pytest.raises(UsageError) as caught:
        registry.engine("mariadb").available(ENV, paths.engines_prefix())
    assert caught.value.hint == "use --engine mysql"


@pytest.mark.only("mysql")
def test_a_failure_in_one_query_stream_ends_the_statements_of_the_others(external, server):
    statements = [
        [TpchStatement(1, {}, "select no_such", 1)],
        [TpchStatement(2, {}, "select sleep(3600)", 2)],
    ]
    failures: list[BaseException] = []

    def run() -> None:
        try:
            with SilentProgress().task("streams", 2) as task, QueryStreams(external) as streams:
                streams.start([streams.queries(texts, [], None, task) for texts in statements])
                streams.wait()
        except RunFailed as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "it waits for the other stream's statement"
    assert "no_such" in str(failures[0])
    running = "select info from information_schema.processlist where info = 'select sleep(3600)'"
    # The server reports the end before it clears its list.
    assert eventually(lambda: not execute(server, running))


@pytest.mark.parametrize(
    ("name", "dsn"),
    [
        ("postgres", "postgresql://u:secret@h/db"),
        ("postgres", "host=h sslpassword=secret"),
        ("mysql", "mysql://me:secret@db/x"),
    ],
)
def test_a_password_in_a_dsn_is_refused_and_not_shown(name, dsn):
    with pytest.raises(UsageError, match="password") as refused:
        registry.engine(name).available({"dsn": dsn}, paths.engines_prefix())
    assert "secret" not in f"{refused.value}{refused.value.hint}"


def test_a_stopped_server_is_not_waited_for(server, external, monkeypatch):
    """Its processes are not the run's, so only the answers are limited."""
    execute(external, "select 1")
    connection = external.connect()
    connection.execute("select 1")
    monkeypatch.setenv("HARNESS_SILENCE", "statement=1")
    waiting = external.connect()
    monkeypatch.setenv("HARNESS_SILENCE", "statement=1,connect=1")
    stopped = [process.pid for process in server.processes()]
    for pid in stopped:
        stop(pid)
    try:
        for attempt in (partial(waiting.execute, "select 1"), external.connect):
            with pytest.raises(RunFailed):
                attempt()
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    connection.execute("select 1")
    connection.close()
