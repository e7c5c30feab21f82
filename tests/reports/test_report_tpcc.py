"""What a report says of runs of transactions: rates, percentiles, the verdict."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from report_runs import Case, write
from rich.console import Console

from harness import hdr
from harness.store.runs import StoredRun
from reports.compare import compare
from reports.compare_output import table, to_json
from reports.conditions import CheckCount, checks, uncontrolled
from reports.report import view_of, write_report
from reports.series import panels
from reports.sweeps import sweeps

LAYOUT = hdr.Layout(1000, 3_600_000_000_000, 3)
PARAMS = {"warehouses": 10, "users": 8, "think_time": False, "rate_per_s": None,
          "mix": "deck", "connections": 8, "duration": "3m"}  # fmt: skip


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
        *(one("transaction_count", "1", "none", labels={"transaction": name}, value=count)
          for name, count in (("new_order", 450), ("payment", 500))),
        one("transaction_rolled_back_count", "1", "none", labels={"transaction": "new_order"},
            value=50),
        one("window_duration_ns", "ns", "none", value=60_000_000_000),
        one("window_postgres_wal_bytes", "B", "none", value=1024 * 1000),
        one("window_dram_read_bytes_per_s", "B/s", "none", value=1 << 30),
        one("window_tier_read_bytes", "B", "none", labels={"tier": "ssd"}, value=1 << 30),
    ]  # fmt: skip


def runs(root: Path, blocks: int, gain: float, users: int = 8, **changes: Any) -> list[StoredRun]:
    made = []
    for block in range(blocks):
        drift = 1 + 0.01 * block
        for placement, rate in (("ssd-both", 10_000), ("pmem-both", 10_000 * gain)):
            spec = {
                "workload": "tpcc",
                "params": PARAMS | {"users": users, "connections": users},
                "driver": "loadgen",
            }
            case = Case(placement=placement, block=block, spec_changes=spec,
                        metrics=metrics(rate * drift, block), **changes)  # fmt: skip
            made.append(write(root, case))
    return made


def test_the_verdict_is_read_from_the_new_orders_and_the_bars_show_them(tmp_path: Path) -> None:
    files = write_report(runs(tmp_path, 7, 1.5), tmp_path / "report")
    html = files.html.read_text(encoding="utf-8")
    ((_, group),) = view_of(runs(tmp_path, 7, 1.5), "x").answers
    row = group.deciding
    assert row is not None and row.estimate is not None
    assert (row.quantity.name, group.verdict) == ("new_orders_per_minute", "faster")
    assert f"{row.ratio:.2f}" == "1.50"
    names = {path.stem for path in files.figures}
    assert "1-postgres-18-4-warehouses-10-users-8-rate" in names
    assert "1-postgres-18-4-warehouses-10-users-8-transaction-duration-ns" in names
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
    assert "percentile 99.9 |" in markdown


def test_what_was_run_is_told_though_no_run_differs_in_it(tmp_path: Path) -> None:
    made = runs(tmp_path, 2, 1.5)
    text = write_report(made, tmp_path / "report").markdown.read_text(encoding="utf-8")
    assert "## Results: postgres 18.4, warehouses 10, users 8\n" in text
    assert "**What was run: postgres 18.4, warehouses 10, users 8**" in text
    for line in ("workload | tpcc (TPC-C-derived)", "driver | loadgen", "warehouses | 10",
                 "connections | 8", "duration | 3m", "rate per s | none", "think time | no",
                 "mix | deck", "seed | 0", "memory limit | 4 GiB",
                 "placement | ssd-both: ssd-both; pmem-both: pmem-both",
                 "repeats | ssd-both: 2; pmem-both: 2"):  # fmt: skip
        assert f"| {line} |" in text, line


def test_a_comparison_tells_its_warehouses_and_users_and_what_was_run(tmp_path: Path) -> None:
    made = runs(tmp_path, 2, 1.5)
    of = {place: [run for run in made if run.run["spec"]["placement"]["name"] == place]
          for place in ("ssd-both", "pmem-both")}  # fmt: skip
    comparison = compare(of["ssd-both"], of["pmem-both"])
    (group,) = to_json(comparison)["groups"]
    assert group["context"]["params.warehouses"] == "10"
    assert group["what_was_run"]["driver"] == "loadgen"
    stream = io.StringIO()
    Console(width=240, file=stream).print(table(comparison))
    assert "warehouses 10, users 8: pmem-both against ssd-both" in stream.getvalue()
    assert "What was run" in stream.getvalue() and "think time" in stream.getvalue()


def test_users_that_are_compared_name_the_arms_and_not_the_heading(tmp_path: Path) -> None:
    made = [run for users in (8, 16) for run in runs(tmp_path, 1, 1.5, users=users)]
    text = write_report(made, tmp_path / "report", over="users").markdown.read_text("utf-8")
    assert "warehouses 10" in text and "users 8," not in text
    assert "| users | 8: 8; 16: 16 |" in text


def test_what_the_window_counted_is_one_table_with_a_column_for_each_transaction(
    tmp_path: Path,
) -> None:
    made = runs(tmp_path, 2, 1.5)
    (panel,) = view_of(made, "x").panels
    (window, *_) = panel.counters
    assert window.work == "transaction"
    each = {row.label: row.each for row in window.rows}
    # 1,000 transactions were done: 450 and 500 were committed, 50 rolled back as they should.
    wal, read = each["postgres wal"], each["tier read, tier ssd"]
    assert wal is not None and (wal[0].median, wal[1]) == (1024, "B")
    assert read is not None and read[0].median == (1 << 30) / 1000
    assert each["duration"] is None and each["dram read bytes per s"] is None


def test_checks_of_many_runs_tell_how_many_each_has(tmp_path: Path) -> None:
    check = {"name": "consistency", "status": "passed", "detail": ""}
    found = [check | {"labels": {"condition": str(number)}} for number in range(1, 13)]
    found.append({"name": "mix", "status": "passed", "detail": "", "labels": {}})
    made = runs(tmp_path, 1, 1.5, run_changes={"checks": found})
    assert checks(made) == [CheckCount("consistency", 24, 0, 0), CheckCount("mix", 2, 0, 0)]


def test_a_finding_that_differs_in_what_was_measured_stands_once(tmp_path: Path) -> None:
    def with_load(load: str, block: int, more: str) -> StoredRun:
        notes = [{"what": "other load", "found": f"load average {load} on 2 processors", "do": "x"},
                 {"what": "swap", "found": f"on node {more}", "do": "y"}]  # fmt: skip
        return write(tmp_path, Case(block=block, run_changes={"uncontrolled": notes}))

    made = [with_load("9.50", 0, "0"), with_load("10.32", 1, "1"), with_load("9.34", 2, "0")]
    assert [one.context for one in uncontrolled(made)] == [
        "load average 9.34 – 10.32 on 2 processors (3 runs)", "on node 0", "on node 1",
    ]  # fmt: skip
    assert uncontrolled(made[:1])[0].context == "load average 9.50 on 2 processors"


def test_sizes_and_thousands_of_a_finding_are_measured(tmp_path: Path) -> None:
    def with_log(found: str, block: int) -> StoredRun:
        notes = [{"what": "full-page-images", "found": found, "do": "x"}]
        return write(tmp_path, Case(block=block, run_changes={"uncontrolled": notes}))

    made = [with_log("9,950 images in 980 MiB of node 0", 0),
            with_log("10,010 images in 1,010 MiB of node 0", 1)]  # fmt: skip
    (one,) = uncontrolled(made)
    assert one.context == "9,950 – 10,010 images in 980 – 1,010 MiB of node 0 (2 runs)"


def test_a_time_that_one_driver_has_not_is_no_text_about_percentiles(tmp_path: Path) -> None:
    made = runs(tmp_path, 1, 1.5)
    kept = [m for m in metrics(9000, 0) if m["name"] != "transaction_duration_ns"]
    other = {"workload": "tpcc", "params": PARAMS, "driver": "hammerdb"}
    made.append(write(tmp_path, Case(placement="ssd-both", metrics=kept, spec_changes=other)))
    found = [table for panel in view_of(made, "x", over="driver").panels for table in panel.tables]
    (times,) = [table for table in found if table.title == "time of a transaction"
                and "hammerdb" in {row.arm for row in table.rows}]  # fmt: skip
    (row,) = [row for row in times.rows
              if (row.label, row.arm) == ("new order, percentile 95", "hammerdb")]  # fmt: skip
    assert (row.summary, row.note) == (None, "") and times.percentiles


def test_lines_of_two_placements_are_told_apart_when_drivers_are_compared(tmp_path: Path) -> None:
    made = [run for users in (8, 16) for run in runs(tmp_path, 1, 1.5, users=users)]
    (sweep,) = sweeps(panels(made, "driver", None))
    names = [line.marked_name for line in sweep.lines]
    assert sorted(names) == ["loadgen, placement pmem-both", "loadgen, placement ssd-both"]


def test_percentiles_that_a_driver_tells_stand_beside_those_of_histograms(tmp_path: Path) -> None:
    """HammerDB's: they are named as what they are, and compared with that said."""
    made = runs(tmp_path, 1, 1.5)[:1]
    kept = [m for m in metrics(9000, 0) if m["name"] != "transaction_duration_ns"]
    told = {"name": "transaction_percentile_ns", "unit": "ns", "better": "lower", "value": 9e7,
            "labels": {"transaction": "new_order", "percentile": "95"}}  # fmt: skip
    other = {"workload": "tpcc", "params": PARAMS, "driver": "hammerdb"}
    made.append(write(tmp_path, Case(metrics=[*kept, told], spec_changes=other)))
    view = view_of(made, "x", over="driver")
    (row,) = [row for table in view.panels[0].tables for row in table.rows
              if (row.label, row.arm) == ("new order, percentile 95", "hammerdb")]  # fmt: skip
    assert row.summary is not None and (row.summary.median, row.marks) == (9e7, "‡")
    assert row.compared is not None and row.compared.told and row.compared.estimate
    assert any(spread.ready_made for spread in view.agreements[0].spreads)


def test_durability_stands_apart_from_speed(tmp_path: Path) -> None:
    params = PARAMS | {"test": "durability"}
    asked = [{"name": "durability", "status": "passed", "detail": "", "labels": {"of": name}}
             for name in ("new_order", "payment")]  # fmt: skip
    found = [
        {"name": "recovery_duration_ns", "unit": "ns", "better": "lower", "labels": {},
         "value": 2e9},
        {"name": "journal_committed_count", "unit": "1", "better": "none", "value": 1234,
         "labels": {"transaction": "new_order"}},
    ]  # fmt: skip
    spec = {"workload": "tpcc", "params": params, "driver": "loadgen"}
    lost = [asked[0], asked[1] | {"status": "failed", "detail": "3 are not there"}]
    made = [
        write(tmp_path, Case(metrics=found, spec_changes=spec, run_changes={"checks": asked})),
        write(tmp_path, Case(status="failed", block=1, spec_changes=spec,
                             run_changes={"checks": lost})),
    ]  # fmt: skip
    (row,) = view_of(made, "x").durability
    assert (row.arm, row.passed, row.checked) == ("ssd-both", 1, 2)
    assert row.committed == {"new order": 1234} and row.killed_after is None
    assert row.recovery is not None and row.recovery.median == 2e9


def test_parts_with_nothing_to_compare_are_listed(tmp_path: Path) -> None:
    made = [run for users in (4, 8, 16) for run in runs(tmp_path, 1, 1.5, users=users)[:1]]
    singles = view_of(made, "x").singles
    assert [one.panel.partition("users ")[2] for one in singles] == [
        f"{users}, TPC-C-derived" for users in (4, 8, 16)
    ]
    assert {one.metric for one in singles} == {"New-Orders per minute, TPC-C-derived"}


def test_several_workloads_are_told_apart_by_their_names_and_not_by_parameters(
    tmp_path: Path,
) -> None:
    made = [*runs(tmp_path, 1, 1.5), write(tmp_path, Case(queries=(1,), plans=False))]
    assert [one.panel.title for one in view_of(made, "x").panels] == [
        "postgres 18.4, TPC-C-derived, warehouses 10, users 8", "postgres 18.4, TPC-H-derived",
    ]  # fmt: skip
