"""A report and a card of devices in a real browser: nothing cut, nothing over anything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from micro_runs import DRAM, KINDS, card_run, duration, micro_run, rate
from report_runs import PMEM, Case, demo, write

from reports.micro.report import write_cards
from reports.report import Report

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.draws

HOSTILE = "<img src=x onerror=document.title='owned'>"


@pytest.fixture(scope="module")
def report_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that a report can hold: two engines, three placements, emulated, failed, unknown."""
    folder = tmp_path_factory.mktemp("runs")
    placements = ("ssd-both", "pmem-both", "ssd-data-pmem-wal")
    runs = demo(folder, placements=placements, blocks=2)
    extra: dict[str, Any] = {"block": 2, "emulated": True, "placement": "pmem-both"}
    runs.append(write(folder, Case(status="failed", **extra)))
    runs.append(write(folder, Case(status="unknown", engine="duckdb", **extra)))
    runs.append(
        write(folder, Case(block=3, run_changes={"uncontrolled": [
            {"code": "a-code", "what": HOSTILE, "found": "a-very-long-word" * 20, "do": HOSTILE}]}))
    )  # fmt: skip
    return Report(runs, title="Does PMem pay?").write(folder / "report").html


@pytest.fixture(scope="module")
def card_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hosts, one of them emulated, with names as long as they get."""
    folder = tmp_path_factory.mktemp("runs")
    long = "a_measurement_with_a_name_that_does_not_fit_above_its_axes"
    metrics = [
        rate(long, size / 64, 11, **KINDS["clwb"], pattern="sequential_desc", threads=threads,
             access_size_bytes=size, numa=numa)
        for size in (64, 256, 1024) for threads in (1, 16) for numa in ("near", "far")
    ]  # fmt: skip
    metrics += [duration("overwrite_tail", {"90": 99, "70000": 1}, hotspot_bytes=size,
                     **KINDS["ntstore"]) for size in (256, 4096, 65536)]  # fmt: skip
    metrics += _beside_loads()
    depths = [rate("random_read", depth / 4, 11, operation="read", queue_depth=depth,
                   access_size_bytes=4096) for depth in (1, 2, 4, 8, 16, 32)]  # fmt: skip
    runs = [
        card_run(folder, host="a-server-with-a-long-name"),
        micro_run(folder, metrics, host="a-server-with-a-long-name", suite="mine"),
        micro_run(folder, depths, host="a-server-with-a-long-name", suite="block-io"),
        card_run(folder, DRAM, host="lab2", emulated=[PMEM]),
    ]
    return write_cards(runs, folder / "card").html


def _beside_loads() -> list[dict[str, Any]]:
    """Metrics of the load and of what waits, as the suite of FAST'20's Figure 6 stores them."""
    metrics = []
    for place, pace in enumerate((250e6, 500e6, 1e9, 2e9, 4e9, 8e9, 16e9)):
        for kind, share in (("load", None), ("mixed", 0.67)):
            named: dict[str, Any] = {"configuration": f"write_latency/kernel={kind},pace={pace:g}"}
            had = rate("write_latency", 0.9 * pace / 1e9, 3, **named, job="load", operation=kind,
                       pace_bytes_per_second=int(pace))  # fmt: skip
            waits = duration("write_latency", {str(90 + 20 * place): 99}, **named, job="probe",
                             load_operation=kind, load_bytes_per_second=int(pace),
                             **({"load_read_share": share} if share else {}))  # fmt: skip
            waits |= {"name": "mean_latency_of_256_loads_ns", "better": "none"}
            metrics += [had, waits]
    return metrics


@pytest.fixture(params=["report_page", "card_page"])
def page(request: pytest.FixtureRequest) -> Path:
    """Either page."""
    path: Path = request.getfixturevalue(request.param)
    return path


def open_at(browser: Chrome, page: Path, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())


def requested(browser: Chrome) -> list[str]:
    messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


#: The lowest contrast (WCAG 2.1, 1.4.3) of any text outside the charts.
CONTRAST = (Path(__file__).parent / "contrast.js").read_text("utf-8")


def worst_contrast(browser: Chrome, page: Path, scheme: str) -> Any:
    """The text that stands out least from what is behind it, in ``light`` or ``dark``."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    open_at(browser, page, 1280)
    worst = browser.execute_script(CONTRAST)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    return worst


def open_all(browser: Chrome, page: Path, width: int) -> None:
    open_at(browser, page, width)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")


def check_nothing_is_fetched(browser: Chrome, page: Path) -> None:
    """The page itself is the only request, and the browser has nothing to complain about."""
    browser.get_log("performance")
    browser.get_log("browser")
    open_at(browser, page, 1280)
    fetched = [url for url in requested(browser) if not url.startswith("data:")]
    assert fetched == [page.as_uri()]
    assert browser.get_log("browser") == []


def check_width(browser: Chrome, page: Path, width: int) -> None:
    """The page does not scroll sideways, with all its details open."""
    open_all(browser, page, width)
    inner, scroll = browser.execute_script(
        "return [document.documentElement.clientWidth, document.documentElement.scrollWidth]"
    )
    assert scroll <= inner <= width


# Both -----------------------------------------------------------------------------


def test_nothing_is_fetched_and_nothing_goes_wrong(browser: Chrome, page: Path) -> None:
    check_nothing_is_fetched(browser, page)


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_does_not_scroll_sideways(browser: Chrome, page: Path, width: int) -> None:
    check_width(browser, page, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_either_scheme(browser: Chrome, page: Path, scheme: str) -> None:
    worst = worst_contrast(browser, page, scheme)
    assert worst["ratio"] >= 4.5, worst


# The report -----------------------------------------------------------------------


def test_hostile_text_is_not_run(browser: Chrome, report_page: Path) -> None:
    open_at(browser, report_page, 1280)
    assert browser.title == "Does PMem pay? (EMULATED)"


@pytest.mark.parametrize("width", [400, 1280])
def test_every_figure_is_drawn_and_named(browser: Chrome, report_page: Path, width: int) -> None:
    open_all(browser, report_page, width)
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


def test_the_first_screen_holds_every_verdict_and_the_overview(browser, report_page):
    open_at(browser, report_page, 1300)
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


# The card --------------------------------------------------------------------------


@pytest.mark.parametrize("width", [400, 1280])
def test_no_text_of_a_chart_is_cut_or_lies_over_another(browser, card_page, width):
    open_all(browser, card_page, width)
    layout: dict[str, Any] = browser.execute_script(TEXTS)
    assert layout["texts"] > 200
    assert layout["cut"] == []
    assert layout["over"] == []


#: Of every chart: texts that leave it, and pairs of them that lie over one another.
TEXTS = (Path(__file__).parent / "chart_texts.js").read_text("utf-8")
