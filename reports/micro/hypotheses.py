"""A claim of a card: that a ratio of repeats lies above a bound.

Repeats of a run were measured in blocks, so that repeat k of both sides ran in the same minute:
they are compared as pairs; those of different runs are not. The test is that of the ratio over
its bound (reports.statistics), and the claims of a card are one family: with thirty
verdicts at 5 % each, one or two would come out by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from reports.micro.points import Point
from reports.statistics import (
    Decision,
    Estimate,
    compare_paired,
    compare_unpaired,
    decide,
)


@dataclass(frozen=True)
class Claim:
    """``ratio``: as reported, with its interval; ``over_bound``: the same through the bound.

    ``over_bound.p`` is of the hypothesis that the ratio is the bound itself. ``of_half``: whether
    the other half of the repeats chose the sides.
    """

    ratio: Estimate
    over_bound: Estimate
    bound: float
    of_half: bool = False

    @property
    def repeats(self) -> int:
        """Those measured of each side."""
        used = min(self.ratio.n_a, self.ratio.n_b)
        return 2 * used if self.of_half else used

    @property
    def above(self) -> bool:
        """On which side of the bound the estimate lies."""
        return self.over_bound.ratio > 1

    @property
    def interval_holds_bound(self) -> bool:
        """Whether the interval of this ratio by itself leaves the side open."""
        low, high = self.ratio.low, self.ratio.high
        return low is None or high is None or low <= self.bound <= high


def claim(
    a: Sequence[float], b: Sequence[float], bound: float, paired: bool = True, looks: int = 1
) -> Claim | None:
    """That a/b lies above ``bound``; None without repeats, or where one of them is zero.

    ``looks``: as of an estimate (reports.statistics).
    """
    if not a or not b or min(*a, *b) <= 0:
        return None
    compared = compare_paired if paired else compare_unpaired
    over_bound = compared(a, [bound * value for value in b], looks=looks)
    return Claim(compared(a, b, looks=looks), over_bound, bound)


#: Repeats by what they are for, where the best of several is compared: chosen and tested on the
#: same repeats, the best of equal ones is better than the others.
CHOOSING, TESTING = slice(0, None, 2), slice(1, None, 2)


def best_first(sides: Sequence[Sequence[float]], lower: bool = False) -> list[int]:
    """The places of these repeats, the best first, as the choosing half has it.

    All repeats choose where one of several has no other half: a claim of it shows nothing.
    """
    halves = all(len(values) > 1 for values in sides)
    medians = [median(values[CHOOSING] if halves else values) for values in sides]
    return sorted(range(len(sides)), key=lambda at: medians[at], reverse=not lower)


def claim_of_best(
    a: Sequence[float], b: Sequence[float], bound: float, paired: bool = True, looks: int = 1
) -> Claim | None:
    """As ``claim``, of sides of which one was chosen by :func:`best_first`."""
    if min(len(a), len(b)) < 2:
        return claim(a, b, bound, paired, looks)
    made = claim(a[TESTING], b[TESTING], bound, paired, looks)
    return made and replace(made, of_half=True)


def claim_of(a: Point, b: Point, bound: float, choices: int = 1) -> Claim | None:
    """The same of two points, as pairs where they were measured side by side.

    ``choices``: of how many one was chosen on these repeats; p and interval hold for each of them
    (Bonferroni), so for the chosen one.
    """
    return claim(a.samples, b.samples, bound, a.alongside(b), max(1, choices))


@dataclass(frozen=True)
class Verdict:
    """A claim inside its family. ``others``: how many more claims the card makes."""

    claim: Claim
    decision: Decision
    others: int

    @property
    def shown(self) -> bool:
        """Whether the side on which the ratio lies is shown, whichever it is."""
        return self.decision.outcome == "shown"

    @property
    def reason(self) -> Literal["", "too-few-repeats", "bound-in-interval", "not-shown"]:
        """Why nothing is shown; empty where it is."""
        if self.shown:
            return ""
        if self.decision.outcome == "cannot be shown":
            return "too-few-repeats"
        return "bound-in-interval" if self.claim.interval_holds_bound else "not-shown"


def verdicts_of(claims: Mapping[str, Claim]) -> dict[str, Verdict]:
    """Every claim of a card decided in the family of all of them (Holm–Bonferroni)."""
    decided = decide([one.over_bound for one in claims.values()]) if claims else []
    return {
        key: Verdict(one, _of_all(one, decision), len(claims) - 1)
        for (key, one), decision in zip(claims.items(), decided, strict=True)
    }


def _of_all(one: Claim, decision: Decision) -> Decision:
    """With the repeats needed of both halves."""
    if not one.of_half:
        return decision
    return replace(decision, repeats_needed=2 * decision.repeats_needed)
