"""Statistics of repeated runs: how much faster, how sure, and what could be shown at all.

Everything works on log-ratios, so that "twice as fast" and "half as fast" are equally
far from one. One statistic serves for the estimate, the test and the interval, so that
the three cannot contradict each other:

* paired (block k of A ran next to block k of B): Wilcoxon's signed-rank statistic, which
  is the sign-flip permutation test on ranks. Up to 100 pairs its null distribution is exact,
  ties and zeros included, because it is built from the ranks that were seen. The estimate is
  the Hodges–Lehmann median of the Walsh averages, the interval runs between two of their
  order statistics. (Hodges and Lehmann, Ann. Math. Statist. 34, 1963; Bauer, JASA 67,
  1972; Hollander, Wolfe and Chicken, *Nonparametric Statistical Methods*, 3.1–3.3.)
* unpaired: Wilcoxon's rank-sum statistic with the median of all pairwise differences
  (ibid., 4.1–4.3).

Ranks were chosen over the mean because one disturbed repeat on a shared machine must not
decide the result. What is assumed: the log-ratios are independent between blocks and
symmetric about their centre. Interleaving gives both under "no difference".

The smallest p that n pairs can reach is 2/2ⁿ, however clear the difference. Where that
does not get under the level of the family (Holm, Scand. J. Statist. 6, 1979), the answer
is "cannot be shown" with the repeats it would take, never "no difference".
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
_Values = Sequence[float] | FloatArray
IntArray = npt.NDArray[np.int64]
Pairing = Literal["paired", "unpaired"]
Outcome = Literal["shown", "not shown", "cannot be shown", "within the models' error"]

ALPHA = 0.05
#: Log-ratios closer than this are equal: what differs is the logarithm's rounding.
_TIE_DECIMALS = 12
#: How often a difference that repeats "resolve" is shown.
POWER = 0.8
#: More repeats than this are not planned for a resolution.
MOST_REPEATS = 100
#: Samples that a resolution is estimated from, always the same ones.
_SIMULATED = 1000
#: Random orders that a test of independence takes.
_ORDERS = 20_000
#: A part of a difference is not looked for beyond this share of it, in either direction.
_MOST_SHARE = 10.0
#: Above this many pairs the signed-rank distribution is taken as normal (the exact one grows
#: with the third power).
_EXACT_SIGNED_RANK = 100
#: Above this many, averages or differences of two values are counted, not made.
_MOST_OUTER = 1_000_000
#: Above this many values on both sides together the rank-sum distribution is taken
#: as normal (the exact one grows with the fourth power).
_EXACT_RANK_SUM = 120


@dataclass(frozen=True)
class Missing:
    """Why there is no value. ``code`` is stable; ``context``: what is missing, or what differs.

    ``tiers``: those that were not measured.
    """

    code: str
    context: str = ""
    tiers: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as ``harness explain --json`` prints it."""
        return {"value": None, "why": self.code, "tiers": list(self.tiers)}


@dataclass(frozen=True)
class Value:
    """A number with its interval, None where there is none, and the share that this covers."""

    value: float
    low: float | None = None
    high: float | None = None
    confidence: float = 1 - ALPHA

    @property
    def covered(self) -> bool:
        """Whether the interval has the required confidence: with few repeats it has less."""
        return self.confidence >= 1 - ALPHA - 1e-4

    def to_json(self) -> dict[str, float | None]:
        confidence = None if self.low is None else self.confidence
        return {"value": self.value, "low": self.low, "high": self.high, "confidence": confidence}


@dataclass(frozen=True)
class Decision:
    """A decision is what one ratio says inside its family.

    ``adjusted_p``: Holm's. ``repeats_needed``: repeats of each side from which a
    difference could be shown in a family of this size (always set, so that a report
    can say it for "cannot be shown"). ``family``: how many ratios it has.
    """

    adjusted_p: float
    outcome: Outcome
    repeats_needed: int
    family: int = 1

    def after(self, first: Decision) -> Decision:
        """Return the decision of the second of a sequence, tested only once the first is shown."""
        if first.outcome == "shown":
            return self
        worst = max(self.adjusted_p, first.adjusted_p)
        outcome: Outcome = first.outcome if self.outcome == "shown" else self.outcome
        return Decision(worst, outcome, self.repeats_needed, self.family)


@dataclass(frozen=True, kw_only=True)
class Ratio(Value):
    """The ratio A/B, its interval and its test.

    ``confidence`` is at least 1 − α where that can be reached, and less where the repeats are too
    few for it. ``p``: two-sided, of the hypothesis that the ratio is ``bound``; ``smallest_p``:
    what these repeats could have reached at best. ``n_a``, ``n_b``: repeats used of either side
    (equal when paired). ``interim_analyses``: how often results decided whether there would be
    more repeats; interval and both p are corrected for it (Bonferroni). ``halved``: whether the
    other half of the repeats chose the sides. ``model_error``: by what factors the ratio may be off
    since a side is modelled, which the interval contains. ``decision``: None until it is decided in
    a family.
    """

    p: float
    smallest_p: float
    n_a: int
    n_b: int
    pairing: Pairing
    interim_analyses: int = 1
    bound: float = 1.0
    halved: bool = False
    model_error: tuple[float, float] | None = None
    decision: Decision | None = None

    @property
    def repeats(self) -> int:
        """Return the repeats measured of each side."""
        return min(self.n_a, self.n_b) * (2 if self.halved else 1)

    def repeats_needed(self, family: int, further_looks: int = 0) -> int:
        """Return the repeats of each side that can show a difference in a family of this size.

        ``further_looks``: how often more results will have decided by then.
        """
        looks = self.interim_analyses + further_looks
        needed = repeats_needed(ALPHA / family / looks, self.pairing)
        return needed * (2 if self.halved else 1)

    def with_model_error(self, low: float, high: float) -> Ratio:
        """Return the ratio with these factors in its interval."""
        return replace(
            self,
            low=None if self.low is None else self.low * low,
            high=None if self.high is None else self.high * high,
            model_error=(low, high),
        )

    @property
    def within_model_error(self) -> bool:
        """Whether the error of a modelled side alone may put it on the other side of the bound."""
        if self.model_error is None:
            return False
        low, high = self.low, self.high
        if low is None or high is None:
            low, high = (self.value * factor for factor in self.model_error)
        return low <= self.bound <= high

    @property
    def above(self) -> bool:
        """Return whether it lies above the bound."""
        return math.log(self.value / self.bound) > 1e-12

    @property
    def shown(self) -> bool:
        """Return whether the side of the bound on which it lies is shown, whichever it is."""
        return self.decision is not None and self.decision.outcome == "shown"

    @property
    def reason(self) -> Literal["", "too-few-repeats", "bound-in-interval", "not-shown"]:
        """Return why nothing is shown; empty where it is."""
        if self.shown:
            return ""
        if self.decision is not None and self.decision.outcome == "cannot be shown":
            return "too-few-repeats"
        inside = self.low is None or self.high is None or self.low <= self.bound <= self.high
        return "bound-in-interval" if inside else "not-shown"


def log_ratios(a: _Values, b: _Values) -> FloatArray:
    """ln(a[i]/b[i]) of paired positive values, shape (n,). ValueError on zero or negative."""
    if len(a) != len(b):
        raise ValueError(f"pairs need equal lengths, not {len(a)} and {len(b)}")
    difference: FloatArray = np.round(_logs(a) - _logs(b), _TIE_DECIMALS)
    return difference


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


def ratio_of(
    a: _Values,
    b: _Values,
    pairing: Pairing = "paired",
    interim_analyses: int = 1,
    bound: float = 1.0,
) -> Ratio:
    """Return the ratio A/B of repeats (each side ≥ 1, all positive), tested against ``bound``.

    Paired ones have the same length on both sides.
    """
    log_a, log_b, bounded = _logs(a), _logs(b), _logs(np.asarray(b, dtype=np.float64) * bound)
    n_a, n_b = len(log_a), len(log_b)
    if pairing == "paired":
        order = _walsh_order(log_ratios(a, b))
        steps, confidence = _signed_rank_cut(n_a, ALPHA / interim_analyses)
        p, smallest_p = (
            sign_flip_p(np.round(log_a - bounded, _TIE_DECIMALS)),
            smallest_p_paired(n_a),
        )
    else:
        order = _difference_order(log_a, log_b)
        steps, confidence = _rank_sum_cut(n_a, n_b, ALPHA / interim_analyses)
        p = rank_sum_p(*(np.round(logs, _TIE_DECIMALS) for logs in (log_a, bounded)))
        smallest_p = smallest_p_unpaired(n_a, n_b)
    confidence = _corrected(confidence, interim_analyses)
    return Ratio(
        math.exp(order.median()),
        *_between(order, steps, confidence),
        confidence,
        p=min(1.0, interim_analyses * p),
        smallest_p=min(1.0, interim_analyses * smallest_p),
        n_a=n_a,
        n_b=n_b,
        pairing=pairing,
        interim_analyses=interim_analyses,
        bound=bound,
    )


def compare_values(
    a: Sequence[float | None],
    b: Sequence[float | None],
    pairing: Pairing = "paired",
    interim_analyses: int = 1,
    bound: float = 1.0,
) -> Ratio | Missing:
    """Return the ratio A/B of the repeats that have a value, or why there is none."""
    values_a, values_b = ([one for one in side if one is not None] for side in (a, b))
    if not values_a or not values_b:
        return Missing("measured on one side only" if values_a or values_b else "")
    if pairing == "paired":
        both = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
        if not both:
            return Missing("no pair of repeats has a value on both sides")
        values_a, values_b = [x for x, _ in both], [y for _, y in both]
    if min(*values_a, *values_b) <= 0:
        return Missing("no ratio: a value is zero or negative")
    return ratio_of(values_a, values_b, pairing, interim_analyses, bound)


def difference(a: _Values, b: _Values, pairing: Pairing, interim_analyses: int = 1) -> Value:
    """Return B − A by the same statistics as the ratio, of values of any sign."""
    alpha = ALPHA / interim_analyses
    values_a, values_b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if pairing == "paired":
        ordered = _walsh_order(values_b - values_a)
        steps, confidence = _signed_rank_cut(len(values_a), alpha)
    else:
        ordered = _difference_order(values_b, values_a)
        steps, confidence = _rank_sum_cut(len(values_a), len(values_b), alpha)
    confidence = _corrected(confidence, interim_analyses)
    return Value(ordered.median(), *_between(ordered, steps, confidence, float), confidence)


def share_of_difference(
    part: tuple[FloatArray, FloatArray],
    whole: tuple[FloatArray, FloatArray],
    pairing: Pairing,
    interim_analyses: int = 1,
) -> Value:
    """Return the share of a difference that a part of it makes up; each is A's and B's values.

    The interval has the shares s at which part − s × whole does not differ between A and B, so it
    has the noise of both. It ends at ±:data:`_MOST_SHARE`.
    """
    sign = 1 if difference(*whole, pairing).value > 0 else -1

    def rest(share: float) -> Value:
        a, b = (sign * (x - share * y) for x, y in zip(part, whole, strict=True))
        return difference(a, b, pairing, interim_analyses)

    def root(end: Callable[[Value], float]) -> float:
        low, high = -_MOST_SHARE, _MOST_SHARE
        while high - low > 1e-4:
            middle = (low + high) / 2
            low, high = (middle, high) if end(rest(middle)) > 0 else (low, middle)
        return (low + high) / 2

    share, at_zero = root(lambda left: left.value), rest(0.0)
    if at_zero.low is None:
        return Value(share, confidence=at_zero.confidence)
    ends = root(lambda left: left.low or 0.0), root(lambda left: left.high or 0.0)
    return Value(share, *ends, at_zero.confidence)


def sequence_p(
    candidates: Sequence[tuple[FloatArray, FloatArray]],
    pairing: Pairing,
    interim_analyses: int = 1,
) -> list[float]:
    """Adjusted p of the differences of several candidates, each A's and B's values.

    They are tested in a fixed sequence, which ends with the first that is not shown: p is the
    largest up to a candidate. The order is that of the lower quartile of the sizes of a
    candidate's differences, without their signs: under "no difference" that says nothing of the
    signs that are tested, so all tests are at the whole level, and six pairs suffice for any
    number of candidates. (Holm needs nine pairs for eight of them.)
    """

    def size(a: FloatArray, b: FloatArray) -> float:
        both = np.concatenate([a, b])
        sizes = a - b if pairing == "paired" else both - np.median(both)
        return float(np.quantile(np.abs(sizes), 0.25))

    test = (lambda a, b: sign_flip_p(a - b)) if pairing == "paired" else rank_sum_p
    order = sorted(range(len(candidates)), key=lambda i: -size(*candidates[i]))
    adjusted, worst = [0.0] * len(candidates), 0.0
    for index in order:
        worst = max(worst, min(1.0, interim_analyses * test(*candidates[index])))
        adjusted[index] = worst
    return adjusted


def _corrected(confidence: float, interim_analyses: int) -> float:
    """Return the coverage that is left over so many looks (Bonferroni)."""
    return max(0.0, 1 - interim_analyses * (1 - confidence))


def dependence_p(values: _Values) -> float:
    """One-sided p of the test that successive values are alike, and no random order of them.

    Von Neumann's ratio of their ranks (Bartels, JASA 77, 1982), by random orders: always the same.
    """
    numbers: FloatArray = np.asarray(values, dtype=np.float64)
    ranks = doubled_midranks(np.round(numbers, _TIE_DECIMALS))
    sums = _successive_sums(tuple(int(rank) for rank in np.sort(ranks)))
    at_most = np.searchsorted(sums, int((np.diff(ranks) ** 2).sum()), side="right")
    return float((at_most + 1) / (len(sums) + 1))


@cache
def _successive_sums(ranks: tuple[int, ...]) -> IntArray:
    """Sums of the squares of successive differences in random orders of the ranks, sorted."""
    orders = min(_ORDERS, _MOST_OUTER // len(ranks))
    shuffled = np.random.default_rng(0).permuted(np.tile(ranks, (orders, 1)), axis=1)
    return np.sort((np.diff(shuffled, axis=1) ** 2).sum(axis=1))


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


def noise_of(log_ratios: Sequence[float]) -> float:
    """The noise between two identical runs, as a share (0.02: 2 %).

    ``log_ratios``: ln(A/B) of their pairs. Their centre is zero, since the runs are identical.
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    return math.expm1(math.sqrt(float(np.mean(values**2))))


def noise_bounds(log_ratios: _Values) -> tuple[float, float]:
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
    steps, _ = _signed_rank_cut(repeats, level)
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
    found = bisect_left(range(least, MOST_REPEATS + 1), True, key=resolve) + least
    return found if found <= MOST_REPEATS else None


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values, in the order given; they bound the family-wise error."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = p[order] * (len(p) - np.arange(len(p)))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return [float(value) for value in adjusted]


def decide(family: Sequence[Ratio]) -> list[Ratio]:
    """Return each ratio of a family with its decision under Holm, in the order given.

    "cannot be shown": even the smallest p its repeats can reach, put in the place of
    its own, would not have passed among the others' p values.
    """
    p_values = [one.p for one in family]
    decided = []
    for index, (one, adjusted) in enumerate(zip(family, holm(p_values), strict=True)):
        best = [*p_values]
        best[index] = one.smallest_p
        if adjusted <= ALPHA:
            outcome: Outcome = "within the models' error" if one.within_model_error else "shown"
        elif holm(best)[index] <= ALPHA:
            outcome = "not shown"
        else:
            outcome = "cannot be shown"
        decision = Decision(adjusted, outcome, one.repeats_needed(len(family)), len(family))
        decided.append(replace(one, decision=decision))
    return decided


def _logs(values: _Values) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError("needs at least one repeat")
    if not bool(np.all(np.isfinite(array) & (array > 0))):
        raise ValueError("a ratio needs values above zero")
    logs: FloatArray = np.log(array)
    return logs


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
        kept = chances[: reached + 1].copy()
        chances[: reached + 1] /= 2
        chances[weight : reached + weight + 1] += kept / 2
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


def _signed_rank_cut(n: int, alpha: float) -> tuple[int, float]:
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
class _Order:
    """Values by rank (from 1) of which there may be too many to make.

    ``at``: the value of a rank; ``total``: how many values there are.
    """

    at: Callable[[int], float]
    total: int

    def median(self) -> float:
        return (self.at((self.total + 1) // 2) + self.at(self.total // 2 + 1)) / 2


def _of_values(ordered: FloatArray) -> _Order:
    return _Order(lambda rank: float(ordered[rank - 1]), len(ordered))


def _of_counts(at_most: Callable[[float], int], low: float, high: float, total: int) -> _Order:
    """Values within ``low`` and ``high``; ``at_most`` counts those that are not above a bound."""

    def at(rank: int) -> float:
        below, found = math.nextafter(low, -math.inf), high
        while below < (middle := (below + found) / 2) < found:
            if at_most(middle) >= rank:
                found = middle
            else:
                below = middle
        return found

    return _Order(at, total)


def _walsh_order(values: FloatArray) -> _Order:
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


def _difference_order(a: FloatArray, b: FloatArray) -> _Order:
    """All a[i] − b[j]."""
    total = len(a) * len(b)
    if total <= _MOST_OUTER:
        return _of_values(np.sort(np.subtract.outer(a, b).ravel()))
    ordered = np.sort(a)

    def at_most(bound: float) -> int:
        return int(np.searchsorted(ordered, b + bound, side="right").sum())

    low, high = float(a.min() - b.max()), float(a.max() - b.min())
    return _of_counts(at_most, low, high, total)


def _rank_sum_cut(n_a: int, n_b: int, alpha: float) -> tuple[int, float]:
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


def _between(
    ordered: _Order, steps: int, confidence: float, value: Callable[[float], float] = math.exp
) -> tuple[float | None, float | None]:
    """The interval, as ratios of logarithms; None where it covers nothing (a single repeat)."""
    if confidence <= 0:
        return None, None
    return value(ordered.at(steps)), value(ordered.at(ordered.total - steps + 1))
