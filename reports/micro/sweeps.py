"""Points that answer a question of the card: of one experiment, and none of the caches'.

Suites name their measurements alike (``mix``, ``threads``, ``access_size``) and measure them
otherwise: other patterns, ranges, partitions, threads. Points are of one *experiment* where
they are alike in every label but those that the question varies, and in what their suites set
in addition (``Point.settings``); a question is answered from one
experiment alone, that of the most samples, since the best of two is a figure of neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from harness.sequences import grouped
from harness.store.result import Label
from reports.micro.devices import LATENCY, NAMES, RATE, Device
from reports.values import Point

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
    beyond = beyond_caches(device, points)
    return [
        point
        for pattern in dict.fromkeys(p["pattern"] for p in beyond)
        for point in largest(
            [p for p in beyond if p["pattern"] == pattern], *INSTRUCTIONS, "threads"
        )
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
    """Return the points of block devices by queue depth."""
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
    """Return the points whose range is well beyond the last-level cache.

    Points without a range, and all where no run reports the cache, are kept.
    """
    least = CACHES * device.llc_bytes
    return [p for p in points if not 0 < p.number("range_bytes") < least]


def varying_labels(points: Sequence[Point], *but: str) -> list[str]:
    """Labels in which points differ, without names, what follows from others, and ``but``."""
    labels = dict.fromkeys(label for point in points for label in point.labels)
    left_out = (*NAMES, *FOLLOW, *but)
    return [
        label for label in labels if label not in left_out and len({p[label] for p in points}) > 1
    ]


def alike(a: Point, b: Point, *varied: str) -> bool:
    """Return whether two points are of one experiment that varies these labels."""
    return _fixed(a, varied) == _fixed(b, varied)


def experiments(points: Iterable[Point], *varied: str) -> list[list[Point]]:
    """Points by experiment, in the order of the first ones."""
    by_fixed = grouped((_fixed(point, varied), point) for point in points)
    return [_once(same) for same in by_fixed.values()]


def largest(
    points: Iterable[Point], *varied: str, having: Callable[[list[Point]], object] = bool
) -> list[Point]:
    """The experiment of the most samples, of two alike that of more bytes; empty without any.

    ``having``: what an experiment must have to answer.
    """
    return max(filter(having, experiments(points, *varied)), key=_weight, default=[])


def _once(points: Sequence[Point]) -> list[Point]:
    """Choose, of points that no label distinguishes, those of the same runs with most samples.

    Two suites may have said otherwise what a label says of both: ``numa: near``, or nothing.
    """
    weights: Counter[tuple[str, ...]] = Counter()
    for point in points:
        weights[point.runs] += len(point.samples) or 1
    heaviest: dict[frozenset[tuple[str, Label]], tuple[str, ...]] = {}
    for point in points:
        previous = heaviest.setdefault(_fixed(point, ()), point.runs)
        heaviest[_fixed(point, ())] = max(previous, point.runs, key=weights.__getitem__)
    return [point for point in points if point.runs == heaviest[_fixed(point, ())]]


def _fixed(point: Point, varied: Sequence[str]) -> frozenset[tuple[str, Label]]:
    left_out = (*_NAMES, *FOLLOW, *varied)
    fixed: list[tuple[str, Label]] = [
        (name, value) for name, value in point.labels.items() if name not in left_out
    ]
    return frozenset([*fixed, ("", point.settings)])


def _weight(points: Sequence[Point]) -> tuple[int, float]:
    samples = sum(len(point.samples) or 1 for point in points)
    return samples, max(point.number("range_bytes") for point in points)
