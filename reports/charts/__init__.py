"""Charts of a report: one small function each, chosen by metric name.

A workload with its own picture adds a line to ``KINDS``; every metric that has none
gets bars where it has labels, and stands in the table where it has not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reports.charts.bars import bars_on_log_axis, rate_bars
from reports.charts.forest import speedups
from reports.charts.stacked import (
    memory_bandwidth,
    operation_waits,
    operator_times,
    query_waits,
    tier_bytes,
    working_set,
)
from reports.metric_registry import metric_info
from reports.published import PublishedSeries
from reports.sections import Drawing
from reports.series import Panel

#: Draws one metric of one panel, with its title, under a name; None where it has nothing to show.
Draw = Callable[[Panel, str, str, str], Drawing | None]


@dataclass(frozen=True)
class ChartKind:
    """A metric and what draws it.

    ``takes_published``: the drawing takes the paper's points too. ``why``: it explains
    the results rather than being one.
    """

    metric: str
    stem: str
    draw: Draw
    takes_published: bool = False
    why: bool = False


KINDS = (
    ChartKind("new_orders_per_minute", "rate", rate_bars),
    ChartKind("operations_per_second", "rate", rate_bars),
    ChartKind("query_duration_ns", "times", bars_on_log_axis, takes_published=True),
    ChartKind("query_duration_ns", "speedups", speedups),
    ChartKind("wait_ns", "waits", operation_waits, why=True),
    ChartKind("query_wait_ns", "waits", query_waits, why=True),
    ChartKind("plan_operator_ns", "operators", operator_times, why=True),
    ChartKind("query_tier_read_bytes", "tiers", tier_bytes, why=True),
    ChartKind("query_working_set_bytes", "working-set", working_set, why=True),
    ChartKind("query_dram_read_bytes_per_s", "bandwidth", memory_bandwidth, why=True),
)


def draw_panel(
    panel: Panel, number: int, published: Sequence[PublishedSeries], why: bool
) -> list[Drawing]:
    """The charts of a panel's results, or of what explains them (``why``).

    In the order of ``KINDS``, then the others.
    """
    kinds = [kind for kind in (*KINDS, *_others(panel)) if kind.why == why]
    drawn = []
    for kind in kinds:
        title = next(
            (_title(panel, q.name) for a in panel.arms for q in a.kinds() if q.name == kind.metric),
            kind.metric,
        )
        name = f"{number}-{_slug(panel.title)}-{kind.stem}"
        if kind.takes_published:
            own = [
                one
                for one in published
                if one.engine == panel.engine_name and one.metric == kind.metric
            ]
            drawing = bars_on_log_axis(panel, kind.metric, title, name, own)
        else:
            drawing = kind.draw(panel, kind.metric, title, name)
        if drawing:
            drawn.append(drawing)
    return drawn


def _others(panel: Panel) -> list[ChartKind]:
    """Bars and speed-ups for labelled results that no kind names."""
    known = {kind.metric for kind in KINDS}
    found = {
        quantity.name: None
        for arm in panel.arms
        for quantity, one in arm.kinds().items()
        if quantity.name not in known
        and quantity.labels
        and metric_info(quantity, one.better).role == "detail"
    }
    return [
        ChartKind(metric, f"{metric.replace('_', '-')}{suffix}", draw)
        for metric in found
        for suffix, draw in (("", bars_on_log_axis), ("-speedups", speedups))
    ]


def _title(panel: Panel, metric: str) -> str:
    quantity, one = next(
        (q, m) for arm in panel.arms for q, m in arm.kinds().items() if q.name == metric
    )
    return metric_info(quantity, one.better).title


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]
