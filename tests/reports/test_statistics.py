"""Ratios, intervals and tests against scipy, by simulation, and by their own laws."""

from dataclasses import replace

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowed import present
from repeatable import repeatable

from reports import ranks
from reports.ranks import (
    FloatArray,
    Pairing,
    repeats_needed,
    sign_flip_p,
    smallest_p_paired,
    smallest_p_unpaired,
)
from reports.statistics import ALPHA, Ratio, decide, holm, ratio_of, sequence_p, share_of_difference
from reports.successive import dependence_p, students_t

TIMES = st.floats(min_value=1e-3, max_value=1e12, allow_nan=False)
PAIRINGS: tuple[Pairing, ...] = ("paired", "unpaired")
PAIRS = st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=9)


def lognormal(seed: int, n: int, centre: float = 0.0) -> FloatArray:
    return np.exp(np.random.default_rng(seed).normal(centre, 0.2, n))


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 9, 40])
@pytest.mark.parametrize("chance", [0.05, 0.001])
def test_students_t_is_scipys(degrees: int, chance: float) -> None:
    assert students_t(chance, degrees) == pytest.approx(scipy.stats.t.ppf(1 - chance / 2, degrees))


@pytest.mark.parametrize("n", [2, 5, 6, 9, 16, 30])
def test_paired_p_is_scipys_exact_signed_rank(n: int) -> None:
    a, b = lognormal(1, n, 0.1), lognormal(2, n)
    expected = scipy.stats.wilcoxon(np.log(a / b), method="exact").pvalue
    assert ratio_of(a, b).p == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("n_a", "n_b"), [(2, 3), (5, 5), (6, 9), (20, 15)])
def test_unpaired_p_is_scipys_exact_rank_sum(n_a: int, n_b: int) -> None:
    a, b = lognormal(1, n_a, 0.1), lognormal(2, n_b)
    expected = scipy.stats.mannwhitneyu(a, b, method="exact").pvalue
    assert ratio_of(a, b, "unpaired").p == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("digits", [8, 2], ids=["no ties", "ties and zeros"])
def test_many_pairs_use_the_normal_approximation(digits: int) -> None:
    values = np.log(lognormal(1, 300, 0.03) / lognormal(2, 300)).round(digits)
    expected = scipy.stats.wilcoxon(
        values, zero_method="pratt", correction=True, method="approx"
    ).pvalue
    assert sign_flip_p(values) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("centre", [0.0, 0.02, 0.05])
def test_the_approximation_takes_over_where_it_agrees_with_the_exact_form(centre, monkeypatch):
    """On either side of the number of pairs at which it does."""
    a, b = lognormal(3, 101, centre), lognormal(4, 101)
    approximate = ratio_of(a, b)
    monkeypatch.setattr(ranks, "_EXACT_SIGNED_RANK", 101)
    exact = ratio_of(a, b)
    assert approximate.p == pytest.approx(exact.p, abs=2e-3)
    assert approximate.confidence == pytest.approx(exact.confidence, abs=2e-3)
    assert approximate.low == pytest.approx(exact.low, rel=1e-3)
    assert approximate.high == pytest.approx(exact.high, rel=1e-3)


@pytest.mark.parametrize("pairing", ["paired", "unpaired"])
def test_more_pairs_of_values_than_can_be_made_are_counted(pairing, monkeypatch):
    a, b = np.round(lognormal(5, 60, 0.1), 2), np.round(lognormal(6, 60), 2)
    made = ratio_of(a, b, pairing)
    monkeypatch.setattr(ranks, "_MOST_OUTER", 0)
    assert_same(ratio_of(a, b, pairing), made)


def test_many_unpaired_repeats_use_the_normal_approximation_with_ties() -> None:
    a, b = np.round(lognormal(1, 100, 0.05), 2), np.round(lognormal(2, 90), 2)
    expected = scipy.stats.mannwhitneyu(a, b, method="asymptotic").pvalue
    assert ratio_of(a, b, "unpaired").p == pytest.approx(expected, rel=1e-6)


def test_ties_and_zeros_count_every_flip() -> None:
    """Against the full enumeration of sign flips of the same ranks."""
    values = np.array([0.0, 0.1, 0.1, -0.1, 0.3, 0.3, 0.5])
    ranks = scipy.stats.rankdata(np.abs(values))
    flippable = ranks[values != 0]
    observed = ranks[values > 0].sum()
    sums = [sum(r for r, keep in zip(flippable, np.binary_repr(i, 6), strict=True) if keep == "1")
            for i in range(2**6)]  # fmt: skip
    tail = min(np.mean([s >= observed for s in sums]), np.mean([s <= observed for s in sums]))
    assert sign_flip_p(values) == pytest.approx(min(1.0, 2 * tail))


def test_the_estimate_of_a_worked_sample_is_the_median_of_its_walsh_averages() -> None:
    # Walsh averages of 1, 2, 6: 1, 1.5, 2, 3.5, 4, 6
    ratio = ratio_of(np.exp([1.0, 2.0, 6.0]), np.ones(3)).value
    assert np.log(ratio) == pytest.approx(2.75)


@pytest.mark.parametrize("n", [6, 8, 12])
@pytest.mark.parametrize("pairing", ["paired", "unpaired"])
def test_interval_covers_as_often_as_it_says(n: int, pairing: Pairing) -> None:
    """1500 seeded experiments with a true ratio of 1.5, blocks that drift, skewed noise."""
    rng = np.random.default_rng(n)
    covered, trials, stated = 0, 1500, 0.0
    for _ in range(trials):
        drift = rng.normal(0, 0.3, n) if pairing == "paired" else np.zeros(n)
        a = 1.5 * np.exp(drift + rng.exponential(0.1, n))
        b = np.exp(drift + rng.exponential(0.1, n))
        estimate = ratio_of(a, b, pairing)
        covered += present(estimate.low) <= 1.5 <= present(estimate.high)
        stated = estimate.confidence
    assert stated >= 0.95
    # Three standard errors of the simulation around the exact coverage.
    assert abs(covered / trials - stated) < 3 * np.sqrt(stated * (1 - stated) / trials)


@repeatable
@given(PAIRS)
def test_exchanging_the_sides_gives_the_reciprocal(pairs: list[tuple[float, float]]) -> None:
    a, b = zip(*pairs, strict=True)
    for pairing in PAIRINGS:
        back, forth = ratio_of(b, a, pairing), ratio_of(a, b, pairing)
        low, high = (1 / end if end is not None else None for end in (forth.high, forth.low))
        assert_same(back, replace(forth, value=1 / forth.value, low=low, high=high))


@repeatable
@given(PAIRS, st.floats(min_value=1e-6, max_value=1e6))
def test_units_do_not_matter(pairs: list[tuple[float, float]], factor: float) -> None:
    a, b = zip(*pairs, strict=True)
    scaled = [factor * x for x in a], [factor * x for x in b]
    once, again = ratio_of(a, b), ratio_of(*scaled)
    assert again.value == pytest.approx(once.value, rel=1e-9)


@repeatable
@given(PAIRS)
def test_the_interval_holds_the_estimate_and_agrees_with_the_test(pairs):
    a, b = zip(*pairs, strict=True)
    for ratio in (ratio_of(a, b, pairing) for pairing in PAIRINGS):
        if ratio.low is None or ratio.high is None:
            assert ratio.confidence == 0
            continue
        assert ratio.low <= ratio.value * (1 + 1e-9) and ratio.value <= ratio.high * (1 + 1e-9)
        assert ratio.p >= ratio.smallest_p * (1 - 1e-9)
    distinct = len(set(np.abs(np.round(np.log(np.array(a) / np.array(b)), 9)))) == len(pairs)
    ratio = ratio_of(a, b)
    if distinct and ratio.confidence >= 0.95 and ratio.low is not None and ratio.high is not None:
        assert (ratio.p <= 1 - 0.95) == (not ratio.low <= 1 <= ratio.high) or 1 in (
            ratio.low,
            ratio.high,
        )


@repeatable
@given(st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=12))
def test_holm_is_between_p_and_bonferroni_and_keeps_the_order(p: list[float]) -> None:
    adjusted = holm(p)
    for raw, adjusted_p in zip(p, adjusted, strict=True):
        assert raw <= adjusted_p <= min(1.0, raw * len(p)) + 1e-12
    ordered = [adjusted_p for _, adjusted_p in sorted(zip(p, adjusted, strict=True))]
    assert ordered == sorted(ordered)


def test_holm_of_a_worked_family() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_too_few_repeats_cannot_show_what_more_would() -> None:
    """Five clear pairs reach p = 0.0625 at best: never "no difference", which seven may."""
    five = ratio_of([2.0, 2.1, 2.2, 2.3, 2.4], [1.0] * 5)
    assert five.p == five.smallest_p == smallest_p_paired(5) == 0.0625
    (alone,) = decide([five])
    assert (outcome(alone), present(alone.decision).repeats_needed) == ("cannot be shown", 6)
    mixed = ratio_of([1.1, 0.9, 1.2, 0.85, 1.02, 0.97, 1.05], [1.0] * 7)
    assert outcome(decide([mixed])[0]) == "not shown"


def test_a_family_of_44_needs_eleven_pairs() -> None:
    def clear(n: int) -> Ratio:
        return ratio_of([2 + i / 100 for i in range(n)], [1.0] * n)

    assert {outcome(j) for j in decide([clear(10)] * 44)} == {"cannot be shown"}
    assert {outcome(j) for j in decide([clear(11)] * 44)} == {"shown"}
    assert present(decide([clear(10)] * 44)[0].decision).repeats_needed == 11


@repeatable
@given(st.floats(min_value=1e-6, max_value=1.0))
def test_repeats_needed_is_the_fewest(level: float) -> None:
    paired, unpaired = repeats_needed(level, "paired"), repeats_needed(level, "unpaired")
    assert smallest_p_paired(paired) <= level
    assert paired == 1 or smallest_p_paired(paired - 1) > level
    assert smallest_p_unpaired(unpaired, unpaired) <= level


@settings(repeatable, max_examples=20)
@given(st.sampled_from([[], [0.0, 1.0], [-1.0, 2.0], [float("nan")], [float("inf")]]))
def test_what_has_no_logarithm_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"repeat|above zero"):
        ratio_of(values, [1.0] * len(values))


@pytest.mark.parametrize(("carried", "least", "most"), [(0.0, 0.02, 0.08), (0.6, 0.6, 1.0)])
def test_blocks_that_carry_state_are_not_independent(carried: float, least: float, most: float):
    """Twenty blocks, each with a share of the previous one's noise."""
    draw = np.random.default_rng(1)
    dependent = 0
    for _ in range(200):
        values = [float(draw.normal())]
        while len(values) < 40:
            values.append(carried * values[-1] + float(draw.normal()))
        dependent += dependence_p(values[20:]) <= ALPHA
    assert least <= dependent / 200 <= most


def test_the_first_of_a_sequence_that_is_not_shown_ends_it() -> None:
    """The order is by size without the sign, so it gives no candidate a chance more."""
    zeros = np.zeros(6)
    large, noise, small = np.full(6, 9.0), np.array([5.0, -5, 5, -5, 5, -5]), np.full(6, 1.0)
    p = sequence_p([(small, zeros), (noise, zeros), (large, zeros)], "paired")
    assert p[2] == 2 / 2**6 and p[0] == p[1] > ALPHA


def test_a_share_of_a_difference_has_the_noise_of_both() -> None:
    draw = np.random.default_rng(2)
    part = draw.normal(70, 1, 12), draw.normal(10, 1, 12)
    rest = draw.normal(50, 10, 12), draw.normal(30, 10, 12)
    whole = part[0] + rest[0], part[1] + rest[1]
    share = share_of_difference(part, whole, "paired")
    low, high = present(share.low), present(share.high)
    assert low < 0.75 < high and high - low > 0.1
    assert share_of_difference(part, part, "unpaired").value == pytest.approx(1, abs=0.001)


def outcome(ratio: Ratio) -> str:
    return present(ratio.decision).outcome


def assert_same(ratio: Ratio, other: Ratio) -> None:
    assert ratio.value == pytest.approx(other.value, rel=1e-9)
    assert ratio.p == pytest.approx(other.p, rel=1e-9)
    assert (ratio.low is None) == (other.low is None)
    if ratio.low is not None and ratio.high is not None:
        assert ratio.low == pytest.approx(other.low, rel=1e-9)
        assert ratio.high == pytest.approx(other.high, rel=1e-9)
