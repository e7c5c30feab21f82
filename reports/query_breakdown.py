"""Where the time of every query goes, as numbers: one query on one arm at a time.

Operator times come from a second, profiled execution. They are scaled to the time that
was measured, so that they say which *share* of it each kind of operator has; how far that
execution was from the timed one is kept next to them, and so is the reason where the
plan's sum is not within a tenth of the measured time, or more than that of the execution
lies outside the operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from harness.query_plan import OUTSIDE, why_off
from harness.sequences import grouped
from harness.store.runs import StoredRun
from harness.units import format_bytes, format_ns
from reports.arm import Arm
from reports.compared_rows import Row
from reports.formatting import NOTHING, percent, significant
from reports.labels import query_name
from reports.sections import Block, Paragraph, Table, note
from reports.series import Panel
from reports.values import Quantity, Summary, measured, natural

#: On a number or a bar whose bytes were moved by others than the engine.
MARK = "*"
#: On a percentile that a driver reports ready-made.
READY_MADE_MARK = "‡"
#: Bytes moved by devices and bytes counted for the engine disagree beyond this share, and this
#: size: journals and metadata of a file system are no other user.
_DISAGREE, _LEAST_OTHERS = 0.25, 1 << 20
#: A query that used less of the memory limit was not bounded by it.
_NEAR = 0.5
#: The kernel reclaims in batches: a peak this near to the limit has reached it.
_REACHED = 0.99
#: Operator kinds in the order they are stacked and named.
KINDS = ("scan", "join", "aggregate", "sort", "other", OUTSIDE)


def kind_title(kind: str) -> str:
    """Return a kind's name in tables and charts."""
    return "outside the operators" if kind == OUTSIDE else kind


@dataclass(frozen=True)
class PlanFit:
    """A plan's fit: how well its times add up to the measured time in all runs of an arm.

    ``lowest``, ``highest``: the sum of operators and planning over the measured time, over
    the runs. ``why``: the reason of the run that is furthest off, empty where none has one.
    """

    lowest: float
    highest: float
    why: str

    @property
    def fits(self) -> bool:
        """Return whether nothing has to be said."""
        return not self.why


@dataclass(frozen=True)
class QueryBreakdown:
    """One query on one arm: medians over its runs, in ns and bytes.

    ``kinds``: operator times scaled to ``duration``; empty without a plan. ``limit_ns``
    and ``limited``: the time limit and how many runs reached it. ``read`` and
    ``written``: per tier whose device counts. What is None or missing was not measured.
    """

    query: str
    duration: Summary | None
    kinds: Mapping[str, float] = field(default_factory=dict)
    fit: PlanFit | None = None
    limit_ns: float | None = None
    limited: int = 0
    read: Mapping[str, float] = field(default_factory=dict)
    written: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, float] = field(default_factory=dict)

    def size(self, name: str) -> float | None:
        """Median of ``query_<name>_bytes``: spilled, working_set, touched_file …"""
        return self.sizes.get(name)

    @property
    def moved_by_others(self) -> bool:
        """Return whether devices moved far more bytes than the engine did."""
        return self.read_by_others or self.written_by_others

    @property
    def read_by_others(self) -> bool:
        """Return whether they read far more than the kernel fetched for the engine."""
        return _by_others(self.read, self.size("io_read"))

    @property
    def written_by_others(self) -> bool:
        """Return whether they wrote far more than the I/O trace saw the engine write."""
        return _by_others(self.written, self.size("traced_write"))

    @property
    def file_pages_unknown(self) -> bool:
        """Return whether the working set counts private memory alone."""
        return self.size("working_set") is not None and self.size("touched_file") is None


def _by_others(moved: Mapping[str, float], engine_bytes: float | None) -> bool:
    total = sum(moved.values())
    return (
        engine_bytes is not None
        and total > engine_bytes * (1 + _DISAGREE)
        and total > engine_bytes + _LEAST_OTHERS
    )


def bound_bytes(arm: Arm, query: QueryBreakdown) -> int | None:
    """The memory limit, where a run reached it and the working set is a good part of it.

    What the query touched beyond the limit was dropped again, in an unknown amount.
    """
    working_set = query.size("working_set")
    peaks = arm.of_metric("memory_cap_peak_bytes").values()
    tmpfs = arm.of_metric("memory_cap_tmpfs_peak_bytes").values()
    limit = arm.runs[0].spec.memory_limit_bytes
    if working_set is None or not limit or working_set < _NEAR * limit:
        return None
    reached = _REACHED * limit + max((point.summary.high for point in tmpfs), default=0)
    return int(limit) if any(peak.summary.high >= reached for peak in peaks) else None


@dataclass(frozen=True)
class BreakdownRow:
    """One query on one arm, with its comparison with the baseline (None on the baseline)."""

    arm: Arm
    query: QueryBreakdown
    compared: Row | None

    @property
    def bounded(self) -> bool:
        """Return whether the memory limit bounds the working set."""
        return bound_bytes(self.arm, self.query) is not None


def breakdown(panel: Panel) -> list[BreakdownRow]:
    """Each query on every arm, in natural order, the baseline first."""
    rows = {
        (group.b.name, row.quantity): row
        for group in panel.groups
        for row in group.rows
        if row.quantity.name == "query_duration_ns"
    }
    breakdowns = [(arm, query_breakdowns(arm)) for arm in panel.arms]
    queries = sorted({query for _, by_query in breakdowns for query in by_query}, key=natural)
    return [
        BreakdownRow(
            arm,
            by_query[query],
            rows.get((arm.name, Quantity("query_duration_ns", (("query", query),)))),
        )
        for query in queries
        for arm, by_query in breakdowns
        if query in by_query
    ]


def unexplained(panel: Panel) -> list[str]:
    """Return why plans that were requested are missing, in the engine's words."""
    artifacts = (run.artifact("unexplained") for arm in panel.arms for run in arm.usable)
    return sorted({artifact["why"] for artifact in artifacts if artifact})


#: Counters of one number per query, by the name they have in a ``QueryBreakdown``.
_SIZES = (
    "spilled",
    "working_set",
    "touched_file",
    "anonymous_peak",
    "io_read",
    "syscall_read",
    "syscall_write",
)


@lru_cache(maxsize=256)
def query_breakdowns(arm: Arm) -> Mapping[str, QueryBreakdown]:
    """Return all queries that the arm timed, or that reached their limit, in natural order."""
    durations = _by_query(arm, "query_duration_ns")
    limits = _by_query(arm, "query_timeout_ns")
    operators = _by_two(arm, "plan_operator_ns", "operator")
    read = _by_two(arm, "query_tier_read_bytes", "tier")
    written = _by_two(arm, "query_tier_write_bytes", "tier")
    sizes = {
        name: {
            query: summary.median
            for query, summary in _by_query(arm, f"query_{name}_bytes").items()
        }
        for name in _SIZES
    } | {"traced_write": _traced_writes(arm)}
    fits = _fits(arm)
    breakdowns = {}
    for query in sorted({*durations, *limits}, key=natural):
        duration, limit = durations.get(query), limits.get(query)
        breakdowns[query] = QueryBreakdown(
            query,
            duration,
            _scaled(operators.get(query, {}), duration),
            fits.get(query),
            limit.median if limit else None,
            limit.n if limit else 0,
            read.get(query, {}),
            written.get(query, {}),
            {name: by_query[query] for name, by_query in sizes.items() if query in by_query},
        )
    return breakdowns


def _scaled(operators: Mapping[str, float], duration: Summary | None) -> dict[str, float]:
    total = sum(operators.values())
    if duration is None or total <= 0:
        return {}
    return {
        kind: operators[kind] / total * duration.median for kind in KINDS if operators.get(kind)
    }


def _by_query(arm: Arm, metric: str) -> dict[str, Summary]:
    """Summaries of a metric that has the query as its only label."""
    return {
        quantity.labels[0][1]: point.summary
        for quantity, point in arm.of_metric(metric).items()
        if [name for name, _ in quantity.labels] == ["query"]
    }


def _by_two(arm: Arm, metric: str, label: str) -> dict[str, dict[str, float]]:
    """query → value of ``label`` → median."""
    medians: dict[str, dict[str, float]] = {}
    for quantity, point in arm.of_metric(metric).items():
        query, other = quantity.label("query"), quantity.label(label)
        if query is not None and other is not None:
            medians.setdefault(query, {})[other] = point.median
    return medians


def _traced_writes(arm: Arm) -> dict[str, float]:
    """query → bytes that the engine's own calls wrote, on all parts together."""
    written: dict[str, float] = {}
    for quantity, point in arm.of_metric("query_io_bytes").items():
        query = quantity.label("query")
        if query is not None and quantity.label("operation") == "write":
            written[query] = written.get(query, 0.0) + point.median
    return written


def _fits(arm: Arm) -> dict[str, PlanFit]:
    """Return the fit of each query with a plan, over the arm's runs."""
    sums_by_query = grouped(item for run in arm.usable for item in plan_sums(run).items())
    fits = {}
    for query, sums in sums_by_query.items():
        shares = [share for share, _ in sums]
        worst = max(sums, key=lambda plan_sum: (bool(plan_sum[1]), abs(plan_sum[0] - 1)))
        fits[query] = PlanFit(min(shares), max(shares), worst[1])
    return fits


def plan_sums(run: StoredRun) -> dict[str, tuple[float, str]]:
    """Query → the plan's sum over the measured time, and why it is off (empty: it is not).

    The reasons are the run's own, from the time when the plan was at hand; a run that
    has none stored is classified by its numbers.
    """
    values = {q: value.value for q, value in measured(run).items() if value.value}
    reasons = run.artifact("accounting") or {}
    sums: dict[str, float] = {}
    outside: dict[str, float] = {}
    for quantity, value in values.items():
        if quantity.name == "plan_operator_ns" and value:
            totals = outside if quantity.label("operator") == OUTSIDE else sums
            query = quantity.label("query") or ""
            totals[query] = totals.get(query, 0.0) + value
    plan_shares = {}
    for query, plan_ns in sums.items():
        labels = (("query", query),)
        timed = values.get(Quantity("query_duration_ns", labels))
        if not timed:
            continue
        share = plan_ns / timed
        profiled = values.get(Quantity("plan_run_duration_ns", labels), plan_ns)
        left = {"undivided": outside[query]} if query in outside else {}
        why = why_off(plan_ns, profiled or plan_ns, timed, remainder_ns=left)
        plan_shares[query] = (share, reasons.get(query, {}).get("why", why))
    return plan_shares


def breakdown_blocks(
    panel: Panel, rows: Sequence[BreakdownRow], charts: Iterable[Block]
) -> Iterator[Block]:
    """Each query's time by kind of operator, what it moved, and how well its plan adds up."""
    fits = [row.query.fit.fits for row in rows if row.query.fit]
    if fits:
        yield Paragraph(
            f"Plans of {sum(fits)} of {len(fits)} queries add up to within 10 % of the measured "
            "time, without what lies outside the operators."
        )
    else:
        why = "; ".join(unexplained(panel))
        default = "plans were not requested, or this engine has none"
        yield Paragraph(f"No query has a plan: {why or default}.")
    yield from charts
    head = ("query", "measured on", "time", *map(kind_title, KINDS), *_MOVED, "plan : measured")
    cells = [_cells(row) for row in rows]
    used = [at for at in range(len(head)) if any(row_cells[at] != NOTHING for row_cells in cells)]
    shown = [[row_cells[at] for at in used] for row_cells in cells]
    yield Table("Each query", [head[at] for at in used], shown, "numbers")
    remarks: dict[str, list[str]] = {}
    for row in rows:
        for remark in _remarks(row):
            remarks.setdefault(remark, []).append(
                f"{query_name(row.query.query)} on {row.arm.marked_name}"
            )
    for remark, of in remarks.items():
        yield note(f"{', '.join(of)}: {remark}.")


#: Columns of what a query moved and touched.
_MOVED = ("read", "written", "spilled", "working set ≥")


def _cells(row: BreakdownRow) -> list[str]:
    query = row.query
    time = f"limit of {format_ns(query.limit_ns or 0)}"
    if query.duration:
        time = format_ns(query.duration.median)
    shares = [
        percent(query.kinds[kind] / query.duration.median)
        if query.duration and query.duration.median and query.kinds.get(kind)
        else NOTHING
        for kind in KINDS
    ]
    sizes = [query.size(name) for name in ("spilled", "working_set")]
    fit = NOTHING
    if query.fit:
        fit = " – ".join(map(significant, dict.fromkeys((query.fit.lowest, query.fit.highest))))
    return [
        query_name(query.query),
        row.arm.marked_name,
        time,
        *shares,
        _moved(query.read, query.read_by_others),
        _moved(query.written, query.written_by_others),
        *(format_bytes(size) if size else NOTHING for size in sizes),
        fit,
    ]


def _remarks(row: BreakdownRow) -> Iterator[str]:
    if row.query.fit and row.query.fit.why:
        yield row.query.fit.why
    if row.bounded:
        yield "the working set is bounded by the memory limit"
    if row.query.file_pages_unknown:
        yield "file pages are unknown"


def _moved(sizes: Mapping[str, float], by_others: bool) -> str:
    moved = ", ".join(f"{tier} {format_bytes(size)}" for tier, size in sizes.items() if size)
    return f"{moved or NOTHING}{f' {MARK}' * by_others}"
