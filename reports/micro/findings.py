"""What a device likes, in short: one line for each question that a designer asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness import hdr
from harness.units import format_bytes, format_ns
from reports.formatting import LINE, NOTHING, counted, p_text, percent, quantity_text
from reports.micro.figures import percentile, percentile_text, why_dashes
from reports.micro.hypotheses import Verdict
from reports.micro.points import (
    DURATION,
    EMPTY,
    LATENCY,
    MEAN,
    NAMES,
    Device,
    Point,
    best,
)
from reports.micro.practices import verdicts
from reports.micro.questions import CACHES, FOLLOW, beyond_caches, largest, persists, sequence_of
from reports.micro.saturation import (
    Knee,
    access_size_knees,
    by_sequence,
    loaded_knees,
    queue_knees,
    thread_knees,
)

Judged = Mapping[str, Verdict]
#: Two instructions closer than this are told as alike: repeats of one differ by as much.
_ALIKE = 0.97
#: What is asked of the tier, not of the caches before it.
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
#: Percentiles beside a median, and of the tail that FAST'20's Figure 3 is about.
_OF_LATENCIES, _OF_TAILS = (99.0, 99.99), (99.9, 99.99)
_FLUSHES = ("clwb", "clflushopt", "clflush")


@dataclass(frozen=True)
class Finding:
    """One line of the card. ``answer``: in a few words; ``figures``: what says so."""

    question: str
    answer: str
    figures: str

    @property
    def row(self) -> tuple[str, str, str]:
        """As a table shows it."""
        return self.question, self.answer, self.figures


def findings(device: Device) -> list[Finding]:
    """Everything that its runs tell; what was not measured is left out."""
    judged = verdicts(device)
    return [
        *_access_sizes(device, judged),
        *_threads(device, judged),
        *_persist(device),
        *_times(device),
        *_chased(device),
        *_loaded(device, judged),
        *_tail(device),
        *_queues(device, judged),
        *_calls(device),
        *_left_out(device),
    ]


# Bandwidth ----------------------------------------------------------------------


def _access_sizes(device: Device, judged: Judged) -> Iterator[Finding]:
    for knee in access_size_knees(device):
        yield _of_knee("Access size", f"random {sequence_of(knee.top).title}", knee, judged)


def _threads(device: Device, judged: Judged) -> Iterator[Finding]:
    held: dict[str, list[Knee]] = {}
    for knee in thread_knees(device):
        size = knee.top["access_size_bytes"]
        held.setdefault(f"{sequence_of(knee.top).title}, {size} B", []).append(knee)
    for what, same in held.items():
        told = [(one.top["pattern"], _of_knee("", "", one, judged)) for one in same]
        yield Finding(
            f"Thread count, {what}",
            LINE.join(f"{pattern}: {one.answer}" for pattern, one in told),
            LINE.join(f"{pattern} {one.figures}" for pattern, one in told),
        )


def _of_knee(question: str, what: str, knee: Knee, judged: Judged) -> Finding:
    """Where the curve is best, from where on it is near that, and how it ends."""
    curve, top, near, axis = knee.curve, knee.top, knee.near, knee.axis
    answer = _value(axis, top)
    if near is not top:
        answer += (
            f"; {_value(axis, near)} already {percent(round(near.median / top.median, 2))} of it"
        )
    ends = [
        f"{_value(axis, p)}: {_rate(p)}" for p in dict.fromkeys((curve[0], near, top, curve[-1]))
    ]
    threads = int(top.number("threads"))
    beside = f" ({counted(threads, 'thread')})" if threads and axis != "threads" else ""
    return Finding(
        f"{question}, {what}",
        answer + _doubted(knee.key, judged),
        ", ".join(ends) + beside + _said(knee.key, judged),
    )


def _said(key: str, judged: Judged, knee: str = "knee ") -> str:
    """Whether the knee is shown among the card's verdicts; nothing where it makes no claim."""
    verdict = judged.get(key)
    if verdict is None:
        return ""
    if verdict.shown and verdict.claim.above:
        return f", {knee}shown (p {p_text(verdict.judgement.adjusted_p)})"
    return f", {knee}not shown ({verdict.why_not or 'its repeats say otherwise'})"


def _doubted(key: str, judged: Judged, knee: str = "knee ") -> str:
    """What stands behind an answer: devices side by side are shown by their answers alone."""
    verdict = judged.get(key)
    shown = verdict is None or (verdict.shown and verdict.claim.above)
    return "" if shown else f" ({knee}not shown)"


def _persist(device: Device) -> Iterator[Finding]:
    points = persists(device)
    for pattern in ("sequential", "random"):
        sizes = sorted({p.number("access_size_bytes") for p in points if p["pattern"] == pattern})
        told = [
            _fastest_persisting(
                size,
                [
                    p
                    for p in points
                    if p["pattern"] == pattern and p.number("access_size_bytes") == size
                ],
            )
            for size in sizes
        ]
        said = [one for one in told if one is not None]
        if said:
            yield Finding(
                f"Persist instruction, {pattern} writes",
                LINE.join(f"{size}: {answer}" for size, answer, _ in said),
                LINE.join(f"{size}: {figures}" for size, _, figures in said),
            )


def _fastest_persisting(size: float, points: Sequence[Point]) -> tuple[str, str, str] | None:
    """Size, the fastest instructions (several where they are alike), and every one's rate."""
    fastest = [best(held) for _, held in by_sequence(points)]
    safe = sorted((p for p in fastest if _persists(p)), key=lambda p: -p.median)
    if not safe or not safe[0].median:
        return None
    first = safe[0].median
    alike = [sequence_of(p).title for p in safe if p.median >= _ALIKE * first]
    told = [f"{sequence_of(p).title} {_rate(p)}" for p in safe]
    told += [f"no flush {_rate(p)} (durable with eADR only)" for p in fastest if not _persists(p)]
    return format_bytes(size), " or ".join(alike), ", ".join(told)


def _persists(point: Point) -> bool:
    return point["operation"] == "ntstore" or point["flush"] in _FLUSHES


# Latency ------------------------------------------------------------------------


def _times(device: Device) -> Iterator[Finding]:
    for kind, found in by_sequence(_latencies(device)):
        same = _of_one_suite(found)
        told = [
            (name, p.histogram)
            for name, p in zip(_told_apart(same), same, strict=True)
            if p.histogram is not None
        ]
        sizes = dict.fromkeys(p["access_size_bytes"] for p in same)
        yield Finding(
            f"Latency, {kind.title}, {', '.join(sizes)} B",
            ", ".join(f"{name} {format_ns(h.percentile(50))}" for name, h in told),
            LINE.join(f"{name} {_tail_text(h, _OF_LATENCIES)}" for name, h in told)
            + _why_dashes([h for _, h in told], _OF_LATENCIES)
            + _empty(device, same),
        )


def _told_apart(points: Sequence[Point]) -> list[str]:
    """``random``; where patterns repeat, with all that differs: ``random in 256 MiB (avx2)``."""
    patterns = [p["pattern"] for p in points]
    if len(set(patterns)) == len(points):
        return patterns
    labels = dict.fromkeys(label for p in points for label in p.labels)
    left_out = (*NAMES, *FOLLOW, "pattern", "range_bytes")
    differing = [
        label for label in labels if label not in left_out and len({p[label] for p in points}) > 1
    ]
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
    held: dict[str, list[Point]] = {}
    for point in points:
        held.setdefault(point.settings, []).append(point)
    return max(held.values(), key=len)


def _latencies(device: Device) -> list[Point]:
    return beyond_caches(device, device.select(DURATION, measurement="latency"))


def _empty(device: Device, points: Sequence[Point]) -> str:
    """The empty measurements of these points: each instruction set has one of its own."""
    of_points = {(p.settings, frozenset(p.labels.items())) for p in points}
    found = [
        one.median
        for one in device.select(EMPTY)
        if (one.settings, frozenset(one.labels.items())) in of_points
    ]
    if not found:
        return ""
    low, high = format_ns(min(found)), format_ns(max(found))
    told = low if low == high else f"{low} to {high}"
    return f"; the empty measurement, {told}, is in all"


def _chased(device: Device) -> Iterator[Finding]:
    points = largest(device.select(LATENCY, measurement="chase"), "range_bytes")
    points = sorted(points, key=_range)
    if not points:
        return
    last = points[-1]
    steps = [
        f"{format_bytes(_range(b))}: {format_ns(b.median)}"
        for a, b in pairwise(points)
        if b.median > 1.5 * a.median
    ]
    yield Finding(
        "Latency, dependent loads",
        f"{format_ns(last.median)} in {format_bytes(_range(last))}",
        f"{format_bytes(_range(points[0]))}: {format_ns(points[0].median)}; steps at "
        f"{', '.join(steps) or 'no size'}; {last['pages'] or 'unknown'} pages",
    )


def _range(point: Point) -> float:
    return point.number("range_bytes")


def _loaded(device: Device, judged: Judged) -> Iterator[Finding]:
    for one in loaded_knees(device):
        curve = one.curve
        assert curve.idle is not None
        knee, last = curve.knee, curve.points[-1]
        held = f"up to {quantity_text(knee.rate, 'B/s')}" if knee else "at no load of those tried"
        # Where the most load makes nobody wait longer, there is no knee to be shown.
        noun, all_of_it = ("", ", the most there was") if knee is last else ("knee ", "")
        yield Finding(
            f"Latency during {curve.title}",
            f"at most twice the idle one {held}{all_of_it}{_doubted(one.key, judged, noun)}",
            f"idle {format_ns(curve.idle)}; during the most load, "
            f"{quantity_text(last.rate, 'B/s')}, "
            f"{format_ns(last.latency)}{_said(one.key, judged, noun)}",
        )


def _tail(device: Device) -> Iterator[Finding]:
    """FAST'20, Figure 3, writes around a buffer; a hot spot at random places is another."""
    points = device.select(DURATION, measurement="overwrite_tail")
    for where, hot in (("around a buffer", False), ("in a hot spot", True)):
        same = [p for p in points if bool(p["hotspot_bytes"]) == hot]
        yield from _tail_of(where, largest(same, "range_bytes", "hotspot_bytes"))


def _tail_of(where: str, points: Sequence[Point]) -> Iterator[Finding]:
    held = [
        (format_bytes(_spot(point)), point.histogram)
        for point in sorted(points, key=_spot)
        if point.histogram is not None
    ]
    if held:
        yield Finding(
            f"Tail of overwrites {where}",
            _worst(held),
            LINE.join(f"{spot}: {_tail_text(h, _OF_TAILS)}" for spot, h in held)
            + _why_dashes([h for _, h in held], _OF_TAILS),
        )


def _worst(held: Sequence[tuple[str, hdr.Histogram]]) -> str:
    """The highest p99.99 of those that have enough operations for one, and where it is."""
    percent = _OF_TAILS[-1]
    found = [(percentile(histogram, percent), spot) for spot, histogram in held]
    known = [(value, spot) for value, spot in found if value is not None]
    if not known:
        return f"{NOTHING} (too few operations for p{percent:g})"
    value, spot = max(known, key=lambda one: one[0])
    few = len(found) - len(known)
    left_out = f" (too few operations at {counted(few, 'other size')})" if few else ""
    return f"p{percent:g} {format_ns(value)} at {spot}{left_out}"


def _tail_text(histogram: hdr.Histogram, percents: Sequence[float]) -> str:
    """``p99.9 300 ns, p99.99 —, most 2.25 µs``."""
    said = [f"p{percent:g} {percentile_text(histogram, percent)}" for percent in percents]
    return ", ".join([*said, f"most {format_ns(histogram.max)}"])


def _why_dashes(histograms: Sequence[hdr.Histogram], percents: Sequence[float]) -> str:
    why = why_dashes(histograms, percents)
    return LINE + why if why else ""


def _spot(point: Point) -> float:
    """Bytes that are overwritten: a hot spot, or the whole of a small range."""
    return point.number("hotspot_bytes") or _range(point)


# Block and file I/O -------------------------------------------------------------


def _queues(device: Device, judged: Judged) -> Iterator[Finding]:
    for knee in queue_knees(device):
        size = format_bytes(knee.top.number("access_size_bytes"))
        what = f"{knee.top['measurement'].replace('_', ' ')}, {size}"
        yield _of_knee("Queue depth", what, knee, judged)


def _calls(device: Device) -> Iterator[Finding]:
    for point in device.select(MEAN, measurement=("wal", "ioping", "read", "write", "write_sync")):
        call = point["operation"] + (f"+{point['sync']}" if point["sync"] != "none" else "")
        past = ", past the page cache" if point["direct"] == "yes" else ""
        summary = point.summary
        yield Finding(
            f"{point['measurement'].replace('_', ' ')}: {point['pattern']} {call}, "
            f"{point['access_size_bytes']} B{past}",
            format_ns(summary.median),
            f"mean of a call, {format_ns(summary.low)} to {format_ns(summary.high)} in "
            f"{summary.n} repeats; {point['filesystem']}, DAX {point['dax'] or 'unknown'}",
        )


def _left_out(device: Device) -> Iterator[Finding]:
    """What is the cache's and not the tier's; a chase and a hot spot are small on purpose."""
    points = [p for p in device.points if p["measurement"] in _OF_THE_TIER]
    kept = set(map(id, beyond_caches(device, points)))
    small = {
        f"{p['measurement'].replace('_', ' ')} in {format_bytes(_range(p))}": None
        for p in points
        if id(p) not in kept
    }
    if small:
        yield Finding(
            "Left out of this card",
            f"ranges below {format_bytes(CACHES * device.llc_bytes)}",
            f"{CACHES} × the last-level cache of {format_bytes(device.llc_bytes)}, which holds a "
            f"good part of them: {', '.join(small)}",
        )


# Shared -------------------------------------------------------------------------


def _value(axis: str, point: Point) -> str:
    number = point.number(axis)
    if axis.endswith("_bytes"):
        return format_bytes(number)
    return counted(int(number), "thread") if axis == "threads" else f"depth {number:g}"


def _rate(point: Point) -> str:
    return quantity_text(point.median, "B/s")
