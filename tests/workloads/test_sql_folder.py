"""What a user's folder may contain, what each mistake is answered with, and which rows agree."""

import os
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from harness.engine import Engine, EngineKind, EngineVersion
from harness.errors import UsageError
from harness.workloads.sql.answers import agrees, compare_rows, read_answer
from harness.workloads.sql.data import stages
from harness.workloads.sql.example import write_example
from harness.workloads.sql.folder import read_folder
from harness.workloads.sql.params import SqlParams
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
    assert folder.tables == ("customer", "product", "purchase")
    assert {(file.name, file.table) for file in folder.load} == {
        ("Purchase.1.csv", "purchase"),
        *((f"{table}.csv", table) for table in folder.tables),
    }
    assert len(folder.queries) == len(folder.answers) == 5
    check(shop)


MISTAKES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no-tables": (lambda shop: (shop / "tables.sql").unlink(), "it has no tables.sql"),
    "empty-tables": (lambda shop: (shop / "tables.sql").write_text("-- none"), "creates a table"),
    "no-such-table": (lambda shop: (shop / "load/custommer.csv").write_text("id\n"), "'customer'"),
    "extension": (lambda shop: (shop / "load/customer.tsv").write_text("id\n"), "extension"),
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
    """
    found = {
        stage: [one.split()[1] for one in texts] for stage, texts in stages(text, False).items()
    }
    assert found == {
        "10_tables": ["check_function_bodies", "TABLE"],
        "20_keys": ["TABLE"],
        "30_indexes": ["UNIQUE"],
        "40_foreign_keys": ["TRIGGER", "TABLE"],
    }


# When an engine's rows agree with the expected ones ---------------------------------


@pytest.mark.parametrize(
    ("text", "value", "same"),
    [
        ("7", 7, True),
        ("7", Decimal("7.00"), True),
        ("7", 8, False),
        ("12345.67", Decimal("12345.67"), True),
        ("12345.67", Decimal("12345.66"), False),
        ("3.3333333333", Decimal("3.3333"), True),
        ("3.3333333333", 3.3333333333333335, True),
        ("3.33333", 3.5, False),
        ("7", "seven", False),
        ("x", 7, False),
        ("", None, True),
        ("0", None, False),
        ("", 0, False),
        ("Cork", "Cork  ", True),
        ("cork", "Cork", False),
        ("2025-01-02", date(2025, 1, 2), True),
        ("2025-01-02 03:04:05", datetime(2025, 1, 2, 3, 4, 5), True),
        ("2025-01-02T03:04:05", "2025-01-02 03:04:05", True),
        ("2025-01-02", date(2025, 1, 3), False),
        ("true", True, True),
    ],
)
def test_values(text, value, same):
    assert agrees(text, value) is same


def test_rows_may_come_in_any_order():
    expected = read_answer("a.csv", 'name,mean\n"b, c",1.25001\na,2.5\na,\n')
    rows = [("a", None), ("a", 2.5), ("b, c", 1.25)]
    assert compare_rows(expected, rows).agrees
    wrong = compare_rows(expected, [("a", None), ("a", 2.5), ("b, c", 1.5)])
    assert not wrong.agrees and "found (b, c, 1.5)" in wrong.detail


def test_numbers_of_rows_and_columns_count():
    assert "expected 1, found 0" in compare_rows([["1"]], []).detail
    assert "expected 1, found 2" in compare_rows([["1"]], [(1, 2)]).detail
    assert compare_rows([], []).agrees
