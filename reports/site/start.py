"""The start page of a site: what is in it, the newest comparisons, and all pages by kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.units import counted
from reports.formatting import NOTHING
from reports.page import Frame
from reports.sections import Block, Cell, Lines, Paragraph, Section, Span, Table, badge, note
from reports.site.entries import START, Entry, Kind

#: Rows of the newest comparisons.
_MOST_NEW = 10
_HEADS: dict[Kind, tuple[str, ...]] = {
    "experiment": (
        "experiment", "engines and workloads", "measured on", "hosts", "runs", "comparisons",
        "newest run",
    ),
    "comparison": (
        "comparison", "verdict", "speed-up", "by", "engine and workload", "experiment",
        "compared over", "newest run",
    ),
    "host": ("host", "processor", "memory", "Linux", "tiers", "cards", "runs", "newest run"),
    "history": ("series", "newest change", "metric", "executions", "change points", "newest run"),
}  # fmt: skip
_TITLES: dict[Kind, str] = {
    "experiment": "Experiments",
    "host": "Hosts",
    "history": "History",
    "comparison": "Comparisons",
}
_NONE: dict[Kind, str] = {
    "experiment": "No finished run.",
    "host": "No run has the facts of its host.",
    "history": "No experiment was executed more than once.",
    "comparison": "No two placements, arms or settings were measured under the same conditions.",
}


@dataclass(frozen=True)
class Start:
    """The start page. ``stores``: name and number of runs of each; ``left_out``: what has no page,
    and why.
    """

    title: str
    stores: Sequence[tuple[str, int]]
    entries: Sequence[Entry]
    left_out: Sequence[str]

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of the page."""
        runs = [f"{counted(number, 'run')} of {name}" for name, number in self.stores]
        yield Paragraph(f"{', '.join(runs)}.", "about")
        if self.left_out:
            yield Lines("items", self.left_out)
        newest = self._of("comparison")[:_MOST_NEW]
        if newest:
            table = _table("Newest comparisons", "comparison", newest)
            yield Section("Newest", [table], "newest", "section")
        for kind, title in _TITLES.items():
            entries = self._of(kind)
            blocks: list[Block] = [_table(title, kind, entries)] if entries else [note(_NONE[kind])]
            yield Section(title, blocks, title.lower(), "section")

    def _of(self, kind: Kind) -> list[Entry]:
        """Return the entries of a kind, the newest first."""
        of_kind = (entry for entry in self.entries if entry.kind == kind)
        return sorted(of_kind, key=lambda entry: (-entry.newest_unix_ns, entry.title))


def frame(address: str) -> Frame:
    """Return what is around the page at this address: links to the parts of the start page."""
    start = f"{'../' * address.count('/')}{START}.html"
    links = [("Start", start)]
    links += [(title, f"{start}#{title.lower()}") for title in _TITLES.values()]
    return Frame(links, search=address == START)


def _table(title: str, kind: Kind, entries: Sequence[Entry]) -> Table:
    return Table(title, _HEADS[kind], [_row(kind, entry) for entry in entries])


def _row(kind: Kind, entry: Entry) -> list[Cell]:
    link = Span(entry.title, "link", entry.address)
    if kind not in ("comparison", "history"):
        return [link, *entry.cells]
    verdict = badge(entry.verdict, entry.emulated) if entry.verdict else NOTHING
    return [link, verdict, *entry.cells]
