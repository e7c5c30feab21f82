"""Where the time of every query goes, as numbers: one query on one arm at a time.

Operator times come from a second, profiled execution. They are scaled to the time that
was measured, so that they say which *share* of it each kind of operator has; how far that
execution was from the timed one is kept beside them, and so is the reason where the
plan's sum is not within a tenth of the measured time, or more than that of the execution
lies outside the operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from harness.query_plan import OUTSIDE, why_off
from harness.store.runs import StoredRun
from reports.series import Arm
from reports.values import Quantity, Summary, measured, natural

#: Operator kinds in the order they are stacked and named.
KINDS = ("scan", "join", "aggregate", "sort", "other", OUTSIDE)


def kind_title(kind: str) -> str:
    """How a kind is called where it is read."""
    return "outside the operators" if kind == OUTSIDE else kind


@dataclass(frozen=True)
class PlanFit:
    """Whether a plan's times add up to the measured time in every run of an arm.

    ``lowest``, ``highest``: the sum of operators and planning over the measured time, over
    the runs. ``why``: the reason of the run that is furthest off, empty where none has one.
    """

    lowest: float
    highest: float
    why: str

    @property
    def fits(self) -> bool:
        """Whether nothing has to be said."""
        return not self.why


@dataclass(frozen=True)
class QueryAnatomy:
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


#: Counters of one number per query, by the name they have in a ``QueryAnatomy``.
_SIZES = (
    "spilled",
    "working_set",
    "touched_file",
    "anonymous_peak",
    "io_read",
    "io_write",
    "syscall_read",
    "syscall_write",
)


@lru_cache(maxsize=256)
def anatomy(arm: Arm) -> Mapping[str, QueryAnatomy]:
    """Every query that the arm timed, or that reached its limit there, in natural order."""
    durations = _by_query(arm, "query_duration_ns")
    limits = _by_query(arm, "query_timeout_ns")
    operators = _by_two(arm, "plan_operator_ns", "operator")
    read = _by_two(arm, "query_tier_read_bytes", "tier")
    written = _by_two(arm, "query_tier_write_bytes", "tier")
    sizes = {name: _by_query(arm, f"query_{name}_bytes") for name in _SIZES}
    fits = _fits(arm)
    found = {}
    for query in sorted({*durations, *limits}, key=natural):
        duration, limit = durations.get(query), limits.get(query)
        found[query] = QueryAnatomy(
            query,
            duration,
            _scaled(operators.get(query, {}), duration),
            fits.get(query),
            limit.median if limit else None,
            limit.n if limit else 0,
            read.get(query, {}),
            written.get(query, {}),
            {name: held[query].median for name, held in sizes.items() if query in held},
        )
    return found


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
        quantity.labels[0][1]: summary
        for quantity, summary in arm.summaries(metric).items()
        if [name for name, _ in quantity.labels] == ["query"]
    }


def _by_two(arm: Arm, metric: str, label: str) -> dict[str, dict[str, float]]:
    """query → value of ``label`` → median."""
    found: dict[str, dict[str, float]] = {}
    for quantity, summary in arm.summaries(metric).items():
        query, other = quantity.label("query"), quantity.label(label)
        if query is not None and other is not None:
            found.setdefault(query, {})[other] = summary.median
    return found


def _fits(arm: Arm) -> dict[str, PlanFit]:
    """Of every query with a plan, over the arm's runs."""
    held: dict[str, list[tuple[float, str]]] = {}
    for run in arm.usable:
        for query, one in plan_sums(run).items():
            held.setdefault(query, []).append(one)
    fits = {}
    for query, found in held.items():
        shares = [share for share, _ in found]
        worst = max(found, key=lambda one: (bool(one[1]), abs(one[0] - 1)))
        fits[query] = PlanFit(min(shares), max(shares), worst[1])
    return fits


def plan_sums(run: StoredRun) -> dict[str, tuple[float, str]]:
    """Query → the plan's sum over the measured time, and why it is off (empty: it is not).

    The reasons are the run's own, from the time when the plan was at hand; a run that
    has none stored is judged by its numbers.
    """
    values = {q: one.value for q, one in measured(run).items() if one.value}
    told = run.artifact("accounting") or {}
    sums: dict[str, float] = {}
    outside: dict[str, float] = {}
    for quantity, value in values.items():
        if quantity.name == "plan_operator_ns" and value:
            held = outside if quantity.label("operator") == OUTSIDE else sums
            query = quantity.label("query") or ""
            held[query] = held.get(query, 0.0) + value
    found = {}
    for query, plan_ns in sums.items():
        labels = (("query", query),)
        timed = values.get(Quantity("query_duration_ns", labels))
        if not timed:
            continue
        share = plan_ns / timed
        profiled = values.get(Quantity("plan_run_duration_ns", labels), plan_ns)
        left = {"not told apart": outside[query]} if query in outside else {}
        why = why_off(plan_ns, profiled or plan_ns, timed, remainder_ns=left)
        found[query] = (share, told.get(query, {}).get("why", why))
    return found
