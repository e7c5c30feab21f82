"""What a report shows, as plain data: the HTML and Markdown templates only lay it out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.reports.anatomy import anatomy
from harness.reports.catalogue import headline_first, metric_info
from harness.reports.charts import draw_panel
from harness.reports.charts.drawing import Drawing
from harness.reports.charts.lines import lines_over_parameter
from harness.reports.checks import checks
from harness.reports.compare import Row
from harness.reports.conditions import (
    CONDITIONS_HEAD,
    Conditions,
    Fact,
    Settings,
    TierRow,
    conditions,
    engine_settings,
    host_facts,
    tier_rows,
)
from harness.reports.facts import emulated_tiers
from harness.reports.marks import MARK, moved_by_others
from harness.reports.published import PublishedSeries
from harness.reports.published_table import PublishedRow, published_rows
from harness.reports.sentences import Sentence, fit_summary, sentences, unexplained
from harness.reports.series import Arm, Panel
from harness.reports.statistics import ALPHA
from harness.reports.sweeps import Sweep, sweeps
from harness.reports.uncontrolled import uncontrolled
from harness.reports.values import Measured, Quantity, Summary, duration_of, in_order
from harness.reports.verdict import Verdict, verdicts
from harness.reports.what_was_run import Told, what_was_run
from harness.reports.window import of_window, per_transaction, window_title
from harness.reports.words import (
    difference_text,
    interval_text,
    p_text,
    quantity_text,
    times,
    utc,
)
from harness.store import StoredRun


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
    def first_of_group(self) -> list[int]:
        """The indices of the columns that begin a group."""
        spans = [len(names) for _, names in self.heads]
        return [1 + sum(spans[:index]) for index in range(len(spans))]


@dataclass(frozen=True)
class PanelView:
    """One engine's part of the report.

    ``drawings``, ``tables``: results; ``why``, ``counters``: what explains them, with
    ``sentences`` for every query and ``fit``: how far plans account for the times;
    ``what``: the workload, its driver and every parameter.
    """

    panel: Panel
    drawings: tuple[Drawing, ...]
    tables: tuple[ValueTable, ...]
    why: tuple[Drawing, ...]
    sentences: tuple[Sentence, ...]
    fit: str
    counters: tuple[ValueTable, ...]
    what: tuple[Told, ...]

    @property
    def all_drawings(self) -> tuple[Drawing, ...]:
        """In the order in which they are shown."""
        return (*self.drawings, *self.why)


@dataclass(frozen=True)
class SweepView:
    """A result over a parameter, across panels. ``drawing``: None where lines would be too many."""

    title: str
    drawing: Drawing | None
    table: ValueTable


@dataclass(frozen=True)
class Trouble:
    """A run that is failed or unknown, with the reason."""

    run_id: str
    status: str
    reason: str


@dataclass(frozen=True)
class View:
    """The whole report."""

    title: str
    span: str
    counts: str
    emulated: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    sweeps: tuple[SweepView, ...]
    panels: tuple[PanelView, ...]
    conditions: tuple[Conditions, ...]
    checks: str
    troubles: tuple[Trouble, ...]
    uncontrolled: tuple[dict[str, str], ...]
    hosts: tuple[tuple[Fact, ...], ...]
    tiers: tuple[TierRow, ...]
    engines: tuple[Settings, ...]
    repeat: tuple[str, ...]
    alpha: float
    published: tuple[str, ...]
    published_rows: tuple[PublishedRow, ...]
    published_notes: tuple[str, ...]
    conditions_head: tuple[str, ...] = CONDITIONS_HEAD


def build(
    title: str, runs: Sequence[StoredRun], panels: Sequence[Panel],
    published: Sequence[PublishedSeries],
) -> View:  # fmt: skip
    """Everything the report says about ``runs``, already ordered in ``panels``."""
    over = sweeps(panels)
    emulated = {f"{e['tier']} by {e['by']}" for run in runs for e in emulated_tiers(run.run)}
    stamps = sorted(run.run["started_unix_ns"] for run in runs)
    return View(
        title=title,
        span=f"{utc(stamps[0])} to {utc(stamps[-1])}" if len(stamps) > 1 else utc(stamps[0]),
        counts=_counts(runs),
        emulated=tuple(sorted(emulated)),
        verdicts=tuple(verdicts(panels, ALPHA)),
        sweeps=tuple(_sweep_views(over, published)),
        panels=tuple(_panel_view(panel, i, published) for i, panel in enumerate(panels, 1)),
        conditions=tuple(conditions(panel, arm) for panel in panels for arm in panel.arms),
        checks=checks(runs),
        troubles=tuple(_troubles(runs)),
        uncontrolled=tuple(uncontrolled(runs)),
        hosts=tuple(host_facts(runs)),
        tiers=tuple(tier_rows(runs)),
        engines=tuple(one for panel in panels for one in engine_settings(panel)),
        repeat=tuple(f"harness repro {run.run_id}" for run in runs),
        alpha=ALPHA,
        published=tuple(dict.fromkeys(s.figure for s in published)),
        published_rows=tuple(published_rows(panels, over, published)),
        published_notes=tuple(dict.fromkeys(f"{s.figure}: {s.note}" for s in published if s.note)),
    )


def _counts(runs: Sequence[StoredRun]) -> str:
    states = [run.run["status"] for run in runs]
    said = [f"{states.count(state)} {state}" for state in ("complete", "unknown", "failed")
            if state in states]  # fmt: skip
    return f"{len(runs)} runs: {', '.join(said)}" if len(runs) > 1 else f"1 run: {states[0]}"


def _troubles(runs: Sequence[StoredRun]) -> Iterable[Trouble]:
    for run in runs:
        if run.run["status"] == "complete":
            continue
        reasons = [
            f"{check['name']} {', '.join(check['labels'].values())} {check['status']}: "
            f"{check['detail']}"
            for check in run.run["checks"]
            if check["status"] != "passed"
        ]
        if error := run.run["error"]:
            reasons.insert(0, f"{error['asked']}: {error['found']}. {error['do']}".strip())
        more = [f"and {len(reasons) - 5} more"] if len(reasons) > 5 else []
        yield Trouble(run.run_id, run.run["status"], "; ".join([*reasons[:5], *more]))


def _panel_view(panel: Panel, number: int, published: Sequence[PublishedSeries]) -> PanelView:
    kinds = _with_limited({q: one for arm in panel.arms for q, one in arm.kinds().items()})
    roles: dict[str, dict[str, list[Quantity]]] = {}
    for quantity, one in kinds.items():
        role = metric_info(quantity, one.better).role
        role_of_table = "window" if of_window(quantity) else role
        roles.setdefault(role_of_table, {}).setdefault(quantity.name, []).append(quantity)

    def tables(role: str) -> tuple[ValueTable, ...]:
        found = [in_order(quantities) for quantities in roles.get(role, {}).values()]
        titles = [metric_info(one[0], kinds[one[0]].better).title for one in found]
        return tuple(_table(panel, t, qs, kinds) for t, qs in zip(titles, found, strict=True))

    heads = headline_first([q for qs in roles.get("headline", {}).values() for q in qs])
    overall = (_table(panel, "overall", heads, kinds),) if heads else ()
    said = sentences(panel)
    return PanelView(
        panel,
        tuple(draw_panel(panel, number, published, why=False)),
        (*overall, *tables("part"), *tables("detail")),
        tuple(draw_panel(panel, number, published, why=True)),
        tuple(said),
        fit_summary(said, unexplained(panel)) if said else "",
        (*_window(panel, roles.get("window", {}), kinds), *tables("counter"), *tables("breakdown")),
        what_was_run([(arm.marked_name, arm.runs) for arm in panel.arms]),
    )


def _with_limited(kinds: dict[Quantity, Measured]) -> dict[Quantity, Measured]:
    """With the durations of queries that have none anywhere, since they reached their limit."""
    limited = {Quantity(duration_of(q.name), q.labels): one for q, one in kinds.items()
               if duration_of(q.name)}  # fmt: skip
    return {q: Measured(q, q.name, one.unit, "lower", None) for q, one in limited.items()} | kinds


def _sweep_views(
    found: Sequence[Sweep], published: Sequence[PublishedSeries]
) -> Iterable[SweepView]:
    for number, sweep in enumerate(found, 1):
        if len(sweep.values) < 2:
            continue
        title = metric_info(Quantity(sweep.metric), "higher").title
        heads = tuple((line.marked_name, ("median", "range", "n")) for line in sweep.lines)
        rows = []
        for value in sweep.values:
            cells = [f"{value} {sweep.parameter}"]
            for line in sweep.lines:
                one = Measured(Quantity(sweep.metric), sweep.metric, sweep.unit, "higher", None)
                cells += _summary_cells(line.points.get(value), one, 0.0, None)
            rows.append(tuple(cells))
        drawing = lines_over_parameter(sweep, title, f"sweep-{number}", published)
        table = ValueTable(f"{title} over {sweep.parameter}: {sweep.title}", heads, tuple(rows))
        yield SweepView(sweep.title, drawing, table)


def _table(
    panel: Panel, title: str, quantities: Sequence[Quantity], kinds: dict[Quantity, Measured]
) -> ValueTable:
    heads: list[tuple[str, tuple[str, ...]]] = [
        (arm.marked_name, ("median", "range", "n")) for arm in panel.arms
    ]
    better = kinds[quantities[0]].better
    ratio = "ratio" if better == "none" else "times better"
    compared = [
        (f"{group.b.marked_name} against {group.a.marked_name}",
         (ratio, "interval", "p (Holm)", "difference"))
        for group in panel.groups
    ]  # fmt: skip
    held = [{q: s for name in {q.name for q in quantities} for q, s in arm.summaries(name).items()}
            for arm in panel.arms]  # fmt: skip
    limits = [{q: s for name in {q.name for q in quantities} for q, s in arm.limits(name).items()}
              for arm in panel.arms]  # fmt: skip
    by_group = [{row.quantity: row for row in group.rows} for group in panel.groups]
    rows = []
    for quantity in quantities:
        one_of = kinds[quantity]
        info = metric_info(quantity, one_of.better)
        cells = [quantity.labels_text() or info.title]
        for arm, one, reached in zip(panel.arms, held, limits, strict=True):
            cells += _summary_cells(
                one.get(quantity), one_of, info.resolution, reached.get(quantity)
            )
            cells[-3] += f" {MARK}" if _by_others(arm, quantity) else ""
        for rows_of in by_group:
            cells += _row_cells(rows_of.get(quantity))
        rows.append(tuple(cells))
    if any(_by_others(arm, quantity) for arm in panel.arms for quantity in quantities):
        title += f" ({MARK}: far more than the kernel counted for the engine)"
    if any(kinds[quantity].hdr for quantity in quantities):
        title += " (percentiles: of all repeats together, not the median of theirs)"
    return ValueTable(title, (*heads, *compared), tuple(rows))


def _window(
    panel: Panel, named: Mapping[str, Sequence[Quantity]], kinds: dict[Quantity, Measured]
) -> list[ValueTable]:
    """What the window added to every counter, in one table, with what a transaction took."""
    quantities = in_order([q for one in named.values() for q in one])
    if not quantities:
        return []
    inner = _table(panel, "over the measured window", quantities, kinds)
    rows = []
    for quantity, cells in zip(quantities, inner.rows, strict=True):
        each = [per_transaction(arm, quantity) for arm in panel.arms]
        shown = (quantity_text(one[0].median, one[1]) if one else "–" for one in each)
        rows.append((window_title(quantity), *cells[1:], *shown))
    names = tuple(arm.marked_name for arm in panel.arms)
    heads = (*inner.heads, ("a transaction, median", names))
    return [ValueTable(inner.title, heads, tuple(rows))]


def _by_others(arm: Arm, quantity: Quantity) -> bool:
    """Whether a device's bytes of a query are far more than the engine's own."""
    one = anatomy(arm).get(quantity.label("query") or "")
    if one is None or quantity.name not in ("query_tier_read_bytes", "query_tier_write_bytes"):
        return False
    if quantity.name == "query_tier_read_bytes":
        return moved_by_others(one.read, one.size("io_read"))
    return moved_by_others(one.written, one.size("io_write"))


def _summary_cells(
    summary: Summary | None, one: Measured, resolution: float, limit: Summary | None
) -> list[str]:
    """``limit``: the time limit that some of the runs, or all, reached instead."""
    if summary is None and limit is not None:
        return [f"limit of {quantity_text(limit.median, one.unit)} reached", "", "0"]
    if summary is None:
        return [one.note if one.value is None and one.note else "–", "", "0"]
    median, low, high = (
        quantity_text(value, one.unit, resolution)
        for value in (summary.median, summary.low, summary.high)
    )
    n = str(summary.n) if limit is None else f"{summary.n}, limit reached in {limit.n}"
    return [median, low if low == high else f"{low} – {high}", n]


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
