"""The picture of predicted and measured speed-ups, and the page that ``harness explain`` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from explained_runs import baseline_suite, tpcc
from test_browser import TEXTS, open_all
from typer.testing import CliRunner

from harness.cli.app import app
from harness.store.run_store import Store
from reports.charts.scatter import model_errors, scatter
from reports.explain.correlation import CheckedPrediction
from reports.explain.devices import TierSources
from reports.host_models import ErrorOnHost
from reports.page import write_page
from reports.report import Report
from reports.sections import Drawing, drawings
from reports.statistics import Value

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

ENGINES = ("postgres", "mysql", "mariadb", "rocksdb", "duckdb", "sqlserver", "spark", "voltdb")


def drawn(*speed_ups: float, engines: tuple[str, ...] = ENGINES[:1]) -> Drawing:
    """Each engine's, predicted 20 % too high by baselines and exactly by models."""
    checked = [
        CheckedPrediction(engine, Value(by, 0.9 * by, 1.1 * by), Value(real), modelled)
        for engine in engines
        for real in speed_ups
        for by, modelled in ((1.2 * real, False), (real, True))
    ]
    drawing = scatter(checked, "predicted", ("pmem by tmpfs",))
    assert drawing is not None
    return drawing


def test_nothing_is_drawn_of_nothing() -> None:
    assert scatter([], "predicted") is None


def test_its_words_name_the_engines_and_both_sides() -> None:
    alt = drawn(1.5, 4.0).alt
    assert "postgres" in alt and "1.80× – 4.80×" in alt and "1.50× – 4.00×" in alt


def errors_on(*hosts: str) -> list[ErrorOnHost]:
    """Throughput 2 % too high, and device time by more on each next host."""
    return [
        ErrorOnHost(host, engine, "users=8", of_device, Value(ratio, 0.95 * ratio, 1.06 * ratio))
        for number, host in enumerate(hosts, 1)
        for engine in ENGINES[:3]
        for of_device, ratio in ((False, 1.02), (True, 1 + number / 10))
    ]


def test_models_errors_are_named_by_host() -> None:
    assert model_errors([], ["lab1"], "errors") is None
    drawing = model_errors(errors_on("lab1", "lab2"), ["lab1", "lab2"], "errors")
    assert drawing is not None
    assert "lab1, throughput 1.02×" in drawing.alt and "lab2, time of calls 1.20×" in drawing.alt


@pytest.mark.draws
@pytest.mark.parametrize("count", [2, 6])
def test_names_of_hosts_fit_below_their_marks(browser: Chrome, tmp_path: Path, count: int) -> None:
    hosts = [f"a-server-with-a-long-name-{number}" for number in range(count)]
    drawing = model_errors(errors_on(*hosts), hosts, "errors")
    assert drawing is not None
    write_page(tmp_path, "report", "Hosts", [drawing])
    open_all(browser, tmp_path / "report.html", 1280)
    texts: dict[str, Any] = browser.execute_script(TEXTS)
    assert texts["texts"] > count and texts["cut"] == [] and texts["over"] == []


@pytest.mark.draws
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize(
    ("speed_ups", "engines"),
    [((1.0, 1.02), ENGINES[:1]), ((0.5, 1.5, 14.0), ENGINES), ((1.1, 180.0), ENGINES[:3])],
    ids=["near 1", "eight engines", "wide"],
)
def test_no_label_is_cut_or_lies_over_another(browser: Chrome, tmp_path, speed_ups, engines, width):
    write_page(tmp_path, "explain", "Device and engine", [drawn(*speed_ups, engines=engines)])
    open_all(browser, tmp_path / "explain.html", width)
    texts: dict[str, Any] = browser.execute_script(TEXTS)
    assert texts["texts"] > 8
    assert texts["cut"] == [] and texts["over"] == []


@pytest.mark.draws
def test_the_command_writes_a_page_with_the_picture(tmp_path: Path) -> None:
    for block in range(6):
        for placement, rate in (("ssd-both", 60_000), ("pmem-both", 100_000)):
            tpcc(tmp_path, placement, block, rate)
    baseline_suite(tmp_path, "ssd", {"read": 90.0, "write": 60.0, "sync": 410.0})
    baseline_suite(tmp_path, "pmem", {"read": 3.0, "write": 3.0, "sync": 4.0})
    out = tmp_path / "page"
    command = ["explain", "--results", str(tmp_path)]
    hinted = CliRunner().invoke(app, command)
    assert hinted.exit_code == 0 and "--out explain" in hinted.stdout
    done = CliRunner().invoke(app, [*command, "--out", str(out), "--json"])
    document = json.loads(done.stdout)
    assert document["correlation"]["rows"] == 1
    assert document["comparisons"][0]["predicted"]["value"] > 1
    assert Path(document["page"]).read_text("utf-8").count("<svg ") == 1
    assert document["picture"] == str(out / "figures/predicted.svg")
    assert (out / "figures/predicted.svg").exists()


def test_the_report_has_the_picture(tmp_path: Path) -> None:
    runs = [tpcc(tmp_path, placement) for placement in ("ssd-both", "pmem-both")]
    for tier, us in (("ssd", 100.0), ("pmem", 3.0)):
        baseline_suite(tmp_path, tier, dict.fromkeys(("read", "write", "sync"), us))
    sources = TierSources.of(Store(tmp_path).runs(), ())
    names = [drawing.name for drawing in drawings(Report(runs, sources=sources).blocks())]
    assert "predicted" in names
