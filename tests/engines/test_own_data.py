"""A user's folder is loaded: the same rows from CSV, Parquet and dumps, keys verified."""

import gzip
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from harness.errors import RunFailed, UsageError
from harness.progress import SilentProgress
from harness.store.spec import Json
from harness.workload import Session
from harness.workloads.sql import data
from harness.workloads.sql.answers import answer_text, compare_rows, plain_value, read_answer
from harness.workloads.sql.folder import read_folder
from harness.workloads.sql.ordering import Ordering
from harness.workloads.sql.params import SqlParams
from harness.workloads.sql.workload import WORKLOAD

DUMPS = Path(__file__).parent / "recordings" / "dumps"
TABLES = """
create table "Thing" (id integer primary key, name varchar(20), price decimal(8, 2), made date);
create table part (thing integer, name varchar(20), foreign key (thing) references "Thing" (id));
create index part_of on part (thing);
"""
THINGS = [
    (1, 'a, "b"', Decimal("1.50"), date(2025, 1, 2)),
    (2, "", None, None),
    (3, None, Decimal("-7.00"), date(2025, 1, 3)),
]


#: Engines whose starts take the most processor time: each is started once, and has the tables of
#: all tests, no two of which have the same name.
SHARED = ("spark", "mysql")


@pytest.fixture(scope="module")
def shared(module_lab, request):
    """Start an engine, or return the one that was started before."""

    @cache
    def start(name: str) -> Any:
        return request.getfixturevalue(name) if name == "spark" else module_lab.started(name)

    return start


@pytest.fixture
def started(lab, shared):
    """Start an engine for a block, or lend it a shared one."""

    @contextmanager
    def start(name: str) -> Iterator[Any]:
        if name in SHARED:
            yield shared(name)
            return
        engine = lab.started(name)
        try:
            yield engine
        finally:
            engine.kill()

    return start


@pytest.fixture
def loaded(lab, started):
    """Connect to an engine that has loaded a folder."""

    @contextmanager
    def load(name: str, folder: Path) -> Iterator[Any]:
        with started(name) as engine:
            read = read_folder(folder)
            source = lab.root / f"source-{lab.made}"
            source.mkdir(mode=0o755)
            data.check_loadable(read, engine)
            data.generate(folder, read.data_digest, engine, source, SilentProgress())
            data.load(source, engine, SilentProgress())
            with closing(engine.connect()) as connection:
                yield connection

    return load


@pytest.fixture
def things(tmp_path):
    (tmp_path / "load").mkdir()
    (tmp_path / "tables.sql").write_text(TABLES)
    (tmp_path / "load/thing.1.csv").write_bytes(
        b'made,ID,name,price\r\n2025-01-02,1,"a, ""b""",1.50\r\n,2,"",\r\n'
    )
    (tmp_path / "load/thing.2.csv").write_text("id,name,price,made\n3,,-7,2025-01-03\n")
    rows = "from (values (1, 'x'), (3, NULL)) as part (thing, name)"
    duckdb.execute(f"copy ({rows}) to '{tmp_path / 'load/part.parquet'}' (format parquet)")
    return tmp_path


@pytest.mark.parametrize("name", ["duckdb", "postgres", "mariadb"])
def test_rows_are_those_of_the_files(loaded, things, name):
    quote = '"' if name in ("duckdb", "postgres") else "`"
    tables = TABLES.replace('"', quote)
    (things / "tables.sql").write_text(tables)
    with loaded(name, things) as connection:
        rows = connection.execute(f"select * from {quote}Thing{quote} order by id").rows
        assert rows == THINGS
        parts = connection.execute("select thing, name from part order by thing").rows
        assert parts == [(1, "x"), (3, None)]
        with pytest.raises(RunFailed):  # keys and foreign keys hold from now on
            connection.execute("insert into part values (4, 'none')")


def test_spark_answers_a_query_of_the_folder(loaded, shared, tmp_path):
    """The other engines do in whole runs (cli/test_own_queries.py); Spark's are slow."""
    files = {
        "tables.sql": "create table asked (a integer primary key, b varchar(9));",
        "load/asked.csv": "a,b\n1,x\n2,y\n3,y\n",
        "queries/each.sql": "select b, count(*) as n from asked group by b order by b",
        "answers/each.csv": "b,n\nx,1\ny,2\n",
        "check.sql": "select a from asked where a < 1;",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    given: dict[str, Json] = {"folder": str(tmp_path), "cache": "warm", "plans": False}
    with loaded("spark", tmp_path):
        session = Session(shared("spark"), SilentProgress())
        outcome = WORKLOAD.measure(SqlParams.from_mapping(given), session)
    checks = [(check.name, check.status) for check in outcome.checks]
    assert checks == [("answer", "passed"), ("check.sql", "passed")]


@pytest.mark.parametrize("name", ["postgres", "mysql", "mariadb"])
def test_a_dump_is_loaded_as_it_is(loaded, tmp_path, name):
    (tmp_path / "load").mkdir()
    (tmp_path / "tables.sql").write_text((DUMPS / f"{name}-tables.sql").read_text())
    (tmp_path / "load/all.sql").write_text((DUMPS / f"{name}-rows.sql").read_text())
    with loaded(name, tmp_path) as connection:
        (last,) = connection.execute("select * from customer where id = 201").rows
        assert last == (201, "x", None)
        assert len(connection.execute("select * from customer").rows) == 4
        assert len(connection.execute("select * from orders").rows) == 3
        texts = connection.execute("select a from extra where a is not null").rows
        assert texts == [("it's\n\\tab\t;",)]


@pytest.mark.parametrize("name", ["duckdb", "postgres"])
def test_a_foreign_key_that_the_rows_break_is_an_error(loaded, things, name):
    (things / "load/part.parquet").unlink()
    (things / "load/part.csv").write_text("thing,name\n99,x\n")
    with pytest.raises(RunFailed), loaded(name, things):
        pass


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("part.csv", "thing,name\n1\n", "part.csv"),
        ("part.csv", "thing,name\nmany,red\n", "many"),
    ],
)
def test_a_bad_file_is_named(loaded, things, name, text, words):
    (things / "load/part.parquet").unlink()
    (things / "load" / name).write_text(text)
    with pytest.raises(RunFailed) as caught, loaded("postgres", things):
        pass
    assert words in str(caught.value) + caught.value.hint


#: Rows of THINGS and what of a table has no values of its own in files.
FORMS = {
    "thing.tbl.1": (b'1|a, "b"|1.50|2025-01-02|\n', ""),
    "Thing.2.DAT": ("\ufeff2|\\\\|||\n".encode(), ""),
    "thing.3.tsv.gz": (gzip.compress(b"id\tname\tprice\ttwice\n3\t\t-7\t6\n"), ""),
    "thing.1.csv": (b"1,x,1.5,2025-01-02\n", "names no column"),
    "thing.3.csv": (b'id,name\n1,"a \\"b\\""\n', "Line: 2"),
    "thing.4.csv": (b"id,name\n1,a\n2,\\N\n", "line 3"),
    "thing.5.csv.gz": (gzip.compress(b"id\n1\n")[:-4], "end of file"),
    "thing.6.csv.zst": (b"id\n1\n", "unsupported format"),
    "thing.7.tbl": (b"1|a|1|2025-01-02|\n2|a||1|x|\n", "too many fields"),
    "thing.8.tbl": (b"1|a|1\n", "3 fields"),
    "thing.9.csv": ("id,name\n1,\u00e9\n".encode("latin1"), "UTF-8"),
}


@pytest.mark.parametrize("name", ["duckdb", "postgres", "mariadb"])
def test_files_are_taken_by_what_they_are(loaded, tmp_path, name):
    (tmp_path / "load").mkdir()
    stored = "" if name == "duckdb" else "stored"
    (tmp_path / "tables.sql").write_text(
        "create table thing (id integer, name varchar(20), price decimal(8, 2), made date, "
        f"twice integer generated always as (id * 2) {stored});"
    )
    for file, (content, error) in FORMS.items():
        if not error:
            (tmp_path / "load" / file).write_bytes(content)
    with loaded(name, tmp_path) as connection:
        rows = connection.execute("select * from thing order by id").rows
    assert [(*row[:2], row[4]) for row in rows] == [
        (1, 'a, "b"', 2), (2, "\\\\", 4), (3, None, 6)
    ]  # fmt: skip


@pytest.mark.parametrize("file", [file for file, (_, error) in FORMS.items() if error])
def test_a_file_that_is_no_table_of_rows_is_refused(lab, tmp_path, file):
    (tmp_path / "load").mkdir()
    (tmp_path / "tables.sql").write_text(
        "create table thing (id integer, name varchar(20), price decimal(8, 2), made date);"
    )
    content, words = FORMS[file]
    (tmp_path / "load" / file).write_bytes(content)
    (source := lab.root / f"source-{lab.made}").mkdir(mode=0o755)
    digest = read_folder(tmp_path).data_digest
    with pytest.raises(RunFailed) as caught:
        data.generate(tmp_path, digest, lab.engine("postgres"), source, SilentProgress())
    assert file in caught.value.problem and words in caught.value.context and caught.value.hint


def test_rows_of_a_partitioned_table_of_postgres(loaded, tmp_path):
    (tmp_path / "load").mkdir()
    (tmp_path / "tables.sql").write_text(
        "create table parted (a int, b text) partition by range (a);"
        "create table low partition of parted for values from (0) to (10);"
        "create table high (a int, b text);"
        "alter table parted attach partition high for values from (10) to (20);"
    )
    (tmp_path / "load/parted.csv").write_text("a,b\n1,x\n11,y\n")
    (tmp_path / "load/high.csv").write_text("a,b\n12,z\n")
    with loaded("postgres", tmp_path) as connection:
        assert connection.execute("select a from parted order by a").rows == [(1,), (11,), (12,)]


@pytest.mark.parametrize(
    ("name", "kind", "value", "expected"),
    [
        ("duckdb", "json", "[1, 2]", '[1,2]'),
        ("duckdb", "integer[]", "[1, 2]", "[1, 2]"),
        ("duckdb", "struct(a integer)", "{'a': 1}", "{'a': 1}"),
        ("duckdb", "hugeint", "5::hugeint", 5),
        ("duckdb", "hugeint", "99999999999999999999::hugeint", None),
        ("duckdb", "date", "20000", None),
        ("postgres", "date", "20000", None),
        ("postgres", "numeric", "99999999999999999999::hugeint", None),
        ("postgres", "numeric", "99999999999999999999::decimal(38, 0)", Decimal(10**20 - 1)),
        ("postgres", "bigint", "5::hugeint", 5),
        ("postgres", "jsonb", "[1, 2]", None),
        ("mariadb", "datetime", "timestamptz '2025-01-01 00:00+02'", datetime(2024, 12, 31, 22)),
    ],
)  # fmt: skip
def test_values_of_parquet_are_right_or_their_column_is_refused(
    loaded, tmp_path, name, kind, value, expected
):
    (tmp_path / "load").mkdir()
    (tmp_path / "tables.sql").write_text(f"create table t (v {kind});")
    duckdb.execute(f"copy (select {value} as v) to '{tmp_path / 'load/t.parquet'}'")
    if expected is None:
        with pytest.raises(RunFailed, match="column v"), loaded(name, tmp_path):
            pass
        return
    with loaded(name, tmp_path) as connection:
        assert connection.execute("select v from t").rows == [(expected,)]


def test_a_folder_that_changes_after_the_check_is_not_loaded(lab, things):
    engine, digest = lab.engine("duckdb"), read_folder(things).data_digest
    (things / "load/thing.2.csv").write_text("id,name,price,made\n4,,-7,2025-01-03\n")
    (lab.root / "changed").mkdir()
    with pytest.raises(RunFailed, match="changed"):
        data.generate(things, digest, engine, lab.root / "changed", SilentProgress())


def test_bytes_that_are_not_marked_as_text(loaded, tmp_path):
    (tmp_path / "load").mkdir()
    (tmp_path / "tables.sql").write_text("create table t (n varchar(20));")
    rows = "select encode('Привет') as n"
    duckdb.execute(f"copy ({rows}) to '{tmp_path / 'load/t.parquet'}' (format parquet)")
    with loaded("duckdb", tmp_path) as connection:
        assert connection.execute("select n from t").rows == [("Привет",)]
    with pytest.raises(RunFailed, match="column n"), loaded("postgres", tmp_path):
        pass


TRIGGERS = {
    "postgres": "create function f() returns int begin atomic select 1; select 2; end;\n"
    "create function g() returns trigger language plpgsql as $$ begin new.name := 'cut'; "
    "return new; end $$;\ncreate trigger cut before insert on part for each row "
    "execute function g();",
    "mysql": "create definer=`origin`@`%` trigger cut before insert on part for each row begin "
    "set new.name = 'cut'; if new.name = '' then set new.name = 'none'; end if; end;",
}


@pytest.mark.parametrize("name", TRIGGERS)
def test_a_script_with_its_database_rows_and_triggers(loaded, things, name):
    """Rows of child tables first, a comment and a body that create no table."""
    quote = '"' if name == "postgres" else "`"
    use = "\\c Shop;" if name == "postgres" else "use `Shop`;"
    things.joinpath("tables.sql").write_text(
        "\ufeff/* create table other (i int); */ drop database if exists Shop;\n"
        f"create database Shop;\n{use}\nbegin;\n"
        + TABLES.replace('"', quote)
        + f"insert into part values (1, 'first'); insert into {quote}Thing{quote} (id) values (9);"
        + TRIGGERS[name]
        + "commit;"
    )
    (things / "load/all.sql").write_text(f"{use}\ninsert into part values (2, 'dumped');")
    with loaded(name, things) as connection:
        rows = connection.execute("select name from part where name is not null order by 1").rows
        assert rows == [("dumped",), ("first",), ("x",)]
        count = connection.execute(f"select count(*) from {quote}Thing{quote}").rows
        assert count == [(4,)]
        connection.execute("insert into part values (1, 'x')")
        rows = connection.execute("select count(*) from part where name = 'cut'").rows
        assert rows == [(1,)]


@pytest.mark.parametrize("name", ["postgres", "mariadb"])
def test_dumps_without_rows_fail_the_load(loaded, tmp_path, name):
    (tmp_path / "load").mkdir()
    (tmp_path / "tables.sql").write_text("create table bare (a int);")
    (tmp_path / "load/t.sql").write_text("create table u (a int); insert into u values (1);")
    with pytest.raises(RunFailed), loaded(name, tmp_path):
        pass


# What a user writes never includes a file or renders a template ----------------------

INNODB = "create table t (a int, n text character set utf8mb4 comment {text})"
#: By engine: where a text of ``tables.sql`` ends up in the server, and how it is read from there.
COMMENTS = {
    "postgres": ("{t}; comment on table t is {text}", "select obj_description('t'::regclass)"),
    "duckdb": ("{t}; comment on table t is {text}", "select comment from duckdb_tables()"),
    "mysql": (INNODB, "show full columns from t"),
    "mariadb": (INNODB, "show full columns from t"),
    "spark": ("create table t (a int, n string comment {text})", "describe t"),
}


def trap(folder: Path) -> str:
    """Lines that the project's own files would have replaced, and a secret that only root reads."""
    secret = folder / "secret.sql"
    secret.write_text("select 'secret'")
    secret.chmod(0o600)
    return f"x\r\n\\ir {secret}\n\\ir /dev/zero\n\\! id\n{{{{ 7 * 7 }}}} {{% if %}}\n\u2028 -- x\n"


@pytest.mark.parametrize(
    ("name", "owner"), [*((name, "server's") for name in COMMENTS), ("duckdb", "nobody's")]
)
def test_texts_of_a_user_reach_the_server_as_they_are(lab, loaded, open_path, name, owner):
    text = trap(open_path)
    (folder := open_path / "mine").mkdir()
    definition, reading = COMMENTS[name]
    (folder / "tables.sql").write_bytes(
        definition.format(t="create table t (a int, n text)", text=f"'{text}'").encode()
    )
    (folder / "load").mkdir()
    dumps = lab.engine(name).loads_dumps
    if dumps:
        (folder / "load/t.sql").write_bytes(f"insert into t values (1, '{text}');".encode())
    uid = 65534 if owner == "nobody's" or lab.credentials is None else lab.credentials.uid
    for path in (folder, *folder.rglob("*")) if os.geteuid() == 0 else ():
        os.chown(path, uid, uid)
    received = text if name in ("postgres", "duckdb") else text.replace("\\", "")
    with loaded(name, folder) as connection:
        assert received in [value for row in connection.execute(reading).rows for value in row]
        assert connection.execute(f"select '{text}'").rows == [(received,)]
        if dumps:
            assert connection.execute("select * from t").rows == [(1, received)]


@pytest.mark.parametrize("name", ["postgres", "mariadb"])
def test_a_client_s_command_in_a_dump_is_refused_with_its_line(lab, open_path, name):
    trap(open_path)
    engine = lab.engine(name)
    (folder := open_path / "mine").mkdir()
    (folder / "load").mkdir()
    (folder / "tables.sql").write_text("create table t (a int);")
    for line in (
        f"\\ir {open_path}/secret.sql",
        "\\! id",
        "\\copy t from '/dev/zero'",
        "load data infile '/dev/zero' into table t;",
    ):
        (folder / "load/t.sql").write_text(f"insert into t values (1);\n{line}\n")
        with pytest.raises(UsageError) as refused:
            data.check_loadable(read_folder(folder), engine)
        assert refused.value.problem == f"{folder}/load/t.sql, line 2"


def test_source_data_are_not_for_other_users(lab, things):
    (source := lab.root / "private").mkdir(mode=0o755)
    engine, digest = lab.engine("postgres"), read_folder(things).data_digest
    data.generate(things, digest, engine, source, SilentProgress())
    assert [path.name for path in source.iterdir() if path.stat().st_mode & 0o007] == [
        "source.json"
    ]


# Answers ---------------------------------------------------------------------------

#: 200,000 rows of 100 bytes each, by engine.
MANY = {
    "postgres": "select i as n, repeat('x', 100) as t, null as u from generate_series(1, 200000) i",
    "duckdb": "select i as n, repeat('x', 100) as t, null as u from range(1, 200001) s(i)",
    "mariadb": "select seq as n, repeat('x', 100) as t, null as u from seq_1_to_200000",
    "mysql": "with recursive s(n) as (select 1 union all select n + 1 from s where n < 200000) "
    "select /*+ set_var(cte_max_recursion_depth = 200000) */ n, repeat('x', 100) as t, null as u "
    "from s",
    "spark": "select id as n, repeat('x', 100) as t, null as u from range(1, 200001)",
}


INNODB_KINDS = (
    "'007', '', null, 'NULL', true, 1.50, 1e300, cast('2024-01-01 01:02:03' as datetime), "
    "date '2024-02-29', cast('01:02' as time), x'dead', b'101', json_array(1, 2)"
)
#: Values of each kind that an engine returns, by engine.
KINDS = {
    "postgres": "'007'::text, '', null::text, 'a'::char(5), 'NULL', true, 1e50::numeric, "
    "'nan'::numeric, 'nan'::float8, '-infinity'::float8, 0.1::float4, timestamptz '2024-01-01 "
    "00:00+02', timestamp '2024-01-01 01:02:03.5', date '2024-02-29', time '01:02', interval '3 "
    "days', '\\xdead'::bytea, array[1, 2], '{\"a\": 1}'::jsonb, '10.0.0.1'::inet, 12.5::money",
    "duckdb": "'007', '', null, 'NULL', true, 1.50::decimal(9, 2), 'nan'::double, 1e300, "
    "170141183460469231731687303715884105727::hugeint, timestamp '2024-01-01 01:02:03.5', "
    "date '2024-02-29', time '01:02', interval 3 days, '\\xAB'::blob, [1, 2], {'a': 1}",
    "mariadb": INNODB_KINDS,
    "mysql": INNODB_KINDS,
    "spark": "'007', '', null, 'NULL', true, 1.50, double('nan'), 1e300d, float(0.1), timestamp "
    "'2024-01-01 01:02:03.5', timestamp_ntz '2024-01-01 01:02:03', date '2024-02-29', x'dead', "
    "array(1, 2), map('a', 1), named_struct('a', 1), interval 3 days",
}


def peak_bytes() -> int:
    """The most memory that this process has had since it was last asked."""
    status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    Path("/proc/self/clear_refs").write_text("5")
    return int(status["VmHWM"].split()[0]) << 10


@pytest.mark.parametrize("name", MANY)
def test_rows_beyond_those_kept_are_counted_and_dropped(started, name):
    with started(name) as engine, closing(engine.connect()) as connection:
        connection.execute("select 1", keep=5)
        peak_bytes()
        before = peak_bytes()
        many = connection.execute(f"{MANY[name]} order by 1", keep=5)
        assert peak_bytes() - before < 12 << 20
        again = connection.execute(f"{MANY[name]} order by 1 desc", keep=1500)
        other = connection.execute(MANY[name].replace("'x'", "'y'"), keep=5)
        few = connection.execute(f"{MANY[name]} limit 3", keep=5)
        whole = connection.execute(f"{MANY[name]} limit 3")
        kinds, later = (connection.execute(f"select {KINDS[name]}", keep=5) for _ in range(2))
    assert many.rows == [(number, "x" * 100, None) for number in range(1, 6)]
    assert (many.left_out, again.left_out, few.left_out) == (199_995, 198_500, 0)
    assert [row[0] for row in again.rows] == [*range(200_000, 198_500, -1)]
    assert many.columns == again.columns == ("n", "t", "u")
    assert many.checksum % 2**64 == again.checksum % 2**64 != other.checksum % 2**64
    assert sorted(few.rows) == sorted(whole.rows)
    text = answer_text(kinds.columns, [[*map(plain_value, row)] for row in kinds.rows])
    check = compare_rows(read_answer("a.csv", text), later.columns, later.rows, Ordering())
    assert check.status == "passed" and later.checksum == kinds.checksum, (text, check)


def test_checksums_compare_between_processes(lab):
    answers = []
    for _ in range(2):
        engine = lab.started("duckdb")
        with closing(engine.connect()) as connection:
            answers.append(
                connection.execute("select 'a', null, [1] union all select 'b', 2, []", keep=1)
            )
        engine.kill()
    assert answers[0].checksum == answers[1].checksum != 0


@pytest.mark.parametrize("name", ["duckdb", "postgres"])
def test_an_answer_notices_the_loss_of_half_a_percent(lab, name):
    """On the rows themselves it passes, whatever the engine does with sums."""
    queries = ("select sum(x) as s from t", "select count(*) from t", "select avg(x) from t",
               "select sum(d) as s from t", "select avg(d) as s from t order by 1")  # fmt: skip
    engine = lab.started(name)
    try:
        with closing(engine.connect()) as connection:
            series = "generate_series(1, 2000)" if name == "postgres" else "range(1, 2001)"
            connection.execute("create table t (k int, x double precision, d decimal(12, 4))")
            connection.execute(f"insert into t select i, i / 7.0, i / 3.0 from {series} s(i)")
            first = [connection.execute(query, keep=9) for query in queries]
            expected = [
                read_answer(
                    "a.csv", answer_text(r.columns, [list(map(plain_value, row)) for row in r.rows])
                )
                for r in first
            ]
            again = [connection.execute(query, keep=9) for query in queries]
            connection.execute("delete from t where k % 200 = 199")
            less = [connection.execute(query, keep=9) for query in queries]
    finally:
        engine.kill()

    def statuses(results: list[Any]) -> set[str]:
        return {
            compare_rows(rows, r.columns, r.rows, Ordering.of(query, backslash=False)).status
            for rows, r, query in zip(expected, results, queries, strict=True)
        }

    assert statuses(again) == {"passed"} and statuses(less) == {"failed"}
