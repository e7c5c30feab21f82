"""What a report knows of metrics and workloads by name; unknown ones fall back to their form.

A later workload that wants better titles, or its own chart, adds a line to ``metrics.yml`` and in
``reports.charts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.store.result import Better
from harness.store.spec import JsonObject
from harness.yamlfile import shipped_yaml
from reports.values import Quantity

#: headline: the verdict is read from it; detail: one of its parts (a query), drawn; part:
#: the same, in a table alone; counter: why; breakdown: parts of a second execution, or of
#: queries next to one another; mark: shown as a mark on another metric, never as a value.
Role = Literal["headline", "detail", "part", "counter", "breakdown", "mark"]


@dataclass(frozen=True)
class MetricInfo:
    """Title of a metric, what it is for, and the label its parts are distinguished by.

    ``resolution``: the step it is counted in, in its unit; 0 where that is finer than shown.
    """

    title: str
    role: Role
    axis: str | None = None
    resolution: float = 0.0


_KNOWN = shipped_yaml(Path(__file__).with_name("metrics.yml"))
_METRICS = {name: MetricInfo(*one) for name, one in _KNOWN["metrics"].items()}


def counter_title(name: str) -> str | None:
    """Of ``window_block_busy_ns`` or ``query_block_busy_ns``; None where neither is known."""
    stem = name.removeprefix("window_").removeprefix("query_")
    known = _METRICS.get(name) or _METRICS.get(f"query_{stem}")
    return known.title if known else _KNOWN["counters"].get(stem)


@dataclass(frozen=True)
class WorkloadInfo:
    """``essential``: parameters without which a number of the workload means nothing.

    ``brief``: more of them that a list of runs has room for.
    """

    title: str
    essential: Sequence[str] = ()
    brief: Sequence[str] = ()


_WORKLOADS = {name: WorkloadInfo(**one) for name, one in _KNOWN["workloads"].items()}


@dataclass(frozen=True)
class Load:
    """A load that a client offers to a server, at a rate that may be set.

    ``users``: the parameter with the number of users; ``rate``: that which sets the rate.
    ``offered``, ``done``: the metrics of what was offered and done, in
    ``per_s`` times operations per second. ``durations``: the metric of the operations' times,
    distinguished by the label ``noun``. ``main``: the operation that stands for all of them;
    ``shares``: parameters with the share of each, where the largest does.
    """

    noun: Literal["operation", "transaction"]
    users: str
    rate: str
    offered: str
    done: str
    per_s: float
    durations: str
    main: str = ""
    shares: Mapping[str, str] = field(default_factory=dict)


_LOADS = {name: Load(**one) for name, one in _KNOWN["loads"].items()}


def load_of(workload: str, params: JsonObject) -> Load | None:
    """What is known of the load that a workload offers; None where it offers none.

    Of the user's own workload only scripts are a load, not queries.
    """
    return _LOADS.get(workload) if workload != "sql" or params.get("script") else None


def metric_info(quantity: Quantity, better: Better) -> MetricInfo:
    """What is known of a metric, or what its labels and direction suggest."""
    if quantity.name in _METRICS:
        return _METRICS[quantity.name]
    title = counter_title(quantity.name) or quantity.name.replace("_", " ")
    axis = quantity.labels[0][0] if quantity.labels else None
    if quantity.name.startswith("query_") or better == "none":
        return MetricInfo(title, "counter", axis)
    return MetricInfo(title, "detail" if quantity.labels else "headline", axis)


def metric_title(quantity: Quantity, better: Better) -> str:
    """Name a quantity in words: ``query time, query 6``."""
    return ", ".join(filter(None, (metric_info(quantity, better).title, quantity.labels_text())))


def headline_first(quantities: Iterable[Quantity]) -> list[Quantity]:
    """Headlines in the order of the table above, then the others in the order given."""
    known = list(_METRICS)
    return sorted(quantities, key=lambda q: known.index(q.name) if q.name in known else len(known))


def workload_title(workload: str) -> str:
    """Name a workload in words: ``TPC-H-derived`` for ``tpch``."""
    known = _WORKLOADS.get(workload)
    return known.title if known else workload


def essential_parameters(workload: str) -> Sequence[str]:
    """Names of the parameters that stand next to every number of a workload."""
    return _WORKLOADS.get(workload, WorkloadInfo(workload)).essential


def brief_parameters(workload: str) -> tuple[str, ...]:
    """What distinguishes runs of a workload in a list."""
    known = _WORKLOADS.get(workload, WorkloadInfo(workload))
    return (*known.essential, *known.brief)
