"""A paper's own figures (``published.csv`` next to a profile), to lie next to what was measured.

Columns: figure, series (``engine/arm``), x, y, unit, read_off_error, metric where the
values are no query times, note where a number was not plainly printed, and derived where a
microbenchmark's value is no single metric. The values were printed or read off a figure of another
machine: context, never part of a comparison.

A metric ``A / B`` is the quotient of two stored ones, each summed over the labels that it does not
name; of a series of two arms A is of the first, B of the second.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from harness import structs
from harness.errors import UsageError
from harness.paper.pair_query import Having, read_metric
from harness.structs import Struct, whole
from harness.units import GIB, counted, parse_duration_ns, parse_size
from reports.arm import Arm
from reports.formatting import NOTHING, number_mark, quantity_text
from reports.pair_sides import arms_of, lines_of
from reports.plan_metrics import plan_summaries
from reports.run_configuration import spec_facts
from reports.sections import Block, Table
from reports.series import Panel
from reports.statistics import Missing
from reports.sweeps import OVER, RATIO, Line, Sweep
from reports.values import Point, Quantity, Summary, measured, summarise

#: The x of a paper's "up to": compared with the highest of all runs and queries of the arm.
HIGHEST = "highest"
#: What points are values of in a file without the column.
_TIMES = "query_duration_ns"
_PER_S = "_per_s"
_OVER = " / "
_METRIC = r"[a-z][a-z0-9_]*(\[[a-z_]+=[a-z0-9_]+(,[a-z_]+=[a-z0-9_]+)*\])?"
#: Units that are none of time and size: factor and unit of the harness's metric.
_RATES = {
    "k/min": (1000.0, "1/min"),
    "MB/s": (1e6, "B/s"),
    "GB/s": (1e9, "B/s"),
    "GiB/s": (float(GIB), "B/s"),
    "1": (1.0, "1"),  # a count: "11" would be 11 bytes
}


class PublishedValue(Struct, frozen=True):
    """One row of published.csv: a point of a paper's figure or a number of its text."""

    documented = "docs/papers.md"
    figure: Annotated[
        str,
        Meta(
            min_length=1,
            description="the paper's figure, table or section, such as fig2 or sec4.5.1",
        ),
    ]
    series: Annotated[
        str,
        whole(
            "[a-z][a-z0-9_]*/.+",
            "engine/arm as the harness names them, such as postgres/pmem-both; with the settings "
            "that distinguish lines of a figure: postgres/pmem-both,wal_compression=on (* for any "
            "value); a ratio of two arms: mysql/pmem-both over ssd-both",
        ),
    ]
    x: Annotated[
        str,
        Meta(
            min_length=1,
            description="the point's label: the number of the query, or of users; highest for a "
            "paper's 'up to', compared with the highest of the arm's queries and runs",
        ),
    ]
    y: Annotated[float, Meta(description="the value in the unit")]
    unit: Annotated[
        str,
        Meta(
            min_length=1,
            description="a unit of time or size (s, ms, GB …), k/min for thousands a minute, or "
            "the metric's own",
        ),
    ]
    read_off_error: Annotated[
        float,
        Meta(
            ge=0,
            description="half-width of what the eye cannot distinguish, in the unit; 0 for a "
            "printed number",
        ),
    ]
    metric: Annotated[
        str,
        whole(
            rf"{_METRIC}( / {_METRIC})?",
            "the harness's metric that the value is one of, with labels in brackets: "
            "query_duration_ns (taken where there is no such column), "
            "plan_operator_ns[operator=scan]; A / B: the quotient of two; a name that the "
            "harness does not measure is only listed",
        ),
    ] = _TIMES
    note: Annotated[
        str, Meta(description="how the printed number was read, where that is not plain")
    ] = ""
    derived: Annotated[
        str,
        whole(
            "(needs .+|[a-z_]+( [a-z_.]+=[^ ]+)*)?",
            "how the local value is read off points of the microbenchmark: a reader and its "
            "words, as in reports/micro/paper_values.py, or what is lacking",
        ),
    ] = ""


@dataclass(frozen=True)
class PublishedPoint:
    """One point; ``y_base`` and ``error_base`` in ns, bytes, or the unit as it is.

    ``derived``: how the local value is read off a microbenchmark (reports.micro.paper_values).
    """

    x: str
    y_base: float
    error_base: float
    derived: str = ""


@dataclass(frozen=True)
class PublishedSeries:
    """The points of one engine and arm in one figure. ``base_unit``: ns, bytes or its own.

    ``metric``: the harness's metric that they are values of: its ``name``, ``labels`` in brackets.
    """

    figure: str
    engine: str
    arm: str
    base_unit: str
    points: tuple[PublishedPoint, ...]
    metric: str = _TIMES
    note: str = ""

    @property
    def sides(self) -> list[str]:
        """The arm, or the two of a ratio."""
        return self.arm.split(OVER)

    @property
    def name(self) -> str:
        return read_metric(self.metric)[0]

    @property
    def labels(self) -> Having:
        return read_metric(self.metric)[1]


def read_published(path: Path, figures: Sequence[str] = ()) -> list[PublishedSeries]:
    """The series of the figures named, of all where none is; UsageError names a bad line."""
    by_series: dict[tuple[str, ...], list[PublishedPoint]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError(f"published figures {path}", str(error), "check the path") from error
    for line, text in enumerate(rows, start=2):
        row = _row(text, f"{path}:{line}")
        factor, base_unit = _base(row.unit)
        point = PublishedPoint(row.x, row.y * factor, row.read_off_error * factor, row.derived)
        key = (row.figure, row.series, base_unit, row.metric, row.note)
        by_series.setdefault(key, []).append(point)
    return [
        PublishedSeries(figure, *_engine_and_arm(series), base_unit, tuple(points), metric, note)
        for (figure, series, base_unit, metric, note), points in by_series.items()
        if figure in figures or not figures
    ]


def _engine_and_arm(series: str) -> tuple[str, str]:
    engine, _, arm = series.partition("/")
    return engine, arm


def _row(text: dict[str, Any], source: str) -> PublishedValue:
    row = {str(key): value for key, value in text.items()}
    for column in ("y", "read_off_error"):
        try:
            row[column] = float(row.get(column) or "")
            if not math.isfinite(row[column]):
                raise ValueError("not finite")
        except (ValueError, TypeError) as error:
            context = f"{column} is {text.get(column)!r}, not a finite number"
            raise UsageError(source, context) from error
    return structs.convert(row, PublishedValue, source)


def _base(unit: str) -> tuple[float, str]:
    """The factor to ns, bytes or a rate's own unit, or 1 for a unit of neither."""
    if unit in _RATES:
        return _RATES[unit]
    for parse, base in ((parse_duration_ns, "ns"), (parse_size, "bytes")):
        try:
            return float(parse(f"1{unit}")), base
        except UsageError:
            continue
    return 1.0, unit


# Next to what was measured here ---------------------------------------------------


@dataclass(frozen=True)
class HostNumber:
    """A number of this host that is the same quantity as a published one; None: there is none.

    ``emulated``: the stand-ins that it comes from; ``name``: which it is of several; ``high``: the
    end of a range that ``value`` begins.
    """

    value: float | None
    unit: str
    emulated: tuple[str, ...] = ()
    name: str = ""
    high: float | None = None


@dataclass(frozen=True)
class Numbers:
    """A cell with numbers of this host. ``conditions``: under which all of them were measured."""

    numbers: tuple[HostNumber, ...]
    conditions: tuple[str, ...] = ()


#: The words of what is missing are the template's (templates/published.j2).
Cell: TypeAlias = str | Numbers | Missing


@dataclass(frozen=True)
class PublishedRow:
    """One published number, and those of this host."""

    series: PublishedSeries
    point: PublishedPoint
    measured: Numbers | Missing

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Cells of a table: figure, engine and placement, point, metric, published, measured."""
        series, point, unit = self.series, self.point, self.series.base_unit
        error = f" ± {_printed(point.error_base, unit)}" if point.error_base else ""
        return (
            series.figure,
            f"{series.engine}/{series.arm}",
            point.x,
            series.metric,
            _printed(point.y_base, unit) + error,
            self.measured,
        )


_LACKS: Mapping[str, str] = {
    "no-counterpart": NOTHING,
    "not-derived": "not derived here",
    "not-measured": "not measured",
    "one-sided": "not measured on both sides",
    "unlike-sides": "both sides differ in ",
    "other-side": "is ",
    "ambiguous": "ambiguous: ",
    "needs": "needs ",
    "elsewhere": "see ",
}
_COUNTS = {"threads": "thread", "lines": "line"}


def published_table(title: str, head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Block:
    """Published numbers next to those of this host."""
    return Table(title, head, [list(map(_cell, row)) for row in rows])


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Missing):
        return _LACKS.get(cell.code, cell.code) + cell.context
    conditions = f" ({'; '.join(cell.conditions)})" if cell.conditions else ""
    return ", ".join(map(_number, cell.numbers)) + conditions


def _number(number: HostNumber) -> str:
    ends = [_amount(end, number.unit) for end in (number.value, number.high) if end is not None]
    value = " to ".join(dict.fromkeys(ends)) if number.value is not None else "none"
    mark = f" ({number_mark(number.emulated)})" if number.emulated else ""
    return " ".join(filter(None, (number.name, value))) + mark


def _amount(value: float, unit: str) -> str:
    return counted(int(value), _COUNTS[unit]) if unit in _COUNTS else quantity_text(value, unit)


def published_rows(
    panels: Sequence[Panel], sweeps: Sequence[Sweep], published: Sequence[PublishedSeries]
) -> Iterator[PublishedRow]:
    """Yield the points of the series, with the median of the arm that has its name."""
    for series in published:
        for point in series.points:
            numbers = (*_measured(panels, series, point), *_swept(sweeps, series, point))
            yield PublishedRow(
                series, point, Numbers(numbers) if numbers else Missing("no-counterpart")
            )


def _printed(value: float, unit: str) -> str:
    """With every digit that was printed: rates have four or five, ratios two."""
    if unit == "ratio":
        return f"{value:g}"
    return f"{value:,.0f} {unit}" if unit == "1/min" else quantity_text(value, unit)


def _measured(
    panels: Sequence[Panel], series: PublishedSeries, point: PublishedPoint
) -> Iterator[HostNumber]:
    if point.x == HIGHEST:
        yield from _highest(panels, series)
        return
    for panel in panels:
        if panel.engine_name != series.engine:
            continue
        if not (arms := arms_of(panel, series.sides)):
            continue
        if _OVER in series.metric:
            yield from _of_sides(_quotient(arms, series, point.x), arms, series.base_unit)
            continue
        for quantity in _quantities(arms[0], series, point.x):
            summaries = [_summaries(arm, quantity.name).get(quantity) for arm in arms]
            yield from _of_sides(summaries, arms, series.base_unit)


def _summaries(arm: Arm, metric: str) -> Mapping[Quantity, Summary]:
    points = arm.of_metric(metric).items()
    return {q: point.summary for q, point in points} or plan_summaries(arm.usable, metric)


def _quantities(arm: Arm, series: PublishedSeries, x: str) -> Iterator[Quantity]:
    """Name what a point of the paper is here: its query is a label, or selects this share."""
    if series.metric == "query_duration_ratio":
        for quantity, share in arm.of_metric("query_selected_fraction").items():
            # The paper's percentages are cut, not rounded: its 45 is 45.6.
            if str(int(100 * share.median + 1e-6)) == x:
                yield Quantity(_TIMES, quantity.labels)
        return
    name = series.name.removesuffix(RATIO) if len(series.sides) > 1 else series.name
    yield Quantity(name, tuple(sorted({"query": x, **series.labels}.items())))


def _quotient(arms: Sequence[Arm], series: PublishedSeries, query: str) -> list[Summary | None]:
    """Return the values of both metrics of ``A / B``, or of one arm their quotient in each run."""
    over, under = series.metric.split(_OVER)
    first, *second = ([measured(run) for run in arm.usable] for arm in arms)
    if second:
        sides = ((over, first), (under, second[0]))
        return [
            summarise([value for run in runs if (value := _total(run, metric, query)) is not None])
            for metric, runs in sides
        ]
    both = ((_total(run, over, query), _total(run, under, query)) for run in first)
    return [summarise([a / b for a, b in both if a is not None and b])]


def _total(values: Mapping[Quantity, Point], metric: str, query: str) -> float | None:
    """Return a query's sum over the label sets of a metric; a rate's by the query's time."""
    name, labels = read_metric(metric)
    stated = {"query": query, **labels}.items()
    parts = [
        value.value
        for quantity, value in values.items()
        if quantity.name == name and stated <= {*quantity.labels} and value.value is not None
    ]
    if parts:
        return math.fsum(parts)
    if not name.endswith(_PER_S):
        return None
    moved = _total(values, metric.replace(_PER_S, "", 1), query)
    time_ns = _total(values, _TIMES, query)
    return None if moved is None or not time_ns else moved * 1e9 / time_ns


def _of_sides(
    summaries: Sequence[Summary | None], of: Sequence[Arm | Line], unit: str
) -> Iterator[HostNumber]:
    """The median of one side, or the ratio of both; none where a side has none."""
    medians = [summary.median for summary in summaries if summary]
    emulated = tuple(dict.fromkeys(mark for side in of for mark in side.emulated))
    if len(medians) < len(summaries):
        return
    if len(medians) == 1:
        yield HostNumber(medians[0], unit, emulated)
    elif medians[1]:
        yield HostNumber(medians[0] / medians[1], "", emulated)


def _highest(panels: Sequence[Panel], series: PublishedSeries) -> Iterator[HostNumber]:
    """The highest median of the arm, over all panels and label sets; not of Memory mode."""
    engine_arms = [panel.arms for panel in panels if panel.engine_name == series.engine]
    medians = [
        (summary.median, arm.emulated)
        for arm in chain.from_iterable(engine_arms)
        if arm.value == series.arm
        if arm.usable and spec_facts(arm.usable[0]).get("host_mode") != "Memory"
        for summary in _rates(arm, series)
    ]
    if medians:
        median, emulated = max(medians)
        yield HostNumber(median, series.base_unit, emulated)


def _rates(arm: Arm, series: PublishedSeries) -> Iterator[Summary]:
    """Yield summaries of a metric's label sets; a tier's bandwidth is its bytes over each time."""
    if not (labels := series.labels) or not series.name.endswith(_PER_S):
        yield from (point.summary for point in arm.of_metric(series.metric).values())
        return
    name, kind = series.name.removesuffix(_PER_S), series.name.partition("_")[0]
    rates: dict[Quantity, list[float]] = {}
    for values in map(measured, arm.usable):
        for quantity, moved in values.items():
            if quantity.name != name or not labels.items() <= {*quantity.labels}:
                continue
            others = tuple(label for label in quantity.labels if label[0] not in labels)
            time_ns = values.get(Quantity(f"{kind}_duration_ns", others))
            if moved.value is not None and time_ns is not None and time_ns.value:
                rates.setdefault(quantity, []).append(moved.value * 1e9 / time_ns.value)
    yield from filter(None, map(summarise, rates.values()))


def _swept(
    sweeps: Sequence[Sweep], series: PublishedSeries, point: PublishedPoint
) -> Iterator[HostNumber]:
    """The medians, or ratios of them, where the parameter of a sweep is that of the point."""
    if not point.x.isdigit():
        return
    for sweep in sweeps:
        metric = sweep.metric + RATIO * (len(series.sides) - 1)
        if (series.engine, series.metric) == (sweep.engine, metric):
            for sides in lines_of(sweep, series.sides, int(point.x)):
                lines = [line for line, _ in sides]
                yield from _of_sides([line.points.get(at) for line, at in sides], lines, sweep.unit)


def published_points(
    sweep: Sweep, published: Sequence[PublishedSeries]
) -> Iterator[tuple[Line, PublishedSeries]]:
    """The paper's series of the sweep's metric, each with the line that it is one of."""
    for series in published:
        if series.engine != sweep.engine or series.metric != sweep.metric:
            continue
        if series.base_unit == sweep.unit:
            yield from ((line, series) for line in sweep.meant_by(series.arm))
