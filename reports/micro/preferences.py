"""A device's preferences, in short: one row for each question that a designer asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness import hdr
from harness.sequences import grouped
from harness.units import NS_PER_S, counted, format_bytes, format_ns
from reports.formatting import NOTHING, quantity_text
from reports.micro.best_practices import card_trials
from reports.micro.card_lines import LINE, Finding, threads_text
from reports.micro.devices import DURATION, EMPTY, LATENCY, MEAN, RATE, Device, best
from reports.micro.instructions import Instructions, flushed_line, indexes, policy_of, sequence_of
from reports.micro.knees import (
    Knee,
    LoadedKnee,
    bandwidth_lines,
    by_sequence,
    loaded_line,
    queue_lines,
)
from reports.micro.measurements import percentile
from reports.micro.sweeps import CACHES, beyond_caches, largest, persists, varying_labels
from reports.values import Point

#: The percentile by which tails are compared.
_TAIL = 99.99
#: Two instructions closer than this are reported as alike: repeats of one differ by as much.
_ALIKE = 0.97
#: What is measured of the tier, not of the caches before it.
_OF_THE_TIER = (
    "access_size",
    "access_size_sequential",
    "threads",
    "persist",
    "persist_size",
    "mix",
    "latency",
    "loaded_latency",
    "sequential",
    "random",
    "hash_index_update",
    "tree_index_lookup",
    "random_read_latency",
    "sequential_reads",
    "sequential_writes",
    "random_reads",
    "random_writes",
)
_FLUSHES = ("clwb", "clflushopt", "clflush")


def findings(device: Device) -> list[Finding]:
    """Everything that its runs show; what was not measured is left out."""
    knees = card_trials(device).knees
    curves = [knee for knee in knees if isinstance(knee, Knee)]
    return [
        *bandwidth_lines(curves),
        *_persist(device),
        *_policies(device),
        *_times(device),
        *_chased(device),
        *(loaded_line(knee) for knee in knees if isinstance(knee, LoadedKnee)),
        *_tail(device),
        *queue_lines(curves),
        *map(_call, device.select(MEAN, measurement=_CALLS)),
        *_planner(device),
        *_left_out(device),
    ]


@dataclass(frozen=True)
class PersistRow:
    """Instructions that persist writes of a size, or an index, with their rates, the fastest first.

    ``alike``: the fastest, and those as fast; ``unsafe``: rates without a flush.
    """

    name: str
    unit: str
    safe: tuple[tuple[str, float], ...]
    alike: tuple[str, ...]
    unsafe: tuple[float, ...]

    @property
    def figures(self) -> str:
        """``64 B: ntstore+sfence 2 GB/s, no flush 8 GB/s (durable with eADR only)``."""
        safe = [f"{title} {quantity_text(each, self.unit)}" for title, each in self.safe]
        unsafe = [
            f"no flush {quantity_text(each, self.unit)} (durable with eADR only)"
            for each in self.unsafe
        ]
        return f"{self.name}: {', '.join([*safe, *unsafe])}"


def _persist(device: Device) -> Iterator[Finding]:
    for pattern in ("sequential", "random"):
        points = [p for p in persists(device) if p["pattern"] == pattern]
        by_size = grouped((p.number("access_size_bytes"), p) for p in points)
        rows = [_persisting(format_bytes(size), by_size[size]) for size in sorted(by_size)]
        if persisting := tuple(row for row in rows if row is not None):
            yield _persist_finding(f"Persist instruction, {pattern} writes", persisting)


def _policies(device: Device) -> Iterator[Finding]:
    """Yield each index's fastest discipline, flush and fence, by workload."""
    by_index = grouped(
        (index, row)
        for index, workload, points in indexes(device)
        if (row := _persisting(workload, points, policy_of))
    )
    for index, rows in by_index.items():
        yield _persist_finding(f"Persistence policy, {index}", tuple(rows))
    if line := flushed_line(device):
        gains = {
            "kept": "; indexes that use a line again after its flush gain by clwb over clflush "
            "(BENTŌ)",
            "evicted": "; the gain of indexes by clwb over clflush (BENTŌ) is absent here",
        }
        figures = (
            f"a load after store+clwb+sfence {format_ns(line.clwb)}, after store+sfence "
            f"{format_ns(line.cached)}, after store+clflush+sfence {format_ns(line.evicted)}"
            f"{gains.get(line.outcome, '')}"
        )
        yield Finding("A line after clwb", line.outcome, figures, (line,))


def _persist_finding(question: str, rows: tuple[PersistRow, ...]) -> Finding:
    answer = LINE.join(f"{row.name}: {' or '.join(row.alike)}" for row in rows)
    return Finding(question, answer, LINE.join(row.figures for row in rows), rows)


def _persisting(
    name: str, points: Sequence[Point], kind_of: Callable[[Point], Instructions] = sequence_of
) -> PersistRow | None:
    by_kind = grouped((kind_of(p), p) for p in points)
    fastest = [(kind, best(same)) for kind, same in by_kind.items()]
    safe = sorted(
        (candidate for candidate in fastest if _persists(candidate[0])),
        key=lambda candidate: -candidate[1].median,
    )
    if not safe or not safe[0][1].median:
        return None
    rates = tuple((kind.title, p.median) for kind, p in safe)
    return PersistRow(
        name,
        points[0].unit,
        rates,
        tuple(title for title, rate in rates if rate >= _ALIKE * rates[0][1]),
        tuple(p.median for kind, p in fastest if not _persists(kind)),
    )


def _persists(kind: Instructions) -> bool:
    return kind.operation == "ntstore" or kind.flush in _FLUSHES


# Latency ------------------------------------------------------------------------


@dataclass(frozen=True)
class DurationSpread:
    """Durations of one configuration, ns."""

    name: str
    histogram: hdr.Histogram

    def at(self, percent: float) -> float | None:
        """A percentile; None where there are too few operations for it."""
        return percentile(self.histogram, percent)

    def text(self, *percents: float) -> str:
        """``p99 300 ns, p99.99 —, most 2 µs``."""
        values = [(percent, self.at(percent)) for percent in percents]
        texts = [f"p{percent:g} {NOTHING if v is None else format_ns(v)}" for percent, v in values]
        return ", ".join([*texts, f"most {format_ns(self.histogram.max)}"])


def _spreads(names: Sequence[str], points: Sequence[Point]) -> tuple[DurationSpread, ...]:
    both = zip(names, points, strict=True)
    return tuple(DurationSpread(name, p.histogram) for name, p in both if p.histogram is not None)


def _spread_figures(rows: Sequence[DurationSpread], after_name: str, *percents: float) -> str:
    texts = [f"{row.name}{after_name} {row.text(*percents)}" for row in rows]
    missing = [percent for percent in percents if any(row.at(percent) is None for row in rows)]
    lacking = [f"p{percent:g} takes {hdr.fewest(percent):,}" for percent in missing]
    few = [f"{NOTHING}: too few operations, {', '.join(lacking)}"] if lacking else []
    return LINE.join([*texts, *few])


def _times(device: Device) -> Iterator[Finding]:
    points = beyond_caches(device, device.select(DURATION, measurement="latency"))
    for kind, of_kind in by_sequence(points):
        # Of the settings that most of them have: others stand in their own tables.
        same = max(grouped((point.settings, point) for point in of_kind).values(), key=len)
        sizes = ", ".join(dict.fromkeys(p["access_size_bytes"] for p in same))
        rows = _spreads(_name_apart(same), same)
        middles = [f"{row.name} {format_ns(row.histogram.percentile(50))}" for row in rows]
        figures = _spread_figures(rows, "", 99.0, _TAIL) + _empty(device, same)
        yield Finding(f"Latency, {kind.title}, {sizes} B", ", ".join(middles), figures, rows)


def _name_apart(points: Sequence[Point]) -> list[str]:
    """``random``; where patterns repeat, with all that differs: ``random in 256 MiB (avx2)``."""
    patterns = [p["pattern"] for p in points]
    if len(set(patterns)) == len(points):
        return patterns
    differing = varying_labels(points, "pattern", "range_bytes")
    return [
        f"{p['pattern']} in {_range(p)}"
        + (f" ({', '.join(_label_text(p, label) for label in differing)})" if differing else "")
        for p in points
    ]


def _label_text(point: Point, label: str) -> str:
    """``avx2``, ``base pages``, ``2 threads``, ``64 B``; others by their name."""
    value = point[label] or "none"
    texts = {"isa": value, "pages": f"{value} pages", "access_size_bytes": f"{value} B"}
    if label == "threads":
        return threads_text(point)
    return texts.get(label, f"{label.replace('_', ' ')} {value}")


def _empty(device: Device, points: Sequence[Point]) -> str:
    """State the empty measurements of these points: each instruction set has one of its own."""
    of_points = {(p.settings, frozenset(p.labels.items())) for p in points}
    empties = [
        empty.median
        for empty in device.select(EMPTY)
        if (empty.settings, frozenset(empty.labels.items())) in of_points
    ]
    if not empties:
        return ""
    ends = " to ".join(format_ns(end) for end in dict.fromkeys((min(empties), max(empties))))
    return f"; the empty measurement, {ends}, is in all"


def _chased(device: Device) -> Iterator[Finding]:
    """``rows``: ranges before which the time of a load rises, between the first and the last."""
    points = largest(device.select(LATENCY, measurement="chase"), "range_bytes")
    points = sorted(points, key=lambda p: p.number("range_bytes"))
    if not points:
        return
    first, last = points[0], points[-1]
    middle = [b for a, b in pairwise(points) if b.median > 1.5 * a.median]
    steps = ", ".join(f"{_range(step)}: {format_ns(step.median)}" for step in middle)
    yield Finding(
        "Latency, dependent loads",
        f"{format_ns(last.median)} in {_range(last)}",
        f"{_range(first)}: {format_ns(first.median)}; steps at {steps or 'no size'}; "
        f"{last['pages'] or 'unknown'} pages",
        (first, *middle, last),
    )


def _tail(device: Device) -> Iterator[Finding]:
    """FAST'20, Figure 3, writes around a buffer; a hot spot at random places is another."""
    points = device.select(DURATION, measurement="overwrite_tail")
    for where, hot in (("around a buffer", False), ("in a hot spot", True)):
        same = [p for p in points if bool(p["hotspot_bytes"]) == hot]
        overwrites = sorted(largest(same, "range_bytes", "hotspot_bytes"), key=_spot)
        if rows := _spreads([format_bytes(_spot(p)) for p in overwrites], overwrites):
            figures = _spread_figures(rows, ":", 99.9, _TAIL)
            yield Finding(f"Tail of overwrites {where}", _worst(rows), figures, rows)


def _worst(rows: Sequence[DurationSpread]) -> str:
    """Name the row with the highest p99.99 of those with operations enough."""
    tails = [(tail, row.name) for row in rows if (tail := row.at(_TAIL)) is not None]
    if not tails:
        return f"{NOTHING} (too few operations for p99.99)"
    tail, name = max(tails, key=lambda entry: entry[0])
    too_few = len(rows) - len(tails)
    few = f" (too few operations at {counted(too_few, 'other size')})" if too_few else ""
    return f"p99.99 {format_ns(tail)} at {name}{few}"


def _spot(point: Point) -> float:
    """Bytes that are overwritten: a hot spot, or the whole of a small range."""
    return point.number("hotspot_bytes") or point.number("range_bytes")


# Block and file I/O -------------------------------------------------------------

_CALLS = ("wal", "growing_wal", "ioping", "read", "write", "write_sync")


def _call(point: Point) -> Finding:
    """The mean time of a call of a file or a block device."""
    call = point["operation"] + (f"+{point['sync']}" if point["sync"] != "none" else "")
    past = ", past the page cache" if point["direct"] == "yes" else ""
    threads = int(point.number("threads") or 1)
    each = f", {counted(threads, 'thread')}" if threads > 1 else ""
    low, high = format_ns(point.summary.low), format_ns(point.summary.high)
    return Finding(
        f"{point['measurement'].replace('_', ' ')}: {point['pattern']} {call}, "
        f"{point['access_size_bytes']} B{past}{each}",
        format_ns(point.median),
        f"mean of a call, {low} to {high} in {point.summary.n} repeats; "
        f"{point['filesystem']}, DAX {point['dax'] or 'unknown'}",
        (point,),
    )


def _planner(device: Device) -> Iterator[Finding]:
    """A planner's costs by the tier's own times: a page read at random over one of a scan."""
    pages = device.select(MEAN, measurement="random_page")
    scans = device.select(RATE, measurement="sequential_read")
    if pages and scans:
        scan = best(scans)  # Linux reads a scan ahead: at depth 1, the device would wait for it
        random_ns = best(pages).median
        scanned_ns = pages[0].number("access_size_bytes") * NS_PER_S / scan.median
        yield Finding(
            "Planner costs, PostgreSQL",
            f"random_page_cost {max(1.0, random_ns / scanned_ns):.3g}",
            f"where seq_page_cost is 1: {format_ns(random_ns)} for 8 KiB at a random place, "
            f"{format_ns(scanned_ns)} in sequential reads of 128 KiB at queue depth "
            f"{scan['queue_depth'] or 1}, the fastest; of pages that are not cached",
            (random_ns, scanned_ns),
        )


def _left_out(device: Device) -> Iterator[Finding]:
    """Yield what measures the cache, not the tier; a chase and a hot spot are small on purpose."""
    points = [p for p in device.points if p["measurement"] in _OF_THE_TIER or p["kind"] == "index"]
    shown = set(map(id, beyond_caches(device, points)))
    small = dict.fromkeys(
        f"{p['measurement'].replace('_', ' ')} in {_range(p)}" for p in points if id(p) not in shown
    )
    if small:
        yield Finding(
            "Left out of this card",
            f"ranges below {format_bytes(CACHES * device.llc_bytes)}",
            f"{CACHES} × the last-level cache of {format_bytes(device.llc_bytes)}, which holds a "
            f"good part of them: {', '.join(small)}",
            tuple(small),
        )


# Practices ----------------------------------------------------------------------


# Words --------------------------------------------------------------------------


def _range(point: Point) -> str:
    return format_bytes(point.number("range_bytes"))
