"""Runs as tables: what SQL and Parquet say agrees with the comparison of the same runs."""

from __future__ import annotations

from pathlib import Path

import duckdb
from report_runs import demo

from harness.store.runs import Store
from harness.store.tables import TABLES, database, write_parquet
from reports.compare import compare
from reports.select import select

_MEDIANS = """
    SELECT placement, median(value) FROM metrics JOIN runs USING (run_id)
    WHERE metric = ? AND engine = 'duckdb' GROUP BY ALL
"""


def test_sql_and_compare_have_the_same_medians(tmp_path: Path) -> None:
    demo(tmp_path, blocks=3, queries=(1, 6), plans=False)
    store = Store(tmp_path)
    a, b = (select(store, "engine=duckdb", f"placement={one}") for one in ("ssd-both", "pmem-both"))
    row = compare(a, b).groups[0].deciding
    assert row is not None and row.a is not None and row.b is not None
    expected = {"ssd-both": row.a.median, "pmem-both": row.b.median}
    with database(store.runs()) as connection:
        assert dict(connection.execute(_MEDIANS, [row.quantity.name]).fetchall()) == expected
    write_parquet(store.runs(), tmp_path / "tables")
    with duckdb.connect(":memory:") as connection:
        for table in TABLES:
            file = tmp_path / "tables" / f"{table}.parquet"
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{file}'")
        assert dict(connection.execute(_MEDIANS, [row.quantity.name]).fetchall()) == expected
        # Parameters are columns of runs, labels those of metrics.
        query = "SELECT DISTINCT scale, query FROM runs JOIN metrics USING (run_id)"
        assert (1, None) in connection.execute(query).fetchall()
