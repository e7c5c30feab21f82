"""Write the page of a paper: for each figure, what is published next to what was measured here,
with what is emulated, left out or missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.metrics import workload_info
from harness.sequences import first_of, grouped
from harness.store.documents import as_json, attributes
from harness.store.runs import StoredRun
from reports.compare import Group
from reports.conclusions.catalogue import QUERIES, conclusions_of, query_rows
from reports.conclusions.model import Checked, check_all
from reports.conclusions.output import conclusion_tables
from reports.explain.comparisons import explained
from reports.explain.devices import NO_TIER_SOURCES, TierSources
from reports.explain.output import ExplainedView, explained_blocks
from reports.explain.output import to_json as explained_json
from reports.fidelity.expectations import ExpectedRatio, cell_json, expected_blocks, expected_of
from reports.formatting import (
    NOTHING,
    interval_text,
    quantity_text,
    stand_in_text,
    times,
    verdict_text,
)
from reports.micro.as_published import PaperRows, paper_rows, published_file
from reports.micro.devices import devices, is_micro
from reports.page import write_page
from reports.published import (
    Cell,
    PublishedSeries,
    published_rows,
    published_table,
    read_published,
)
from reports.run_configuration import emulations, spec_facts
from reports.sections import (
    Block,
    Lines,
    Paragraph,
    Section,
    Span,
    Table,
    banner,
    marked_title,
    note,
)
from reports.series import Panel, panels
from reports.statistics import Missing
from reports.sweeps import OVER, RATIO, sweeps

Cells = tuple[str, ...]


@dataclass(frozen=True)
class FigureRuns:
    """A figure with its runs here.

    ``published``: its figures in published.csv; ``planned``: the runs that all of it takes;
    ``left_out``: what was not run, and why; ``missing``: why nothing here repeats the figure.
    """

    title: str
    command: str
    published: tuple[str, ...]
    runs: tuple[StoredRun, ...]
    planned: int
    left_out: tuple[tuple[str, str], ...] = ()
    differs: str = ""
    missing: str = ""


@dataclass(frozen=True)
class FigureView:
    """A figure as the page shows it: a table of published numbers, and one of comparisons.

    ``queries``: each query next to what the paper says of it.
    """

    of: FigureRuns
    head: Cells
    rows: tuple[tuple[Cell, ...], ...]
    compared: tuple[Cells, ...] = ()
    notes: tuple[str, ...] = ()
    queries: tuple[Cells, ...] = ()

    @property
    def done(self) -> int:
        """Return how many of its runs have a result."""
        return sum(run.result.status != "failed" for run in self.of.runs)

    @property
    def emulated(self) -> tuple[str, ...]:
        """The emulated tiers that its numbers come from."""
        return emulations(self.of.runs)

    @property
    def left_out(self) -> list[Cells]:
        """Return what was not run, and how much of it, by reason."""
        by_reason = grouped((why, what) for what, why in self.of.left_out)
        return [("; ".join(first_of(what, _NAMED)), why) for why, what in by_reason.items()]

    @property
    def measured(self) -> int:
        """Return how many published numbers have a number of this host next to them."""
        first = self.head.index("published") + 1 if self.rows else 0
        cells = (row[first:] for row in self.rows)
        return sum(any(not isinstance(cell, Missing) for cell in row) for row in cells)

    def to_json(self) -> dict[str, Any]:
        return {
            "figure": self.of.title,
            **attributes(self.of, "command", "planned"),
            "complete": self.done,
            "runs": [run.run_id for run in self.of.runs],
            "emulated": as_json(self.emulated),
            **attributes(self.of, "differs", "missing"),
            "left_out": [{"what": what, "why": why} for what, why in self.of.left_out],
            "published": [
                {name: cell_json(cell) for name, cell in zip(self.head, row, strict=True)}
                for row in self.rows
            ],
            "comparisons": [dict(zip(COMPARED, row, strict=True)) for row in self.compared],
            "queries": [dict(zip(QUERIES, row, strict=True)) for row in self.queries],
        }


@dataclass(frozen=True)
class PaperPage:
    """A paper's page: its figures and conclusions.

    ``explained``: the comparisons of placements in all figures, predicted by the microbenchmark;
    ``expected``: the engines' ratios that the paper compares with its own microbenchmarks.
    """

    title: str
    figures: tuple[FigureView, ...]
    conclusions: tuple[Checked, ...]
    explained: ExplainedView
    expected: tuple[ExpectedRatio, ...] = ()

    @cached_property
    def emulated(self) -> tuple[str, ...]:
        """The emulated tiers of all figures."""
        return tuple(dict.fromkeys(by for figure in self.figures for by in figure.emulated))

    def to_json(self) -> dict[str, Any]:
        document = attributes(self, "title", "figures", "conclusions", "expected")
        return document | {"explained": explained_json(self.explained)}


#: Columns of comparisons. ``published``: the speed-up by the paper's numbers at the same place.
COMPARED = (
    "engine and workload",
    "measured on",
    "published",
    "speed-up",
    "interval",
    "verdict",
    "medians",
)
#: More names than this are counted.
_NAMED = 3
#: Columns of published numbers of engines.
_PUBLISHED = ("figure", "engine and placement", "point", "metric", "published", "measured here")


def page_of(
    name: str,
    title: str,
    figures: Sequence[FigureRuns],
    published: Path | None = None,
    sources: TierSources = NO_TIER_SOURCES,
) -> PaperPage:
    """The page of a paper's figures. ``published``: its numbers, those that come along if None;
    ``sources``: of the tiers that its engines ran on."""
    path = published or published_file(name)
    series = read_published(path) if path.exists() else []
    micro = {run.run_id: run for figure in figures for run in figure.runs if is_micro(run)}
    usable = [run for run in micro.values() if run.result.status != "failed"]
    rows = paper_rows(devices(usable)) if usable else None
    views = tuple(_view(name, figure, series, rows) for figure in figures)
    every = {run.run_id: run for figure in figures for run in figure.runs}
    conclusions = tuple(check_all(conclusions_of(name), every.values()))
    engines = [run for run in every.values() if not is_micro(run)]
    made = _panels(engines, "placement")
    view = ExplainedView(tuple(row for row in explained(made, sources) if row.moved))
    expected = expected_of(name, made, [*micro.values()])
    return PaperPage(title, views, conclusions, view, expected)


def write_paper(page: PaperPage, out: Path) -> Mapping[str, Path]:
    """Write ``paper.html`` and ``paper.md`` into ``out``; UsageError where that cannot be."""
    write_page(out, "paper", marked_title(page.title, page.emulated), _blocks(page))
    return {"html": out / "paper.html", "markdown": out / "paper.md"}


def _blocks(page: PaperPage) -> Iterator[Block]:
    yield Paragraph(
        "The paper's published numbers next to those of this host. They were measured on the "
        "paper's machine and enter no comparison.",
        "about",
    )
    yield from banner(page.emulated)
    head = ("figure", "runs", "published numbers with one of this host")
    missing = "stood in for, different or missing"
    yield Table("Figures", (*head, missing), list(map(_overview, page.figures)))
    none = Paragraph("No conclusion of this paper is tested.")
    tables = [*conclusion_tables(page.conclusions)] if page.conclusions else [none]
    yield Section("Conclusions", tables, "conclusions", "section")
    for number, view in enumerate(page.figures, 1):
        yield Section(view.of.title, [*_figure_blocks(view)], f"figure-{number}", "section")
    explanations = [*expected_blocks(page.expected)]
    if page.explained.checked:
        explanations += explained_blocks(page.explained, page.explained.picture("predicted"))
    if explanations:
        yield Section("Microbenchmark and engines", explanations, "explain", "section")
    commands = [view.of.command for view in page.figures if view.of.command]
    yield Section("Commands", [Lines("commands", commands)], "commands", "section")


def _overview(view: FigureView) -> Cells:
    state = (view.of.missing, stand_in_text(view.emulated), view.of.differs)
    return (
        view.of.title,
        f"{view.done} of {view.of.planned}" if view.of.planned else NOTHING,
        f"{view.measured} of {len(view.rows)}" if view.rows else NOTHING,
        "; ".join(filter(None, state)) or NOTHING,
    )


def _figure_blocks(view: FigureView) -> Iterator[Block]:
    if view.of.missing:
        yield Paragraph(f"Not here: {view.of.missing}.")
    elif view.of.command:
        done = f"{view.done} of {view.of.planned} runs: "
        yield Paragraph((done, Span(view.of.command, "code")), "about")
    if view.of.differs:
        yield note(f"Differs: {view.of.differs}.")
    if view.rows:
        yield published_table("Published, and measured here", view.head, view.rows)
    elif not view.of.missing:
        yield note("The paper's text has no number of this figure.")
    for text in view.notes:
        yield note(f"{text}.")
    if view.compared:
        yield Table("Compared here", COMPARED, view.compared)
    if view.queries:
        yield Table("Queries, and what the paper says of them", QUERIES, view.queries)
    if view.left_out:
        yield Table("Not run", ("what", "why"), view.left_out)


def _view(
    name: str, figure: FigureRuns, series: Sequence[PublishedSeries], micro: PaperRows | None
) -> FigureView:
    figure_series = [each for each in series if each.figure in figure.published]
    notes = tuple(
        dict.fromkeys(f"{each.figure}: {each.note}" for each in figure_series if each.note)
    )
    if micro and any(map(is_micro, figure.runs)):
        wanted = {f"{name} {printed}" for printed in figure.published}
        micro_rows = tuple(row for row in micro.rows if row[0] in wanted)
        if micro_rows:
            head = ("published" if cell == "in the paper" else cell for cell in micro.head)
            return FigureView(figure, tuple(head), micro_rows, notes=notes)
    made = _panels([run for run in figure.runs if not is_micro(run)])
    rows = tuple(row.cells for row in published_rows(made, sweeps(made), figure_series))
    groups = tuple(_cells(panel, group, figure_series) for panel in made for group in panel.groups)
    queries = query_rows(name, figure.title, figure.runs)
    return FigureView(figure, _PUBLISHED, rows, (*groups, *_singles(made)), notes, queries)


def _panels(runs: Sequence[StoredRun], over: str | None = None) -> list[Panel]:
    usable = [run for run in runs if run.result.status != "failed"]
    return panels(usable, over, None) if usable else []


def _cells(panel: Panel, group: Group, series: Sequence[PublishedSeries]) -> Cells:
    row = group.deciding
    against = f"{group.b.marked_name} against {group.a.marked_name}"
    printed = _published_speed_up(panel, group, series)
    first = (panel.title_with_workload, against, times(printed) if printed else NOTHING)
    if row is None or row.estimate is None or row.a is None or row.b is None:
        return *first, NOTHING, NOTHING, verdict_text(group.verdict), NOTHING
    medians = " → ".join(quantity_text(side.median, row.unit) for side in (row.a, row.b))
    verdict = verdict_text(group.verdict)
    return *first, times(row.ratio), interval_text(row.estimate), verdict, medians


def _published_speed_up(
    panel: Panel, group: Group, series: Sequence[PublishedSeries]
) -> float | None:
    """By the paper's numbers for the same engine, arms and value of the parameter; None without."""
    quantity = group.headline.quantity
    stated = workload_info(panel.workload).sweeps
    swept = next((s for s in stated if quantity and s.metric == quantity.name), None)
    if quantity is None or swept is None or swept.place or swept.percentiles or swept.share:
        return None
    x = spec_facts(panel.runs[0]).get(swept.parameter)
    a, b = group.a.value, group.b.value
    values = {
        (curve.arm, curve.metric): point.y_base
        for curve in series
        if curve.engine == panel.engine_name
        for point in curve.points
        if point.x == x
    }
    printed = values.get((f"{b}{OVER}{a}", swept.metric + RATIO))
    over, under = values.get((b, swept.metric)), values.get((a, swept.metric))
    return printed or (over / under if over and under else None)


def _singles(made: Sequence[Panel]) -> Iterator[Cells]:
    """Arms that have nothing to be compared with, such as SSD on a host without PMem."""
    for panel in made:
        if len(panel.arms) == 1:
            name = panel.arms[0].marked_name
            yield panel.title_with_workload, name, *([NOTHING] * (len(COMPARED) - 2))
