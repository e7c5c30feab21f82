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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from reports.ranks import (
    TIE_DECIMALS,
    FloatArray,
    Order,
    Pairing,
    Values,
    difference_order,
    rank_sum_cut,
    rank_sum_p,
    repeats_needed,
    sign_flip_p,
    signed_rank_cut,
    smallest_p_paired,
    smallest_p_unpaired,
    walsh_order,
)

Outcome = Literal["shown", "not shown", "cannot be shown", "within the models' error"]

ALPHA = 0.05
#: A part of a difference is not looked for beyond this share of it, in either direction.
_MOST_SHARE = 10.0


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
        """Return whether the interval has the required confidence: with few repeats it has less."""
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

    def scaled(self, factor: float) -> Ratio:
        """Return the ratio times a number that is known, without the decision on it."""
        low, high = (None if end is None else end * factor for end in (self.low, self.high))
        return replace(self, value=self.value * factor, low=low, high=high, decision=None)

    @property
    def within_model_error(self) -> bool:
        """Return whether a modelled side's error alone may put it across the bound."""
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


def log_ratios(a: Values, b: Values) -> FloatArray:
    """ln(a[i]/b[i]) of paired positive values, shape (n,). ValueError on zero or negative."""
    if len(a) != len(b):
        raise ValueError(f"pairs need equal lengths, not {len(a)} and {len(b)}")
    difference: FloatArray = np.round(_logs(a) - _logs(b), TIE_DECIMALS)
    return difference


def ratio_of(
    a: Values,
    b: Values,
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
        order = walsh_order(log_ratios(a, b))
        steps, confidence = signed_rank_cut(n_a, ALPHA / interim_analyses)
        p, smallest_p = (
            sign_flip_p(np.round(log_a - bounded, TIE_DECIMALS)),
            smallest_p_paired(n_a),
        )
    else:
        order = difference_order(log_a, log_b)
        steps, confidence = rank_sum_cut(n_a, n_b, ALPHA / interim_analyses)
        p = rank_sum_p(*(np.round(logs, TIE_DECIMALS) for logs in (log_a, bounded)))
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
    values_a, values_b = ([value for value in side if value is not None] for side in (a, b))
    if not values_a or not values_b:
        if values_a or values_b:
            return Missing("one-sided", "measured on one side only")
        return Missing("not-measured")
    if pairing == "paired":
        both = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
        if not both:
            return Missing("no-pair", "no pair of repeats has a value on both sides")
        values_a, values_b = [x for x, _ in both], [y for _, y in both]
    if min(*values_a, *values_b) <= 0:
        return Missing("not-positive", "no ratio: a value is zero or negative")
    return ratio_of(values_a, values_b, pairing, interim_analyses, bound)


def difference(a: Values, b: Values, pairing: Pairing, interim_analyses: int = 1) -> Value:
    """Return B − A by the same statistics as the ratio, of values of any sign."""
    alpha = ALPHA / interim_analyses
    values_a, values_b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if pairing == "paired":
        ordered = walsh_order(values_b - values_a)
        steps, confidence = signed_rank_cut(len(values_a), alpha)
    else:
        ordered = difference_order(values_b, values_a)
        steps, confidence = rank_sum_cut(len(values_a), len(values_b), alpha)
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
    p_values = [ratio.p for ratio in family]
    decided = []
    for index, (ratio, adjusted) in enumerate(zip(family, holm(p_values), strict=True)):
        best = [*p_values]
        best[index] = ratio.smallest_p
        if adjusted <= ALPHA:
            outcome: Outcome = "within the models' error" if ratio.within_model_error else "shown"
        elif holm(best)[index] <= ALPHA:
            outcome = "not shown"
        else:
            outcome = "cannot be shown"
        decision = Decision(adjusted, outcome, ratio.repeats_needed(len(family)), len(family))
        decided.append(replace(ratio, decision=decision))
    return decided


def _logs(values: Values) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError("needs at least one repeat")
    if not bool(np.all(np.isfinite(array) & (array > 0))):
        raise ValueError("a ratio needs values above zero")
    logs: FloatArray = np.log(array)
    return logs


def _between(
    ordered: Order, steps: int, confidence: float, value: Callable[[float], float] = math.exp
) -> tuple[float | None, float | None]:
    """The interval, as ratios of logarithms; None where it covers nothing (a single repeat)."""
    if confidence <= 0:
        return None, None
    return value(ordered.at(steps)), value(ordered.at(ordered.total - steps + 1))
