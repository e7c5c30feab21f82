"""Ratios of repeats that are tested against a bound, as one family.

Repeats of a run were measured in blocks, so that repeat k of both sides ran in the same minute:
they are compared as pairs; those of different runs are not. The trials of a card, or of a
conclusion, are one family: with thirty at 5 % each, one or two would come out by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal, TypeVar

from harness.store.documents import attributes
from reports.formatting import stand_in_mark
from reports.statistics import Missing, Ratio, compare_values, decide

Outcome = Literal["holds", "contrary", "open"]
Side = Literal["above", "below"]
#: Repeats by what they are for, where the best of several is compared: chosen and tested on the
#: same repeats, the best of equal ones is better than the others.
CHOOSING, TESTING = slice(0, None, 2), slice(1, None, 2)


@dataclass(frozen=True)
class Trial:
    """A ratio that should lie on the ``expected`` side of its bound.

    It *holds* where it is shown to lie there, is *contrary* where it is shown on the other side,
    else *open*. On stand-ins (``emulated``) it is always open.
    """

    what: str
    ratio: Ratio | Missing
    emulated: tuple[str, ...] = ()
    expected: Side = "above"

    @property
    def tested(self) -> Ratio | None:
        """Return the ratio, where there is one."""
        return None if isinstance(self.ratio, Missing) else self.ratio

    @property
    def outcome(self) -> Outcome:
        if isinstance(self.ratio, Missing) or self.emulated or not self.ratio.shown:
            return "open"
        return "holds" if self.ratio.above == (self.expected == "above") else "contrary"

    @property
    def why(self) -> str:
        """Return a code for why it is open; empty where it is not."""
        if self.emulated:
            return stand_in_mark(self.emulated).lower()
        if isinstance(self.ratio, Missing):
            return ": ".join(filter(None, (self.ratio.code, self.ratio.context)))
        return self.ratio.reason

    @property
    def repeats_needed(self) -> int | None:
        """Return the repeats from which it could be shown; None of what is not tested."""
        decision = self.tested.decision if self.tested and not self.emulated else None
        return decision.repeats_needed if decision else None

    def to_json(self) -> dict[str, Any]:
        ratio = self.tested
        return {
            **attributes(self, "what", "outcome", "why"),
            "ratio": ratio.value if ratio else None,
            **attributes(ratio, "low", "high", "confidence", "bound"),
            "repeats": ratio.repeats if ratio else 0,
            **attributes(self, "repeats_needed", "emulated"),
        }


TrialT = TypeVar("TrialT", bound=Trial)


def decided(trials: Sequence[TrialT]) -> list[TrialT]:
    """Decide trials as one family (Holm–Bonferroni); decided ones stay as they are."""
    open_ = [t.tested for t in trials if t.tested and not t.tested.decision and not t.emulated]
    made = {id(ratio): new for ratio, new in zip(open_, decide(open_), strict=True)}
    return [replace(t, ratio=made.get(id(t.ratio), t.ratio)) for t in trials]


def tested(
    a: Sequence[float],
    b: Sequence[float],
    bound: float,
    paired: bool = True,
    interim_analyses: int = 1,
    chosen: bool = False,
) -> Ratio | Missing:
    """Test a/b against a bound; it is missing without repeats, or where one of them is zero.

    ``chosen``: whether :func:`best_first` chose a side; then the other half of the repeats is
    tested, if there is one.
    """
    if chosen and min(len(a), len(b)) > 1:
        ratio = tested(a[TESTING], b[TESTING], bound, paired, interim_analyses)
        return ratio if isinstance(ratio, Missing) else replace(ratio, halved=True)
    ratio = compare_values(a, b, "paired" if paired else "unpaired", interim_analyses, bound)
    return Missing("nothing-done") if isinstance(ratio, Missing) else ratio


def best_first(sides: Sequence[Sequence[float]], lower: bool = False) -> list[int]:
    """Return the places of these repeats, the best first, as the choosing half has it.

    All repeats choose where one of several has no other half: a trial of it shows nothing.
    """
    halves = all(len(values) > 1 for values in sides)
    medians = [median(values[CHOOSING] if halves else values) for values in sides]
    return sorted(range(len(sides)), key=lambda at: medians[at], reverse=not lower)
