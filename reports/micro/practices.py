"""The four best practices of the Empirical Guide (FAST'20, Section 5), tried on a device.

Each is turned into ratios: how much is gained by following it. A practice is *confirmed* where such
a ratio is shown to lie above 1.1, *refuted* where it is shown to lie below, since a gain of less
than a tenth is not worth designing for; everything else is *not testable here*, with the reason.
What is shown is decided over all verdicts of the card together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.sequences import grouped
from harness.units import counted, format_bytes
from reports.micro.points import RATE, Device, Point, best
from reports.micro.questions import (
    CLWB,
    LOAD,
    NTSTORE,
    STORE,
    Instructions,
    access_sizes,
    alike,
    beyond_caches,
    largest,
    mixes,
    persist_sizes,
    queue_depths,
    sequence_of,
    thread_counts,
    waits,
)
from reports.statistics import Missing, Ratio
from reports.trials import Trial, decided, tested, tested_points

# Knees: from where on a curve is near its best; up to which load a dependent one waits little ----
#
# A knee is read off medians. It is tested as well: that the curve is there, and that one step
# before it is not. Both must hold, so the weaker one stands for it (an intersection of two tests).

#: A knee is where a curve comes so near to its best value.
NEAR = 0.9


@dataclass(frozen=True)
class _Shown(Trial):
    """A trial of which only the expected side counts."""

    @property
    def shown(self) -> bool | None:
        """Whether its repeats show it; None where nothing is tested."""
        return self.known.shown and self.known.above if self.known else None


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
    """Of a loaded-latency curve: up to which point latency is at most twice the idle one."""

    curve: LoadedCurve


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
    """Yield the knee over thread counts of each instruction sequence and pattern."""
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
            yield LoadedKnee(
                f"loaded latency, {curve.title}", _of_loaded(curve, curve.idle), curve=curve
            )


def by_sequence(points: Iterable[Point]) -> Iterable[tuple[Instructions, list[Point]]]:
    """Points of the same instructions together, in the order of their first ones."""
    return grouped((sequence_of(point), point) for point in points).items()


def _knee(what: str, points: Sequence[Point], axis: str) -> Knee:
    curve = tuple(
        best([p for p in points if p.number(axis) == x])
        for x in sorted({p.number(axis) for p in points})
    )
    top = best(curve)
    place = next(index for index, p in enumerate(curve) if p.median >= NEAR * top.median)
    near = curve[place]
    ratios, choices = [], len(curve) - 1  # any step of the curve could have been the knee
    if near is not top:
        ratios.append(tested_points(near, top, NEAR, choices))
    if place:
        ratios.append(tested_points(top, curve[place - 1], 1 / NEAR, choices))
    return Knee(what, _weakest(ratios), axis=axis, curve=curve, top=top, near=near)


def _of_loaded(curve: LoadedCurve, idle: Point) -> Ratio | Missing:
    place = curve.points.index(curve.knee) if curve.knee else -1
    ratios = []
    if curve.knee:
        ratios.append(tested_points(idle, curve.knee.wait, 1 / TWICE))
    if place + 1 < len(curve.points):
        ratios.append(tested_points(curve.points[place + 1].wait, idle, TWICE))
    return _weakest(ratios)


def _weakest(ratios: Sequence[Ratio | Missing]) -> Ratio | Missing:
    """The one that is furthest from being shown; missing where one of them cannot be tested."""
    found = [one for one in ratios if isinstance(one, Ratio)]
    if not found or len(found) < len(ratios):
        return Missing("nothing-done")
    return max(found, key=lambda one: (not one.above, one.p))


#: The knee: the most bandwidth at which a load waits at most this multiple of the idle latency.
TWICE = 2.0


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
        """Of one dependent load, ns."""
        return self.wait.median


@dataclass(frozen=True)
class LoadedCurve:
    """One kind of load, by rising bandwidth. ``idle``: the latency without it; None: unknown."""

    title: str
    idle: Point | None
    points: tuple[LoadedPoint, ...]

    @property
    def knee(self) -> LoadedPoint | None:
        """The last point before latency first doubles; None where that is at once."""
        last = None
        for point in self.points:
            if self.idle is None or point.latency > TWICE * self.idle.median:
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
        found.setdefault(title, []).append(LoadedPoint(load, wait))
    return [
        LoadedCurve(title, quiet, tuple(sorted(points, key=lambda p: p.rate)))
        for title, points in found.items()
    ]


# Practices ------------------------------------------------------------------------------------

Outcome = Literal["confirmed", "refuted", "not testable here", "not measured"]
#: What each practice is tried on, in the order of FAST'20.
_MEASUREMENTS: Mapping[int, tuple[str, ...]] = {
    1: ("access_size", "access_size_sequential"),
    2: ("persist_size",),
    3: ("threads",),
    4: ("mix",),
}


@dataclass(frozen=True)
class Practice:
    """A practice, what was tried of it, and what came out.

    ``missing``: a code for why nothing was tried of ``measurements``.
    """

    number: int
    trials: tuple[Trial, ...]
    measurements: tuple[str, ...]
    missing: Literal["not-measured", "no-experiment", "no-far-processors"]

    @property
    def outcome(self) -> Outcome:
        """Confirmed where any trial is (there it pays to follow it), else refuted where one is."""
        if not self.trials and self.missing == "not-measured":
            return "not measured"
        seen = [trial.outcome for trial in self.trials]
        if "holds" in seen:
            return "confirmed"
        return "refuted" if "contrary" in seen else "not testable here"


@dataclass(frozen=True)
class CardTrials:
    """Everything that a card tests, decided as one family: trials by practice, and knees."""

    practices: Mapping[int, tuple[Trial, ...]]
    knees: tuple[Knee | LoadedKnee, ...]

    @property
    def shown(self) -> list[bool]:
        """Of each that has a ratio, whether it is shown."""
        every = (*(one for own in self.practices.values() for one in own), *self.knees)
        return [one.known.shown for one in every if one.known]


def card_trials(device: Device) -> CardTrials:
    """All trials and knees of a device."""
    by_practice = (
        [*_small(device)],
        [*_large(device)],
        [*_crowd(device)],
        [*_remote(device)],
    )
    of_knees = knees(device)
    every: list[Trial] = [one for own in (*by_practice, of_knees) for one in own]
    made = iter(decided(every))
    practices = {n: tuple(next(made) for _ in own) for n, own in enumerate(by_practice, 1)}
    return CardTrials(practices, tuple(k for k in made if isinstance(k, Knee | LoadedKnee)))


def practices(device: Device) -> list[Practice]:
    """All four, in the paper's order, tested among all trials of the card."""
    trials = card_trials(device).practices
    return [
        Practice(number, trials[number], measurements, _missing(device, measurements))
        for number, measurements in _MEASUREMENTS.items()
    ]


def _missing(
    device: Device, measurements: tuple[str, ...]
) -> Literal["not-measured", "no-experiment", "no-far-processors"]:
    points = device.select(RATE, measurement=measurements)
    if measurements == ("mix",) and points and all(p["numa"] != "far" for p in points):
        return "no-far-processors"
    return "no-experiment" if points else "not-measured"


#: The least gain that is worth following a practice for.
BOUND = 1.1
#: FAST'20 sees bandwidth fall from 4 to 12 threads on: with fewer nothing can be said.
_MANY_THREADS = 8
#: "Large": where ntstore leads in FAST'20, Figure 12.
_LARGE = 4096
_SMALL, _LINE = "64", "256"
_OF_SMALL = ("measurement", "pattern", "access_size_bytes", "threads")


def _small(device: Device) -> Iterator[Trial]:
    points = device.select(RATE, measurement=("access_size", "access_size_sequential"))
    points = beyond_caches(device, points)
    for kind in (LOAD, NTSTORE, CLWB):
        same = [p for p in points if sequence_of(p) == kind]
        every = largest(same, *_OF_SMALL, having=_fastest)
        held = _fastest(every)
        if not held:
            continue
        choices = len({point["threads"] for point in every})
        r64, r256, s64, s256 = held
        together = all(point.alongside(r64) for point in held)
        gained = [a * b for a, b in zip(r256.samples, s64.samples, strict=False)]
        against = [a * b for a, b in zip(r64.samples, s256.samples, strict=False)]
        yield Trial(
            f"random {kind.title}, 256 B against 64 B, beyond what they gain in sequence",
            tested(gained, against, BOUND, interim_analyses=choices)
            if together
            else Missing("different-runs"),
            points=tuple(held),
        )


def _fastest(points: Sequence[Point]) -> list[Point]:
    """Random 64 B and 256 B, sequential 64 B and 256 B, each over the thread counts.

    Empty where one of them is missing.
    """
    held = [
        [p for p in points if (p["pattern"], p["access_size_bytes"]) == (pattern, size)]
        for pattern in ("random", "sequential")
        for size in (_SMALL, _LINE)
    ]
    return [best(one) for one in held] if all(held) else []


def _large(device: Device) -> Iterator[Trial]:
    points = persist_sizes(device)
    large = sorted({int(p.number("access_size_bytes")) for p in points} - set(range(_LARGE)))
    for kind, other in ((NTSTORE, CLWB), (CLWB, STORE)):
        for size in dict.fromkeys(large[:1] + large[-1:]):
            at = [p for p in points if p.number("access_size_bytes") == size]
            a, b = ([p for p in at if sequence_of(p) == one] for one in (kind, other))
            if a and b:
                threads = int(a[0].number("threads"))  # of one experiment, so the same in all
                of = f" of {counted(threads, 'thread')}" if threads > 1 else ""
                what = f"{kind.title} against {other.title}, {format_bytes(size)}{of}"
                yield _against(what, best(a), best(b))


def _crowd(device: Device) -> Iterator[Trial]:
    held = [p for p in thread_counts(device) if p["pattern"] == "sequential"]
    for kind in (LOAD, NTSTORE, CLWB):
        points = [p for p in held if sequence_of(p) == kind]
        most = max((p.number("threads") for p in points), default=0)
        fewer = [p for p in points if p.number("threads") < most]
        if not fewer:
            continue
        last = best([p for p in points if p.number("threads") == most])
        if most < _MANY_THREADS:
            what = f"{kind.title}, best thread count against {most:g} threads"
            yield Trial(what, Missing("few-threads"), points=(best(points), last))
            continue
        top = best(fewer)
        what = f"{kind.title}, {top['threads']} threads (the best of fewer) against {most:g}"
        yield _against(what, top, last, len(fewer))


def _remote(device: Device) -> Iterator[Trial]:
    for pattern in dict.fromkeys(p["pattern"] for p in device.select(RATE, measurement="mix")):
        held = mixes(device, pattern)
        crowd = max((p.number("threads") for p in held), default=0)
        for far in (p for p in held if p["numa"] == "far" and p.number("threads") == crowd):
            near = next((p for p in held if p["numa"] != "far" and alike(p, far, "numa")), None)
            if near and far["read_share"] in ("0", "0.5", "1"):
                share = f"{100 * far.number('read_share'):g} % reads"
                what = f"{pattern}, {crowd:g} threads, {share}".removeprefix(", ")
                yield _against(f"near against far, {what}", near, far)


def _against(what: str, a: Point, b: Point, choices: int = 1) -> Trial:
    return Trial(what, tested_points(a, b, BOUND, choices), points=(a, b))
