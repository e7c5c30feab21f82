"""Correlation of predicted with measured speed-ups, by published values and planted ones."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy

from reports.explain.correlation import LEAST_ROWS, CheckedPrediction, Correlation, correlation
from reports.statistics import Value


def fitted(predicted: Sequence[float] | Any, measured: Sequence[float] | Any) -> Any:
    """The correlation of these speed-ups."""
    pairs = zip(predicted, measured, strict=True)
    return correlation([CheckedPrediction("mysql", Value(x), Value(y)) for x, y in pairs])


def test_rho_is_spearman_s_ties_included() -> None:
    """The example of many textbooks, -29/165; and scipy's of values with ties."""
    iq = [106, 100, 86, 101, 99, 103, 97, 113, 112, 110]
    hours = [7, 27, 2, 50, 28, 29, 20, 12, 6, 17]
    assert fitted(iq, hours).rho == pytest.approx(-29 / 165)
    random = np.random.default_rng(3)
    x, y = random.integers(1, 6, 20), random.integers(1, 6, 20)
    assert fitted(x, y).rho == pytest.approx(float(scipy.stats.spearmanr(x, y).statistic))


@pytest.mark.parametrize(
    ("order", "rho", "p"),
    [
        ((1, 2, 3, 4, 5), 1.0, 2 / 120),
        ((2, 1, 3, 4, 5), 0.9, 10 / 120),
        ((2, 1, 4, 3, 5, 6), 0.886, 0.033),
        ((2, 1, 4, 3, 6, 5), 0.829, 0.058),
        ((3, 2, 1, 5, 4, 7, 6), 0.786, 0.048),
    ],
)
def test_p_of_few_rows_is_exact(order, rho, p):
    """As in the tables: 0.886 of six and 0.786 of seven are the smallest that 5 % allows."""
    fit = fitted(range(1, len(order) + 1), order)
    assert fit.rho == pytest.approx(rho, abs=5e-4)
    assert fit.p == pytest.approx(p, abs=6e-4)


def test_p_of_more_rows_is_near_that_of_student_s_t() -> None:
    random = np.random.default_rng(4)
    for slope in (0.0, 0.5, 2.0):
        x = random.standard_normal(24)
        y = slope * x + random.standard_normal(24)
        fit = fitted(np.exp(x), np.exp(y))
        assert fit.p == pytest.approx(float(scipy.stats.spearmanr(x, y).pvalue), abs=0.02)
        assert fit.p == fitted(np.exp(x), np.exp(y)).p  # the same orders are drawn


@pytest.mark.parametrize(("rows", "r"), [(8, 0.8), (24, 0.9)])
def test_the_interval_has_the_planted_coefficient_in_95_of_100(rows, r):
    """Spearman's correlation of two normal variables with this one is 6/π·asin(r/2)."""
    random = np.random.default_rng(5)
    planted = 6 / math.pi * math.asin(r / 2)
    covered = 0
    for _ in range(200):
        x = random.standard_normal(rows)
        y = r * x + math.sqrt(1 - r * r) * random.standard_normal(rows)
        fit = fitted(np.exp(x), np.exp(y))
        assert -1 < fit.rho_low <= fit.rho <= fit.rho_high <= 1
        covered += fit.rho_low <= planted <= fit.rho_high
    assert covered >= 184


def test_a_perfect_order_has_an_interval_that_more_rows_narrow() -> None:
    lows = [fitted(range(1, rows + 1), range(1, rows + 1)).rho_low for rows in (5, 8, 24)]
    assert lows == sorted(lows) and lows[-1] < 1


def test_the_line_goes_through_the_origin_of_the_logarithms() -> None:
    """Kvålseth's example (1985): b = 1448/91, R² = 0.9777 about the mean."""
    x, y = np.arange(1, 7) / 10, np.array([15, 37, 52, 59, 83, 92]) / 10
    fit = fitted(np.exp(x), np.exp(y))
    assert fit.slope == pytest.approx(1448 / 91)
    assert fit.r2 == pytest.approx(0.9777, abs=5e-5)
    speed_ups = np.array([0.5, 1.1, 2, 4, 9])
    planted = fitted(speed_ups, speed_ups**0.8)
    assert (planted.slope, planted.r2) == (pytest.approx(0.8), pytest.approx(1.0))


def test_fewer_rows_have_errors_alone() -> None:
    """With four rows, even the best order has a p above 5 %."""
    fit = fitted([1.0, 1.5, 2.0, 4.0], [1.1, 1.8, 2.0, 3.0])
    assert fit.rows == LEAST_ROWS - 1 and 2 / math.factorial(fit.rows) > 0.05
    assert (fit.rho, fit.p, fit.slope) == (None, None, None)
    assert fit.median_error == pytest.approx(0.15)
    assert fit.largest_error == pytest.approx(0.25)
    assert fitted([], []) == Correlation(0)
