"""Whether drawn numbers fit their distribution."""

from itertools import pairwise

import numpy as np
from scipy import stats

#: A fit is refused where chance alone gives a worse one in a million runs.
CHANCE = 1e-6


def assert_uniform(drawn: np.ndarray, low: int, high: int) -> None:
    """Each number of [low, high] is there, none beyond, and their counts fit chance."""
    assert drawn.min() >= low
    assert drawn.max() <= high
    bins = min(high - low + 1, 100)
    edges = np.linspace(low, high + 1, bins + 1)
    whole = np.array([np.ceil(b) - np.ceil(a) for a, b in pairwise(edges)])
    counts, _ = np.histogram(drawn, edges)
    expected = whole / whole.sum() * len(drawn)
    assert stats.chisquare(counts, expected).pvalue > CHANCE


def assert_nurand(drawn: np.ndarray, a: int, low: int, high: int, c: int) -> None:
    """Counts fit NURand(A, low, high), from its formula (clause 2.1.6).

    Rare numbers are taken together, so that each bin counts.
    """
    span = high - low + 1
    weights = np.zeros(span)
    numbers = np.arange(low, high + 1)
    for bits in range(a + 1):
        weights += np.bincount(((bits | numbers) + c) % span, minlength=span)
    assert drawn.min() >= low
    assert drawn.max() <= high
    order = np.argsort(weights, kind="stable")
    counts = np.bincount(drawn - low, minlength=span)[order]
    expected = weights[order] / weights.sum() * len(drawn)
    assert counts[expected == 0].sum() == 0
    bins = np.minimum(np.cumsum(expected) / len(drawn) * 200, 199).astype(int)
    observed, required = np.bincount(bins, counts), np.bincount(bins, expected)
    used = required > 0
    statistic = ((observed[used] - required[used]) ** 2 / required[used]).sum()
    assert required[used].min() > 5
    assert stats.chi2.sf(statistic, used.sum() - 1) > CHANCE
