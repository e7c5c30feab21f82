"""A run's measured values: one number per metric and label set."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from harness import hdr
from harness.store.result import Better, Labels, Metric, label_text
from harness.store.runs import StoredRun


@dataclass(frozen=True, order=True)
class Quantity:
    """A metric's name and labels: what must be equal for two values to be compared."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()

    def label(self, name: str) -> str | None:
        return dict(self.labels).get(name)

    def labels_text(self) -> str:
        """``query 6, operator scan``, ``new order, percentile 95``; empty without labels."""
        return ", ".join(_label_text(name, value) for name, value in self.labels)


#: Labels of what a client asks for: their values say by themselves what they are.
CLIENT_LABELS = ("transaction", "operation")
#: What a tier is made of, and what it makes of a job: not what was requested of it.
_OF_THE_TIER = ("pages", "persistent", "filesystem", "dax", "io_engine")
#: The label of a mean of durations.
_STATISTIC = "statistic"


def _label_text(name: str, value: str) -> str:
    bare = name in (*CLIENT_LABELS, _STATISTIC)
    return value.replace("_", " ") if bare else f"{name} {value}"


@dataclass(frozen=True)
class Measured:
    """One run's value of a quantity. ``value`` is None where there is no single number yet.

    ``metric``: its name in run.json. ``note`` says how the number came about where the
    run holds more than one, or where its driver reports it ready-made.
    """

    quantity: Quantity
    metric: str
    unit: str
    better: Better
    value: float | None
    note: str = ""


@dataclass(frozen=True)
class Summary:
    """Repeats of one quantity: how many, their median and range, in the metric's unit."""

    n: int
    median: float
    low: float
    high: float


def summarise(values: Iterable[float]) -> Summary | None:
    """Return median and range; None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    return Summary(len(ordered), statistics.median(ordered), ordered[0], ordered[-1])


def measured(run: StoredRun) -> dict[Quantity, Measured]:
    """Return every metric of a run, in the order of run.json."""
    values: dict[Quantity, Measured] = {}
    for metric in run.result.metrics:
        for value in _of_metric(metric):
            values.setdefault(value.quantity, value)
    return values


def measured_value(run: StoredRun, quantity: Quantity) -> float | None:
    """Return a run's value; None where it has none."""
    value = measured(run).get(quantity)
    return None if value is None else value.value


def mean_durations(run: StoredRun, metric: str) -> dict[Quantity, Measured]:
    """Return the means of a run's histograms of one metric, as the papers have times.

    They are shown, and never compared: a comparison is of percentiles.
    """
    means: dict[Quantity, Measured] = {}
    for stored in run.result.metrics:
        durations = histogram(stored) if stored.name == metric else None
        if durations is not None and durations.total:
            labels = (*_comparable(stored.labels), (_STATISTIC, "mean"))
            quantity = Quantity(metric, labels)
            means[quantity] = _of_quantity(quantity, stored, durations.mean, "the mean of each run")
    return means


def measured_together(runs: Sequence[StoredRun]) -> list[dict[Quantity, Measured]]:
    """Return what each repeat of an arm measured, without percentiles that one is too short for.

    Else p99.9 of the runs with many durations, next to p99 of all runs, could be the smaller one.
    """
    of_runs = [measured(run) for run in runs]
    few = {
        quantity: value
        for run in reversed(of_runs)
        for quantity, value in run.items()
        if value.value is None and quantity.label("percentile")
    }
    return [{q: few.get(q, value) for q, value in run.items()} for run in of_runs]


_DURATION, _LIMIT = "query_duration_ns", "query_timeout_ns"


def limit_of(metric: str) -> str:
    """Return the metric that a query has instead of this duration when it reached its limit.

    Empty where the metric is no duration of queries.
    """
    return metric.removesuffix(_DURATION) + _LIMIT if metric.endswith(_DURATION) else ""


def duration_of(metric: str) -> str:
    """Return the inverse of ``limit_of``."""
    return metric.removesuffix(_LIMIT) + _DURATION if metric.endswith(_LIMIT) else ""


#: Before the name of what was measured while several streams ran at the same time.
IN_STREAMS = "stream_"


#: What is read from a histogram of durations.
PERCENTS = (50.0, 95.0, 99.0, 99.9)

#: The note on a percentile that is read from a run's own histogram.
OF_HISTOGRAM = "a percentile of each run's histogram"

#: The end of a name under which a driver without histograms reports percentiles of what another
#: has a histogram of: they are shown in the rows of that.
_PERCENTILE, _OF = "_percentile_ns", "_duration_ns"
#: The note on such a value.
READY_MADE = "reported ready-made by its driver"


@lru_cache(maxsize=4096)
def _decoded(text: str) -> hdr.Histogram:
    return hdr.decode(text)


def histogram(metric: Metric) -> hdr.Histogram | None:
    """Return the histogram of a metric of run.json; None where it has none."""
    return _decoded(metric.hdr) if metric.hdr is not None else None


def _comparable(labels: Labels) -> tuple[tuple[str, str], ...]:
    """Sort labels that the same metric of another tier has, too.

    A suite's are without those that state what the tier is: the two sides that are to be compared
    would differ in them.
    """
    of_suite = "measurement" in labels and "configuration" in labels
    return tuple(
        sorted(
            (name, label_text(label))
            for name, label in labels.items()
            if not (of_suite and name in _OF_THE_TIER)
        )
    )


def _of_metric(metric: Metric) -> Iterator[Measured]:
    durations = histogram(metric)
    if durations is None:
        yield _measured(metric)
        return
    if not durations.total:
        return
    name, labels = metric.name, _comparable(metric.labels)
    for percent, at in zip(PERCENTS, durations.percentiles(PERCENTS), strict=True):
        quantity = Quantity(name, (*labels, ("percentile", f"{percent:g}")))
        value, note = _percentile(float(at), percent, durations.total)
        yield _of_quantity(quantity, metric, value, note)


def _of_quantity(quantity: Quantity, metric: Metric, value: float | None, note: str) -> Measured:
    return Measured(quantity, metric.name, metric.unit, metric.better, value, note)


def _percentile(value: float, percent: float, total: int) -> tuple[float | None, str]:
    """Give no value where too few durations are held for any to lie beyond it (hdr.fewest)."""
    if total < (needed := hdr.fewest(percent)):
        return None, f"p{percent:g} takes {needed:,} durations, a run has {total:,}"
    return value, OF_HISTOGRAM


def _measured(metric: Metric) -> Measured:
    name, labels = metric.name, metric.labels
    if "stream" in labels and name.startswith("query_"):
        # A query next to others is not the query alone, though its metric is called the same:
        # no table, chart or family of comparisons may hold both.
        name = IN_STREAMS + name
    value, note = _one_number(metric)
    sorted_labels = [*_comparable(labels)]
    if name.endswith(_PERCENTILE) and "percentile" in labels:
        name, note = name.removesuffix(_PERCENTILE) + _OF, READY_MADE
        sorted_labels.sort(key=lambda label: label[0] == "percentile")  # last, as of a histogram
    return _of_quantity(Quantity(name, tuple(sorted_labels)), metric, value, note)


def _one_number(metric: Metric) -> tuple[float | None, str]:
    """Return the number that stands for the run among its repeats.

    Samples within a run are not repeats of it, so a run counts once, with their median.
    """
    if metric.samples is None:
        return None if metric.value is None else float(metric.value), ""
    text = f"median of {len(metric.samples)} samples a run"
    return (None, "no samples") if metric.median is None else (float(metric.median), text)


def is_ready_made(value: Measured | None) -> bool:
    """Return whether it is a percentile that a driver reports ready-made."""
    return value is not None and value.note == READY_MADE


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts query 2 before query 10."""
    import re

    pieces = [
        (digits.lstrip("0"), other) for digits, other in re.findall("([0-9]+)|([^0-9]+)", text)
    ]
    return tuple((1, 0, other) if other else (0, len(digits), digits) for digits, other in pieces)


def in_order(quantities: Iterable[Quantity]) -> list[Quantity]:
    """Sort quantities by name, then labels in natural order."""
    return sorted(quantities, key=lambda q: (q.name, [natural(value) for _, value in q.labels]))
