"""Debian's headless Chromium, driven through its chromedriver: what tests of pages share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


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
CONTRAST = """
const rgb = c => c.match(/[\\d.]+/g).map(Number);
const light = c => { const [r, g, b] = rgb(c).map(v => v / 255)
  .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b };
const behind = e => { for (; e; e = e.parentElement) {
  const c = getComputedStyle(e).backgroundColor;
  if (rgb(c)[3] !== 0) return c } return 'rgb(255,255,255)' };
let worst = {ratio: 99};
for (const e of document.querySelectorAll('h1,h2,p,th,td,dt,dd,figcaption,summary,caption')) {
  if (!e.innerText || !e.innerText.trim()) continue;
  const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < worst.ratio) worst = {ratio, text: e.innerText.slice(0, 40)};
}
return worst;
"""


def worst_contrast(browser: Chrome, page: Path, scheme: str) -> Any:
    """The text that stands out least from what is behind it, in ``light`` or ``dark``."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    open_at(browser, page, 1280)
    worst = browser.execute_script(CONTRAST)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    return worst
