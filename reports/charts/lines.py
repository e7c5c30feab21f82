"""A result over a parameter as lines, values on a log axis (VLDB 2023, Fig. 4 to 12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from reports.charts.drawing import (
    ARM_COLOURS,
    FAINT,
    Drawing,
    columns,
    finish,
    heading_above,
    new_figure,
    style,
)
from reports.formatting import EMULATED, quantity_text, significant
from reports.published import PublishedSeries, published_points
from reports.sweeps import Line, Sweep

#: More lines than these cannot be told apart: the table has them.
_MOST_LINES = 12
#: So many places stand in a row.
_ACROSS = 3
_ALONE_IN, _EACH_IN, _HIGH_IN = 8.4, 3.7, 3.6
#: What a row of the legend takes.
_ROW_IN = 0.22
_MARKERS = "osD^vP"
_DASHES = ("-", "--", ":", "-.")


def lines_over_parameter(
    sweeps: Sequence[Sweep], name: str, published: Sequence[PublishedSeries] = ()
) -> Drawing | None:
    """None where there are more lines than can be told apart; a single point is no line.

    ``sweeps``: of one quantity, side by side in the order given, the axis of values shared.
    Full markers: medians, with the range of the repeats; hollow ones: emulated; crosses on
    dotted lines: the paper's.
    """
    drawn = [
        replace(one, lines=tuple(line for line in one.lines if len(line.points) > 1))
        for one in sweeps
    ]
    if len({line.name for sweep in drawn for line in sweep.lines}) > _MOST_LINES:
        return None
    left_out = any(len(one.lines) > len(two.lines) for one, two in zip(sweeps, drawn, strict=True))
    first, sweeps = drawn[0], drawn
    with style():
        across = min(_ACROSS, len(sweeps))
        down = -(-len(sweeps) // across)
        width = _ALONE_IN if across == 1 else 1.0 + _EACH_IN * across
        figure = new_figure(width, 0.9 + _HIGH_IN * down)
        held = figure.subplots(down, across, sharey=True, squeeze=False)
        places = [axes for row in held for axes in row]
        looks = _Looks(sweeps)
        paper = False
        for sweep, axes in zip(sweeps, places, strict=False):
            paper |= _draw_sweep(axes, sweep, looks, published)
        for axes in places[len(sweeps) :]:
            axes.set_visible(False)
        places[0].set_ylabel(f"{first.measure}\n{_unit(first)}log axis")
        emulated = {line.arm: None for s in sweeps for line in s.lines if line.emulated}
        mark = f" · {', '.join(emulated)} {EMULATED}" if emulated else ""
        heading_above(figure, first.title + mark)
        _legend(figure, places)
        title = f"{first.measure} over {first.over}: {first.title}"
        return finish(figure, name, title, _alt(sweeps), _caption(sweeps, paper, left_out))


class _Looks:
    """Colour by arm; dash and marker by whatever else tells a line from others."""

    def __init__(self, sweeps: Sequence[Sweep]) -> None:
        lines = [line for sweep in sweeps for line in sweep.lines]
        self._arms = list(dict.fromkeys(line.arm for line in lines))
        self._kinds = list(dict.fromkeys(_kind(line) for line in lines))

    def colour(self, line: Line) -> str:
        return ARM_COLOURS[self._arms.index(line.arm) % len(ARM_COLOURS)]

    def dash(self, line: Line) -> str:
        return _DASHES[self._kinds.index(_kind(line)) % len(_DASHES)]

    def marker(self, line: Line) -> str:
        place = self._arms.index(line.arm) + self._kinds.index(_kind(line))
        return _MARKERS[place % len(_MARKERS)]


def _kind(line: Line) -> str:
    return line.name.removeprefix(line.arm)


def _unit(sweep: Sweep) -> str:
    return "" if sweep.unit == "ns" else f"{sweep.unit}, "


def _draw_sweep(
    axes: Axes, sweep: Sweep, looks: _Looks, published: Sequence[PublishedSeries]
) -> bool:
    """One place's lines; whether a paper's are among them."""
    beside = list(published_points(sweep, published))
    for line in sweep.lines:
        _draw(axes, line, looks)
    for line, series in beside:
        _draw_published(axes, line, series, looks.colour(line))
    beyond = {int(p.x) for _, series in beside for p in series.points if p.x.isdigit()}
    _dress(axes, sweep, sorted({*sweep.values, *beyond}))
    return bool(beside)


def _draw(axes: Axes, line: Line, looks: _Looks) -> None:
    at, held = list(line.points), list(line.points.values())
    medians = [summary.median for summary in held]
    ranges = [[s.median - s.low for s in held], [s.high - s.median for s in held]]
    colour = looks.colour(line)
    axes.errorbar(
        at,
        medians,
        yerr=ranges,
        color=colour,
        linestyle=looks.dash(line),
        marker=looks.marker(line),
        mfc="white" if line.emulated else colour,
        ms=5.5,
        linewidth=1.5,
        elinewidth=0.9,
        capsize=2,
        label=line.marked_name,
    )


def _draw_published(axes: Axes, line: Line, series: PublishedSeries, colour: str) -> None:
    points = [(int(p.x), p) for p in series.points if p.x.isdigit()]
    axes.errorbar(
        [x for x, _ in points],
        [p.y_base for _, p in points],
        yerr=[p.error_base for _, p in points],
        color=colour,
        linestyle=":",
        linewidth=0.8,
        marker="x",
        ms=6,
        ecolor=FAINT,
        label=f"{series.figure}: {line.name} as published",
    )


def _dress(axes: Axes, sweep: Sweep, values: Sequence[int]) -> None:
    if not sweep.per_cent:
        axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    low, high = axes.get_ylim()
    subs = (1.0, 2.0, 5.0) if high / low > 3 else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value, sweep.unit)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"{sweep.over}, {'%' if sweep.per_cent else 'log axis'}")
    if sweep.place_name:
        axes.set_title(sweep.place_name, fontsize="medium")


def _tick(value: float, unit: str) -> str:
    return quantity_text(value, unit) if unit == "ns" else significant(value).removesuffix(".0")


def _legend(figure: Figure, places: Sequence[Axes]) -> None:
    """One for all places, below them; each line once."""
    named = {
        label: handle
        for axes in places
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    ncols = columns(places[0], list(named), 3)
    rows = -(-len(named) // ncols)
    figure.set_figheight(figure.get_figheight() + _ROW_IN * rows)
    figure.legend(list(named.values()), list(named), loc="outside lower left", ncols=ncols)


def _alt(sweeps: Sequence[Sweep]) -> str:
    first, said = sweeps[0], []
    for sweep in sweeps:
        for line in sweep.lines:
            ends = [(at, quantity_text(line.points[at].median, sweep.unit)) for at in line.points]
            (low, start), (high, end) = ends[0], ends[-1]
            where = f"{sweep.place_name}: " if sweep.place_name else ""
            said.append(f"{where}{line.marked_name} from {start} at {low} to {end} at {high}")
    return (
        f"Lines, {first.measure} of {first.title} over {first.over}, {_axes(first)}: "
        f"{'; '.join(said)}. The table has every value."
    )


def _axes(sweep: Sweep) -> str:
    return "the axis of values logarithmic" if sweep.per_cent else "both axes logarithmic"


def _caption(sweeps: Sequence[Sweep], published: bool, left_out: bool) -> str:
    lines = [line for sweep in sweeps for line in sweep.lines]
    summaries = [summary for line in lines for summary in line.points.values()]
    repeats = sorted({summary.n for summary in summaries})
    noun = "repeat" if repeats == [1] else "repeats"
    held = "Percentiles: medians" if sweeps[0].one.quantity.label("percentile") else "Medians"
    text = (
        f"{held} of {' to '.join(str(n) for n in repeats)} {noun}, bars are their range; "
        f"{_axes(sweeps[0])}."
    )
    if any(summary.median <= 0 for summary in summaries):
        text += " A value of 0 has no place on them and stands in the table alone."
    if left_out:
        text += " What was measured at one value only stands in the table alone."
    if any(line.emulated for line in lines):
        text += " Hollow markers are emulated."
    if published:
        text += " Crosses on dotted lines are the paper's: another machine, another size."
    return text
