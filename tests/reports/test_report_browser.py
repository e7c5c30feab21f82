"""The report in a real browser."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from report_browser import open_at, requested, worst_contrast
from report_runs import EMULATED, Case, demo, write
from selenium.webdriver import Chrome

from reports.report import write_report

HOSTILE = "<img src=x onerror=document.title='owned'>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that a report can hold: two engines, three placements, emulated, failed, unknown."""
    folder = tmp_path_factory.mktemp("runs")
    placements = ("ssd-both", "pmem-both", "ssd-data-pmem-wal")
    runs = demo(folder, placements=placements, blocks=2)
    extra = {"block": 2, "emulated": EMULATED, "placement": "pmem-both"}
    runs.append(write(folder, Case(status="failed", **extra)))
    runs.append(write(folder, Case(status="unknown", engine="duckdb", **extra)))
    runs.append(
        write(folder, Case(block=3, run_changes={"uncontrolled": [
            {"what": HOSTILE, "found": "a-very-long-word" * 20, "do": HOSTILE}]}))
    )  # fmt: skip
    return write_report(runs, folder / "report", title="Does PMem pay?").html


def test_nothing_is_fetched_and_nothing_goes_wrong(browser: Chrome, page: Path) -> None:
    browser.get_log("performance")
    open_at(browser, page, 1280)
    urls = requested(browser)
    assert page.as_uri() in urls
    assert [url for url in urls if url != page.as_uri() and not url.startswith("data:")] == []
    assert browser.get_log("browser") == []
    assert browser.title == "Does PMem pay? (EMULATED)"  # the hostile text was not run


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_does_not_scroll_sideways(browser: Chrome, page: Path, width: int) -> None:
    open_at(browser, page, width)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    inner, scroll = browser.execute_script(
        "return [document.documentElement.clientWidth, document.documentElement.scrollWidth]"
    )
    assert scroll <= inner <= width


@pytest.mark.parametrize("width", [400, 1280])
def test_every_figure_is_drawn_and_named(browser: Chrome, page: Path, width: int) -> None:
    open_at(browser, page, width)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    charts: list[dict[str, Any]] = browser.execute_script(
        """return [...document.querySelectorAll('figure.chart')].map(f => {
             const svg = f.querySelector('svg'), box = svg.getBoundingClientRect();
             return {width: box.width, height: box.height,
                     shapes: [...svg.querySelectorAll('path, use')]
                       .filter(s => s.getBoundingClientRect().width > 0).length,
                     alt: f.querySelector('[role=img]').getAttribute('aria-label')}})"""
    )
    # The overview, and for two engines: times, speed-ups, operators, bytes per tier, memory.
    assert len(charts) == 11
    for chart in charts:
        assert chart["width"] > 300 and chart["height"] > 100 and chart["shapes"] > 10
        assert chart["alt"]


def test_the_first_screen_holds_every_verdict_and_the_overview(browser: Chrome, page: Path) -> None:
    open_at(browser, page, 1300)
    shown = browser.execute_script(
        """const box = e => e.getBoundingClientRect();
           return {badges: [...document.querySelectorAll('.answers .badge')]
                     .filter(b => !b.closest('details')).map(b => box(b).bottom),
                   right: Math.max(...[...document.querySelectorAll('.answers td')]
                     .map(e => box(e).right)),
                   overview: box(document.querySelector('#figure-overview')).bottom}"""
    )
    assert len(shown["badges"]) == 4  # two engines, two placements besides the baseline
    assert max(*shown["badges"], shown["overview"]) <= 900
    assert shown["right"] <= 1300


def test_the_reader_sees_what_must_be_seen(browser: Chrome, page: Path) -> None:
    open_at(browser, page, 400)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    text = browser.execute_script("return document.body.innerText")
    assert text.count("EMULATED") > 10
    for shown in ("not resolvable", "server died", "†", HOSTILE):
        assert shown in text
    charts = browser.execute_script(
        "return [...document.querySelectorAll('figure.chart svg')].map(s => s.textContent)"
    )
    assert all("EMULATED" in chart for chart in charts)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_either_scheme(browser: Chrome, page: Path, scheme: str) -> None:
    worst = worst_contrast(browser, page, scheme)
    assert worst["ratio"] >= 4.5, worst


def test_paper_shows_what_is_folded_on_screen(browser: Chrome, tmp_path: Path) -> None:
    run = write(tmp_path, Case(queries=(1,), plans=False))
    open_at(browser, write_report([run], tmp_path / "report").html, 1280)
    browser.execute_script(
        """window.opened = 0;
           addEventListener('beforeprint', () =>
             opened = document.querySelectorAll('details[open]').length)"""
    )
    pdf = browser.execute_cdp_cmd("Page.printToPDF", {})
    assert base64.b64decode(pdf["data"]).startswith(b"%PDF")
    folded = browser.execute_script("return document.querySelectorAll('details').length")
    assert browser.execute_script("return opened") == folded > 0
    assert browser.execute_script("return document.querySelectorAll('details[open]').length") == 0
