"""Queries of public benchmarks in the SQL of each engine."""

import pytest
import sqlglot
from sqlglot import exp

from harness.workloads.sql.public.generate import GeneratedTables, _in_sql_of


def written(sql: str, dialect: str = "mysql") -> exp.Expression:
    tree = sqlglot.parse_one(_in_sql_of(dialect, GeneratedTables("", {}, "duckdb"), sql))
    assert isinstance(tree, exp.Expression)
    return tree


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT Catalog.a FROM t AS CATALOG JOIN Title ON Title.a = catalog.a",
        "WITH All_Of AS (SELECT a FROM Title) SELECT ALL_OF.a FROM all_of",
    ],
)
def test_aliases_are_in_small_letters_and_tables_as_they_were_created(sql: str) -> None:
    names = {name.this for name in written(sql).find_all(exp.Identifier)}
    assert names - {"Title"} == {name.lower() for name in names - {"Title"}}
    assert "Title" in names and "title" not in names


def test_a_rollup_of_mysql_is_one_of_mariadb_too() -> None:
    sql = "SELECT a, sum(b) AS s FROM t GROUP BY ROLLUP (a) ORDER BY s, a LIMIT 3"
    text = written(sql).sql("mysql")
    assert "GROUP BY a WITH ROLLUP) AS rolled ORDER BY" in text and "LIMIT 3" in text
    assert "ROLLUP (a)" in written(sql, "postgres").sql("postgres")
