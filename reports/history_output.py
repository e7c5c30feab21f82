"""An experiment's history as sections of a page: chart, change points and table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.store.runs import StoredRun
from reports.formatting import NOTHING, interval_text, quantity_text, ratio_text, times, utc
from reports.history import ChangePoint, History, HistoryEntry, histories
from reports.sections import Block, Cell, Paragraph, Section, Table, badge, note


def history_section(runs: Sequence[StoredRun]) -> Iterator[Section]:
    """Yield the history of every experiment that was executed several times."""
    if shown := histories(runs):
        yield Section("History", [*history_blocks(shown)], "history")


def history_blocks(shown: Sequence[History]) -> Iterator[Block]:
    """Yield the chart, the change points and the table of each history."""
    from reports.charts.history import draw_history  # and matplotlib, where it is needed

    head = ("began", "n", "median", "times better", "verdict", "what else changed")
    yield Paragraph(
        "Executions of one experiment, each compared with the previous one: without pairs, since "
        "they did not run side by side. All these comparisons are one family (Holm). A change "
        "point compares the medians of all executions before with those that follow, up to the "
        "next change point; all splits of a series are one family."
    )
    for number, history in enumerate(shown, 1):
        if drawing := draw_history(history, f"history-{number}"):
            yield drawing
        for change in history.change_points:
            yield Paragraph(change_point_text(history, change))
        if not history.change_points:
            yield note(f"{history.title}: no change point is shown.")
        rows = [_cells(history, execution) for execution in history.executions]
        yield Table(f"{history.title}: {history.metric}", head, rows)


def change_point_text(history: History, change: ChangePoint) -> str:
    """``Change point at 2026-11-21 07:16:55 UTC: 0.80× [0.75, 0.85] (slower); engine …``."""
    execution = history.executions[change.at]
    began = utc(execution.runs[0].result.started_unix_ns)
    direction = "better" if change.ratio.above else "worse"
    changed = f"; {'; '.join(execution.changed)}" if execution.changed else ""
    return f"Change point at {began}: {ratio_text(change.ratio)} {direction}{changed}."


def _cells(history: History, execution: HistoryEntry) -> list[Cell]:
    row, summary = execution.row, execution.summary
    change = NOTHING
    if row is not None:
        estimate = row.estimate
        change = f"{times(estimate.value)} {interval_text(estimate)}" if estimate else row.note
    return [
        utc(execution.runs[0].result.started_unix_ns),
        summary.n if summary else 0,
        quantity_text(summary.median, history.unit) if summary else NOTHING,
        change,
        badge(row.verdict) if row else NOTHING,
        "; ".join(execution.changed) or NOTHING,
    ]
