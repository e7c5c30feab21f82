"""The card of devices in a real browser: nothing cut, nothing over anything else, axes named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from micro_runs import DRAM, KINDS, card_run, duration, micro_run, rate
from report_browser import open_at, requested, worst_contrast
from report_runs import EMULATED
from selenium.webdriver import Chrome

from reports.micro.report import write_cards


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hosts, one of them emulated, with names as long as they get."""
    folder = tmp_path_factory.mktemp("runs")
    long = "a_measurement_with_a_name_that_does_not_fit_above_its_axes"
    own = [
        rate(long, size / 64, 11, **KINDS["clwb"], pattern="sequential_desc", threads=threads,
             access_size_bytes=size, numa=numa)
        for size in (64, 256, 1024) for threads in (1, 16) for numa in ("near", "far")
    ]  # fmt: skip
    own += [duration("overwrite_tail", {"90": 99, "70000": 1}, hotspot_bytes=size,
                     **KINDS["ntstore"]) for size in (256, 4096, 65536)]  # fmt: skip
    own += _beside_loads()
    depths = [rate("random_read", depth / 4, 11, operation="read", queue_depth=depth,
                   access_size_bytes=4096) for depth in (1, 2, 4, 8, 16, 32)]  # fmt: skip
    runs = [
        card_run(folder, host="a-server-with-a-long-name"),
        micro_run(folder, own, host="a-server-with-a-long-name", suite="mine"),
        micro_run(folder, depths, host="a-server-with-a-long-name", suite="block-io"),
        card_run(folder, DRAM, host="lab2", emulated=EMULATED),
    ]
    return write_cards(runs, folder / "card").html


def _beside_loads() -> list[dict[str, Any]]:
    """What loads and what waits, as the suite of FAST'20's Figure 6 stores it."""
    found = []
    for place, pace in enumerate((250e6, 500e6, 1e9, 2e9, 4e9, 8e9, 16e9)):
        for kind, share in (("load", {}), ("mixed", {"load_read_share": 0.67})):
            named = {"configuration": f"write_latency/kernel={kind},pace={pace:g}"}
            had = rate("write_latency", 0.9 * pace / 1e9, 3, **named, job="load", operation=kind,
                       pace_bytes_per_second=f"{pace:.0f}")  # fmt: skip
            waits = duration("write_latency", {str(90 + 20 * place): 99}, **named, job="probe",
                             load_operation=kind, load_bytes_per_second=f"{pace:.0f}",
                             **share)  # fmt: skip
            waits |= {"name": "mean_latency_of_256_loads_ns", "better": "none"}
            found += [had, waits]
    return found


def open_all(browser: Chrome, page: Path, width: int) -> None:
    open_at(browser, page, width)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")


def test_nothing_is_fetched_and_the_console_is_silent(browser: Chrome, page: Path) -> None:
    browser.get_log("performance")
    browser.get_log("browser")
    open_at(browser, page, 1280)
    fetched = [url for url in requested(browser) if not url.startswith("data:")]
    assert fetched == [page.as_uri()]
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_does_not_scroll_sideways(browser: Chrome, page: Path, width: int) -> None:
    open_all(browser, page, width)
    inner, scroll = browser.execute_script(
        "return [document.documentElement.clientWidth, document.documentElement.scrollWidth]"
    )
    assert scroll <= inner <= width


@pytest.mark.parametrize("width", [400, 1280])
def test_no_text_of_a_chart_is_cut_or_lies_over_another(
    browser: Chrome, page: Path, width: int
) -> None:
    open_all(browser, page, width)
    found: dict[str, Any] = browser.execute_script(TEXTS)
    assert found["texts"] > 200
    assert found["cut"] == []
    assert found["over"] == []


def test_every_axis_has_its_name_and_unit(browser: Chrome, page: Path) -> None:
    open_all(browser, page, 1280)
    axes: list[dict[str, Any]] = browser.execute_script(AXES)
    assert len(axes) > 15
    for one in axes:
        assert one["x"] and one["y"], one
        assert any(unit in tick for tick in one["ticks"] for unit in ("B/s", "ns", "µs", "ms")), one
        counted = ("threads", "queue depth", "share of reads")
        sized = any("B" in tick for tick in one["x_ticks"])
        assert sized or one["x"].startswith(counted), one


def test_a_chart_tells_its_title_once(browser: Chrome, page: Path) -> None:
    open_all(browser, page, 1280)
    twice = browser.execute_script(
        """return [...document.querySelectorAll('figure.chart svg')].map(svg => {
             const said = [...svg.querySelectorAll('text')].map(t => t.textContent)
               .filter(t => t.length > 25);
             return said.filter((t, i) => said.indexOf(t) !== i) }).flat()"""
    )
    assert twice == []


def test_what_decides_is_said_beside_the_verdicts(browser: Chrome, page: Path) -> None:
    open_at(browser, page, 1280)
    text = browser.execute_script("return document.body.innerText")
    assert text.count("Holm–Bonferroni") == 2  # on both devices
    assert "knee shown" in text and "EMULATED" in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_either_scheme(browser: Chrome, page: Path, scheme: str) -> None:
    worst = worst_contrast(browser, page, scheme)
    assert worst["ratio"] >= 4.5, worst


#: Of every chart: texts that leave it, and pairs of them that lie over one another.
TEXTS = """
const cut = [], over = []; let texts = 0;
for (const svg of document.querySelectorAll('figure.chart svg')) {
  const whole = svg.getBoundingClientRect();
  const held = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim())
    .map(t => ({said: t.textContent, box: t.getBoundingClientRect()}));
  texts += held.length;
  for (const {said, box} of held)
    if (box.left < whole.left - 1 || box.right > whole.right + 1 ||
        box.top < whole.top - 1 || box.bottom > whole.bottom + 1) cut.push(said);
  held.forEach((a, i) => held.slice(i + 1).forEach(b => {
    const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
    const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
    if (wide > 2 && high > 4) over.push([a.said, b.said]) }));
}
return {texts, cut, over};
"""
#: Of every pair of axes: their names, and what stands at their ticks.
AXES = """
const words = g => [...g.querySelectorAll('text')].map(t => t.textContent).join(' ').trim();
const named = axis => [...axis.children].filter(c => /text_\\d+$/.test(c.id)).map(words).join(' ');
const ticks = axis => [...axis.children].filter(c => /tick_\\d+$/.test(c.id)).map(words)
  .filter(t => t);
return [...document.querySelectorAll('figure.chart svg g')]
  .filter(g => /axes_\\d+$/.test(g.id) && g.querySelector('[id*="matplotlib.axis_"]'))
  .map(g => { const [x, y] = g.querySelectorAll(':scope > [id*="matplotlib.axis_"]');
    return {x: named(x), y: named(y), x_ticks: ticks(x), ticks: ticks(y)} });
"""
