"""Engines' ratios next to those of the microbenchmarks that a paper compares them with.

The pairs are those that the paper's text names (``expectations`` of its file); its numbers are
those of ``published.csv``. This host has the same pairs, as far as it measured them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.paper.catalogue import DeviceExpectation, PaperFile, known_papers
from harness.paper.pair_query import Having, PairQuery, meets
from harness.sequences import matched
from harness.store.documents import as_json, attributes
from harness.store.runs import StoredRun
from harness.yamlfile import load_yaml
from reports.formatting import NOTHING, times
from reports.micro.as_published import number_of_tier, published_file
from reports.micro.devices import Device, devices
from reports.published import (
    Cell,
    HostNumber,
    Numbers,
    PublishedPoint,
    PublishedSeries,
    published_rows,
    published_table,
    read_published,
)
from reports.sections import Block, Lines, Paragraph, note
from reports.series import Panel
from reports.statistics import Missing
from reports.sweeps import OVER, RATIO


@dataclass(frozen=True)
class _Printed:
    """A row of published.csv."""

    series: PublishedSeries
    point: PublishedPoint

    def label(self, name: str) -> str:
        """Return a label of a query: of the row, or of its metric."""
        series = self.series
        row = {"figure": series.figure, "engine": series.engine, "arm": series.arm}
        return {**row, "at": self.point.x, **series.labels}.get(name, "")

    def place(self, query: PairQuery) -> tuple[object, ...]:
        """Return all labels but those in which both sides of the query may differ."""
        names = ("figure", "engine", "arm", "at", *self.series.labels)
        return tuple((n, self.label(n)) for n in names if n not in query.differing)


@dataclass(frozen=True)
class _PrintedRatio:
    """A printed ratio. ``under``: None of a row that is itself a ratio."""

    over: _Printed
    under: _Printed | None

    @property
    def value(self) -> float:
        return self.over.point.y_base / (self.under.point.y_base if self.under else 1.0)

    @property
    def series(self) -> PublishedSeries:
        """Return it as a series of a ratio, as published.csv has those that are printed."""
        if self.under is None:
            return replace(self.over.series, points=(self.over.point,))
        of, under = self.over.series, self.under.series
        metric = of.metric.replace(of.name, of.name + RATIO, 1)
        point = PublishedPoint(self.over.point.x, self.value, 0.0)
        return PublishedSeries(
            of.figure, of.engine, f"{of.arm}{OVER}{under.arm}", "ratio", (point,), metric
        )


def _ratios(query: PairQuery, series: Sequence[PublishedSeries]) -> list[_PrintedRatio]:
    """Return the printed ratios of a query, of rows that are alike in what it does not compare."""
    over, under = (_selected(query.metric, side, series) for side in query.sides)
    if not query.over:
        return [_PrintedRatio(row, None) for row in over]
    sides = (((row.place(query), row) for row in side) for side in (over, under))
    return [_PrintedRatio(a, b) for (a,), (b,) in matched(*sides).values()]


def _selected(metric: str, side: Having, series: Sequence[PublishedSeries]) -> list[_Printed]:
    rows = (
        _Printed(each, point) for each in series if each.name == metric for point in each.points
    )
    return [row for row in rows if meets(row.label, side)]


@dataclass(frozen=True)
class ExpectedRatio:
    """An engine's ratio next to the microbenchmark's that a paper's section compares it with.

    Each is how many times better the faster tier is. ``device``, ``engine``: as published;
    ``device_here``, ``engine_here``: of this host.
    """

    paper: str
    stated: DeviceExpectation
    of_device: str
    of_engine: str
    at: str
    device: float
    engine: float
    device_here: Numbers | Missing
    engine_here: Numbers | Missing

    @property
    def residual(self) -> float:
        """The engine's published ratio over the microbenchmark's, less one."""
        return self.engine / self.device - 1

    @property
    def residual_here(self) -> float | None:
        """That of this host; None unless it has a single number of each."""
        device, engine = (_single(cell) for cell in (self.device_here, self.engine_here))
        return engine / device - 1 if engine is not None and device else None

    def to_json(self) -> dict[str, Any]:
        here = (("device", self.device_here), ("engine", self.engine_here))
        return {
            "paper": self.paper,
            **attributes(self.stated, "number", "statement"),
            "microbenchmark": self.of_device,
            "engine": self.of_engine,
            "at": self.at,
            "published": attributes(self, "device", "engine", "residual"),
            "measured": {name: cell_json(cell) for name, cell in here}
            | {"residual": self.residual_here},
            "command": self.stated.command,
        }

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Cells of a table: see ``_HEAD``."""
        published = (times(self.device), times(self.engine), _percent(self.residual))
        here = (self.device_here, self.engine_here, _percent(self.residual_here))
        return f"§{self.stated.number}", self.of_device, self.of_engine, self.at, *published, *here


def cell_json(cell: Cell) -> Any:
    """Return a cell next to a published number as JSON."""
    if isinstance(cell, Missing):
        return {"missing": cell.code, "context": cell.context}
    return as_json(cell)


def _single(cell: Numbers | Missing) -> float | None:
    numbers = cell.numbers if isinstance(cell, Numbers) else ()
    return numbers[0].value if len(numbers) == 1 else None


def _percent(residual: float | None) -> str:
    return NOTHING if residual is None else f"{100 * residual:+.0f} %"


def expected_of(
    paper: str, panels: Sequence[Panel], micro: Sequence[StoredRun]
) -> tuple[ExpectedRatio, ...]:
    """List what a paper compares with its microbenchmarks; nothing of an unknown paper.

    ``panels``: of engines here, over placements; ``micro``: runs of microbenchmarks, of which those
    of the engines' hosts count.
    """
    papers = known_papers()
    stated = load_yaml(papers[paper]).to(PaperFile).expectations if paper in papers else ()
    if not stated:
        return ()
    series = read_published(published_file(paper))
    hosts = {_host(run) for panel in panels for run in panel.runs}
    usable = [run for run in micro if not hosts or _host(run) in hosts]
    usable = [run for run in usable if run.result.status != "failed"]
    here = devices(usable) if usable else []
    return tuple(row for each in stated for row in _rows(paper, each, series, panels, here))


def measured_expectations(
    panels: Sequence[Panel], micro: Iterable[StoredRun]
) -> tuple[ExpectedRatio, ...]:
    """List those of all papers of which the panels have the engine's ratio."""
    runs = list(micro)
    every = (row for paper in known_papers() for row in expected_of(paper, panels, runs))
    return tuple(row for row in every if isinstance(row.engine_here, Numbers))


def _host(run: StoredRun) -> str:
    return run.manifest.host.host_id if run.manifest else ""


def _rows(
    paper: str,
    stated: DeviceExpectation,
    series: Sequence[PublishedSeries],
    panels: Sequence[Panel],
    here: Sequence[Device],
) -> Iterator[ExpectedRatio]:
    (device,) = _ratios(stated.device, series)
    device_here = _device_here(paper, device, here)
    for ratio in _ratios(stated.engine, series):
        of = ratio.series
        (row,) = published_rows(panels, (), (of,))
        measured = row.measured
        if isinstance(measured, Missing):
            measured = Missing("not-measured")
        yield ExpectedRatio(
            paper,
            stated,
            _device_text(device),
            f"{of.figure} {of.engine}/{of.arm}, {of.metric}",
            row.point.x,
            device.value,
            ratio.value,
            device_here,
            measured,
        )


def _device_text(ratio: _PrintedRatio) -> str:
    """``table4 pmem over ssd, bandwidth_bytes_per_second, sequential at 8``."""
    of, pattern = ratio.over.series, ratio.over.label("pattern")
    words = (pattern, f"at {ratio.over.point.x}")
    arms = ratio.series.arm
    return f"{of.figure} {arms}, {of.name}, {' '.join(filter(None, words))}"


def _device_here(paper: str, ratio: _PrintedRatio, here: Sequence[Device]) -> Numbers | Missing:
    sides = [side for side in (ratio.over, ratio.under) if side]
    numbers: list[HostNumber] = []
    for side in sides:
        number = number_of_tier(paper, side.series, side.point, here)
        if isinstance(number, Missing):
            return number
        numbers.append(number)
    over, under = numbers[0], numbers[-1]
    if not over.value or not under.value:
        return Missing("not-measured")
    emulated = dict.fromkeys((*over.emulated, *under.emulated))
    return Numbers((HostNumber(over.value / under.value, "", tuple(emulated)),))


_HEAD = (
    "section",
    "microbenchmark",
    "engine",
    "at",
    "published: microbenchmark",
    "published: engine",
    "residual",
    "here: microbenchmark",
    "here: engine",
    "residual here",
)


def expected_blocks(rows: Sequence[ExpectedRatio]) -> Iterator[Block]:
    """Show the pairs with both ratios as published and here, and what measures them."""
    if not rows:
        return
    table = [row.cells for row in rows]
    yield published_table("Expected of the microbenchmarks, by the paper", _HEAD, table)
    for text in dict.fromkeys(f"§{row.stated.number}: {row.stated.statement}." for row in rows):
        yield note(text)
    lacking = [row for row in rows if row.residual_here is None]
    commands = dict.fromkeys(
        command for row in lacking for command in row.stated.command.split("; ")
    )
    if commands:
        yield Paragraph("What is missing of these pairs here, these commands measure:")
        yield Lines("commands", [*commands])
