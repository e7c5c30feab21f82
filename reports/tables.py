"""Tables of results: a row for each quantity, with its value on every arm side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from harness.sequences import grouped
from harness.units import counted
from reports.arm import Arm
from reports.compare_output import verdict_cell
from reports.compared_rows import Row
from reports.formatting import NOTHING, interval_text, p_text, quantity_text, range_text, times
from reports.metric_registry import counter_title, headline_first, metric_info
from reports.query_breakdown import MARK, READY_MADE_MARK, query_breakdowns
from reports.sections import Block, Cell, Section, Table, badge, note
from reports.series import Panel
from reports.sweeps import Sweep
from reports.values import (
    CLIENT_LABELS,
    OF_HISTOGRAM,
    Point,
    Quantity,
    Summary,
    duration_of,
    in_order,
    summarise,
)

#: Roles of what explains results.
_EXPLAINING = ("window", "counter", "breakdown")
_ONE_SIDED = "Measured on one side only"
#: With more arms, the ranges of repeats are in report.csv alone.
_MOST_RANGES = 2


class PanelTables:
    """The tables of a panel, its quantities by what they are for."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self.kinds = _with_limited(
            {q: kind for arm in panel.arms for q, kind in arm.points.items()}
        )
        self._roles: dict[str, list[Quantity]] = {}
        names = {quantity.name for quantity in self.kinds}
        of_arms = [{quantity.name for quantity in arm.points} for arm in panel.arms]
        for quantity, kind in self.kinds.items():
            of_trace = quantity.name.removeprefix(_WINDOW)
            having = [of_arm for of_arm in of_arms if quantity.name in of_arm]
            if of_window(quantity) and having and all(of_trace in of_arm for of_arm in having):
                continue  # the I/O trace has it by role of the thread, too
            windowed = of_window(quantity) or f"{_WINDOW}{quantity.name}" in names
            role = "window" if windowed else metric_info(quantity, kind.better).role
            plain = role == "part" and not quantity.labels
            self._roles.setdefault("overall" if plain else role, []).append(quantity)

    @property
    def results(self) -> Iterator[Block]:
        """Yield the tables of results: the whole, then its parts."""
        heads = headline_first([*self._roles.get("headline", []), *self._roles.get("overall", [])])
        if heads:
            yield from self._table("overall", heads)
        yield from self._tables("part")
        yield from self._tables("detail")

    @property
    def counters(self) -> Iterator[Block]:
        """Yield the tables of counters that explain results, without any that is 0 on all arms."""
        counters = self._two_sided("window")
        quantities = in_order(self._moving(counters))
        if quantities:
            # What the window added to every counter, with its share of each unit of work.
            title, work = "over the measured window", work_done(self._panel.arms)
            yield from self._table(title, quantities, window_titles(quantities), work)
            yield from _still(len(counters) - len(quantities))
        yield from self._tables("counter")
        yield from self._tables("breakdown")
        yield from self._one_sided_rows()

    def _tables(self, role: str) -> Iterator[Block]:
        explaining = role in _EXPLAINING
        of_role = self._two_sided(role) if explaining else self._roles.get(role, [])
        for quantities in map(
            in_order, grouped((quantity.name, quantity) for quantity in of_role).values()
        ):
            title = metric_info(quantities[0], self.kinds[quantities[0]].better).title
            moving = self._moving(quantities) if explaining else quantities
            if moving:
                yield from self._table(title, moving)
                yield from _still(len(quantities) - len(moving))

    def _two_sided(self, role: str) -> list[Quantity]:
        return [quantity for quantity in self._roles.get(role, []) if not self._one_sided(quantity)]

    def _one_sided(self, quantity: Quantity) -> bool:
        """Return whether only the baseline, or only other arms have it."""
        first, *others = (quantity in arm.points for arm in self._panel.arms)
        return bool(others) and first != any(others)

    def _one_sided_rows(self) -> Iterator[Block]:
        """The counters that have nothing to be compared with, folded."""
        rows = [
            [f"{metric_info(q, self.kinds[q].better).title} {q.labels_text()}".strip(), *cells]
            for role in _EXPLAINING
            for q in in_order(self._moving(self._roles.get(role, [])))
            if self._one_sided(q)
            for cells in self._of_sides(q)
        ]
        if rows:
            table = Table(_ONE_SIDED, ("", "measured on", "median", "range", "n"), rows, "numbers")
            yield Section(f"{_ONE_SIDED}: {counted(len(rows), 'row')}", [table])

    def _of_sides(self, quantity: Quantity) -> Iterator[list[Cell]]:
        unit = self.kinds[quantity].unit
        for arm in self._panel.arms:
            if point := arm.point(quantity):
                summary = point.summary
                ends = range_text(summary.low, summary.high, unit)
                yield [arm.marked_name, quantity_text(summary.median, unit), ends, summary.n]

    def _moving(self, quantities: Sequence[Quantity]) -> list[Quantity]:
        """Return the quantities that are not 0 in some run, and those counted in coarse steps."""
        moved = {
            quantity
            for arm in self._panel.arms
            for name in {quantity.name for quantity in quantities}
            for quantity, point in arm.of_metric(name).items()
            if any(point.samples)
        }
        return [
            quantity
            for quantity in quantities
            if quantity in moved
            or metric_info(quantity, self.kinds[quantity].better).resolution
            or not any(arm.point(quantity) for arm in self._panel.arms)
        ]

    def _table(
        self, title: str, quantities: Sequence[Quantity], labels: Sequence[str] = (), work: str = ""
    ) -> Iterator[Block]:
        """A row for each quantity: its value on each arm, and the comparisons with the baseline.

        ``work``: the unit of work that values are divided by in columns, empty without it.
        """
        labels = labels or [
            q.labels_text() or metric_info(q, self.kinds[q].better).title for q in quantities
        ]
        compared = {
            (group.b.name, row.quantity): row for group in self._panel.groups for row in group.rows
        }
        against_baseline = [
            compared[key] for key in product(self._names, quantities) if key in compared
        ]
        others = [group.b for group in self._panel.groups]
        columns = _Columns(
            self._panel.arms,
            work,
            others,
            any(row.has_verdict for row in against_baseline),
            notes=not any(self.kinds[q].note == OF_HISTOGRAM for q in quantities),
        )
        rows, missing, marks = [], [], ""
        for quantity, label in zip(quantities, labels, strict=True):
            values = [_ArmValue.of(arm, quantity, self.kinds[quantity]) for arm in self._panel.arms]
            comparisons = [compared.get((arm.name, quantity)) for arm in others]
            rows.append([label, *columns.cells(values, comparisons)])
            for value in values:
                marks += value.marks
                if value.note and not value.summary and not value.limit:
                    missing.append(f"{label}, {value.arm.marked_name}: {value.note}")
        # Of counters, neither direction is better.
        neither = {row.better for row in against_baseline} == {"none"}
        head = columns.head("times as much" if neither else "times better")
        yield Table(title, head, rows, "numbers")
        if missing:
            yield note(f"No value: {'; '.join(missing)}.")
        if not columns.notes:
            yield note("A percentile is the median of the percentiles of each repeat.")
        if MARK in marks:
            yield note(f"{MARK}: far more than the engine moved.")
        if READY_MADE_MARK in marks:
            yield note(f"{READY_MADE_MARK}: reported ready-made by a driver that has no histogram.")

    @property
    def _names(self) -> list[str]:
        return [arm.name for arm in self._panel.arms]


@dataclass(frozen=True)
class _ArmValue:
    """One quantity on one arm. ``limit``: the time limit that runs reached instead."""

    arm: Arm
    quantity: Quantity
    kind: Point
    summary: Summary | None
    limit: Summary | None
    note: str
    marks: str

    @classmethod
    def of(cls, arm: Arm, quantity: Quantity, kind: Point) -> _ArmValue:
        point, limit = arm.points.get(quantity), arm.limits(quantity.name).get(quantity)
        ready_made = point is not None and point.ready_made
        return cls(
            arm,
            quantity,
            kind,
            point.summary if point and point.samples else None,
            limit.summary if limit else None,
            point.note if point and not point.samples else "",
            MARK * _by_others(arm, quantity) + READY_MADE_MARK * ready_made,
        )

    def text(self, with_range: bool) -> str:
        """``503 µs (487 – 511 µs)``: the median and the range of repeats."""
        unit, resolution = (
            self.kind.unit,
            metric_info(self.quantity, self.kind.better).resolution,
        )
        if self.summary is None:
            return (
                f"limit of {quantity_text(self.limit.median, unit)} reached"
                if self.limit
                else NOTHING
            )
        text = median_and_range(self.summary, unit, resolution, self.marks, with_range)
        return f"{text}, limit reached in {self.limit.n}" if self.limit else text

    @property
    def each(self) -> str:
        """Return the value per unit of work."""
        per_unit = per_work(self.arm, self.quantity)
        return quantity_text(per_unit[0].median, per_unit[1]) if per_unit else NOTHING


def median_and_range(
    summary: Summary, unit: str, resolution: float = 0.0, marks: str = "", with_range: bool = True
) -> str:
    """``503 µs (487 – 511 µs)``; of equal repeats the median alone."""
    text = f"{quantity_text(summary.median, unit, resolution)} {marks}".strip()
    if with_range and summary.low < summary.high:
        return f"{text} ({range_text(summary.low, summary.high, unit, resolution)})"
    return text


@dataclass(frozen=True)
class _Columns:
    """Columns of a table: values by arm, and comparisons with the baseline.

    ``notes``: whether the notes of comparisons are shown.
    """

    arms: Sequence[Arm]
    work: str
    compared: Sequence[Arm]
    verdict: bool
    notes: bool

    def head(self, ratio: str) -> list[str]:
        """Their titles; ``ratio``: of the ratios."""
        names = [arm.marked_name for arm in self.arms]
        head = ["", *names, *(f"each {self.work}, {name}" for name in names if self.work), "n"]
        if len(self.compared) == 1:
            more = ["p (Holm)", "verdict"] if self.verdict else ["remarks"]
            return [*head, ratio, "interval", *more]
        return [*head, *(f"{arm.marked_name}, {ratio}" for arm in self.compared)]

    def cells(self, values: Sequence[_ArmValue], rows: Sequence[Row | None]) -> Iterator[Cell]:
        """Yield the cells after the name; ``rows``: the comparisons with the baseline."""
        with_range = not self.work and len(values) <= _MOST_RANGES
        yield from (value.text(with_range) for value in values)
        if self.work:
            yield from (value.each for value in values)
        counts = [str(value.summary.n if value.summary else 0) for value in values]
        yield counts[0] if len(set(counts)) == 1 else ", ".join(counts)
        if len(rows) == 1:
            yield from self._in_columns(rows[0], values)
        else:
            yield from map(self._in_a_cell, rows)

    def _in_columns(self, row: Row | None, values: Sequence[_ArmValue]) -> Iterator[Cell]:
        if row is None or row.estimate is None or row.decision is None:
            yield from [""] * (3 if self.verdict else 2)
            said = {value.note for value in values}
            yield row.note.partition("; ")[0] if row and row.note not in said else ""
            return
        yield times(row.ratio)
        yield interval_text(row.estimate)
        if self.verdict:
            yield p_text(row.decision.adjusted_p) if row.has_verdict else NOTHING
        yield verdict_cell(row, self.notes)

    def _in_a_cell(self, row: Row | None) -> Cell:
        """Return a ratio with its interval: ``1.90× [1.60, 2.20] faster``."""
        if row is None or row.estimate is None:
            return NOTHING
        ratio = f"{times(row.ratio)} {interval_text(row.estimate)}"
        return (f"{ratio} ", badge(row.verdict)) if row.has_verdict else ratio


def _still(counters: int) -> Iterator[Block]:
    if counters:
        yield note(f"{counted(counters, 'counter')} stayed at 0 in every run: see report.csv.")


def _by_others(arm: Arm, quantity: Quantity) -> bool:
    """Return whether a device's bytes of a query are far more than the engine's own."""
    breakdown = query_breakdowns(arm).get(quantity.label("query") or "")
    if breakdown is None:
        return False
    moved = {
        "query_tier_read_bytes": breakdown.read_by_others,
        "query_tier_write_bytes": breakdown.written_by_others,
    }
    return moved.get(quantity.name, False)


def _with_limited(kinds: Mapping[Quantity, Point]) -> dict[Quantity, Point]:
    """Add the durations of queries that have none anywhere, since they reached their limit."""
    limited = {
        Quantity(duration_of(q.name), q.labels): kind
        for q, kind in kinds.items()
        if duration_of(q.name)
    }
    undone = {q: replace(kind, better="lower", samples=()) for q, kind in limited.items()}
    return undone | {**kinds}


def sweep_table(sweep: Sweep) -> Table:
    """Return a table of all lines' medians and ranges at each value of the parameter."""
    rows = []
    for value in sweep.values:
        points = [line.points.get(value) for line in sweep.lines]
        cells = [
            median_and_range(summary, sweep.unit) if summary else NOTHING for summary in points
        ]
        counts = dict.fromkeys(str(summary.n) for summary in points if summary)
        rows.append([sweep.at(value), *cells, ", ".join(counts)])
    title = ", ".join(filter(None, [f"{sweep.measure} over {sweep.over}", sweep.place_name]))
    head = ("", *(line.marked_name for line in sweep.lines), "n")
    return Table(f"{title}: {sweep.title}", head, rows, "numbers")


# The measured window -------------------------------------------------------------

_WINDOW = "window_"
#: How long it was is no count of what happened in it.
_LENGTH = "window_duration_ns"
#: A rate or a share does not become smaller with more transactions.
_ADDED_UP = ("ns", "B", "1")
#: What counts as done: transactions that were to be rolled back, too.
_DONE = ("count", "rolled_back_count")


def of_window(quantity: Quantity) -> bool:
    """Return whether it is what the window added to a counter."""
    return quantity.name.startswith(_WINDOW)


def window_title(quantity: Quantity) -> str:
    """``postgres wal``, ``bytes spilled to temporary files``: the unit stands at the values."""
    if title := counter_title(quantity.name):
        return ", ".join(filter(None, (title, quantity.labels_text())))
    name = quantity.name.removeprefix(_WINDOW)
    for unit in ("_ns", "_bytes", "_count"):
        name = name.removesuffix(unit)
    return ", ".join(filter(None, (name.replace("_", " "), quantity.labels_text())))


def window_titles(quantities: Sequence[Quantity]) -> list[str]:
    """One each; with the unit where two would be called the same."""
    plain = [window_title(quantity) for quantity in quantities]
    return [
        title if plain.count(title) == 1 else f"{title} ({quantity.name.rpartition('_')[2]})"
        for title, quantity in zip(plain, quantities, strict=True)
    ]


def work_done(arms: Sequence[Arm]) -> str:
    """Return the name of a client's unit of work: transaction, operation; empty without any."""
    names = {quantity.name for arm in arms for quantity in arm.points}
    return next((noun for noun in CLIENT_LABELS if f"{noun}_{_DONE[0]}" in names), "")


def per_work(arm: Arm, quantity: Quantity) -> tuple[Summary, str] | None:
    """Over the arm's runs, with the unit: each run's own by the work that it did itself.

    None where it is no sum, is below what can be distinguished from zero, or a driver does not
    report how much was done.
    """
    noun = work_done([arm])
    quotients = []
    for values in arm.of_each_run:
        value, done = values.get(quantity), done_count(values, noun)
        if value is None or value.value is None or not done or value.unit not in _ADDED_UP:
            continue
        if abs(value.value) >= metric_info(quantity, value.better).resolution:
            quotients.append((value.value / done, value.unit))
    summary = summarise(value for value, _ in quotients)
    if summary is None or quantity.name == _LENGTH or quantity.name.endswith("_per_s"):
        return None
    return summary, quotients[0][1]


def done_count(values: Mapping[Quantity, Point], noun: str) -> float:
    """Transactions committed, only read, or rolled back as they should; operations done."""
    names = {f"{noun}_{count}" for count in _DONE}
    return sum(value.value or 0.0 for q, value in values.items() if q.name in names)
