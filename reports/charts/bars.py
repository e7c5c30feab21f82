"""Bars: times by query on a log axis (VLDB 2023, Fig. 2), and rates from zero."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from harness.sequences import grouped
from reports.arm import Arm
from reports.charts.drawing import (
    FAINT,
    INK,
    arm_style,
    bar_places,
    columns,
    finish,
    heading_above,
    new_figure,
    new_grid,
    panel_title,
    query_figure,
    style,
)
from reports.formatting import quantity_text, significant
from reports.published import PublishedSeries
from reports.sections import Drawing
from reports.series import Panel
from reports.values import Point, Quantity, Summary, in_order

#: The room that ticks and the axis's name take below the axes, of the axes' height.
_BELOW = -0.16
#: In legends.
_AT_LIMIT, _PUBLISHED = "reached its time limit", " as published"
#: What the metrics of work alone begin with.
_ALONE = "alone_"


def bars_on_log_axis(
    panel: Panel, metric: str, title: str, name: str, published: Sequence[PublishedSeries] = ()
) -> Drawing | None:
    """One group of bars for each label set; None where the metric has no positive value.

    Bars: medians; whiskers: range of the repeats. ``published``: the paper's points for
    this panel, drawn as hollow diamonds.
    """
    points = [arm.of_metric(metric) for arm in panel.arms]
    limits = [arm.limits(metric) for arm in panel.arms]
    lowest = [min(p.samples) for of_arm in (*points, *limits) for p in of_arm.values()]
    positive = [value for value in lowest if value > 0]
    if not positive or not any(points):
        return None
    quantities = in_order({q for of_arm in (*points, *limits) for q in of_arm})
    unit = next(p.unit for of_arm in points for p in of_arm.values())
    published = [series for series in published if series.base_unit == unit]
    with style():
        figure = query_figure(len(quantities), len(panel.arms))
        axes = figure.add_subplot()
        for index, (arm, of_arm) in enumerate(zip(panel.arms, points, strict=True)):
            at, width = bar_places(index, len(panel.arms), len(quantities))
            places = [x for x, q in zip(at, quantities, strict=True) if q in of_arm]
            values = [of_arm[q].summary for q in quantities if q in of_arm]
            _draw_arm(axes, (places, width * 0.94), index, arm, values)
        _draw_limits(axes, quantities, limits)
        _draw_published(axes, quantities, published)
        _dress(axes, min(positive), unit)
        axes.set_ylabel(f"{title}, log axis")
        below = _label_groups(axes, quantities)
        return _finished(axes, panel, name, title, len(quantities), below)


def _draw_arm(
    axes: Axes,
    places: tuple[Sequence[float], float],
    index: int,
    arm: Arm,
    values: Sequence[Summary],
) -> None:
    """``places``: where its bars are, and their width."""
    at, width = places
    medians = [summary.median for summary in values]
    ranges = [[s.median - s.low for s in values], [s.high - s.median for s in values]]
    axes.bar(at, medians, width, label=arm.marked_name, **arm_style(index, bool(arm.emulated)))
    axes.errorbar(at, medians, yerr=ranges, fmt="none", ecolor=INK, elinewidth=0.9, capsize=1.6)


def _draw_limits(
    axes: Axes, quantities: Sequence[Quantity], limits: Sequence[dict[Quantity, Point]]
) -> None:
    """An upward triangle at the limit of every arm that reached it: the time is beyond."""
    points = [
        (x, reached[q].median)
        for index, reached in enumerate(limits)
        for x, q in zip(bar_places(index, len(limits), len(quantities))[0], quantities, strict=True)
        if q in reached
    ]
    if points:
        axes.plot(
            *zip(*points, strict=True),
            "^",
            mfc="white",
            mec=INK,
            ms=6,
            linestyle="none",
            label=_AT_LIMIT,
        )


def _draw_published(
    axes: Axes, quantities: Sequence[Quantity], published: Sequence[PublishedSeries]
) -> None:
    places = {q.labels[0][1] if q.labels else "": i for i, q in enumerate(quantities)}
    for series, marker in zip(published, "Ds^vo", strict=False):
        points = [p for p in series.points if p.x in places]
        axes.errorbar(
            [places[p.x] for p in points],
            [p.y_base for p in points],
            yerr=[p.error_base for p in points],
            fmt=marker,
            mfc="none",
            mec=INK,
            ecolor=FAINT,
            ms=5,
            label=f"{series.arm}{_PUBLISHED}",
        )


def _dress(axes: Axes, lowest: float, unit: str) -> None:
    axes.set_yscale("log")
    axes.set_ylim(bottom=lowest / 2)
    low, high = axes.get_ylim()
    subs = (1.0, 2.0, 5.0) if high / low < 300 else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity_text(value, unit)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _label_groups(axes: Axes, quantities: Sequence[Quantity]) -> float:
    """Name the groups of bars; returns where, below the axes, there is room again.

    Groups of two labels (a transaction, a percentile) have the second below them, and the
    first below all that share it.
    """
    names = [name for name, _ in quantities[0].labels]
    if len(names) != 2:
        texts = ["\n".join(value for _, value in q.labels) for q in quantities]
        axes.set_xticks(range(len(quantities)), texts)
        axes.set_xlabel(names[0] if names else "")
        return _BELOW
    short = names[1] == "percentile"
    axes.set_xticks(
        range(len(quantities)), [f"{'p' if short else ''}{q.labels[1][1]}" for q in quantities]
    )
    axes.set_xlabel("" if short else names[1])
    shared = grouped((quantity.labels[0][1], place) for place, quantity in enumerate(quantities))
    for value, places in shared.items():
        middle, text = sum(places) / len(places), value.replace("_", " ")
        axes.text(middle, _BELOW, text, transform=axes.get_xaxis_transform(), ha="center", va="top")
        if places[0]:
            axes.axvline(places[0] - 0.5, color=FAINT, linewidth=0.6)
    return 1.5 * _BELOW


def _caption(axes: Axes, labels: Sequence[str]) -> str:
    """Return what must be known to read this chart; ``labels``: of its legend."""
    text = "Medians of the repeats; whiskers are their range."
    if axes.get_yscale() == "log":
        text += " The axis is logarithmic: compare where bars end, not how long they are."
    if _AT_LIMIT in labels:
        text += " A triangle is a time limit that was reached, not a time."
    if any(label.endswith(_PUBLISHED) for label in labels):
        text += " Hollow markers are a paper's, of another machine."
    return text


def rate_bars(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """One rate of a run as a bar for each arm, from zero; None where no arm has the metric."""
    return bars_from_zero(panel, Quantity(metric), title, name)


def bars_from_zero(panel: Panel, quantity: Quantity, title: str, name: str) -> Drawing | None:
    """One quantity as a bar for each arm, from zero; None where no arm has it."""
    points = [arm.point(quantity) for arm in panel.arms]
    unit = next((point.unit for point in points if point), None)
    if unit is None:
        return None
    with style():
        figure = new_figure(max(4.6, 1.6 + 0.9 * len(panel.arms)), 3.6)
        axes = figure.add_subplot()
        for index, (arm, point) in enumerate(zip(panel.arms, points, strict=True)):
            if point:
                _draw_arm(axes, ([index], 0.7), index, arm, [point.summary])
        axes.set_ylim(bottom=0)
        axes.set_xticks([])
        axes.yaxis.set_major_locator(MaxNLocator(6))
        axes.yaxis.set_major_formatter(
            FuncFormatter(
                lambda value, _: (
                    quantity_text(value, unit)
                    if unit == "ns"
                    else significant(value).removesuffix(".0")
                )
            )
        )
        axes.set_ylabel(title.replace(", ", "\n"))
        return _finished(axes, panel, name, title, len(panel.arms), -0.04)


def rates_together(panel: Panel, metric: str, title: str, name: str) -> Drawing | None:
    """All rates of work that is measured together and alone, side by side, from zero.

    ``metric``: one of them; the others begin with its first word, too, and each has a metric that
    begins with ``alone`` in its place.
    """
    prefix = f"{metric.partition('_')[0]}_"
    names = dict.fromkeys(q.name for arm in panel.arms for q in arm.points if not q.labels)
    rates = [
        (rate, alone)
        for rate in names
        if rate.startswith(prefix) and (alone := f"{_ALONE}{rate.removeprefix(prefix)}") in names
    ]
    if not rates:
        return None
    with style():
        figure, places = new_grid(len(rates), max(3.6, 1.4 + 0.8 * len(panel.arms)), 3.4)
        for axes, of_rate in zip(places, rates, strict=True):
            for index, arm in enumerate(panel.arms):
                at, width = bar_places(index, len(panel.arms), len(of_rate))
                points = [arm.point(Quantity(rate)) for rate in of_rate]
                shown = [(x, p.summary) for x, p in zip(at, points, strict=True) if p]
                bars = [x for x, _ in shown], width * 0.94
                _draw_arm(axes, bars, index, arm, [summary for _, summary in shown])
            axes.set_ylim(bottom=0)
            axes.set_xlim(-0.6, len(of_rate) - 0.4)
            axes.set_xticks(range(len(of_rate)), [prefix.rstrip("_"), _ALONE.rstrip("_")])
            axes.yaxis.set_major_locator(MaxNLocator(6))
            axes.yaxis.set_major_formatter(
                FuncFormatter(lambda value, _: significant(value).removesuffix(".0"))
            )
            axes.grid(visible=False, axis="x")
            axes.set_title(of_rate[0].removeprefix(prefix).replace("_", " "), loc="left")
        places[0].legend(
            loc="upper left",
            bbox_to_anchor=(0, -0.1),
            ncols=columns(places[0], [arm.marked_name for arm in panel.arms], 3),
            borderaxespad=0,
        )
        heading = f"Rates together and alone: {panel.title}"
        heading_above(figure, heading)
        return finish(figure, name, heading, heading, _caption(places[0], ()))


def _finished(
    axes: Axes, panel: Panel, name: str, title: str, groups: int, below: float
) -> Drawing:
    """With title and legend; ``below``: where the legend is."""
    axes.set_xlim(-0.6, groups - 0.4)
    axes.grid(visible=False, axis="x")
    panel_title(axes, panel)
    labels = axes.get_legend_handles_labels()[1]
    ncols = columns(axes, labels, 3)
    axes.legend(loc="upper left", bbox_to_anchor=(0, below), ncols=ncols, borderaxespad=0)
    heading = f"{title}: {panel.title}"
    figure = axes.get_figure(root=True)
    assert figure is not None
    return finish(figure, name, heading, heading, _caption(axes, labels))
