"""A result over a parameter as lines, both axes logarithmic (VLDB 2023, Fig. 5 to 10)."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from harness.reports.charts.drawing import (
    ARM_COLOURS,
    FAINT,
    Drawing,
    columns,
    finish,
    new_figure,
    style,
    title_above,
)
from harness.reports.published import PublishedSeries
from harness.reports.sweeps import Line, Sweep, published_points
from harness.reports.words import EMULATED, quantity_text, significant

#: More lines than these cannot be told apart: the table has them.
_MOST_LINES = 12
_MARKERS = "osD^vP"
_DASHES = ("-", "--", ":", "-.")


def lines_over_parameter(
    sweep: Sweep, title: str, name: str, published: Sequence[PublishedSeries] = ()
) -> Drawing | None:
    """None where there is one value only, or more lines than can be told apart.

    Full markers: medians, with the range of the repeats; hollow ones: emulated; crosses on
    dotted lines: the paper's.
    """
    if len(sweep.values) < 2 or len(sweep.lines) > _MOST_LINES:
        return None
    beside = list(published_points(sweep, published))
    with style():
        figure = new_figure(8.4, 4.4)
        axes = figure.add_subplot()
        arms = list(dict.fromkeys(line.arm for line in sweep.lines))
        kinds = list(dict.fromkeys(tuple(sorted(line.settings.items())) for line in sweep.lines))
        for line in sweep.lines:
            kind = kinds.index(tuple(sorted(line.settings.items())))
            _draw(axes, line, arms.index(line.arm), kind)
        for line, series in beside:
            _draw_published(axes, line, series, arms.index(line.arm))
        beyond = {int(p.x) for _, series in beside for p in series.points if p.x.isdigit()}
        _dress(axes, sweep, title, sorted({*sweep.values, *beyond}))
        heading = f"{title} over {sweep.parameter}: {sweep.title}"
        return finish(figure, name, heading, _alt(sweep, title), _caption(sweep, bool(beside)))


def _draw(axes: Axes, line: Line, arm: int, kind: int) -> None:
    at, held = list(line.points), list(line.points.values())
    medians = [summary.median for summary in held]
    ranges = [[s.median - s.low for s in held], [s.high - s.median for s in held]]
    colour = ARM_COLOURS[arm % len(ARM_COLOURS)]
    axes.errorbar(
        at, medians, yerr=ranges, color=colour, linestyle=_DASHES[kind % len(_DASHES)],
        marker=_MARKERS[(arm + kind) % len(_MARKERS)], mfc="white" if line.emulated else colour,
        ms=5.5, linewidth=1.5, elinewidth=0.9, capsize=2, label=line.marked_name,
    )  # fmt: skip


def _draw_published(axes: Axes, line: Line, series: PublishedSeries, arm: int) -> None:
    points = [(int(p.x), p) for p in series.points if p.x.isdigit()]
    axes.errorbar(
        [x for x, _ in points], [p.y_base for _, p in points],
        yerr=[p.error_base for _, p in points], color=ARM_COLOURS[arm % len(ARM_COLOURS)],
        linestyle=":", linewidth=0.8, marker="x", ms=6, ecolor=FAINT,
        label=f"{series.figure}: {line.name} as published",
    )  # fmt: skip


def _dress(axes: Axes, sweep: Sweep, title: str, values: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    low, high = axes.get_ylim()
    subs = (1.0, 2.0, 5.0) if high / low > 3 else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: significant(v).removesuffix(".0")))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"{sweep.parameter}, log axis")
    axes.set_ylabel(f"{title}\n{sweep.unit}, log axis")
    emulated = dict.fromkeys(line.arm for line in sweep.lines if line.emulated)
    mark = f" · {', '.join(emulated)} {EMULATED}" if emulated else ""
    title_above(axes, sweep.title + mark)
    ncols = columns(axes, axes.get_legend_handles_labels()[1], 3)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.16), ncols=ncols, borderaxespad=0)


def _alt(sweep: Sweep, title: str) -> str:
    said = []
    for line in sweep.lines:
        values = list(line.points)
        ends = [quantity_text(line.points[at].median, sweep.unit) for at in (values[0], values[-1])]
        said.append(
            f"{line.marked_name} from {ends[0]} at {values[0]} to {ends[1]} at {values[-1]}"
        )
    return (
        f"Lines, {title} of {sweep.title} over {sweep.parameter}, both axes logarithmic: "
        f"{'; '.join(said)}. The table has every value."
    )


def _caption(sweep: Sweep, published: bool) -> str:
    repeats = sorted({s.n for line in sweep.lines for s in line.points.values()})
    noun = "repeat" if repeats == [1] else "repeats"
    text = (
        f"Medians of {' to '.join(str(n) for n in repeats)} {noun}, bars are their range. "
        "Both axes are logarithmic."
    )
    if any(line.emulated for line in sweep.lines):
        text += " Hollow markers are emulated."
    if published:
        text += " Crosses on dotted lines are the paper's: another machine, another size."
    return text
