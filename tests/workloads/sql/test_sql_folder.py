"""What a user's folder may contain, and what each mistake is answered with."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.engine import Engine, EngineKind, EngineVersion
from harness.errors import UsageError
from harness.workloads.sql.data import stages
from harness.workloads.sql.folder import read_folder
from harness.workloads.sql.params import SqlParams
from harness.workloads.sql.workload import WORKLOAD


class Toy(Engine):
    """An engine that loads CSV, and no dumps."""

    name = "toy"
    kind: EngineKind = "managed"
    load_format = "csv"

    def version(self) -> EngineVersion:
        return EngineVersion("toy", "1", "1", "toy")


def check(folder: Path, **params: Any) -> None:
    given = SqlParams.from_mapping({"folder": str(folder), **params})
    WORKLOAD.check_engine(given, "native", Toy(), {})


def test_tables_files_and_queries_are_found(shop: Path) -> None:
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
    "check": (lambda shop: (shop / "check.sql").write_text("drop table product"), "only reads"),
}  # fmt: skip


def without(shop: Path, *folders: str) -> None:
    for folder in folders:
        (shop / folder).rename(shop / f"{folder}.old")


def query(shop: Path, text: str) -> None:
    (shop / "queries" / "mine.sql").write_text(text)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_an_error_before_the_run(shop: Path, mistake: str) -> None:
    make, words = MISTAKES[mistake]
    make(shop)
    with pytest.raises(UsageError) as caught:
        check(shop)
    assert words in str(caught.value)


def test_data_are_loaded_again_only_where_they_changed(shop: Path) -> None:
    def content() -> list[str]:
        return SqlParams.from_mapping({"folder": str(shop)}).content.split("-")

    data, others = content()
    query(shop, "select 1")
    assert content() == [data, content()[1]] and content()[1] != others
    with (shop / "load" / "customer.csv").open("a") as stream:
        stream.write("501,New,Cork,2025-01-01\n")
    assert content()[0] != data


def test_a_stored_run_s_folder_is_not_read(shop: Path) -> None:
    stored = SqlParams.from_mapping({"folder": str(shop)}).to_json()
    shop.rename(shop.with_name("elsewhere"))
    assert SqlParams.from_mapping(stored).to_json() == stored


def test_keys_and_indexes_come_after_the_rows() -> None:
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
