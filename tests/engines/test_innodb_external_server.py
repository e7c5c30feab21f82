"""A MySQL or MariaDB of the user's, played by a server that the test starts itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S, eventually

from harness import paths, registry
from harness.engine import BulkLoads, KeepsOwnData
from harness.errors import RunFailed, UsageError
from harness.progress import SilentProgress
from harness.workloads.tpch.statements import Statement
from harness.workloads.tpch.throughput import _Streams

KEY = "tpch-abc123"
FLAVOURS = ("mysql", "mariadb")


@pytest.fixture(scope="module", params=FLAVOURS)
def server(request: pytest.FixtureRequest, module_lab: Any, empty_engines: Any) -> Iterator[Any]:
    """A running server with a user of its owner's who may do all in our databases."""
    engine = module_lab.engine(request.param)
    engine.restore(empty_engines.data(request.param), module_lab.places())
    engine.start()
    connection = engine.connect()
    connection.execute("create user 'owner'@'localhost' identified by 'p@ss/word'")
    connection.execute("set global local_infile = on")  # as load.py asks its owner to
    connection.execute(r"grant all on `tierbench\_%`.* to 'owner'@'localhost'")
    connection.close()
    yield engine
    engine.kill()


@pytest.fixture
def dsn(server: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """The DSN of that server, in the environment."""
    text = f"{server.name}://owner:p%40ss%2Fword@/?socket={server._server.socket}"
    monkeypatch.setenv("HARNESS_DSN", text)
    return text


@pytest.fixture
def external(server: Any, dsn: str, lab: Any) -> Iterator[Any]:
    engine = lab.engine(server.name, options={"dsn": "env"})
    engine.start()
    yield engine
    engine.kill()
    connection = server.connect()
    connection.execute("drop database if exists tierbench_tpch_abc123")
    connection.close()


def test_what_answers_is_told_without_the_password(server: Any, dsn: str) -> None:
    factory = registry.engine(server.name)
    found = factory.available({"dsn": "env"}, paths.engines_prefix())
    assert found.version == server.version().version
    assert found.source == f"DSN socket={server._server.socket}"
    assert "p@ss" not in repr(found)
    assert factory.supported_parts({"dsn": "env"}) == frozenset()


def test_the_other_engine_is_refused(server: Any, dsn: str) -> None:
    other = {"mysql": "mariadb", "mariadb": "mysql"}[server.name]
    with pytest.raises(UsageError, match="it is M") as caught:
        registry.engine(other).available({"dsn": "env"}, paths.engines_prefix())
    assert caught.value.hint == f"use --engine {server.name}"


def test_data_are_loaded_once_and_kept_under_our_mark(
    external: Any, server: Any, tpch_csv: Any
) -> None:
    assert isinstance(external, KeepsOwnData) and isinstance(external, BulkLoads)
    assert external.prepared(KEY) is None
    external.prepare(KEY)
    external.bulk_load("tpch", tpch_csv.files, tpch_csv.row_counts, SilentProgress())
    assert external.prepared(KEY) is None, "half-loaded data count as none"
    external.mark_prepared(KEY, {"rows": tpch_csv.row_counts})
    again = type(external)(external_context(external), server.name)
    assert again.prepared(KEY) == {"rows": tpch_csv.row_counts}
    rows = again.connect().execute("select count(*) from lineitem").rows
    assert rows == [(tpch_csv.row_counts["lineitem"],)]
    assert again.data_bytes() > tpch_csv.row_counts["lineitem"] * 50
    assert again.effective_config() and again.counters()
    again.stop()
    database = server.connect().execute("show create database tierbench_tpch_abc123").rows[0][1]
    assert "latin1_bin" in database


def external_context(engine: Any) -> Any:
    """The context of another run on the same server."""
    from types import SimpleNamespace

    return SimpleNamespace(options=engine._options, threads=engine.threads)


def test_a_half_loaded_database_of_ours_is_made_anew(external: Any) -> None:
    external.prepare(KEY)
    external.connect().execute("create table region (i int)")
    external.prepare(KEY)
    tables = external.connect().execute("show tables").rows
    assert tables == [("tierbench_mark",)]


@pytest.mark.parametrize(
    "statements",
    [
        ["create table mine (i int)"],
        ["create table tierbench_mark (mark longtext)",
         """insert into tierbench_mark values ('{"made_by": "me"}')"""],
        ["create table tierbench_mark (mark longtext)",
         "insert into tierbench_mark values ('no json')"],
    ],
)  # fmt: skip
def test_somebody_elses_database_is_refused(
    external: Any, server: Any, statements: list[str]
) -> None:
    connection = server.connect()
    connection.execute("create database tierbench_tpch_abc123")
    connection.execute("use tierbench_tpch_abc123")
    for statement in statements:
        connection.execute(statement)
    for verb in (external.prepared, external.prepare):
        with pytest.raises(RunFailed, match="was not made by tierbench"):
            verb(KEY)
    assert connection.execute("show tables").rows
    connection.close()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("create table mine (i int)", "table mine"),
        ("create view mine as select * from region", "table mine"),
        ("create procedure mine() select 1", "procedure mine"),
    ],
)
def test_what_its_owner_put_into_our_database_is_not_dropped(
    external: Any, statement: str, named: str
) -> None:
    external.prepare(KEY)
    connection = external.connect()
    connection.execute("create table region (i int)")
    connection.execute(statement)
    with pytest.raises(RunFailed) as refused:
        external.prepare(KEY)
    assert refused.value.context.endswith(f": {named}")
    assert ("region",) in connection.execute("show tables").rows


def test_two_harnesses_do_not_use_one_server(external: Any, server: Any, lab: Any) -> None:
    another = lab.engine(server.name, options={"dsn": "env"})
    (number,) = server.connect().execute("select is_used_lock('tierbench')").rows[0]
    external.stop()  # as for a cold start
    with pytest.raises(RunFailed) as refused:
        another.start()
    assert f"user owner from localhost, connection {number}" in refused.value.context
    external.kill()
    another.start()
    another.kill()


def test_what_the_user_may_not_do_is_told(
    server: Any, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = server.connect()
    connection.execute("create user 'poor'@'localhost' identified by 'x'")
    connection.close()
    monkeypatch.setenv("HARNESS_DSN", f"mysql://poor:x@/?socket={server._server.socket}")
    engine = lab.engine(server.name, options={"dsn": "env"})
    with pytest.raises(RunFailed, match="Access denied") as caught:
        engine.prepare(KEY)
    assert "GRANT ALL" in caught.value.hint


def test_a_failure_in_one_query_stream_ends_what_the_others_run_on_the_users_server(
    external: Any, server: Any
) -> None:
    streams = [[Statement(1, {}, "select no_such", 1)], [Statement(2, {}, "select sleep(3600)", 2)]]
    failures: list[BaseException] = []

    def run() -> None:
        try:
            with SilentProgress().task("streams", 2) as task:
                _Streams(external, external, None, task).run(streams, None, [])
        except RunFailed as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "it waits for the other stream's statement"
    assert "no_such" in str(failures[0])
    # The server reports the end before it clears its list.
    assert eventually(lambda: not _sleeping(server))


def _sleeping(server: Any) -> Any:
    connection = server.connect()
    asked = "select info from information_schema.processlist where info = 'select sleep(3600)'"
    try:
        return connection.execute(asked).rows
    finally:
        connection.close()


def test_its_files_and_places_are_not_ours(external: Any, lab: Any, tmp_path: Path) -> None:
    for verb in (
        lambda: external.initialise(lab.places()),
        lambda: external.snapshot(tmp_path),
        lambda: external.restore(tmp_path, lab.places()),
    ):
        with pytest.raises(UsageError):
            verb()
    assert external.files() == [] and external.processes() == []


@pytest.mark.parametrize("name", FLAVOURS)
@pytest.mark.parametrize(
    ("dsn", "told"),
    [
        ("mysql://me:secret@db/x", "password"),
        ("mysql://db/x", "mysql:// or mariadb://"),
        ("postgresql://me@db/x", "mysql:// or mariadb://"),
        ("mysql://me@db:port/x", "not a URL"),
        ("mysql://me@/x", "a host or a socket"),
        ("mysql://me@db/x?socket=/run/s", "a host or a socket"),
        ("mysql://me@db/x?ssl_ca=/ca.pem", "did you mean 'ssl-ca'"),
        ("env", "HARNESS_DSN is not set"),
        ("mysql://me@127.0.0.1:1/x", "Can't connect"),
    ],
)
def test_a_dsn_that_cannot_be_is_refused(
    name: str, dsn: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HARNESS_DSN", raising=False)
    with pytest.raises(UsageError, match=told) as caught:
        registry.engine(name).available({"dsn": dsn}, paths.engines_prefix())
    error = caught.value
    assert "secret" not in f"{error.problem} {error.context} {error.hint}"
