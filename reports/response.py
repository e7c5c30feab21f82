"""Response curves: performance over the latency of a part's device, from finished runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from harness import hdr
from harness.metrics import load_of, standing_for
from harness.models.score import DEVICE_TIME, ScoredQuantity, device_time_of
from harness.store.documents import attributes
from harness.store.runs import StoredRun
from reports.compared_rows import Verdict, interim_analyses_of
from reports.headline import main_operation
from reports.performance import Performance, performance
from reports.statistics import Ratio, Value, decide, ratio_of
from reports.values import Quantity, measured_value

#: A faster device that gains less than this is beyond the point of diminishing returns.
DIMINISHING = 0.05
_RESAMPLES = 1000


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

    ``fastest``: what was measured on a device of no latency; ``ceiling``: the same as a multiple of
    today's, decided in the family of all curves of the command. ``today``: the real device, at its
    own latency. ``at_today``: what the models give at the latency that the device had in each
    block, as a multiple of its throughput there: 1 at best. ``models``: known models by name, with
    their latency and the throughput that the curve has there. ``diminishing_at_ns``: the longest
    latency at which a device without any latency gains less than 5 %; 0 if even the shortest does
    more.
    """

    part: str
    operation: str
    unit: str
    points: tuple[PointOfCurve, ...]
    fastest: Throughput
    ceiling: Ratio
    today: PointOfCurve
    at_today: Value
    models: Mapping[str, tuple[float, float]]
    diminishing_at_ns: Value

    @property
    def verdict(self) -> Verdict:
        """Return what a device of no latency shows, at a confidence of 95 %."""
        gain = self.ceiling
        if gain.shown:
            return "faster" if gain.above else "slower"
        small = gain.covered and gain.high is not None and gain.high <= 1 + DIMINISHING
        return "no difference" if small else "not resolvable"

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
            "diminishing_at_ns": _json(self.diminishing_at_ns),
        }


def throughput_of(run: StoredRun) -> Performance | None:
    """Return what stands for a run on a curve; None of a run that has no such metric."""
    rates = (performance(run, name) for name in standing_for("curve"))
    return next(filter(None, rates), None)


@dataclass(frozen=True)
class Throughput:
    """Throughput that complete runs under the same conditions measured, by block.

    ``looks``: how often results may have decided whether there would be more of them.
    """

    unit: str
    values: Mapping[int, float]
    run_ids: tuple[str, ...] = ()
    looks: int = 1

    def gain(self, today: Throughput) -> Ratio | None:
        """Return it as a multiple of today's; None where no block has a run of both."""
        both = [block for block in self.values if block in today.values]
        if not both:
            return None
        rates, others = ([side.values[block] for block in both] for side in (self, today))
        return ratio_of(rates, others, interim_analyses=max(self.looks, today.looks))

    def point(self, latency_ns: float, today: Throughput) -> PointOfCurve | None:
        """Return the point of a curve; None where no block has a run of today's device, too."""
        gain = self.gain(today)
        if gain is None:
            return None
        values = [value for block, value in self.values.items() if block in today.values]
        rate = ratio_of(values, [1.0] * len(values), interim_analyses=max(self.looks, today.looks))
        return PointOfCurve(latency_ns, rate, gain, self.run_ids)


def measured_of(runs: Sequence[StoredRun]) -> Throughput | None:
    """Return the throughput of runs that differ only in their block; None without any."""
    measured = [(run, rate) for run in runs if (rate := throughput_of(run))]
    if not measured:
        return None
    values = {run.spec.block: rate.value for run, rate in measured}
    ids = tuple(run.run_id for run, _ in measured)
    return Throughput(measured[0][1].short, values, ids, interim_analyses_of(runs))


def _json(value: Value) -> dict[str, Any]:
    """As in ``harness curve --json``."""
    return attributes(value, "value", "low", "high", "confidence")


def curve_of(
    part: str,
    operation: str,
    steps: Sequence[tuple[float, Throughput]],
    today: Throughput,
    latencies_ns: Mapping[int, float],
    models: Mapping[str, float],
) -> ResponseCurve | None:
    """Return the curve of a part; None where a block of today's device is in no step.

    ``steps``: latency of a model and what was measured on it, the latencies ascending, from 0.
    ``latencies_ns``: of today's device, by block. ``models``: latencies of known models by name.
    Between points the time of an operation is linear in the latency, and it rises: where measured
    points fall, it is their mean.
    """
    points = [point for ns, rates in steps if (point := rates.point(ns, today))]
    ceiling = steps[0][1].gain(today)
    at_device = today.point(fmean(latencies_ns.values()), today)
    if len(points) < len(steps) or ceiling is None or at_device is None:
        return None
    places = [point.latency_ns for point in points]
    times = rising([1 / point.throughput.value for point in points])
    marked = {
        name: (ns, 1 / float(np.interp(ns, places, times)))
        for name, ns in models.items()
        if ns <= places[-1]
    }
    return ResponseCurve(
        part,
        operation,
        today.unit,
        tuple(points),
        steps[0][1],
        ceiling,
        at_device,
        at_latencies(steps, today, latencies_ns),
        marked,
        _diminishing(steps, places, times, ceiling.confidence),
    )


def family(curves: Sequence[ResponseCurve]) -> list[ResponseCurve]:
    """Return the curves of one command, the gains of their ceilings decided together."""
    decided = decide([curve.ceiling for curve in curves])
    return [replace(curve, ceiling=gain) for curve, gain in zip(curves, decided, strict=True)]


def first_parts(curves: Sequence[ResponseCurve]) -> list[ResponseCurve]:
    """The parts that gain most: the first, and those that it is not shown to exceed."""
    first, *others = sorted(curves, key=lambda curve: -curve.ceiling.value)
    ratios = [ratio for curve in others if (ratio := first.fastest.gain(curve.fastest))]
    if len(ratios) < len(others):
        return [first, *others]
    decided = zip(others, decide(ratios), strict=True)
    return [first, *(curve for curve, ratio in decided if not ratio.shown)]


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
    both = sorted(blocks.intersection(*(throughput.values for _, throughput in modelled)))
    rates = []
    places = [latency_ns for latency_ns, _ in modelled]
    for block in both:
        times = [1 / throughput.values[block] for _, throughput in modelled]
        beyond_ns = max(0.0, latencies_ns[block] - places[-1])
        # Noise aside, a longer latency makes no operation quicker.
        slope = max(0.0, (times[-1] - times[-2]) / (places[-1] - places[-2]))
        inside = float(np.interp(latencies_ns[block], places, times))
        rates.append(1 / (inside + slope * beyond_ns))
    return ratio_of(rates, [today.values[block] for block in both])


def rising(values: Sequence[float]) -> list[float]:
    """Return the values nearest to these that never fall: isotonic regression."""
    places = range(len(values))
    return [
        max(min(fmean(values[a : b + 1]) for b in places[i:]) for a in places[: i + 1])
        for i in places
    ]


def _diminishing(
    steps: Sequence[tuple[float, Throughput]],
    places: Sequence[float],
    times: Sequence[float],
    confidence: float,
) -> Value:
    """Return the latency beyond which 5 % are lost, with the range of it over the blocks.

    The interval is that of resampled blocks (percentile bootstrap, of a fixed seed).
    """
    blocks = sorted(set.intersection(*(set(rates.values) for _, rates in steps)))
    value = _where_lost(places, times)
    if len(blocks) < 2:
        return Value(value, None, None)
    logs = np.log([[1 / rates.values[block] for block in blocks] for _, rates in steps])
    chosen = np.random.default_rng(0).integers(0, len(blocks), (_RESAMPLES, len(blocks)))
    lost_ns = [
        _where_lost(places, rising(np.exp(logs[:, sample].mean(axis=1)).tolist()))
        for sample in chosen
    ]
    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(lost_ns, [tail, 100 - tail])
    return Value(value, min(value, float(low)), max(value, float(high)), confidence)


def _where_lost(places: Sequence[float], times: Sequence[float]) -> float:
    enough = times[0] * (1 + DIMINISHING)
    for (low_ns, low), (high_ns, high) in pairwise(zip(places, times, strict=True)):
        if high > enough:
            return low_ns + (enough - low) / (high - low) * (high_ns - low_ns)
    return places[-1]


_PERCENTILES = ("50", "99")


def measurements(tier: StoredRun, model: StoredRun) -> tuple[ScoredQuantity, ...]:
    """Return what the two runs of a block measured, of what both of them have.

    Throughput, latencies, the engine's processor time of an operation, which a base that
    compresses, or a device that is not there, changes; and the time of the engine's calls, of all
    and of each kind.
    """
    runs = (tier, model)
    values = {"throughput": [rate.value if rate else None for rate in map(throughput_of, runs)]}
    for percentile in _PERCENTILES:
        values[f"p{percentile}"] = [_latency(run, percentile) for run in runs]
    values["cpu_per_operation"] = [_cpu_ns(run) for run in runs]
    times = _call_times(tier, model)
    values[DEVICE_TIME] = [sum(of_run) for of_run in zip(*times.values(), strict=True)] or [0, 0]
    values |= {device_time_of(*kind): list(both) for kind, both in times.items()}
    return tuple(
        ScoredQuantity(name, on_tier, on_model)
        for name, (on_tier, on_model) in values.items()
        if on_tier and on_model
    )


def _call_times(tier: StoredRun, model: StoredRun) -> dict[tuple[str, str], tuple[float, float]]:
    """Return how long the foreground's calls of each kind took, both as often as on the tier."""
    of_tier, of_model = _calls(tier), _calls(model)
    return {
        kind: (calls.total * calls.mean, calls.total * of_model[kind].mean)
        for kind, calls in of_tier.items()
        if kind in of_model
    }


def _calls(run: StoredRun) -> dict[tuple[str, str], hdr.Histogram]:
    return {
        (str(metric.labels["part"]), str(metric.labels["operation"])): hdr.decode(metric.hdr)
        for metric in run.result.metrics
        if metric.name == "io_duration_ns" and metric.hdr and metric.labels["role"] == "foreground"
    }


def _cpu_ns(run: StoredRun) -> float | None:
    load = load_of(run.spec.workload, run.spec.params)
    names = (f"{of}_cpu_per_{load.noun}_ns" for of in ("server", "process")) if load else ()
    return next((value for name in names if (value := measured_value(run, Quantity(name)))), None)


def _latency(run: StoredRun, percentile: str) -> float | None:
    load = load_of(run.spec.workload, run.spec.params)
    if load is None:
        return None
    main = main_operation(load, [run])
    labels = ((load.noun, main), ("percentile", percentile))
    return measured_value(run, Quantity(load.durations, labels))
