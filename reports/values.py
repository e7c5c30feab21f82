"""Values that runs measured: points, by metric and labels, of one run or of several."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeVar

from harness import hdr
from harness.errors import UsageError
from harness.sequences import grouped
from harness.store.result import Better, Label, Labels, Metric, label_text
from harness.store.runs import StoredRun, once_a_run


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
#: Labels of a percentile and of a mean of durations.
_PERCENTILE, _STATISTIC = "percentile", "statistic"


def _label_text(name: str, value: str) -> str:
    bare = name in (*CLIENT_LABELS, _STATISTIC)
    return value.replace("_", " ") if bare else f"{name} {value}"


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


#: Labels that are no number, and stand for a limit.
_LIMITS: Mapping[Label, float] = {"unlimited": math.inf, "none": 0.0}


@dataclass(frozen=True, eq=False)
class Point:
    """Observations of one quantity, by one run or by several.

    ``samples``: one a repeat; ``note`` says why there is none, or how they came about. ``encoded``:
    histograms of durations, which have no samples. ``runs``: their ids; repeats of two points were
    measured side by side in the same runs alone. ``stored_as``: the metric's name in run.json.
    ``settings``: the hash of what was set and no label states (harness.micro.labels).
    ``empty_ns``: what the time stamps themselves take of each duration.
    """

    metric: str
    unit: str
    better: Better
    labels: Labels
    samples: tuple[float, ...] = ()
    encoded: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    stored_as: str = ""
    note: str = ""
    settings: str = ""
    empty_ns: float = 0.0

    @cached_property
    def quantity(self) -> Quantity:
        """Return what must be equal for two values to be compared."""
        return Quantity(self.metric, _comparable(self.labels))

    def alongside(self, other: Point) -> bool:
        """Return whether repeat k of both was measured in the same block of the same run."""
        return self.runs == other.runs and len(self.samples) == len(other.samples)

    def __getitem__(self, label: str) -> str:
        """Return a label as tables show it, empty where there is none."""
        return label_text(self.labels.get(label, ""))

    @cached_property
    def histogram(self) -> hdr.Histogram | None:
        """All repeats together; None where the metric is none of durations."""
        return hdr.merge(map(_decoded, self.encoded)) if self.encoded else None

    @property
    def value(self) -> float | None:
        """Return the median of the repeats; None without any."""
        return statistics.median(self.samples) if self.samples else None

    @property
    def median(self) -> float:
        """Return the median of the repeats; of a histogram, of all durations."""
        if self.histogram is not None:
            return float(self.histogram.percentile(50))
        return statistics.median(self.samples)

    @property
    def compared(self) -> float:
        """Return what ratios and papers compare: the mean of durations without time stamps, of all
        else the median of repeats. 0 of durations that are no longer than the stamps."""
        if self.histogram is None:
            return self.median
        return max(0.0, self.histogram.mean - self.empty_ns)

    @property
    def summary(self) -> Summary:
        """How many repeats, their median and range."""
        return summarise(self.samples) or Summary(1, self.median, self.median, self.median)

    @property
    def ready_made(self) -> bool:
        """Return whether it is a percentile that a driver reports ready-made."""
        return self.note == READY_MADE

    def number(self, label: str) -> float:
        """Return a label's number: bytes of a size, bytes/s of a rate, ns of a duration.

        Infinity for ``unlimited``, 0 where there is none. UsageError where it is no number.
        """
        number = self.number_or_none(label)
        if number is None:
            named = f"{label} of {self['configuration'] or self['measurement'] or self.metric}"
            raise UsageError(
                f"a card with {', '.join(self.runs)}",
                f"{named} is {self[label]!r}, which is no number",
                "leave the run out: name the others, or remove it with harness runs rm",
            )
        return number

    def number_or_none(self, label: str) -> float | None:
        """Return a label's number as :meth:`number` does; None of a name."""
        value = self.labels.get(label, 0.0)
        return _LIMITS.get(value) if isinstance(value, str) else float(value)


Key = TypeVar("Key")


def laid_together(points: Iterable[tuple[Key, Point]]) -> dict[Key, Point]:
    """Lay the points of each key together: samples and runs follow one another.

    All else is of the first that has a value, if one has.
    """
    return {
        key: _joined(same) if len(same) > 1 else same[0] for key, same in grouped(points).items()
    }


def _joined(points: Sequence[Point]) -> Point:
    first = next((point for point in points if point.samples), points[0])
    return replace(
        first,
        samples=tuple(sample for point in points for sample in point.samples),
        encoded=tuple(text for point in points for text in point.encoded),
        runs=tuple(run_id for point in points for run_id in point.runs),
    )


def stored_points(run: StoredRun) -> Iterator[Point]:
    """Yield each metric of a run as it is stored, with all of its repeats."""
    for metric in run.result.metrics:
        samples = (metric.value,) if metric.value is not None else metric.samples or ()
        yield Point(
            metric.name,
            metric.unit,
            metric.better,
            metric.labels,
            tuple(map(float, samples)),
            () if metric.hdr is None else (metric.hdr,),
            (run.run_id,),
            metric.name,
        )


@once_a_run
def measured(run: StoredRun) -> Mapping[Quantity, Point]:
    """Return every metric of a run with one number at most, in the order of run.json.

    Samples within a run are not repeats of it, so a run counts once, with their median.
    """
    values: dict[Quantity, Point] = {}
    for stored in stored_points(run):
        for point in _of_stored(stored):
            values.setdefault(point.quantity, point)
    return values


def measured_value(run: StoredRun, quantity: Quantity) -> float | None:
    """Return a run's value; None where it has none."""
    point = measured(run).get(quantity)
    return None if point is None else point.value


def mean_durations(run: StoredRun, metric: str) -> dict[Quantity, Point]:
    """Return the means of a run's histograms of one metric, as the papers have times.

    They are shown, and never compared: a comparison is of percentiles.
    """
    means = (
        _read(stored, stored.histogram.mean, "the mean of each run", **{_STATISTIC: "mean"})
        for stored in stored_points(run)
        if stored.metric == metric and stored.histogram is not None and stored.histogram.total
    )
    return {point.quantity: point for point in means}


def measured_together(runs: Sequence[StoredRun]) -> list[Mapping[Quantity, Point]]:
    """Return what each repeat of an arm measured, without percentiles that one is too short for.

    Else p99.9 of the runs with many durations, next to p99 of all runs, could be the smaller one.
    """
    of_runs = [measured(run) for run in runs]
    few = {
        quantity: point
        for run in reversed(of_runs)
        for quantity, point in run.items()
        if point.value is None and quantity.label(_PERCENTILE)
    }
    return [{q: few.get(q, point) for q, point in run.items()} for run in of_runs]


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
_PERCENTILE_NS, _OF = "_percentile_ns", "_duration_ns"
#: The note on such a value.
READY_MADE = "reported ready-made by its driver"


@lru_cache(maxsize=4096)
def _decoded(text: str) -> hdr.Histogram:
    return hdr.decode(text)


def histogram(metric: Metric) -> hdr.Histogram | None:
    """Return the histogram of a metric of run.json; None where it has none."""
    return _decoded(metric.hdr) if metric.hdr is not None else None


def _comparable(labels: Labels) -> tuple[tuple[str, str], ...]:
    """Sort labels that the same metric of another tier has, too; what was read from it comes last.

    A suite's are without those that state what the tier is: the two sides that are to be compared
    would differ in them.
    """
    of_suite = "measurement" in labels and "configuration" in labels
    last = labels.keys() & {_PERCENTILE, _STATISTIC}
    names = (*sorted(labels.keys() - last), *sorted(last))
    return tuple(
        (name, label_text(labels[name]))
        for name in names
        if not (of_suite and name in _OF_THE_TIER)
    )


def _of_stored(stored: Point) -> Iterator[Point]:
    if not stored.encoded:
        yield _single(stored)
    elif (durations := stored.histogram) and durations.total:
        for percent, at in zip(PERCENTS, durations.percentiles(PERCENTS), strict=True):
            value, note = _percentile(float(at), percent, durations.total)
            yield _read(stored, value, note, **{_PERCENTILE: f"{percent:g}"})


def _read(stored: Point, value: float | None, note: str, metric: str = "", **labels: str) -> Point:
    """Return a number that is read from a stored metric, as ``metric`` if it has another name."""
    return Point(
        metric or stored.metric,
        stored.unit,
        stored.better,
        {**stored.labels, **labels},
        () if value is None else (value,),
        (),
        stored.runs,
        stored.stored_as,
        note,
        stored.settings,
        stored.empty_ns,
    )


def _percentile(value: float, percent: float, total: int) -> tuple[float | None, str]:
    """Give no value where too few durations are held for any to lie beyond it (hdr.fewest)."""
    if total < (needed := hdr.fewest(percent)):
        return None, f"p{percent:g} takes {needed:,} durations, a run has {total:,}"
    return value, OF_HISTOGRAM


def _single(stored: Point) -> Point:
    """Return the number that stands for the run among its repeats."""
    name, note = stored.metric, "" if stored.samples else "no samples"
    if len(stored.samples) > 1:
        note = f"median of {len(stored.samples)} samples a run"
    if "stream" in stored.labels and name.startswith("query_"):
        # A query next to others is not the query alone, though its metric is called the same:
        # no table, chart or family of comparisons may hold both.
        name = IN_STREAMS + name
    elif name.endswith(_PERCENTILE_NS) and _PERCENTILE in stored.labels:
        name, note = name.removesuffix(_PERCENTILE_NS) + _OF, READY_MADE
    if name == stored.metric and len(stored.samples) == 1:
        return stored
    return _read(stored, stored.value, note, name)


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
