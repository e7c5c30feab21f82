"""Recorded loads on real servers. The records and logs are made here."""

from contextlib import closing

import pytest
from lab import open_lab

from harness import hdr
from harness.capture.capture import capture_log
from harness.capture.replay_file import FORMAT, Dialect, Event, Header, StatementClass, encode
from harness.capture.server import capture_server
from harness.errors import RunFailed, UsageError
from harness.progress import SilentProgress
from harness.store.result import Check
from harness.workload import Clients, Session
from harness.workloads.sql.params import SqlParams
from harness.workloads.sql.replay import ReplayDriver, measure

#: The engines, with the dialects of their records.
DIALECTS: dict[str, Dialect] = {"postgres": "postgres", "mariadb": "mysql"}


@pytest.fixture(scope="module", params=list(DIALECTS))
def engine(request):
    with open_lab() as lab:
        engine = lab.started(request.param)
        yield engine
        engine.kill()


@pytest.fixture
def table(engine):
    with closing(engine.connect()) as connection:
        connection.execute("DROP TABLE IF EXISTS t")
        connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1), (2), (3)")
    return engine


@pytest.fixture
def recorded(tmp_path, engine):
    """``recorded((session, ms, sql), …, **params)``: parameters of a run of that record."""

    def make(*statements, values=None, error="", **params):
        texts = list(dict.fromkeys(sql for _, _, sql in statements))
        classes = tuple(StatementClass(f"c{n}", text, 1, 1) for n, text in enumerate(texts))
        header = Header(
            FORMAT, DIALECTS[engine.name], "by hand", "d", "2026-01-01", 1000,
            1, 1, len(statements), 1, classes,
        )  # fmt: skip
        lines = [encode(header)]
        last = {session: number for number, (session, _, _) in enumerate(statements)}
        for number, (session, ms, sql) in enumerate(statements):
            event = Event(
                session, ms * 1000, texts.index(sql), 100, error, None, "", values,
                last[session] == number,
            )  # fmt: skip
            lines.append(encode(event))
        (tmp_path / "tables.sql").write_text("create table t (a int);")
        (tmp_path / "replay.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        return SqlParams.from_mapping({"folder": str(tmp_path), "replay": True, **params})

    return make


def replayed(params, engine, clients, checks=()):
    ReplayDriver(params).check(engine, {})
    session = Session(engine, SilentProgress(), client_starter=clients)
    return measure(params, session, lambda: checks)


def sleep(engine, seconds):
    return f"select {'pg_sleep' if engine.name == 'postgres' else 'sleep'}({seconds})"


def test_a_transaction_is_replayed_and_its_rows_stay(table, clients, recorded) -> None:
    params = recorded(
        (0, 0, "begin"), (0, 1, "insert into t values (4)"), (1, 2, "select a from t"),
        (0, 3, "commit"), (1, 40, "insert into t values (5)"),
    )  # fmt: skip
    outcome = replayed(params, table, clients, [Check("check.sql", "passed", "")])
    assert {check.status for check in outcome.checks} == {"passed"}
    with closing(table.connect()) as connection:
        assert [row[0] for row in connection.execute("SELECT a FROM t ORDER BY 1").rows] == [
            1, 2, 3, 4, 5,
        ]  # fmt: skip
    (times,) = [m for m in outcome.metrics if m.name == "statement_duration_ns"]
    assert hdr.decode(times.hdr).total == 5
    assert "operations_per_second" not in {m.name for m in outcome.metrics}


def test_a_wait_for_the_previous_answer_is_lag_and_part_of_the_latency(
    engine, clients, recorded
) -> None:
    params = recorded((0, 0, sleep(engine, 0.4)), (0, 10, "select 1"))
    outcome = replayed(params, engine, clients)
    by_label = {
        (m.name, *m.labels.values()): hdr.decode(m.hdr).max for m in outcome.metrics if m.hdr
    }
    assert by_label["replay_lag_ns", "c1"] >= 380e6
    assert by_label["operation_duration_ns", "c1"] >= by_label["replay_lag_ns", "c1"]
    assert "replay-late" in {warning.code for warning in outcome.uncontrolled}


def test_errors_are_counted_by_class_and_compared_with_the_record(table, clients, recorded) -> None:
    params = recorded((0, 0, "insert into t values (1)"), (0, 1, "select 1"))
    outcome = replayed(params, table, clients)
    failed = {m.labels["operation"]: m.value for m in outcome.metrics
              if m.name == "operation_failed_count"}  # fmt: skip
    assert failed == {"c0": 1, "c1": 0}
    assert outcome.checks[0].status == "failed"
    codes = {"23505", "1062"}
    assert {*outcome.artifacts["statement-classes"]["c0"]["errors"]} & codes
    again = recorded((0, 0, "insert into t values (1)"), (0, 1, "select 1"), error="23505")
    assert replayed(again, table, clients).checks[0].status == "passed"


def test_as_fast_as_possible_a_session_begins_after_those_that_had_ended(
    table, clients, recorded
) -> None:
    statements = [(0, 0, sleep(table, 0.3)), (0, 1, "insert into t values (4)")]
    statements += [(1, 5000, "insert into t select 10 from t where a = 4 limit 1")]
    statements += [(1, 60000, "select 1")]
    outcome = replayed(recorded(*statements, as_fast_as_possible=True), table, clients)
    with closing(table.connect()) as connection:
        assert connection.execute("SELECT count(*) FROM t").rows[0][0] == 5
    assert "operations_per_second" in {m.name for m in outcome.metrics}


def test_a_large_result_and_a_long_statement_are_received(table, clients, recorded) -> None:
    many = " union all ".join(["select a from t"] * 2000)
    params = recorded((0, 0, many), (0, 1, f"select '{'x' * 300_000}'"), (0, 2, "select 1"))
    outcome = replayed(params, table, clients)
    assert outcome.checks[0].status == "passed"


def test_a_server_that_ends_fails_statements_not_the_client(engine, clients, recorded) -> None:
    ends = "select pg_terminate_backend(pg_backend_pid())"
    if engine.name != "postgres":
        ends = "kill connection_id()"  # the client's own connection
    outcome = replayed(recorded((0, 0, ends), (0, 5, "select 1"), (1, 5, "select 2")),
                       engine, clients)  # fmt: skip
    counts = {m.labels["operation"]: m.value for m in outcome.metrics
              if m.name == "operation_count"}  # fmt: skip
    assert counts["c1"] == counts["c2"] == 1


def test_without_a_statement_that_ends_well_a_replay_fails(engine, clients, recorded) -> None:
    with pytest.raises(RunFailed):
        replayed(recorded((0, 0, "select nothing from nowhere")), engine, clients)


def test_the_servers_log_is_replayed(tmp_path) -> None:
    """What PostgreSQL logs of prepared statements has the same mix when it is replayed."""
    with open_lab() as lab:
        engine = lab.started("postgres")
        with closing(engine.connect()) as connection:
            connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
            for setting in (
                "logging_collector = on", "log_destination = csvlog",
                "log_min_duration_statement = 0", "log_directory = log",
            ):  # fmt: skip
                connection.execute(f"ALTER SYSTEM SET {setting}")
        engine.stop()
        engine.start()
        with closing(engine.connect()) as connection:
            for number in range(50):
                with connection.raw.transaction():
                    connection.raw.execute(
                        "INSERT INTO t VALUES (%s, %s)", (number, "it's"), prepare=number % 2 == 0
                    )
        logs = next(iter(engine.files())) / "log"
        engine.stop()  # all lines are written
        copies = tmp_path / "logs"
        copies.mkdir()
        for path in logs.glob("*.csv"):
            (copies / path.name).write_bytes(path.read_bytes())
        folder = tmp_path / "folder"
        header = capture_log(folder, [copies], "postgres", "harness").header
        assert {of.name: of.count for of in header.classes} == {
            "insert-t": 50, "begin": 50, "commit": 50,
        }  # fmt: skip
        (folder / "tables.sql").write_text("create table t (a int primary key, b text);")
        again = lab.started("postgres")
        with closing(again.connect()) as connection:
            connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
        clients = Clients(lab.supervisor, lab.credentials, lab.directory("c"))
        params = SqlParams.from_mapping({"folder": str(folder), "replay": True, "speed": 5})
        outcome = replayed(params, again, clients)
        assert outcome.checks[0].status == "passed", outcome.checks[0].detail
        with closing(again.connect()) as connection:
            rows = connection.execute("SELECT count(*), min(b) FROM t").rows
        again.kill()
        assert rows == [(50, "it's")]


def test_a_running_server_is_dumped_without_its_password_in_an_argument(
    tmp_path, monkeypatch
) -> None:
    with open_lab() as lab:
        engine = lab.started("postgres", {"shared_preload_libraries": "pg_stat_statements"})
        with closing(engine.connect()) as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
            connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
            connection.execute("INSERT INTO t VALUES (4711)")
        address = engine.native_connection()
        given = {name: address[name] for name in ("host", "port", "user", "password")}
        dsn = " ".join(f"{name}={value}" for name, value in given.items())
        with pytest.raises(UsageError, match="password"):
            capture_server(tmp_path / "made", "postgres", f"{dsn} dbname=harness")
        monkeypatch.setenv("HARNESS_DSN", f"{dsn} dbname=harness")
        files = capture_server(tmp_path / "made", "postgres", "env").files
        tables, rows, weights = (path.read_text() for path in files)
        engine.kill()
    assert "CREATE TABLE public.t" in tables and "4711" not in tables
    assert "4711" in rows and files[1].stat().st_mode & 0o777 == 0o600
    assert "INSERT INTO t VALUES ($1)" in weights and "4711" not in weights
    assert "pg_stat_statements" not in weights.replace("CREATE EXTENSION pg_stat_statements", "")
    assert address["password"] not in tables + rows + weights
    with pytest.raises(UsageError, match="it exists"):
        capture_server(tmp_path / "made", "postgres", "env")
