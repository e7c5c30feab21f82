"""Performance of a run as a rate: that of a metric, or the inverse of a duration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.metrics import MetricInfo, metrics
from harness.store.runs import StoredRun
from reports.metric_registry import metric_info
from reports.values import Point, Quantity, measured

_HOUR_NS = 3600e9


@dataclass(frozen=True)
class Performance:
    """A rate. ``title``: in sentences; ``short``: next to a number; ``unit``: as of metrics."""

    value: float
    title: str
    short: str
    unit: str


def performance(run: StoredRun, metric: str) -> Performance | None:
    """Return the rate by this metric; None of a run that has none."""
    values = measured(run)
    rate = values.get(Quantity(metric))
    if rate is None or not rate.value:
        return None
    info = metrics().get(metric) or metric_info(rate.quantity, rate.better)
    if not info.inverse:
        return Performance(rate.value, info.title, info.short, rate.unit)
    value = _count(info, values) * _HOUR_NS / rate.value
    return Performance(value, f"{info.inverse} per hour", f"{info.inverse}/h", "1/h")


def _count(info: MetricInfo, values: Mapping[Quantity, Point]) -> int:
    """Return how many durations the metric adds up; 1 where it stands for a single one."""
    return sum(quantity.name == info.sum_of for quantity in values) if info.sum_of else 1
