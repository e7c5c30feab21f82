"""The cause on the first screen, one row for each metric, and the same numbers in report.csv."""

from __future__ import annotations

from pathlib import Path

import explained_runs
import pytest
from explained_runs import tpcc
from narrowed import of_kind
from report_runs import csv_rows

from harness.store.runs import StoredRun
from reports.explain.causes import cause, file_operations
from reports.report import Report
from reports.sections import Block, Drawing, Section, Table

PLACES = ("ssd-both", "pmem-both")


def pairs(root: Path) -> list[StoredRun]:
    return [
        tpcc(root, place, block, rate=1000 * (1 + gain) + block)
        for block in range(6)
        for gain, place in enumerate(PLACES)
    ]


def first_screen(view: Report) -> list[Block]:
    """Until the first part that is closed."""
    blocks = list(view.blocks())
    folded = (
        at for at, one in enumerate(blocks) if isinstance(one, Section) and one.kind == "fold"
    )
    return blocks[: next(folded)]


def test_the_first_screen_has_the_time_by_resource_and_the_longest_calls(tmp_path: Path) -> None:
    shown = first_screen(Report(pairs(tmp_path)))
    (pair,) = (one for one in shown if isinstance(one, Section))
    drawing, table = pair.blocks
    assert of_kind(Drawing, drawing).name == "1-resources"
    rows = {str(row[0]): row[1] for row in of_kind(Table, table).rows}
    assert list(rows) == ["sync of the WAL", "write of the WAL", "read of the data"]
    assert rows["sync of the WAL"] == "1.00 × 400 µs = 400 µs"


def test_calls_are_counted_for_each_unit_of_work(tmp_path: Path) -> None:
    (panel,) = Report(pairs(tmp_path)).panels
    sync, *_ = file_operations(panel.arms)
    assert [calls for calls, _ in sync.by_arm] == [1, 1]
    assert sync.longest_ns == pytest.approx(400_000, rel=0.01)


def test_the_csv_has_the_numbers_of_the_tables(tmp_path: Path) -> None:
    view = Report(pairs(tmp_path))
    (group,) = view.panels[0].groups
    row = group.deciding
    assert row is not None and row.estimate is not None and row.b is not None
    files = view.write(tmp_path / "report")
    found = [one for one in csv_rows(files.csv) if one["metric"] == "new_orders_per_minute"]
    by_arm = {one["arm"]: one for one in found}
    assert float(by_arm["pmem-both"]["times_better"]) == row.ratio
    assert float(by_arm["pmem-both"]["median"]) == row.b.median
    assert by_arm["pmem-both"]["verdict"] == row.verdict == "faster"
    assert by_arm["ssd-both"]["times_better"] == ""


@pytest.mark.parametrize(("rate", "named"), [(2000, True), (500, False)])
def test_a_shorter_call_is_no_cause_of_slower_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: int, named: bool
) -> None:
    slow = [tpcc(tmp_path, "ssd-both", block, rate=1000 + block) for block in range(6)]
    monkeypatch.setitem(explained_runs.CALLS, ("wal", "sync"), (1000, 4))
    fast = [tpcc(tmp_path, "pmem-both", block, rate=rate + block) for block in range(6)]
    assert bool(cause(slow, fast)) == named
