"""Response curves: performance over the latency of a part's device, from finished runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from harness.models.curve import ScoredMetric
from harness.store.documents import attributes
from harness.store.runs import StoredRun
from reports.compared_rows import Verdict
from reports.headline import main_operation
from reports.metric_registry import load_of
from reports.statistics import Missing, Value, compare_values, ratio_of
from reports.values import Quantity, measured_value

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
class PointOfCurve:
    """A latency, and what was measured there.

    ``gain``: the throughput as a multiple of today's device's in the same blocks.
    """

    latency_ns: float
    throughput: Value
    gain: Value
    run_ids: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As in ``harness curve --json``."""
        sides = {"throughput": _json(self.throughput), "gain": _json(self.gain)}
        return {"latency_ns": self.latency_ns, **sides, "runs": list(self.run_ids)}


@dataclass(frozen=True)
class ResponseCurve:
    """The curve of one part.

    ``today``: the real device, at its own latency. ``at_today``: what the models give at the
    latency that the device had in each block, as a multiple of its throughput there: 1 at best.
    ``models``: known models by name, with their latency and the throughput that the curve has
    there. ``diminishing_at_ns``: the longest latency at which a device without any latency gains
    less than 5 %; None if even the shortest does more.
    """

    part: str
    operation: str
    unit: str
    points: tuple[PointOfCurve, ...]
    today: PointOfCurve
    at_today: Value
    models: Mapping[str, tuple[float, float]]
    diminishing_at_ns: float | None

    @property
    def ceiling(self) -> Value:
        """What a device of no latency gives, as a multiple of today's."""
        return self.points[0].gain

    @property
    def verdict(self) -> Verdict:
        """What a device of no latency shows, at a confidence of 95 %."""
        one = self.ceiling
        if one.low is None or one.high is None or not one.covered:
            return "not resolvable"
        if one.low > 1:
            return "faster"
        if one.high < 1:
            return "slower"
        return "no difference" if one.high <= 1 + DIMINISHING else "not resolvable"

    def to_json(self) -> dict[str, Any]:
        """As in ``harness curve --json``."""
        return {
            **attributes(self, "part", "operation", "unit", "points", "today"),
            "models": [
                {"name": name, "latency_ns": latency, "throughput": value}
                for name, (latency, value) in self.models.items()
            ],
            "ceiling": _json(self.ceiling),
            "at_today": _json(self.at_today),
            "diminishing_at_ns": self.diminishing_at_ns,
        }


def first_parts(curves: Sequence[ResponseCurve]) -> list[ResponseCurve]:
    """The parts that gain most: the first, and those whose intervals overlap its interval."""
    ordered = sorted(curves, key=lambda curve: -curve.ceiling.value)
    least = ordered[0].ceiling.low or ordered[0].ceiling.value
    return [one for one in ordered if (one.ceiling.high or one.ceiling.value) >= least]


def performance(run: StoredRun) -> tuple[float, str] | None:
    """Return a run's throughput with its unit; None of a run that has none."""
    for name, unit, is_duration in _PERFORMANCE:
        value = measured_value(run, Quantity(name))
        if value:
            return (_NS_PER_HOUR / value if is_duration else value), unit
    return None


@dataclass(frozen=True)
class Throughput:
    """What complete runs under the same conditions measured, by block."""

    unit: str
    values: Mapping[int, float]
    run_ids: tuple[str, ...]

    def point(self, latency_ns: float, today: Throughput) -> PointOfCurve | None:
        """Return the point of a curve; None where no block has a run of today's device, too."""
        both = [block for block in self.values if block in today.values]
        if not both:
            return None
        own = [self.values[block] for block in both]
        rate = ratio_of(own, [1.0] * len(own))
        gain = ratio_of(own, [today.values[block] for block in both])
        return PointOfCurve(latency_ns, rate, gain, self.run_ids)


def measured_of(runs: Sequence[StoredRun]) -> Throughput | None:
    """Return the throughput of runs that differ only in their block; None without any."""
    found = [(run, one) for run in runs if (one := performance(run))]
    if not found:
        return None
    values = {run.spec.block: value for run, (value, _) in found}
    return Throughput(found[0][1][1], values, tuple(run.run_id for run, _ in found))


def _json(one: Value) -> dict[str, Any]:
    """As in ``harness curve --json``."""
    return attributes(one, "value", "low", "high", "confidence")


def curve_of(
    part: str,
    operation: str,
    unit: str,
    points: Sequence[PointOfCurve],
    today: PointOfCurve,
    at_today: Value,
    latencies: Mapping[str, float],
) -> ResponseCurve:
    """Return the curve; ``latencies``: of known models, by name.

    Between points it is linear, and it falls: where measured points rise, it is their mean.
    """
    ordered = sorted(points, key=lambda point: point.latency_ns)
    measured = [point.throughput.value for point in ordered]
    line = [(p.latency_ns, y) for p, y in zip(ordered, falling(measured), strict=True)]
    longest_ns = ordered[-1].latency_ns
    inside = {
        name: (latency, _at(line, latency))
        for name, latency in latencies.items()
        if latency <= longest_ns
    }
    return ResponseCurve(
        part, operation, unit, tuple(ordered), today, at_today, inside, _diminishing(line)
    )


def at_latencies(
    modelled: Sequence[tuple[float, Throughput]],
    today: Throughput,
    latencies_ns: Mapping[int, float],
) -> Value:
    """Return what the models give at the latencies that the real device had, over what that gave.

    ``modelled``: latency and throughput of at least two models, the latencies ascending; between
    neighbours, and beyond the last, the time of an operation is linear in the latency.
    ``latencies_ns``: of the real device, by block. A device is not the same in all blocks: at a
    model's own latency, what it was slower or faster by would count as the models' error.
    """
    blocks = set(today.values) & set(latencies_ns)
    both = sorted(blocks.intersection(*(one.values for _, one in modelled)))
    given = []
    for block in both:
        times = [(latency_ns, 1 / one.values[block]) for latency_ns, one in modelled]
        (before_ns, before), (last_ns, last) = times[-2:]
        beyond_ns = max(0.0, latencies_ns[block] - last_ns)
        # Noise aside, a longer latency makes no operation quicker.
        slope = max(0.0, (last - before) / (last_ns - before_ns))
        given.append(1 / (_at(times, latencies_ns[block]) + slope * beyond_ns))
    return ratio_of(given, [today.values[block] for block in both])


def falling(values: Sequence[float]) -> list[float]:
    """Return the values nearest to these that never rise: isotonic regression."""
    places = range(len(values))
    return [
        min(max(fmean(values[a : b + 1]) for b in places[i:]) for a in places[: i + 1])
        for i in places
    ]


def _at(line: Sequence[tuple[float, float]], latency_ns: float) -> float:
    return float(np.interp(latency_ns, [x for x, _ in line], [y for _, y in line]))


def _diminishing(line: Sequence[tuple[float, float]]) -> float | None:
    enough = line[0][1] / (1 + DIMINISHING)
    for (low_ns, low), (high_ns, high) in pairwise(line):
        if high < enough:
            return (low_ns + (low - enough) / (low - high) * (high_ns - low_ns)) or None
    return line[-1][0]


_PERCENTILES = ("50", "99")


def scored(pairs: Sequence[tuple[StoredRun, StoredRun]]) -> list[ScoredMetric]:
    """Return throughput and latencies of pairs of a modelled run and the real one of its block."""
    found = [_ratio("throughput", [(_throughput(a), _throughput(b)) for a, b in pairs])]
    for percentile in _PERCENTILES:
        values = [(_latency(a, percentile), _latency(b, percentile)) for a, b in pairs]
        found.append(_ratio(f"p{percentile}", values))
    return [one for one in found if one is not None]


def _ratio(name: str, pairs: Sequence[tuple[float | None, float | None]]) -> ScoredMetric | None:
    known = [(a, b) for a, b in pairs if a and b]
    ratio = compare_values([a for a, _ in known], [b for _, b in known])
    if isinstance(ratio, Missing):
        return None
    return ScoredMetric(name, ratio.value, ratio.low, ratio.high)


def _throughput(run: StoredRun) -> float | None:
    found = performance(run)
    return found[0] if found else None


def _latency(run: StoredRun, percentile: str) -> float | None:
    load = load_of(run.spec.workload, run.spec.params)
    if load is None:
        return None
    main = main_operation(load, [run])
    labels = ((load.noun, main), ("percentile", percentile))
    return measured_value(run, Quantity(load.durations, labels))
