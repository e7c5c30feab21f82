"""A report over finished runs of engines: HTML in one file, Markdown, CSV, figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.store.calibrations import latest_of
from harness.units import counted
from reports.agreement import (
    DRIVER,
    agreement_blocks,
    agreement_paragraph,
)
from reports.answers import answer_blocks, not_controlled
from reports.arm import Arm
from reports.compare_output import (
    change_text,
    comparison_table,
    rate_text,
    rests_on_others,
    warning_lines,
)
from reports.conclusions.output import conclusion_tables
from reports.conditions import (
    checks_text,
    durability_section,
    engine_settings,
    hosts_and_tiers,
    memory_table,
    names,
    troubles,
)
from reports.explain.causes import explanation, file_operations_table
from reports.explain.comparisons import explained
from reports.explain.output import (
    ExplainedView,
    ceiling_table,
    ceiling_text,
    explained_blocks,
)
from reports.explain.prediction import NotPredicted
from reports.formatting import (
    NOTHING,
    interval_text,
    quantity_text,
    range_text,
    utc,
)
from reports.history_output import history_section
from reports.host_rates import panel_blocks
from reports.labels import what_was_run
from reports.metric_registry import metric_title
from reports.money import money, money_section
from reports.noise import expected
from reports.over_time import representative
from reports.page import write_page
from reports.published import PublishedSeries, published_rows, published_table
from reports.query_breakdown import breakdown, breakdown_blocks
from reports.report_contents import ReportContents
from reports.run_configuration import emulations
from reports.sections import (
    Block,
    Cell,
    Lines,
    Paragraph,
    Section,
    Span,
    Table,
    banner,
    marked_title,
    note,
    spans,
)
from reports.series import Panel
from reports.stalls import stall_tables
from reports.statistics import ALPHA, Missing
from reports.sweeps import Sweep, side_by_side, sweeps
from reports.table_csv import queries_as_csv, runs_as_csv
from reports.tables import PanelTables, sweep_table

#: Each is a figure of half a page.
_MOST_OVER_TIME = 6
#: Of the first screen: causes in words; engines with charts, bars and rows of each.
_MOST_CAUSES, _MOST_PAIRS, _MOST_BARS, _MOST_OPERATIONS = 4, 2, 3, 3
#: More warnings and ceilings than these are below the verdicts only.
_MOST_WARNINGS, _MOST_CEILINGS = 6, 4
_UPDATES = {
    "read-modify-write": "reads, changes and writes the record; no concurrent update is lost",
    "blind": "writes a new record and reads nothing",
    "merge": "hands the change to the engine's merge operator",
}
_METHOD = (
    "A value is the median of its repeats; of a percentile, the median of the repeats' "
    "percentiles. A speed-up is how many times better a side is than its baseline: the "
    "Hodges–Lehmann estimate over the log-ratios of repeats run side by side; its interval and p "
    "come from the exact signed-rank (unpaired: rank-sum) distribution. p is Holm's, over the "
    "headlines of an experiment, or its rows of one metric; a difference is resolved where "
    f"p ≤ {ALPHA}. The interval is that of each row by itself. “Not resolvable” means that this "
    "many repeats cannot reach that p, however large the difference; it never means that there is "
    "none."
)


@dataclass(frozen=True)
class ReportFiles:
    """Where the report is, and its answers."""

    html: Path
    markdown: Path
    csv: Path
    queries_csv: Path | None
    figures: tuple[Path, ...]
    answers: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Report(ReportContents):
    """A report on a page, and its answers for a terminal."""

    def answer_blocks(self, following: str = "") -> Iterator[Block]:
        """For a terminal: where most is gained, each verdict with its cause, each failed run.

        ``following``: the command that comes next.
        """
        yield from (Paragraph(answer.sentence, "title") for answer in self._targets)
        yield from (Paragraph(answer.text, "title") for answer in self.workload_answers)
        moved = [f"{answer.where}: {answer.sentence}" for answer in self._relations]
        yield from (Paragraph(line, "title") for line in (*self._gains, *self._memory, *moved))
        yield from answer_blocks(self.answers, following)
        for run_id, status, reason in troubles(self.runs):
            if status == "failed":
                yield Paragraph(f"failed: {run_id}: {reason}", "warning")

    def write(self, out: Path) -> ReportFiles:
        """Write ``report.html``, ``report.md``, ``report.csv`` (every metric of every run),
        ``queries.csv`` (where each query's time goes, if there are queries) and ``figures/``.

        UsageError where ``out`` cannot be written.
        """
        queries = [(panel.title, row) for panel in self.panels for row in breakdown(panel)]
        texts = {
            "report.csv": runs_as_csv(self.runs, self.panels),
            "queries.csv": queries_as_csv(queries),
        }
        title = marked_title(self.title or self._question, emulations(self.runs))
        figures = write_page(out, "report", title, self.blocks(), texts)
        return ReportFiles(
            out / "report.html",
            out / "report.md",
            out / "report.csv",
            out / "queries.csv" if queries else None,
            figures,
            tuple(self.answer_blocks()),
        )

    # What the page shows, from its top to its end -----------------------------------

    def blocks(self) -> Iterator[Block]:
        """The page: the answers, then sections that are closed at first."""
        yield self._about()
        yield from banner(emulations(self.runs))
        for number, target in enumerate(self._targets, 1):
            yield Paragraph(f"{target.sentence}.")
            if drawing := target.drawing(f"target-{number}"):
                yield drawing
        yield from (Paragraph(f"{answer.text}.") for answer in self.workload_answers)
        yield from (Paragraph(f"{text}.") for text in self._gains)
        yield from (Paragraph(text) for text in self._memory)
        yield from (Paragraph(f"{answer.where}: {answer.sentence}") for answer in self._relations)
        yield from self._answers()
        yield from self._singles()
        for agreement in self.agreements:
            yield agreement_paragraph(agreement)
        yield from self._ceilings()
        yield from self._warnings()
        yield from (answer.section() for answer in self._targets)
        all_sweeps = sweeps(self.panels)
        for number, group in enumerate(side_by_side(all_sweeps), 1):
            yield self._sweep(group, f"sweep-{number}")
        yield from self._models_of_hosts()
        yield from history_section(self.runs)
        if costs := money(self.comparable, self.prices):
            yield money_section(costs)
        yield from self._moved_relations()
        yield from durability_section(self.panels)
        if self.agreements:
            yield Section("Agreement of the drivers", [*self._agreement_blocks()], "agreement")
        for number, panel in enumerate(self.panels, 1):
            blocks = [*_panel_blocks(panel, number, self.published)]
            yield Section(f"Results: {panel.title}", blocks, f"panel-{number}")
        if explanations := [*self._explanations()]:
            yield Section("Device and engine", explanations, "explain")
        for number, panel in enumerate(self.panels, 1):
            if charts := [*_over_time(panel, number)]:
                yield Section(f"Over time: {panel.title}", charts, f"over-time-{number}")
        yield from self._published(all_sweeps)
        if tested := [conclusion for conclusion in self.conclusions if conclusion.tested]:
            tables = [*conclusion_tables(tested)]
            yield Section("Conclusions of the papers", tables, "conclusions")
        yield Section("Conditions", [*self._conditions()], "conditions")
        commands = Lines("commands", [f"harness repro {run.run_id}" for run in self.runs])
        yield Section("Method and commands", [Paragraph(_METHOD), commands], "method")

    def _models_of_hosts(self) -> Iterator[Block]:
        from reports.charts.scatter import model_errors  # and matplotlib

        if len(hosts := list(dict.fromkeys(self._hostnames))) > 1:
            drawing = model_errors(self.of_hosts.errors(hosts), hosts, "model-errors")
            yield from self.of_hosts.section(hosts, drawing)

    def _moved_relations(self) -> Iterator[Block]:
        for number, answer in enumerate(self._relations, 1):
            from reports.charts.curves import draw_relations  # and matplotlib

            blocks: list[Block] = [*answer.tables()]
            if drawing := draw_relations(answer, f"relations-{number}"):
                blocks.insert(0, drawing)
            yield Section(f"Tables and indexes: {answer.where}", blocks, f"relations-{number}")

    def _about(self) -> Paragraph:
        statuses = Counter(str(run.result.status) for run in self.runs)
        counts = [f"{statuses[s]} {s}" for s in ("complete", "unknown", "failed") if s in statuses]
        stamps = sorted(run.result.started_unix_ns for run in self.runs)
        span = " to ".join(dict.fromkeys(utc(stamp) for stamp in (stamps[0], stamps[-1])))
        text = f"{counted(len(self.runs), 'run')}: {', '.join(counts)} · {span}"
        if any(True for _ in troubles(self.runs)):
            text += " · failed and unknown runs: see Warnings and checks"
        if not self.card:
            return Paragraph(text, "about")
        link = Span("What the devices like: the card", "link", "card")
        return Paragraph((f"{text} · ", link), "about")

    def _answers(self) -> Iterator[Block]:
        from reports.charts.forest import overview  # and matplotlib, where it is needed

        if drawing := overview(self.answers, "Speed-up of every comparison"):
            yield drawing
        if self.answers:
            yield comparison_table("Verdicts", self.answers)
        for panel in self.comparable:
            yield from panel_blocks(panel, self.prices)
        yield from self._causes()
        if self.answers:
            yield from map(note, not_controlled([group for _, group in self.answers]))
            yield note(
                "A speed-up is about the median of the ratios of repeats (pair by pair), not the "
                "ratio of the medians."
            )
        for where, group in self.answers:
            if group.headline.rate:
                option = f"the rate was set (--rate), so latency is compared. {rate_text(group)}"
                paced = "think times set the rate, so latency is compared."
                by_users = group.headline.rate.by == "think time"
                yield note(f"{where}: {paced if by_users else option}")
        yield from map(note, self._noise())

    def _causes(self) -> Iterator[Block]:
        """Why: in words, and of the first engines the time by resource and the file I/O."""
        from reports.charts.stacked import resource_bars  # and matplotlib, where it is needed

        several = len({where for where, _ in self.answers}) > 1
        for where, group in self.answers[:_MOST_CAUSES]:
            if why := explanation(group).text:
                which = f"{group.b.marked_name} against {group.a.marked_name}"
                of = f"{where}, {which}" if several else which
                yield Paragraph((Span(f"Why, {of}"), f": {why}."))
        for number, panel in enumerate(self.comparable[:_MOST_PAIRS], 1):
            arms = [arm for arm in panel.arms if arm.usable][:_MOST_BARS]
            drawing = resource_bars(panel, arms, f"{number}-resources")
            table = file_operations_table(panel, arms, _MOST_OPERATIONS)
            if panel.groups and (blocks := [block for block in (drawing, table) if block]):
                yield Section("", blocks, kind="pair")

    def _noise(self) -> Iterator[str]:
        """Yield for each panel the difference that its repeats resolve, by its calibration."""
        for panel in self.panels:
            run = next((run for run in panel.runs if run.manifest), None)
            rows = [group.deciding for group in panel.groups]
            decided = [(r.estimate, r.decision) for r in rows if r and r.estimate and r.decision]
            if run is None or not run.host_id or not decided:
                continue
            spec = run.spec
            latest = latest_of(self.calibrations, run.host_id, spec)
            repeats = min(estimate.repeats for estimate, _ in decided)
            level = ALPHA / max(
                decision.family * estimate.interim_analyses for estimate, decision in decided
            )
            if latest and (expectation := expected(latest, spec, repeats, level)) is not None:
                yield f"{expectation.text}."

    def _singles(self) -> Iterator[Block]:
        """Arms that have nothing to be compared with."""
        rows = [_single(panel, panel.arms[0]) for panel in self.panels if len(panel.arms) == 1]
        head = ("engine and workload", "measured on", "by", "median", "range", "repeats")
        if rows:
            title = "Measured on one placement, without a comparison"
            yield Table(title, head, rows, "answers")

    def _ceilings(self) -> Iterator[Block]:
        firsts = [entry for entry in self.ceilings if entry[1] is entry[0].arms[0]]
        with_ceiling, without = [], []
        for panel, arm, arm_ceilings in firsts:
            if any(part.share is not None for part in arm_ceilings.total):
                with_ceiling.append((panel, arm, arm_ceilings))
            else:
                without.append(panel.title_with_workload)
        for panel, arm, arm_ceilings in with_ceiling[:_MOST_CEILINGS]:
            where = f"{panel.title_with_workload}, " if len(firsts) > 1 else ""
            ceiling = Span(f"Ceiling, {where}{arm.marked_name}")
            yield Paragraph((ceiling, ": ", *spans(ceiling_text(arm_ceilings)), "."))
        if without:
            yield note(f"No ceiling: {'; '.join(without)}; why: see Device and engine.")

    def _warnings(self) -> Iterator[Block]:
        if self.warnings:
            yield warning_lines(self.warnings[:_MOST_WARNINGS])
        host = "Nothing that the harness looks for was left uncontrolled."
        if self._uncontrolled:
            host = f"Not controlled on the host: {', '.join(self._warning_names())}."
        yield note(checks_text(self.runs) + host)
        more = [*self.warnings[_MOST_WARNINGS:], *self._uncontrolled]
        shared, others = self._rests_on
        rows = [*troubles(self.runs)]
        if more or others or rows:
            blocks: list[Block] = [warning_lines(more), *rests_on_others(shared, others)]
            if rows:
                about = (
                    "A failed run has no value in any chart or table. An unknown one (†) has, but "
                    "a check of it has no result."
                )
                table = Table("Failed and unknown runs", ("run", "status", "why"), rows)
                blocks += [Paragraph(about), table]
            yield Section("Warnings and checks", blocks, "warnings")

    def _warning_names(self) -> list[str]:
        """Return names of the host's warnings, without those that all answers rest on."""
        of_each = [
            {code for fact in group.rests_on if fact.code == "warnings" for code in fact.values}
            for _, group in self.answers
        ]
        above = set.intersection(*of_each) if of_each else set()
        every = names(self._uncontrolled)
        further = [name for name in every if name not in above]
        return further if len(further) == len(every) else ["the warnings above", *further]

    def _sweep(self, group: Sequence[Sweep], name: str) -> Section:
        """A result over a parameter, across panels, in one place for each sweep."""
        from reports.charts.curves import lines_over_parameter  # and matplotlib, where it is needed

        first = group[0]
        drawing = lines_over_parameter(group, name, self.published)
        blocks: list[Block] = [drawing] if drawing else []
        for sweep in group:
            blocks.append(sweep_table(sweep))
        return Section(f"{first.measure} over {first.over}: {first.title}", blocks, name)

    def _agreement_blocks(self) -> Iterator[Block]:
        yield Paragraph(
            "Drivers that offered the same load under the same conditions, each to data of its own "
            "making."
        )
        for agreement in self.agreements:
            yield from agreement_blocks(agreement)
        for panel in [] if self.over == DRIVER else self._driven:
            yield from PanelTables(panel).results

    def _explanations(self) -> Iterator[Block]:
        if self.ceilings:
            arms = [
                (p.title_with_workload, a.marked_name, arm_ceilings)
                for p, a, arm_ceilings in self.ceilings
            ]
            yield from ceiling_table(arms)
        rows = [row for row in explained(self.comparable, self.sources) if row.moved]
        cells = [cell for row in rows for cell in (row.ceiling, row.predicted, row.modelled)]
        if not all(isinstance(cell, Missing | NotPredicted) for cell in cells):
            view = ExplainedView(tuple(rows))
            yield from explained_blocks(view, view.picture("predicted"))

    def _published(self, all_sweeps: Sequence[Sweep]) -> Iterator[Block]:
        rows = [row.cells for row in published_rows(self.panels, all_sweeps, self.published)]
        if not rows:
            return
        figures = ", ".join(dict.fromkeys(series.figure for series in self.published))
        about = Paragraph(
            f"Numbers of {figures}, printed in the paper or read off its figures. They were "
            "measured on the paper's machine, with its data, and enter no comparison."
        )
        head = ("figure", "engine and placement", "point", "metric", "published", "measured here")
        notes = dict.fromkeys((s.figure, s.note) for s in self.published if s.note)
        blocks = [published_table("Published numbers", head, rows)]
        blocks += [note(f"{figure}: {text}.") for figure, text in notes]
        yield Section("As published", [about, *blocks], "published")

    def _conditions(self) -> Iterator[Block]:
        for panel in self.panels:
            facts = what_was_run([(arm.marked_name, arm.runs) for arm in panel.arms])
            yield Table(f"What was run: {panel.title}", ("what", "value"), facts)
        yield memory_table(self.panels)
        if self.answers and not any(map(stall_tables, self.panels)):
            yield note("Stall cycles by cache level: not counted here.")
        yield from hosts_and_tiers(self.runs)
        for panel in self.panels:
            yield from engine_settings(panel)


def _single(panel: Panel, arm: Arm) -> list[Cell]:
    quantity = arm.headline
    cells: list[Cell] = [panel.title_with_workload, arm.marked_name]
    if quantity is None:
        return [*cells, "no result", NOTHING, NOTHING, 0]
    point = arm.points[quantity]
    summary, unit = point.summary, point.unit
    median, ends = quantity_text(summary.median, unit), range_text(summary.low, summary.high, unit)
    return [*cells, metric_title(quantity, point.better), median, ends, summary.n]


def _panel_blocks(
    panel: Panel, number: int, published: Sequence[PublishedSeries]
) -> Iterator[Block]:
    """One engine's results: charts, comparisons, tables, and what explains them."""
    from reports.charts import draw_panel  # and matplotlib, where it is needed

    tables = PanelTables(panel)
    if any(q.name.startswith("process_cpu_per_") for q in tables.kinds):
        yield note(
            "The engine is a library inside the client: processor time and memory are those of one "
            "process that holds both."
        )
    kinds = dict.fromkeys(run.spec.params.get("update") for run in panel.runs)
    updated = {q.label("operation") for q in tables.kinds} & {"update", "read_modify_write"}
    for kind in kinds:
        if kind in _UPDATES and updated:
            yield note(f"An update ({kind}) {_UPDATES[kind]}.")
    yield from draw_panel(panel, number, published, why=False)
    if panel.others:
        # The baseline with every other arm, then these with one another.
        pairs = [(panel.title, group) for group in (*panel.groups, *panel.others)]
        family = "pairs without the baseline are a family of their own"
        yield comparison_table(f"Every two of {len(panel.arms)} ({family})", pairs)
    for group in panel.groups:
        second = group.row(group.headline.second)
        if group.gain or second:
            text = f"{group.b.marked_name} against {group.a.marked_name}:"
            if second:
                interval = f" {interval_text(second.estimate)}" if second.estimate else ""
                text += f" second, {change_text(second)}{interval}, tested after the first."
            yield note(f"{text} Largest gain: {change_text(group.gain)}.")
    yield from tables.results
    if rows := breakdown(panel):
        charts = draw_panel(panel, number, published, why=True)
        yield Section("Where the time goes", [*breakdown_blocks(panel, rows, charts)], kind="sub")
    if counters := [*tables.counters]:
        yield Section("Counters and operator times", counters, kind="sub")
    for stalls in stall_tables(panel):
        yield from stalls.blocks()


def _over_time(panel: Panel, number: int) -> Iterator[Block]:
    """One run of each of the first arms, over time."""
    from reports.charts.over_time import draw_timeline  # and matplotlib, where it is needed

    timelines = [representative(arm) for arm in panel.arms[:_MOST_OVER_TIME]]
    charts = [
        draw_timeline(timeline, panel.title_with_workload, f"{number}-over-time-{at}")
        for at, timeline in enumerate(timelines, 1)
        if timeline is not None
    ]
    yield from charts
    left = len(panel.arms) - _MOST_OVER_TIME
    if charts and left > 0:
        yield note(f"Not drawn: the last {left} of {len(panel.arms)} that were measured.")
