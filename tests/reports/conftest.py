"""A browser for the tests of pages, and pictures only for those that look at them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Iterator
from typing import IO, TYPE_CHECKING, Any

import pytest
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from patience import PATIENCE_S

from harness.supervise import own_files

if TYPE_CHECKING:  # imported where it is needed: every worker imports this file
    from selenium.webdriver import Chrome, ChromeOptions

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(autouse=True)
def pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are built but not rendered, which takes most of a report's time, unless a test or
    its module is marked ``draws``: then as SVG, with ``draws("png")`` as PNG too."""
    marker = request.node.get_closest_marker("draws")
    _render_only(monkeypatch, () if marker is None else ("svg", *marker.args))


@pytest.fixture(scope="module", autouse=True)
def trusted_directories() -> Iterator[None]:
    """Runs are stored by thousands without a look at each directory above them, which took a
    tenth of the time: tests/store and tests/supervise hold that others' are refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_files, "refuse_exchangeable_way", lambda path: None)
        patch.setattr(own_files, "refuse_writable", lambda path: None)
        yield


@pytest.fixture(scope="module")
def undrawn() -> Iterator[None]:
    """The same for a module's fixtures, which come before its tests'."""
    with pytest.MonkeyPatch.context() as patch:
        _render_only(patch, ())
        yield


def _render_only(patch: pytest.MonkeyPatch, formats: Collection[str]) -> None:
    render = Figure.savefig

    def save(figure: Figure, file: IO[Any], **options: Any) -> None:
        if options["format"] in formats:
            render(figure, file, **options)
        elif options["format"] == "svg":
            file.write('<svg width="1pt" height="1pt" viewBox="0 0 1 1"></svg>')

    patch.setattr(Figure, "savefig", save)
    if not formats:
        patch.setattr(ConstrainedLayoutEngine, "execute", lambda engine, figure: None)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    from selenium.webdriver import ChromeOptions

    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = _started(options)
    driver.set_script_timeout(PATIENCE_S)
    yield driver
    driver.quit()


def _started(options: ChromeOptions) -> Chrome:
    """Tried again: it has a minute to come up, and its pages may have to be fetched first; the
    port that is chosen for its driver may be taken by another program before that listens.
    """
    from selenium.common.exceptions import WebDriverException

    for _ in range(2):
        with contextlib.suppress(WebDriverException):
            return _chrome(options)
    return _chrome(options)


def _chrome(options: ChromeOptions) -> Chrome:
    from selenium.webdriver import Chrome
    from selenium.webdriver.chrome.service import Service

    return Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
