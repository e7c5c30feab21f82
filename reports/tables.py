"""Tables of results: a row for each quantity and arm, with its comparison with the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.units import counted
from reports.arm import Arm
from reports.compare_output import verdict_cell
from reports.compared_rows import Row
from reports.formatting import NOTHING, interval_text, p_text, quantity_text, range_text, times
from reports.metric_registry import counter_title, headline_first, metric_info
from reports.query_breakdown import MARK, READY_MADE_MARK, query_breakdowns
from reports.sections import Block, Cell, Table, note
from reports.sequences import grouped
from reports.series import Panel
from reports.sweeps import Sweep
from reports.values import (
    CLIENT_LABELS,
    OF_HISTOGRAM,
    Measured,
    Quantity,
    Summary,
    duration_of,
    in_order,
    measured,
    summarise,
)


@dataclass(frozen=True)
class ResultRow:
    """One quantity on one arm.

    ``first``: whether it is the quantity's first row, which carries the label. ``limit``: the time
    limit that runs reached instead. ``note``: why there is no value. ``compared``: with the
    baseline, None on it. ``each``: for each unit of work, with its unit.
    """

    label: str
    first: bool
    arm: str
    unit: str
    resolution: float
    summary: Summary | None
    limit: Summary | None = None
    note: str = ""
    marks: str = ""
    compared: Row | None = None
    each: tuple[Summary, str] | None = None


@dataclass(frozen=True)
class ResultTable:
    """Rows under a title. ``still``: counters that stayed at 0 everywhere and are not listed.

    ``work``: the unit of work that ``each`` counts, empty without it.
    """

    title: str
    rows: tuple[ResultRow, ...]
    compared: bool = False
    percentiles: bool = False
    still: int = 0
    work: str = ""

    @property
    def ratio(self) -> str:
        """What the column of ratios is called: of counters, neither direction is better."""
        found = [row.compared.better for row in self.rows if row.compared is not None]
        return "times as much" if {*found} == {"none"} else "times better"

    @property
    def has_verdict(self) -> bool:
        """Whether a row has a verdict."""
        return any(row.compared is not None and row.compared.has_verdict for row in self.rows)


class PanelTables:
    """The tables of a panel, its quantities by what they are for."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self.kinds = _with_limited({q: one for arm in panel.arms for q, one in arm.kinds().items()})
        self._roles: dict[str, list[Quantity]] = {}
        names = {quantity.name for quantity in self.kinds}
        of_arms = [{quantity.name for quantity in arm.kinds()} for arm in panel.arms]
        for quantity, one in self.kinds.items():
            of_trace = quantity.name.removeprefix(_WINDOW)
            having = [of_arm for of_arm in of_arms if quantity.name in of_arm]
            if of_window(quantity) and having and all(of_trace in one for one in having):
                continue  # the I/O trace has it by role of the thread, too
            windowed = of_window(quantity) or f"{_WINDOW}{quantity.name}" in names
            role = "window" if windowed else metric_info(quantity, one.better).role
            plain = role == "part" and not quantity.labels
            self._roles.setdefault("overall" if plain else role, []).append(quantity)

    @property
    def results(self) -> tuple[ResultTable, ...]:
        """What was measured: the whole, then its parts."""
        heads = headline_first([*self._roles.get("headline", []), *self._roles.get("overall", [])])
        overall = (self._table("overall", heads),) if heads else ()
        return (*overall, *self._tables("part"), *self._tables("detail"))

    @property
    def counters(self) -> tuple[ResultTable, ...]:
        """What explains it; counters that are 0 on every arm are left out."""
        return (*self._window(), *self._tables("counter"), *self._tables("breakdown"))

    def _tables(self, role: str) -> Iterator[ResultTable]:
        by_name = grouped((one.name, one) for one in self._roles.get(role, []))
        for quantities in map(in_order, by_name.values()):
            title = metric_info(quantities[0], self.kinds[quantities[0]].better).title
            moving = self._moving(quantities) if role in ("counter", "breakdown") else quantities
            if moving:
                yield replace(self._table(title, moving), still=len(quantities) - len(moving))

    def _moving(self, quantities: Sequence[Quantity]) -> list[Quantity]:
        """Those that some run has another value of than 0, and those counted in coarse steps."""
        moved = {
            quantity
            for arm in self._panel.arms
            for name in {one.name for one in quantities}
            for quantity, values in arm.values(name).items()
            if any(values)
        }
        return [
            one
            for one in quantities
            if one in moved
            or metric_info(one, self.kinds[one].better).resolution
            or not any(one in arm.values(one.name) for arm in self._panel.arms)
        ]

    def _window(self) -> Iterator[ResultTable]:
        """What the window added to every counter, with its share of each unit of work."""
        found = self._roles.get("window", [])
        quantities = in_order(self._moving(found))
        if quantities:
            table = self._table("over the measured window", quantities, window_titles(quantities))
            arms, noun = self._panel.arms, work_done(self._panel.arms)
            rows = tuple(
                replace(row, each=per_work(arm, quantity) if noun else None)
                for row, (quantity, arm) in zip(
                    table.rows, ((q, a) for q in quantities for a in arms), strict=True
                )
            )
            yield replace(table, rows=rows, still=len(found) - len(quantities), work=noun)

    def _table(
        self, title: str, quantities: Sequence[Quantity], labels: Sequence[str] = ()
    ) -> ResultTable:
        panel = self._panel
        compared = {
            (group.b.name, row.quantity): row for group in panel.groups for row in group.rows
        }
        sides = [_Side(arm, {q.name for q in quantities}) for arm in panel.arms]
        titles = labels or [
            q.labels_text() or metric_info(q, self.kinds[q].better).title for q in quantities
        ]
        rows = [
            replace(
                side.row(quantity, label, self.kinds[quantity]),
                first=place == 0,
                compared=compared.get((side.arm.name, quantity)),
            )
            for quantity, label in zip(quantities, titles, strict=True)
            for place, side in enumerate(sides)
        ]
        percentiles = any(self.kinds[q].note == OF_HISTOGRAM for q in quantities)
        return ResultTable(title, tuple(rows), bool(panel.groups), percentiles)


class _Side:
    """One arm's values of some metrics."""

    def __init__(self, arm: Arm, names: Iterable[str]) -> None:
        self.arm = arm
        self._kinds = arm.kinds()
        self._values = {q: s for name in names for q, s in arm.summaries(name).items()}
        self._limits = {q: s for name in names for q, s in arm.limits(name).items()}

    def row(self, quantity: Quantity, label: str, one: Measured) -> ResultRow:
        own = self._kinds.get(quantity)
        marks = MARK if _by_others(self.arm, quantity) else ""
        return ResultRow(
            label,
            True,
            self.arm.marked_name,
            one.unit,
            metric_info(quantity, one.better).resolution,
            self._values.get(quantity),
            self._limits.get(quantity),
            own.note if own is not None and own.value is None else "",
            marks + (READY_MADE_MARK if quantity in self.arm.ready_made else ""),
        )


def _by_others(arm: Arm, quantity: Quantity) -> bool:
    """Whether a device's bytes of a query are far more than the engine's own."""
    one = query_breakdowns(arm).get(quantity.label("query") or "")
    if one is None:
        return False
    moved = {
        "query_tier_read_bytes": one.read_by_others,
        "query_tier_write_bytes": one.written_by_others,
    }
    return moved.get(quantity.name, False)


def _with_limited(kinds: Mapping[Quantity, Measured]) -> dict[Quantity, Measured]:
    """With the durations of queries that have none anywhere, since they reached their limit."""
    limited = {
        Quantity(duration_of(q.name), q.labels): one
        for q, one in kinds.items()
        if duration_of(q.name)
    }
    return {q: Measured(q, q.name, one.unit, "lower", None) for q, one in limited.items()} | {
        **kinds
    }


def sweep_table(sweep: Sweep) -> ResultTable:
    """A line's medians at every value of the parameter."""
    rows = [
        ResultRow(
            sweep.at(value),
            place == 0,
            line.marked_name,
            sweep.unit,
            0.0,
            line.points.get(value),
        )
        for value in sweep.values
        for place, line in enumerate(one for one in sweep.lines if value in one.points)
    ]
    title = ", ".join(filter(None, [f"{sweep.measure} over {sweep.over}", sweep.place_name]))
    return ResultTable(f"{title}: {sweep.title}", tuple(rows))


def result_blocks(table: ResultTable) -> Iterator[Block]:
    """A table of results as it is shown, with its notes."""
    head = ["", "measured on", "median", "range", "n"]
    if table.work:
        head.append(f"each {table.work}, median")
    if table.compared:
        head += [table.ratio, "interval"]
        head += ["p (Holm)", "verdict"] if table.has_verdict else ["remarks"]
    yield Table(table.title, head, [_cells(table, row) for row in table.rows], "numbers")
    missing = [
        f"{row.label}, {row.arm}: {row.note}"
        for row in table.rows
        if row.note and not row.summary and not row.limit
    ]
    if missing:
        yield note(f"No value: {'; '.join(missing)}.")
    if table.percentiles:
        yield note("A percentile is the median of the percentiles of each repeat.")
    marks = "".join(row.marks for row in table.rows)
    if MARK in marks:
        yield note(f"{MARK}: far more than the engine moved.")
    if READY_MADE_MARK in marks:
        yield note(f"{READY_MADE_MARK}: reported ready-made by a driver that has no histogram.")
    if table.still:
        yield note(f"{counted(table.still, 'counter')} stayed at 0 in every run: see report.csv.")


def _cells(table: ResultTable, row: ResultRow) -> list[Cell]:
    cells: list[Cell] = [row.label if row.first else "", row.arm]
    if row.summary:
        median = quantity_text(row.summary.median, row.unit, row.resolution)
        limited = f", limit reached in {row.limit.n}" if row.limit else ""
        cells += [
            f"{median} {row.marks}".strip(),
            range_text(row.summary.low, row.summary.high, row.unit, row.resolution),
            f"{row.summary.n}{limited}",
        ]
    elif row.limit:
        cells += [f"limit of {quantity_text(row.limit.median, row.unit)} reached", "", "0"]
    else:
        cells += [NOTHING, "", "0"]
    if table.work:
        cells.append(quantity_text(row.each[0].median, row.each[1]) if row.each else NOTHING)
    if table.compared:
        cells += _compared_cells(table, row)
    return cells


def _compared_cells(table: ResultTable, row: ResultRow) -> Iterator[Cell]:
    compared = row.compared
    if compared is None or compared.estimate is None or compared.decision is None:
        yield from [""] * (3 if table.has_verdict else 2)
        differs = compared is not None and compared.note != row.note
        yield compared.note.partition("; ")[0] if compared and differs else ""
        return
    yield times(compared.ratio)
    yield interval_text(compared.estimate)
    if table.has_verdict:
        yield p_text(compared.decision.adjusted_p) if compared.has_verdict else NOTHING
    yield verdict_cell(compared, not table.percentiles)


# The measured window -------------------------------------------------------------

_WINDOW = "window_"
#: How long it was is no count of what happened in it.
_LENGTH = "window_duration_ns"
#: A rate or a share does not become smaller with more transactions.
_ADDED_UP = ("ns", "B", "1")
#: What counts as done: transactions that were to be rolled back, too.
_DONE = ("count", "rolled_back_count")


def of_window(quantity: Quantity) -> bool:
    """Whether it is what the window added to a counter."""
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
    """What a client's unit of work is called here: transaction, operation; empty without any."""
    names = {quantity.name for arm in arms for quantity in arm.kinds()}
    return next((noun for noun in CLIENT_LABELS if f"{noun}_{_DONE[0]}" in names), "")


def per_work(arm: Arm, quantity: Quantity) -> tuple[Summary, str] | None:
    """Over the arm's runs, with the unit: each run's own by the work that it did itself.

    None where it is no sum, is below what can be distinguished from zero, or a driver does not
    report how much was done.
    """
    noun = work_done([arm])
    found = []
    for run in arm.usable:
        values = measured(run)
        one, done = values.get(quantity), done_count(values, noun)
        if one is None or one.value is None or not done or one.unit not in _ADDED_UP:
            continue
        if abs(one.value) >= metric_info(quantity, one.better).resolution:
            found.append((one.value / done, one.unit))
    summary = summarise(value for value, _ in found)
    if summary is None or quantity.name == _LENGTH or quantity.name.endswith("_per_s"):
        return None
    return summary, found[0][1]


def done_count(values: Mapping[Quantity, Measured], noun: str) -> float:
    """Transactions committed, only read, or rolled back as they should; operations done."""
    names = {f"{noun}_{count}" for count in _DONE}
    return sum(one.value or 0.0 for q, one in values.items() if q.name in names)
