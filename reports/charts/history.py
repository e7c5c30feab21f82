"""An experiment's executions over time: medians with ranges, and where they change."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from statistics import median

from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from reports.charts.drawing import ARM_COLOURS, FAINT, INK, finish, new_figure, style, title_above
from reports.formatting import quantity_text
from reports.history import History
from reports.sections import Drawing

#: Executions with a date below them.
_MOST_DATES = 7
_CAPTION = (
    "Executions in their order: medians, with the range of the repeats. Lines: median of the "
    "executions between change points, which are dashed."
)


def draw_history(history: History, name: str) -> Drawing | None:
    """Draw the headline of each execution; None where fewer than three have a value."""
    places = [at for at, execution in enumerate(history.executions) if execution.summary]
    summaries = [execution.summary for execution in history.executions if execution.summary]
    if len(places) < 3:
        return None
    medians = dict(zip(places, (summary.median for summary in summaries), strict=True))
    with style():
        figure = new_figure(7.6, 3.0)
        axes = figure.add_subplot()
        ends = ([s.median - s.low for s in summaries], [s.high - s.median for s in summaries])
        axes.errorbar(
            places, list(medians.values()), yerr=ends, fmt="o", color=ARM_COLOURS[0],
            ecolor=FAINT, markersize=4, elinewidth=0.9, capsize=1.6,
        )  # fmt: skip
        changes = [change.at for change in history.change_points]
        for at in changes:
            axes.axvline(at - 0.5, color=INK, linestyle="--", linewidth=1)
        for begin, end in pairwise((0, *changes, len(history.executions))):
            level = median(medians[at] for at in range(begin, end) if at in medians)
            axes.hlines(level, begin - 0.5, end - 0.5, color=INK, linewidth=0.8)
        shown = places[:: -(-len(places) // _MOST_DATES)]
        axes.xaxis.set_major_locator(FixedLocator([float(at) for at in shown]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: _date(history, int(at))))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(
            FuncFormatter(lambda value, _: quantity_text(value, history.unit))
        )
        axes.set_ylim(0, 1.1 * max(summary.high for summary in summaries))
        axes.set_ylabel(history.metric)
        title_above(axes, history.title)
        title = f"History of {history.metric}: {history.title}"
        return finish(figure, name, title, _alt(history), _CAPTION)


def _date(history: History, at: int) -> str:
    began = history.executions[at].runs[0].result.started_unix_ns
    return datetime.fromtimestamp(began / 1e9, tz=UTC).strftime("%Y-%m-%d")


def _alt(history: History) -> str:
    dates = ", ".join(_date(history, change.at) for change in history.change_points)
    changes = f"change points: {dates}" if dates else "no change point"
    return f"{history.metric} of {len(history.executions)} executions; {changes}"
