"""Every query renders in every dialect there is, from one text."""

from pathlib import Path

import duckdb
import pytest

import engines
from harness.sql_script import text_of
from harness.workloads.tpch.answers import SHAPES
from harness.workloads.tpch.qgen import QUERIES, parameters
from harness.workloads.tpch.source_database import open_views
from harness.workloads.tpch.statements import query_sql
from harness.workloads.tpch.tables import COLUMNS, TABLES

ENGINE_FOLDERS = sorted(
    path for path in Path(engines.__path__[0]).resolve().glob("*/sql/tpch") if path.is_dir()
)


@pytest.fixture
def dialect(tmp_path):
    """An engine's folder that writes dates as text and one query in its own way."""
    (tmp_path / "dialect.sql.j2").write_text(
        "{% macro sql_date(day) %}{{ text(day) }}{% endmacro %}"
        "{% macro months_after(day, months) %}date({{ text(day) }}, '+{{ months }} months')"
        "{% endmacro %}"
    )
    (tmp_path / "q15.sql.j2").write_text("select 15 where {{ sql_date(date) }} is not null\n")
    return tmp_path


@pytest.mark.parametrize("folder", [None, *ENGINE_FOLDERS], ids=lambda f: f and f.parts[-3])
@pytest.mark.parametrize("seed", [None, 1, 4711])
def test_every_query_is_one_statement_in_every_dialect(folder, seed):
    for query in QUERIES:
        sql = query_sql(query, parameters(query, seed, 1), folder)
        assert duckdb.extract_statements(sql).__len__() == 1
        assert not {"{", "}", ";"} & set(sql)


def test_an_engine_replaces_macros_and_whole_queries_and_keeps_the_rest(dialect):
    values = parameters(4, None, 1)
    assert "o_orderdate >= '1993-07-01'" in query_sql(4, values, dialect)
    assert "date('1993-07-01', '+3 months')" in query_sql(4, values, dialect)
    assert "o_orderdate >= date '1993-07-01'" in query_sql(4, values)
    assert (
        query_sql(15, parameters(15, None, 1), dialect)
        == "select 15 where '1996-01-01' is not null"
    )
    assert query_sql(16, parameters(16, None, 1), dialect) == query_sql(16, parameters(16, None, 1))


@pytest.mark.parametrize("folder", ENGINE_FOLDERS, ids=lambda f: f.parts[-3])
def test_an_engines_tables_have_the_columns_of_the_files(folder):
    connection = duckdb.connect()
    connection.execute(text_of(folder / "10_tables.sql"))
    for table in TABLES:
        found = connection.execute(f"select * from {table} limit 0").description
        assert [column[0] for column in found] == list(COLUMNS[table])


def test_answers_have_the_columns_that_are_checked(sources):
    connection = open_views(sources["csv"], sources["csv"].files["region"][0].parent)
    for query in QUERIES:
        relation = connection.execute(query_sql(query, parameters(query, None, 0.01)))
        names = [column[0] for column in relation.description]
        assert names == [column.name for column in SHAPES[query].columns]
