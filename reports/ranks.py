"""Rank statistics of two samples: p values, and the order statistics of their intervals.

Wilcoxon's signed-rank statistic of pairs and his rank-sum statistic of two samples; which is used
when, and why: reports.statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Values = Sequence[float] | FloatArray
IntArray = npt.NDArray[np.int64]
Pairing = Literal["paired", "unpaired"]


#: Log-ratios closer than this are equal: what differs is the logarithm's rounding.
TIE_DECIMALS = 12


#: Above this many pairs the signed-rank distribution is taken as normal (the exact one grows
#: with the third power).
_EXACT_SIGNED_RANK = 100
#: Above this many, averages or differences of two values are counted, not made.
_MOST_OUTER = 1_000_000
#: Above this many values on both sides together the rank-sum distribution is taken
#: as normal (the exact one grows with the fourth power).
_EXACT_RANK_SUM = 120


def walsh_averages(values: FloatArray) -> FloatArray:
    """(v[i] + v[j])/2 for i ≤ j, sorted, shape (n(n+1)/2,)."""
    i, j = np.triu_indices(len(values))
    return np.sort((values[i] + values[j]) / 2)


def sign_flip_p(values: FloatArray) -> float:
    """Two-sided p of the signed-rank test that ``values`` are symmetric about zero.

    Exact (ties included) up to 100 values, normal approximation above. Zeros keep their
    rank and cannot flip (Pratt, JASA 54, 1959).
    """
    ranks = doubled_midranks(np.abs(values))
    flips = ranks[values != 0]
    if len(flips) == 0:
        return 1.0
    observed = int(ranks[values > 0].sum())
    if len(flips) > _EXACT_SIGNED_RANK:
        return _normal_flip_p(flips, observed)
    return _two_sided(_flip_distribution(tuple(int(r) for r in np.sort(flips))), observed)


def rank_sum_p(a: FloatArray, b: FloatArray) -> float:
    """Two-sided p of the rank-sum test that ``a`` and ``b`` come from one distribution.

    Exact (ties included) up to 120 values in all, normal approximation above.
    """
    ranks = doubled_midranks(np.concatenate([a, b]))
    observed = int(ranks[: len(a)].sum())
    if len(ranks) > _EXACT_RANK_SUM:
        return _normal_rank_sum_p(ranks, len(a), observed)
    return _two_sided(_choice_distribution(tuple(int(r) for r in np.sort(ranks)), len(a)), observed)


def smallest_p_paired(n: int) -> float:
    """The smallest two-sided p that n pairs can reach: 2/2ⁿ."""
    return min(1.0, 2.0 ** (1 - n))


def smallest_p_unpaired(n_a: int, n_b: int) -> float:
    """The smallest two-sided p of n_a against n_b repeats: 2 over the ways to choose."""
    return min(1.0, 2 / math.comb(n_a + n_b, n_a))


def repeats_needed(level: float, pairing: Pairing) -> int:
    """The fewest repeats of each side whose smallest p reaches ``level`` (0 < level ≤ 1)."""
    n = 1
    while (smallest_p_paired(n) if pairing == "paired" else smallest_p_unpaired(n, n)) > level:
        n += 1
    return n


def doubled_midranks(values: FloatArray) -> IntArray:
    """Twice the mid-rank of every value: whole numbers even where values tie."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    doubled: IntArray = (2 * ends - counts + 1).astype(np.int64)[inverse]
    return doubled


@cache
def _flip_distribution(weights: tuple[int, ...]) -> FloatArray:
    """P(sum of the kept weights = t) where each is kept with probability ½."""
    chances = np.zeros(sum(weights) + 1)
    chances[0] = 1.0
    reached = 0
    for weight in weights:
        previous = chances[: reached + 1].copy()
        chances[: reached + 1] /= 2
        chances[weight : reached + weight + 1] += previous / 2
        reached += weight
    return chances


@cache
def _choice_distribution(weights: tuple[int, ...], chosen: int) -> FloatArray:
    """P(sum = t) of ``chosen`` of the weights, every choice equally likely."""
    ways = np.zeros((chosen + 1, sum(weights) + 1))
    ways[0, 0] = 1.0
    for weight in weights:
        for count in range(chosen, 0, -1):
            ways[count, weight:] += ways[count - 1, : ways.shape[1] - weight]
    chances: FloatArray = ways[chosen] / ways[chosen].sum()
    return chances


def _two_sided(chances: FloatArray, observed: int) -> float:
    below = float(chances[: observed + 1].sum())
    above = float(chances[observed:].sum())
    return min(1.0, 2 * min(below, above))


def _cut(chances: FloatArray, alpha: float) -> tuple[int, float]:
    """How many ordered values to step in from either end, and the exact coverage then.

    One step (the whole range) where even that covers less than 1 − α.
    """
    tail = np.cumsum(chances)
    steps = max(1, int(np.searchsorted(tail, alpha / 2 + 1e-12, side="right")))
    return steps, max(0.0, 1 - 2 * float(tail[steps - 1]))


def signed_rank_cut(n: int, alpha: float) -> tuple[int, float]:
    """Return the steps in from either end of the Walsh averages, and their coverage."""
    if n <= _EXACT_SIGNED_RANK:
        return _cut(_flip_distribution(tuple(range(1, n + 1))), alpha)
    normal = NormalDist(n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24))
    steps = int(normal.inv_cdf(alpha / 2))
    return steps, 1 - 2 * normal.cdf(steps - 0.5)


def _normal_flip_p(doubled_ranks: IntArray, observed: int) -> float:
    """Normal approximation with continuity correction; the variance is the ties' own."""
    ranks = doubled_ranks / 2
    distance = abs(observed / 2 - float(ranks.sum()) / 2)
    deviation = math.sqrt(float((ranks**2).sum()) / 4)
    return min(1.0, math.erfc(max(0.0, distance - 0.5) / (deviation * math.sqrt(2))))


@dataclass(frozen=True)
class Order:
    """Values by rank (from 1) of which there may be too many to make.

    ``at``: the value of a rank; ``total``: how many values there are.
    """

    at: Callable[[int], float]
    total: int

    def median(self) -> float:
        return (self.at((self.total + 1) // 2) + self.at(self.total // 2 + 1)) / 2


def _of_values(ordered: FloatArray) -> Order:
    return Order(lambda rank: float(ordered[rank - 1]), len(ordered))


def _of_counts(at_most: Callable[[float], int], low: float, high: float, total: int) -> Order:
    """Values within ``low`` and ``high``; ``at_most`` counts those that are not above a bound."""

    def at(rank: int) -> float:
        below, above = math.nextafter(low, -math.inf), high
        while below < (middle := (below + above) / 2) < above:
            if at_most(middle) >= rank:
                above = middle
            else:
                below = middle
        return above

    return Order(at, total)


def walsh_order(values: FloatArray) -> Order:
    """The Walsh averages of a sample."""
    n = len(values)
    total = n * (n + 1) // 2
    if total <= _MOST_OUTER:
        return _of_values(walsh_averages(values))
    ordered = np.sort(values)

    def at_most(bound: float) -> int:
        pairs = int(np.searchsorted(ordered, 2 * bound - ordered, side="right").sum())
        return (pairs + int((ordered <= bound).sum())) // 2

    return _of_counts(at_most, float(ordered[0]), float(ordered[-1]), total)


def difference_order(a: FloatArray, b: FloatArray) -> Order:
    """All a[i] − b[j]."""
    total = len(a) * len(b)
    if total <= _MOST_OUTER:
        return _of_values(np.sort(np.subtract.outer(a, b).ravel()))
    ordered = np.sort(a)

    def at_most(bound: float) -> int:
        return int(np.searchsorted(ordered, b + bound, side="right").sum())

    low, high = float(a.min() - b.max()), float(a.max() - b.min())
    return _of_counts(at_most, low, high, total)


def rank_sum_cut(n_a: int, n_b: int, alpha: float) -> tuple[int, float]:
    """Return the steps in from either end of all differences, and their coverage."""
    if n_a + n_b <= _EXACT_RANK_SUM:
        chances = _choice_distribution(tuple(range(1, n_a + n_b + 1)), n_a)
        return _cut(chances[n_a * (n_a + 1) // 2 :], alpha)
    deviation = math.sqrt(n_a * n_b * (n_a + n_b + 1) / 12)
    steps = max(1, int(n_a * n_b / 2 + NormalDist().inv_cdf(alpha / 2) * deviation))
    return steps, 1 - alpha


def _normal_rank_sum_p(doubled_ranks: IntArray, n_a: int, observed: int) -> float:
    """Normal approximation with continuity correction; the variance is the ties' own."""
    ranks = doubled_ranks / 2
    total = len(ranks)
    variance = float(ranks.var()) * n_a * (total - n_a) / (total - 1)
    if variance == 0:
        return 1.0
    distance = abs(observed / 2 - n_a * float(ranks.mean()))
    return min(1.0, math.erfc(max(0.0, distance - 0.5) / math.sqrt(2 * variance)))
