"""Why one side of a comparison is faster: where its mean operation saves time, and how much.

A cause is a claim, and is tested like one. Where a difference of the headline is shown, each file
operation that the I/O trace timed (calls × their mean), each resource that sessions waited for, and
the processor time counted is a candidate. Its time per operation is compared as results are: by
pairs of repeats, with an interval, and at one error level for all candidates. A cause is what is
shown to save time in the headline's direction, and at least a tenth of what the operation takes
less or more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np

from harness.iotrace.page import CounterCell
from harness.metrics import load_of
from harness.store.runs import StoredRun, once_a_run
from harness.units import format_ns
from reports.arm import Arm
from reports.compare import Group
from reports.compared_rows import interim_analyses_of
from reports.explain.ceilings import (
    call_ns,
    ceilings,
    operations_of,
    upper_share,
    values_of,
    waited_of,
)
from reports.explain.devices import PARTS, devices_that_hold, moved_parts, timed_calls
from reports.formatting import NOTHING, percent, significant
from reports.ranks import FloatArray, Pairing
from reports.sections import Table
from reports.series import Panel
from reports.statistics import ALPHA, Value, difference, sequence_p, share_of_difference
from reports.values import Quantity, histogram

#: Parts as a sentence names them.
PART_WORDS = {
    "data": "the data",
    "wal": "the WAL",
    "temp": "temporary files",
    "index": "the indexes",
    "memory": "the memory",
    "relations": "single tables and indexes",
}
#: Resources as a sentence names them; what is in no resource (``other``) is no cause.
_RESOURCE_WORDS = {
    "processor": "processor time",
    "log write": "waits for writes of the WAL",
    "log sync": "waits for syncs of the WAL",
    "data read": "waits for reads of the data",
    "data write": "waits for writes of the data",
    "lock": "waits for locks",
    "buffer": "waits for the buffer cache",
    "client": "waits for the client",
}
#: Operations that a resource is waits for; the trace times them call by call.
_TRACED: Mapping[str, tuple[frozenset[str], str]] = {
    "log write": (PARTS["log"], "write"),
    "log sync": (PARTS["log"], "sync"),
    "data read": (PARTS["data"], "read"),
    "data write": (PARTS["data"], "write"),
}
#: Sessions waited by this factor longer than their own calls took: for calls of other threads
#: (group commit, a log writer), which the waits alone have.
_OTHERS_CALLS = 1.5
#: What saves less than this share of the difference is no cause.
_OF_NO_ACCOUNT = 0.1


def parts_text(parts: Sequence[str]) -> str:
    """Return ``the WAL and the data``."""
    return " and ".join(PART_WORDS.get(part, part) for part in parts)


def article(noun: str) -> str:
    """``an`` of an operation, ``a`` of a query."""
    return "an" if noun[:1] in "aeio" else "a"


@dataclass(frozen=True)
class Cause:
    """Cause of an operation's being faster or slower on B than on A; in ns of a mean operation.

    ``part``, ``operation``: of a file operation; ``wait``: the resource, otherwise. ``a_ns``,
    ``b_ns``: medians of the repeats. ``saved_ns``: A − B; ``share``: of the operation's A − B.
    """

    part: str | None
    operation: str | None
    wait: str | None
    a_ns: float
    b_ns: float
    saved_ns: Value
    share: Value
    text: str


@dataclass(frozen=True)
class Explanation:
    """The causes of a comparison, largest first, and a text, which is empty of what has no cause.

    It says so where most of the difference is not explained.
    """

    causes: tuple[Cause, ...] = ()
    text: str = ""


def explanation(group: Group) -> Explanation:
    """Why B is faster or slower than A; empty unless the headline shows that it is."""
    row = group.deciding
    if group.verdict not in ("faster", "slower") or row is None or row.estimate is None:
        return Explanation()
    sides = _Sides.of(group)
    places = sides.places() if sides else []
    if sides is None or not places:
        return Explanation()
    sign = 1 if row.estimate.value > 1 else -1
    less = sides.saved(sides.latency)
    if not _beyond_zero(less, sign):
        return Explanation()  # such as a geometric mean that the sum of the times contradicts
    adjusted = sequence_p([sides.of_place(p) for p in places], sides.pairing, sides.looks)
    causes = []
    for place, p in zip(places, adjusted, strict=True):
        saved = sides.saved_by(place)
        large = sign * saved.value >= _OF_NO_ACCOUNT * abs(less.value)
        if p <= ALPHA and large and _beyond_zero(saved, sign):
            causes.append(sides.cause(place, saved))
    causes.sort(key=lambda cause: -abs(cause.saved_ns.value))
    whole = (
        f"the {format_ns(abs(less.value))} that {_takes(group)} {'less' if sign > 0 else 'more'}"
    )
    first, *others = [cause.text for cause in causes] or [""]
    text = "; ".join([f"{first} of {whole}", *others])
    if not causes:
        text = f"most of {whole} is not explained"
    elif sum(cause.share.value for cause in causes) < 0.5:
        text += "; most of the difference is not explained"
    return Explanation(tuple(causes), text)


def _beyond_zero(value: Value, sign: int) -> bool:
    """Return whether the interval lies on that side of 0."""
    ends = (value.low, value.high)
    return all(end is not None and sign * end > 0 for end in ends)


def _takes(group: Group) -> str:
    """``a transaction takes``."""
    run = group.a.usable[0]
    load = load_of(run.spec.workload, run.spec.params)
    return f"{article(load.noun)} {load.noun} takes" if load else "all queries take"


def _share_text(share: Value) -> str:
    """``71 % [58, 83]``."""
    if share.low is None or share.high is None:
        return percent(share.value)
    return f"{100 * share.value:.0f} % [{100 * share.low:.0f}, {100 * share.high:.0f}]"


def waited_at_most(group: Group) -> str:
    """``a transaction waits for the WAL in at most 8 % of its time``, before the part moved.

    Empty where no part moved, or nothing bounds it.
    """
    if not (group.a.usable and group.b.usable):
        return ""
    moved = moved_parts(group.a.usable[0], group.b.usable[0])
    devices, bounds = devices_that_hold(moved), ceilings(group.a.usable)
    if devices is None or bounds is None:
        return ""
    ceiling = bounds.of(devices) or bounds.of("all")
    if ceiling is None or ceiling.share is None:
        return ""
    queries = bounds.noun == "query"
    who = "queries wait" if queries else f"{article(bounds.noun)} {bounds.noun} waits"
    whose = "their" if queries else "its"
    waited = {"log": "the WAL", "data": "the data", "all": "the files"}[devices]
    return f"{who} for {waited} in at most {percent(ceiling.share)} of {whose} time"


# The time of an operation, and where it goes ------------------------------------------------


class _Place(NamedTuple):
    """A candidate: a file operation on a part, or a resource."""

    part: str = ""
    operation: str = ""
    resource: str = ""

    @property
    def words(self) -> str:
        if self.resource:
            return _RESOURCE_WORDS[self.resource]
        return f"{self.operation}s of {PART_WORDS.get(self.part, self.part)}"


@dataclass(frozen=True)
class _Spent:
    """The time of a run's mean operation, or of all of its queries, and where it goes; in ns.

    ``moments``: of observation, which waits are sampled in.
    """

    latency_ns: float
    by_place: Mapping[_Place, float]
    moments: float


@once_a_run
def _spent(run: StoredRun) -> _Spent | None:
    """None where neither waits nor I/O of the run's operations were recorded."""
    load = load_of(run.spec.workload, run.spec.params)
    values, waited = values_of(run), waited_of(run)
    by_place: dict[_Place, float] = {}
    for query, spent in call_ns(run).items():
        of_sessions = Quantity("query_wait_sessions_count", (("query", query),))
        sessions = 1.0 if load else values.get(of_sessions)
        if sessions is None:  # of parallel sessions, time in calls is no share of the query's
            continue
        for (part, operation), ns in spent.items():
            place = _Place(part, operation)
            by_place[place] = by_place.get(place, 0.0) + ns / sessions
    for query_waits in waited.values():
        for resource, ns in query_waits.parts_ns.items():
            if resource in _RESOURCE_WORDS:
                place = _Place(resource=resource)
                by_place[place] = by_place.get(place, 0.0) + ns
    if (counted := _processor_ns(values)) is not None:
        by_place[_Place(resource="processor")] = counted
    latency_ns = sum(query_waits.latency_ns for query_waits in waited.values())
    if load is not None:
        latency_ns = _mean_ns(run, load.durations) or latency_ns
    else:
        latency_ns = values.get(Quantity("queries_duration_ns")) or latency_ns
    moments = sum(query_waits.moments for query_waits in waited.values())
    return _Spent(latency_ns, by_place, moments) if by_place and latency_ns else None


def _mean_ns(run: StoredRun, durations: str) -> float:
    """The mean duration of a window's operations; 0 without any."""
    metrics = (metric for metric in run.result.metrics if metric.name == durations)
    timed = [times for metric in metrics if (times := histogram(metric)) and times.total]
    total = sum(times.total for times in timed)
    return sum(times.total * times.mean for times in timed) / total if total else 0.0


def _processor_ns(values: Mapping[Quantity, float]) -> float | None:
    """Processor time as Linux counted it: of the sessions' threads, else of the engine."""
    for names in (
        ("wait_cpu_ns", "query_wait_cpu_ns"),
        ("server_cpu_per_transaction_ns", "server_cpu_per_operation_ns"),
        ("process_cpu_per_transaction_ns", "process_cpu_per_operation_ns"),
    ):
        if counted := sum(ns for quantity, ns in values.items() if quantity.name in names):
            return counted
    return None


@dataclass(frozen=True)
class _Sides:
    """Times of the operations of A and of B, repeat by repeat; of pairs, pair by pair."""

    a: tuple[_Spent, ...]
    b: tuple[_Spent, ...]
    pairing: Pairing
    looks: int

    @classmethod
    def of(cls, group: Group) -> _Sides | None:
        """None where a side has nothing recorded."""
        runs = [[_spent(run) for run in arm.usable] for arm in (group.a, group.b)]
        if group.pairing == "paired":
            pairs = [pair for pair in zip(*runs, strict=True) if all(pair)]
            runs = [list(side) for side in zip(*pairs, strict=True)] or [[], []]
        a, b = (tuple(spent for spent in side if spent) for side in runs)
        looks = interim_analyses_of(group.a.usable, group.b.usable)
        return cls(a, b, group.pairing, looks) if a and b else None

    @property
    def latency(self) -> tuple[FloatArray, FloatArray]:
        return _arrays(*([run.latency_ns for run in side] for side in (self.a, self.b)))

    def of_place(self, place: _Place) -> tuple[FloatArray, FloatArray]:
        return _arrays(*([run.by_place.get(place, 0.0) for run in s] for s in (self.a, self.b)))

    def places(self) -> list[_Place]:
        """The candidates: what is both traced and waited for is one, by calls or by waits.

        The choice goes by the times of both sides together, so it favours none.
        """
        total: dict[_Place, float] = {}
        for run in (*self.a, *self.b):
            for place, ns in run.by_place.items():
                total[place] = total.get(place, 0.0) + ns
        for resource, (parts, operation) in _TRACED.items():
            calls = [p for p in total if p.part in parts and p.operation == operation]
            waits = total.get(_Place(resource=resource), 0.0)
            by_waits = waits > _OTHERS_CALLS * sum(total[place] for place in calls)
            for place in calls if by_waits else [_Place(resource=resource)]:
                total.pop(place, None)
        return [place for place, ns in total.items() if ns]

    def saved(self, values: tuple[FloatArray, FloatArray]) -> Value:
        """A − B with its interval."""
        a, b = values
        return difference(b, a, self.pairing, self.looks)

    def saved_by(self, place: _Place) -> Value:
        """The same of a candidate; the interval of a wait has its sampling error, too."""
        values = self.of_place(place)
        saved = self.saved(values)
        sampled = self._sampled(place)
        if sampled is None or saved.low is None or saved.high is None:
            return saved
        low, high = sampled
        return Value(saved.value, min(saved.low, low), max(saved.high, high), saved.confidence)

    def _sampled(self, place: _Place) -> tuple[float, float] | None:
        """The ends of A − B by the sampling error of both shares; None of what is counted."""
        if place.resource in ("", "processor"):
            return None
        ends = []
        for side, values in zip((self.a, self.b), self.of_place(place), strict=True):
            latency_ns = float(np.mean([run.latency_ns for run in side]))
            share = float(np.mean(values)) / latency_ns
            moments = sum(run.moments for run in side)
            if not moments:
                return None
            low, high = 1 - upper_share(1 - share, moments), upper_share(share, moments)
            ends.append((low * latency_ns, high * latency_ns))
        (low_a, high_a), (low_b, high_b) = ends
        return low_a - high_b, high_a - low_b

    def cause(self, place: _Place, saved: Value) -> Cause:
        values = self.of_place(place)
        share = share_of_difference(values, self.latency, self.pairing, self.looks)
        a_ns, b_ns = (median(side.tolist()) for side in values)
        verb = "explains" if place.resource == "processor" else "explain"
        return Cause(
            place.part or None,
            place.operation or None,
            place.resource or None,
            a_ns,
            b_ns,
            saved,
            share,
            f"{place.words} ({_change(a_ns, b_ns)}) {verb} {_share_text(share)}",
        )


def _arrays(a: Sequence[float], b: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    return np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)


def _change(before_ns: float, after_ns: float) -> str:
    """Return ``7.9 → 2.9 ms``; each with its unit where these differ."""
    ends = [format_ns(ns) if ns else "0" for ns in (before_ns, after_ns)]
    (number, _, first_unit), (_, _, second_unit) = (end.partition(" ") for end in ends)
    return f"{number if first_unit == second_unit else ends[0]} → {ends[1]}"


# What the report shows of all file operations ----------------------------------------


@dataclass(frozen=True)
class FileOperation:
    """Calls of sessions on a part: their number in a unit of work, and their mean time, by arm.

    A unit of work is a transaction or operation, and of queries the whole run.
    """

    part: str
    operation: str
    by_arm: Sequence[tuple[float, float]]

    @property
    def longest_ns(self) -> float:
        """The time that they take on the arm where that is most."""
        return max(calls * mean_ns for calls, mean_ns in self.by_arm)


def file_operations(arms: Sequence[Arm]) -> list[FileOperation]:
    """Return the operations that the I/O trace timed, those that take most time first."""
    traced = [(_work(arm.usable), timed_calls(arm.usable)) for arm in arms]
    if not all(timed and work for work, timed in traced):
        return []
    places = dict.fromkeys(
        (cell.part, cell.operation) for _, timed in traced for cell in timed if not cell.background
    )
    rows = []
    for part, operation in places:
        by_arm = []
        for work, timed in traced:
            foreground = timed.get(CounterCell(part, operation, "foreground"))
            by_arm.append(
                (foreground.calls / work, foreground.mean_ns) if foreground else (0.0, 0.0)
            )
        rows.append(FileOperation(part, operation, by_arm))
    return sorted(rows, key=lambda operation: -operation.longest_ns)


def _work(runs: Sequence[StoredRun]) -> float:
    load = load_of(runs[0].spec.workload, runs[0].spec.params) if runs else None
    return sum(operations_of(run, load.durations) for run in runs) if load else len(runs)


def file_operations_table(panel: Panel, arms: Sequence[Arm], most: int) -> Table | None:
    """Where sessions spend most time in file I/O, the arms side by side; None without a trace."""
    load = load_of(panel.workload, panel.params)
    rows = [
        [
            f"{operation.operation} of {PART_WORDS.get(operation.part, operation.part)}",
            *(
                f"{significant(calls)} × {format_ns(mean)} = {format_ns(calls * mean)}"
                if calls
                else NOTHING
                for calls, mean in operation.by_arm
            ),
        ]
        for operation in file_operations(arms)[:most]
        if operation.longest_ns
    ]
    of = f"{article(load.noun)} {load.noun}" if load else "a run"
    title = f"File I/O of {of} that takes most time: {panel.title}"
    return Table(title, ("", *(arm.marked_name for arm in arms)), rows, "numbers") if rows else None
