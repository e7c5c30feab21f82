"""Tests of successive repeats: a drift, dependence on one another, one that stands out."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from reports.ranks import TIE_DECIMALS, FloatArray, IntArray, Values, doubled_midranks


def students_t(chance: float, degrees: int) -> float:
    """The t that Student's distribution exceeds, on either side together, with this chance.

    For whole degrees of freedom (≥ 1) its distribution is a finite sum over the angle whose
    tangent is t/√degrees. (Abramowitz and Stegun, *Handbook of Mathematical Functions*, 26.7.3–4.)
    """

    def beyond(angle: float) -> float:
        exponent = degrees % 2
        term, total = math.cos(angle) ** exponent, 0.0
        while exponent <= degrees - 2:
            total += term
            exponent += 2
            term *= math.cos(angle) ** 2 * (exponent - 1) / exponent
        within = math.sin(angle) * total
        return 1 - (2 / math.pi * (angle + within) if degrees % 2 else within)

    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if beyond(middle) > chance else (low, middle)
    return math.sqrt(degrees) * math.tan(low)


#: More values than these are thinned out.
_MOST_VALUES = 200


def drift_of(logs: FloatArray) -> tuple[float, float]:
    """Return the ratio of the last value to the first by their trend, and p of there being none.

    ``logs``: logarithms of the values. Theil's and Sen's slope; Mann's and Kendall's test, exact
    without ties.
    """
    logs = logs[:: max(1, len(logs) // _MOST_VALUES)]
    first, second = np.triu_indices(len(logs), 1)
    if not first.size:
        return 1.0, 1.0
    steps = logs[second] - logs[first]
    chances: FloatArray = np.ones(1)  # of each number of pairs that rise
    for size in range(2, len(logs) + 1):
        chances = np.convolve(chances, np.full(size, 1 / size))
    rising = float(np.sum(steps > 0) + np.sum(steps == 0) / 2)
    tails = chances[: math.floor(rising) + 1].sum(), chances[math.ceil(rising) :].sum()
    slope = float(np.median(steps / (second - first)))
    return math.exp(slope * (len(logs) - 1)), min(1.0, 2 * float(min(tails)))


#: Random orders that a test of independence takes.
_ORDERS = 20_000
#: Ranks of all orders together.
_MOST_RANKS = 1_000_000


def dependence_p(values: Values) -> float:
    """One-sided p of the test that successive values are alike, and no random order of them.

    Von Neumann's ratio of their ranks (Bartels, JASA 77, 1982), by random orders: always the same.
    """
    numbers: FloatArray = np.asarray(values, dtype=np.float64)
    ranks = doubled_midranks(np.round(numbers, TIE_DECIMALS))
    sums = _successive_sums(tuple(int(rank) for rank in np.sort(ranks)))
    at_most = np.searchsorted(sums, int((np.diff(ranks) ** 2).sum()), side="right")
    return float((at_most + 1) / (len(sums) + 1))


@cache
def _successive_sums(ranks: tuple[int, ...]) -> IntArray:
    """Sums of the squares of successive differences in random orders of the ranks, sorted."""
    orders = min(_ORDERS, _MOST_RANKS // len(ranks))
    shuffled = np.random.default_rng(0).permuted(np.tile(ranks, (orders, 1)), axis=1)
    return np.sort((np.diff(shuffled, axis=1) ** 2).sum(axis=1))
