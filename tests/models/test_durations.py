"""Distributions of durations keep the mean of what they were made of."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.drivers.client_program import histogram
from harness.models import durations
from harness.models.durations import PROBABILITIES

#: Shares of stalls, in percent: at each stated probability, and a little to each side of it.
SHARES = [
    (100 - percent) * factor for percent in PROBABILITIES[2:-1] for factor in (0.9, 0.99, 1.0, 1.01)
]


@pytest.mark.parametrize("stall_ns", [300_000, 5_000_000, 20_000_000])
@pytest.mark.parametrize("share", SHARES)
def test_the_mean_of_fast_calls_with_stalls_is_kept(share, stall_ns) -> None:
    stalls = round(10_000 * share)
    measured = histogram([80_000, stall_ns], [10**6 - stalls, stalls])
    made = durations.of_histogram(measured)
    assert made.mean == pytest.approx(measured.mean, rel=0.02)
    assert drawn_mean(made) == pytest.approx(made.mean, rel=0.001)


@given(st.lists(st.integers(1_000, 10**9), min_size=1, max_size=300), st.floats(0.1, 3))
@example([1000, 1000, 1000, 1003, 1003, *[1006] * 8], 1.0)  # a mean that is its interval's low end
def test_the_mean_of_any_durations_is_kept(values, factor) -> None:
    measured = histogram(values)
    made = durations.of_histogram(measured)
    assert made.mean == pytest.approx(measured.mean, rel=0.02)
    assert made.scaled(factor).mean == pytest.approx(made.mean * factor, rel=0.01)
    assert [made.quantile(p) for p in PROBABILITIES] == pytest.approx(made.quantiles, abs=2)


def drawn_mean(made: durations.Durations, steps: int = 500) -> float:
    """Sum up what is drawn, in each interval by itself."""
    total = 0.0
    for low, high in pairwise(PROBABILITIES):
        places = [low + (high - low) * (i + 0.5) / steps for i in range(steps)]
        total += sum(made.quantile(p) for p in places) / steps * (high - low) / 100
    return total


def test_published_quantiles_are_log_normal_between_and_keep_a_stated_mean() -> None:
    stated = {50.0: 100_000, 99.0: 400_000, 99.99: 2_000_000}
    assert durations.of_quantiles(stated).quantile(90) == pytest.approx(
        100_000 * 4 ** (1.2816 / 2.3263), rel=0.001
    )
    for mean_ns in (115_000, 140_000, 200_000):
        made = durations.of_quantiles(stated, mean_ns)
        assert made.mean == pytest.approx(mean_ns, rel=0.001)
        assert [made.quantile(p) for p in stated] == pytest.approx(list(stated.values()), rel=0.001)


@pytest.mark.parametrize(
    ("stated", "mean_ns"),
    [
        ({50.0: 100}, None),
        ({50.0: 100, 99.0: 400}, None),
        ({50.0: 100, 99.0: 400}, 90),
        ({0.0: 100, 50.0: 100, 100.0: 400}, 300),
        ({50.0: 400, 90.0: 300, 99.0: 500}, None),
    ],
)
def test_figures_that_state_no_distribution_are_refused(stated, mean_ns) -> None:
    with pytest.raises(ValueError, match=r"mean|quantile"):
        durations.of_quantiles(stated, mean_ns)
