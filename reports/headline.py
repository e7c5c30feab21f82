"""The headline, which decides a comparison: a latency where the rate was set.

A rate that was set is the same on both sides as long as both keep it, so throughput compares
the offered load with itself. Then the times of the workload's main operation are the headline:
its median decides, its 99th percentile is the second, and a side that did not keep the rate
loses by that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median
from typing import Literal

from harness import hdr
from harness.metrics import Load, load_of, metrics
from harness.store.result import Better
from harness.store.runs import StoredRun
from harness.store.spec import Json
from reports.metric_registry import headline_first, metric_info
from reports.values import Quantity, duration_of, measured, measured_value

#: What decides, and what is second.
_FIRST, _SECOND = "50", "99"
#: A rate is kept if the operations that are due and not answered are as many at the window's end
#: as at its beginning: they differ by at most this share of those offered in it, or by at most this
#: number of standard errors of their number, which varies by chance.
_KEPT_SHARE, _KEPT_ERRORS = 0.01, 2
#: Of a run that does not report how long its window was.
_USUAL_WINDOW_NS = 60e9
#: Users that wait for answers for less than this share of the time are paced by think times.
_WAITING = 0.05


@dataclass(frozen=True)
class SideRate:
    """How one side kept the rate: operations per second offered and done, medians of repeats.

    ``missed``: runs that did not keep it, of ``runs``.
    """

    offered_per_s: float
    done_per_s: float
    missed: int
    runs: int

    @property
    def met(self) -> bool:
        """Return whether most of the repeats kept the rate."""
        return 2 * self.missed < self.runs


@dataclass(frozen=True)
class SetRate:
    """A rate that was set by an option, or by users' think times, which the users always keep.

    ``a``, ``b``: None where a side's driver does not report what it did.
    """

    by: Literal["option", "think time"]
    a: SideRate | None = None
    b: SideRate | None = None

    @property
    def not_kept(self) -> tuple[str, ...]:
        """The sides (``a``, ``b``) that did not keep it."""
        sides = {"a": self.a, "b": self.b}
        return tuple(name for name, side in sides.items() if side and not side.met)


@dataclass(frozen=True)
class Headline:
    """The quantity that decides a comparison; None: nothing stands for the whole.

    ``second``: the quantity named next to it. ``rate``: None where no rate was set.
    """

    quantity: Quantity | None = None
    second: Quantity | None = None
    rate: SetRate | None = None


#: Where nothing decides.
NONE = Headline()


def headline(
    a: Sequence[StoredRun], b: Sequence[StoredRun], comparable: Mapping[Quantity, Better]
) -> Headline:
    """The headline of A against B. ``comparable``: the quantities that have a ratio."""
    rate = _set_rate(a, b)
    if rate is not None:
        return _latency((*a, *b), comparable, rate)
    roles = {q: metric_info(q, better).role for q, better in comparable.items() if better != "none"}
    heads = headline_first([q for q, role in roles.items() if role == "headline"])
    if heads and heads[0].name in metrics():
        return Headline(heads[0])
    # Nothing takes the place of a stated headline that has no ratio, or of a total that a run
    # lacks, since queries reached their limit there; nor does one of many results stand for all.
    if any(_has_headline(q.name) for run in (*a, *b) for q in measured(run)):
        return NONE
    results = heads or [q for q, role in roles.items() if role in ("detail", "part")]
    return Headline(results[0] if len(results) == 1 else None)


def _has_headline(metric: str) -> bool:
    """Return whether a run with this metric has a stated headline, or would without a limit."""
    info = metrics().get(metric)
    return bool(duration_of(metric) or (info and info.role == "headline"))


def _latency(
    runs: Sequence[StoredRun], comparable: Mapping[Quantity, Better], rate: SetRate
) -> Headline:
    load = load_of(runs[0].spec.workload, runs[0].spec.params)
    assert load is not None  # only a load has a rate
    main = main_operation(load, runs)
    percentiles = {
        percentile: Quantity(load.durations, ((load.noun, main), ("percentile", percentile)))
        for percentile in (_FIRST, _SECOND)
    }
    first, second = (q if q in comparable else None for q in percentiles.values())
    return Headline(first or second, second if first else None, rate)


def main_operation(load: Load, runs: Sequence[StoredRun]) -> str:
    """The operation that the workload is about, or the one with the largest share of the load.

    Of equal shares the first in the order of ``load.shares``.
    """
    params = runs[0].spec.params
    shares = {name: _number(params.get(key)) for name, key in load.shares.items()}
    if any(shares.values()):
        return max(shares, key=lambda name: shares[name])
    counts = {
        name: value.value or 0.0
        for quantity, value in measured(runs[0]).items()
        if quantity.name == f"{load.noun}_count" and (name := quantity.label(load.noun))
    }
    if load.main and (not counts or counts.get(load.main)):
        return load.main
    return max(counts, key=lambda name: counts[name], default="")


def keeps_rate(run: StoredRun) -> bool:
    """Return whether a run with a set rate kept it; one that does not report it counts as such."""
    load = load_of(run.spec.workload, run.spec.params)
    side = _side_rate(load, [run]) if load and run.spec.params.get(load.rate) else None
    return side is None or side.met


def _set_rate(a: Sequence[StoredRun], b: Sequence[StoredRun]) -> SetRate | None:
    load = load_of(a[0].spec.workload, a[0].spec.params)
    if load is None:
        return None
    if any(run.spec.params.get(load.rate) for run in (*a, *b)):
        return SetRate("option", _side_rate(load, a), _side_rate(load, b))
    paced = all(run.spec.params.get("think_time") and _paced(load, run) for run in (*a, *b))
    return SetRate("think time") if paced else None


def _side_rate(load: Load, runs: Sequence[StoredRun]) -> SideRate | None:
    """How the runs with a rate kept it; None where none reports what it did."""
    offered, done, missed = [], [], 0
    for run in runs:
        window_ns, count = _done(load, run)
        rate = _offered_per_s(load, run)
        if count is None or rate is None:
            continue
        due = rate * window_ns / 1e9
        outstanding = _outstanding(run)
        begin, end = outstanding or (count, due)
        by_chance = begin + end if outstanding else due if load.random else 0.0
        errors = max(1.0, _KEPT_ERRORS * sqrt(by_chance))
        missed += abs(end - begin) > max(_KEPT_SHARE * due, errors)
        offered.append(rate)
        done.append(count * 1e9 / window_ns)
    if not done:
        return None
    return SideRate(median(offered), median(done), missed, len(done))


def _outstanding(run: StoredRun) -> tuple[float, float] | None:
    """Operations that were due and not answered as the window began and ended, where reported."""
    begin, end = (
        measured_value(run, Quantity("outstanding_count", (("at", at),))) for at in ("begin", "end")
    )
    return None if begin is None or end is None else (begin, end)


def _offered_per_s(load: Load, run: StoredRun) -> float | None:
    """Intended starts per second as the driver counted them, else the rate that was set."""
    counted = measured_value(run, Quantity(load.offered))
    if counted is not None:
        return counted / load.per_s
    rate = run.spec.params.get(load.rate)
    return None if rate is None else _number(rate)


def _done(load: Load, run: StoredRun) -> tuple[float, float | None]:
    """Length of the window, and operations that ended in it as the workload wants them.

    From a driver that reports no counts, by the rate that it reports.
    """
    window_ns, counts = 0.0, []
    for quantity, value in measured(run).items():
        if quantity.name == "window_duration_ns":
            window_ns = value.value or 0.0
        elif quantity.name in (f"{load.noun}_count", f"{load.noun}_rolled_back_count"):
            counts.append(value.value or 0.0)
    if window_ns and counts:
        return window_ns, sum(counts)
    rate = measured_value(run, Quantity(load.done))
    if rate is None:
        return window_ns, None
    window_ns = window_ns or _USUAL_WINDOW_NS
    return window_ns, rate / load.per_s * window_ns / 1e9


def _paced(load: Load, run: StoredRun) -> bool:
    """Return whether users spend little of the window waiting, by the sum of the durations."""
    window_ns, _ = _done(load, run)
    encoded = (m.hdr for m in run.result.metrics if m.name == load.durations)
    histograms = [hdr.decode(text) for text in encoded if text is not None]
    users = _number(run.spec.params.get(load.users))
    if not (window_ns and histograms and users):
        return False
    waited_ns = sum(histogram.mean * histogram.total for histogram in histograms)
    return bool(waited_ns < _WAITING * users * window_ns)


def _number(value: Json) -> float:
    """A parameter's number; 0 without one."""
    return float(value) if isinstance(value, int | float) else 0.0
