"""Times per query as bars on a log axis, the arms beside one another (VLDB 2023, Fig. 2)."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from reports.charts.drawing import (
    FAINT,
    INK,
    Drawing,
    arm_style,
    bar_places,
    columns,
    finish,
    panel_title,
    query_figure,
    style,
)
from reports.formatting import quantity_text
from reports.published import PublishedSeries
from reports.series import Arm, Panel
from reports.values import Quantity, Summary, in_order

#: The room that ticks and the axis's name take below the axes, of the axes' height.
_BELOW = -0.16


def bars_on_log_axis(
    panel: Panel, metric: str, title: str, name: str, published: Sequence[PublishedSeries] = ()
) -> Drawing | None:
    """One group of bars for each label set; None where the metric has no positive value.

    Bars: medians; whiskers: range of the repeats. ``published``: the paper's points for
    this panel, drawn as hollow diamonds.
    """
    summaries = [arm.summaries(metric) for arm in panel.arms]
    limits = [arm.limits(metric) for arm in panel.arms]
    positive = [s.low for one in (*summaries, *limits) for s in one.values() if s.low > 0]
    if not positive or not any(summaries):
        return None
    quantities = in_order({q for one in (*summaries, *limits) for q in one})
    unit = next(m.unit for a in panel.arms for q, m in a.kinds().items() if q.name == metric)
    published = [series for series in published if series.base_unit == unit]
    with style():
        figure = query_figure(len(quantities), len(panel.arms))
        axes = figure.add_subplot()
        for index, (arm, held) in enumerate(zip(panel.arms, summaries, strict=True)):
            _draw_arm(axes, index, len(panel.arms), arm, quantities, held)
        _draw_limits(axes, quantities, limits)
        _draw_published(axes, quantities, published)
        _dress(axes, panel, quantities, min(positive), unit, title)
        alt = _alt(panel, title, quantities, summaries, unit)
        heading = f"{title}: {panel.title}"
        percentiles = any(q.label("percentile") for q in quantities)
        caption = _caption(panel, published, any(limits), percentiles)
        return finish(figure, name, heading, alt, caption)


def _draw_arm(
    axes: Axes,
    index: int,
    arms: int,
    arm: Arm,
    quantities: Sequence[Quantity],
    held: dict[Quantity, Summary],
) -> None:
    places, width = bar_places(index, arms, len(quantities))
    present = [(x, held[q]) for x, q in zip(places, quantities, strict=True) if q in held]
    at = [x for x, _ in present]
    medians = [summary.median for _, summary in present]
    ranges = [[s.median - s.low for _, s in present], [s.high - s.median for _, s in present]]
    axes.bar(
        at, medians, width * 0.94, label=arm.marked_name, **arm_style(index, bool(arm.emulated))
    )
    axes.errorbar(at, medians, yerr=ranges, fmt="none", ecolor=INK, elinewidth=0.9, capsize=1.6)


def _draw_limits(
    axes: Axes, quantities: Sequence[Quantity], limits: Sequence[dict[Quantity, Summary]]
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
            label="reached its time limit",
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
            label=f"{series.arm} as published",
        )


def _dress(
    axes: Axes, panel: Panel, quantities: Sequence[Quantity], lowest: float, unit: str, title: str
) -> None:
    axes.set_yscale("log")
    axes.set_ylim(bottom=lowest / 2)
    low, high = axes.get_ylim()
    subs = (1.0, 2.0, 5.0) if high / low < 300 else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity_text(value, unit)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(visible=False, axis="x")
    axes.set_xlim(-0.6, len(quantities) - 0.4)
    below = _label_groups(axes, quantities)
    axes.set_ylabel(f"{title}, log axis")
    panel_title(axes, panel)
    ncols = columns(axes, axes.get_legend_handles_labels()[1], 3)
    axes.legend(loc="upper left", bbox_to_anchor=(0, below), ncols=ncols, borderaxespad=0)


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
    shared: dict[str, list[int]] = {}
    for place, quantity in enumerate(quantities):
        shared.setdefault(quantity.labels[0][1], []).append(place)
    for value, places in shared.items():
        middle, text = sum(places) / len(places), value.replace("_", " ")
        axes.text(middle, _BELOW, text, transform=axes.get_xaxis_transform(), ha="center", va="top")
        if places[0]:
            axes.axvline(places[0] - 0.5, color=FAINT, linewidth=0.6)
    return 1.5 * _BELOW


def _alt(
    panel: Panel,
    title: str,
    quantities: Sequence[Quantity],
    summaries: Sequence[dict[Quantity, Summary]],
    unit: str,
) -> str:
    said = []
    for arm, held in zip(panel.arms, summaries, strict=True):
        if held:
            medians = [summary.median for summary in held.values()]
            low, high = (quantity_text(v, unit) for v in (min(medians), max(medians)))
            said.append(f"{arm.marked_name} from {low} to {high}")
    return (
        f"Bars on a log axis, {title} of {panel.title}, {len(quantities)} groups: "
        f"{'; '.join(said)}. The table has every value."
    )


def _caption(
    panel: Panel, published: Sequence[PublishedSeries], limited: bool, percentiles: bool
) -> str:
    repeats = sorted({len(arm.usable) for arm in panel.arms if arm.usable})
    noun = "repeat" if repeats == [1] else "repeats"
    held = "Percentiles: medians" if percentiles else "Medians"
    text = (
        f"{held} of {' to '.join(str(n) for n in repeats)} {noun}; whiskers are their range. "
        "The axis is logarithmic: compare where bars end, not how long they are."
    )
    if limited:
        text += " A triangle is a time limit that was reached, not a time."
    if published:
        text += " Hollow markers are the paper's, read off its figure: another machine."
    return text
