"""Ratios of runs on a modelled tier to runs on the tier itself."""

from __future__ import annotations

from collections.abc import Sequence

from harness.models.score import ScoredMetric
from harness.store.runs import StoredRun
from reports.headline import main_operation
from reports.metric_registry import load_of
from reports.response import performance
from reports.statistics import ratio_of
from reports.values import Quantity, measured_value

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
    if not known:
        return None
    estimate = ratio_of([a for a, _ in known], [b for _, b in known])
    return ScoredMetric(name, estimate.value, estimate.low, estimate.high)


def _throughput(run: StoredRun) -> float | None:
    found = performance(run)
    return found[0] if found else None


def _latency(run: StoredRun, percentile: str) -> float | None:
    load = load_of(run.spec.workload)
    if load is None:
        return None
    main = main_operation(load, [run])
    labels = ((load.noun, main), ("percentile", percentile))
    return measured_value(run, Quantity(load.durations, labels))
