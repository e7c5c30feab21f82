"""Conclusions as rows of text, the same on the terminal and on pages."""

from __future__ import annotations

from collections.abc import Iterable

from reports.conclusions.model import Checked, Tested
from reports.formatting import EMULATED, NOTHING, counted, interval_text, significant, times

HEAD = ("paper", "section", "conclusion", "here", "by")
TRIALS_HEAD = ("section", "ratio", "measured", "interval", "bound", "repeats", "outcome")

#: Reasons by code, some with a context after it; others are texts themselves.
_REASONS = {
    "one-sided": "not measured on both sides",
    "unlike-sides": "both sides differ in",
    "ambiguous": "ambiguous",
    "bound-in-interval": "the interval holds the bound",
    "not-shown": "not shown among all trials",
    "unpaired": "the repeats did not run side by side",
    "no-ratio": "a value is zero or missing",
    "no-headline": "no single result stands for the whole",
    "rate-not-kept": "the offered rate was not kept",
    "few-threads": "fewer than 8 threads",
    "between-device-ratios": "between the smallest and the largest ratio of the devices",
    "nothing-done": "no repeats, or one of zero",
    "different-runs": "its sides come from different runs",
    "emulated": "an emulated tier, which shows nothing about the device",
    "not-measured": "not measured",
    "undecided": "its trials disagree",
}


def reason(code: str, repeats_needed: int = 0) -> str:
    """A reason in words."""
    if code == "too-few-repeats":
        return f"too few repeats, {repeats_needed} needed"
    known, colon, context = code.partition(": ")
    return _REASONS[known] + colon + context if known in _REASONS else code


def row(one: Checked) -> tuple[str, ...]:
    """A conclusion with its outcome and its number of trials."""
    of = one.conclusion
    mark = f" ({EMULATED})" if one.emulated else ""
    return of.paper, of.number, of.statement, one.outcome + mark, _by(one)


def _by(one: Checked) -> str:
    if one.missing:
        return "needs " + "; ".join(dict.fromkeys(missing.what for missing in one.missing))
    numbers = (one.count("holds"), "hold"), (one.count("contrary"), "contrary")
    counts = [f"{n} {word}" for n, word in (*numbers, (one.count("open"), "open")) if n]
    why = f": {reason(one.why, one.repeats_needed)}" if one.why else ""
    return f"{counted(len(one.tested), 'trial')}, {', '.join(counts)}{why}"


def trial_rows(found: Iterable[Checked]) -> list[tuple[str, ...]]:
    """Every ratio that a conclusion was tested by."""
    return [(one.conclusion.number, *_trial(tested)) for one in found for tested in one.tested]


def _trial(one: Tested) -> tuple[str, ...]:
    needed = one.verdict.decision.repeats_needed if one.verdict else 0
    outcome = f"open: {reason(one.why, needed)}" if one.outcome == "open" else one.outcome
    mark = f" ({EMULATED})" if one.trial.emulated else ""
    claim = one.trial.claim
    if claim is None:
        return one.trial.what + mark, NOTHING, NOTHING, NOTHING, NOTHING, outcome
    sign = ">" if one.expected == "above" else "<"
    return (
        one.trial.what + mark,
        times(claim.ratio.ratio),
        interval_text(claim.ratio),
        f"{sign} {significant(claim.bound)}",
        str(min(claim.ratio.n_a, claim.ratio.n_b)),
        outcome,
    )


def commands(found: Iterable[Checked]) -> list[str]:
    """What measures the conclusions that were not testable, each command once."""
    return list(
        dict.fromkeys(
            one.conclusion.command
            for one in found
            if one.outcome == "not testable here" and one.conclusion.test is not None
        )
    )
