"""Write what devices like: a card for each, side by side, with prices, next to a paper's numbers.

One HTML file that fetches nothing, the same as Markdown, every metric as CSV, and figures,
like the other report (reports.report).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.store.runs import StoredRun
from harness.units import counted
from reports.conclusions.catalogue import OF_DEVICES, conclusions_of
from reports.conclusions.model import check_all
from reports.conclusions.output import conclusion_tables
from reports.conditions import hosts_and_tiers, names, uncontrolled
from reports.formatting import NOTHING, utc
from reports.micro.as_published import paper_rows
from reports.micro.best_practices import (
    BOUND,
    Practice,
    card_trials,
    practice_title,
    practices,
    trials,
)
from reports.micro.card_lines import Finding
from reports.micro.devices import Device, devices
from reports.micro.measurements import card_drawing, measurements
from reports.micro.preferences import findings
from reports.micro.prices import price_table
from reports.page import write_page
from reports.price_list import PriceList, read_prices
from reports.published import published_table
from reports.sections import (
    Block,
    Lines,
    Paragraph,
    Section,
    Table,
    banner,
    marked_title,
    note,
)
from reports.table_csv import runs_as_csv

TITLE = "What this device likes"
_METHOD = (
    "Every value is the median of its repeats; a percentile is that of all repeats together. A "
    f"practice is confirmed where following it is shown to gain more than {BOUND:g}×, refuted "
    "where it is shown to gain less; everything else is not testable here. A knee is where a curve "
    "first comes within a tenth of its best; it is shown where both it and the step before it are. "
    "Of a load during a dependent one it is the last point at which that waits at most twice as "
    "long as idle; it is shown where all points up to it and all after it are. "
    "Ratios and intervals are Hodges–Lehmann’s over the log-ratios of paired repeats, by the "
    "exact signed-rank distribution, intervals of 95 % each by itself. What is shown is decided "
    "over all verdicts of a card together (Holm–Bonferroni, 5 %). All else in “What it likes” is "
    "read off medians and claims nothing more. What was not measured by these runs is left out."
)


@dataclass(frozen=True)
class Card:
    """One device.

    ``verdicts``: how many were tested together, and how many of them are ``shown``.
    """

    device: Device
    findings: tuple[Finding, ...]
    practices: tuple[Practice, ...]
    verdicts: int
    shown: int

    @property
    def name(self) -> str:
        """The device's, with its marks."""
        return self.device.marked_name

    def blocks(self, number: int) -> Iterator[Block]:
        """Yield the device's preferences, and all measurements."""
        yield Paragraph(self._about(), "about")
        if self.findings:
            rows = [
                (finding.question, finding.answer, finding.figures) for finding in self.findings
            ]
            yield Table("What it likes", ("", "best", "figures"), rows)
        if drawing := card_drawing(self.device, f"device-{number}"):
            yield drawing
        tried = [(practice_title(p.number), p.outcome, trials(p)) for p in self.practices]
        yield Table(
            "Best practices of the Empirical Guide (FAST'20, Section 5)",
            ("practice", "here", "figures"),
            tried,
        )
        if self.verdicts:
            yield note(
                f"{counted(self.verdicts, 'verdict')} of practices and knees, tested as one family "
                f"(Holm–Bonferroni, 5% for all of them together): {self.shown} shown; each p is "
                "Holm's."
            )
        blocks: list[Block] = []
        for measurement in measurements(self.device, f"device-{number}"):
            blocks += [measurement.drawing] if measurement.drawing else []
            blocks.append(Table(measurement.title, measurement.head, measurement.rows))
        yield Section(f"Every measurement of {self.name}", blocks, f"measured-{number}")

    def _about(self) -> str:
        if self.device.source:
            return f"{self.device.source}: measured by its program, one repeat, on another host"
        tier, runs = self.device.tier, self.device.runs
        kind, model = "", None
        if tier is not None:
            facts = tier.facts
            dax = {True: "DAX", False: "no DAX", None: None}[facts.dax]
            kind = " ".join(filter(None, (tier.kind, facts.filesystem, dax)))
            model = facts.device_model or facts.device
        modes = "/".join(dict.fromkeys(run.result.host_mode for run in runs))
        named = (str(run.spec.params.get("suite", "")) for run in runs)
        suites = list(filter(None, dict.fromkeys(named)))
        about = ", ".join(filter(None, (self.device.host, kind, model, modes)))
        return f"{about}; {'suites' if len(suites) > 1 else 'suite'} {', '.join(suites)}"


@dataclass(frozen=True)
class CardFiles:
    """The files of a card, and the devices on it."""

    html: Path
    markdown: Path
    csv: Path
    devices: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        paths = {"html": self.html, "markdown": self.markdown, "csv": self.csv}
        return {name: str(path) for name, path in paths.items()} | {"devices": list(self.devices)}


def write_cards(
    runs: Sequence[StoredRun],
    out: Path,
    title: str = TITLE,
    prices: Path | None = None,
    others: Sequence[Device] = (),
) -> CardFiles:
    """Write ``card.html``, ``card.md``, ``card.csv`` and ``figures/`` into ``out``.

    ``prices``: a file of prices (profiles/prices), else those of the host file. ``others``:
    devices of other programs' files, next to those of the runs. UsageError where no run of
    microbenchmarks is among ``runs`` or ``out`` cannot be written.
    """
    all_devices = [*devices(runs), *others]
    listed = read_prices(prices) if prices is not None else None
    emulated = stand_ins_of(all_devices)
    blocks = card_blocks(all_devices, runs, listed)
    texts = {"card.csv": runs_as_csv([run for device in all_devices for run in device.runs])}
    write_page(out, "card", marked_title(title, emulated), blocks, texts)
    names = tuple(device.marked_name for device in all_devices)
    return CardFiles(out / "card.html", out / "card.md", out / "card.csv", names)


def stand_ins_of(all_devices: Sequence[Device]) -> list[str]:
    """Return the devices that others stand in for, as ``pmem by tmpfs``."""
    return [f"{device.name} by {by}" for device in all_devices for by in device.emulated]


def card_blocks(
    all_devices: Sequence[Device], runs: Sequence[StoredRun], prices: PriceList | None = None
) -> Iterator[Block]:
    """Yield the page of the devices of ``runs``."""
    used = [run for device in all_devices for run in device.runs]
    stamps = sorted(run.result.started_unix_ns for run in used)
    span = f"{utc(stamps[0])} to {utc(stamps[-1])}" if len(stamps) > 1 else utc(stamps[0])
    yield Paragraph(f"{counted(len(used), 'run')}, {span}", "about")
    yield from banner(stand_ins_of(all_devices))
    yield from _page(all_devices, used, runs, prices)


def card_of(device: Device) -> Card:
    """The card of a device."""
    shown = card_trials(device).shown
    return Card(device, tuple(findings(device)), tuple(practices(device)), len(shown), sum(shown))


def _page(
    all_devices: Sequence[Device],
    used: Sequence[StoredRun],
    runs: Sequence[StoredRun],
    prices: PriceList | None,
) -> Iterator[Block]:
    warnings = uncontrolled(used)
    if warnings:
        yield note(f"Warnings: {', '.join(names(warnings))}.")
    cards = [card_of(device) for device in all_devices]
    if len(cards) > 1:
        yield _side_by_side(cards)
    if priced := price_table(all_devices, prices):
        without = f" Without a price: {', '.join(priced.without)}." if priced.without else ""
        about = Paragraph(
            "As in PerMA-Bench (VLDB 2022, Table 2): the price of a GB of capacity, divided by "
            "what the device delivers, and multiplied by its latency. Less is better. Prices: "
            f"{priced.source}.{without}"
        )
        table = Table("Price of a GB for what it delivers", priced.head, priced.rows)
        yield Section("Price-performance", [about, table], "prices", "section")
    for number, card in enumerate(cards, 1):
        yield Section(card.name, [*card.blocks(number)], f"device-{number}", "section")
    if paper := paper_rows(all_devices, prices):
        about = Paragraph(
            f"Numbers of {', '.join(paper.sources)}, printed in the paper or read off its figures. "
            "They were measured on the paper's machine and enter no comparison."
        )
        title = "Published numbers, and what was measured here"
        published = published_table(title, paper.head, paper.rows)
        notes = [note(f"{text}.") for text in paper.notes]
        yield Section("As published", [about, published, *notes], "published")
    # The practices stand on each card.
    if tested := [
        conclusion
        for conclusion in check_all(conclusions_of(OF_DEVICES), used)
        if conclusion.tested
    ]:
        yield Section("Conclusions of the papers", [*conclusion_tables(tested)], "conclusions")
    yield Section("Conditions", hosts_and_tiers(used), "conditions")
    rows = [(warning.code, warning.problem, warning.context, warning.hint) for warning in warnings]
    nothing = Paragraph("Nothing that the harness looks for was left uncontrolled.")
    head = ("code", "problem", "found", "fix")
    table_of_warnings: Block = Table("Not controlled on the host", head, rows) if rows else nothing
    left = [note(f"Left out: {reason}.") for reason in _left_out(runs, used)]
    yield Section("Warnings", [table_of_warnings, *left], "warnings")
    commands = Lines("commands", [f"harness repro {run.run_id}" for run in used])
    yield Section("Method and commands", [Paragraph(_METHOD), commands], "method")


def _side_by_side(cards: Sequence[Card]) -> Section:
    questions = dict.fromkeys(finding.question for card in cards for finding in card.findings)
    answers = [{finding.question: finding.answer for finding in card.findings} for card in cards]
    liked = [
        [question, *(by_question.get(question, NOTHING) for by_question in answers)]
        for question in questions
    ]
    outcomes = [
        [practice_title(same[0].number), *(practice.outcome for practice in same)]
        for same in zip(*(card.practices for card in cards), strict=True)
    ]
    head = ["", *(card.name for card in cards)]
    tables = [
        Table("What each likes", head, liked),
        Table("Best practices of the Empirical Guide (FAST'20)", head, outcomes),
    ]
    return Section("Side by side", tables, "side-by-side", "section")


def _left_out(runs: Sequence[StoredRun], used: Sequence[StoredRun]) -> list[str]:
    """Return why each other run is left out."""
    shown = {run.run_id for run in used}
    left = [run for run in runs if run.run_id not in shown]
    return [
        f"{run.run_id}: {run.result.error.context if run.result.error else 'no microbenchmark'}"
        for run in left
    ]
