"""Ratios of points: one over another that is alike, by a pair query (reports.pair_sides)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.paper.pair_query import PairQuery
from harness.sequences import grouped
from harness.store.result import Label
from harness.units import counted
from reports.micro.devices import Device, best
from reports.micro.sweeps import FOLLOW, largest
from reports.pair_sides import (
    SIZE,
    Pair,
    UnderivedError,
    compared_labels,
    label_of,
    only,
    point_pairs,
)
from reports.statistics import Missing, Ratio
from reports.trials import best_first, tested
from reports.values import Point

#: What only names a point; a job is no name, but what ran.
_NAMING = ("measurement", "configuration")
#: All that a point did.
WHOLE = (
    "measurement",
    "done",
    "pattern",
    SIZE,
    "dirty_lines",
    *("writer", "entry_bytes", "index", "workload", "discipline", "fence"),
    "threads",
)


@dataclass(frozen=True)
class PointRatio:
    """One point over another that is alike. ``name``: which it is of several.

    ``pairs``: all those of which these are the best.
    """

    over: Point
    under: Point
    name: str = ""
    pairs: tuple[Pair, ...] = ()

    @property
    def value(self) -> float:
        """See ``Point.compared``: times by their mean, as the papers have it."""
        return self.over.compared / self.under.compared

    @property
    def inverse(self) -> PointRatio:
        """The other side over this one."""
        pairs = tuple((under, over) for over, under in self.pairs)
        return PointRatio(self.under, self.over, self.name, pairs)

    def tested(self, bound: float, choices: int = 1) -> Ratio | Missing:
        """Against ``bound``, with its interval; paired where both were measured side by side.

        Of the best of several pairs: every other repeat chooses them, the others test them.
        ``choices``: of how many it was chosen on these repeats; p and interval hold for each of
        them (Bonferroni), so for the chosen one.
        """
        a, b = self.over, self.under
        if len(self.pairs) < 2 or not a.samples:
            return tested(a.samples, b.samples, bound, a.alongside(b), max(1, choices))
        sides = zip(*self.pairs, strict=True)
        lower = self.over.better == "lower"
        a, b = (side[best_first([p.samples for p in side], lower)[0]] for side in sides)
        return tested(a.samples, b.samples, bound, a.alongside(b), chosen=True)


def name_of(point: Point, labels: Sequence[str]) -> str:
    """Name a point by labels: ``granularity ntstore random 256 B, 4 threads``."""
    words = filter(None, (_word(point, label) for label in labels if label != "threads"))
    threads = [threads_of(point)] if "threads" in labels else []
    return ", ".join(filter(None, (" ".join(words), *threads)))


def _word(point: Point, label: str) -> str:
    text = label_of(point, label)
    if label == "dirty_lines" and text:
        return f"{text} dirty lines"
    return text.replace("_", " ") if label == "measurement" else text


def threads_of(point: Point) -> str:
    """Return a point's number of threads: ``4 threads``."""
    return counted(int(point.number("threads")), "thread")


def ratios_of(query: PairQuery, over: Device, under: Device) -> list[PointRatio]:
    """Ratios of the points of two devices, or of one; UnderivedError where there is none."""
    matched, apart = point_pairs(query, over, under), compared_labels(query)
    named = grouped((name_of(pair[0], query.each), pair) for pair in matched)
    made = [ratio for name, same in named.items() for ratio in _ratios(query, name, same, apart)]
    if not made and any(p.histogram and not p.compared for pair in matched for p in pair):
        raise UnderivedError("needs", "operations that take longer than their time stamps")
    if not made:
        raise UnderivedError("one-sided")
    return made


def _ratios(
    query: PairQuery, name: str, same_name: Sequence[Pair], apart: Sequence[str]
) -> list[PointRatio]:
    points = [a for a, _ in same_name]
    if query.varied or not query.every:
        points = list(one_experiment(points, *apart, *query.varied))
    chosen = set(map(id, points))
    same = tuple(pair for pair in same_name if id(pair[0]) in chosen and _comparable(pair))
    if query.every or not same:
        return [PointRatio(a, b, name, ((a, b),)) for a, b in same]
    a, b = (best(side) for side in zip(*same, strict=True))
    return [PointRatio(a, b, name, same)]


def _comparable(pair: Pair) -> bool:
    """Return whether there is a quotient: a duration that time stamps hide has none on a side."""
    over, under = pair
    return bool(under.compared and (over.compared or over.histogram is None))


def clear(points: Sequence[Point]) -> Sequence[Point]:
    """These points; UnderivedError where two are equal in all labels, whatever their settings."""
    by_labels: dict[frozenset[tuple[str, Label]], list[Point]] = {}
    for point in points:
        labels = (item for item in point.labels.items() if item[0] not in (*_NAMING, *FOLLOW))
        by_labels.setdefault(frozenset(labels), []).append(point)
    for same in by_labels.values():
        only(same)
    return points


def one_experiment(points: Iterable[Point], *varied: str) -> Sequence[Point]:
    """Return the points of the largest experiment that varies these labels, each labelled apart."""
    return clear(largest(points, *varied))
