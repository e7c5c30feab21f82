"""A workload states its metrics in its own folder, and they appear wherever runs are shown."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from narrowed import present
from report_runs import interleaved, metric

from harness.cli import show
from harness.errors import UsageError
from harness.metrics import metrics
from harness.store.runs import StoredRun
from reports.compare import compare
from reports.response import measured_of
from reports.series import panels

TOYS = str(Path(__file__).parents[1] / "toy_workloads")
GB = 10**9
ROWS = (1000, 2000, 4000)


def counting_runs(root: Path) -> list[StoredRun]:
    """Runs on two tiers, over the number of rows."""

    def measured(rows: int, place: str, block: int) -> list[dict[str, Any]]:
        total = 9e6 if "pmem" in place else 3e6
        return [metric("counts_per_second", total / rows + block, "higher")]

    return [
        run
        for rows in ROWS
        for arm in interleaved(
            root,
            partial(measured, rows),
            spec_changes={"workload": "counting", "params": {"rows": rows, "times": 3}},
            run_changes={"part_bytes": {"data": 90 * GB, "wal": 10 * GB, "temp": 0, "index": 0}},
        )
        for run in arm
    ]


def printed(root: Path, *argv: str) -> str:
    """Print of a command that knows the toy."""
    done = subprocess.run(
        [sys.executable, "-c", "from harness.cli import main; main()", *argv],
        cwd=root,
        env=os.environ | {"HARNESS_WORKLOAD_PATH": TOYS, "HARNESS_RESULTS": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.system
def test_a_headline_of_its_own_appears_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = counting_runs(tmp_path)
    first = runs[0].run_id

    assert "3,000 counts/s" in printed(tmp_path, "runs", "list")
    assert "counts_per_second" in printed(tmp_path, "runs", "show", first)

    sides = ("placement=ssd-both", "placement=pmem-both", "params.rows=1000")
    compared = json.loads(printed(tmp_path, "compare", *sides, "--json"))
    (group,) = compared["groups"]
    assert group["headline"]["metric"] == "counts_per_second"

    printed(tmp_path, "report", "-e", "demo", "--out", str(tmp_path / "page"))
    page = (tmp_path / "page/report.md").read_text()
    assert "counts per second" in page and "Price-performance" in page
    names = {path.name for path in (tmp_path / "page").rglob("*.svg")}
    assert any(name.endswith("-rate.svg") for name in names), names

    monkeypatch.setenv("HARNESS_WORKLOAD_PATH", TOYS)
    assert present(measured_of(runs[:6])).unit == "counts/s"


def test_its_parameters_have_words_and_its_checks_a_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HARNESS_WORKLOAD_PATH", TOYS)
    check = {"name": "count", "status": "passed", "detail": "1000", "labels": {}}
    runs = [
        run
        for times in (3, 4)
        for run in interleaved(
            tmp_path,
            lambda place, block: [metric("counts_per_second", 1.0, "higher")],
            spec_changes={"workload": "counting", "params": {"rows": 1000, "times": times}},
            run_changes={"checks": [check]},
        )[0]
    ]
    show.runs(runs, json_=False)
    head, *rows = capsys.readouterr().out.splitlines()[-1 - len(runs) :]
    assert "counts of the table" in head and "counts/s" in head
    assert all("1/1 right" in row for row in rows)


def test_a_key_that_is_none_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "metrics.yml").write_text("metrics: {x_ns: {title: x, rôle: headline}}\n")
    monkeypatch.setenv("HARNESS_WORKLOAD_PATH", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        metrics()
    assert "odd/metrics.yml: x_ns" in caught.value.problem
    assert "'rôle'" in caught.value.context


def test_its_parameters_need_no_prefix_where_runs_are_compared_over_one(tmp_path):
    runs = [run for run in counting_runs(tmp_path) if run.spec.where == "ssd-both"]
    few, many = ([run for run in runs if run.spec.params["rows"] == n] for n in ROWS[:2])
    assert compare(few, many, over=["rows"]).over == ("params.rows",)
    assert [panel.over for panel in panels(runs, "rows", None)] == ["params.rows"]
