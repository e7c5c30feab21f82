"""What a report says of runs of transactions: rates, percentiles, the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from narrowed import of_kind
from report_runs import (
    PLACES,
    Case,
    csv_rows,
    driven,
    interleaved,
    lognormal,
    metric,
    report,
    tables,
    write,
)

from harness.store.runs import StoredRun
from reports.report import Report
from reports.sections import Table, plain
from reports.tables import PanelTables

PARAMS = {"warehouses": 10, "users": 8, "think_time": False, "rate": None,
          "mix": "deck", "connections": 8, "duration": "3m"}  # fmt: skip


def metrics(rate: float, seed: int) -> list[dict[str, Any]]:
    return [
        metric("new_orders_per_minute", rate, "higher"),
        metric("transactions_per_minute", rate * 2.3, "higher"),
        *(metric("transaction_duration_ns", lognormal(60e9 / rate * factor, seed, 0.5), "lower",
                 transaction=name) for name, factor in (("new_order", 8), ("payment", 4))),
        metric("server_cpu_per_transaction_ns", 5e5, "lower"),
        *(metric("transaction_count", count, transaction=name)
          for name, count in (("new_order", 450), ("payment", 500))),
        metric("transaction_rolled_back_count", 50, transaction="new_order"),
        metric("window_duration_ns", 60_000_000_000),
        metric("window_postgres_wal_bytes", 1024 * 1000),
        metric("window_dram_read_bytes_per_s", 1 << 30),
        metric("window_tier_read_bytes", 1 << 30, tier="ssd"),
    ]  # fmt: skip


def runs(root: Path, blocks: int, gain: float, users: int = 8, **changes: Any) -> list[StoredRun]:
    arms = interleaved(
        root,
        lambda p, k: metrics(10_000 * (gain if p == PLACES[1] else 1) * (1 + 0.01 * k), k),
        blocks,
        spec_changes=driven("tpcc", **PARAMS | {"users": users, "connections": users}),
        **changes,
    )
    return [run for pair in zip(*arms, strict=True) for run in pair]


def test_the_verdict_is_read_from_the_new_orders_and_the_bars_show_them(tmp_path: Path) -> None:
    made = runs(tmp_path, 7, 1.5)
    files, html = report(made, tmp_path)
    ((_, group),) = Report(made).answers
    row = group.deciding
    assert row is not None and row.estimate is not None
    assert (row.quantity.name, group.verdict) == ("new_orders_per_minute", "faster")
    assert f"{row.ratio:.2f}" == "1.50"
    names = {path.stem for path in files.figures}
    assert "1-postgres-18-4-warehouses-10-users-8-rate" in names
    assert "1-postgres-18-4-warehouses-10-users-8-transaction-duration-ns" in names
    assert "tpmC" not in html
    times = [row for row in csv_rows(files.csv) if row["metric"] == "transaction_duration_ns"]
    assert {row["labels"] for row in times} == {
        f"transaction={name};percentile={percent}"
        for name in ("new_order", "payment")
        for percent in ("50", "95", "99", "99.9")
    }


def test_what_the_window_counted_is_one_table_with_a_column_for_each_transaction(tmp_path):
    made = runs(tmp_path, 2, 1.5)
    (panel,) = Report(made).panels
    window = of_kind(Table, next(PanelTables(panel).counters))
    at = window.head.index("each transaction, ssd-both")
    each = {row[0]: row[at] for row in window.rows}
    # 1,000 transactions were done: 450 and 500 were committed, 50 rolled back as they should.
    assert each["postgres wal"] == "1 KiB"
    assert each["bytes read from the tier's device, tier ssd"] == "1.02 MiB"
    assert each["length of the window"] == each["DRAM read bandwidth"] == "–"


def with_hammerdb(root: Path, *more: dict[str, Any]) -> dict[str, Any]:
    """The 95th percentile of new orders by HammerDB, which has no histograms."""
    kept = [m for m in metrics(9000, 0) if m["name"] != "transaction_duration_ns"]
    other = driven("tpcc", **PARAMS) | {"driver": "hammerdb"}
    made = [*runs(root, 1, 1.5)[:1], write(root, Case(metrics=[*kept, *more], spec_changes=other))]
    view = Report(made, over="driver")
    assert any(s.ready_made for s in view.agreements[0].spreads) == bool(more)
    (table,) = (
        table
        for table in tables(PanelTables(view.panels[0]).results).values()
        if any(row[0] == "new order, percentile 95" for row in table.rows)
    )
    (row,) = (row for row in table.rows if row[0] == "new order, percentile 95")
    return dict(zip(table.head, map(plain, row), strict=True))


def test_a_driver_without_percentiles_has_an_empty_row(tmp_path: Path) -> None:
    row = with_hammerdb(tmp_path)
    assert (row["hammerdb"], row["n"]) == ("–", "1, 0")


def test_ready_made_percentiles_are_marked_and_compared(tmp_path: Path) -> None:
    labels = {"transaction": "new_order", "percentile": "95"}
    row = with_hammerdb(tmp_path, metric("transaction_percentile_ns", 9e7, "lower", **labels))
    assert row["hammerdb"] == "90 ms ‡" and row["times better"].endswith("×")


def test_durability_is_separate_from_speed(tmp_path: Path) -> None:
    asked = [{"name": "durability", "status": "passed", "detail": "", "labels": {"of": name}}
             for name in ("new_order", "payment")]  # fmt: skip
    found = [
        metric("recovery_duration_ns", 2e9, "lower"),
        metric("journal_committed_count", 1234, transaction="new_order"),
    ]
    spec = driven("tpcc", **PARAMS | {"test": "durability"})
    lost = [asked[0], asked[1] | {"status": "failed", "detail": "3 are not there"}]
    made = [
        write(tmp_path, Case(metrics=found, spec_changes=spec, run_changes={"checks": asked})),
        write(tmp_path, Case(status="failed", block=1, spec_changes=spec,
                             run_changes={"checks": lost})),
    ]  # fmt: skip
    (row,) = tables(Report(made).blocks())["Commits after a kill"].rows
    assert row[1:] == ("ssd-both", "1 of 2", "1234 new order", "2 s", "–")
