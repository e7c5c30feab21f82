"""What a report shows, as plain data: the HTML and Markdown templates only lay it out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.store.runs import StoredRun
from reports.agreement import Agreement, agreements, driven_by_several
from reports.charts import draw_panel
from reports.charts.drawing import Drawing
from reports.charts.lines import lines_over_parameter
from reports.checks import checks
from reports.conditions import (
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
from reports.confounders import uncontrolled
from reports.durability import DURABILITY_HEAD, Kept, durability
from reports.metric_registry import headline_first, metric_info
from reports.parameter_table import Told, what_was_run
from reports.published import PublishedSeries
from reports.published_table import PublishedRow, published_rows
from reports.run_configuration import emulated_tiers
from reports.sentences import Sentence, fit_summary, sentences, unexplained
from reports.series import Panel
from reports.statistics import ALPHA
from reports.sweeps import Sweep, side_by_side, sweeps
from reports.tables import ValueTable, arms_table, sweep_table, value_table, window_tables
from reports.values import Measured, Quantity, duration_of, in_order
from reports.verdict import Verdict, verdicts
from reports.window import of_window
from reports.words import utc


@dataclass(frozen=True)
class PanelView:
    """One engine's part of the report.

    ``drawings``, ``tables``: results; ``why``, ``counters``: what explains them, with
    ``sentences`` for every query and ``fit``: how far plans account for the times;
    ``what``: the workload, its driver and every parameter; ``note``: what must be known of
    all of its numbers.
    """

    panel: Panel
    drawings: tuple[Drawing, ...]
    tables: tuple[ValueTable, ...]
    why: tuple[Drawing, ...]
    sentences: tuple[Sentence, ...]
    fit: str
    counters: tuple[ValueTable, ...]
    what: tuple[Told, ...]
    note: str = ""

    @property
    def all_drawings(self) -> tuple[Drawing, ...]:
        """In the order in which they are shown."""
        return (*self.drawings, *self.why)


@dataclass(frozen=True)
class SweepView:
    """A result over a parameter, across panels. ``drawing``: None where lines would be too many.

    ``tables``: one for each place of the drawing.
    """

    title: str
    drawing: Drawing | None
    tables: tuple[ValueTable, ...]


@dataclass(frozen=True)
class AgreementView:
    """How far drivers agree. ``tables``: empty where the report's own parts have them."""

    said: Agreement
    tables: tuple[ValueTable, ...]


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
    agreements: tuple[AgreementView, ...]
    durability: tuple[Kept, ...]
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
    durability_head: tuple[str, ...] = DURABILITY_HEAD


def build(
    title: str,
    runs: Sequence[StoredRun],
    panels: Sequence[Panel],
    published: Sequence[PublishedSeries],
    over_drivers: bool = False,
) -> View:
    """Everything the report says about ``runs``, already ordered in ``panels``.

    ``over_drivers``: that the panels compare drivers with one another.
    """
    over = sweeps(panels)
    # A driver pays for nothing: what two of them differ by is no verdict.
    judged = [panel for panel in panels if not (over_drivers and panel.groups)]
    emulated = {f"{e['tier']} by {e['by']}" for run in runs for e in emulated_tiers(run.run)}
    stamps = sorted(run.run["started_unix_ns"] for run in runs)
    return View(
        title=title,
        span=f"{utc(stamps[0])} to {utc(stamps[-1])}" if len(stamps) > 1 else utc(stamps[0]),
        counts=_counts(runs),
        emulated=tuple(sorted(emulated)),
        verdicts=tuple(verdicts(judged, ALPHA)),
        agreements=tuple(_agreements(runs, panels, over_drivers)),
        durability=tuple(durability(panels)),
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


def _agreements(
    runs: Sequence[StoredRun], panels: Sequence[Panel], over_drivers: bool
) -> Iterable[AgreementView]:
    if over_drivers:
        return [AgreementView(one, ()) for one in agreements(panels)]
    found = agreements(driven_by_several(runs))
    return [AgreementView(one, _results(one.panel)) for one in found]


def _results(panel: Panel) -> tuple[ValueTable, ...]:
    """What was measured of a panel, without what explains it."""
    return _ByRole(panel).results


def _counts(runs: Sequence[StoredRun]) -> str:
    states = [run.run["status"] for run in runs]
    said = [
        f"{states.count(state)} {state}"
        for state in ("complete", "unknown", "failed")
        if state in states
    ]
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
            reasons.insert(0, f"{error['problem']}: {error['context']}. {error['hint']}".strip())
        more = [f"and {len(reasons) - 5} more"] if len(reasons) > 5 else []
        yield Trouble(run.run_id, run.run["status"], "; ".join([*reasons[:5], *more]))


class _ByRole:
    """The quantities of a panel by what they are for, and their tables."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self.kinds = _with_limited({q: one for arm in panel.arms for q, one in arm.kinds().items()})
        self._roles: dict[str, list[Quantity]] = {}
        for quantity, one in self.kinds.items():
            role = "window" if of_window(quantity) else metric_info(quantity, one.better).role
            plain = role == "part" and not quantity.labels
            self._roles.setdefault("overall" if plain else role, []).append(quantity)

    @property
    def results(self) -> tuple[ValueTable, ...]:
        """What was measured: the whole, then its parts."""
        heads = headline_first([*self._roles.get("headline", []), *self._roles.get("overall", [])])
        overall = (value_table(self._panel, "overall", heads, self.kinds),) if heads else ()
        return (*overall, *self._tables("part"), *self._tables("detail"))

    @property
    def counters(self) -> tuple[ValueTable, ...]:
        """What explains it."""
        window = window_tables(self._panel, self._roles.get("window", []), self.kinds)
        return (*window, *self._tables("counter"), *self._tables("breakdown"))

    def _tables(self, role: str) -> Iterable[ValueTable]:
        by_name: dict[str, list[Quantity]] = {}
        for quantity in self._roles.get(role, []):
            by_name.setdefault(quantity.name, []).append(quantity)
        for quantities in map(in_order, by_name.values()):
            title = metric_info(quantities[0], self.kinds[quantities[0]].better).title
            yield value_table(self._panel, title, quantities, self.kinds)


def _panel_view(panel: Panel, number: int, published: Sequence[PublishedSeries]) -> PanelView:
    by_role = _ByRole(panel)
    said = sentences(panel)
    return PanelView(
        panel,
        tuple(draw_panel(panel, number, published, why=False)),
        (*arms_table(panel), *by_role.results),
        tuple(draw_panel(panel, number, published, why=True)),
        tuple(said),
        fit_summary(said, unexplained(panel)) if said else "",
        by_role.counters,
        what_was_run([(arm.marked_name, arm.runs) for arm in panel.arms]),
        " ".join(filter(None, [_not_told_apart(by_role.kinds), _what_updates_are(panel)])),
    )


def _not_told_apart(kinds: Mapping[Quantity, Measured]) -> str:
    """Where one process holds client and engine, that their shares are not known."""
    together = any(q.name.startswith("process_cpu_per_") for q in kinds)
    return (
        "The engine is a library inside the client: processor time and memory are those of the "
        "one process that holds both, and cannot be told apart."
        if together
        else ""
    )


#: What a client of a key-value engine does in an update, by the parameter's value.
_UPDATES: Mapping[str, str] = {
    "read-modify-write": "the record is read, changed and written, and no other is lost meanwhile",
    "blind": "a new record is written, and nothing is read",
    "merge": "the engine's merge operator is given the change",
}


def _what_updates_are(panel: Panel) -> str:
    """Which of the things that are called so was measured, where there were any."""
    asked = {q.label("operation") for arm in panel.arms for q in arm.kinds()}
    kinds = dict.fromkeys(run.run["spec"]["params"].get("update") for run in panel.runs)
    told = [f"{kind} ({_UPDATES[kind]})" for kind in kinds if kind in _UPDATES]
    if not asked & {"update", "read_modify_write"} or not told:
        return ""
    return f"An update is {' or '.join(told)}."


def _with_limited(kinds: dict[Quantity, Measured]) -> dict[Quantity, Measured]:
    """With the durations of queries that have none anywhere, since they reached their limit."""
    limited = {
        Quantity(duration_of(q.name), q.labels): one
        for q, one in kinds.items()
        if duration_of(q.name)
    }
    return {q: Measured(q, q.name, one.unit, "lower", None) for q, one in limited.items()} | kinds


def _sweep_views(
    found: Sequence[Sweep], published: Sequence[PublishedSeries]
) -> Iterable[SweepView]:
    for number, beside in enumerate(side_by_side(found), 1):
        first = beside[0]
        yield SweepView(
            f"{first.measure} over {first.over}: {first.title}",
            lines_over_parameter(beside, f"sweep-{number}", published),
            tuple(sweep_table(sweep) for sweep in beside),
        )
