"""Charts of a report: one small function each, chosen by metric name.

A workload with its own picture adds a line to ``KINDS``; every metric that has none
gets bars where it has labels, and stands in the table where it has not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

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
    """A metric and what draws it; ``why``: it explains the results rather than being one."""

    metric: str
    stem: str
    draw: Draw
    why: bool = False


KINDS = (
    ChartKind("new_orders_per_minute", "rate", rate_bars),
    ChartKind("operations_per_second", "rate", rate_bars),
    ChartKind("query_duration_ns", "times", bars_on_log_axis),
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
) -> Iterator[Drawing]:
    """The charts of a panel's results, or of what explains them (``why``).

    In the order of ``KINDS``, then bars and speed-ups of labelled results that no kind names.
    ``published``: a paper's points, which bars show next to those of the same metric.
    """
    infos = {
        quantity.name: (metric_info(quantity, one.better), bool(quantity.labels))
        for arm in reversed(panel.arms)
        for quantity, one in reversed(arm.kinds().items())
    }
    named = {kind.metric for kind in KINDS}
    others = [
        ChartKind(metric, f"{metric.replace('_', '-')}{suffix}", draw)
        for metric in dict.fromkeys(q.name for arm in panel.arms for q in arm.kinds())
        if metric not in named and infos[metric][1] and infos[metric][0].role == "detail"
        for suffix, draw in (("", bars_on_log_axis), ("-speedups", speedups))
    ]
    for kind in (*KINDS, *others):
        if kind.why == why and kind.metric in infos:
            title, draw = infos[kind.metric][0].title, kind.draw
            if draw is bars_on_log_axis:
                of_engine = [one for one in published if one.engine == panel.engine_name]
                own = [one for one in of_engine if one.metric == kind.metric]
                draw = partial(bars_on_log_axis, published=own)
            name = f"{number}-{_slug(panel.title)}-{kind.stem}"
            if drawing := draw(panel, kind.metric, title, name):
                yield drawing


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]
