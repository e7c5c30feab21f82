"""The page of a host: its facts and tiers, and the cards of its devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.models.score import Score
from harness.store.runs import StoredRun
from harness.units import counted
from reports.charts.drawing import svg_alone
from reports.conditions import hosts_and_tiers
from reports.formatting import utc
from reports.host_models import HostModels
from reports.micro.devices import devices, is_micro
from reports.micro.report import card_blocks, stand_ins_of
from reports.model_scores import score_blocks
from reports.sections import (
    Block,
    Facts,
    Paragraph,
    Section,
    Span,
    marked_title,
)
from reports.site.entries import Entry, SitePage, address


@dataclass(frozen=True)
class HostPage:
    """A host with all runs on it.

    ``experiments``: name and address of those that ran there; ``scores``: of models on it.
    """

    name: str
    host_id: str
    runs: Sequence[StoredRun]
    experiments: Sequence[tuple[str, str]]
    scores: Sequence[Score] = ()

    @property
    def address(self) -> str:
        oldest = min(self.runs, key=lambda run: run.head.started_unix_ns).head.host
        return address("host", [oldest.hostname] if oldest else [], self.host_id)

    def pages(self) -> list[SitePage]:
        """Return its page."""
        newest_first = sorted(self.runs, key=lambda run: -run.head.started_unix_ns)
        # A run's documents are in memory for as long as they are read.
        tiers, *states = hosts_and_tiers(StoredRun(r.directory, r.entry) for r in newest_first)
        blocks: list[Block] = [Paragraph(self._about(), "about")]
        blocks.append(Section("Tiers and settings", [tiers, *states[:1]], "tiers", "section"))
        if earlier := states[1:]:
            title = f"{counted(len(earlier), 'earlier state')} of its settings"
            blocks.append(Section(title, earlier, "earlier"))
        measured = [run for run in self.runs if is_micro(run) and run.head.status != "failed"]
        all_devices = devices(measured) if measured else []
        if all_devices:
            with svg_alone():
                cards = [*card_blocks(all_devices, measured)]
            blocks.append(Section("Device cards", [], "cards", "section"))
            blocks += cards
        else:
            text = "No card: no suite of microbenchmarks was run on it."
            blocks.append(Section("Device cards", [Paragraph(text)], "cards", "section"))
        blocks += self._models()
        title = marked_title(self.name, stand_ins_of(all_devices))
        names = dict.fromkeys(str(row[0]) for row in tiers.rows)
        newest = newest_first[0].head.started_unix_ns
        cells = (
            _fact(states[0], "CPU"),
            _fact(states[0], "Memory"),
            _fact(states[0], "Kernel").partition(" ")[0],
            ", ".join(names),
            ", ".join(device.marked_name for device in all_devices) or "none",
            str(len(self.runs)),
            utc(newest)[:10],
        )
        entry = Entry("host", self.address, self.name, cells, newest)
        return [SitePage(self.address, title, blocks, [entry])]

    def _about(self) -> tuple[str | Span, ...]:
        stamps = [run.head.started_unix_ns for run in self.runs]
        text = f"{counted(len(stamps), 'run')}, {utc(min(stamps))} to {utc(max(stamps))}"
        links = [
            piece
            for name, place in self.experiments
            for piece in (", ", Span(name, "link", f"../{place}"))
        ]
        return (f"{text} · experiments: ", *links[1:]) if links else (text,)

    def _models(self) -> Iterator[Block]:
        """Yield the models of its devices, and how far models were off on it."""
        models = HostModels.of(self.runs, self.scores)
        blocks = [
            block
            for section in models.section([*models.names.values()], None)
            for block in section.blocks
        ]
        blocks += score_blocks(self.scores) if self.scores else ()
        if blocks:
            yield Section("Device models", blocks, "models", "section")


def _fact(facts: Facts, name: str) -> str:
    return dict(facts.rows).get(name, "unknown")
