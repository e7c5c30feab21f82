"""Tests of whether drawn numbers fit their distribution."""

from itertools import pairwise

import numpy as np
import scipy

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
    assert scipy.stats.chisquare(counts, expected).pvalue > CHANCE


def nurand_weights(a: int, low: int, high: int, c: int) -> np.ndarray:
    """How many pairs of random numbers give each of NURand(A, low, high); A + 1 is a power of 2.

    A number n gives v where its last bits l are among those of v, with one of 2^|l| numbers up to
    A: of these the sums over all subsets l, bit by bit.
    """
    numbers = np.arange(-(-(high + 1) // (a + 1)) * (a + 1))
    pairs = np.where((numbers >= low) & (numbers <= high), 1, 0)
    bits = a.bit_length()
    for bit in range(bits):
        pairs[numbers >> bit & 1 == 1] *= 2
    for bit in range(bits):
        halves = pairs.reshape(-1, 2, 1 << bit)
        halves[:, 1] += halves[:, 0]
    return np.bincount((numbers + c) % (high - low + 1), pairs, minlength=high - low + 1)


def assert_nurand(drawn: np.ndarray, a: int, low: int, high: int, c: int) -> None:
    """Counts fit NURand(A, low, high), from its formula (clause 2.1.6).

    Rare numbers are taken together, so that each bin counts.
    """
    span = high - low + 1
    weights = nurand_weights(a, low, high, c)
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
    assert scipy.stats.chi2.sf(statistic, used.sum() - 1) > CHANCE
