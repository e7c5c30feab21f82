"""The pages of an experiment: its report, each of its comparisons, and its history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from harness.errors import UsageError
from harness.store.calibrations import Calibration
from harness.store.runs import StoredRun
from harness.units import counted
from reports.arm import Arm
from reports.charts import draw_details, draw_headline
from reports.charts.drawing import svg_alone
from reports.compare import Comparison, Group
from reports.compare_output import comparison_page
from reports.conclusions.catalogue import OF_ENGINES, conclusions_of
from reports.conclusions.model import check_all
from reports.explain.devices import TierSources
from reports.formatting import NOTHING, ratio_text, utc
from reports.history import History, histories
from reports.history_output import history_blocks
from reports.host_models import HostModels
from reports.labels import HOST_ID, value_name
from reports.micro.devices import devices, is_micro
from reports.micro.report import card_blocks, stand_ins_of
from reports.published import PublishedSeries
from reports.query_breakdown import query_breakdowns
from reports.report import Report
from reports.run_configuration import DIMENSIONS, emulations, facts, spec_facts
from reports.sections import (
    Block,
    Paragraph,
    Section,
    Span,
    Table,
    banner,
    marked_title,
)
from reports.series import Panel, panels, varying_dimensions
from reports.site.entries import Entry, SitePage, address

#: Values of a fact that say nothing: a release that adds such a fact changes no address.
_NOTHING = ("", "null", "[]", "{}")


class NotReported(Exception):
    """The runs of an experiment have no report, and why."""


@dataclass(frozen=True)
class ExperimentPages:
    """An experiment with all its runs. ``hosts``: name and address of each host by its id."""

    name: str
    runs: Sequence[StoredRun]
    hosts: Mapping[str, tuple[str, str]]
    calibrations: Sequence[Calibration]
    sources: TierSources
    published: Sequence[PublishedSeries]
    of_hosts: HostModels

    @property
    def address(self) -> str:
        return address("experiment", [self.name], self.name)

    @property
    def _history(self) -> str:
        return address("history", [self.name], self.name)

    def pages(self) -> list[SitePage]:
        """Return the pages; NotReported where the runs cannot be reported together."""
        of_engines = [run for run in self.runs if not is_micro(run)]
        try:
            with svg_alone():
                return self._pages(of_engines) if of_engines else [self._card()]
        except UsageError as error:
            raise NotReported(f"{error.problem}: {error.context}") from error
        finally:
            query_breakdowns.cache_clear()  # it holds the runs, with all that was read of them

    def _pages(self, of_engines: Sequence[StoredRun]) -> list[SitePage]:
        report = Report(
            of_engines,
            self.name,
            conclusions=check_all(conclusions_of(OF_ENGINES), self.runs),
            calibrations=self.calibrations,
            sources=self.sources,
            published=self.published,
            of_hosts=self.of_hosts,
        )
        compared = _compared(report)
        history = histories(of_engines)
        pages = [self._comparison(panel, group) for panel, group in compared]
        of_history = [self._history_page(history)] if history else []
        return [self._report(report, pages, history), *pages, *of_history]

    def _report(
        self, report: Report, comparisons: Sequence[SitePage], history: Sequence[History]
    ) -> SitePage:
        blocks: list[Block] = [Paragraph(self._links(self.runs, bool(history)), "about")]
        if comparisons:
            rows = [
                (Span(page.title, "link", f"../{page.address}"), entry.cells[-2])
                for page in comparisons
                for entry in page.entries
            ]
            table = Table("Comparisons, each with a page", ("comparison", "compared over"), rows)
            title = f"Pages of {counted(len(comparisons), 'comparison')}"
            blocks.append(Section(title, [table], "comparisons"))
        title = marked_title(self.name, emulations(report.runs))
        return SitePage(
            self.address, title, [*blocks, *report.blocks()], [self._entry(comparisons)]
        )

    def _entry(self, comparisons: Sequence[SitePage]) -> Entry:
        failed = sum(run.head.status == "failed" for run in self.runs)
        cells = (
            _names(f"{run.spec.engine}, {run.spec.workload}" for run in self.runs),
            _names(run.spec.where for run in self.runs),
            _names(run.head.host.hostname if run.head.host else "unknown" for run in self.runs),
            f"{len(self.runs)}{f', {failed} failed' if failed else ''}",
            str(len(comparisons)),
            _day(self.runs),
        )
        return Entry(
            "experiment",
            self.address,
            self.name,
            cells,
            _newest(self.runs),
            emulated=emulations(self.runs),
        )

    def _card(self) -> SitePage:
        all_devices = devices(self.runs)
        title = marked_title(self.name, stand_ins_of(all_devices))
        blocks = [
            Paragraph(self._links(self.runs, False), "about"),
            *card_blocks(all_devices, self.runs),
        ]
        return SitePage(self.address, title, blocks, [self._entry(())])

    def _comparison(self, panel: Panel, group: Group) -> SitePage:
        runs = (*group.a.runs, *group.b.runs)
        where = panel.title_with_workload
        sides = f"{group.b.marked_name} against {group.a.marked_name}"
        failed = {run.run_id: run.result.why_failed for run in runs if run.head.status == "failed"}
        comparison = Comparison((panel.over,), (group,), excluded=failed)
        of_runs = [
            (run.run_id, arm.marked_name, utc(run.head.started_unix_ns), str(run.head.status))
            for arm in (group.a, group.b)
            for run in arm.runs
        ]
        table = Table("Runs of both sides", ("run", "side", "began", "status"), of_runs)
        answers = comparison_page(comparison, charts=draw_headline(panel, group))
        details = [*draw_details(panel, group, self.published)]
        blocks: list[Block] = [
            Paragraph((*self._links(runs, False, experiment=True), f" · {_day(runs)}"), "about"),
            *banner(group.emulated),
            Section("Comparison", [*answers], "comparison", "section"),
            *([Section("Charts", details, "charts", "section")] if details else ()),
            Section("Runs", [table], "runs"),
        ]
        row = group.deciding
        ratio = ratio_text(row.estimate) if row and row.estimate else NOTHING
        place = address(
            "comparison",
            [runs[0].spec.engine, runs[0].spec.workload],
            [self.name, sorted([_identity(group.a), _identity(group.b)])],
        )
        by = row.title if row else NOTHING
        over = _over(panel, group)
        entry = Entry(
            "comparison",
            place,
            sides,
            (ratio, by, where, self.name, over, _day(runs)),
            _newest(runs),
            group.verdict,
            group.emulated,
        )
        return SitePage(place, f"{sides}: {where}", blocks, [entry])

    def _history_page(self, history: Sequence[History]) -> SitePage:
        runs = [
            run for shown in history for execution in shown.executions for run in execution.runs
        ]
        blocks = [
            Paragraph(self._links(runs, False, experiment=True), "about"),
            *banner(emulations(runs)),
            *history_blocks(history),
        ]
        entries = [self._history_entry(shown) for shown in history]
        title = marked_title(f"History of {self.name}", emulations(runs))
        return SitePage(self._history, title, blocks, entries)

    def _history_entry(self, history: History) -> Entry:
        last = history.executions[-1]
        runs = [run for execution in history.executions for run in execution.runs]
        changes = [history.executions[change.at] for change in history.change_points]
        cells = (
            history.metric,
            str(len(history.executions)),
            ", ".join(_day(change.runs) for change in changes) or "none shown",
            _day(last.runs),
        )
        verdict = last.row.verdict if last.row else ""
        return Entry(
            "history",
            self._history,
            history.title,
            cells,
            _newest(last.runs),
            verdict,
            emulations(runs),
        )

    def _links(
        self, runs: Sequence[StoredRun], history: bool, experiment: bool = False
    ) -> tuple[str | Span, ...]:
        """Return links to the pages that belong to the same runs."""
        links = [Span(self.name, "link", f"../{self.address}")] if experiment else []
        hosts = dict.fromkeys(run.head.host.host_id for run in runs if run.head.host)
        links += [
            Span(f"host {name}", "link", f"../{place}")
            for name, place in (self.hosts[host_id] for host_id in hosts)
        ]
        if history:
            links.append(Span("history", "link", f"../{self._history}"))
        return tuple(piece for link in links for piece in (" · ", link))[1:]


def _compared(report: Report) -> list[tuple[Panel, Group]]:
    """Every comparison of two arms, over each dimension in which the runs vary.

    Not over the report's dimension alone, and not with its baseline alone: both may become others
    when runs arrive, and a comparison that has a page keeps it.
    """
    shown = list(report.panels)
    over = {panel.over for panel in shown}
    for dim in varying_dimensions([{**spec_facts(r), HOST_ID: r.host_id} for r in report.runs]):
        if dim not in over:
            with suppress(UsageError):
                shown += panels(report.runs, dim, None)
    unique = {
        frozenset((_identity(group.a), _identity(group.b))): (panel, group)
        for panel in reversed(shown)
        for group in (*panel.others, *panel.groups)
    }
    return [*reversed(unique.values())]


def _identity(arm: Arm) -> tuple[tuple[str, str], ...]:
    """Return the facts that all usable runs of an arm share, and that make it this arm."""
    run = (arm.usable or arm.runs)[0]
    return tuple(sorted(item for item in facts(run).items() if item[1] not in _NOTHING))


def _over(panel: Panel, group: Group) -> str:
    """``placement``, ``memory limit: 1 GiB against 4 GiB``."""
    if panel.over not in DIMENSIONS:
        return panel.over
    sides = (value_name(arm.runs[0], DIMENSIONS[panel.over]) for arm in (group.b, group.a))
    return f"{panel.over.replace('_', ' ')}: {' against '.join(sides)}"


def _names(names: Iterator[str]) -> str:
    return "; ".join(dict.fromkeys(names))


def _newest(runs: Sequence[StoredRun]) -> int:
    return max(run.head.started_unix_ns for run in runs)


def _day(runs: Sequence[StoredRun]) -> str:
    return utc(_newest(runs))[:10]
