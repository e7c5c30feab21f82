"""What a report says of runs of transactions: rates, merged percentiles, the verdict."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from report_runs import EMULATED, Case, write

from harness import hdr
from harness.reports.report import write_report
from harness.store import StoredRun

LAYOUT = hdr.Layout(1000, 3_600_000_000_000, 3)
PARAMS = {"warehouses": 10, "users": 8, "connections": 8, "duration": "3m"}


def histogram(middle_ms: float, seed: int) -> str:
    values = np.random.default_rng(seed).lognormal(np.log(middle_ms * 1e6), 0.5, 400)
    at = np.searchsorted(LAYOUT.bounds()[0], values, "right") - 1
    return hdr.Histogram(LAYOUT, np.bincount(at, minlength=LAYOUT.counters)).encode()


def metrics(rate: float, seed: int) -> list[dict[str, Any]]:
    def one(name: str, unit: str, better: str, **rest: Any) -> dict[str, Any]:
        return {"name": name, "unit": unit, "better": better, "labels": {}, **rest}

    return [
        one("new_orders_per_minute", "1/min", "higher", value=rate),
        one("transactions_per_minute", "1/min", "higher", value=rate * 2.3),
        *(
            one("transaction_duration_ns", "ns", "lower", labels={"transaction": name},
                hdr=histogram(60e3 / rate * factor, seed))
            for name, factor in (("new_order", 8), ("payment", 4))
        ),
        one("server_cpu_per_transaction_ns", "ns", "lower", value=5e5),
        one("window_tier_read_bytes", "B", "none", labels={"tier": "ssd"}, value=1 << 30),
    ]  # fmt: skip


def runs(root: Path, blocks: int, gain: float, **changes: Any) -> list[StoredRun]:
    made = []
    for block in range(blocks):
        drift = 1 + 0.01 * block
        for placement, rate in (("ssd-both", 10_000), ("pmem-both", 10_000 * gain)):
            spec = {"workload": "tpcc", "params": PARAMS, "driver": "loadgen"}
            case = Case(placement=placement, block=block, spec_changes=spec,
                        metrics=metrics(rate * drift, block), **changes)  # fmt: skip
            made.append(write(root, case))
    return made


def test_the_verdict_is_read_from_the_new_orders_and_the_bars_show_them(tmp_path: Path) -> None:
    files = write_report(runs(tmp_path, 7, 1.5), tmp_path / "report")
    html = files.html.read_text(encoding="utf-8")
    assert "TPC-C-derived: it pays in time: pmem-both is 1.50× higher" in html
    assert "Measured by the New-Orders per minute, TPC-C-derived over 7 pairs" in html
    names = {path.stem for path in files.figures}
    assert "1-postgres-18-4-rate" in names
    assert "1-postgres-18-4-transaction-duration-ns" in names
    assert "tpmC" not in html


def test_percentiles_by_transaction_stand_in_table_and_csv(tmp_path: Path) -> None:
    files = write_report(runs(tmp_path, 7, 1.5), tmp_path / "report")
    with files.csv.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["metric"] == "transaction_duration_ns"]
    assert {row["labels"] for row in rows} == {
        f"transaction={name};percentile={percent}"
        for name in ("new_order", "payment")
        for percent in ("50", "95", "99", "99.9")
    }
    markdown = files.markdown.read_text(encoding="utf-8")
    assert "time of a transaction" in markdown
    assert "percentile 99.9 |" in markdown
    assert "Percentiles of the merged histograms of 7 repeats" in markdown


def test_emulated_rates_are_no_verdict(tmp_path: Path) -> None:
    made = runs(tmp_path, 7, 1.5, emulated=EMULATED)
    html = write_report(made, tmp_path / "report").html.read_text(encoding="utf-8")
    assert (
        "so no verdict on the real device. On the stand-in: pmem-both (EMULATED) is 1.50×" in html
    )
