"""A paper's numbers next to those of the local devices: each where a suite says it repeats them.

They were measured on the paper's machine and enter no comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from harness.errors import UsageError
from harness.paper.pair_query import PairQuery
from harness.paths import data_folder
from harness.store.result import label_text
from harness.store.runs import StoredRun
from harness.warnings import RunWarning, warn
from reports.charts.curves import x_text
from reports.formatting import quantity_text
from reports.micro.devices import Device, best, points_of
from reports.micro.measurements import AXES
from reports.micro.paper_values import derived
from reports.micro.point_ratios import clear
from reports.micro.prices import price_of
from reports.micro.sweeps import varying_labels
from reports.pair_sides import UnderivedError, devices_in_column, selected
from reports.price_list import PriceList
from reports.published import (
    Cell,
    HostNumber,
    Numbers,
    PublishedPoint,
    PublishedSeries,
    read_published,
)
from reports.statistics import Missing
from reports.values import Point

#: The quantity of PerMA-Bench's Table 2, and where it stands in a report.
_PRICED = "price_performance"
#: What the columns of the local devices are.
STATISTIC = "times: mean without time stamps, others: best median of repeats"
_PERMA = "perma-bench"
#: Whose axis is the number of interleaved DIMMs.
_OVER_DIMMS = (_PERMA, "fig15")
#: What repeats which figures of PerMA-Bench, whose format has no room to say so. Table 2 is made
#: of all of it.
PERMA_FIGURES = {
    "sequential_reads": ("fig4a", "fig14", "table2"),
    "random_reads": ("fig4b", "table2"),
    "sequential_writes": ("fig5a", "fig5b", "table2"),
    "random_writes": ("fig6", "table2"),
    "operation_latency": ("fig7", "table2"),
    "double_flush_latency": ("fig8",),
    "hash_index_update": ("fig9", "fig10", "table2"),
    "tree_index_lookup": ("fig9", "table2"),
    "tree_index_update": ("fig9",),
    "hybrid_tree_index_lookup": ("fig9",),
    "hybrid_tree_index_update": ("fig9",),
}
#: What a figure's numbers need in addition to its own workloads: sequential peak, single flush, the
#: parts of a page flush.
_DRAWN_FROM = {
    (_PERMA, "fig4b"): ("fig4a",),
    (_PERMA, "fig8"): ("fig7",),
    ("pmem-io-primitives", "fig5"): ("sec2.2", "fig2", "fig4"),
}


@dataclass(frozen=True)
class PaperRows:
    """``sources``: which figures of which papers; ``notes``: how their numbers were read."""

    sources: tuple[str, ...]
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...]


def paper_rows(devices: Sequence[Device], prices: PriceList | None = None) -> PaperRows | None:
    """None where no suite of these runs repeats a paper's numbers. ``prices``: as in its table."""
    wanted: dict[str, set[str]] = {}
    for device in devices:
        for repeated in (entry for run in device.runs for entry in _published(run)):
            wanted.setdefault(repeated["paper"], set()).update(repeated["figures"])
    series = [
        (paper, curve)
        for paper, figures in sorted(wanted.items())
        for curve in _read(paper, figures)
    ]
    if not series:
        return None
    rows = [row for paper, curve in series for row in _rows(paper, curve, devices, prices)]
    notes = dict.fromkeys(f"{p} {curve.figure}: {curve.note}" for p, curve in series if curve.note)
    return PaperRows(
        tuple(dict.fromkeys(f"{paper} {curve.figure}" for paper, curve in series)),
        (
            "figure",
            "of",
            "at",
            "in the paper",
            *(f"{n} ({STATISTIC})" for n in (device.marked_name for device in devices)),
        ),
        tuple(rows),
        tuple(notes),
    )


def _published(run: StoredRun) -> Iterator[dict[str, Any]]:
    """Yield the publications that the documents of the run's suite repeat."""
    suite = run.artifact("suite") or {}
    documents = suite.get("documents", {})
    for value in documents.values() if isinstance(documents, dict) else ():
        if isinstance(value, dict) and isinstance(value.get("published"), dict):
            yield value["published"]
    if str(run.spec.params.get("suite", "")).split("/")[0] == _PERMA:
        measured = {metric.labels.get("measurement") for metric in run.result.metrics}
        figures = [f for name, of in PERMA_FIGURES.items() if name in measured for f in of]
        yield {"paper": _PERMA, "figures": figures}


def published_file(paper: str) -> Path:
    """The numbers that a paper prints, next to the suites or the profiles that repeat it."""
    profiles = data_folder("profiles")
    suites, experiments = (
        profiles / kind / paper / "published.csv" for kind in ("micro", "papers")
    )
    return suites if suites.is_file() else experiments


def _read(paper: str, figures: set[str]) -> list[PublishedSeries]:
    path = published_file(paper)
    try:
        return read_published(path, sorted(figures))
    except UsageError as error:
        if path.exists():
            warn(
                RunWarning(
                    "published-unreadable", "published figures are left out", str(error), error.hint
                )
            )
        return []


def _rows(
    paper: str, series: PublishedSeries, devices: Sequence[Device], prices: PriceList | None
) -> Iterator[tuple[Cell, ...]]:
    figures = (series.figure, *_DRAWN_FROM.get((paper, series.figure), ()))
    repeating = [_repeating(device, paper, figures) for device in devices]
    for point in series.points:
        error = f" ± {quantity_text(point.error_base, series.base_unit)}" * bool(point.error_base)
        measured = [
            _priced(device, prices)
            if series.metric == _PRICED
            else _measured(paper, series, point, device, repeating)
            for device in repeating
        ]
        yield (
            f"{paper} {series.figure}",
            f"{series.arm}, {series.metric}",
            point.x,
            quantity_text(point.y_base, series.base_unit) + error,
            *measured,
        )


def number_of_tier(
    paper: str, series: PublishedSeries, point: PublishedPoint, devices: Sequence[Device]
) -> HostNumber | Missing:
    """The number of the tier that the series names; of several, their mean, as papers print it."""
    every = [_repeating(device, paper, (series.figure,)) for device in devices]
    of_tier = [
        d for d in every if d.runs and (d.tier.name if d.tier else d.tier_name) == series.arm
    ]
    if len(of_tier) != 1:
        hosts = " and ".join(device.name for device in of_tier)
        return Missing("ambiguous", hosts) if of_tier else Missing("not-measured")
    cell = _measured(paper, series, point, of_tier[0], every)
    if isinstance(cell, Missing):
        return cell
    numbers = cell.numbers if isinstance(cell, Numbers) else ()
    values = [number.value for number in numbers if number.value is not None]
    if not values:
        return Missing("no-counterpart")
    return HostNumber(fmean(values), series.base_unit, of_tier[0].emulated)


def _priced(device: Device, prices: PriceList | None) -> Missing:
    """Table 2 is a table of the report, where the device has a price."""
    if price_of(device, prices) is None:
        return Missing("needs", "a price: --prices, or price_per_gb in the host file")
    return Missing("elsewhere", "Price-performance")


def _repeating(device: Device, paper: str, figures: Sequence[str]) -> Device:
    """With what it has of suites that repeat one of these: others measure something else."""
    if device.source:
        return device if paper == _PERMA else replace(device, points=())
    runs = tuple(
        run
        for run in device.runs
        if any(t["paper"] == paper and {*figures} & {*t["figures"]} for t in _published(run))
    )
    return replace(device, runs=runs, points=tuple(points_of(runs)))


def _measured(
    paper: str,
    series: PublishedSeries,
    point: PublishedPoint,
    device: Device,
    every: Sequence[Device],
) -> Cell:
    """The device's own value of the same metric and labels at the same place."""
    if point.derived:
        return derived(point.derived, point.x, device, every)
    over_dimms = (paper, series.figure) == _OVER_DIMMS
    of_device = {"dimms": point.x} if over_dimms else {}
    query = PairQuery(series.name, {**series.labels, **of_device})
    try:
        points = selected(query, devices_in_column(query, device, ()).over)
        at_place = [p for p in points if over_dimms or _is_at(p, point.x)]
        if not at_place or at_place[0].unit != series.base_unit:
            return Missing("no-counterpart")
        clear(at_place)
    except UnderivedError as error:
        return error.missing
    if at_place[0].histogram is not None:
        return _means(at_place, device.emulated)
    return Numbers((HostNumber(best(at_place).median, at_place[0].unit, device.emulated),))


def _means(points: Sequence[Point], emulated: tuple[str, ...]) -> Numbers:
    """The papers average times. Several points: the paper's row is of all of them, and so is this.

    ``random 305 ns, sequential 169 ns``.
    """
    varying = varying_labels(points)
    return Numbers(
        tuple(
            HostNumber(p.compared, p.unit, emulated, " ".join(p[label] for label in varying))
            for p in points
            if p.histogram is not None
        )
    )


def _is_at(point: Point, x: str) -> bool:
    """Return whether a swept axis, or any label, has the value that the paper's axis has."""
    if x in map(label_text, point.labels.values()):
        return True
    texts = (x_text(point.number(axis), AXES[axis][1]) for axis in AXES if point[axis])
    return x.replace(" ", "") in (text.replace(" ", "") for text in texts)
