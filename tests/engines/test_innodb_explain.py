"""Executed plans of MySQL and MariaDB: of real servers, and of recordings."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines._innodb import explain_mariadb, explain_mysql
from harness.query_plan import ExecutedPlan, Operator
from harness.workloads.tpch.qgen import parameters
from harness.workloads.tpch.statements import query_sql

RECORDINGS = Path(__file__).parent / "recordings"


def recorded(name: str) -> str:
    return (RECORDINGS / name).read_text()


def of_relation(plan: ExecutedPlan, table: str) -> list[Operator]:
    return [operator for operator in plan.operators.walk() if operator.relation == table]


@pytest.mark.parametrize("query", [1, 2, 11, 13, 15, 16, 18, 20, 21, 22])
def test_a_plan_adds_up_to_its_executions_time(innodb, connection, query):
    sql = query_sql(query, parameters(query, None, 0.01), innodb.sql_folder / "tpch")
    plan = innodb.explain(connection, sql)
    total = sum(plan.time_by_kind_ns().values())
    assert 0.9 * plan.duration_ns <= total <= 1.1 * plan.duration_ns
    assert plan.clock == "wall" and plan.note
    operators = sum(operator.time_ns for operator in plan.operators.walk())
    assert 0 < operators <= 1.1 * plan.extra["engine_duration_ns"]


def test_scans_name_their_table_and_count_its_rows(innodb, connection, tpch_csv):
    plan = innodb.explain(connection, "select sum(l_quantity) from lineitem where l_tax >= 0")
    (scan,) = of_relation(plan, "lineitem")
    assert (scan.kind, scan.rows) == ("scan", tpch_csv.row_counts["lineitem"])
    assert scan.time_ns > 0


def test_profiling_leaves_the_connection_as_it_was(innodb, connection):
    innodb.explain(connection, "select count(*) from region")
    assert connection.execute("select count(*) from region").rows == [(5,)]


def test_a_recorded_tree_of_mysql_in_exclusive_times() -> None:
    plan = explain_mysql.translate_json(recorded("mysql-9.7.4-tpch-q20.json"), 200_000_000)
    total = plan.extra["engine_duration_ns"]
    assert abs(sum(o.time_ns for o in plan.operators.walk()) - total) < total / 1000
    (lineitem,) = of_relation(plan, "lineitem")
    assert lineitem.name == "Index lookup on lineitem using lineitem_part_supplier"
    assert lineitem.kind == "scan"
    (subquery,) = [o for o in plan.operators.walk() if "Select #4" in o.name]
    assert (subquery.kind, subquery.rows) == ("aggregate", 760)  # once for each of 760 loops
    assert plan.outside_ns == {"planning and client": 200_000_000 - total}


def test_the_text_of_older_releases_gives_the_same_tree() -> None:
    new = explain_mysql.translate_json(recorded("mysql-9.7.4-tpch-q20.json"), 10**9)
    old = explain_mysql.translate_tree(recorded("mysql-9.7.4-tpch-q20.tree.txt"), 10**9)
    assert old.raw_format == "text"

    def shape(plan: ExecutedPlan) -> list[tuple[str, str | None]]:
        nodes = [o for o in plan.operators.walk() if not o.name.startswith("Select #")]
        return [(o.kind, o.relation) for o in nodes]

    assert shape(old) == shape(new)
    assert (
        abs(sum(o.time_ns for o in old.operators.walk()) / old.extra["engine_duration_ns"] - 1)
        < 0.02
    )


def test_what_never_ran_has_no_time() -> None:
    text = (
        "-> Filter: (a.x = (select #2))  (actual time=0.5..2.0 rows=1 loops=2)\n"
        "    -> Table scan on a  (cost=2 rows=3) (actual time=0.1..1.25e+0 rows=3 loops=2)\n"
        "    -> Select #2 (subquery in condition; run only once)\n"
        "        -> Table scan on b  (cost=2 rows=3) (never executed)\n"
    )
    root = explain_mysql.translate_tree(text, 5_000_000).operators
    assert [(o.kind, o.relation, o.rows, o.time_ns) for o in root.walk()] == [
        ("scan", None, 2, 1_500_000),
        ("scan", "a", 6, 2_500_000),
        ("other", None, 0, 0),
        ("scan", "b", 0, 0),
    ]


@pytest.mark.parametrize("query", [11, 16])
def test_a_recorded_sort_of_mariadb_counts_nothing_twice(query: int) -> None:
    text = recorded(f"mariadb-10.11.19-tpch-q{query}.json")
    plan = explain_mariadb.translate(text, 10**9)
    total = plan.extra["engine_duration_ns"] - plan.extra["planning_ns"]
    assert abs(sum(o.time_ns for o in plan.operators.walk()) - total) < total / 1000
    sorts = [o for o in plan.operators.walk() if o.kind == "sort"]
    assert sorts and sum(o.time_ns for o in sorts) < total / 20  # what they read is not theirs


def test_a_recorded_plan_of_mariadb_separates_reading_from_the_rest() -> None:
    plan = explain_mariadb.translate(recorded("mariadb-10.11.19-tpch-q16.json"), 10**8)
    (part,) = of_relation(plan, "part")
    assert (part.kind, part.name, part.rows) == ("scan", "ALL", 20_000)
    (partsupp,) = of_relation(plan, "partsupp")
    assert partsupp.name == "ref using PRIMARY"
    joins = [o for o in plan.operators.walk() if o.kind == "join"]
    assert [o.name for o in joins] == ["nested loop join"]
    assert "joins and grouping" in plan.note
