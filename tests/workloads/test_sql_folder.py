"""Content of a user's folder, the error for each mistake, and the rows that agree."""

import json
import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from repeatable import repeatable

from harness.engine import Engine, EngineKind, EngineVersion
from harness.errors import UsageError
from harness.sql_values import decode, encode
from harness.workloads.sql.answers import answer_text, compare_rows, read_answer
from harness.workloads.sql.example import write_example
from harness.workloads.sql.folder import read_folder
from harness.workloads.sql.ordering import Ordering
from harness.workloads.sql.params import SqlParams
from harness.workloads.sql.schema import read_schema, stages
from harness.workloads.sql.workload import WORKLOAD


@pytest.fixture
def shop(tmp_path):
    """The example of `harness workload init`."""
    folder = tmp_path / "shop"
    write_example(folder)
    return folder


class Toy(Engine):
    """An engine that loads CSV, and no dumps."""

    name = "toy"
    kind: EngineKind = "managed"
    load_format = "csv"

    def version(self) -> EngineVersion:
        return EngineVersion("toy", "1", "1", "toy")


def check(folder: Path, **params) -> None:
    given = SqlParams.from_mapping({"folder": str(folder), **params})
    WORKLOAD.check_engine(given, "native", Toy(), {})


def test_tables_files_and_queries_are_found(shop):
    (shop / "load" / "Purchase.1.csv").write_text("id\n1\n")
    folder = read_folder(shop)
    schema = read_schema(folder, Toy())
    assert tuple(schema.tables) == ("customer", "product", "purchase")
    assert {(file.name, table) for table, files in schema.files.items() for file in files} == {
        ("Purchase.1.csv", "purchase"),
        *((f"{table}.csv", table) for table in schema.tables),
    }
    assert len(folder.queries) == len(folder.answers) == 5
    check(shop)


MISTAKES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no-tables": (lambda shop: (shop / "tables.sql").unlink(), "it has no tables.sql"),
    "empty-tables": (lambda shop: (shop / "tables.sql").write_text("-- none"), "creates a table"),
    "no-such-table": (lambda shop: (shop / "load/custommer.csv").write_text("id\n"), "'customer'"),
    "no-rows": (lambda shop: without(shop, "load"), "no INSERT"),
    "search-path": (lambda shop: add(shop, "tables.sql", "set search_path = a;"), "line 29"),
    "file": (lambda shop: add(shop, "tables.sql", "copy product from '/tmp/a';"), "line 29"),
    "utf-16": (lambda shop: (shop / "check.sql").write_text("select 1", "utf-16"), "not UTF-8"),
    "csv-utf-16": (lambda shop: (shop / "load/product.1.csv").write_text("id", "utf-16"), "UTF-8"),
    "archive": (lambda shop: (shop / "load/a.dump").write_bytes(b"PGDMP\1\xe0"), "archive"),
    "tables": (lambda shop: (shop / "tables.sql").write_bytes(b"PGDMP\1\xe0"), "archive"),
    "extension": (lambda shop: (shop / "load/customer.xls").write_text("id\n"), "extension"),
    "dump-gz": (lambda shop: (shop / "load/all.sql.gz").write_text(""), "compressed"),
    "dump": (lambda shop: (shop / "load/all.sql").write_text("select 1;"), "loads no dumps"),
    "link": (lambda shop: (shop / "load/product.1.csv").symlink_to("/etc/shadow"), "symbolic link"),
    "pipe": (lambda shop: os.mkfifo(shop / "load/product.1.csv"), "product.1.csv"),
    "two-statements": (lambda shop: query(shop, "select 1; select 2"), "2 statements"),
    "no-statement": (lambda shop: query(shop, "-- later"), "no statement"),
    "insert": (lambda shop: query(shop, "insert into product values (1)"), "only reads"),
    "cte": (lambda shop: query(shop, "with d as (delete from product) table d"), "delete from"),
    "into": (lambda shop: query(shop, "select * into copied from product"), "into"),
    "locks": (lambda shop: query(shop, "select id from product for update"), "for update"),
    "no-queries": (lambda shop: without(shop, "answers", "queries"), "has no files"),
    "answer": (lambda shop: (shop / "answers/top.csv").write_text("a\n"), "no query top"),
    "fields": (lambda shop: (shop / "answers/never_bought.csv").write_text("a,b\n1\n"), "1 fields"),
    "rows": (lambda shop: add(shop, "tables.sql", "copy product from stdin;\n1\n"), "rows follow"),
    "copy": (lambda shop: add(shop, "tables.sql", "\\copy a from 'b'"), "tables.sql, line 29"),
    "shell": (lambda shop: add(shop, "check.sql", "\\! id"), "check.sql, line 9"),
    "include": (lambda shop: query(shop, "-- \n\\ir /etc/shadow\nselect 1"), "mine.sql, line 2"),
    "check": (lambda shop: (shop / "check.sql").write_text("drop table product"), "only reads"),
}  # fmt: skip


def without(shop: Path, *folders: str) -> None:
    for folder in folders:
        (shop / folder).rename(shop / f"{folder}.old")


def add(shop: Path, name: str, text: str) -> None:
    with (shop / name).open("a") as stream:
        stream.write(f"\n{text}")


def query(shop: Path, text: str) -> None:
    (shop / "queries" / "mine.sql").write_text(text)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_an_error_before_the_run(shop, mistake):
    make, words = MISTAKES[mistake]
    make(shop)
    with pytest.raises(UsageError) as caught:
        check(shop)
    assert words in str(caught.value)


def test_a_single_file_of_several_queries(shop):
    for path in (*(shop / "queries").iterdir(), *(shop / "answers").iterdir()):
        path.unlink()
    (shop / "queries/all.sql").write_text("select 1; select ';' -- two\n;\nselect 3")
    (shop / "answers/q2.csv").write_text("a\n;\n")
    check(shop, queries="q3,q1")
    (shop / "answers/q4.csv").write_text("a\n1\n")
    with pytest.raises(UsageError):
        check(shop)


def test_data_are_loaded_again_only_where_they_changed(shop):
    def content() -> list[str]:
        return SqlParams.from_mapping({"folder": str(shop)}).content.split("-")

    data, others = content()
    query(shop, "select 1")
    assert content() == [data, content()[1]] and content()[1] != others
    with (shop / "load" / "customer.csv").open("a") as stream:
        stream.write("501,New,Cork,2025-01-01\n")
    assert content()[0] != data


def test_a_stored_run_s_folder_is_not_read(shop):
    stored = SqlParams.from_mapping({"folder": str(shop)}).to_json()
    shop.rename(shop.with_name("elsewhere"))
    assert SqlParams.from_mapping(stored).to_json() == stored


def test_keys_and_indexes_come_after_the_rows():
    text = """
        SET check_function_bodies = false;
        CREATE TABLE public.a (i int);
        ALTER TABLE public.a OWNER TO shop;
        ALTER TABLE ONLY public.a ADD CONSTRAINT a_pkey PRIMARY KEY (i);
        CREATE UNIQUE INDEX by_i ON public.a USING btree (i);
        CREATE TRIGGER t AFTER INSERT ON public.a FOR EACH ROW EXECUTE FUNCTION f();
        ALTER TABLE ONLY public.a ADD CONSTRAINT f FOREIGN KEY (i) REFERENCES public.b(i);
        CREATE MATERIALIZED VIEW public."m v" AS SELECT i FROM public.a WITH NO DATA;
    """
    words = {
        stage: [text.split()[1] for text in texts] for stage, texts in stages(text, False).items()
    }
    assert words == {
        "10_tables": ["check_function_bodies", "TABLE"],
        "20_keys": ["TABLE"],
        "30_indexes": ["UNIQUE"],
        "40_foreign_keys": ["TABLE"],
        "45_final": ["check_function_bodies", "TRIGGER", "MATERIALIZED", "MATERIALIZED"],
    }


# When an engine's rows agree with the expected ones ---------------------------------


@pytest.mark.parametrize(
    ("text", "value", "same"),
    [
        ("7", 7, True),
        ("7", Decimal("7.00"), True),
        ("7", 8, False),
        ("007", "007", True),
        ("007", "7", False),
        ("7", "007", False),
        ("12345.67", Decimal("12345.67"), True),
        ("12345.67", Decimal("12345.66"), False),
        ("3.3333333333", Decimal("3.3333"), False),
        ("3.3333333333333335", 3.333333333333333, True),
        ("3.3333", 3.3333001, False),
        ("7", "seven", False),
        ("x", 7, False),
        ("", None, True),
        ("NULL", None, False),
        ('""', None, False),
        ('""', "", True),
        ("", "", False),
        ("NULL", "NULL", True),
        ("0", None, False),
        ("", 0, False),
        ("Cork", "Cork  ", True),
        ("cork", "Cork", False),
        ("2025-01-02", date(2025, 1, 2), True),
        ("2025-01-02T03:04:05", datetime(2025, 1, 2, 3, 4, 5), True),
        ("2025-01-02 03:04:05+01", datetime(2025, 1, 2, 2, 4, 5, tzinfo=UTC), True),
        ("2025-01-02T03:04:05", "2025-01-02 03:04:05", False),
        ("2025-01-02", date(2025, 1, 3), False),
        ("true", True, True),
        ("true", 1, True),
        ("f", True, False),
        ("nan", float("nan"), True),
        ("nan", 0.0, False),
    ],
)
def test_values(text, value, same):
    expected = read_answer("a.csv", f"name,n\n{text},1\n")
    check = compare_rows(expected, ("name", "n"), [(value, 1)], Ordering())
    assert check.status == ("passed" if same else "failed")
    assert ("row 1" in check.where and check.values != check.where) or same


@pytest.mark.parametrize(
    ("head", "value", "same"),
    [
        ("mean ~1%", Decimal("101"), True),
        ("mean ~1%", 101.2, False),
        ("mean ~0.5", Decimal("99.5"), True),
        ("mean ~0.5", 100.6, False),
        ("mean", Decimal("100.000001"), False),
    ],
)
def test_a_head_states_the_tolerance_of_its_column(head, value, same):
    expected = read_answer("a.csv", f"name,{head}\na,100\n")
    check = compare_rows(expected, ("name", "mean"), [("a", value)], Ordering())
    assert check.status == ("passed" if same else "failed")


def test_numbers_of_rows_and_columns_count():
    for text, rows in (("a\n1\n", []), ("a\n1\n", [(1, 2)]), ("a\n", [(1,)])):
        assert compare_rows(read_answer("a.csv", text), "a", rows, Ordering()).status == "failed"
    assert compare_rows(read_answer("a.csv", "a\n"), "a", [], Ordering()).status == "passed"


def test_rows_within_a_tolerance_are_matched_whatever_their_order():
    expected = read_answer("a.csv", "x ~1,y ~1\n1,5\n1.5,9\n")
    assert compare_rows(expected, "xy", [(1.4, 5.0), (1.1, 9.0)], Ordering()).status == "passed"


ROWS = [(1, "b"), (1, "a"), (2, "c")]


@pytest.mark.parametrize(
    ("query", "rows", "status"),
    [
        ("select n, t from x", [ROWS[2], ROWS[0], ROWS[1]], "passed"),
        ("select n, t from (select * from x order by n) y", [*reversed(ROWS)], "passed"),
        ("select n, t from x order by n", [ROWS[1], ROWS[0], ROWS[2]], "passed"),
        ("select n, t from x order by n", [*reversed(ROWS)], "failed"),
        ("(select x.n, t from x order by x.n)", [*reversed(ROWS)], "failed"),
        ("select n, t from x order by 1, t desc", [ROWS[1], ROWS[0], ROWS[2]], "unknown"),
        ("select n, t from x order by abs(n)", [*reversed(ROWS)], "unknown"),
        ("select n, t from x order by n limit 3", [*ROWS[:2], (2, "d")], "unknown"),
        ("select n, t from x order by n limit 3", [(1, "z"), *ROWS[1:]], "failed"),
        ("select n, t from x order by n limit 4", [*ROWS[:2], (2, "d")], "failed"),
        ("select n, t from x order by n limit 3", [*ROWS[:2], (3, "c")], "failed"),
        ("select n, t from x limit 3", [(7, "z"), *ROWS[1:]], "unknown"),
        ("select n, t from x", [(7, "z"), *ROWS[1:]], "failed"),
    ],
)
def test_the_order_of_the_outermost_statement_is_compared(query, rows, status):
    expected = read_answer("a.csv", answer_text(("n", "t"), ROWS))
    check = compare_rows(expected, ("n", "t"), rows, Ordering.of(query, backslash=False))
    assert check.status == status


# Each value that a driver returns; texts are those that CSV gets wrong.
TEXTS = st.one_of(
    st.sampled_from(["", "NULL", "007", "1e5", "a,b", 'a"b', '"', "x\r\ny", "\r", "b  ", " ", "é"]),
    st.text(st.characters(codec="utf-8"), max_size=9),
)
COLUMNS = st.one_of(
    *(
        st.lists(st.none() | values, min_size=4, max_size=4)
        for values in (
            TEXTS,
            st.integers(-(10**50), 10**50),
            st.floats(),
            st.decimals(allow_nan=True),
            st.dates(),
            st.datetimes(timezones=st.none() | st.timezones()),
            st.times(),
            st.timedeltas(),
            st.booleans(),
            st.binary(),
            st.uuids(),
        )
    )
)


@repeatable
@given(st.lists(COLUMNS, min_size=1, max_size=4), st.randoms())
def test_an_answer_that_was_written_passes_on_its_rows(columns, random):
    rows = [*zip(*columns, strict=True)]
    names = [f"c{number}" for number in range(len(columns))]
    stored = json.loads(json.dumps([[encode(value) for value in row] for row in rows]))
    text = answer_text(names, [[decode(value) for value in row] for row in stored])
    expected = read_answer("a.csv", text)
    ordered = Ordering.of("select * from t order by all", backslash=False)
    assert compare_rows(expected, names, rows, ordered).status == "passed"
    shuffled = random.sample(rows, len(rows))
    assert compare_rows(expected, names, shuffled, Ordering()).status == "passed"
