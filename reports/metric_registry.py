"""Titles and roles of what a run measured; those that no file states have them by their form."""

from __future__ import annotations

from collections.abc import Iterable

from harness.metrics import MetricInfo, counter_titles, metrics
from harness.store.result import Better
from reports.values import Quantity


def counter_title(name: str) -> str | None:
    """Return the title of ``window_block_busy_ns`` or ``query_block_busy_ns``; None without one."""
    stem = name.removeprefix("window_").removeprefix("query_")
    info = metrics().get(name) or metrics().get(f"query_{stem}")
    return info.title if info else counter_titles().get(stem)


def metric_info(quantity: Quantity, better: Better) -> MetricInfo:
    """Return what is stated of a metric, or what its labels and direction suggest."""
    if info := metrics().get(quantity.name):
        return info
    title = counter_title(quantity.name) or quantity.name.replace("_", " ")
    axis = quantity.labels[0][0] if quantity.labels else None
    if quantity.name.startswith("query_") or better == "none":
        return MetricInfo(title, "counter", axis)
    return MetricInfo(title, "detail" if quantity.labels else "headline", axis)


def metric_title(quantity: Quantity, better: Better) -> str:
    """Name a quantity in words: ``query time, query 6``."""
    return ", ".join(filter(None, (metric_info(quantity, better).title, quantity.labels_text())))


def headline_first(quantities: Iterable[Quantity]) -> list[Quantity]:
    """Headlines in the order in which they are stated, then the others in the order given."""
    places = {name: place for place, name in enumerate(metrics())}
    return sorted(quantities, key=lambda q: places.get(q.name, len(places)))
