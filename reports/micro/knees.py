"""Knees: from where on a curve is near its best; up to which load a dependent load waits little.

A knee is read off medians, and tested: of rates, that the curve is near its best there and not
one step before it; of loaded latency, that a load waits at most ``TWICE`` as long as idle at the
knee and at each point before it, and longer at each point after it. All must hold, so the weakest
test stands for the knee (an intersection).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.sequences import grouped
from harness.units import counted, format_bytes, format_ns
from reports.formatting import NOTHING, percent
from reports.micro.card_lines import (
    LINE,
    Finding,
    p_of,
    place_text,
    rate_text,
    threads_text,
    why_not_shown,
)
from reports.micro.devices import RATE, Device, best
from reports.micro.instructions import Instructions, sequence_of
from reports.micro.point_ratios import PointRatio
from reports.micro.sweeps import access_sizes, queue_depths, thread_counts, waits
from reports.statistics import Missing, Ratio
from reports.trials import Trial
from reports.values import Point

#: A knee of a curve of rates is where it comes so near to its best value.
NEAR = 0.9
#: A knee of a loaded-latency curve is its last point before a load first waits more than this
#: multiple of the idle latency.
TWICE = 2.0


@dataclass(frozen=True)
class _Shown(Trial):
    """A trial of which only the expected side counts."""

    @property
    def shown(self) -> bool | None:
        """Return whether its repeats show it; None where nothing is tested."""
        return self.tested.shown and self.tested.above if self.tested else None


@dataclass(frozen=True, kw_only=True)
class Knee(_Shown):
    """The knee of a curve of rates: ``curve`` by the axis, its best point, the first near it.

    No ratio is tested on a curve that is best where it begins. ``name``: of the curve among
    several of a question.
    """

    axis: str
    curve: tuple[Point, ...]
    top: Point
    near: Point
    name: str = ""

    @property
    def ends(self) -> list[Point]:
        """Where the curve begins, is near its best, is best, and ends."""
        return list(dict.fromkeys((self.curve[0], self.near, self.top, self.curve[-1])))


@dataclass(frozen=True, kw_only=True)
class LoadedKnee(_Shown):
    """The knee of a loaded-latency curve."""

    curve: LoadedCurve


def knees(device: Device) -> list[Knee | LoadedKnee]:
    """Return all knees of the card."""
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
    """Yield the knee over thread counts of each instruction sequence and pattern."""
    for kind, same in by_sequence(thread_counts(device)):
        for pattern in ("sequential", "random"):
            if of_pattern := [p for p in same if p["pattern"] == pattern]:
                yield _knee(f"threads, {pattern} {kind.title}", of_pattern, "threads")


def queue_knees(device: Device) -> Iterator[Knee]:
    """Yield the knees of block devices, by what was done."""
    for measurement in ("random_read", "random_write", "sequential_read", "sequential_write"):
        if points := queue_depths(device, measurement):
            yield _knee(f"queue depth, {measurement}", points, "queue_depth")


def loaded_knees(device: Device) -> Iterator[LoadedKnee]:
    """Yield the knee of each loaded-latency curve whose idle latency is known."""
    for curve in curves(device):
        if curve.idle is not None:
            yield LoadedKnee(
                f"loaded latency, {curve.title}", _of_loaded(curve, curve.idle), curve=curve
            )


def near_best(points: Iterable[Point], top: Point) -> list[Point]:
    """Points that come near the best one: the first of them on a curve is its knee."""
    return [point for point in points if point.median >= NEAR * top.median]


def by_sequence(points: Iterable[Point]) -> Iterable[tuple[Instructions, list[Point]]]:
    """Points of the same instructions together, in the order of their first ones."""
    return grouped((sequence_of(point), point) for point in points).items()


def _knee(what: str, points: Sequence[Point], axis: str) -> Knee:
    curve = tuple(
        best([p for p in points if p.number(axis) == x])
        for x in sorted({p.number(axis) for p in points})
    )
    top = best(curve)
    near = near_best(curve, top)[0]
    place = curve.index(near)
    ratios, choices = [], len(curve) - 1  # any step of the curve could have been the knee
    if near is not top:
        ratios.append(PointRatio(near, top).tested(NEAR, choices))
    if place:
        ratios.append(PointRatio(top, curve[place - 1]).tested(1 / NEAR, choices))
    return Knee(what, _weakest(ratios), axis=axis, curve=curve, top=top, near=near)


def _of_loaded(curve: LoadedCurve, idle: Point) -> Ratio | Missing:
    """Test every point, so that p needs no correction although the knee is chosen.

    In truth, some point is the first that is beyond the bound, and some point the last within it.
    A wrong knee is shown only if one of these two is shown to lie on the wrong side, whichever knee
    was chosen, and each has one wrong side of its two-sided test.
    """
    place = curve.points.index(curve.knee) + 1 if curve.knee else 0
    within = [PointRatio(idle, point.wait).tested(1 / TWICE) for point in curve.points[:place]]
    beyond = [PointRatio(point.wait, idle).tested(TWICE) for point in curve.points[place:]]
    return _weakest([*within, *beyond])


def _weakest(ratios: Sequence[Ratio | Missing]) -> Ratio | Missing:
    """The one that is furthest from being shown; missing where one of them cannot be tested."""
    testable = [ratio for ratio in ratios if isinstance(ratio, Ratio)]
    if not testable or len(testable) < len(ratios):
        return Missing("nothing-done")
    return max(testable, key=lambda ratio: (not ratio.above, ratio.p))


@dataclass(frozen=True)
class LoadedPoint:
    """The bandwidth of a load, and the latency of a dependent load during it."""

    load: Point
    wait: Point

    @property
    def rate(self) -> float:
        """The bandwidth of the load, in B/s."""
        return self.load.median

    @property
    def latency(self) -> float:
        """Return the latency of one dependent load, in ns."""
        return self.wait.median


@dataclass(frozen=True)
class LoadedCurve:
    """One kind of load, by rising bandwidth. ``idle``: the latency without it; None: unknown."""

    title: str
    idle: Point | None
    points: tuple[LoadedPoint, ...]

    @property
    def knee(self) -> LoadedPoint | None:
        """The knee (``TWICE``); None where the first point is beyond it."""
        last = None
        for point in self.points:
            if self.idle is None or point.latency > TWICE * self.idle.median:
                break
            last = point
        return last


def curves(device: Device) -> list[LoadedCurve]:
    """Return a curve for each kind of load that ran during the chase, of one experiment."""
    all_waits = waits(device)
    rates = {
        (p["configuration"], p.runs): p for p in device.select(RATE, measurement="loaded_latency")
    }
    idle = [p for p in all_waits if p["load_operation"] in ("", "none")]
    quiet = max(idle, key=lambda p: len(p.samples), default=None)
    by_title: dict[str, list[LoadedPoint]] = {}
    for wait in all_waits:
        load = rates.get((wait["configuration"], wait.runs))
        if load is None or wait in idle:
            continue
        share = wait.number("load_read_share")
        reads = f", {100 * share:g} % reads" if wait["load_read_share"] else ""
        threads = counted(int(wait.number("load_threads")), "thread")
        title = f"{wait['load_operation']}{reads} of {threads}"
        by_title.setdefault(title, []).append(LoadedPoint(load, wait))
    return [
        LoadedCurve(title, quiet, tuple(sorted(points, key=lambda p: p.rate)))
        for title, points in by_title.items()
    ]


# Lines of the card ------------------------------------------------------------


def bandwidth_lines(knees: Sequence[Knee]) -> Iterator[Finding]:
    """Lines of access sizes, and of thread counts: patterns of the same instructions together."""
    for knee in (knee for knee in knees if knee.axis == "access_size_bytes"):
        yield _line(f"Access size, random {sequence_of(knee.top).title}", knee)
    by_threads = grouped(
        (
            f"{sequence_of(knee.top).title}, {knee.top['access_size_bytes']} B",
            replace(knee, name=knee.top["pattern"]),
        )
        for knee in knees
        if knee.axis == "threads"
    )
    for what, rows in by_threads.items():
        yield _line(f"Thread count, {what}", *rows)


def queue_lines(knees: Sequence[Knee]) -> Iterator[Finding]:
    """Lines of queue depths, one for each measurement of a block device."""
    for knee in (knee for knee in knees if knee.axis == "queue_depth"):
        size = format_bytes(knee.top.number("access_size_bytes"))
        yield _line(f"Queue depth, {knee.top['measurement'].replace('_', ' ')}, {size}", knee)


def _line(question: str, *knees: Knee) -> Finding:
    """Where curves of bandwidth flatten."""
    answer, figures = (LINE.join(map(words, knees)) for words in (_knee_answer, _knee_figures))
    return Finding(question, answer, figures, knees)


def _knee_answer(knee: Knee) -> str:
    near = ""
    if knee.near is not knee.top:
        share = percent(round(knee.near.median / knee.top.median, 2))
        near = f"; {place_text(knee.axis, knee.near)} already {share} of it"
    name = f"{knee.name}: " if knee.name else ""
    return f"{name}{place_text(knee.axis, knee.top)}{near}{_doubt(knee, 'knee ')}"


def _knee_figures(knee: Knee) -> str:
    ends = [f"{place_text(knee.axis, point)}: {rate_text(point.median)}" for point in knee.ends]
    one_count = knee.axis != "threads" and int(knee.top.number("threads"))
    threads = f" ({threads_text(knee.top)})" if one_count else ""
    name = f"{knee.name} " if knee.name else ""
    return f"{name}{', '.join(ends)}{threads}{_said(knee, 'knee ')}"


def loaded_line(knee: LoadedKnee) -> Finding:
    """Up to which load a load waits at most twice as long as on an idle device."""
    curve = knee.curve
    last = curve.points[-1]
    upto = f"up to {rate_text(curve.knee.rate)}" if curve.knee else "at no load of those tried"
    whole = curve.knee is last
    doubt = f", the most there was{_doubt(knee, '')}" if whole else _doubt(knee, "knee ")
    idle = NOTHING if curve.idle is None else format_ns(curve.idle.median)
    return Finding(
        f"Latency during {curve.title}",
        f"at most twice the idle one {upto}{doubt}",
        f"idle {idle}; during the most load, {rate_text(last.rate)}, "
        f"{format_ns(last.latency)}{_said(knee, '' if whole else 'knee ')}",
        (knee,),
    )


def _said(knee: Knee | LoadedKnee, noun: str) -> str:
    if knee.tested is None:
        return ""
    if knee.shown:
        return f", {noun}shown (p {p_of(knee.tested)})"
    return f", {noun}not shown ({why_not_shown(knee.tested) or 'its repeats say otherwise'})"


def _doubt(knee: Knee | LoadedKnee, noun: str) -> str:
    return f" ({noun}not shown)" if knee.shown is False else ""
