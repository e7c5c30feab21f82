"""The local number next to a paper's, as the column ``derived`` of its published.csv says.

The column has the name of a function of ``_READERS``, then words ``name=value``: a query of points
(harness.paper.pair_query; ``instructions=store+clwb``: without a fence), and options:

=============  ==============================================================================
``each``       labels that name a ratio; of curves those that make a curve of its own
``show``       of ratios: ``largest``; of curves the label that is read off
``note``       what is said of all the ratios (``_NOTES``)
``choose``     the points of a curve whose labels are shown (``_CHOICES``)
=============  ==============================================================================

How both sides of a ratio are found is reports/pair_sides.py; a curve is of the largest experiment
(reports.micro.sweeps). Where a paper's sentence leaves something open,
every value that it could mean is shown; what cannot be derived says what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from msgspec import structs

from harness.hdr import Histogram
from harness.paper.pair_query import PairQuery, read_words
from harness.sequences import grouped
from harness.units import format_bytes
from reports.formatting import TIMES
from reports.micro.devices import DURATION, OPERATIONS, RATE, Device, best
from reports.micro.instructions import flushed_line
from reports.micro.knees import near_best
from reports.micro.page_flush import FlushParts
from reports.micro.point_ratios import PointRatio, name_of, one_experiment, ratios_of
from reports.micro.sweeps import INSTRUCTIONS, beyond_caches
from reports.pair_sides import (
    PAGES,
    SIZE,
    UnderivedError,
    devices_in_column,
    numbers_text,
    selected,
)
from reports.published import Cell, HostNumber, Numbers
from reports.statistics import Missing
from reports.values import Point

_OPTIONS = ("show", "note", "choose")
_WRITE_BACK = re.compile(r"^rp_(\d+),wp_\1_(cache|nocache)$")
#: FAST'20, Section 3.3, has no bound for its outliers; this is the one that its text names.
_OUTLIER_NS = 50_000


@dataclass(frozen=True)
class PaperRow:
    """One row of published.csv in the column of one device.

    ``query``, ``options``: what ``derived`` says. ``others``: all devices of the report, with what
    they have of suites that repeat the figure, as ``device``.
    """

    query: PairQuery
    options: Mapping[str, str]
    x: str
    device: Device
    others: Sequence[Device] = ()

    def option(self, name: str) -> str:
        """The value of an option, empty where it is absent."""
        return self.options.get(name, "")

    def number(
        self, value: float | None, unit: str, name: str = "", high: float | None = None
    ) -> HostNumber:
        """One number of this device."""
        return HostNumber(value, unit, self.device.emulated, name, high)

    def ratios(self, ratios: Iterable[PointRatio], *conditions: str) -> Numbers:
        """A number for each name; its range where several ratios have it."""
        named = grouped((ratio.name, ratio.value) for ratio in ratios)
        return Numbers(
            tuple(self.number(min(same), TIMES, name, max(same)) for name, same in named.items()),
            conditions,
        )


def derived(words: str, x: str, device: Device, others: Sequence[Device]) -> Cell:
    """The device's own value, or why there is none."""
    reader, _, rest = words.partition(" ")
    if not reader or reader == "needs":
        return Missing("needs", rest) if reader else Missing("not-derived")
    pairs = dict(word.split("=", 1) for word in rest.split())
    options = {name: pairs.pop(name) for name in _OPTIONS if name in pairs}
    row = PaperRow(read_words(pairs, f"derived {words!r}"), options, x, device, others)
    try:
        cell = _READERS[reader](row)
    except UnderivedError as error:
        return error.missing
    return cell if cell.numbers else Missing("no-counterpart")


# Two sides ----------------------------------------------------------------------------


def _ratio(row: PaperRow) -> Numbers:
    """One point over another that is alike."""
    query = row.query
    devices = devices_in_column(query, row.device, row.others)
    made = ratios_of(query, devices.over, devices.under)
    if query.each == (SIZE,):
        made.sort(key=lambda ratio: ratio.over.number(SIZE))
    if row.option("show") == "largest":
        largest = max(made, key=lambda ratio: ratio.value)
        return row.ratios([replace(largest, name="")], largest.name)
    return row.ratios(made, *_NOTES[row.option("note")](row, made))


def _other_pages(row: PaperRow, ratios: Sequence[PointRatio]) -> Sequence[str]:
    both = (pair for ratio in ratios for pair in ratio.pairs)
    pages = dict.fromkeys((a[PAGES], b[PAGES]) for a, b in both if a[PAGES] != b[PAGES])
    return [f"pages: {a or 'unknown'} over {b or 'unknown'}" for a, b in pages]


def _best_of_threads(row: PaperRow, ratios: Sequence[PointRatio]) -> Sequence[str]:
    counts = numbers_text((a for ratio in ratios for a, _ in ratio.pairs), "threads")
    return [f"best of {counts} threads"]


def _entry_sizes(row: PaperRow, ratios: Sequence[PointRatio]) -> Sequence[str]:
    sizes = sorted(ratio.over.number("entry_bytes") for ratio in ratios)
    ends = dict.fromkeys(map(format_bytes, (sizes[0], sizes[-1])))
    return [f"entries of {' to '.join(ends)}"]


def _flushed_line(row: PaperRow, ratios: Sequence[PointRatio]) -> Sequence[str]:
    """The cause of a gain in operations."""
    causes = {"kept": ["clwb keeps the line"], "evicted": ["clwb evicts the line"]}
    line = flushed_line(row.device)
    return causes.get(line.outcome, []) if line else []


_NOTES: Mapping[str, Callable[[PaperRow, Sequence[PointRatio]], Sequence[str]]] = {
    "": _other_pages,
    "threads": _best_of_threads,
    "entry_bytes": _entry_sizes,
    "flushed_line": _flushed_line,
}


def _over_peak(row: PaperRow) -> Numbers:
    """The best of random reads of a size over that of all sequential ones (PVLDB 15(11), 4.2.2)."""
    by_name = {}
    for name in ("random_reads", "sequential_reads"):
        points = row.device.select(RATE, measurement=name, operation="load", job="")
        by_name[name] = one_experiment(beyond_caches(row.device, points), SIZE, "threads")
        if not by_name[name]:
            raise UnderivedError("needs", f"{name.replace('_', ' ')} as well")
    reads = [p for p in by_name["random_reads"] if p[SIZE] == row.x]
    if not reads:
        raise UnderivedError("one-sided")
    return row.ratios([PointRatio(best(reads), best(by_name["sequential_reads"]))])


def _double_flush(row: PaperRow) -> Numbers:
    """A line written and flushed twice over once, by instruction (PVLDB 15(11), Figures 7, 8).

    The paper's sentence takes the single flush of Figure 7, which is of 256 bytes: it is shown
    next to that of the same line.
    """
    ratios: list[PointRatio] = []
    for size, of in ((row.x, ""), ("256", "Figure 7's ")):
        for word in ("cache", "cacheinv", "nocache"):
            line = f"wp_{row.x}_{word}"
            twice, once = f"rp_{row.x},{line},{line}", f"rp_{size},wp_{size}_{word}"
            query = PairQuery(
                DURATION,
                {"mode": "dependent", "threads": "16"},
                over={"measurement": "double_flush_latency", "chain": twice},
                under={"measurement": "operation_latency", "chain": once},
            )
            name = f"{word} over {of}{size} B"
            of_query = ratios_of(query, row.device, row.device)
            ratios += (replace(ratio, name=name) for ratio in of_query)
    return row.ratios(ratios)


def _dirty_lines(row: PaperRow) -> Numbers:
    """By dirty lines, which of CoW and µLog flushes more pages a second (DaMoN'19, Figure 5)."""
    query = PairQuery(
        OPERATIONS,
        {"measurement": "dirty_lines", "threads": row.x},
        {"method": "cow"},
        {"method": "mulog"},
        varied=("dirty_lines",),
        every=True,
    )
    ratios = ratios_of(query, row.device, row.device)
    ahead = sorted((ratio.over.number("dirty_lines"), ratio.value > 1) for ratio in ratios)
    spans = [
        (cow, [lines for lines, _ in same])
        for cow, same in groupby(ahead, key=lambda entry: entry[1])
    ]
    if len(spans) > 2:
        places = ", ".join(f"{lines[0]:g}" for _, lines in spans[1:])
        raise UnderivedError("ambiguous", f"which is ahead changes at {places} lines")
    leads = [
        row.number(lines[0], "lines", "CoW" if cow else "µLog", lines[-1]) for cow, lines in spans
    ]
    return Numbers((*leads, *_predicted_flush(row)))


def _predicted_flush(row: PaperRow) -> Iterator[HostNumber]:
    """Up to how many lines µLog leads by the parts of a flush, and what they predict of the hybrid.

    Nothing where Figures 1, 2 and 4 are not measured.
    """
    parts, threads = FlushParts.of(row.device), int(row.x)
    if parts is None:
        return
    yield row.number(parts.crossing(threads), "lines", "µLog, predicted up to")
    labels = {"measurement": "dirty_lines", "method": "hybrid", "threads": row.x}
    measured = row.device.select(OPERATIONS, **labels)
    ratios = [parts.hybrid(p.number("dirty_lines"), threads) / p.median for p in measured]
    if ratios:
        yield row.number(min(ratios), TIMES, "hybrid, predicted over measured", max(ratios))


def _counted(row: PaperRow) -> Numbers:
    """Return what modules counted of the points with these labels, from the least to the most."""
    points = selected(row.query, row.device)
    if not points:
        raise UnderivedError(
            "needs",
            "counters of the modules: ipmctl, as root, and more writes than idle modules make",
        )
    values = [point.median for point in points]
    return Numbers((row.number(min(values), TIMES, "", max(values)),))


# Curves -------------------------------------------------------------------------------


def _curve(row: PaperRow) -> Numbers:
    """A label of chosen points of each curve; none where it has no such point."""
    query = structs.replace(row.query, metric=row.query.metric or RATE)
    written_back = map(_written_back, selected(query, row.device))
    points = one_experiment(written_back, *INSTRUCTIONS, *query.varied)
    show = row.option("show")
    unit = "threads" if show == "threads" else "bytes"
    numbers: list[HostNumber] = []
    for kind, same in grouped((name_of(p, query.each), p) for p in points).items():
        called = kind if kind != row.x else ""
        chosen = [p.number(show) for p in _CHOICES[row.option("choose")](same)]
        numbers += [row.number(n, unit, called) for n in chosen] or [row.number(None, unit, called)]
    return Numbers(tuple(numbers))


def _written_back(point: Point) -> Point:
    """FAST'20, Figure 14: an object read and written back whole is an access of its size."""
    if not (match := _WRITE_BACK.match(point["chain"])):
        return point
    operation = "ntstore" if match[2] == "nocache" else "store"
    return replace(point, labels={**point.labels, SIZE: int(match[1]), "operation": operation})


def _at_threads_of(top: Point, points: Sequence[Point]) -> list[Point]:
    return [p for p in points if p["threads"] == top["threads"]]


def _smallest_near_best(points: Sequence[Point]) -> Sequence[Point]:
    """The smallest size near the best of the best thread count."""
    top = best(points)
    near = near_best(_at_threads_of(top, points), top)
    return [min(near, key=lambda p: p.number(SIZE))]


def _largest_near_best(points: Sequence[Point]) -> Sequence[Point]:
    """The largest range that is near the best one."""
    near = near_best(points, best(points))
    return [max(near, key=lambda p: p.number("range_bytes"))]


def _outstanding(points: Sequence[Point], sign: int) -> Sequence[Point]:
    """Sizes whose repeats all lie above (-1: below) those of both neighbouring sizes.

    Of the best thread count.
    """
    curve = sorted(_at_threads_of(best(points), points), key=lambda p: p.number(SIZE))
    ends = [sorted(sign * sample for sample in p.samples) for p in curve]
    return [
        curve[i]
        for i in range(1, len(curve) - 1)
        if ends[i][0] > max(ends[i - 1][-1], ends[i + 1][-1])
    ]


def _leads_from(points: Sequence[Point], leading: Callable[[Point], bool]) -> Sequence[Point]:
    """The best of the smallest size from which on a leading point is the best at every size."""
    sizes = sorted({p.number(SIZE) for p in points})
    tops = [best([p for p in points if p.number(SIZE) == size]) for size in sizes]
    first = max((i for i, top in enumerate(tops) if not leading(top)), default=-1) + 1
    return tops[first : first + 1]


_CHOICES: Mapping[str, Callable[[Sequence[Point]], Sequence[Point]]] = {
    "best": lambda points: [best(points)],
    "smallest_near_best": _smallest_near_best,
    "held": _largest_near_best,
    "peaks": lambda points: _outstanding(points, 1),
    "dips": lambda points: _outstanding(points, -1),
    "ntstore_leads": lambda points: _leads_from(points, lambda p: p["operation"] == "ntstore"),
    "line_flush_leads": lambda points: _leads_from(points, lambda p: p["flush_when"] == "line"),
}


def _outliers(row: PaperRow) -> Numbers:
    """FAST'20, Figure 3: the share of overwrites that take longest, at the size with most."""
    points = row.device.select(DURATION, measurement="overwrite_tail", hotspot_bytes="")
    shares = [
        (_share_above(point.histogram, _OUTLIER_NS), point)
        for point in one_experiment(points, "range_bytes")
        if point.histogram is not None
    ]
    most, point = max(shares, key=lambda entry: entry[0], default=(0.0, None))
    if point is None:
        return Numbers(())
    writes = sum(p.histogram.total for _, p in shares if p.histogram is not None)
    size = format_bytes(point.number("range_bytes"))
    where = f"at {size}, the most of {len(shares)} sizes" if most else f"of {writes:,} writes"
    return Numbers((row.number(100 * most, "%"),), ("over 50 µs", where))


def _share_above(histogram: Histogram, ns: int) -> float:
    """Return the share of durations in counters wholly above: each is 0.1 % wide at most."""
    low, _ = histogram.layout.bounds()
    above = histogram.counts[low[: len(histogram.counts)] > ns].sum()
    return float(above) / histogram.total if histogram.total else 0.0


_READERS: Mapping[str, Callable[[PaperRow], Numbers]] = {
    "ratio": _ratio,
    "over_peak": _over_peak,
    "double_flush": _double_flush,
    "dirty_lines": _dirty_lines,
    "counted": _counted,
    "curve": _curve,
    "outliers": _outliers,
}
