"""What a device likes, in short: one row for each question that a designer asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from harness.sequences import grouped
from harness.units import NS_PER_S, counted, format_bytes
from reports.micro.card_words import (
    CachedFinding,
    CallFinding,
    ChaseFinding,
    Finding,
    KneeFinding,
    LineFinding,
    LoadedFinding,
    PersistFinding,
    PersistRow,
    PlannerFinding,
    Spread,
    TailFinding,
    TimesFinding,
)
from reports.micro.points import DURATION, EMPTY, LATENCY, MEAN, RATE, Device, Point, best
from reports.micro.practices import card_trials
from reports.micro.questions import (
    Instructions,
    beyond_caches,
    flushed_line,
    indexes,
    largest,
    persists,
    policy_of,
    sequence_of,
    varying_labels,
)
from reports.micro.saturation import Knee, LoadedKnee, by_sequence

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
    curves = [one for one in knees if isinstance(one, Knee)]
    return [
        *_knees(curves),
        *_persist(device),
        *_policies(device),
        *_times(device),
        *_chased(device),
        *_loaded(one for one in knees if isinstance(one, LoadedKnee)),
        *_tail(device),
        *_queues(curves),
        *_calls(device),
        *_planner(device),
        *_left_out(device),
    ]


# Bandwidth ----------------------------------------------------------------------


def _knees(knees: Sequence[Knee]) -> Iterator[Finding]:
    for knee in (one for one in knees if one.axis == "access_size_bytes"):
        yield KneeFinding(f"Access size, random {sequence_of(knee.top).title}", (knee,))
    by_threads = grouped(
        (
            f"{sequence_of(knee.top).title}, {knee.top['access_size_bytes']} B",
            replace(knee, name=knee.top["pattern"]),
        )
        for knee in knees
        if knee.axis == "threads"
    )
    for what, rows in by_threads.items():
        yield KneeFinding(f"Thread count, {what}", tuple(rows))


def _queues(knees: Sequence[Knee]) -> Iterator[Finding]:
    for knee in (one for one in knees if one.axis == "queue_depth"):
        size = format_bytes(knee.top.number("access_size_bytes"))
        what = f"{knee.top['measurement'].replace('_', ' ')}, {size}"
        yield KneeFinding(f"Queue depth, {what}", (knee,))


def _loaded(knees: Iterable[LoadedKnee]) -> Iterator[Finding]:
    for one in knees:
        yield LoadedFinding(f"Latency during {one.curve.title}", (one,))


def _persist(device: Device) -> Iterator[Finding]:
    for pattern in ("sequential", "random"):
        points = [p for p in persists(device) if p["pattern"] == pattern]
        sizes = sorted({p.number("access_size_bytes") for p in points})
        rows = [
            _persisting(
                format_bytes(size), [p for p in points if p.number("access_size_bytes") == size]
            )
            for size in sizes
        ]
        if found := tuple(row for row in rows if row is not None):
            yield PersistFinding(f"Persist instruction, {pattern} writes", found)


def _policies(device: Device) -> Iterator[Finding]:
    """Of each index, by workload: which discipline, flush and fence are fastest."""
    held = grouped(
        (index, row)
        for index, workload, points in indexes(device)
        if (row := _persisting(workload, points, policy_of))
    )
    for index, rows in held.items():
        yield PersistFinding(f"Persistence policy, {index}", tuple(rows))
    if line := flushed_line(device):
        yield LineFinding("A line after clwb", (line,))


def _persisting(
    name: str, points: Sequence[Point], kind_of: Callable[[Point], Instructions] = sequence_of
) -> PersistRow | None:
    kinds = dict.fromkeys(map(kind_of, points))
    fastest = [(kind, best([p for p in points if kind_of(p) == kind])) for kind in kinds]
    safe = sorted((one for one in fastest if _persists(one[0])), key=lambda one: -one[1].median)
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


def _times(device: Device) -> Iterator[Finding]:
    points = beyond_caches(device, device.select(DURATION, measurement="latency"))
    for kind, found in by_sequence(points):
        same = _of_one_suite(found)
        sizes = dict.fromkeys(p["access_size_bytes"] for p in same)
        yield TimesFinding(
            f"Latency, {kind.title}, {', '.join(sizes)} B",
            tuple(_spreads(_name_apart(same), same)),
            _empty(device, same),
        )


def _spreads(names: Sequence[str], points: Sequence[Point]) -> Iterator[Spread]:
    for name, point in zip(names, points, strict=True):
        if point.histogram is not None:
            yield Spread(name, point.histogram)


def _name_apart(points: Sequence[Point]) -> list[str]:
    """``random``; where patterns repeat, with all that differs: ``random in 256 MiB (avx2)``."""
    patterns = [p["pattern"] for p in points]
    if len(set(patterns)) == len(points):
        return patterns
    differing = varying_labels(points, "pattern", "range_bytes")
    return [
        f"{p['pattern']} in {format_bytes(_range(p))}"
        + (f" ({', '.join(_label_text(p, label) for label in differing)})" if differing else "")
        for p in points
    ]


def _label_text(point: Point, label: str) -> str:
    """``avx2``, ``base pages``, ``2 threads``, ``64 B``; others by their name."""
    value = point[label] or "none"
    texts = {"isa": value, "pages": f"{value} pages", "access_size_bytes": f"{value} B"}
    if label == "threads":
        return counted(int(point.number(label)), "thread")
    return texts.get(label, f"{label.replace('_', ' ')} {value}")


def _of_one_suite(points: Sequence[Point]) -> list[Point]:
    """Those of the settings that most of them have: others stand in their own tables."""
    return max(grouped((point.settings, point) for point in points).values(), key=len)


def _empty(device: Device, points: Sequence[Point]) -> tuple[float, float] | None:
    """The empty measurements of these points: each instruction set has one of its own."""
    of_points = {(p.settings, frozenset(p.labels.items())) for p in points}
    found = [
        one.median
        for one in device.select(EMPTY)
        if (one.settings, frozenset(one.labels.items())) in of_points
    ]
    return (min(found), max(found)) if found else None


def _chased(device: Device) -> Iterator[Finding]:
    """``rows``: ranges before which the time of a load rises, between the first and the last."""
    points = largest(device.select(LATENCY, measurement="chase"), "range_bytes")
    points = sorted(points, key=_range)
    if points:
        steps = [b for a, b in pairwise(points) if b.median > 1.5 * a.median]
        yield ChaseFinding("Latency, dependent loads", (points[0], *steps, points[-1]))


def _range(point: Point) -> float:
    return point.number("range_bytes")


def _tail(device: Device) -> Iterator[Finding]:
    """FAST'20, Figure 3, writes around a buffer; a hot spot at random places is another."""
    points = device.select(DURATION, measurement="overwrite_tail")
    for where, hot in (("around a buffer", False), ("in a hot spot", True)):
        same = [p for p in points if bool(p["hotspot_bytes"]) == hot]
        found = sorted(largest(same, "range_bytes", "hotspot_bytes"), key=_spot)
        if rows := tuple(_spreads([format_bytes(_spot(p)) for p in found], found)):
            yield TailFinding(f"Tail of overwrites {where}", rows)


def _spot(point: Point) -> float:
    """Bytes that are overwritten: a hot spot, or the whole of a small range."""
    return point.number("hotspot_bytes") or _range(point)


# Block and file I/O -------------------------------------------------------------

_CALLS = ("wal", "growing_wal", "ioping", "read", "write", "write_sync")


def _calls(device: Device) -> Iterator[Finding]:
    for point in device.select(MEAN, measurement=_CALLS):
        call = point["operation"] + (f"+{point['sync']}" if point["sync"] != "none" else "")
        past = ", past the page cache" if point["direct"] == "yes" else ""
        threads = int(point.number("threads") or 1)
        each = f", {counted(threads, 'thread')}" if threads > 1 else ""
        yield CallFinding(
            f"{point['measurement'].replace('_', ' ')}: {point['pattern']} {call}, "
            f"{point['access_size_bytes']} B{past}{each}",
            (point,),
        )


def _planner(device: Device) -> Iterator[Finding]:
    """A planner's costs by the tier's own times."""
    pages = device.select(MEAN, measurement="random_page")
    scans = device.select(RATE, measurement="sequential_read", queue_depth=("", "1"))
    if pages and scans:
        page_bytes = pages[0].number("access_size_bytes")
        scanned_ns = page_bytes * NS_PER_S / best(scans).median
        yield PlannerFinding("Planner costs, PostgreSQL", (best(pages).median, scanned_ns))


def _left_out(device: Device) -> Iterator[Finding]:
    """What is the cache's and not the tier's; a chase and a hot spot are small on purpose."""
    points = [p for p in device.points if p["measurement"] in _OF_THE_TIER or p["kind"] == "index"]
    kept = set(map(id, beyond_caches(device, points)))
    small = {
        f"{p['measurement'].replace('_', ' ')} in {format_bytes(_range(p))}": None
        for p in points
        if id(p) not in kept
    }
    if small:
        yield CachedFinding("Left out of this card", tuple(small), device.llc_bytes)
