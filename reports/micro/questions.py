"""Which points answer a question of the card: those of one experiment, and none of the caches'.

Suites name their measurements alike (``mix``, ``threads``, ``access_size``) and measure them
otherwise: other patterns, ranges, partitions, threads. Points are of one *experiment* where
they are alike in every label but those that the question varies; a question is answered from one
experiment alone, that of the most samples, since the best of two is a figure of neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from harness.reports.micro.points import Point

#: Labels that say what is done in an access.
INSTRUCTIONS = ("operation", "flush", "fence")
#: What follows from other labels.
FOLLOW = ("persistent", "io_engine")
#: What only names a point.
_NAMES = ("measurement", "configuration")


def alike(a: Point, b: Point, *varied: str) -> bool:
    """Whether two points are of one experiment that varies these labels."""
    return _fixed(a, varied) == _fixed(b, varied)


def experiments(points: Iterable[Point], *varied: str) -> list[list[Point]]:
    """Points by experiment, in the order of the first ones."""
    held: dict[frozenset[tuple[str, str]], list[Point]] = {}
    for point in points:
        held.setdefault(_fixed(point, varied), []).append(point)
    return list(held.values())


def largest(
    points: Iterable[Point], *varied: str, having: Callable[[list[Point]], bool] = bool
) -> list[Point]:
    """The experiment of the most samples, of two alike that of more bytes; empty without any.

    ``having``: what an experiment must have to answer.
    """
    return max(filter(having, experiments(points, *varied)), key=_weight, default=[])


def _fixed(point: Point, varied: Sequence[str]) -> frozenset[tuple[str, str]]:
    left_out = (*_NAMES, *FOLLOW, *varied)
    return frozenset((name, value) for name, value in point.labels.items() if name not in left_out)


def _weight(points: Sequence[Point]) -> tuple[int, float]:
    samples = sum(len(point.samples) or 1 for point in points)
    return samples, max(point.number("range_bytes") for point in points)
