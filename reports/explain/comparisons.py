"""One comparison's explanation: what the device gives, what the engine makes of it, and why.

Every ratio is how many times better B is than A. What is predicted is computed from A's runs and
from the devices' figures alone: nothing here but ``measured`` has seen B's runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from statistics import fmean
from typing import Any, cast

from harness.explain.fit import Change, Estimate, Refusal, predict_all
from harness.store.runs import StoredRun
from harness.units import format_ns
from reports.basis import Fact
from reports.compare import Group
from reports.compared_rows import Row
from reports.explain.ceilings import PARTS, Ceilings, Devices, ceilings
from reports.explain.devices import (
    Calls,
    DeviceFigures,
    Means,
    calls_of,
    calls_of_queries,
    device_ratio,
    figures,
    is_like,
    suite_over_run,
    tiers_of,
    timed_calls,
)
from reports.explain.known import Known, Missing, Reason, Value, realised_fraction, value_of
from reports.explain.slopes import Slope, Slopes, command_for, conditions, is_what_if
from reports.metric_registry import load_of
from reports.query_breakdown import query_breakdowns
from reports.series import Arm, Panel
from reports.statistics import ALPHA, repeats_needed
from reports.statistics import Estimate as Ratio
from reports.values import Quantity, natural

#: The total that stands for queries: ceilings and predictions add up over them.
_QUERIES = Quantity("queries_duration_ns")
#: Of the time in calls on the parts that move, what a prediction has to cover.
_COVERED = 0.95
#: Of the latency on A, how far that without an added delay in a what-if may be from it.
_UNLIKE = 0.25
#: How many times as long as in A's runs a suite's calls may take on A's tiers, to be like them.
SUITE_ALIKE = (0.67, 1.5)
#: Shares of joins, and of scans, from which a query is called heavy in them.
_JOIN_HEAVY, _SCAN_HEAVY = 0.2, 0.5
#: Repeats of a suite with which a device ratio has a 95 % interval.
_SUITE_REPEATS = repeats_needed(ALPHA, "unpaired")


@dataclass(frozen=True)
class Evidence:
    """Stored runs that explain others: suites derived from runs (``origins``), and what-ifs.

    ``runs``: all of them.
    """

    suites: tuple[StoredRun, ...] = ()
    what_ifs: tuple[StoredRun, ...] = ()
    origins: tuple[StoredRun, ...] = ()
    runs: tuple[StoredRun, ...] = ()

    @classmethod
    def of(cls, runs: Sequence[StoredRun]) -> Evidence:
        """Those among all runs of a store."""
        suites = tuple(run for run in runs if is_like(run))
        like = {suite.head["spec"]["params"]["like"] for suite in suites}
        return cls(
            suites,
            tuple(run for run in runs if is_what_if(run)),
            tuple(run for run in runs if run.run_id in like),
            tuple(runs),
        )

    def figures(self, runs: Sequence[StoredRun]) -> DeviceFigures:
        """Of the suites derived from runs of the same conditions."""
        wanted = conditions(runs[0])
        ids = {run.run_id for run in (*runs, *self.origins) if conditions(run) == wanted}
        return figures(self.suites, ids)


NO_EVIDENCE = Evidence()


@dataclass(frozen=True)
class Base:
    """From which a speed-up is predicted: the latency without an added delay, of the what-ifs.

    ``measured_ns``: that of A's runs.
    """

    latency: Estimate
    measured_ns: float

    @property
    def unlike(self) -> bool:
        """Whether they differ so much that the what-ifs' runs were not like A's."""
        return abs(self.latency.value - self.measured_ns) > _UNLIKE * self.measured_ns

    def __str__(self) -> str:
        return f"{format_ns(self.latency.value)} (measured: {format_ns(self.measured_ns)})"

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {"latency_ns": self.latency.to_json(), "measured_ns": self.measured_ns}


@dataclass(frozen=True)
class Explained:
    """One row of the table: a comparison, or one of its queries.

    ``where``: engine and workload; ``a``, ``b``: names of the arms; ``moved``: parts that are on
    another tier on B, or in which delays were planted. ``query_class``: scan-heavy, join-heavy or
    other, by plans.
    ``ceiling``: the largest speed-up that devices of zero latency could give to what moved.
    ``predicted``: the speed-up by the causal model, from ``base``; ``by_waits``: by A's waits and
    the device ratios of log and data (Amdahl). ``realised``: log(measured) / log(device ratio).
    ``rests_on``: what the certainty of the comparison rests on. ``suite_over_run``: how many times
    as long A's calls took in the suite on A's own tiers as in A's runs.
    """

    where: str
    engine: str
    workload: str
    a: str
    b: str
    moved: tuple[str, ...]
    query: str
    query_class: str
    device_ratio: Known
    ceiling: Known
    sensitivity: tuple[Slope, ...] | Missing
    by_waits: Known
    predicted: Known
    measured: Known
    realised: Known
    base: Base | None = None
    rests_on: tuple[Fact, ...] = ()
    suite_over_run: float | None = None

    @property
    def suite_unlike_run(self) -> bool:
        """Whether the device ratio rests on a suite whose calls took much longer, or shorter."""
        if isinstance(self.device_ratio, Missing) or self.suite_over_run is None:
            return False
        low, high = SUITE_ALIKE
        return not low <= self.suite_over_run <= high

    @property
    def devices(self) -> Devices | None:
        """The devices that hold what moved; None of nothing."""
        return _devices(self.moved)

    @property
    def above_ceiling(self) -> bool:
        """Whether even the lower end of what was measured is above the ceiling: a mistake.

        Few repeats, whose interval covers less than 95 %, do not show one.
        """
        measured, ceiling = self.measured, self.ceiling
        if isinstance(measured, Missing) or isinstance(ceiling, Missing):
            return False
        return measured.covered and (measured.low or 0.0) > ceiling.value


def explained(panels: Sequence[Panel], evidence: Evidence) -> list[Explained]:
    """Of every comparison with a baseline: the comparison, then its queries."""
    return [
        row
        for panel in panels
        for group in panel.groups
        for row in _of_group(panel, group, evidence)
    ]


def _of_group(panel: Panel, group: Group, evidence: Evidence) -> Iterator[Explained]:
    arms = {arm.name: arm for arm in panel.arms}
    case = _Case(panel, group, arms[group.a.name], arms[group.b.name], evidence)
    by_query = calls_of_queries(case.a.usable)
    queries = [
        case.row(query, by_query[query])
        for query in sorted(by_query, key=natural)
        if group.row(_of_query(query)) is not None
    ]
    yield case.with_queries(case.row("", calls_of(case.a.usable)), queries)
    yield from queries


class _Case:
    """What the rows of one comparison share."""

    def __init__(self, panel: Panel, group: Group, a: Arm, b: Arm, evidence: Evidence) -> None:
        self.panel, self.group, self.a, self.b = panel, group, a, b
        self.first = a.usable[0]
        self.spec = self.first.head["spec"]
        self.tiers_a, self.tiers_b = tiers_of(self.first), tiers_of(b.usable[0])
        self.planted = {text for arm in (a, b) for text in arm.usable[0].spec.plant}
        parts = dict.fromkeys((*self.tiers_a, *self.tiers_b))
        self.moved = tuple(
            part
            for part in parts
            if self.tiers_a.get(part) != self.tiers_b.get(part)
            or any(text.startswith(f"{part}.") for text in self.planted)
        )
        self.devices = _devices(self.moved)
        self.figures = evidence.figures(a.usable)
        self.timed = timed_calls(a.usable)
        self.slopes = Slopes(evidence.what_ifs, self.first)
        self.ceilings: Ceilings | None = ceilings(a.usable)
        self.classes = _classes((a, b))

    def row(self, query: str, calls: Calls) -> Explained:
        """Of the whole, or of a query."""
        ratio = self._device_ratio(calls)
        measured = self._measured(query)
        sensitivity = self._sensitivity(query, calls)
        predicted, base = self._predicted(query, sensitivity)
        return Explained(
            self.panel.title_with_workload,
            self.panel.engine_name,
            self.panel.workload,
            self.group.a.marked_name,
            self.group.b.marked_name,
            self.moved,
            query,
            self.classes.get(query, ""),
            ratio,
            self._ceiling(query),
            sensitivity,
            self._by_waits(query, calls),
            predicted,
            measured,
            realised_fraction(measured, ratio),
            base,
            self.group.rests_on,
            suite_over_run(calls, *self._means(), self.timed),
        )

    def with_queries(self, whole: Explained, queries: Sequence[Explained]) -> Explained:
        """Predicted from what is predicted of each query, where it is not of the whole."""
        if not isinstance(whole.predicted, Missing) or not queries:
            return whole
        known = [q.sensitivity for q in queries if not isinstance(q.sensitivity, Missing)]
        if len(known) < len(queries):
            return whole
        whole = replace(whole, sensitivity=tuple(slope for own in known for slope in own))
        bases, after = [], [0.0, 0.0, 0.0]
        for one in queries:
            if isinstance(one.predicted, Missing) or one.base is None:
                return replace(whole, predicted=one.predicted)
            bases.append(one.base)
            value = one.predicted.value
            for i, end in enumerate((value, one.predicted.low, one.predicted.high)):
                after[i] += one.base.latency.value / (end or value)
        now = [base.latency for base in bases]
        latency = Estimate(*(sum(ends) for ends in zip(*map(astuple, now), strict=True)))
        predicted = Value(*(latency.value / ns for ns in after))
        base = Base(latency, sum(one.measured_ns for one in bases))
        return replace(whole, predicted=predicted, base=base)

    def _why_no_ratio(self, calls: Calls) -> Missing | None:
        if not self.moved:
            return Missing("no part moved")
        if "memory" in self.moved or self.planted:
            return Missing("delays planted" if self.planted else "memory moved")
        if not calls:
            return Missing("no trace")
        used = {cell.part for cell in calls}
        tiers = [t[part] for t in (self.tiers_a, self.tiers_b) for part in used if part in t]
        if lacking := self.figures.without(tiers):
            return Missing("no suite", (self._like(lacking),))
        return None

    def _like(self, tiers: Sequence[str]) -> str:
        stand_ins = {name for arm in (self.a, self.b) for name in arm.usable[0].spec.emulate}
        named = [f"--tier {tier}" for tier in sorted(tiers)]
        named += [f"--emulate {tier}" for tier in sorted(stand_ins & set(tiers))]
        repeats = f"--repeats {_SUITE_REPEATS}"
        return " ".join(["harness run micro --like", self.first.run_id, *named, repeats])

    def _device_ratio(self, calls: Calls) -> Known:
        if (why := self._why_no_ratio(calls)) is not None:
            return why
        ratio = self._ratio_of(calls)
        every = (*self.tiers_a.values(), *self.tiers_b.values())
        if ratio is None:
            return Missing("suite incomplete", (self._like(tuple(dict.fromkeys(every))),))
        return value_of(ratio)

    def _ratio_of(self, calls: Calls) -> Ratio | None:
        return device_ratio(calls, *self._means(), self.timed)

    def _means(self) -> tuple[Means, Means]:
        """On the tiers of A and of B."""
        return self.figures.on(self.tiers_a), self.figures.on(self.tiers_b)

    def _ceiling(self, query: str) -> Known:
        if "memory" in self.moved or self.devices is None:
            return Missing("memory moved" if "memory" in self.moved else "no part moved")
        if self.ceilings is None:
            return Missing("no waits")
        if self.ceilings.rate is not None:
            return Missing("a rate was set")
        one = self.ceilings.of(self.devices, query or None) or self.ceilings.of(
            "all", query or None
        )
        if one is None or one.gain is None:
            return Missing("no ceiling")
        return Value(one.gain)

    def _measured(self, query: str) -> Known:
        row = self._row(query)
        if row is None or row.estimate is None:
            return Missing("not measured")
        return value_of(row.estimate)

    def _row(self, query: str) -> Row | None:
        if query:
            return self.group.row(_of_query(query))
        return self.group.row(_QUERIES) or self.group.deciding

    def _sensitivity(self, query: str, calls: Calls) -> tuple[Slope, ...] | Missing:
        """The slopes of the operations that move, which make up nearly all of their time on A."""
        if not self.moved or "memory" in self.moved or self.planted:
            return self._why_no_ratio(calls) or Missing("no part moved")
        spent = self._spent_on_moved(calls)
        total, covered = sum(spent.values()), 0.0
        if not total:
            return Missing("no trace")
        found, without = [], []
        for place, ns in sorted(spent.items(), key=lambda item: -item[1]):
            if covered >= _COVERED * total:
                break
            covered += ns
            if (one := self.slopes.of(*place, query)) is not None:
                found.append(one)
            else:
                without.append(place)
        return self._no_what_if(without, query) if without else tuple(found)

    def _what_if(self, part: str, operation: str) -> str:
        stand_ins = sorted(set(self.first.spec.emulate) & set(self.tiers_a.values()))
        return command_for(self.first, part, operation, stand_ins)

    def _no_what_if(self, without: Sequence[tuple[str, str]], query: str) -> Missing:
        commands = (self._what_if(*place) for place in without)
        others = (self.slopes.not_used(*place, query) for place in without)
        return Missing(
            "no what-if",
            tuple(filter(None, commands)),
            "; ".join(dict.fromkeys(filter(None, others))),
        )

    def _spent_on_moved(self, calls: Calls) -> dict[tuple[str, str], float]:
        """Time on A of the calls that sessions make or wait for, on the parts that move, by part
        and operation."""
        spent: dict[tuple[str, str], float] = {}
        for cell, count in _of_sessions(calls).items():
            if cell.part in self.moved and cell in self.timed:
                place = (cell.part, cell.operation)
                spent[place] = spent.get(place, 0.0) + count * self.timed[cell].mean_ns
        return spent

    def _predicted(
        self, query: str, sensitivity: tuple[Slope, ...] | Missing
    ) -> tuple[Known, Base | None]:
        """By the what-ifs' lines, with the mean duration of each operation on B."""
        changes = self._changes(sensitivity)
        if isinstance(changes, Missing):
            return changes, None
        latency_ns = self._latency_ns(query)
        if latency_ns is None:
            rate = self.ceilings is not None and self.ceilings.rate
            return Missing("a rate was set" if rate else "no waits"), None
        found = predict_all(changes)
        if isinstance(found, Refusal):
            return _refused(found), None
        base = Base(found.now, latency_ns)
        if base.unlike and not isinstance(sensitivity, Missing):
            again = [f"{self._what_if(one.part, one.operation)} --again" for one in sensitivity]
            return Missing("what-if unlike A", tuple(again), str(base)), base
        one, ceiling = found.speed_up, self._ceiling(query)
        if not isinstance(ceiling, Missing) and one.low > ceiling.value:
            return Missing("above the ceiling"), None
        return Value(one.value, one.low, one.high), base

    def _changes(self, sensitivity: tuple[Slope, ...] | Missing) -> list[Change] | Missing:
        """Of each operation's calls, to their mean duration on B."""
        if isinstance(sensitivity, Missing):
            return sensitivity
        if bent := next((one.line.fit.not_linear for one in sensitivity if not one.linear), None):
            return _refused(bent)
        on_b = self.figures.on(self.tiers_b)
        means = [(slope, _mean(on_b, slope)) for slope in sensitivity]
        if lacking := [slope.part for slope, mean_ns in means if mean_ns is None]:
            tiers = {tiers[part] for tiers in (self.tiers_a, self.tiers_b) for part in lacking}
            return Missing("no suite", (self._like(sorted(tiers)),))
        return [slope.line.change(ns) for slope, ns in means if ns is not None]

    def _latency_ns(self, query: str) -> float | None:
        """Of the mean operation on A, or of the query."""
        if self.ceilings is None:
            return None
        found = self.ceilings.of("all", query or None)
        if found is None:
            return None
        several = len(self.ceilings.by_query) if not query else 0
        return found.latency_ns / several if several else found.latency_ns

    def _by_waits(self, query: str, calls: Calls) -> Known:
        """Amdahl: A's waits for log and data shrink by the device ratio of these."""
        if (why := self._why_no_ratio(calls)) is not None:
            return why
        if self.ceilings is None:
            return Missing("no waits")
        whole = self.ceilings.of("all", query or None)
        if whole is None:
            return Missing("a rate was set" if self.ceilings.rate else "no waits")
        saved_ns = 0.0
        for devices in ("log", "data"):
            one = self.ceilings.of(devices, query or None)
            waited_for = _of_sessions(calls).items()
            ratio = self._ratio_of({c: n for c, n in waited_for if c.part in PARTS[devices]})
            if one is not None and ratio is not None:
                saved_ns += one.direct_ns * (1 - 1 / ratio.ratio)
        saved_ns = min(saved_ns, whole.direct_ns)
        if saved_ns >= whole.latency_ns:
            return Missing("below zero")
        return Value(whole.latency_ns / (whole.latency_ns - saved_ns))


def _refused(why: Refusal) -> Missing:
    """As ``harness whatif`` refuses."""
    return Missing(cast(Reason, why.code.replace("-", " ")), detail=why.context)


def _of_query(query: str) -> Quantity:
    return Quantity("query_duration_ns", (("query", query),))


def _devices(moved: Sequence[str]) -> Devices | None:
    """The smallest set of devices that holds all that moved; None of nothing."""
    every: tuple[Devices, ...] = ("log", "data", "all")
    return next((one for one in every if moved and set(moved) <= PARTS[one]), None)


def _of_sessions(calls: Calls) -> Calls:
    """Those that sessions make, or wait for where a background thread alone writes the log."""
    own = {cell.part for cell in calls if not cell.background} | PARTS["data"]
    return {c: n for c, n in calls.items() if not c.background or c.part not in own}


def _mean(on: Means, slope: Slope) -> float | None:
    """Of the operation's calls by sessions, or by whoever makes them."""
    wanted = (slope.part, slope.operation)
    cells = {cell: fmean(ns) for cell, ns in on.items() if (cell.part, cell.operation) == wanted}
    own = [ns for cell, ns in cells.items() if not cell.background] or list(cells.values())
    return sum(own) / len(own) if own else None


def _classes(arms: Sequence[Arm]) -> dict[str, str]:
    """Query → its class, where its plan is known: by the share of joins, then of scans, in the
    time of its operators, on the arm where that is larger. A slow tier makes scans of all plans."""
    if load_of(str(arms[0].runs[0].head["spec"]["workload"])) is not None:
        return {}
    joins: dict[str, float] = {}
    scans: dict[str, float] = {}
    for arm in arms:
        for query, one in query_breakdowns(arm).items():
            if total_ns := sum(one.kinds.values()):
                for found, kind in ((joins, "join"), (scans, "scan")):
                    share = one.kinds.get(kind, 0.0) / total_ns
                    found[query] = max(found.get(query, 0.0), share)
    return {
        query: "join-heavy"
        if joins[query] >= _JOIN_HEAVY
        else "scan-heavy"
        if scans[query] >= _SCAN_HEAVY
        else "other"
        for query in joins
    }
