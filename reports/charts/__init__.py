"""Charts of a report: one small function each, which a metric's statement names.

A metric that names none (``harness.metrics``) gets bars where it has labels, and stands in the
table where it has not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from harness.metrics import Chart, metrics
from reports.charts.bars import bars_from_zero, bars_on_log_axis, rate_bars, rates_together
from reports.charts.forest import overview, speedups
from reports.charts.stacked import (
    memory_bandwidth,
    operation_waits,
    operator_times,
    query_waits,
    tier_bytes,
    working_set,
)
from reports.compare import Group
from reports.metric_registry import metric_info
from reports.published import PublishedSeries
from reports.sections import Drawing
from reports.series import Panel
from reports.values import Quantity

#: Draws one metric of one panel, with its title, under a name; None where it has nothing to show.
Draw = Callable[[Panel, str, str, str], Drawing | None]


#: What draws each chart, by the end of its file's name.
CHARTS: Mapping[Chart, Mapping[str, Draw]] = {
    "rates": {"rate": rate_bars},
    "times": {"times": bars_on_log_axis, "speedups": speedups},
    "operation-waits": {"waits": operation_waits},
    "query-waits": {"waits": query_waits},
    "operators": {"operators": operator_times},
    "tiers": {"tiers": tier_bytes},
    "working-set": {"working-set": working_set},
    "bandwidth": {"bandwidth": memory_bandwidth},
    "together": {"together": rates_together},
}
#: Roles of results; what has another one explains them.
_RESULTS = ("headline", "detail", "part")


def draw_headline(panel: Panel, group: Group) -> Iterator[Drawing]:
    """The headline of one comparison of a panel: its speed-up, and the values of both sides."""
    if drawing := overview([(panel.title, group)], f"Speed-up over {group.a.marked_name}"):
        yield drawing
    row, both = group.deciding, replace(panel, arms=(group.a, group.b))
    if row and (drawing := bars_from_zero(both, row.quantity, row.title, "headline")):
        yield drawing


def draw_details(
    panel: Panel, group: Group, published: Sequence[PublishedSeries]
) -> Iterator[Drawing]:
    """The other results of one comparison of a panel."""
    both = replace(panel, arms=(group.a, group.b), groups=(group,))
    return draw_panel(both, 1, published, why=False, drawn=group.headline.quantity)


def draw_panel(
    panel: Panel,
    number: int,
    published: Sequence[PublishedSeries],
    why: bool,
    drawn: Quantity | None = None,
) -> Iterator[Drawing]:
    """The charts of a panel's results, or of what explains them (``why``).

    In the order in which metrics are stated, then of labelled results that name no chart.
    ``published``: a paper's points, which bars show next to those of the same metric.
    ``drawn``: a quantity that has a chart of its own.
    """
    infos = {
        quantity.name: (metric_info(quantity, value.better), bool(quantity.labels))
        for arm in reversed(panel.arms)
        for quantity, value in reversed(arm.points.items())
    }
    charts = [(name, CHARTS[info.chart]) for name, info in metrics().items() if info.chart]
    stated = {metric for metric, _ in charts}
    for metric in dict.fromkeys(q.name for arm in panel.arms for q in arm.points):
        info, labelled = infos[metric]
        if metric not in stated and labelled and info.role == "detail":
            stem = metric.replace("_", "-")
            charts.append((metric, {stem: bars_on_log_axis, f"{stem}-speedups": speedups}))
    for metric, draws in charts:
        if metric not in infos or (infos[metric][0].role not in _RESULTS) != why:
            continue
        if drawn == Quantity(metric):
            continue
        paper_series = [s for s in published if (s.engine, s.metric) == (panel.engine_name, metric)]
        with_published = partial(bars_on_log_axis, published=paper_series)
        for stem, each in draws.items():
            draw = with_published if each is bars_on_log_axis else each
            name = f"{number}-{_slug(panel.title)}-{stem}"
            if drawing := draw(panel, metric, infos[metric][0].title, name):
                yield drawing


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]
