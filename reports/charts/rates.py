"""One rate of a run as a bar for each arm, from zero (New-Orders per minute by placement)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from reports.charts.drawing import (
    INK,
    Drawing,
    arm_style,
    columns,
    finish,
    new_figure,
    panel_title,
    style,
)
from reports.formatting import quantity_text, significant
from reports.series import Arm, Panel
from reports.values import Quantity, Summary


def rate_bars(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """Medians with the range of the repeats; None where no arm has the metric."""
    quantity = Quantity(metric)
    held = {i: arm.summaries(metric).get(quantity) for i, arm in enumerate(panel.arms)}
    present = {index: summary for index, summary in held.items() if summary is not None}
    if not present:
        return None
    with style():
        figure = new_figure(max(4.6, 1.6 + 0.9 * len(panel.arms)), 3.6)
        axes = figure.add_subplot()
        for index, summary in present.items():
            _draw(axes, index, panel.arms[index], summary)
        _dress(axes, panel, title)
        heading = f"{title}: {panel.title}"
        alt = _alt(panel, title, present, _unit(panel, quantity))
        return finish(figure, name, heading, alt, _caption(present.values()))


def _unit(panel: Panel, quantity: Quantity) -> str:
    return next(a.kinds()[quantity].unit for a in panel.arms if quantity in a.kinds())


def _draw(axes: Axes, index: int, arm: Arm, summary: Summary) -> None:
    axes.bar(
        [index],
        [summary.median],
        0.7,
        label=arm.marked_name,
        **arm_style(index, bool(arm.emulated)),
    )
    spread = [[summary.median - summary.low], [summary.high - summary.median]]
    axes.errorbar(
        [index], [summary.median], yerr=spread, fmt="none", ecolor=INK, elinewidth=0.9, capsize=3
    )


def _dress(axes: Axes, panel: Panel, title: str) -> None:
    axes.set_ylim(bottom=0)
    axes.set_xlim(-0.6, len(panel.arms) - 0.4)
    axes.set_xticks([])
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: significant(v).removesuffix(".0")))
    axes.grid(visible=False, axis="x")
    axes.set_ylabel(title.replace(", ", "\n"))
    panel_title(axes, panel)
    ncols = columns(axes, axes.get_legend_handles_labels()[1], 3)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.04), ncols=ncols, borderaxespad=0)


def _alt(panel: Panel, title: str, present: Mapping[int, Summary], unit: str) -> str:
    said = [
        f"{panel.arms[index].marked_name} {quantity_text(summary.median, unit)}"
        for index, summary in present.items()
    ]
    return f"Bars from zero, {title} of {panel.title}: {'; '.join(said)}. The table has them too."


def _caption(present: Iterable[Summary]) -> str:
    repeats = sorted({summary.n for summary in present})
    noun = "repeat" if repeats == [1] else "repeats"
    return f"Medians of {' to '.join(map(str, repeats))} {noun}; whiskers are their range."
