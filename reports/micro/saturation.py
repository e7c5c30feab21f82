"""Knees: from where on a curve is near its best; up to which load a dependent one waits little.

A knee is read off medians. It is a claim as well: that the curve is there, and that one step
before it is not. Both must hold, so the weaker one stands for it (an intersection of two tests).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from reports.formatting import counted
from reports.micro.hypotheses import Claim, claim, claim_of
from reports.micro.points import RATE, Device, Point, best
from reports.micro.questions import (
    Instructions,
    access_sizes,
    queue_depths,
    sequence_of,
    thread_counts,
    waits,
)
from reports.sequences import grouped

#: A knee is where a curve comes so near to its best value.
NEAR = 0.9


@dataclass(frozen=True)
class Knee:
    """Of a curve of rates: ``curve`` in the order of the axis, its best point, the first near it.

    ``claim``: None where there is nothing to claim, as on a curve that is best where it begins.
    """

    key: str
    axis: str
    curve: tuple[Point, ...]
    top: Point
    near: Point
    claim: Claim | None

    @property
    def ends(self) -> list[Point]:
        """Where the curve begins, is near its best, is best, and ends."""
        return list(dict.fromkeys((self.curve[0], self.near, self.top, self.curve[-1])))


@dataclass(frozen=True)
class LoadedKnee:
    """Of a loaded-latency curve: up to which point latency is at most twice the idle one."""

    key: str
    curve: LoadedCurve
    claim: Claim | None


def knees(device: Device) -> list[Knee | LoadedKnee]:
    """Every knee of the card."""
    return [
        *access_size_knees(device),
        *thread_knees(device),
        *queue_knees(device),
        *loaded_knees(device),
    ]


def access_size_knees(device: Device) -> Iterator[Knee]:
    """Random accesses, by instructions."""
    for kind, same in by_sequence(access_sizes(device)):
        yield _knee(f"access size, random {kind.title}", same, "access_size_bytes")


def thread_knees(device: Device) -> Iterator[Knee]:
    """By instructions and pattern."""
    for kind, same in by_sequence(thread_counts(device)):
        for pattern in ("sequential", "random"):
            if held := [p for p in same if p["pattern"] == pattern]:
                yield _knee(f"threads, {pattern} {kind.title}", held, "threads")


def queue_knees(device: Device) -> Iterator[Knee]:
    """Of block devices, by what was done."""
    for measurement in ("random_read", "random_write", "sequential_read", "sequential_write"):
        if points := queue_depths(device, measurement):
            yield _knee(f"queue depth, {measurement}", points, "queue_depth")


def loaded_knees(device: Device) -> Iterator[LoadedKnee]:
    """Of every loaded-latency curve whose idle latency is known."""
    for curve in curves(device):
        if curve.idle is not None:
            yield LoadedKnee(f"loaded latency, {curve.title}", curve, _of_loaded(curve))


def by_sequence(points: Iterable[Point]) -> Iterable[tuple[Instructions, list[Point]]]:
    """Points of the same instructions together, in the order of their first ones."""
    return grouped((sequence_of(point), point) for point in points).items()


def _knee(key: str, points: Sequence[Point], axis: str) -> Knee:
    curve = tuple(
        best([p for p in points if p.number(axis) == x])
        for x in sorted({p.number(axis) for p in points})
    )
    top = best(curve)
    place = next(index for index, p in enumerate(curve) if p.median >= NEAR * top.median)
    near = curve[place]
    claims, choices = [], len(curve) - 1  # any step of the curve could have been the knee
    if near is not top:
        claims.append(claim_of(near, top, NEAR, choices))
    if place:
        claims.append(claim_of(top, curve[place - 1], 1 / NEAR, choices))
    return Knee(key, axis, curve, top, near, _weakest(claims))


def _of_loaded(curve: LoadedCurve) -> Claim | None:
    knee = curve.knee
    place = curve.points.index(knee) if knee else -1
    claims = []
    if knee:
        claims.append(claim(curve.idle_samples, knee.samples, 1 / TWICE, knee.alongside_idle))
    if place + 1 < len(curve.points):
        after = curve.points[place + 1]
        claims.append(claim(after.samples, curve.idle_samples, TWICE, after.alongside_idle))
    return _weakest(claims)


def _weakest(claims: Sequence[Claim | None]) -> Claim | None:
    """The one that is furthest from being shown; None where one of them cannot be tested."""
    found = [one for one in claims if one is not None]
    if not found or len(found) < len(claims):
        return None
    return max(found, key=lambda one: (not one.above, one.over_bound.p))


#: The knee: the most bandwidth at which a load waits no longer than so many times idle.
TWICE = 2.0


@dataclass(frozen=True)
class LoadedPoint:
    """``rate``: of the load, B/s; ``latency``: of one dependent load, ns; with its range.

    ``samples``: the latencies of its repeats, in their order; ``alongside_idle``: whether those
    without load were measured in the same blocks.
    """

    rate: float
    latency: float
    low: float
    high: float
    samples: tuple[float, ...] = ()
    alongside_idle: bool = True


@dataclass(frozen=True)
class LoadedCurve:
    """One kind of load, by rising bandwidth. ``idle``: latency without it, ns; None: unknown.

    ``idle_samples``: that of its repeats, in their order.
    """

    title: str
    idle: float | None
    points: tuple[LoadedPoint, ...]
    idle_samples: tuple[float, ...] = ()

    @property
    def knee(self) -> LoadedPoint | None:
        """The last point before latency first doubles; None where that is at once."""
        last = None
        for point in self.points:
            if self.idle is None or point.latency > TWICE * self.idle:
                break
            last = point
        return last


def curves(device: Device) -> list[LoadedCurve]:
    """Every kind of load that ran during the chase, of one experiment."""
    held = waits(device)
    rates = {
        (p["configuration"], p.runs): p for p in device.select(RATE, measurement="loaded_latency")
    }
    idle = [p for p in held if p["load_operation"] in ("", "none")]
    quiet = max(idle, key=lambda p: len(p.samples), default=None)
    found: dict[str, list[LoadedPoint]] = {}
    for wait in held:
        load = rates.get((wait["configuration"], wait.runs))
        if load is None or wait in idle:
            continue
        share = wait.number("load_read_share")
        reads = f", {100 * share:g} % reads" if wait["load_read_share"] else ""
        threads = counted(int(wait.number("load_threads")), "thread")
        title = f"{wait['load_operation']}{reads} of {threads}"
        summary = wait.summary
        point = LoadedPoint(
            load.median,
            summary.median,
            summary.low,
            summary.high,
            wait.samples,
            quiet is not None and wait.alongside(quiet),
        )
        found.setdefault(title, []).append(point)
    return [
        LoadedCurve(
            title,
            quiet.median if quiet else None,
            tuple(sorted(points, key=lambda p: p.rate)),
            quiet.samples if quiet else (),
        )
        for title, points in found.items()
    ]
