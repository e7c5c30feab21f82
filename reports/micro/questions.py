"""Which points answer a question of the card: those of one experiment, and none of the caches'.

Suites name their measurements alike (``mix``, ``threads``, ``access_size``) and measure them
otherwise: other patterns, ranges, partitions, threads. Points are of one *experiment* where
they are alike in every label but those that the question varies, and in what their suites set
in addition (``Point.unlabelled``); a question is answered from one
experiment alone, that of the most samples, since the best of two is a figure of neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.sequences import grouped
from reports.micro.points import DURATION, LATENCY, NAMES, OPERATIONS, RATE, Device, Point

#: Labels that say what is done in an access.
INSTRUCTIONS = ("operation", "flush", "fence")
#: What follows from other labels.
FOLLOW = ("persistent", "io_engine")
#: What only names a point. Two measurements that do the same are two experiments.
_NAMES = ("configuration",)
#: What differs between a load that waits alone and one that waits during a load.
LOAD_LABELS = ("job", "load_operation", "load_threads", "load_bytes_per_second", "load_read_share")
#: A range of fewer last-level caches than this is one of the cache's to a good part.
CACHES = 4


# What a card answers ------------------------------------------------------------------


def access_sizes(device: Device) -> list[Point]:
    """Random accesses by instructions, size and threads."""
    points = beyond_caches(device, device.select(RATE, measurement="access_size"))
    return largest(points, *INSTRUCTIONS, "access_size_bytes", "threads")


def thread_counts(device: Device) -> list[Point]:
    """Accesses of 256 bytes by instructions and threads; of each pattern its own experiment."""
    points = device.select(RATE, measurement="threads", access_size_bytes="256")
    held = beyond_caches(device, points)
    return [
        point
        for pattern in dict.fromkeys(p["pattern"] for p in held)
        for point in largest([p for p in held if p["pattern"] == pattern], *INSTRUCTIONS, "threads")
    ]


def persist_sizes(device: Device) -> list[Point]:
    """Sequential writes by instructions and size, of one thread or of several."""
    points = device.select(RATE, measurement="persist_size", pattern="sequential")
    return largest(beyond_caches(device, points), *INSTRUCTIONS, "access_size_bytes")


def persists(device: Device) -> list[Point]:
    """Writes by instructions, pattern, size and threads."""
    points = beyond_caches(device, device.select(RATE, measurement="persist"))
    return largest(points, *INSTRUCTIONS, "pattern", "access_size_bytes", "threads")


def mixes(device: Device, pattern: str) -> list[Point]:
    """Mixed accesses by share of reads and threads, both near and far."""
    points = beyond_caches(device, device.select(RATE, measurement="mix", pattern=pattern))
    return largest(points, "numa", "threads", "read_share", having=_near_and_far)


def queue_depths(device: Device, measurement: str) -> list[Point]:
    """Of block devices, by queue depth."""
    points = [p for p in device.select(RATE, measurement=measurement) if p["queue_depth"]]
    return largest(points, "queue_depth")


def waits(device: Device) -> list[Point]:
    """Dependent loads, alone and during loads."""
    points = device.select(LATENCY, measurement="loaded_latency", job=("", "chase"))
    return largest(beyond_caches(device, points), *LOAD_LABELS)


def _near_and_far(points: Sequence[Point]) -> bool:
    return len({p["numa"] == "far" for p in points}) == 2


# Experiments --------------------------------------------------------------------


def beyond_caches(device: Device, points: Iterable[Point]) -> list[Point]:
    """Those whose range the last-level cache does not hold a good part of.

    Points without a range, and all where no run reports the cache, are kept.
    """
    least = CACHES * device.llc_bytes
    return [p for p in points if not 0 < p.number("range_bytes") < least]


def varying_labels(points: Sequence[Point], *but: str) -> list[str]:
    """Labels in which points differ, without names, what follows from others, and ``but``."""
    labels = dict.fromkeys(label for point in points for label in point.labels)
    left_out = (*NAMES, *FOLLOW, *but)
    return [one for one in labels if one not in left_out and len({p[one] for p in points}) > 1]


def alike(a: Point, b: Point, *varied: str) -> bool:
    """Whether two points are of one experiment that varies these labels."""
    return _fixed(a, varied) == _fixed(b, varied)


def experiments(points: Iterable[Point], *varied: str) -> list[list[Point]]:
    """Points by experiment, in the order of the first ones."""
    held = grouped((_fixed(point, varied), point) for point in points)
    return [_once(same) for same in held.values()]


def largest(
    points: Iterable[Point], *varied: str, having: Callable[[list[Point]], object] = bool
) -> list[Point]:
    """The experiment of the most samples, of two alike that of more bytes; empty without any.

    ``having``: what an experiment must have to answer.
    """
    return max(filter(having, experiments(points, *varied)), key=_weight, default=[])


def _once(points: Sequence[Point]) -> list[Point]:
    """Of points that no label distinguishes, those of the same runs, of the most samples in all.

    Two suites may have said otherwise what a label says of both: ``numa: near``, or nothing.
    """
    weights: Counter[tuple[str, ...]] = Counter()
    for point in points:
        weights[point.runs] += len(point.samples) or 1
    heaviest: dict[frozenset[tuple[str, str]], tuple[str, ...]] = {}
    for point in points:
        kept = heaviest.setdefault(_fixed(point, ()), point.runs)
        heaviest[_fixed(point, ())] = max(kept, point.runs, key=weights.__getitem__)
    return [point for point in points if point.runs == heaviest[_fixed(point, ())]]


def _fixed(point: Point, varied: Sequence[str]) -> frozenset[tuple[str, str]]:
    left_out = (*_NAMES, *FOLLOW, *varied)
    fixed = [(name, value) for name, value in point.labels.items() if name not in left_out]
    return frozenset([*fixed, ("", point.unlabelled)])


def _weight(points: Sequence[Point]) -> tuple[int, float]:
    samples = sum(len(point.samples) or 1 for point in points)
    return samples, max(point.number("range_bytes") for point in points)


@dataclass(frozen=True)
class Instructions:
    """What a thread does for one access."""

    operation: str
    flush: str = "none"
    fence: str = "none"

    @property
    def kind(self) -> str:
        """Without the fence, as the papers name them: ``store+clwb``."""
        return self.operation + (f"+{self.flush}" if self.flush != "none" else "")

    @property
    def title(self) -> str:
        """``store+clwb+sfence``."""
        return "+".join([self.operation, *(s for s in (self.flush, self.fence) if s != "none")])


LOAD = Instructions("load")
NTSTORE = Instructions("ntstore", fence="sfence")
CLWB = Instructions("store", "clwb", "sfence")
STORE = Instructions("store", "none", "sfence")


def sequence_of(point: Point) -> Instructions:
    """Of a point's labels; those that are absent are none."""
    return Instructions(point["operation"], point["flush"] or "none", point["fence"] or "none")


def kind_of(point: Point) -> str:
    """Its instructions without their fence: ``store+clwb``."""
    return sequence_of(point).kind


def of_kind(name: str) -> dict[str, str | tuple[str, ...]]:
    """The labels of instructions without their fence: ``store+clwb``."""
    operation, _, flush = name.partition("+")
    return {"operation": operation, "flush": flush or ("", "none")}


#: What a policy varies.
_POLICY = ("measurement", "discipline", "flush", "fence", "added_fence")
_FLUSHED_LINE = "flushed_line"


def indexes(device: Device) -> Iterator[tuple[str, str, list[Point]]]:
    """Rates of each index and workload, by policy; flushes without a fence persist nothing.

    Of an index in a library, the policy is the library's.
    """
    points = [
        p
        for p in beyond_caches(device, device.select(OPERATIONS, kind="index"))
        if p["index"] != "library"
        and not p["binary"]
        and (p["fence"] != "none" or p["flush"] == "none")
    ]
    for (index, workload), same in grouped(
        ((p["index"], _of_workload(p)), p) for p in points
    ).items():
        yield index, workload, largest(same, *_POLICY)


def _of_workload(point: Point) -> str:
    """``a``; ``c, keys uniform``; ``insert, loaded_share 0.5``."""
    varied = (f"{name} {point[name]}" for name in ("keys", "loaded_share") if point[name])
    return ", ".join([str(point["workload"]), *varied])


def policy_of(point: Point) -> Instructions:
    """A discipline with its instructions; what is absent is the kernel's default."""
    fence, added = point["fence"] or "sfence", point["added_fence"]
    if added and added != "none":
        fence += f"+added {added}"
    return Instructions(point["discipline"] or "designed", point["flush"] or "clwb", fence)


@dataclass(frozen=True)
class FlushedLine:
    """Median time of a load of a line that was stored, flushed and fenced just before, ns.

    ``cached``: without a flush; ``evicted``: by clflush.
    """

    clwb: float
    cached: float
    evicted: float

    @property
    def outcome(self) -> Literal["kept", "evicted", "unclear"]:
        """What clwb does with the line: unclear midway, or where a miss takes hardly longer."""
        missing = self.evicted - self.cached
        share = (self.clwb - self.cached) / missing if missing > self.cached / 2 else 0.5
        return "kept" if share < 0.25 else "evicted" if share > 0.75 else "unclear"


def flushed_line(device: Device) -> FlushedLine | None:
    """None where one of the three was not measured."""
    points = device.select(DURATION, measurement=_FLUSHED_LINE, before="written")
    medians = {p["written_by"]: p.median for p in largest(points, "written_by")}
    if not medians.keys() >= {"clwb", "store", "clflush"}:
        return None
    return FlushedLine(medians["clwb"], medians["store"], medians["clflush"])
