"""Runs as tables, by DuckDB."""

import json
import re
from pathlib import Path

import duckdb
import pytest
from report_runs import Case, demo, histogram, metric, with_artifacts, write
from typer.testing import CliRunner

from harness.cli.app import app
from harness.errors import UsageError
from harness.store.run_row import COLUMNS, KEYS, run_row
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.store.tables import TABLES, database, write_parquet
from reports.compare import compare
from reports.select import select

SERIES = {
    "transactions": [
        {"monotonic_ns": 5, "counts": {"new_order": 7, "payment": 8}},
        {"monotonic_ns": 6, "counts": {"new_order": 9, "payment": 10}},
    ]
}


def runs_of(root: Path) -> list[StoredRun]:
    """Two runs of TPC-C; one metric has samples, one durations, one the label of a column."""
    metrics = [
        metric("new_orders_per_minute", 100.0, "higher"),
        metric("setup_ns", [1.0, 2.0, 9.0]),
        metric("transaction_duration_ns", histogram([1000, 1000, 8000]), transaction="payment"),
        metric("io_calls_count", 4, metric="read"),
    ]
    spec = {"workload": "tpcc", "params": {"warehouses": 10, "engine": "none"}}
    places = ("ssd-both", "pmem-both")
    runs = [write(root, Case(placement=p, metrics=metrics, spec_changes=spec)) for p in places]
    return [with_artifacts(runs[0], {"series": SERIES}), runs[1]]


def test_parameters_and_labels_are_columns(tmp_path: Path) -> None:
    with database(runs_of(tmp_path)) as tables:
        run = tables.execute("SELECT warehouses, param_engine, engine FROM runs").fetchall()
        assert run == [(10, "none", "postgres")] * 2
        values = tables.execute(
            "SELECT metric, value, count, p50 > 900, p95, transaction, label_metric FROM metrics "
            "JOIN runs USING (run_id) WHERE placement = 'ssd-both' ORDER BY number"
        ).fetchall()
    assert values == [
        ("new_orders_per_minute", 100.0, 1, None, None, None, None),
        ("setup_ns", 2.0, 3, None, None, None, None),
        ("transaction_duration_ns", None, 3, True, None, "payment", None),
        ("io_calls_count", 4.0, 1, None, None, None, "read"),
    ]


def test_every_table_is_a_parquet_file(tmp_path: Path) -> None:
    files = write_parquet(runs_of(tmp_path), tmp_path / "out")
    assert [file.name for file in files] == [f"{table}.parquet" for table in TABLES]
    runs, metrics, samples, histograms, series = (
        duckdb.execute(f"SELECT * FROM '{file}'").fetchall() for file in files
    )
    assert (len(runs), len(metrics), len(samples), len(histograms)) == (2, 8, 6, 4)
    assert [row[2:] for row in series] == [
        (5, "transactions.counts.new_order", 7),
        (5, "transactions.counts.payment", 8),
        (6, "transactions.counts.new_order", 9),
        (6, "transactions.counts.payment", 10),
    ]


_MEDIANS = """
    SELECT placement, median(value) FROM metrics JOIN runs USING (run_id)
    WHERE metric = ? AND engine = 'duckdb' GROUP BY ALL
"""


def test_sql_and_compare_have_the_same_medians(tmp_path: Path) -> None:
    demo(tmp_path, blocks=3, queries=(1, 6), plans=False)
    store = Store(tmp_path)
    a, b = (
        select(store, "engine=duckdb", f"placement={placement}")
        for placement in ("ssd-both", "pmem-both")
    )
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


@pytest.mark.parametrize("target", [("-o", "a.csv", "--parquet", "b"), ("--parquet", "file")])
def test_a_target_that_cannot_be_written_is_refused(tmp_path, monkeypatch, target):
    demo(tmp_path / "results", blocks=1, queries=(1,), plans=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    argv = ["runs", "export", "--results", str(tmp_path / "results"), *target]
    assert isinstance(CliRunner().invoke(app, argv).exception, UsageError)


def test_answers_of_sql_are_json(tmp_path: Path) -> None:
    demo(tmp_path, blocks=1, queries=(1,), plans=False)
    query = "SELECT 1.5 * 2 AS a, 'inf'::DOUBLE AS b, NULL AS c, count(*) AS d FROM runs"
    done = CliRunner().invoke(app, ["runs", "sql", query, "--results", str(tmp_path), "--json"])
    assert json.loads(done.stdout, parse_constant=pytest.fail)["rows"] == [[3.0, None, None, 4]]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('FILE') JOIN runs ON true",
        "SELECT * FROM 'FILE'",
        "COPY runs TO 'FILE'",
        "ATTACH 'FILE'",
        "INSTALL httpfs",
        "LOAD 'FILE'",
        "SET enable_external_access = true",
        "SET temp_directory = 'FILE'",
        "RESET lock_configuration",
        "SELECT * FROM chosen",
    ],
)
def test_sql_has_no_files_extensions_or_settings(tmp_path: Path, query: str) -> None:
    demo(tmp_path, blocks=1, queries=(1,), plans=False)
    file = tmp_path / "secret.csv"
    file.write_text("secret\n")
    argv = ["runs", "sql", query.replace("FILE", str(file)), "--results", str(tmp_path)]
    done = CliRunner().invoke(app, argv)
    assert isinstance(done.exception, UsageError)
    assert file.read_text() == "secret\n" and "secret\n" not in str(done.exception)


def test_labels_stay_texts_and_their_columns_apart(tmp_path: Path) -> None:
    labels: list[dict[str, str]] = [
        {"day": "2026-11-29", "at": "12:00:00", "Day": "a",
         "id": "123e4567-e89b-12d3-a456-426614174000"},
        {"day": "2026-11-30", "at": "x", "'; DROP": "b", "id": "2026-11-30 12:00:00"},
    ]  # fmt: skip
    metrics = [metric("x_count", 2**70 * n, **row_labels) for n, row_labels in enumerate(labels)]
    write(tmp_path, Case(metrics=metrics, spec_changes={"params": {"list": [1, 2.5], "none": []}}))
    with database(Store(tmp_path).runs()) as tables:
        query = """SELECT day, "at", "Day_", "'; DROP", id, value FROM metrics"""
        assert tables.execute(query).fetchall() == [
            ("2026-11-29", "12:00:00", "a", None, labels[0]["id"], 0),
            ("2026-11-30", "x", None, "b", labels[1]["id"], 2**70),
        ]
        assert tables.execute('SELECT list, "none" FROM runs').fetchall() == [([1, 2.5], [])]


def test_each_of_many_settings_is_a_column(tmp_path: Path) -> None:
    for block in range(10):
        settings = {f"own_{block}_{number}": "1" for number in range(30)}
        write(tmp_path, Case(block=block, metrics=[], spec_changes={"settings": settings}))
    with database(Store(tmp_path).runs(), ["runs"]) as connection:
        query = "SELECT run_id FROM runs WHERE setting_own_3_4 = '1'"
        assert len(connection.execute(query).fetchall()) == 1


def test_the_documented_columns_are_those_of_the_row(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/results.md").read_text()
    (line,) = (text for text in page.splitlines() if text.startswith("| `runs` |"))
    listed = re.findall(r"`(\w+)`", line.partition("; each parameter")[0])
    assert listed[1:] == [column.name for column in COLUMNS]
    (keys,) = re.findall(r"The keys are ([^.]*), and every parameter", page)
    named = {key.partition(" (")[0] for key in re.split(r",\s+", keys.replace("\n", " "))}
    assert {name.strip() for name in named} == set(KEYS)


def test_columns_have_their_types_whatever_the_runs_have(tmp_path: Path) -> None:
    run = write(tmp_path, Case(metrics=[]))
    for runs in ([], [run]):
        with database(runs, ["runs"]) as connection:
            types = {
                name: kind for name, kind, *_ in connection.execute("DESCRIBE runs").fetchall()
            }
        assert {column.name: column.type for column in COLUMNS}.items() <= types.items()


def test_a_planted_run_is_named_so_in_every_table(tmp_path: Path) -> None:
    write(tmp_path, Case(metrics=[], spec_changes={"plant": ("wal.sync=+200us",)}))
    (run,) = Store(tmp_path).runs()
    assert run_row(run, ["placement", "plant"]) == {
        "placement": "ssd-both PLANTED wal.sync=+200us",
        "plant": "wal.sync=+200us",
    }
    assert [run.run_id for run in select(Store(tmp_path), "plant=wal.sync=+200us")] == [run.run_id]
