"""Noise between identical runs, and the smallest difference that repeats resolve despite it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from reports.ranks import Values, repeats_needed, signed_rank_cut, smallest_p_paired
from reports.statistics import ALPHA

#: How often a difference that repeats "resolve" is shown.
POWER = 0.8
#: More repeats than this are not planned for a resolution.
MOST_REPEATS = 100
#: Samples that a resolution is estimated from, always the same ones.
_SIMULATED = 1000


def noise_of(log_ratios: Sequence[float]) -> float:
    """The noise between two identical runs, as a share (0.02: 2 %).

    ``log_ratios``: ln(A/B) of their pairs. Their centre is zero, since the runs are identical.
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    return math.expm1(math.sqrt(float(np.mean(values**2))))


def noise_bounds(log_ratios: Values) -> tuple[float, float]:
    """The ends of the noise's 95 % interval, as multiples of the noise that these pairs have.

    That of a variance, χ² by Wilson and Hilferty (Proc. Nat. Acad. Sci. 17, 1931), with fewer
    degrees of freedom where the log-ratios have longer tails than a normal distribution's.
    """
    squares = np.asarray(log_ratios, dtype=np.float64) ** 2
    n, mean = len(squares), float(squares.mean())
    tails = float((squares**2).mean()) / mean**2 if mean else 3.0
    degrees = n * min(1.0, 2 / max(tails - 1, 1e-12))

    def over(chance: float) -> float:
        step = 2 / (9 * degrees)
        root = 1 - step + NormalDist().inv_cdf(chance) * math.sqrt(step)
        return 1 / math.sqrt(max(root, 1e-3) ** 3)

    return over(1 - ALPHA / 2), over(ALPHA / 2)


def smallest_difference(
    log_ratios: Sequence[float], repeats: int, level: float = ALPHA
) -> float | None:
    """The smallest difference, as a share, that ``repeats`` pairs show with a power of 80 %.

    ``log_ratios``: noise, ln(A/B) of pairs of identical runs, n ≥ 1. None where this many pairs
    show nothing at the level. Samples come from a smoothed bootstrap of the noise with either
    sign; a sample shows a shift once the lower end of its interval is above zero.
    """
    if smallest_p_paired(repeats) > level:
        return None
    if repeats > MOST_REPEATS:  # simulated ones take memory by the square of their number
        most = smallest_difference(log_ratios, MOST_REPEATS, level)
        fewer = math.sqrt(MOST_REPEATS / repeats)
        return None if most is None else math.expm1(math.log1p(most) * fewer)
    values = np.asarray(log_ratios, dtype=np.float64)
    deviation = math.sqrt(float(np.mean(values**2)))
    draw = np.random.default_rng(0)
    width = (2 * len(values)) ** -0.2
    shape = (_SIMULATED, repeats)
    samples = draw.choice(values, shape) * draw.choice([-1.0, 1.0], shape)
    samples = (samples + width * deviation * draw.normal(size=shape)) / math.hypot(1, width)
    i, j = np.triu_indices(repeats)
    steps, _ = signed_rank_cut(repeats, level)
    averages = np.partition((samples[:, i] + samples[:, j]) / 2, steps - 1, axis=1)
    return math.expm1(max(0.0, float(np.quantile(-averages[:, steps - 1], POWER))))


def repeats_to_resolve(log_ratios: Sequence[float], difference: float) -> int | None:
    """The fewest pairs that show a difference (0.05: 5 %) with a power of 80 %.

    None where :data:`MOST_REPEATS` do not.
    """

    def resolve(repeats: int) -> bool:
        smallest = smallest_difference(log_ratios, repeats)
        return smallest is not None and smallest <= difference

    least = repeats_needed(ALPHA, "paired")
    repeats = bisect_left(range(least, MOST_REPEATS + 1), True, key=resolve) + least
    return repeats if repeats <= MOST_REPEATS else None
