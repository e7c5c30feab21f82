"""A site in a real browser: readable, usable by keyboard, and without any request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from micro_runs import card_run
from report_runs import Case, demo, write
from test_basis import execution
from test_browser import (
    HOSTILE,
    check_nothing_is_fetched,
    check_width,
    open_all,
    open_at,
    worst_contrast,
)
from test_site import OTHER_HOST, written

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.draws

MISSING = (Path(__file__).parent / "accessibility.js").read_text("utf-8")
KINDS = ("index", "experiments", "comparisons", "hosts", "history")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All kinds of pages, of two stores: emulated tiers, a card, failed and damaged runs."""
    folder = tmp_path_factory.mktemp("stores")
    places = ("ssd-both", "pmem-both", "ssd-data-pmem-wal")
    demo(folder / "a", placements=places, blocks=2, queries=(1, 6, 9), experiment=HOSTILE)
    write(folder / "a", Case(status="failed", block=3, queries=(1,), experiment=HOSTILE))
    for day in range(14):
        execution(folder / "b", day, 2 + (day > 6) + day % 3 / 100)
    damaged = write(folder / "b", Case(manifest_changes=OTHER_HOST, block=9))
    (damaged.directory / "run.json").write_text("{")
    card_run(folder / "b", host="a-server-with-a-long-name")
    written(folder / "site", folder / "a", folder / "b")
    return folder / "site"


@pytest.fixture(params=KINDS)
def page(request: pytest.FixtureRequest, site: Path) -> Path:
    """Return a page of each kind, the largest one."""
    if request.param == "index":
        return site / "index.html"
    pages = (site / str(request.param)).iterdir()
    return max(pages, key=lambda path: path.stat().st_size)


def test_nothing_is_fetched_and_nothing_goes_wrong(browser: Chrome, page: Path) -> None:
    check_nothing_is_fetched(browser, page)
    assert browser.title != "owned"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_either_scheme(browser: Chrome, page: Path, scheme: str) -> None:
    worst = worst_contrast(browser, page, scheme)
    assert worst["ratio"] >= 4.5, worst


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_does_not_scroll_sideways(browser: Chrome, page: Path, width: int) -> None:
    check_width(browser, page, width)


def test_nothing_is_missing_for_keyboards_and_screen_readers(browser: Chrome, page: Path) -> None:
    open_all(browser, page, 1280)
    assert browser.execute_script(MISSING) == []


def test_the_tab_key_reaches_everything_and_shows_where_it_is(browser: Chrome, page: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    open_at(browser, page, 1280)
    count = browser.execute_script(
        """window.order = [...document.querySelectorAll('a, input, summary, [tabindex]')]
             .filter(e => e.checkVisibility());
           window.reached = [];
           addEventListener('focusin', ({target}) => {
             const style = getComputedStyle(target);
             reached.push([order.indexOf(target),
                           style.outlineStyle !== 'none' && style.outlineWidth]);
           });
           return order.length"""
    )
    assert count > 5
    ActionChains(browser, duration=0).send_keys(Keys.TAB * count).perform()
    assert browser.execute_script("return reached") == [[place, "2px"] for place in range(count)]


# The start page ------------------------------------------------------------------------


def rows(browser: Chrome) -> list[str]:
    shown: list[str] = browser.execute_script(
        """return [...document.querySelectorAll('tbody tr')].filter(row => row.checkVisibility())
             .map(row => row.innerText)"""
    )
    return shown


def test_search(browser: Chrome, site: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    open_at(browser, site / "index.html", 1280)
    every = rows(browser)
    box = browser.find_element("id", "search")
    box.send_keys("duckdb PMEM-both")
    matching = rows(browser)
    assert matching and len(matching) < len(every)
    assert all("duckdb" in row and "pmem-both" in row for row in matching)
    status = browser.find_element("id", "matches").text
    assert status.split()[0] == str(len(matching))
    box.send_keys(" no such row")
    assert rows(browser) == []
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys(Keys.DELETE)
    assert rows(browser) == every


def test_links_lead_from_the_start_to_each_page(browser: Chrome, site: Path) -> None:
    open_at(browser, site / "index.html", 1280)
    addresses: list[str] = browser.execute_script(
        "return [...document.querySelectorAll('main a')].map(a => a.href)"
    )
    reached = {Path(address.removeprefix("file://")) for address in addresses}
    assert reached == {*site.rglob("*.html")} - {site / "index.html"}


def test_a_printed_page_has_no_navigation(browser: Chrome, page: Path) -> None:
    open_at(browser, page, 1280)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    shown: Any = browser.execute_script(
        """return [...document.querySelectorAll('nav, .search')].filter(e => e.checkVisibility())
             .length"""
    )
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert shown == 0
