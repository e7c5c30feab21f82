"""Tested conclusions as tables, on pages and on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.units import counted
from reports.conclusions.model import Checked
from reports.formatting import NOTHING, interval_text, significant, stand_in_mark, times
from reports.sections import Block, Paragraph, Table, note
from reports.trials import Outcome, Trial

_REASONS: Mapping[str, str] = {
    "one-sided": "not measured on both sides",
    "unlike-sides": "both sides differ in",
    "bound-in-interval": "the interval holds the bound",
    "not-shown": "not shown among all trials",
    "unpaired": "the repeats did not run side by side",
    "no-pair": "no pair of repeats has a value on both sides",
    "not-positive": "a value is zero or negative",
    "time-limit-reached": "a time limit was reached",
    "model-not-kept": "a model was not kept",
    "no-headline": "no single result stands for the whole",
    "part-not-used": "the parts that moved were not used",
    "rate-not-kept": "the offered rate was not kept",
    "few-threads": "fewer than 8 threads",
    "between-device-ratios": "between the smallest and the largest ratio of the devices",
    "nothing-done": "no repeats, or one of zero",
    "different-runs": "its sides come from different runs",
    "emulated": "an emulated tier, which shows nothing about the device",
    "modelled": "a modelled tier, which shows only what the model states",
    "not-measured": "not measured",
    "undecided": "its trials disagree",
}


def conclusions_page(conclusions: Sequence[Checked]) -> list[Block]:
    """Return the blocks that ``harness conclusions`` prints."""
    commands = dict.fromkeys(
        checked.conclusion.command for checked in conclusions if checked.missing
    )
    return [
        *conclusion_tables(conclusions),
        *(Paragraph(f"to test more: {command}") for command in commands),
    ]


def conclusion_tables(conclusions: Sequence[Checked]) -> Iterator[Block]:
    """The conclusions with their outcomes, and the ratios that they were tested by."""
    head = ("paper", "section", "conclusion", "here", "by")
    rows = [
        (
            checked.conclusion.paper,
            checked.conclusion.number,
            checked.conclusion.statement,
            checked.outcome + _mark(checked),
            _by(checked),
        )
        for checked in conclusions
    ]
    yield Table("Conclusions of the papers", head, rows)
    trials = [
        _trial(checked.conclusion.number, tested)
        for checked in conclusions
        for tested in checked.tested
    ]
    if trials:
        columns = ("section", "ratio", "measured", "interval", "bound", "repeats", "outcome")
        yield Table("Ratios that they were tested by", columns, trials)
        yield note(
            "A conclusion says on which side of a bound a ratio lies. Its trials are tested as one "
            "family (Holm–Bonferroni, 5 %): one holds or is contrary where that side is shown, "
            "else it is open. Where the best of several is compared, every other repeat chooses it "
            "and the remaining ones test it. Intervals are of 95 % each by itself. A conclusion "
            "about most cases holds where more than half of its trials hold."
        )


def _trial(number: str, trial: Trial) -> tuple[str | int, ...]:
    ratio = trial.tested
    measured: tuple[str | int, ...] = (NOTHING,) * 4
    if ratio:
        bound = f"{'>' if trial.expected == 'above' else '<'} {significant(ratio.bound)}"
        measured = (times(ratio.value), interval_text(ratio), bound, ratio.repeats)
    outcome: str = trial.outcome
    if outcome == "open":
        outcome = f"open: {_reason(trial.why, trial.repeats_needed or 0)}"
    return (number, trial.what + _mark(trial), *measured, outcome)


def _mark(of: Checked | Trial) -> str:
    return f" ({stand_in_mark(of.emulated)})" if of.emulated else ""


def _by(checked: Checked) -> str:
    if checked.missing:
        return f"needs {'; '.join(dict.fromkeys(checked.missing))}"
    words: dict[Outcome, str] = {"holds": "hold", "contrary": "contrary", "open": "open"}
    counts = [f"{n} {word}" for outcome, word in words.items() if (n := checked.count(outcome))]
    text = ", ".join([counted(len(checked.tested), "trial"), *counts])
    return f"{text}: {_reason(checked.why, checked.repeats_needed)}" if checked.why else text


def _reason(why: str, repeats_needed: int) -> str:
    code, colon, context = why.partition(": ")
    if code == "too-few-repeats":
        return f"too few repeats, {repeats_needed} needed"
    return f"{_REASONS[code]}{colon}{context}" if code in _REASONS else why
