"""A paper's numbers beside what was measured here, as a table: another machine's, for context."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

from reports.published import PublishedPoint, PublishedSeries
from reports.series import Arm, Panel
from reports.sweeps import OVER, RATIO, Line, Sweep
from reports.values import Quantity
from reports.words import quantity_text, significant

_LABELLED = re.compile(r"([a-z0-9_]+)\[([a-z_]+)=([a-z0-9_]+)\]")


@dataclass(frozen=True)
class PublishedRow:
    """One published number; ``measured`` is a dash where nothing here is the same quantity."""

    figure: str
    series: str
    x: str
    metric: str
    published: str
    measured: str

    @property
    def row(self) -> tuple[str, ...]:
        """Its cells in the order of the fields."""
        return astuple(self)


#: What the cells of a row are.
PUBLISHED_HEAD = ("figure", "engine and placement", "point", "metric", "published", "measured here")


def published_rows(
    panels: Sequence[Panel], sweeps: Sequence[Sweep], published: Sequence[PublishedSeries]
) -> Iterator[PublishedRow]:
    """Every point of the series, with the median of the arm that has its name."""
    for series in published:
        for point in series.points:
            unit = series.base_unit
            error = f" ± {_printed(point.error_base, unit)}" if point.error_base else ""
            yield PublishedRow(
                series.figure,
                f"{series.engine}/{series.arm}",
                point.x,
                series.metric,
                _printed(point.y_base, unit) + error,
                "; ".join([*_measured(panels, series, point), *_swept(sweeps, series, point)])
                or "–",
            )


def _printed(value: float, unit: str) -> str:
    """With every digit that was printed: rates have four or five, ratios two."""
    if unit == "ratio":
        return f"{value:g}"
    return f"{value:,.0f} {unit}" if unit == "1/min" else quantity_text(value, unit)


def _measured(
    panels: Sequence[Panel], series: PublishedSeries, point: PublishedPoint
) -> Iterator[str]:
    for panel in panels:
        if panel.engine_name != series.engine:
            continue
        arms = {arm.value: arm for arm in reversed(panel.arms)}
        first, over, second = series.arm.partition(OVER)
        if over and first in arms and second in arms:
            yield from _ratio(arms[first], arms[second], series.metric, point)
        elif first in arms and not over:
            found = arms[first].summaries(series.metric.partition("[")[0])
            summary = found.get(_quantity(series.metric, point.x))
            if summary is not None:
                mark = " (EMULATED)" if arms[first].emulated else ""
                yield quantity_text(summary.median, series.base_unit) + mark


def _swept(
    sweeps: Sequence[Sweep], series: PublishedSeries, point: PublishedPoint
) -> Iterator[str]:
    """The medians, or ratios of them, where the parameter of a sweep is that of the point."""
    if not point.x.isdigit():
        return
    value = int(point.x)
    for sweep in sweeps:
        if series.engine != sweep.engine:
            continue
        first, over, second = series.arm.partition(OVER)
        if not over and series.metric == sweep.metric:
            for line in sweep.meant_by(first):
                if value in line.points:
                    yield quantity_text(line.points[value].median, sweep.unit) + _mark(line)
        elif over and series.metric == sweep.metric + RATIO:
            for a, b, below in _compared(sweep, first, second, value):
                if value in a.points and below in b.points and b.points[below].median:
                    ratio = a.points[value].median / b.points[below].median
                    yield significant(ratio) + (_mark(a) or _mark(b))


def _compared(
    sweep: Sweep, first: str, second: str, value: int
) -> Iterator[tuple[Line, Line, int]]:
    """Both lines of a paper's ratio, and at which value of the parameter the second is read.

    ``pmem-both over ssd-both`` are two arms at the same value; ``pmem-both over threadcount=16``
    is one arm at two values.
    """
    parameter, _, other = second.partition("=")
    if parameter == sweep.parameter and other.isdigit():
        yield from ((line, line, int(other)) for line in sweep.meant_by(first))
    else:
        over, under = (sweep.meant_by(arm) for arm in (first, second))
        yield from ((a, b, value) for a in over for b in under)


def _mark(line: Line) -> str:
    return " (EMULATED)" if line.emulated else ""


def _quantity(metric: str, query: str) -> Quantity:
    """What a point of the paper is called here: the query is its label."""
    match = _LABELLED.fullmatch(metric)
    if match is None:
        return Quantity(metric, (("query", query),))
    name, label, value = match.groups()
    return Quantity(name, tuple(sorted({"query": query, label: value}.items())))


def _ratio(a: Arm, b: Arm, metric: str, point: PublishedPoint) -> Iterator[str]:
    """Ratio of the two arms' query times where this share (in percent) of the rows is selected."""
    if metric != "query_duration_ratio":
        return
    shares = a.summaries("query_selected_fraction")
    times_a, times_b = (arm.summaries("query_duration_ns") for arm in (a, b))
    for quantity, share in shares.items():
        timed = Quantity("query_duration_ns", quantity.labels)
        # The paper's percentages are cut, not rounded: its 45 is 45.6.
        if str(int(100 * share.median + 1e-6)) == point.x and timed in times_a and timed in times_b:
            mark = " (EMULATED)" if a.emulated or b.emulated else ""
            yield f"{significant(times_a[timed].median / times_b[timed].median)}{mark}"
