"""Response curves: performance over the latency of a part's device, from finished runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from harness.store.runs import StoredRun
from reports.statistics import compare_paired
from reports.values import Quantity, Summary, measured_value

#: What stands for the performance of a workload: metric, unit of what is printed, and whether it
#: is a duration, of which the rate is the inverse.
_PERFORMANCE = (
    ("new_orders_per_minute", "New-Orders/min", False),
    ("operations_per_second", "operations/s", False),
    ("queries_geomean_ns", "queries/h", True),
)
_NS_PER_HOUR = 3600e9
#: A faster device that gains less than this is beyond the point of diminishing returns.
DIMINISHING = 0.05


@dataclass(frozen=True)
class Value:
    """An estimate with its interval; None where the repeats are too few for one."""

    value: float
    low: float | None
    high: float | None

    def to_json(self) -> dict[str, float | None]:
        """As in ``harness curve --json``."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class PointOfCurve:
    """A latency, and what was measured there."""

    latency_ns: float
    throughput: Value
    summary: Summary
    run_ids: tuple[str, ...]


@dataclass(frozen=True)
class ResponseCurve:
    """The curve of one part.

    ``today``: the real device, at its own latency. ``models``: known models by name, with their
    latency and the throughput that the curve has there. ``diminishing_at_ns``: the longest latency
    at which a device without any latency gains less than 5 %; None if even the shortest does more.
    """

    part: str
    operation: str
    unit: str
    points: tuple[PointOfCurve, ...]
    today: PointOfCurve
    models: Mapping[str, tuple[float, float]]
    diminishing_at_ns: float | None

    @property
    def ceiling(self) -> float:
        """What a device of no latency gains over today's."""
        return self.points[0].throughput.value / self.today.throughput.value

    def to_json(self) -> dict[str, Any]:
        """As in ``harness curve --json``."""
        return {
            "part": self.part,
            "operation": self.operation,
            "unit": self.unit,
            "points": [_point_json(point) for point in self.points],
            "today": _point_json(self.today),
            "models": [
                {"name": name, "latency_ns": latency, "throughput": value}
                for name, (latency, value) in self.models.items()
            ],
            "ceiling": self.ceiling,
            "diminishing_at_ns": self.diminishing_at_ns,
        }


def _point_json(point: PointOfCurve) -> dict[str, Any]:
    return {
        "latency_ns": point.latency_ns,
        "throughput": point.throughput.to_json(),
        "runs": list(point.run_ids),
    }


def performance(run: StoredRun) -> tuple[float, str] | None:
    """Return a run's throughput with its unit; None of a run that has none."""
    for name, unit, is_duration in _PERFORMANCE:
        value = measured_value(run, Quantity(name))
        if value:
            return (_NS_PER_HOUR / value if is_duration else value), unit
    return None


def point_of(latency_ns: float, runs: Sequence[StoredRun]) -> tuple[PointOfCurve, str] | None:
    """Return what complete runs at one latency have measured, with its unit."""
    found = [(run.run_id, measured) for run in runs if (measured := performance(run))]
    if not found:
        return None
    values = [value for _, (value, _) in found]
    one = compare_paired(values, [1.0] * len(values))
    summary = Summary(len(values), sorted(values)[len(values) // 2], min(values), max(values))
    point = PointOfCurve(
        latency_ns,
        Value(one.ratio, one.low, one.high),
        summary,
        tuple(run_id for run_id, _ in found),
    )
    return point, found[0][1][1]


def curve_of(
    part: str,
    operation: str,
    unit: str,
    points: Sequence[PointOfCurve],
    today: PointOfCurve,
    latencies: Mapping[str, float],
) -> ResponseCurve:
    """Return the curve; ``latencies``: of known models, by name."""
    ordered = sorted(points, key=lambda point: point.latency_ns)
    inside = {
        name: (latency, value)
        for name, latency in latencies.items()
        if (value := at_latency(ordered, latency)) is not None
    }
    return ResponseCurve(
        part, operation, unit, tuple(ordered), today, inside, _diminishing(ordered)
    )


def at_latency(points: Sequence[PointOfCurve], latency_ns: float) -> float | None:
    """Interpolate the throughput linearly; None beyond the longest latency."""
    for low, high in pairwise(points):
        if low.latency_ns <= latency_ns <= high.latency_ns:
            share = (latency_ns - low.latency_ns) / (high.latency_ns - low.latency_ns)
            gained = high.throughput.value - low.throughput.value
            return low.throughput.value + share * gained
    return None


def _diminishing(points: Sequence[PointOfCurve]) -> float | None:
    enough = points[0].throughput.value / (1 + DIMINISHING)
    for low, high in pairwise(points):
        if high.throughput.value < enough:
            falling = low.throughput.value - high.throughput.value
            share = (low.throughput.value - enough) / falling if falling > 0 else 0.0
            at = low.latency_ns + max(0.0, share) * (high.latency_ns - low.latency_ns)
            return at if at > 0 else None
    return points[-1].latency_ns
