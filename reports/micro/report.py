"""Write what devices like: a card for each, side by side, with prices, next to a paper's numbers.

One HTML file that fetches nothing, the same as Markdown, every metric as CSV, and figures,
like the other report (reports.report).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.store.runs import StoredRun
from harness.warnings import RunWarning
from reports.charts.drawing import Drawing
from reports.conclusions.catalogue import OF_DEVICES, conclusions_of
from reports.conclusions.model import Checked, check_all
from reports.conditions import manifests, names, uncontrolled
from reports.formatting import counted, utc
from reports.micro.figures import Measurement, card_drawing, measurements
from reports.micro.findings import Finding, findings
from reports.micro.papers import PaperRows, paper_rows
from reports.micro.points import Device, devices
from reports.micro.practices import BOUND, Practice, card_trials, practices
from reports.micro.prices import PriceTable, price_table
from reports.page import write_page
from reports.prices import read_prices
from reports.table_csv import runs_as_csv

TITLE = "What this device likes"


@dataclass(frozen=True)
class Card:
    """One device. ``drawing``: None where nothing was measured over an axis.

    ``verdicts``: how many were tested together, and how many of them are shown.
    """

    name: str
    device: Device
    drawing: Drawing | None
    findings: tuple[Finding, ...]
    practices: tuple[Practice, ...]
    measured: tuple[Measurement, ...]
    verdicts: int
    shown: int

    @property
    def modes(self) -> list[str]:
        """Of the host, in its runs."""
        return list(dict.fromkeys(run.run["host_mode"] for run in self.device.runs))

    @property
    def suites(self) -> list[str]:
        """Those of its runs."""
        named = (str(run.run["spec"]["params"].get("suite", "")) for run in self.device.runs)
        return list(filter(None, dict.fromkeys(named)))

    def finding(self, question: str) -> Finding | None:
        """Its answer to a question, where it has one."""
        return next((one for one in self.findings if one.question == question), None)


@dataclass(frozen=True)
class View:
    """Everything that the templates lay out."""

    title: str
    counts: str
    emulated: tuple[str, ...]
    cards: tuple[Card, ...]
    prices: PriceTable | None
    paper: PaperRows | None
    manifests: tuple[Mapping[str, Any], ...]
    uncontrolled: tuple[RunWarning, ...]
    left_out: tuple[str, ...]
    repeat: tuple[str, ...]
    conclusions: tuple[Checked, ...] = ()
    bound: float = BOUND

    @property
    def questions(self) -> list[str]:
        """Of all cards, in the order of the first."""
        return list(dict.fromkeys(one.question for card in self.cards for one in card.findings))

    @property
    def warning_names(self) -> list[str]:
        """Of the host's warnings."""
        return names(self.uncontrolled)

    @property
    def drawings(self) -> list[Drawing]:
        """All of them."""
        found = [
            drawing
            for card in self.cards
            for drawing in (card.drawing, *(one.drawing for one in card.measured))
        ]
        return [drawing for drawing in found if drawing is not None]


@dataclass(frozen=True)
class CardFiles:
    """Where the report is."""

    html: Path
    markdown: Path
    csv: Path
    devices: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        paths = {"html": self.html, "markdown": self.markdown, "csv": self.csv}
        return {name: str(path) for name, path in paths.items()} | {"devices": list(self.devices)}


def write_cards(
    runs: Sequence[StoredRun], out: Path, title: str = TITLE, prices: Path | None = None
) -> CardFiles:
    """Write ``card.html``, ``card.md``, ``card.csv`` and ``figures/`` into ``out``.

    ``prices``: a file of prices (profiles/prices), else those of the host file. UsageError
    where no run of microbenchmarks is among ``runs`` or ``out`` cannot be written.
    """
    view = view_of(runs, title, prices)
    table = runs_as_csv([run for card in view.cards for run in card.device.runs])
    write_page(out, "card", view, {"card.csv": table}, view.drawings)
    names = tuple(card.name for card in view.cards)
    return CardFiles(out / "card.html", out / "card.md", out / "card.csv", names)


def view_of(runs: Sequence[StoredRun], title: str, prices: Path | None) -> View:
    """What is shown of these runs."""
    found = devices(runs)
    used = [run for device in found for run in device.runs]
    listed = read_prices(prices) if prices is not None else None
    return View(
        title=title,
        counts=f"{counted(len(used), 'run')}, {_span(used)}",
        emulated=tuple(f"{d.name} by {by}" for d in found for by in d.emulated),
        cards=tuple(_card(device, f"device-{n}") for n, device in enumerate(found, 1)),
        prices=price_table(found, listed),
        paper=paper_rows(found, listed),
        manifests=manifests(used),
        uncontrolled=tuple(uncontrolled(used)),
        left_out=tuple(_left_out(runs, used)),
        repeat=tuple(f"harness repro {run.run_id}" for run in used),
        conclusions=tuple(_conclusions(used)),
    )


def _conclusions(runs: Sequence[StoredRun]) -> list[Checked]:
    """Those that were tested; the practices stand on each card."""
    return [one for one in check_all(conclusions_of(OF_DEVICES), runs) if one.tested]


def _card(device: Device, name: str) -> Card:
    shown = card_trials(device).shown
    return Card(
        device.marked_name,
        device,
        card_drawing(device, name),
        tuple(findings(device)),
        tuple(practices(device)),
        tuple(measurements(device, name)),
        len(shown),
        sum(shown),
    )


def _span(runs: Sequence[StoredRun]) -> str:
    stamps = sorted(run.run["started_unix_ns"] for run in runs)
    return f"{utc(stamps[0])} to {utc(stamps[-1])}" if len(stamps) > 1 else utc(stamps[0])


def _left_out(runs: Sequence[StoredRun], used: Sequence[StoredRun]) -> list[str]:
    """Why each other run is not there."""
    kept = {run.run_id for run in used}
    left = [run for run in runs if run.run_id not in kept]
    return [
        f"{run.run_id}: {run.run['error']['context'] if run.run['error'] else 'no microbenchmark'}"
        for run in left
    ]
