"""Tables of measured values: every arm's medians, and the comparisons beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from reports.compare import Row
from reports.conclusion import conclusion
from reports.footnotes import MARK, TOLD_MARK, moved_by_others
from reports.metric_registry import metric_info
from reports.query_breakdown import anatomy
from reports.series import Arm, Panel
from reports.sweeps import Line, Sweep
from reports.values import OF_HISTOGRAM, Measured, Quantity, Summary, in_order
from reports.window import per_work, window_titles, work_done
from reports.words import (
    counted,
    difference_text,
    interval_text,
    metric_title,
    p_text,
    quantity_text,
    range_text,
    times,
    with_article,
)

#: The name of the columns that say what a comparison has shown.
_OUTCOME = "difference"


@dataclass(frozen=True)
class ValueTable:
    """Medians of every arm with the comparisons beside them; cells are text.

    ``heads``: the groups of columns, each with the names of its columns; the first
    column (the labels) has no name and stands before them.
    """

    title: str
    heads: tuple[tuple[str, tuple[str, ...]], ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def flat_head(self) -> list[str]:
        """One name for each column, the first included."""
        return ["", *(f"{group}: {name}" for group, names in self.heads for name in names)]

    @property
    def in_words(self) -> list[int]:
        """The indices of the columns that hold sentences, which may be broken into lines."""
        names = ["", *(name for _, group in self.heads for name in group)]
        return [index for index, name in enumerate(names) if name == _OUTCOME]

    @property
    def first_of_group(self) -> list[int]:
        """The indices of the columns that begin a group."""
        spans = [len(names) for _, names in self.heads]
        return [1 + sum(spans[:index]) for index in range(len(spans))]


def value_table(
    panel: Panel,
    title: str,
    quantities: Sequence[Quantity],
    kinds: dict[Quantity, Measured],
    brief: bool = False,
) -> ValueTable:
    """Of these quantities: each arm's, and every comparison of the panel.

    ``brief``: of a comparison the ratio and what it has shown, for tables of many counters.
    """
    heads: list[tuple[str, tuple[str, ...]]] = [
        (arm.marked_name, ("median", "range", "n")) for arm in panel.arms
    ]
    better = kinds[quantities[0]].better
    ratio = "ratio" if better == "none" else "times better"
    compared = [
        (
            f"{group.b.marked_name} against {group.a.marked_name}",
            (ratio, _OUTCOME) if brief else (ratio, "interval", "p (Holm)", _OUTCOME),
        )
        for group in panel.groups
    ]
    held = [
        {q: s for name in {q.name for q in quantities} for q, s in arm.summaries(name).items()}
        for arm in panel.arms
    ]
    limits = [
        {q: s for name in {q.name for q in quantities} for q, s in arm.limits(name).items()}
        for arm in panel.arms
    ]
    own = [arm.kinds() for arm in panel.arms]
    by_group = [{row.quantity: row for row in group.rows} for group in panel.groups]
    rows = []
    for quantity in quantities:
        one_of = kinds[quantity]
        info = metric_info(quantity, one_of.better)
        cells = [quantity.labels_text() or info.title]
        unknown = replace(one_of, value=None, note="")
        for arm, kind, one, reached in zip(panel.arms, own, held, limits, strict=True):
            cells += summary_cells(
                one.get(quantity),
                kind.get(quantity, unknown),
                info.resolution,
                reached.get(quantity),
            )
            cells[-3] += f" {MARK}" if _by_others(arm, quantity) else ""
            cells[-3] += f" {TOLD_MARK}" if quantity in arm.told else ""
        for rows_of in by_group:
            compared_cells = _row_cells(rows_of.get(quantity))
            cells += [compared_cells[0], compared_cells[-1]] if brief else compared_cells
        rows.append(tuple(cells))
    said = " ".join([title, *_remarks(panel, quantities, kinds)])
    return ValueTable(said, (*heads, *compared), tuple(rows))


def arms_table(panel: Panel) -> list[ValueTable]:
    """Every two arms by what decides; none where there are fewer than three arms."""
    if not panel.others:
        return []
    groups = [*panel.groups, *panel.others]
    deciding = [(group.headline.quantity, group.headline.second) for group in groups]
    first = next((one for one, _ in deciding if one is not None), None)
    second = next((two for _, two in deciding if two is not None), None)
    quantities = [quantity for quantity in (first, second) if quantity is not None]
    names = ("times better", "interval", "p (Holm)", _OUTCOME)
    titles = {
        quantity: next((metric_title(row) for g in groups if (row := g.row(quantity))), "")
        for quantity in quantities
    }
    rows = tuple(
        (
            f"{group.b.marked_name} against {group.a.marked_name}",
            *(cell for quantity in quantities for cell in _row_cells(group.row(quantity))),
            conclusion(group),
        )
        for group in groups
    )
    heads = tuple((titles[quantity], names) for quantity in quantities)
    title = f"Every two of {len(panel.arms)} (pairs without the baseline are a family of their own)"
    return [ValueTable(title, (*heads, ("verdict", ("first against second",))), rows)]


def _remarks(
    panel: Panel, quantities: Sequence[Quantity], kinds: dict[Quantity, Measured]
) -> Iterator[str]:
    """What must be known of marks and columns, behind the title."""
    if any(_by_others(arm, quantity) for arm in panel.arms for quantity in quantities):
        yield f"({MARK}: far more than the kernel counted for the engine)"
    if any(kinds[quantity].note == OF_HISTOGRAM for quantity in quantities):
        yield "(percentiles: the median of those of each repeat)"
    if any(quantity in arm.told for arm in panel.arms for quantity in quantities):
        yield f"({TOLD_MARK}: as its driver tells it, which keeps no histogram)"


def window_tables(
    panel: Panel, found: Sequence[Quantity], kinds: dict[Quantity, Measured]
) -> list[ValueTable]:
    """What the window added to every counter, in one table, with what one unit of work took.

    Counters that stayed at 0 everywhere are counted and not shown: an engine may tell hundreds.
    """
    moved = {one for one in found if metric_info(one, kinds[one].better).resolution}
    moved |= {
        q
        for arm in panel.arms
        for name in {one.name for one in found}
        for q, values in arm.values(name).items()
        if any(values)
    }
    quantities = in_order(one for one in found if one in moved)
    if not quantities:
        return []
    title = "over the measured window"
    if still := len(found) - len(quantities):
        title += f" ({counted(still, 'counter')} stayed at 0 in every run: report.csv has them)"
    inner = value_table(panel, title, quantities, kinds, brief=True)
    noun = work_done(panel.arms)
    rows = []
    titles = window_titles(quantities)
    for quantity, title, cells in zip(quantities, titles, inner.rows, strict=True):
        each = [per_work(arm, quantity) for arm in panel.arms] if noun else []
        shown = (quantity_text(one[0].median, one[1]) if one else "–" for one in each)
        rows.append((title, *cells[1:], *shown))
    names = tuple(arm.marked_name for arm in panel.arms)
    beside = ((f"{with_article(noun)}, median", names),) if noun else ()
    return [ValueTable(inner.title, (*inner.heads, *beside), tuple(rows))]


def _by_others(arm: Arm, quantity: Quantity) -> bool:
    """Whether a device's bytes of a query are far more than the engine's own."""
    one = anatomy(arm).get(quantity.label("query") or "")
    if one is None or quantity.name not in ("query_tier_read_bytes", "query_tier_write_bytes"):
        return False
    if quantity.name == "query_tier_read_bytes":
        return moved_by_others(one.read, one.size("io_read"))
    return moved_by_others(one.written, one.size("io_write"))


def summary_cells(
    summary: Summary | None, one: Measured, resolution: float, limit: Summary | None
) -> list[str]:
    """``limit``: the time limit that some of the runs, or all, reached instead."""
    if summary is None and limit is not None:
        return [f"limit of {quantity_text(limit.median, one.unit)} reached", "", "0"]
    if summary is None:
        return [one.note if one.value is None and one.note else "–", "", "0"]
    median = quantity_text(summary.median, one.unit, resolution)
    n = str(summary.n) if limit is None else f"{summary.n}, limit reached in {limit.n}"
    return [median, range_text(summary.low, summary.high, one.unit, resolution), n]


def _row_cells(row: Row | None) -> list[str]:
    if row is None:
        return ["–", "", "", ""]
    if row.estimate is None or row.judgement is None:
        return ["–", "", "", row.note]
    return [
        times(row.estimate.ratio),
        interval_text(row.estimate),
        p_text(row.judgement.adjusted_p),
        difference_text(row),
    ]


#: With more lines than this each has rows of its own instead of columns.
_LINES_ACROSS = 4


def sweep_table(sweep: Sweep) -> ValueTable:
    """A line's medians at every value of the parameter."""
    title = ", ".join(filter(None, [f"{sweep.measure} over {sweep.over}", sweep.place_name]))
    columns = ("median", "range", "n")

    def cells(line: Line, value: int) -> list[str]:
        return summary_cells(line.points.get(value), sweep.one, 0.0, None)

    if len(sweep.lines) <= _LINES_ACROSS:
        heads = tuple((line.marked_name, columns) for line in sweep.lines)
        rows = [
            (
                sweep.at(value),
                *(cell for line in sweep.lines for cell in cells(line, value)),
            )
            for value in sweep.values
        ]
        return ValueTable(f"{title}: {sweep.title}", heads, tuple(rows))
    rows = [
        (f"{line.marked_name}, {sweep.at(value)}", *cells(line, value))
        for line in sweep.lines
        for value in line.points
    ]
    return ValueTable(f"{title}: {sweep.title}", (("", columns),), tuple(rows))
