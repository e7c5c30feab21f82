"""Write a report over finished runs: HTML in one file, Markdown, CSV, figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.store.calibrations import Calibration, latest_of
from harness.store.runs import StoredRun
from harness.warnings import RunWarning
from reports.agreement import DRIVER, Agreement, agreements, driven_by_several
from reports.basis import apart
from reports.charts import draw_panel
from reports.charts.curves import lines_over_parameter
from reports.charts.drawing import Drawing
from reports.charts.forest import overview
from reports.charts.over_time import draw_timeline
from reports.compare import Group
from reports.conclusions.model import Checked
from reports.conditions import (
    CheckCount,
    Durability,
    Row,
    Settings,
    Trouble,
    checks,
    durability,
    engine_settings,
    manifests,
    memory_row,
    names,
    panel_warnings,
    troubles,
    uncontrolled,
)
from reports.explain.ceilings import Ceilings, ceilings
from reports.explain.comparisons import explained
from reports.explain.devices import Evidence
from reports.explain.output import ExplainedView
from reports.formatting import counted, interval_text, times, utc, verdict_text
from reports.history import History, histories
from reports.metric_registry import metric_title
from reports.money import Money, money
from reports.noise import Expected, expected
from reports.over_time import representative
from reports.page import write_page
from reports.parameter_table import ShownFact, what_was_run
from reports.prices import PriceList, read_prices
from reports.published import PublishedRow, PublishedSeries, published_rows, read_published
from reports.query_breakdown import KINDS, BreakdownRow, breakdown, unexplained
from reports.run_configuration import emulations
from reports.series import Arm, Panel, compared_dimension, panels
from reports.stalls import StallTable, stall_tables
from reports.statistics import ALPHA, Missing
from reports.sweeps import Sweep, side_by_side, sweeps
from reports.table_csv import queries_as_csv, runs_as_csv
from reports.tables import PanelTables, ResultTable, sweep_table
from reports.values import Quantity, Summary

#: Each is a figure of half a page.
_MOST_OVER_TIME = 6
NO_EVIDENCE = Evidence()


@dataclass(frozen=True)
class ReportFiles:
    """Where the report is, and its answer in lines."""

    html: Path
    markdown: Path
    csv: Path
    queries_csv: Path | None
    figures: tuple[Path, ...]
    lines: tuple[str, ...] = ()


def write_report(
    runs: Sequence[StoredRun],
    out: Path,
    title: str = "Does the faster tier pay?",
    over: str | None = None,
    baseline: str | None = None,
    published: Path | None = None,
    force: bool = False,
    published_figures: Sequence[str] = (),
    card: bool = False,
    conclusions: Sequence[Checked] = (),
    prices: Path | None = None,
    calibrations: Sequence[Calibration] = (),
    evidence: Evidence = NO_EVIDENCE,
) -> ReportFiles:
    """Write ``report.html``, ``report.md``, ``report.csv`` (every metric of every run),
    ``queries.csv`` (where each query's time goes, if there are queries) and ``figures/``
    into ``out``.

    ``over``: the dimension compared (found if None: placement first); ``baseline``: the
    arm that the others are compared with (found if None: real before emulated, block devices
    first); ``published``: a paper's numbers, ``published_figures``: which of them (all if none
    is named); ``force``: also compare runs that differ in more; ``card``: whether a card of the
    devices is in ``out``, to be linked; ``conclusions``: those of papers that were tested;
    ``prices``: a file of prices, in place of those recorded with the runs; ``calibrations``: the
    noise of workloads on this and other hosts; ``evidence``: of their devices. UsageError where
    there is no run or ``out`` cannot be written.
    """
    if not runs:
        raise UsageError("a report", "no finished run is selected", "`harness runs list` shows all")
    series = read_published(published, published_figures) if published else []
    listed = read_prices(prices) if prices else None
    view = view_of(runs, title, over, baseline, series, force, listed, evidence)
    tested = tuple(one for one in conclusions if one.tested)
    noise = tuple(_noise(view.panels, calibrations))
    view = replace(view, card=card, conclusions=tested, noise=noise)
    queries = [(one.panel.title, row) for one in view.panels for row in one.breakdown]
    texts = {"report.csv": runs_as_csv(runs)}
    if queries:
        texts["queries.csv"] = queries_as_csv(queries)
    stale = () if queries else ("queries.csv",)
    figures = write_page(out, "report", view, texts, view.drawings, stale)
    return ReportFiles(
        out / "report.html",
        out / "report.md",
        out / "report.csv",
        out / "queries.csv" if queries else None,
        figures,
        tuple(view.lines),
    )


@dataclass(frozen=True)
class Single:
    """The headline of an arm that has nothing to be compared with; ``summary``: None if failed."""

    panel: str
    arm: str
    metric: str = ""
    unit: str = ""
    summary: Summary | None = None


@dataclass(frozen=True)
class CeilingRow:
    """What faster devices could gain at most on one arm; ``first``: whether it is the baseline."""

    where: str
    arm: str
    ceilings: Ceilings
    first: bool

    @property
    def known(self) -> bool:
        """Whether there is any."""
        return any(one.share is not None for one in self.ceilings.total)


@dataclass(frozen=True)
class PanelView:
    """One engine's part of the report.

    ``tables``: results; ``counters``: what explains them, with the ``breakdown`` of every query
    and ``unexplained``: why plans are missing; ``what``: the workload, its driver and every
    parameter; ``stalls``: cycles by cache level, where processors count them; ``updates``: what a
    key-value client's updates did.
    """

    panel: Panel
    number: int
    published: tuple[PublishedSeries, ...]
    tables: tuple[ResultTable, ...]
    counters: tuple[ResultTable, ...]
    breakdown: tuple[BreakdownRow, ...]
    unexplained: tuple[str, ...]
    what: tuple[ShownFact, ...]
    stalls: tuple[StallTable, ...]
    engine_in_client: bool
    updates: tuple[str, ...]

    @cached_property
    def drawings(self) -> list[Drawing]:
        """Of its results."""
        return draw_panel(self.panel, self.number, self.published, why=False)

    @cached_property
    def why(self) -> list[Drawing]:
        """Of what explains them."""
        return draw_panel(self.panel, self.number, self.published, why=True)

    @cached_property
    def over_time(self) -> list[Drawing]:
        """One run of each of the first arms, over time."""
        found = (representative(arm) for arm in self.panel.arms[:_MOST_OVER_TIME])
        return [
            draw_timeline(one, self.panel.title_with_workload, f"{self.number}-over-time-{at}")
            for at, one in enumerate(found, 1)
            if one is not None
        ]

    @property
    def left_out_over_time(self) -> int:
        """Arms that have no chart over time because there are too many."""
        return max(0, len(self.panel.arms) - _MOST_OVER_TIME)

    @property
    def comparisons(self) -> tuple[Group, ...]:
        """The baseline with every other arm, then these with one another."""
        return (*self.panel.groups, *self.panel.others)

    def fitting(self) -> tuple[int, int]:
        """How many plans add up to the measured time within a tenth, and how many there are."""
        fits = [row.query.fit for row in self.breakdown if row.query.fit]
        return sum(fit.fits for fit in fits), len(fits)


@dataclass(frozen=True)
class SweepView:
    """A result over a parameter, across panels, in one place for each of ``sweeps``."""

    name: str
    sweeps: tuple[Sweep, ...]
    published: tuple[PublishedSeries, ...]

    @property
    def title(self) -> str:
        """``New-Orders per minute over users: postgres 18.4``."""
        first = self.sweeps[0]
        return f"{first.measure} over {first.over}: {first.title}"

    @cached_property
    def drawing(self) -> Drawing | None:
        """None where there would be too many lines."""
        return lines_over_parameter(self.sweeps, self.name, self.published)

    @property
    def tables(self) -> list[ResultTable]:
        """One for each place of the drawing."""
        return [sweep_table(sweep) for sweep in self.sweeps]


@dataclass(frozen=True)
class View:
    """The whole report, as the template shows it.

    ``answers``: every comparison with the baseline, by the panel's title; ``warnings``: of the
    comparisons, then ``uncontrolled`` of the host; ``noise``: what the repeats of each panel
    resolve by its calibration; ``agreement_tables``: of drivers that the report's own parts do
    not compare; ``histories``: of experiments that were executed several times.
    """

    title: str
    statuses: Mapping[str, int]
    span: tuple[str, ...]
    emulated: tuple[str, ...]
    answers: tuple[tuple[str, Group], ...]
    singles: tuple[Single, ...]
    ceilings: tuple[CeilingRow, ...]
    warnings: tuple[RunWarning, ...]
    uncontrolled: tuple[RunWarning, ...]
    checks: tuple[CheckCount, ...]
    agreements: tuple[Agreement, ...]
    agreement_tables: tuple[ResultTable, ...]
    durability: tuple[Durability, ...]
    money: Money | None
    sweeps: tuple[SweepView, ...]
    panels: tuple[PanelView, ...]
    memory: tuple[Row, ...]
    troubles: tuple[Trouble, ...]
    manifests: tuple[Mapping[str, Any], ...]
    engines: tuple[Settings, ...]
    repeat: tuple[str, ...]
    published: tuple[str, ...]
    published_rows: tuple[PublishedRow, ...]
    published_notes: tuple[tuple[str, str], ...]
    histories: tuple[History, ...]
    card: bool = False
    explained: ExplainedView | None = None
    conclusions: tuple[Checked, ...] = ()
    noise: tuple[Expected, ...] = ()
    alpha: float = ALPHA
    kinds: tuple[str, ...] = KINDS

    @cached_property
    def overview(self) -> Drawing | None:
        """The speed-ups of all answers."""
        return overview(self.answers)

    @cached_property
    def rests_on(self) -> tuple[str, Mapping[str, list[str]]]:
        """What the certainty of all answers rests on; and what else, that of which ones."""
        return apart(
            (f"{where}, {group.b.marked_name} against {group.a.marked_name}", group.rests_on)
            for where, group in self.answers
        )

    @property
    def lines(self) -> Iterator[str]:
        """For a terminal: one for each comparison, then one for each run that failed."""
        for where, group in self.answers:
            row, which = group.deciding, f"{group.b.marked_name} against {group.a.marked_name}"
            if row is None or row.estimate is None:
                found = row.note if row else "no single result stands for the whole"
            else:
                repeats = counted(min(row.estimate.n_a, row.estimate.n_b), "repeat")
                found = (
                    f"{times(row.ratio)} {interval_text(row.estimate)} by {row.title}, {repeats}"
                )
                found = f"{verdict_text(group.verdict)}: {found}"
            yield f"{where}: {which}: {found}"
        for one in self.troubles:
            if one.status == "failed":
                yield f"failed: {one.run_id}: {one.reason}"

    @property
    def warning_names(self) -> list[str]:
        """Of the host's warnings, without those that every answer is said to rest on."""
        of_each = [
            {code for fact in group.rests_on if fact.code == "warnings" for code in fact.values}
            for _, group in self.answers
        ]
        above = set.intersection(*of_each) if of_each else set()
        every = names(self.uncontrolled)
        own = [name for name in every if name not in above]
        return own if len(own) == len(every) else ["the warnings above", *own]

    @property
    def drawings(self) -> list[Drawing]:
        """In the order in which they are shown."""
        found = [self.overview, *(sweep.drawing for sweep in self.sweeps)]
        found += [
            drawing for one in self.panels for drawing in (*one.drawings, *one.why, *one.over_time)
        ]
        return [drawing for drawing in found if drawing is not None]


def view_of(
    runs: Sequence[StoredRun],
    title: str,
    over: str | None = None,
    baseline: str | None = None,
    published: Sequence[PublishedSeries] = (),
    force: bool = False,
    prices: PriceList | None = None,
    evidence: Evidence = NO_EVIDENCE,
) -> View:
    """Everything that the report says about ``runs``; as for ``write_report``."""
    compared = over or compared_dimension(runs)
    # A driver pays for nothing: what two of them differ by is no verdict, and agreements report
    # what else they differ in.
    over_drivers = compared == DRIVER
    found = panels(runs, compared, baseline, force or over_drivers)
    if over is not None and all(len(panel.arms) < 2 for panel in found):
        raise UsageError(
            f"--over {over}",
            "the runs differ in nothing of that name",
            "select runs with several of its values, or leave it out",
        )
    comparable = [] if over_drivers else found
    driven = found if over_drivers else driven_by_several(runs)
    answers = tuple((p.title_with_workload, group) for p in comparable for group in p.groups)
    swept = sweeps(found)
    stamps = sorted(run.run["started_unix_ns"] for run in runs)
    return View(
        title=title,
        statuses=Counter(str(run.run["status"]) for run in runs),
        span=tuple(dict.fromkeys(utc(stamp) for stamp in (stamps[0], stamps[-1]))),
        emulated=emulations(runs),
        answers=answers,
        singles=tuple(_single(p, p.arms[0]) for p in found if len(p.arms) == 1),
        ceilings=tuple(_ceilings(found)),
        explained=_explained(comparable, evidence),
        warnings=tuple(one for panel in comparable for one in panel_warnings(panel)),
        uncontrolled=tuple(uncontrolled(runs)),
        checks=tuple(checks(runs)),
        agreements=tuple(agreements(driven)),
        agreement_tables=tuple(
            table for p in ([] if over_drivers else driven) for table in PanelTables(p).results
        ),
        durability=tuple(durability(found)),
        money=money(comparable, prices),
        sweeps=tuple(
            SweepView(f"sweep-{i}", tuple(group), tuple(published))
            for i, group in enumerate(side_by_side(swept), 1)
        ),
        panels=tuple(_panel_view(panel, i, published) for i, panel in enumerate(found, 1)),
        memory=tuple(memory_row(panel, arm) for panel in found for arm in panel.arms),
        troubles=tuple(troubles(runs)),
        manifests=manifests(runs),
        engines=tuple(one for panel in found for one in engine_settings(panel)),
        repeat=tuple(f"harness repro {run.run_id}" for run in runs),
        published=tuple(dict.fromkeys(s.figure for s in published)),
        published_rows=tuple(published_rows(found, swept, published)),
        histories=tuple(histories(runs)),
        published_notes=tuple(dict.fromkeys((s.figure, s.note) for s in published if s.note)),
    )


def _single(panel: Panel, arm: Arm) -> Single:
    quantity = arm.headline
    if quantity is None:
        return Single(panel.title_with_workload, arm.marked_name)
    one, summary = arm.kinds()[quantity], arm.summaries(quantity.name).get(quantity)
    title = metric_title(quantity, one.better)
    return Single(panel.title_with_workload, arm.marked_name, title, one.unit, summary)


def _explained(comparable: Sequence[Panel], evidence: Evidence) -> ExplainedView | None:
    """None where no comparison of placements has anything but the measured speed-up."""
    rows = [row for row in explained(comparable, evidence) if row.moved]
    cells = [one for row in rows for one in (row.ceiling, row.device, row.modelled)]
    if all(isinstance(one, Missing) for one in cells):
        return None
    return ExplainedView(tuple(rows))


def _noise(views: Sequence[PanelView], calibrations: Sequence[Calibration]) -> Iterator[Expected]:
    for panel in (view.panel for view in views):
        run = next((run for run in panel.runs if run.manifest), None)
        rows = [group.deciding for group in panel.groups]
        known = [(r.estimate, r.decision) for r in rows if r and r.estimate and r.decision]
        if run is None or not known:
            continue
        host_id, spec = str(run.manifest["host"]["host_id"]), run.spec
        latest = latest_of(calibrations, host_id, spec)
        repeats = min(min(estimate.n_a, estimate.n_b) for estimate, _ in known)
        level = ALPHA / max(decision.family * estimate.looks for estimate, decision in known)
        if latest and (found := expected(latest, spec, repeats, level)) is not None:
            yield found


def _ceilings(found: Sequence[Panel]) -> Iterator[CeilingRow]:
    for panel in found:
        for arm in panel.arms:
            if (known := ceilings(arm.usable)) is not None:
                first = arm is panel.arms[0]
                yield CeilingRow(panel.title_with_workload, arm.marked_name, known, first)


def _panel_view(panel: Panel, number: int, published: Sequence[PublishedSeries]) -> PanelView:
    tables = PanelTables(panel)
    return PanelView(
        panel,
        number,
        tuple(published),
        tables.results,
        tables.counters,
        tuple(breakdown(panel)),
        tuple(unexplained(panel)),
        what_was_run([(arm.marked_name, arm.runs) for arm in panel.arms]),
        tuple(stall_tables(panel)),
        any(q.name.startswith("process_cpu_per_") for q in tables.kinds),
        _updates(panel, tables.kinds),
    )


def _updates(panel: Panel, quantities: Mapping[Quantity, object]) -> tuple[str, ...]:
    """The values of the parameter ``update``, where there were updates."""
    kinds = dict.fromkeys(run.run["spec"]["params"].get("update") for run in panel.runs)
    updated = {q.label("operation") for q in quantities} & {"update", "read_modify_write"}
    return tuple(kind for kind in kinds if kind and updated)
