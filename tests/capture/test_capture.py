"""Logs of servers become replay files.

``recordings`` has logs of PostgreSQL 15.18, MariaDB 10.11.19 and MySQL 9.7.4 (log_slow_extra=1)
as tests/lab.py starts them, of a few statements by psycopg or PyMySQL and of pgbench; lines of the
server's own processes and paths are left out. All other logs here are written by hand.
"""

import gzip
import shutil
from pathlib import Path

import pytest

from harness.capture.capture import capture_log
from harness.capture.classes import class_name, class_text
from harness.capture.replay_file import Event, decode_event
from harness.errors import UsageError

RECORDINGS = Path(__file__).with_name("recordings")


def csv_line(second: float, session: str, message: str, **fields: str) -> str:
    """A line of csvlog, of PostgreSQL 13 or later."""
    columns = {
        "time": f"2026-01-01 10:00:{second:06.3f} UTC", "user": "app", "db": "shop", "pid": "1",
        "host": "[local]", "session": session, "line": "1", "ps": "", "start":
        "2026-01-01 09:00:00 UTC", "vxid": "3/1", "txid": "0", "severity": "LOG", "code": "00000",
        "message": message, "detail": "", "hint": "", "iq": "", "ip": "", "context": "",
        "query": "", "qp": "", "location": "", "app": "", "backend": "client backend",
    }  # fmt: skip
    quoted = ('"{}"'.format(text.replace('"', '""')) for text in {**columns, **fields}.values())
    time, *rest = quoted
    return ",".join([time.strip('"'), *rest]) + "\n"


def captured(tmp_path: Path, text: str, engine: str = "postgres", **more):
    (tmp_path / "log").write_text(text)
    return capture_log(tmp_path / "made", [tmp_path / "log"], engine, **more)


def events_of(path: Path) -> list[Event]:
    return [decode_event(line) for line in path.read_bytes().splitlines()[1:]]


def left_out(header) -> dict[str, int]:
    return {lost.reason.partition(":")[0]: lost.count for lost in header.left_out}


@pytest.mark.parametrize("name", ["postgres-15.csv", "postgres-15.json"])
def test_statements_of_postgres_with_their_parameters(tmp_path, name) -> None:
    made = capture_log(tmp_path, [RECORDINGS / name], "postgres")
    assert (made.header.database, made.header.sessions, made.header.statements) == (
        "harness", 4, 42,
    )  # fmt: skip
    assert made.path.stat().st_mode & 0o777 == 0o600
    events = events_of(made.path)
    assert ["3", "o'x\ny"] in [event.values for event in events]
    assert {event.error for event in events} == {"", "22012", "23505"}
    failed = next(event for event in events if event.error == "23505")
    assert failed.values == ["1"], "of its bind step"
    assert [event.at_us for event in events] == sorted(event.at_us for event in events)
    assert {event.session for event in events if event.last} == {0, 1, 2, 3}
    by_name = {of.name: of.count for of in made.header.classes}
    assert by_name["update-t"] == 6 and by_name["commit"] == 8
    assert not any("o'x" in of.text for of in made.header.classes)
    assert left_out(made.header) == {
        "statements of other databases": 2,
        "failed statements whose parameters are not in the log": 1,
        "LISTEN": 1,
    }


@pytest.mark.parametrize(
    ("name", "engine", "errors_known", "spread"),
    [
        ("mariadb-10.11-slow.log", "mariadb", False, True),
        ("mariadb-10.11-general.log", "mariadb", False, True),
        ("mysql-9.7-slow.log", "mysql", True, False),
        ("mysql-9.7-general.log", "mysql", False, False),
    ],
)
def test_statements_of_mysql(tmp_path, name, engine, errors_known, spread) -> None:
    header = capture_log(tmp_path, [RECORDINGS / name], engine, "harness").header
    assert (header.errors_known, header.spread) == (errors_known, spread)
    texts = {of.text for of in header.classes}
    assert {"begin", "update t set b=? where a=?", "insert into t values (?,?), …"} <= texts
    events = events_of(tmp_path / "replay.jsonl")
    assert any(event.sql and "two\nlines; # x" in event.sql for event in events)
    if errors_known:
        assert "1062" in {event.error for event in events}


def test_a_transaction_that_began_before_the_record_is_left_out(tmp_path) -> None:
    text = "".join(
        [
            csv_line(1, "a", "duration: 1.000 ms  statement: update t set a = 1", vxid="3/1"),
            csv_line(2, "a", "duration: 1.000 ms  statement: commit", vxid="3/0"),
            csv_line(3, "a", "duration: 1.000 ms  statement: select 1", vxid="3/2"),
            csv_line(4, "b", "duration: 1.000 ms  statement: select 2", vxid="4/1"),
            csv_line(5, "b", "duration: 1.000 ms  statement: select 3", vxid="4/2"),
        ]
    )
    made = captured(tmp_path, text)
    assert [event.sql for event in events_of(made.path)] == ["select 1", "select 2", "select 3"]
    assert list(left_out(made.header).values()) == [2]


def test_text_and_duration_on_lines_of_their_own(tmp_path) -> None:
    text = csv_line(1, "a", "statement: select 1") + csv_line(1.5, "a", "duration: 500.0 ms")
    (event,) = events_of(captured(tmp_path, text).path)
    assert (event.at_us, event.took_us) == (0, 500_000)


def test_lines_that_are_cut_off_are_counted(tmp_path) -> None:
    whole = csv_line(1, "a", "duration: 1.000 ms  statement: select 'a\nb'")
    cut = csv_line(2, "a", "duration: 1.000 ms  statement: select 'two'")[:-30] + "\n"
    text = whole + cut + csv_line(3, "a", "duration: 1.000 ms  statement: select 'c'") + whole[:80]
    made = captured(tmp_path, text)
    assert made.header.statements == 2
    (lost,) = made.header.left_out
    assert (lost.count, lost.first) == (2, "log:3")


def test_rotated_and_compressed_files_are_read_by_their_times(tmp_path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for name, second in (("a.csv", 20), ("b.csv.gz", 10)):
        line = csv_line(second, "s", f"duration: 1.000 ms  statement: select {second}").encode()
        (folder / name).write_bytes(gzip.compress(line) if name.endswith("gz") else line)
    made = capture_log(tmp_path / "made", [folder], "postgres")
    assert [event.sql for event in events_of(made.path)] == ["select 10", "select 20"]


def test_a_folder_of_logs_is_read_once(tmp_path) -> None:
    for name in ("postgres-15.csv", "postgres-15.json"):
        shutil.copy(RECORDINGS / name, tmp_path)
    (tmp_path / "server.log").write_text("ending log output to stderr\n")
    header = capture_log(tmp_path / "made", [tmp_path], "postgres").header
    assert header.statements == 42
    assert left_out(header).items() >= {
        ("files of another kind", 1), ("files that repeat the csvlog", 1),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("copy t from stdin", "COPY and LOAD DATA"),
        ("set role other", "changes of the role"),
        ("alter system set work_mem = '1GB'", "administration of the server"),
        ("create database other", "databases and files of the server"),
        ("grant all on t to app", "owners and rights"),
    ],
)
def test_statements_that_are_not_for_a_replay(tmp_path, sql, what) -> None:
    text = csv_line(1, "a", f"duration: 1.000 ms  statement: {sql}")
    text += csv_line(2, "a", "duration: 1.000 ms  statement: select 1")
    made = captured(tmp_path, text)
    assert made.header.statements == 1 and left_out(made.header) == {what: 1}


def test_background_sessions_and_replication_are_left_out(tmp_path) -> None:
    message = "duration: 1.000 ms  statement: select 1"
    text = csv_line(1, "a", message) + csv_line(2, "b", message, backend="walsender")
    text += csv_line(3, "c", message, backend="autovacuum worker")
    text += csv_line(4, "d", message, app="harness-capture")
    made = captured(tmp_path, text)
    assert made.header.statements == 1
    assert left_out(made.header) == {"replication": 1, "statements of a capture itself": 1}


def test_sqls_prepare_from_before_the_record_is_in_detail(tmp_path) -> None:
    text = csv_line(
        1, "a", "duration: 1.000 ms  statement: execute q(1)",
        detail="prepare: prepare q as select $1::int",
    )  # fmt: skip
    sent = [event.sql for event in events_of(captured(tmp_path, text + text).path)]
    assert sent == [None, "execute q(1)", "execute q(1)"]  # None: as its class


def test_values_that_may_be_cut_off_are_named(tmp_path) -> None:
    message = "duration: 1.000 ms  execute <unnamed>: select $1"
    made = captured(tmp_path, csv_line(1, "a", message, detail="Parameters: $1 = 'long...'"))
    assert events_of(made.path)[0].values == ["long..."]
    assert [lost.count for lost in made.header.left_out] == [1]


def test_a_log_of_several_databases_needs_a_choice(tmp_path) -> None:
    message = "duration: 1.000 ms  statement: select 1"
    text = csv_line(1, "a", message) + csv_line(2, "b", message, db="other")
    with pytest.raises(UsageError, match="several databases"):
        captured(tmp_path, text)
    made = captured(tmp_path, text, database="other")
    assert made.header.statements == 1


def test_a_log_that_changes_its_time_zone_is_refused(tmp_path) -> None:
    message = "duration: 1.000 ms  statement: select 1"
    text = csv_line(1, "a", message) + csv_line(2, "a", message).replace("UTC,", "CET,", 1)
    with pytest.raises(UsageError, match="UTC to CET"):
        captured(tmp_path, text)


@pytest.mark.parametrize("text", ["", "hello\n", "nothing here\n" * 3])
def test_a_file_that_is_no_log_is_refused(tmp_path, text) -> None:
    with pytest.raises(UsageError):
        captured(tmp_path, text)


@pytest.mark.parametrize(
    ("dialect", "sql", "text"),
    [
        ("postgres", "select 1 where a=-1 and b = 'it''s'", "select ? where a=? and b = ?"),
        ("postgres", "select $1, $$x$$ -- c\nfrom t1;", "select $1, ? from t1"),
        ("postgres", "select E'a\\'b', \"Name 1\" /* 2 */ from t", 'select ?, "Name 1" from t'),
        ("postgres", "select 'never closed", "select ?"),
        ("mysql", "select \"a\\\"b\", `c 1`, 0xff from t # d", "select ?, `c 1`, ? from t"),
        ("mysql", "insert into t values (1,'a'),(2,'b')", "insert into t values (?,?), …"),
        ("mysql", "select a from t where a in (1, 2,3)", "select a from t where a IN (…)"),
    ],
)  # fmt: skip
def test_literals_are_not_part_of_a_class(dialect, sql, text) -> None:
    assert class_text(sql, dialect) == text


def test_names_of_classes_are_unique() -> None:
    taken: set[str] = set()
    names = [class_name(text, taken) for text in ("select 1", "update only a.b set", "SELECT ?")]
    assert names == ["select", "update-a.b", "select-2"]
