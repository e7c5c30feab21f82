"""A workload states its metrics in its own folder, and they appear wherever runs are shown."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
from narrowed import present
from report_runs import interleaved, metric

from harness.cli import show
from harness.errors import UsageError
from harness.metrics import Chart, metrics
from harness.store.runs import StoredRun
from reports.charts import CHARTS
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


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ("rôle: headline", ("'rôle'", "'role'")),
        ("role: headlin", ("metrics.x_ns.role", "'headline'")),
        ("role: detail, chart: rate", ("metrics.x_ns.chart", "'rates'")),
        ("role: headline, stands_for: [results]", ("stands_for.0", "'result'")),
    ],
)
def test_what_a_file_misstates_is_refused_with_line_and_nearest_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, names: tuple[str, ...]
) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "metrics.yml").write_text(f"metrics:\n  x_ns: {{title: x, {wrong}}}\n")
    monkeypatch.setenv("HARNESS_WORKLOAD_PATH", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        metrics()
    assert caught.value.problem.endswith("odd/metrics.yml:2")
    assert all(name in caught.value.context for name in names), caught.value.context


@pytest.mark.parametrize(
    "stated",
    [
        "metrics: {operations_per_second: {title: requests, role: headline}}",
        "parameters: {rate: {words: speed of the belt}}",
    ],
)
def test_names_that_another_file_states_differently_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: str
) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/metrics.yml").write_text(f"title: odd\n{stated}\n", encoding="utf-8")
    monkeypatch.setenv("HARNESS_WORKLOAD_PATH", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        metrics()
    assert "workloads/metrics.yml" in f"{caught.value.problem} {caught.value.context}"
    assert str(tmp_path) in f"{caught.value.problem} {caught.value.context}"


def test_every_chart_that_a_file_may_name_is_drawn() -> None:
    assert set(CHARTS) == set(get_args(Chart))


def test_its_parameters_need_no_prefix_where_runs_are_compared_over_one(tmp_path):
    runs = [run for run in counting_runs(tmp_path) if run.spec.where == "ssd-both"]
    few, many = ([run for run in runs if run.spec.params["rows"] == n] for n in ROWS[:2])
    assert compare(few, many, over=["rows"]).over == ("params.rows",)
    assert [panel.over for panel in panels(runs, "rows", None)] == ["params.rows"]


@pytest.mark.parametrize(
    ("values", "deciding"),
    [
        ({"counts_per_second": 3.0, "a_new_rate": 5.0}, "counts_per_second"),
        ({"counts_per_second": 0.0, "a_new_rate": 5.0}, None),  # it has no ratio
        ({"a_new_rate": 5.0}, "a_new_rate"),
        ({"a_new_rate": 5.0, "another_rate": 7.0}, None),
    ],
)
def test_a_metric_that_no_file_states_decides_only_where_it_is_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, float], deciding: str | None
) -> None:
    monkeypatch.setenv("HARNESS_WORKLOAD_PATH", TOYS)
    a, b = interleaved(
        tmp_path,
        lambda place, block: [metric(name, value, "higher") for name, value in values.items()],
        spec_changes={"workload": "counting", "params": {"rows": 1000, "times": 3}},
    )
    (group,) = compare(a, b).groups
    quantity = group.headline.quantity
    assert (quantity and quantity.name) == deciding
