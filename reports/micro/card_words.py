"""The rows of a card and of its practices: what was found, and in which words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness import hdr
from harness.units import counted, format_bytes, format_ns
from reports.formatting import NOTHING, interval_text, p_text, percent, quantity_text, times
from reports.micro.figures import percentile
from reports.micro.points import Point
from reports.micro.practices import Practice
from reports.micro.questions import CACHES, FlushedLine
from reports.micro.saturation import Knee, LoadedKnee
from reports.sections import Span, Text
from reports.statistics import Ratio
from reports.trials import Trial

_LINE = ";\n"
#: The percentile by which tails are compared.
TAIL = 99.99
_PRACTICES: Mapping[int, str] = {
    1: "Avoid random accesses smaller than 256 B",
    2: "Use non-temporal stores for large transfers, and control cache evictions",
    3: "Limit the number of concurrent threads accessing a DIMM",
    4: "Avoid NUMA accesses, especially read-modify-write sequences",
}


@dataclass(frozen=True)
class Finding(ABC):
    """One line of the card; a derived class says what its ``rows`` are."""

    question: str
    rows: tuple[Any, ...]

    @property
    @abstractmethod
    def answer(self) -> str:
        """What is best, in a few words."""

    @property
    @abstractmethod
    def figures(self) -> str:
        """The numbers that the answer is read from."""


@dataclass(frozen=True)
class KneeFinding(Finding):
    """Where curves of bandwidth flatten."""

    rows: tuple[Knee, ...]

    @property
    def answer(self) -> str:
        return _LINE.join(map(_knee_answer, self.rows))

    @property
    def figures(self) -> str:
        return _LINE.join(map(_knee_figures, self.rows))


@dataclass(frozen=True)
class LoadedFinding(Finding):
    """Up to which load a load waits at most twice as long as on an idle device."""

    rows: tuple[LoadedKnee]

    @property
    def answer(self) -> str:
        (row,) = self.rows
        curve = row.curve
        upto = f"up to {_rate(curve.knee.rate)}" if curve.knee else "at no load of those tried"
        most = curve.knee is curve.points[-1]
        doubt = f", the most there was{_doubt(row, '')}" if most else _doubt(row, "knee ")
        return f"at most twice the idle one {upto}{doubt}"

    @property
    def figures(self) -> str:
        (row,) = self.rows
        last = row.curve.points[-1]
        idle = NOTHING if row.curve.idle is None else format_ns(row.curve.idle.median)
        noun = "" if row.curve.knee is last else "knee "
        return (
            f"idle {idle}; during the most load, {_rate(last.rate)}, "
            f"{format_ns(last.latency)}{_said(row, noun)}"
        )


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


@dataclass(frozen=True)
class PersistFinding(Finding):
    """Which instructions persist a write fastest."""

    rows: tuple[PersistRow, ...]

    @property
    def answer(self) -> str:
        return _LINE.join(f"{row.name}: {' or '.join(row.alike)}" for row in self.rows)

    @property
    def figures(self) -> str:
        return _LINE.join(row.figures for row in self.rows)


@dataclass(frozen=True)
class LineFinding(Finding):
    """What clwb does with the line."""

    rows: tuple[FlushedLine]

    @property
    def answer(self) -> str:
        return self.rows[0].outcome

    @property
    def figures(self) -> str:
        (line,) = self.rows
        gains = {
            "kept": "; indexes that use a line again after its flush gain by clwb over clflush "
            "(BENTŌ)",
            "evicted": "; the gain of indexes by clwb over clflush (BENTŌ) is absent here",
        }
        return (
            f"a load after store+clwb+sfence {format_ns(line.clwb)}, after store+sfence "
            f"{format_ns(line.cached)}, after store+clflush+sfence {format_ns(line.evicted)}"
            f"{gains.get(line.outcome, '')}"
        )


@dataclass(frozen=True)
class Spread:
    """Durations of one configuration, ns."""

    name: str
    histogram: hdr.Histogram

    def at(self, percent: float) -> float | None:
        """A percentile; None where there are too few operations for it."""
        return percentile(self.histogram, percent)

    def text(self, *percents: float) -> str:
        """``p99 300 ns, p99.99 —, most 2 µs``."""
        values = [(one, self.at(one)) for one in percents]
        texts = [f"p{one:g} {NOTHING if v is None else format_ns(v)}" for one, v in values]
        return ", ".join([*texts, f"most {format_ns(self.histogram.max)}"])


@dataclass(frozen=True)
class SpreadFinding(Finding):
    """Percentiles of durations, in rows."""

    rows: tuple[Spread, ...]

    def missing(self, *percents: float) -> list[tuple[float, int]]:
        """Percentiles that a row has too few operations for, and how many they take."""
        return [(p, hdr.fewest(p)) for p in percents if any(row.at(p) is None for row in self.rows)]

    def _rows(self, after_name: str, *percents: float) -> str:
        texts = [f"{row.name}{after_name} {row.text(*percents)}" for row in self.rows]
        lacking = [f"p{one:g} takes {fewest:,}" for one, fewest in self.missing(*percents)]
        few = [f"{NOTHING}: too few operations, {', '.join(lacking)}"] if lacking else []
        return _LINE.join([*texts, *few])


@dataclass(frozen=True)
class TimesFinding(SpreadFinding):
    """Durations of single operations.

    ``empty``: the shortest and longest empty measurement that is in all rows, ns; None where none
    was measured.
    """

    empty: tuple[float, float] | None = None

    @property
    def answer(self) -> str:
        middles = ((one.name, one.histogram.percentile(50)) for one in self.rows)
        return ", ".join(f"{name} {format_ns(middle)}" for name, middle in middles)

    @property
    def figures(self) -> str:
        empty = ""
        if self.empty:
            ends = " to ".join(format_ns(end) for end in dict.fromkeys(self.empty))
            empty = f"; the empty measurement, {ends}, is in all"
        return self._rows("", 99.0, TAIL) + empty


@dataclass(frozen=True)
class TailFinding(SpreadFinding):
    """The longest durations of overwrites."""

    @property
    def worst(self) -> Spread | None:
        """The row with the highest p99.99; None where all have too few operations for one."""
        tails = [(tail, row) for row in self.rows if (tail := row.at(TAIL)) is not None]
        return max(tails, key=lambda one: one[0], default=(0.0, None))[1]

    @property
    def too_few(self) -> int:
        """How many rows have too few operations for p99.99."""
        return sum(row.at(TAIL) is None for row in self.rows)

    @property
    def answer(self) -> str:
        worst = self.worst
        tail = None if worst is None else worst.at(TAIL)
        if worst is None or tail is None:
            return f"{NOTHING} (too few operations for p99.99)"
        others = counted(self.too_few, "other size")
        few = f" (too few operations at {others})" if self.too_few else ""
        return f"p99.99 {format_ns(tail)} at {worst.name}{few}"

    @property
    def figures(self) -> str:
        return self._rows(":", 99.9, TAIL)


@dataclass(frozen=True)
class ChaseFinding(Finding):
    """Ranges before which the time of a dependent load rises, between the first and the last."""

    rows: tuple[Point, ...]

    @property
    def answer(self) -> str:
        return f"{format_ns(self.rows[-1].median)} in {_range(self.rows[-1])}"

    @property
    def figures(self) -> str:
        first, *middle, last = self.rows
        steps = [f"{_range(step)}: {format_ns(step.median)}" for step in middle]
        return (
            f"{_range(first)}: {format_ns(first.median)}; steps at "
            f"{', '.join(steps) or 'no size'}; {last['pages'] or 'unknown'} pages"
        )


@dataclass(frozen=True)
class CallFinding(Finding):
    """The mean time of a call of a file or a block device."""

    rows: tuple[Point]

    @property
    def answer(self) -> str:
        return format_ns(self.rows[0].median)

    @property
    def figures(self) -> str:
        (point,) = self.rows
        low, high = format_ns(point.summary.low), format_ns(point.summary.high)
        return (
            f"mean of a call, {low} to {high} in {point.summary.n} repeats; "
            f"{point['filesystem']}, DAX {point['dax'] or 'unknown'}"
        )


@dataclass(frozen=True)
class PlannerFinding(Finding):
    """A page read at random over one of a scan: ``rows`` are both, in ns."""

    rows: tuple[float, float]

    @property
    def answer(self) -> str:
        random_ns, scanned_ns = self.rows
        return f"random_page_cost {max(1.0, random_ns / scanned_ns):.3g}"

    @property
    def figures(self) -> str:
        random_ns, scanned_ns = self.rows
        return (
            f"where seq_page_cost is 1: {format_ns(random_ns)} for 8 KiB at a random place, "
            f"{format_ns(scanned_ns)} in sequential reads of 128 KiB; of pages that are not cached"
        )


@dataclass(frozen=True)
class CachedFinding(Finding):
    """What is the cache's and not the tier's: ``rows`` are measurements."""

    rows: tuple[str, ...]
    llc_bytes: int

    @property
    def answer(self) -> str:
        return f"ranges below {format_bytes(CACHES * self.llc_bytes)}"

    @property
    def figures(self) -> str:
        return (
            f"{CACHES} × the last-level cache of {format_bytes(self.llc_bytes)}, which holds a "
            f"good part of them: {', '.join(self.rows)}"
        )


def practice_title(number: int) -> str:
    """``1. Avoid random accesses …``."""
    return f"{number}. {_PRACTICES[number]}"


def trials(practice: Practice) -> Text:
    """The ratios that it was tried by, or why there are none."""
    if practice.trials:
        return _LINE.join(map(_trial, practice.trials))
    if practice.missing == "no-far-processors":
        return "no processors of another NUMA node: everything is near here"
    where = " in one experiment beyond the caches" if practice.missing == "no-experiment" else ""
    command = Span("harness run micro --suite device-card --tier …", "code")
    measurements = ", ".join(practice.measurements)
    return (f"not measured{where}: {measurements} of the suite device-card (", command, ")")


def _trial(trial: Trial) -> str:
    points, ratio, why = trial.points, trial.known, trial.why
    measured = ""
    if ratio:
        shown = f", p {_p(ratio)}" if ratio.shown else ""
        measured = f"{times(ratio.value)} {interval_text(ratio)}{shown}; "
    rates = [_rate(point.median) for point in points]
    compared = f"{rates[0]} against {rates[1]}"
    if len(points) == 4:
        compared = f"random {rates[0]} and {rates[1]}, sequential {rates[2]} and {rates[3]}"
    elif why == "few-threads":
        compared = f"best with {_threads(points[0])}, {rates[0]}"
    reasons = {
        "few-threads": f"only {_threads(points[1])} here; the paper's DIMMs slow down with 4 to 12",
        "different-runs": "measured in different runs",
        "nothing-done": "in one of the repeats nothing was done",
    }
    reason = reasons.get(why) or (_why_not(ratio) if ratio and why else "")
    return f"{trial.what}: {measured}{compared}" + (f" ({reason})" if reason else "")


def _p(ratio: Ratio) -> str:
    return p_text(ratio.decision.adjusted_p) if ratio.decision else NOTHING


def _why_not(ratio: Ratio) -> str:
    reasons = {
        "bound-in-interval": f"the interval holds {ratio.bound:g}",
        "not-shown": f"not shown among the card's other verdicts, p {_p(ratio)}",
    }
    if ratio.reason != "too-few-repeats" or ratio.decision is None:
        return reasons.get(ratio.reason, "")
    others = ratio.decision.family - 1
    among = f" with the card's {counted(others, 'other verdict')}" if others else ""
    repeats, needed = counted(ratio.repeats, "repeat"), ratio.decision.repeats_needed
    return f"cannot be shown with {repeats}, {needed} are needed{among}"


def _said(knee: Knee | LoadedKnee, noun: str) -> str:
    if knee.known is None:
        return ""
    if knee.shown:
        return f", {noun}shown (p {_p(knee.known)})"
    return f", {noun}not shown ({_why_not(knee.known) or 'its repeats say otherwise'})"


def _doubt(knee: Knee | LoadedKnee, noun: str) -> str:
    return f" ({noun}not shown)" if knee.shown is False else ""


def _knee_answer(knee: Knee) -> str:
    near = ""
    if knee.near is not knee.top:
        share = percent(round(knee.near.median / knee.top.median, 2))
        near = f"; {_place(knee.axis, knee.near)} already {share} of it"
    name = f"{knee.name}: " if knee.name else ""
    return f"{name}{_place(knee.axis, knee.top)}{near}{_doubt(knee, 'knee ')}"


def _knee_figures(knee: Knee) -> str:
    ends = [f"{_place(knee.axis, point)}: {_rate(point.median)}" for point in knee.ends]
    one_count = knee.axis != "threads" and int(knee.top.number("threads"))
    threads = f" ({_threads(knee.top)})" if one_count else ""
    name = f"{knee.name} " if knee.name else ""
    return f"{name}{', '.join(ends)}{threads}{_said(knee, 'knee ')}"


def _place(axis: str, point: Point) -> str:
    if axis == "threads":
        return _threads(point)
    number = point.number(axis)
    return format_bytes(number) if axis.endswith("_bytes") else f"depth {number:g}"


def _threads(point: Point) -> str:
    return counted(int(point.number("threads")), "thread")


def _range(point: Point) -> str:
    return format_bytes(point.number("range_bytes"))


def _rate(bytes_per_s: float) -> str:
    return quantity_text(bytes_per_s, "B/s")
