"""Agreement of predicted speed-ups with measured ones, over independent comparisons.

Speed-ups are compared by their logarithms, so that twice and half as fast are equally far from
one, and no line has to be fitted to them but that through the origin: no change predicted, none
measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from statistics import NormalDist, median

import numpy as np

from reports.ranks import FloatArray, IntArray, doubled_midranks
from reports.statistics import ALPHA, Value

#: With four rows, even ranks in the same order have p = 2 / 4! = 0.083; with five, 2 / 5! = 0.017.
LEAST_ROWS = 5
#: Up to here, every order of the ranks is counted (8!), above as many as below are drawn.
_EXACT_ROWS = 8
_DRAWN, _SEED = 9_999, 1


@dataclass(frozen=True)
class CheckedPrediction:
    """A speed-up of an engine that was predicted, and measured.

    ``modelled``: whether runs on models of the devices predict it.
    """

    engine: str
    predicted: Value
    measured: Value
    modelled: bool = False

    @property
    def residual(self) -> float:
        """Measured over predicted, less one: 0.1 is 10 % more than predicted."""
        return self.measured.value / self.predicted.value - 1


@dataclass(frozen=True)
class Correlation:
    """Worth of a prediction over rows that have both, a predicted and a measured speed-up.

    ``rho``: Spearman's, with its 95 % interval by Fisher's z with the variance of Bonett and Wright
    (Psychometrika 65, 2000); ``p``: two-sided, by permutation, exact up to eight rows. ``slope``:
    of ln measured over ln predicted through the origin, 1 of a perfect prediction; ``r2``: 1 −
    residual sum of squares of that line over the sum about the mean (Kvålseth, The American
    Statistician 39, 1985), negative where the mean says more. ``median_error`` and
    ``largest_error``: sizes of the residuals, measured over predicted, less one. None with fewer
    than :data:`LEAST_ROWS` rows or where a side has a single value; the errors without any row.
    """

    rows: int
    rho: float | None = None
    rho_low: float | None = None
    rho_high: float | None = None
    p: float | None = None
    slope: float | None = None
    r2: float | None = None
    median_error: float | None = None
    largest_error: float | None = None


def correlation(checked: Sequence[CheckedPrediction]) -> Correlation:
    """Compare predicted with measured speed-ups, row by row; all are positive."""
    rows = len(checked)
    if not rows:
        return Correlation(0)
    errors = [abs(prediction.residual) for prediction in checked]
    sizes = {"median_error": median(errors), "largest_error": max(errors)}
    predicted = np.array([prediction.predicted.value for prediction in checked])
    measured = np.array([prediction.measured.value for prediction in checked])
    if rows < LEAST_ROWS or len({*predicted}) == 1 or len({*measured}) == 1:
        return Correlation(rows, **sizes)
    x, y = (doubled_midranks(side) - (rows + 1) for side in (predicted, measured))
    rho = float(x @ y) / math.sqrt(float(x @ x) * float(y @ y))
    slope, r2 = _through_origin(np.log(predicted), np.log(measured))
    return Correlation(rows, rho, *_interval(rho, rows), _p(x, y), slope, r2, **sizes)


def _interval(rho: float, rows: int) -> tuple[float, float]:
    """The ends of the 95 % interval.

    Of ranks in the same order, the end at 1 and the other as of the next best order, in which two
    neighbours are swapped: Fisher's z of 1 has no interval.
    """
    most = 1 - 12 / (rows**3 - rows)
    limited = max(-most, min(most, rho))
    half = NormalDist().inv_cdf(1 - ALPHA / 2) * math.sqrt((1 + limited**2 / 2) / (rows - 3))
    z = math.atanh(limited)
    return min(rho, math.tanh(z - half)), max(rho, math.tanh(z + half))


def _p(x: IntArray, y: IntArray) -> float:
    """The share of orders of the ranks whose coefficient is as far from 0; of drawn ones and this.

    Ranks are doubled and less their mean: whole numbers, whose sums are compared exactly.
    """
    if len(x) <= _EXACT_ROWS:
        orders = y[_orders(len(y))]
        return float(np.mean(np.abs(orders @ x) >= abs(x @ y)))
    drawn = np.random.default_rng(_SEED).permuted(np.tile(y, (_DRAWN, 1)), axis=1)
    return (1 + int(np.sum(np.abs(drawn @ x) >= abs(x @ y)))) / (1 + _DRAWN)


@cache
def _orders(rows: int) -> IntArray:
    """Every order of the places of that many rows."""
    return np.array(list(permutations(range(rows))))


def _through_origin(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    slope = float(x @ y / (x @ x))
    residual, about_mean = y - slope * x, y - y.mean()
    return slope, 1 - float(residual @ residual / (about_mean @ about_mean))
