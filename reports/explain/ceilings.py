"""Ceilings: what devices of zero latency could gain at most, from waits and the I/O trace.

The mean operation waits for a device as far as its sessions were observed to, or as far as the
trace timed the calls of its sessions, whichever is more. What may hide more of it counts in full:
waits for locks and for the buffer cache (another session may hold them while it waits for the
device), what nothing accounts for, and the time waiting for a processor that the device's I/O may
keep busy. Shares of observed time are taken at the upper end of their sampling error.

Only blocked time counts: a call that copies from the page cache shows a wait, but computes, on
every tier. What Linux counted as processor time of the sessions' threads bounds what could go,
exactly and whatever was observed. A sync copies nothing: what it computes is the driver's, and
may go with the device. On a tier with DAX it does not: there a load from the device is
processor time. So the result is a bound and no estimate: what is measured above it is not the
device's latency, or a mistake in one of the two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Literal, get_args

import numpy as np

from harness.metrics import load_of
from harness.store.runs import StoredRun, once_a_run
from reports.explain.devices import PARTS, Devices, TimedCalls, timed_calls
from reports.headline import headline
from reports.statistics import ALPHA
from reports.values import Quantity, histogram, measured, natural

#: What times are of.
Noun = Literal["query", "operation", "transaction"]
#: Why nothing bounds a gain: the trace saw too little of a part, sessions were observed too rarely,
#: or nearly all of the time may be due to the devices.
Reason = Literal["part not traced", "too few observations", "nearly all of the time"]
DEVICES: tuple[Devices, ...] = get_args(Devices)

_EACH: Mapping[Devices, tuple[Devices, ...]] = {
    "log": ("log",),
    "data": ("data",),
    "all": ("log", "data"),
}
#: The resources that sessions wait for.
_DIRECT: Mapping[Devices, frozenset[str]] = {
    "log": frozenset(("log write", "log sync")),
    "data": frozenset(("data read", "data write")),
    "all": frozenset(("log write", "log sync", "data read", "data write")),
}
#: Another session may hold a lock or a page because it waits for the device.
_MAY_HIDE = ("lock", "buffer", "other")
#: Of a part's bytes: below it, its files are mapped or called in ways that the trace does not see,
#: and time in the device may pass for processor time.
_SEEN, _OF_NO_ACCOUNT = 0.95, 0.01
#: With more of the time not bounded, there is no ceiling.
_NO_CEILING = 0.98


@dataclass(frozen=True)
class Waited:
    """The mean operation of a run's window, or one of its queries; times in ns.

    ``parts_ns``: by resource, adding up to ``latency_ns`` at least. ``io_ns``: in calls that the
    trace timed on sessions' threads, by devices. ``contended_ns``: at most waiting for a
    processor. ``moments``: of observation. ``computed_ns``: on processors; ``sync_ns``: in syncs,
    part of which may have been computed, too.
    """

    latency_ns: float
    parts_ns: Mapping[str, float]
    moments: float
    io_ns: Mapping[Devices, float] = field(default_factory=dict)
    contended_ns: float = 0.0
    computed_ns: float = 0.0
    sync_ns: float = 0.0

    @property
    def blocked_ns(self) -> float:
        """Time without computing, which may be spinning for a lock, and the work of a sync."""
        other_ns = self.of(("lock", "buffer")) + self.sync_ns
        return self.latency_ns - max(0.0, self.computed_ns - other_ns)

    def of(self, resources: Iterable[str]) -> float:
        """The time that was seen to wait for these."""
        return sum(self.parts_ns.get(name, 0.0) for name in resources)

    def direct_ns(self, devices: Devices) -> float:
        """Waiting for the devices: of each by observation or by the trace, whichever is more."""
        each = (max(self.of(_DIRECT[d]), self.io_ns.get(d, 0.0)) for d in _EACH[devices])
        return min(self.blocked_ns, sum(each))

    @property
    def hidden(self) -> dict[str, float]:
        """Time that may be due to any device, by where it may hide."""
        return {name: self.of([name]) for name in _MAY_HIDE} | {"processors": self.contended_ns}

    def share(self, devices: Devices) -> float:
        """Share of the latency that may be due to the devices, as it was seen."""
        could_go_ns = self.direct_ns(devices) + sum(self.hidden.values())
        return min(self.blocked_ns, could_go_ns) / self.latency_ns

    def at_most(self, devices: Devices) -> float:
        """The same at the upper end of the sampling error."""
        bounds = []
        for by_trace in product((False, True), repeat=len(_EACH[devices])):
            seen_ns, traced_ns = self.of(_MAY_HIDE), 0.0
            for device, traced in zip(_EACH[devices], by_trace, strict=True):
                seen_ns += 0.0 if traced else self.of(_DIRECT[device])
                traced_ns += self.io_ns.get(device, 0.0) if traced else 0.0  # not sampled
            bounds.append(
                traced_ns + upper_share(seen_ns / self.latency_ns, self.moments) * self.latency_ns
            )
        return min(self.blocked_ns, max(bounds) + self.contended_ns) / self.latency_ns


@dataclass(frozen=True)
class Ceiling:
    """Ceiling of the gain by devices of zero latency.

    ``latency_ns``, ``direct_ns``, ``hidden``: of the mean operation, or summed over queries: its
    duration, what it waits for the devices, and what may hide more of that (lock, buffer, other,
    processors). ``share``: of the duration, what could go at most; None with the reason ``why``
    where nothing bounds it; ``part``: that was not traced. ``unbounded``: of the queries summed,
    how many have none.
    """

    devices: Devices
    latency_ns: float
    direct_ns: float
    hidden: Mapping[str, float]
    share: float | None
    why: Reason | None = None
    part: str = ""
    unbounded: int = 0

    @property
    def gain(self) -> float | None:
        """The speed-up at most; None without a bound."""
        return None if self.share is None else 1 / (1 - self.share)

    @property
    def more_ns(self) -> float:
        """In addition to ``direct_ns``, what may at most be due to the devices."""
        return max(0.0, (self.share or 0.0) * self.latency_ns - self.direct_ns)

    @property
    def mostly(self) -> str:
        """Where most of that may hide; empty where it is no more than the rest."""
        name = max(self.hidden, key=lambda place: self.hidden[place])
        return name if 2 * self.hidden[name] > self.more_ns else ""


@dataclass(frozen=True)
class Ceilings:
    """Ceilings of one set of repeats.

    ``noun``: what the times are of: a transaction, an operation, or queries, whose sum is bounded.
    ``total``: the largest gain first, without devices that nothing waits for; ``by_query``: of
    each query, in natural order. ``rate``: what set the rate, for which there are none.
    """

    noun: Noun
    total: tuple[Ceiling, ...] = ()
    by_query: Mapping[str, tuple[Ceiling, ...]] = field(default_factory=dict)
    rate: Literal["option", "think time"] | None = None

    def of(self, devices: Devices) -> Ceiling | None:
        """One of the total's."""
        return next((ceiling for ceiling in self.total if ceiling.devices == devices), None)


def ceilings(runs: Sequence[StoredRun]) -> Ceilings | None:
    """Return the ceilings of repeats of one run that did not fail; None without waits or I/O."""
    with_both = [run for run in runs if _recorded(run)]
    if not with_both:
        return None
    load = load_of(with_both[0].spec.workload, with_both[0].spec.params)
    noun: Noun = load.noun if load else "query"
    if (rate := headline(with_both, with_both, {}).rate) is not None:
        return Ceilings(noun, rate=rate.by)
    unseen = unseen_parts(with_both)
    waited = [waited_of(run) for run in with_both]
    keys = sorted({key for run_waits in waited for key in run_waits}, key=natural)
    if load is not None:
        return Ceilings(
            noun,
            tuple(_bounded([run_waits[""] for run_waits in waited if "" in run_waits], unseen)),
        )
    by_query = {
        key: tuple(_bounded([run_waits[key] for run_waits in waited if key in run_waits], unseen))
        for key in keys
    }
    return Ceilings(noun, tuple(_summed(by_query)), by_query)


@once_a_run
def waited_of(run: StoredRun) -> Mapping[str, Waited]:
    """By query; of a window by the empty text. Without what was not observed."""
    load = load_of(run.spec.workload, run.spec.params)
    values = values_of(run)
    io = {key: _by_devices(spent) for key, spent in call_ns(run).items()}
    prefix = "" if load else "query_"
    dax = any(tier.facts.dax for tier in run.tiers)
    parts: dict[str, dict[str, float]] = {}
    for quantity, value in values.items():
        if quantity.name == f"{prefix}wait_ns":
            key = quantity.label("query") or ""
            parts.setdefault(key, {})[quantity.label("resource") or ""] = value
    waited = {}
    for key, by_resource in parts.items():
        labels = (("query", key),) if key else ()
        accounted = values.get(Quantity(f"{prefix}wait_accounted_share", labels), 0.0)
        latency_ns = sum(by_resource.values()) / max(1.0, accounted)
        if latency_ns <= 0:
            continue
        moments = values.get(Quantity(f"{prefix}wait_moments_count", labels), 0.0)
        sessions = values.get(Quantity(f"{prefix}wait_sessions_count", labels), 1.0)
        contended_ns = _contended_ns(values, by_resource, latency_ns, key, sessions)
        spent = {devices: ns / sessions for devices, ns in io.get(key, {}).items()}
        computed_ns = 0.0 if dax else values.get(Quantity(f"{prefix}wait_cpu_ns", labels), 0.0)
        computed_ns = min(latency_ns, computed_ns)
        sync_ns = _sync_ns(run, load.durations) if load else 0.0
        waited[key] = Waited(
            latency_ns, by_resource, moments, spent, contended_ns, computed_ns, sync_ns
        )
    return waited if load else _with_traced_total(waited)


def _with_traced_total(by_query: Mapping[str, Waited]) -> dict[str, Waited]:
    """The trace has durations of all queries together: what it saw beyond the waits is divided
    among the queries as their waits are, and as their calls are where there are no waits."""
    made = {}
    for key, query in by_query.items():
        io_ns = dict(query.io_ns)
        for devices in DEVICES:
            waited = query.of(_DIRECT[devices])
            if not waited:
                continue
            every = [other for other in by_query.values() if other.of(_DIRECT[devices])]
            total = sum(other.io_ns.get(devices, 0.0) for other in every)
            io_ns[devices] = waited * total / sum(other.of(_DIRECT[devices]) for other in every)
        made[key] = replace(query, io_ns=io_ns)
    return made


def upper_share(share: float, moments: float) -> float:
    """The upper end of a share's interval (Clopper and Pearson, Biometrika 26, 1934).

    1 where too little was observed to bound it.
    """
    n = math.floor(moments)
    k = math.ceil(min(1.0, share) * n - 1e-9)
    if n == 0 or k >= n:
        return 1.0
    # Ten standard deviations below k there is no more than 1e-21 of the sum.
    first = max(0, k - 10 * math.isqrt(k) - 59)
    i = np.arange(first, k + 1)
    of_first = math.lgamma(n + 1) - math.lgamma(first + 1) - math.lgamma(n - first + 1)
    ways = of_first + np.concatenate([[0.0], np.cumsum(np.log((n - i[1:] + 1) / i[1:]))])

    def at_most(share: float) -> float:
        """The probability of at most ``k`` of ``n`` at this share."""
        return float(np.exp(ways + i * math.log(share) + (n - i) * math.log1p(-share)).sum())

    low, high = k / n, 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if at_most(middle) > ALPHA / 2 else (low, middle)
    return high


def _recorded(run: StoredRun) -> bool:
    names = {metric.name for metric in run.result.metrics}
    return "io_calls_count" in names and bool(names & {"wait_ns", "query_wait_ns"})


def unseen_parts(runs: Sequence[StoredRun]) -> dict[str, float]:
    """Parts of which the trace saw too little, with the share that it saw.

    Bytes that it did not see are of no account where they are few among all of the run's.
    """
    unseen_shares: dict[str, float] = {}
    for run in runs:
        moved: dict[str, float] = {}
        shares: dict[str, float] = {}
        for quantity, value in measured(run).items():
            part = quantity.label("part") or ""
            if quantity.name == "io_bytes":
                moved[part] = moved.get(part, 0.0) + (value.value or 0.0)
            elif quantity.name == "io_trace_coverage_share":
                shares[part] = value.value or 0.0
        for part, share in shares.items():
            unseen = moved.get(part, 0.0) * (1 / share - 1) if share else math.inf
            if share < _SEEN and unseen > _OF_NO_ACCOUNT * sum(moved.values()):
                unseen_shares[part] = min(unseen_shares.get(part, 1.0), share)
    return unseen_shares


def _bounded(repeats: Sequence[Waited], unseen: Mapping[str, float]) -> list[Ceiling]:
    """Bound repeats of one operation by their mean, at the upper end of its sampling error, and not
    less than that of any repeat as it was seen."""
    if not repeats:
        return []
    pooled = _pooled(repeats)
    bounded = []
    for devices in DEVICES:
        if devices != "all" and not pooled.direct_ns(devices):
            continue
        share: float | None = max(
            pooled.at_most(devices), *(repeat.share(devices) for repeat in repeats)
        )
        why: Reason | None = None
        low = [part for part in unseen if part in PARTS[devices]]
        if low:
            why = "part not traced"
        elif not pooled.moments:
            why = "too few observations"
        elif share is not None and share >= _NO_CEILING:
            why = "nearly all of the time"
        bounded.append(
            Ceiling(
                devices,
                pooled.latency_ns,
                pooled.direct_ns(devices),
                pooled.hidden,
                None if why else share,
                why,
                min(low, key=lambda part: unseen[part], default=""),
            )
        )
    return _largest_first(bounded)


def _pooled(repeats: Sequence[Waited]) -> Waited:
    n = len(repeats)
    names = {name for repeat in repeats for name in repeat.parts_ns}
    return Waited(
        sum(repeat.latency_ns for repeat in repeats) / n,
        {name: sum(repeat.of([name]) for repeat in repeats) / n for name in names},
        sum(repeat.moments for repeat in repeats),
        {d: sum(repeat.io_ns.get(d, 0.0) for repeat in repeats) / n for d in DEVICES},
        sum(repeat.contended_ns for repeat in repeats) / n,
        sum(repeat.computed_ns for repeat in repeats) / n,
        sum(repeat.sync_ns for repeat in repeats) / n,
    )


def _summed(by_query: Mapping[str, Sequence[Ceiling]]) -> list[Ceiling]:
    """Return the ceilings of the sum of query times: a query without a bound may vanish."""
    summed = []
    total_ns = sum(
        next(iter(query_ceilings)).latency_ns
        for query_ceilings in by_query.values()
        if query_ceilings
    )
    for devices in DEVICES:
        every = [
            next((ceiling for ceiling in query_ceilings if ceiling.devices == devices), None)
            or _hidden_only(query_ceilings)
            for query_ceilings in by_query.values()
            if query_ceilings
        ]
        direct_ns = sum(ceiling.direct_ns for ceiling in every)
        if not every or (devices != "all" and not direct_ns):
            continue
        without = [ceiling for ceiling in every if ceiling.share is None]
        could_go = sum(
            ceiling.latency_ns * (1 if ceiling.share is None else ceiling.share)
            for ceiling in every
        )
        share: float | None = could_go / total_ns
        if share is not None and share >= _NO_CEILING:
            share = None
        reasons = [ceiling.why for ceiling in without]
        summed.append(
            Ceiling(
                devices,
                total_ns,
                direct_ns,
                {name: sum(ceiling.hidden[name] for ceiling in every) for name in every[0].hidden},
                share,
                _commonest(reasons) if share is None else None,
                without[0].part if without else "",
                len(without),
            )
        )
    return _largest_first(summed)


def _commonest(reasons: Sequence[Reason | None]) -> Reason | None:
    return max(reasons, key=reasons.count, default=None) or "nearly all of the time"


def _hidden_only(query_ceilings: Sequence[Ceiling]) -> Ceiling:
    """Bound devices that the query was not seen to wait for: at most as all of them."""
    every = next(ceiling for ceiling in query_ceilings if ceiling.devices == "all")
    return replace(every, direct_ns=0.0)


def _largest_first(ceilings: Sequence[Ceiling]) -> list[Ceiling]:
    """All devices together come last."""
    return sorted(
        ceilings,
        key=lambda ceiling: (
            ceiling.devices == "all",
            -(1.0 if ceiling.share is None else ceiling.share),
        ),
    )


def values_of(run: StoredRun) -> dict[Quantity, float]:
    """Return the quantities of a run that have a value."""
    return {q: value.value for q, value in measured(run).items() if value.value is not None}


def call_ns(run: StoredRun) -> dict[str, dict[tuple[str, str], float]]:
    """Time in calls of sessions' threads by part and operation, by query; all sessions together.

    Of a window it is that of the mean operation, by the empty text. The trace has no durations by
    query: there a call counts with the mean of the run.
    """
    load = load_of(run.spec.workload, run.spec.params)
    cells = _timed(run)
    if load is not None:
        count = operations_of(run, load.durations)
        return (
            {"": {c: timed.calls * timed.mean_ns / count for c, timed in cells.items()}}
            if count
            else {}
        )
    by_query: dict[str, dict[tuple[str, str], float]] = {}
    for quantity, calls in values_of(run).items():
        if quantity.name != "query_io_calls_count":
            continue
        cell = (quantity.label("part") or "", quantity.label("operation") or "")
        query = by_query.setdefault(quantity.label("query") or "", {})
        query[cell] = calls * (cells[cell].mean_ns if cell in cells else 0.0)
    return by_query


def _sync_ns(run: StoredRun, durations: str) -> float:
    """Time in syncs of sessions' threads, of a window's mean operation."""
    syncs = (timed for (_, operation), timed in _timed(run).items() if operation == "sync")
    count = operations_of(run, durations)
    return sum(timed.calls * timed.mean_ns for timed in syncs) / count if count else 0.0


def operations_of(run: StoredRun, durations: str) -> int:
    """The number of operations in a window, by the histograms of their durations."""
    histograms = (histogram(m) for m in run.result.metrics if m.name == durations)
    return sum(histogram.total for histogram in histograms if histogram is not None)


def _timed(run: StoredRun) -> dict[tuple[str, str], TimedCalls]:
    """By part and operation, what the trace timed on sessions' threads."""
    by_place: dict[tuple[str, str], TimedCalls] = {}
    for cell, timed in timed_calls([run]).items():
        if not cell.background:
            place = (cell.part, cell.operation)
            by_place[place] = by_place[place] + timed if place in by_place else timed
    return by_place


def _by_devices(spent: Mapping[tuple[str, str], float]) -> dict[Devices, float]:
    return {d: sum(ns for (part, _), ns in spent.items() if part in PARTS[d]) for d in DEVICES}


def _contended_ns(
    values: Mapping[Quantity, float],
    parts_ns: Mapping[str, float],
    latency_ns: float,
    query: str,
    sessions: float,
) -> float:
    """At most waiting for a processor: as long as some task of the host did (PSI), and as far as
    processor time, and the client's, exceed the processor time that was counted.
    """
    if query:
        labels = (("query", query),)
        spent = [
            (parts_ns.get("processor", 0.0), values.get(Quantity("query_cpu_ns", labels), 0.0))
        ]
        spent = [(took, counted / sessions) for took, counted in spent]
        pressed = Quantity("query_pressure_cpu_some_ns", (("of", "host"), *labels))
        at_most_ns = values.get(pressed, latency_ns)
    else:
        counted = {
            q.name.partition("_cpu_per_")[0]: v for q, v in values.items() if "_cpu_per_" in q.name
        }
        servers = counted.get("server", 0.0) + counted.get("process", 0.0)
        spent = [
            (parts_ns.get("processor", 0.0), servers),
            (parts_ns.get("client", 0.0), counted.get("client", 0.0)),
        ]
        pressed_ns = values.get(Quantity("window_pressure_cpu_some_ns", (("of", "host"),)))
        window_ns = values.get(Quantity("window_duration_ns"), 0.0)
        share = 1.0 if pressed_ns is None or not window_ns else pressed_ns / window_ns
        at_most_ns = min(1.0, share) * latency_ns
    return min(sum(max(0.0, took - own_ns) for took, own_ns in spent), at_most_ns)
