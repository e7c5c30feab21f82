"""Agreement of two drivers that offered the same load: each on data of its own making.

One driver calibrates the other. Nothing is won by the one that shows more: what they differ by
is client, statements and data together, and no tier is compared by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from harness.sequences import grouped
from harness.store.runs import StoredRun
from harness.units import format_bytes
from reports.compare import Group, compare
from reports.compare_output import rate_text, verdict_cell, warning_lines
from reports.compared_rows import Row
from reports.formatting import NOTHING, interval_text, times
from reports.metric_registry import metric_info
from reports.sections import Block, Cell, Paragraph, Section, Span, Table, note
from reports.series import Panel, panels

#: The dimension that they are compared over.
DRIVER = "driver"
#: Data of two drivers whose sizes are farther apart are reported: caches hold less of the larger.
_SIZES_APART = 0.01


@dataclass(frozen=True)
class Spread:
    """A spread is the lowest and the highest ratio, B to A, of the times of one kind of work."""

    title: str
    rows: int
    low: float
    high: float
    ready_made: bool


@dataclass(frozen=True)
class Agreement:
    """Compares two drivers, A and B of ``group``, under the same conditions.

    ``ratio``: B to A, of the headline; ``sizes``: bytes of their data where they differ;
    ``differences``: what they differ in besides.
    """

    where: str
    panel: Panel
    group: Group
    row: Row
    spreads: tuple[Spread, ...]
    sizes: tuple[float, float] | None
    differences: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """Return how much of A's value B has; an estimate is how much better B is."""
        return _of_b_to_a(self.row)


def driven_by_several(runs: Sequence[StoredRun]) -> list[Panel]:
    """Return panels of runs that differ in their driver alone; empty where one drove all."""
    drivers: dict[str, set[str]] = {}
    for run in runs:
        spec = run.spec
        drivers.setdefault(spec.workload, set()).add(spec.driver)
    comparable = [run for run in runs if len(drivers[run.spec.workload]) > 1]
    return (
        [panel for panel in panels(comparable, DRIVER, None, force=True) if panel.groups]
        if comparable
        else []
    )


def agreements(panels: Sequence[Panel]) -> list[Agreement]:
    """Return the agreement of every pair of drivers that has a headline in common."""
    return [
        _of_group(panel, group, row)
        for panel in panels
        for group in panel.groups
        if (row := group.deciding) is not None and row.estimate is not None
    ]


def _of_group(panel: Panel, group: Group, row: Row) -> Agreement:
    arms = {arm.name: arm.usable for arm in panel.arms}
    a, b = arms[group.a.name], arms[group.b.name]
    # A client that holds the engine opens it in its own way.
    differences = compare(a, b, [DRIVER], force=True).differences
    spreads = tuple(_spreads([row for row in group.rows if row.estimate and row.better != "none"]))
    return Agreement(
        _where(panel), panel, group, row, spreads, _sizes(a, b), tuple(map(str, differences))
    )


def _sizes(a: Sequence[StoredRun], b: Sequence[StoredRun]) -> tuple[float, float] | None:
    sides = [[run.result.data_bytes for run in side] for side in (a, b)]
    recorded = [[size for size in side if size is not None] for side in sides]
    if recorded != sides or not all(recorded):
        return None
    first, second = (median(side) for side in recorded)
    return (first, second) if abs(second - first) > _SIZES_APART * max(first, second) else None


def _where(panel: Panel) -> str:
    """Return the panel's title with the placement, which it has only where that differs."""
    names = dict.fromkeys(run.spec.where for run in panel.runs)
    rest = [name for name in names if not any(name in text for text in panel.context)]
    return ", ".join([panel.title_with_workload, *rest])


def _of_b_to_a(row: Row) -> float:
    return row.ratio if row.better == "higher" else 1 / row.ratio


def _spreads(rows: Sequence[Row]) -> Iterator[Spread]:
    """Yield the spread of each metric of durations, over all of its percentiles."""
    for percentiles in grouped((row.quantity.name, row) for row in rows).values():
        info = metric_info(percentiles[0].quantity, percentiles[0].better)
        if info.role == "detail":
            ratios = [_of_b_to_a(row) for row in percentiles]
            ready_made = any(row.ready_made for row in percentiles)
            yield Spread(info.title, len(percentiles), min(ratios), max(ratios), ready_made)


def agreement_paragraph(agreement: Agreement) -> Paragraph:
    """The ratio of the headline, in a sentence."""
    a, b, estimate = (
        agreement.group.a.marked_name,
        agreement.group.b.marked_name,
        agreement.row.estimate,
    )
    interval = interval_text(estimate) if estimate else NOTHING
    statement = f": {b} has {times(agreement.ratio)} of what {a} has in {agreement.row.title} ("
    end = f"), interval of the speed-up {interval}."
    return Paragraph((Span(agreement.where), statement, *verdict_cell(agreement.row), end))


def agreement_blocks(agreement: Agreement) -> Iterator[Block]:
    """The ratio of every metric, and what else the drivers differ in."""
    a, b = agreement.group.a.marked_name, agreement.group.b.marked_name
    yield Section(f"{agreement.where}: {b} to {a}", kind="sub")
    ratio = times(agreement.ratio)
    rows: list[list[Cell]] = [[agreement.row.title, 1, ratio, ratio, ""]]
    for spread in agreement.spreads:
        remark = "percentiles of one driver are ready-made" if spread.ready_made else ""
        rows.append([spread.title, spread.rows, times(spread.low), times(spread.high), remark])
    yield Table(f"Ratio of {b} to {a}", ("", "rows", "lowest", "highest", ""), rows)
    if agreement.group.headline.rate:
        yield note(rate_text(agreement.group))
    if agreement.sizes:
        of_a, of_b = map(format_bytes, agreement.sizes)
        yield note(
            f"Their data differ in size: {of_a} of {a}, {of_b} of {b}. Caches hold more of the "
            "smaller."
        )
    if agreement.differences:
        yield note(f"They also differ in {'; '.join(agreement.differences)}.")
    if agreement.group.warnings:
        yield warning_lines(agreement.group.warnings)
