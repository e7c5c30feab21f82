"""Stacked bars of where the time goes by resource: of every query, of a window's mean operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from harness.units import format_ns
from harness.waits import RESOURCES, TOLERANCE
from reports.arm import Arm
from reports.charts.drawing import (
    RESOURCE_STYLES,
    columns,
    finish,
    new_figure,
    panel_title,
    style,
)
from reports.charts.stacked import Part, Stacks, draw_stacks
from reports.formatting import percent
from reports.query_breakdown import MARK, QueryBreakdown
from reports.sections import Drawing
from reports.series import Panel

_TITLE = "Where the time goes, by resource"
_OFF = f"{MARK}: waits and processor time are more than 10 % off the latency."
_BAR_IN, _MARGIN_IN = 0.4, 1.9


def query_waits(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Every query's time on the first arm that has it as 100 %; None without waits."""
    base: dict[str, float] = {}
    for arm in panel.arms:
        for query, parts in _by_query(arm, metric).items():
            base.setdefault(query, sum(parts.values()))

    def share(resource: str) -> Callable[[Arm, QueryBreakdown], float]:
        def value(arm: Arm, one: QueryBreakdown) -> float:
            found = _by_query(arm, metric).get(one.query, {}).get(resource, 0.0)
            return found / base[one.query] if found else 0.0

        return value

    def off(arm: Arm, one: QueryBreakdown) -> bool:
        shares = _by_query(arm, "query_wait_accounted_share").get(one.query, {})
        return any(abs(1 - value) > TOLERANCE for value in shares.values())

    stacked = [
        Part(resource, colour, share(resource), hatch)
        for resource, (colour, hatch) in RESOURCE_STYLES.items()
    ]
    caption = (
        "The query's time, of the first placement as 100 %, by what its sessions waited for in the "
        f"timed execution; parallel sessions are scaled to it. {_OFF}"
    )
    return draw_stacks(panel, Stacks(_TITLE, stacked, percent, caption, off, (1.0,), 3.0), name)


@lru_cache(maxsize=256)
def _by_query(arm: Arm, metric: str) -> Mapping[str, Mapping[str, float]]:
    """query → resource (empty where it has none) → median over the runs."""
    found: dict[str, dict[str, float]] = {}
    for quantity, summary in arm.summaries(metric).items():
        query = quantity.label("query")
        if query is not None:
            found.setdefault(query, {})[quantity.label("resource") or ""] = summary.median
    return found


def operation_waits(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """The mean operation of a window, one bar for each arm; None without waits."""
    bars = [(arm, _by_resource(arm, metric)) for arm in panel.arms]
    resources = [r for r in RESOURCES if any(parts.get(r) for _, parts in bars)]
    if not resources:
        return None
    with style():
        figure = new_figure(7.0, _MARGIN_IN + _BAR_IN * len(bars))
        axes = figure.add_subplot()
        for at, (_, parts) in enumerate(bars):
            left = 0.0
            for resource in resources:
                colour, hatch = RESOURCE_STYLES[resource]
                width = parts.get(resource, 0.0)
                drawn = axes.barh(at, width, 0.7, left=left, color=colour)
                for patch in drawn:
                    patch.set(hatch=hatch, edgecolor="white", linewidth=0.4)
                left += width
        names = [f"{arm.marked_name}{f' {MARK}' if _off(arm) else ''}" for arm, _ in bars]
        axes.set_yticks(range(len(bars)), names)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_ns(value)))
        axes.set_xlabel("mean time of an operation")
        panel_title(axes, panel)
        figure.legend(
            handles=[
                Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=resource)
                for resource in resources
                for colour, hatch in (RESOURCE_STYLES[resource],)
            ],
            loc="outside lower left",
            ncols=columns(axes, resources, 5),
        )
        caption = (
            "The mean operation of the measurement window, by what the sessions waited for; "
            f"medians over the runs. {_OFF}"
        )
        heading = f"{_TITLE}: {panel.title}"
        return finish(figure, name, heading, heading, caption)


def _by_resource(arm: Arm, metric: str) -> dict[str, float]:
    return {q.label("resource") or "": one.median for q, one in arm.summaries(metric).items()}


def _off(arm: Arm) -> bool:
    shares = arm.summaries("wait_accounted_share").values()
    return any(abs(1 - one.median) > TOLERANCE for one in shares)
