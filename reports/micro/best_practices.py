"""The four best practices of the Empirical Guide (FAST'20, Section 5), tried on a device.

Each is turned into ratios: how much is gained by following it. A practice is *confirmed* where such
a ratio is shown to lie above 1.1, *refuted* where it is shown to lie below, since a gain of less
than a tenth is not worth designing for; everything else is *not testable here*, with the reason.
What is shown is decided over all verdicts of the card together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal

from harness.units import counted, format_bytes
from reports.formatting import interval_text, times
from reports.micro.card_lines import LINE, p_of, rate_text, threads_text, why_not_shown
from reports.micro.devices import RATE, Device, best
from reports.micro.instructions import CLWB, LOAD, NTSTORE, STORE, sequence_of
from reports.micro.knees import Knee, LoadedKnee, knees
from reports.micro.point_ratios import PointRatio
from reports.micro.sweeps import (
    alike,
    beyond_caches,
    largest,
    mixes,
    persist_sizes,
    thread_counts,
)
from reports.sections import Span, Text
from reports.statistics import Missing
from reports.trials import Trial, decided, tested
from reports.values import Point

Outcome = Literal["confirmed", "refuted", "not testable here", "not measured"]
#: What each practice is tried on, in the order of FAST'20.
_MEASUREMENTS: Mapping[int, tuple[str, ...]] = {
    1: ("access_size", "access_size_sequential"),
    2: ("persist_size",),
    3: ("threads",),
    4: ("mix",),
}


@dataclass(frozen=True)
class RateTrial(Trial):
    """A trial of the rates of points."""

    points: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Practice:
    """A practice, what was tried of it, and what came out.

    ``missing``: a code for why nothing was tried of ``measurements``.
    """

    number: int
    trials: tuple[RateTrial, ...]
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

    practices: Mapping[int, tuple[RateTrial, ...]]
    knees: tuple[Knee | LoadedKnee, ...]

    @property
    def shown(self) -> list[bool]:
        """Return whether it is shown, of each practice and knee that has a ratio."""
        every = (*(trial for trials in self.practices.values() for trial in trials), *self.knees)
        return [trial.tested.shown for trial in every if trial.tested]


def card_trials(device: Device) -> CardTrials:
    """All trials and knees of a device."""
    by_practice = (
        [*_small(device)],
        [*_large(device)],
        [*_crowd(device)],
        [*_remote(device)],
    )
    of_knees = knees(device)
    every = decided([*chain.from_iterable(by_practice), *of_knees])
    made = iter([trial for trial in every if isinstance(trial, RateTrial)])
    practices = {n: tuple(islice(made, len(trials))) for n, trials in enumerate(by_practice, 1)}
    return CardTrials(practices, tuple(k for k in every if isinstance(k, Knee | LoadedKnee)))


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


def _small(device: Device) -> Iterator[RateTrial]:
    points = device.select(RATE, measurement=("access_size", "access_size_sequential"))
    points = beyond_caches(device, points)
    for kind in (LOAD, NTSTORE, CLWB):
        same = [p for p in points if sequence_of(p) == kind]
        every = largest(same, *_OF_SMALL, having=_fastest)
        fastest = _fastest(every)
        if not fastest:
            continue
        choices = len({point["threads"] for point in every})
        r64, r256, s64, s256 = fastest
        together = all(point.alongside(r64) for point in fastest)
        gained = [a * b for a, b in zip(r256.samples, s64.samples, strict=False)]
        against = [a * b for a, b in zip(r64.samples, s256.samples, strict=False)]
        yield RateTrial(
            f"random {kind.title}, 256 B against 64 B, beyond what they gain in sequence",
            tested(gained, against, BOUND, interim_analyses=choices)
            if together
            else Missing("different-runs"),
            points=tuple(fastest),
        )


def _fastest(points: Sequence[Point]) -> list[Point]:
    """Random 64 B and 256 B, sequential 64 B and 256 B, each over the thread counts.

    Empty where one of them is missing.
    """
    groups = [
        [p for p in points if (p["pattern"], p["access_size_bytes"]) == (pattern, size)]
        for pattern in ("random", "sequential")
        for size in (_SMALL, _LINE)
    ]
    return [best(group) for group in groups] if all(groups) else []


def _large(device: Device) -> Iterator[RateTrial]:
    points = persist_sizes(device)
    large = sorted({int(p.number("access_size_bytes")) for p in points} - set(range(_LARGE)))
    for kind, other in ((NTSTORE, CLWB), (CLWB, STORE)):
        for size in dict.fromkeys(large[:1] + large[-1:]):
            at = [p for p in points if p.number("access_size_bytes") == size]
            a, b = (
                [p for p in at if sequence_of(p) == instructions] for instructions in (kind, other)
            )
            if a and b:
                threads = int(a[0].number("threads"))  # of one experiment, so the same in all
                of = f" of {counted(threads, 'thread')}" if threads > 1 else ""
                what = f"{kind.title} against {other.title}, {format_bytes(size)}{of}"
                yield _against(what, best(a), best(b))


def _crowd(device: Device) -> Iterator[RateTrial]:
    sequential = [p for p in thread_counts(device) if p["pattern"] == "sequential"]
    for kind in (LOAD, NTSTORE, CLWB):
        points = [p for p in sequential if sequence_of(p) == kind]
        most = max((p.number("threads") for p in points), default=0)
        fewer = [p for p in points if p.number("threads") < most]
        if not fewer:
            continue
        last = best([p for p in points if p.number("threads") == most])
        if most < _MANY_THREADS:
            what = f"{kind.title}, best thread count against {most:g} threads"
            yield RateTrial(what, Missing("few-threads"), points=(best(points), last))
            continue
        top = best(fewer)
        what = f"{kind.title}, {top['threads']} threads (the best of fewer) against {most:g}"
        yield _against(what, top, last, len(fewer))


def _remote(device: Device) -> Iterator[RateTrial]:
    for pattern in dict.fromkeys(p["pattern"] for p in device.select(RATE, measurement="mix")):
        mixed = mixes(device, pattern)
        crowd = max((p.number("threads") for p in mixed), default=0)
        for far in (p for p in mixed if p["numa"] == "far" and p.number("threads") == crowd):
            near = next((p for p in mixed if p["numa"] != "far" and alike(p, far, "numa")), None)
            if near and far["read_share"] in ("0", "0.5", "1"):
                share = f"{100 * far.number('read_share'):g} % reads"
                what = f"{pattern}, {crowd:g} threads, {share}".removeprefix(", ")
                yield _against(f"near against far, {what}", near, far)


def _against(what: str, a: Point, b: Point, choices: int = 1) -> RateTrial:
    return RateTrial(what, PointRatio(a, b).tested(BOUND, choices), points=(a, b))


_PRACTICES: Mapping[int, str] = {
    1: "Avoid random accesses smaller than 256 B",
    2: "Use non-temporal stores for large transfers, and control cache evictions",
    3: "Limit the number of concurrent threads accessing a DIMM",
    4: "Avoid NUMA accesses, especially read-modify-write sequences",
}


def practice_title(number: int) -> str:
    """``1. Avoid random accesses …``."""
    return f"{number}. {_PRACTICES[number]}"


def trials(practice: Practice) -> Text:
    """List the ratios that tested a practice, or the reason why none could be formed."""
    if practice.trials:
        return LINE.join(map(_trial, practice.trials))
    if practice.missing == "no-far-processors":
        return "no processors of another NUMA node: everything is near here"
    where = " in one experiment beyond the caches" if practice.missing == "no-experiment" else ""
    command = Span("harness run micro --suite device-card --tier …", "code")
    measurements = ", ".join(practice.measurements)
    return (f"not measured{where}: {measurements} of the suite device-card (", command, ")")


def _trial(trial: RateTrial) -> str:
    points, ratio, why = trial.points, trial.tested, trial.why
    measured = ""
    if ratio:
        shown = f", p {p_of(ratio)}" if ratio.shown else ""
        measured = f"{times(ratio.value)} {interval_text(ratio)}{shown}; "
    rates = [rate_text(point.median) for point in points]
    compared = f"{rates[0]} against {rates[1]}"
    if len(points) == 4:
        compared = f"random {rates[0]} and {rates[1]}, sequential {rates[2]} and {rates[3]}"
    elif why == "few-threads":
        compared = f"best with {threads_text(points[0])}, {rates[0]}"
    reasons = {
        "few-threads": f"only {threads_text(points[1])} here; the paper's DIMMs slow down with 4 "
        "to 12",
        "different-runs": "measured in different runs",
        "nothing-done": "in one of the repeats nothing was done",
    }
    reason = reasons.get(why) or (why_not_shown(ratio) if ratio and why else "")
    return f"{trial.what}: {measured}{compared}" + (f" ({reason})" if reason else "")
