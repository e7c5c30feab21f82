"""What a report knows of metrics and workloads by name; unknown ones fall back to their form.

A later workload that wants better titles, or its own chart, adds a line here and in
``harness.reports.charts``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from harness.reports.values import Quantity
from harness.result import Better

#: headline: the verdict is read from it; detail: one of its parts (a query); counter:
#: why; breakdown: parts of a second execution.
Role = Literal["headline", "detail", "counter", "breakdown"]


@dataclass(frozen=True)
class MetricInfo:
    """Title of a metric, what it is for, and the label its parts are told apart by.

    ``resolution``: the step it is counted in, in its unit; 0 where that is finer than shown.
    """

    title: str
    role: Role
    axis: str | None = None
    resolution: float = 0.0


_METRICS = {
    "queries_geomean_ns": MetricInfo("geometric mean of the query times", "headline"),
    "queries_duration_ns": MetricInfo("sum of the query times", "headline"),
    "query_duration_ns": MetricInfo("query time", "detail", "query"),
    # Linux reports the processor time of a process (proc(5), utime) in ticks of 1/100 s.
    "query_cpu_ns": MetricInfo(
        "processor time of the query (in ticks of 10 ms)", "counter", "query", 1e7
    ),
    "plan_operator_ns": MetricInfo("operator time", "breakdown", "query"),
    "plan_run_duration_ns": MetricInfo("time of the second execution", "breakdown", "query"),
}
#: TPC's fair use: what was not audited carries neither its names nor its metrics.
_WORKLOADS = {"tpch": "TPC-H-derived", "tpcc": "TPC-C-derived", "ycsb": "YCSB"}


def metric_info(quantity: Quantity, better: Better) -> MetricInfo:
    """What is known of a metric, or what its labels and direction suggest."""
    if quantity.name in _METRICS:
        return _METRICS[quantity.name]
    title = quantity.name.replace("_", " ")
    axis = quantity.labels[0][0] if quantity.labels else None
    if quantity.name.startswith("query_") or better == "none":
        return MetricInfo(title, "counter", axis)
    return MetricInfo(title, "detail" if quantity.labels else "headline", axis)


def headline_first(quantities: Iterable[Quantity]) -> list[Quantity]:
    """Headlines in the order of the table above, others behind in the order given."""
    known = list(_METRICS)
    return sorted(quantities, key=lambda q: known.index(q.name) if q.name in known else len(known))


def workload_title(workload: str) -> str:
    """``TPC-H-derived`` for ``tpch``."""
    return _WORKLOADS.get(workload, workload)
