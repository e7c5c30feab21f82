"""Drawn curves: the card's four, and those of each measurement of each suite.

A measurement's axis is the swept label that has most values; everything else that differs
between its points distinguishes its lines. What has no swept axis stands in the table alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness import hdr
from harness.sequences import grouped
from harness.store.runs import StoredRun
from harness.units import counted
from reports.charts.curves import MOST_LINES, Curve, Plot, draw, x_text
from reports.formatting import NOTHING, quantity_text, range_text
from reports.micro.devices import (
    DURATION,
    EMPTY,
    LATENCY,
    MEAN,
    OPERATIONS,
    RATE,
    WRITE_RATIO,
    Device,
    best,
)
from reports.micro.instructions import sequence_of
from reports.micro.knees import curves as loaded_curves
from reports.micro.sweeps import (
    INSTRUCTIONS,
    LOAD_LABELS,
    access_sizes,
    alike,
    persist_sizes,
    queue_depths,
    thread_counts,
    varying_labels,
)
from reports.sections import Drawing
from reports.values import Point, Summary, natural

#: Swept axes with their titles and units, the first that is swept is taken where several
#: have as many values.
AXES = {
    "access_size_bytes": ("access size", "bytes"),
    "queue_depth": ("queue depth", ""),
    "hotspot_bytes": ("hot spot", "bytes"),
    "range_bytes": ("range", "bytes"),
    "stride_bytes": ("stride", "bytes"),
    "entry_bytes": ("log entry", "bytes"),
    "dirty_lines": ("dirty cache lines of a page", ""),
    "dimms": ("DIMMs that each thread accesses", ""),
    "read_share": ("share of reads", ""),
    "fence_every_bytes": ("bytes between fences", "bytes"),
    "load_bytes_per_second": ("bandwidth requested of the concurrent load", "B/s"),
    "pace_bytes_per_second": ("requested bandwidth", "B/s"),
    "zipf_exponent": ("exponent of the Zipf distribution", ""),
    "threads": ("threads", ""),
}
_TITLES = {
    RATE: "bandwidth",
    OPERATIONS: "operations per second",
    DURATION: "time of an operation",
    LATENCY: "time of a dependent load",
    MEAN: "mean time of a call",
    WRITE_RATIO: "effective write ratio",
    "traffic_bytes_per_second": "bytes that the host moved meanwhile",
}
#: Labels that are shown together, as instructions.
_INSTRUCTIONS = "instructions"
#: What several labels stand for; and what says nothing without its name.
_PARTED, _SAID = (_INSTRUCTIONS,), ("load_read_share", "load_threads")
_THREADS = "threads"
#: The axis of what waits during a load: drawn over what that had, not over what it requested.
_LOAD = "load_bytes_per_second"
#: Of a chase: the loads are timed so many together.
_MEANS = re.compile(r"^mean_latency_of_(\d+)_loads_ns$")
#: What a row is called where nothing else distinguishes it.
_CONFIGURATION = "configuration"
_MEASUREMENT = "measurement"
_Row = tuple[str, ...]
#: Of histograms: what a table has next to the middle.
_PERCENTS = (50.0, 99.0, 99.9, 99.99)


@dataclass(frozen=True)
class MeasurementResult:
    """One measurement of a suite on a device: drawn where it has an axis, and as a table."""

    title: str
    drawing: Drawing | None
    head: _Row
    rows: tuple[_Row, ...]


# The card -----------------------------------------------------------------------


def card_drawing(device: Device, name: str) -> Drawing | None:
    """Access size, threads, persist instruction and loaded latency; None where none is there."""
    plots = [*_card_plots(device)]
    return draw(name, f"What {device.name} likes", plots, device.emulated) if plots else None


def _card_plots(device: Device) -> Iterator[Plot]:
    def sequence(point: Point) -> str:
        return sequence_of(point).title

    def with_pattern(point: Point) -> str:
        return f"{point['pattern']} {sequence(point)}"

    yield from _plot(
        access_sizes(device), "access_size_bytes", sequence, "Random access, best thread count"
    )
    yield from _plot(thread_counts(device), "threads", with_pattern, "256 B accesses")
    writes = persist_sizes(device)
    of = "".join(f" of {counted(int(p.number('threads')), 'thread')}" for p in writes[:1])
    yield from _plot(writes, "access_size_bytes", sequence, f"Sequential writes{of}")
    if curves := loaded_curves(device):
        yield Plot(
            "A dependent load during a load",
            "bandwidth of the load",
            "B/s",
            _TITLES[LATENCY],
            "ns",
            tuple(
                Curve(
                    c.title,
                    (
                        *([(0.0, c.idle.summary)] if c.idle else []),
                        *((p.rate, p.wait.summary) for p in c.points),
                    ),
                )
                for c in curves
            ),
            x_log=False,
        )
    yield from _write_ratios(device)
    yield from _plot(
        queue_depths(device, "random_read"),
        "queue_depth",
        lambda p: "read",
        "4 KiB reads at random places",
    )


def _write_ratios(device: Device) -> Iterator[Plot]:
    """Bandwidth over the effective write ratio, where modules count (FAST'20, Figure 8)."""
    by_store: dict[str, list[tuple[float, Summary]]] = {}
    for ratio in device.select(WRITE_RATIO):
        same = {name: ratio[name] for name in (_MEASUREMENT, _CONFIGURATION)}
        for point in device.select(RATE, **same):
            at = (ratio.median, point.summary)
            by_store.setdefault(sequence_of(point).title, []).append(at)
    curves = tuple(
        Curve(name, tuple(sorted(at, key=lambda place: place[0]))) for name, at in by_store.items()
    )
    if curves:
        title, x_title = "Every configuration that writes", "effective write ratio"
        yield Plot(title, x_title, "", _TITLES[RATE], "B/s", curves[:MOST_LINES], x_log=False)


def _plot(
    candidates: Sequence[Point], axis: str, line: Callable[[Point], str], title: str
) -> Iterator[Plot]:
    points = [p for p in candidates if p.number(axis)]
    x_title, x_unit = AXES[axis]
    hues = {line(p): sequence_of(p).title for p in points}
    curves = tuple(
        replace(curve, hue=hues[curve.name])
        for curve in _curves(points, lambda p: p.number(axis), line)
    )
    if any(len(curve.points) > 1 for curve in curves):
        yield Plot(title, x_title, x_unit, _TITLES[RATE], "B/s", curves[:MOST_LINES])


def _curves(
    points: Sequence[Point], place: Callable[[Point], float], line: Callable[[Point], str]
) -> Iterator[Curve]:
    """The best of the points at one place of one line stands for them."""
    for name in dict.fromkeys(map(line, points)):
        mine = [p for p in points if line(p) == name]
        at = sorted(set(map(place, mine)))
        yield Curve(name, tuple((x, best([p for p in mine if place(p) == x]).summary) for x in at))


# Every measurement --------------------------------------------------------------


def measurements(device: Device, prefix: str) -> list[MeasurementResult]:
    """Each measurement and metric of the device, in the order in which they were stored.

    Metrics of runs as a whole, such as a monitor's, are of no measurement. ``prefix``: of the
    drawings' names, to be unique in a report.
    """
    by_measurement: dict[tuple[str, str, str], dict[str, list[Point]]] = {}
    for point in device.points:
        if point.metric != EMPTY:
            key = (point["measurement"], _waiting_job(point, device), point.metric)
            by_measurement.setdefault(key, {}).setdefault(point.settings, []).append(point)
    every = [
        (same, len(by_suite)) for by_suite in by_measurement.values() for same in by_suite.values()
    ]
    return [
        _measured(points, f"{prefix}-{number}", device, by_suite=several > 1)
        for number, (points, several) in enumerate(every, 1)
    ]


def _waiting_job(point: Point, device: Device) -> str:
    """A point's job; of what waits without a load, the one that waits alongside elsewhere."""
    if point["job"] or point["load_operation"] != "none":
        return point["job"]
    others = device.select(point.metric, measurement=point["measurement"])
    return next((other["job"] for other in others if other["job"] and other["load_operation"]), "")


def _suites_of(points: Sequence[Point], device: Device) -> str:
    """``, suite fig5`` after a title: whose settings these are, with what ``-p`` changed."""
    ids = {run_id for point in points for run_id in point.runs}
    suites = dict.fromkeys(_suite_text(run) for run in device.runs if run.run_id in ids)
    return f", suite {' and '.join(suites)}"


def _suite_text(run: StoredRun) -> str:
    params = run.spec.params
    requested: Any = params.get("requested", {})
    changed = (f"-p {name}={text}" for name, text in requested.items())
    return " ".join([str(params.get("suite", "")), *changed])


def _measured(
    points: Sequence[Point], name: str, device: Device, by_suite: bool = False
) -> MeasurementResult:
    """``by_suite``: whether suites set this measurement differently."""
    first = points[0]
    named = next((point["job"] for point in points if point["job"]), "")
    job = f", {named}" if named else ""
    of_suite = _suites_of(points, device) if by_suite else ""
    measurement = first["measurement"].replace("_", " ") or "whole run"
    title = f"{measurement}{job}: {_title(first)}{of_suite}"
    varying = _varying(points)
    swept = [label for label in AXES if label in varying]
    axis = max(swept, key=lambda label: len({p[label] for p in points}), default=None)
    others = [label for label in varying if label != axis]
    labels = [*others, *([axis] if axis else [])]
    ordered = _in_order(points, labels)
    drawing = None
    if axis == _LOAD:
        drawing = _loaded_drawing(ordered, title, name, device)
    elif axis:
        drawing = _drawing(ordered, axis, others, title, name, device.emulated)
    return MeasurementResult(title, drawing, *_table(ordered, labels))


def _in_order(points: Sequence[Point], labels: Sequence[str]) -> list[Point]:
    """By the labels' numbers: 64 B before 1 KiB, a quarter before a half; what has none by text.

    What looks alike has one place: 256 MiB of whole accesses of 192 bytes, and of 256.
    """
    least: dict[tuple[str, str], float] = {}
    cells = {id(p): [(label, _cell(p, label)) for label in labels] for p in points}
    for point in points:
        for label, text in cells[id(point)]:
            number = point.number_or_none(label) or 0.0
            least[label, text] = min(number, least.get((label, text), number))

    def place(point: Point) -> list[tuple[float, object]]:
        return [(least[label, text], natural(text)) for label, text in cells[id(point)]]

    return sorted(points, key=place)


def _table(points: Sequence[Point], labels: Sequence[str]) -> tuple[_Row, tuple[_Row, ...]]:
    """Head and rows. Rows that these labels do not distinguish have their configuration's name.

    Such are configurations that were requested differently, and did the same: huge pages that the
    kernel did not give, next to base pages.
    """
    cells = [tuple(_cell(p, label) or NOTHING for label in labels) for p in points]
    names: dict[_Row, set[str]] = {}
    for point, row in zip(points, cells, strict=True):
        names.setdefault(row, set()).add(point[_CONFIGURATION])
    alike = {row for row, configurations in names.items() if len(configurations) > 1}
    head = [_label(label) for label in (*labels, *([_CONFIGURATION] if alike else []))]
    rows = []
    for point, row in zip(points, cells, strict=True):
        name = point[_CONFIGURATION] if row in alike else ""
        rows.append((*row, *([name] if alike else []), *_values(point)))
    return (*head, *_value_head(points[0])), tuple(rows)


def _drawing(
    points: Sequence[Point],
    axis: str,
    others: Sequence[str],
    title: str,
    name: str,
    emulated: Sequence[str],
) -> Drawing | None:
    def line(point: Point) -> str:
        return _line(point, others)

    def lines_of(points: Sequence[Point]) -> list[Curve]:
        return [c for c in _curves(points, lambda p: p.number(axis), line) if len(c.points) > 1]

    drawn = [p for p in points if p.number(axis) != float("inf")]
    x_title, x_unit = AXES[axis]
    curves = lines_of(drawn)
    if len(curves) > MOST_LINES and _THREADS in others:
        drawn = _at_best_threads(drawn, [label for label in others if label != _THREADS])
        title = f"{title}, each line at its best thread count"
        curves = lines_of(drawn)
    if not curves or len(curves) > MOST_LINES:
        return None
    log = all(x > 0 for curve in curves for x, _ in curve.points)
    y_title = _title(points[0])
    plot = Plot(title, x_title, x_unit, y_title, points[0].unit, tuple(curves), x_log=log)
    return draw(name, title, [plot], emulated)


def _at_best_threads(points: Sequence[Point], others: Sequence[str]) -> list[Point]:
    """Choose, of lines that differ only in threads, that of the best point (FAST'20, Figure 5)."""
    by_line = grouped((_line(point, others), point) for point in points)
    return [p for same in by_line.values() for p in same if p[_THREADS] == best(same)[_THREADS]]


def _loaded_drawing(
    points: Sequence[Point], title: str, name: str, device: Device
) -> Drawing | None:
    """Over the bandwidth that the concurrent load had, which may be less than it requested."""
    waiting = {p["job"] for p in points}
    rates = {
        (p["configuration"], p.runs): p.median
        for p in device.select(RATE)
        if p["job"] not in waiting
    }
    idle = [p for p in points if p["load_operation"] == "none"]
    drawn = [p for p in points if p not in idle and (p["configuration"], p.runs) in rates]
    others = [label for label in _varying(drawn) if label != _LOAD]

    def line(point: Point) -> str:
        return _line(point, others)

    def alone(name: str) -> Iterator[Point]:
        first = next(p for p in drawn if line(p) == name)
        return (p for p in idle if alike(p, first, *LOAD_LABELS))

    curves = [
        Curve(curve.name, (*((0.0, p.summary) for p in alone(curve.name)), *curve.points))
        for curve in _curves(drawn, lambda p: rates[p["configuration"], p.runs], line)
    ]
    if not curves or len(curves) > MOST_LINES:
        return None
    plot = Plot(
        title,
        "bandwidth of the concurrent load",
        "B/s",
        _title(points[0]),
        points[0].unit,
        tuple(curves),
        x_log=False,
    )
    return draw(name, title, [plot], device.emulated)


def _title(point: Point) -> str:
    if loads := _loads_a_mean(point):
        return f"means over {loads} dependent loads each, not single loads"
    return _TITLES.get(point.metric, point.metric.replace("_", " "))


def _loads_a_mean(point: Point) -> str:
    """Over how many loads each value of a chase's histogram is the mean; empty of others."""
    match = _MEANS.match(point.metric)
    return match[1] if match else ""


def _line(point: Point, labels: Sequence[str]) -> str:
    """Return the labels that distinguish a point's line."""
    cells = (
        _cell(point, label, named=True) for label in labels if point[label] or label in _PARTED
    )
    return ", ".join(filter(None, cells))


def _label(label: str) -> str:
    return AXES[label][0] if label in AXES else label.replace("_", " ")


def _cell(point: Point, label: str, named: bool = False) -> str:
    """``256 B``, ``clwb``; with its name before it where the value alone says nothing."""
    text = sequence_of(point).title if label == _INSTRUCTIONS else point[label]
    if label in AXES and text.replace(".", "", 1).isdigit():
        text = x_text(point.number(label), AXES[label][1])
    said = named and (label in AXES or label in _SAID or text in ("yes", "no"))
    return f"{_label(label)} {text}" if said else text


def _varying(points: Sequence[Point]) -> list[str]:
    """Labels in which points differ; those of the instructions as one."""
    labels = varying_labels(points)
    return list(dict.fromkeys(_INSTRUCTIONS if x in INSTRUCTIONS else x for x in labels))


def _value_head(point: Point) -> tuple[str, ...]:
    if point.histogram is None:
        return ("median", "range", "n")
    percents = [f"p{percent:g}" for percent in _PERCENTS]
    if loads := _loads_a_mean(point):
        return (*(f"{p} of means over {loads}" for p in percents), "most of these", "loads")
    return (*percents, "most", "count")


def _values(point: Point) -> tuple[str, ...]:
    if point.histogram is not None:
        return (
            *(percentile_text(point.histogram, percent, point.unit) for percent in _PERCENTS),
            quantity_text(point.histogram.max, point.unit),
            percentile_count_text(point.histogram, _PERCENTS),
        )
    summary = point.summary
    return (
        quantity_text(summary.median, point.unit),
        range_text(summary.low, summary.high, point.unit),
        str(summary.n),
    )


def percentile(histogram: hdr.Histogram, percent: float) -> float | None:
    """In the histogram's unit; None where it holds too few durations."""
    return histogram.percentile(percent) if histogram.total >= hdr.fewest(percent) else None


def percentile_text(histogram: hdr.Histogram, percent: float, unit: str = "ns") -> str:
    """``9.06 µs``, or the dash that stands for what is not known."""
    value = percentile(histogram, percent)
    return NOTHING if value is None else quantity_text(value, unit)


def percentile_count_text(histogram: hdr.Histogram, percents: Sequence[float]) -> str:
    """``2,000 (too few for p99.99)``: how many durations, and what the dashes are for."""
    missing = [f"p{percent:g}" for percent in percents if percentile(histogram, percent) is None]
    few = f" (too few for {', '.join(missing)})" if missing else ""
    return f"{histogram.total:,}{few}"
