"""What a report says first: does it pay, by how much, how sure, and what was not shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reports.compare import Group, Row
from reports.conclusion import change_lines, conclusion, rate_lines
from reports.durability import asked_for_commits
from reports.metric_registry import metric_info
from reports.series import Panel
from reports.words import (
    EMULATED,
    counted,
    coverage_text,
    metric_title,
    outcome_text,
    p_text,
    speedup_text,
    times,
)

Tone = Literal["gain", "loss", "open"]

_PAYS, _PAYS_NOT = "it pays in time: ", "it does not pay: "


@dataclass(frozen=True)
class Verdict:
    """One sentence to act on, and what stands behind it."""

    tone: Tone
    emulated: tuple[str, ...]
    sentence: str
    details: tuple[str, ...]


def verdicts(panels: Sequence[Panel], alpha: float) -> list[Verdict]:
    """One for every panel and arm compared, and for what could not be compared.

    Panels of one arm are gathered in one; those of durability are told elsewhere.
    """
    found = []
    for panel in panels:
        found += _kept_apart(panel)
        found += [_verdict(panel, group, alpha) for group in panel.groups]
        found += [_refused(panel, arm, why) for arm, why in (panel.refused or {}).items()]
    alone = [
        panel for panel in panels if len(panel.arms) == 1 and not asked_for_commits(panel.arms[0])
    ]
    return found + _alone(alone)


def _verdict(panel: Panel, group: Group, alpha: float) -> Verdict:
    row = group.row(group.headline.quantity)
    emulated = tuple(dict.fromkeys((*group.a.emulated, *group.b.emulated)))
    where = panel.title_with_workload
    rate_missed = conclusion(group) == "rate not kept"
    if rate_missed:
        tone, said = _not_kept(group)
    elif row is None or row.estimate is None or row.judgement is None:
        tone, said = "open", _nothing(panel, group)
    else:
        tone, said = _said(group, row)
    if emulated and (row is not None or rate_missed):
        # Whatever the stand-in did, nobody may take it for a reason to buy the device.
        tone = "open"
        said = (
            f"{EMULATED} ({', '.join(emulated)}), so no verdict on the real device. "
            f"On the stand-in: {said.removeprefix(_PAYS).removeprefix(_PAYS_NOT)}"
        )
    sentence = f"{where}: {said}"
    return Verdict(tone, emulated, sentence, tuple(_details(panel, group, row, alpha)))


def _not_kept(group: Group) -> tuple[Tone, str]:
    """Who loses by the rate that was set."""
    rate = group.headline.rate
    assert rate is not None  # or the conclusion were another
    names = {"a": group.a.marked_name, "b": group.b.marked_name}
    if len(rate.not_kept) == 2:
        return "open", (
            f"neither {names['b']} nor {names['a']} kept the rate that was set, so their latencies "
            "depend on how long they were measured."
        )
    (loser,) = rate.not_kept
    (winner,) = names.keys() - {loser}
    text = f"{names[loser]} did not keep the rate that was set, {names[winner]} did."
    return ("loss", _PAYS_NOT + text) if loser == "b" else ("gain", _PAYS + text)


def _limited(panel: Panel, group: Group) -> int:
    """How many queries reached their time limit in a run of either side."""
    sides = (group.a.name, group.b.name)
    return len({q for arm in panel.arms if arm.name in sides for q in arm.at_limit})


def _nothing(panel: Panel, group: Group) -> str:
    sides = f"{group.b.marked_name} and {group.a.marked_name}"
    if not any(row.estimate for row in group.rows):
        return f"nothing was measured on both {sides}."
    if not (reached := _limited(panel, group)):
        return f"no single result of {sides} stands for the whole; they are below, one by one."
    queries = "1 query" if reached == 1 else f"{reached} queries"
    return (
        f"no total of {sides} can be compared, because {queries} reached a time limit in some "
        "run. The others are below, one by one."
    )


def _said(group: Group, row: Row) -> tuple[Tone, str]:
    estimate, judgement = row.estimate, row.judgement
    assert estimate is not None and judgement is not None  # _verdict has seen to it
    a, b = group.a.marked_name, group.b.marked_name
    against = f"{speedup_text(b, row)} than {a}"
    if times(estimate.ratio) == times(1.0):
        against = f"{speedup_text(b, row)} as {a}"
    if group.headline.rate is not None:
        against += " at the rate that was set"
    if judgement.outcome == "shown" and estimate.ratio > 1:
        return "gain", f"{_PAYS}{against}."
    if judgement.outcome == "shown":
        return "loss", f"{_PAYS_NOT}{against}."
    if judgement.outcome == "not shown" and estimate.low and estimate.high:
        return "open", (
            f"no difference was shown: {against}. "
            f"Better than {times(estimate.high)} or worse than {times(estimate.low)} does not fit "
            "these repeats."
        )
    have = counted(min(estimate.n_a, estimate.n_b), "repeat")
    return "open", (
        f"cannot be shown with {have}; {judgement.repeats_needed} of each are needed. "
        f"Measured: {against}."
    )


def _details(panel: Panel, group: Group, row: Row | None, alpha: float) -> list[str]:
    details = [f"{line}." for line in rate_lines(group)]
    details += [
        _measured_by(group, one)
        for one in (row, group.row(group.headline.second))
        if one is not None and one.estimate is not None
    ]
    details += [f"{line}." for line in change_lines(group)]
    details += _counts(group, alpha)
    details += _fits(panel, group)
    details += [f"{remark[0].upper()}{remark[1:]}." for remark in group.remarks]
    if group.a.unknown or group.b.unknown:
        details.append(
            "† The answers of some runs could not be checked: their times may be of wrong answers."
        )
    return details


def _measured_by(group: Group, row: Row) -> str:
    estimate, judgement = row.estimate, row.judgement
    assert estimate is not None and judgement is not None  # _details has seen to it
    repeats = (
        f"{counted(estimate.n_a, 'pair')} of repeats run side by side"
        if estimate.pairing == "paired"
        else f"{estimate.n_a} against {estimate.n_b} repeats, not in pairs: {group.why_unpaired}"
    )
    family = counted(judgement.family, "comparison")
    p = f"p = {p_text(judgement.adjusted_p)} after Holm over {family}"
    if row.quantity == group.headline.second:
        told = f"{speedup_text(group.b.marked_name, row)}, {outcome_text(row)}"
        return f"Second, the {metric_title(row)}: {told}; {p}, tested after the first."
    return f"Measured by the {metric_title(row)} over {repeats}; {coverage_text(estimate)}; {p}."


def _counts(group: Group, alpha: float) -> list[str]:
    """How many of the parts (queries …) gain, lose, or say nothing."""
    said = []
    metrics = dict.fromkeys(
        r.quantity.name for r in group.rows if metric_info(r.quantity, r.better).role == "detail"
    )
    for metric in metrics:
        rows = [r for r in group.rows if r.quantity.name == metric and r.estimate and r.judgement]
        if not rows:
            continue
        counts = Counter(_state(row) for row in rows)
        family = max(r.judgement.family for r in rows if r.judgement)
        parts = [f"{counts[state]} {state}" for state in _STATES if counts[state]]
        text = f"{metric_info(rows[0].quantity, rows[0].better).title}, {counted(len(rows), 'row')}"
        text = f"{text[0].upper()}{text[1:]}: {', '.join(parts)}"
        if counts["cannot be shown"]:
            needed = max(r.judgement.repeats_needed for r in rows if r.judgement)
            text += f" ({needed} repeats are needed for p ≤ {alpha:g} in a family of {family})"
        said.append(text + ".")
    return said


_STATES = ("shown to be better", "shown to be worse", "not shown", "cannot be shown")


def _state(row: Row) -> str:
    assert row.estimate is not None and row.judgement is not None
    if row.judgement.outcome != "shown":
        return row.judgement.outcome
    return _STATES[0] if row.estimate.ratio > 1 else _STATES[1]


def _fits(panel: Panel, group: Group) -> list[str]:
    used = {*group.a.runs, *group.b.runs}
    fitting = [
        run
        for run in panel.runs
        if run.run_id in used
        and run.run["data_bytes"]
        and run.run["memory_bytes"]
        and run.run["data_bytes"] <= run.run["memory_bytes"]
    ]
    if not fitting:
        return []
    return ["The data fit in cache: what is read twice comes from DRAM, whatever the tier."]


def _kept_apart(panel: Panel) -> list[Verdict]:
    """Runs that one would take for repeats of one another, and are not."""
    if not panel.apart:
        return []
    shown = "; ".join(panel.apart[:12])
    more = f"; and {len(panel.apart) - 12} more" if len(panel.apart) > 12 else ""
    return [
        Verdict(
            "open",
            (),
            f"{panel.title_with_workload}: runs that differ in more than is "
            "compared are shown apart, never as repeats of one another.",
            (f"They differ in {shown}{more}.",),
        )
    ]


def _refused(panel: Panel, arm: str, why: str) -> Verdict:
    return Verdict("open", (), f"{panel.title}: {arm} was not compared.", (why,))


def _alone(panels: Sequence[Panel]) -> list[Verdict]:
    """Parts of the report that hold one arm only."""
    if not panels:
        return []
    arms = [panel.arms[0] for panel in panels]
    emulated = tuple(dict.fromkeys(one for arm in arms for one in arm.emulated))
    if len(panels) == 1:
        failed = "" if arms[0].usable else " Every run of it failed."
        return [
            Verdict(
                "open",
                emulated,
                f"{panels[0].title_with_workload}: only {arms[0].marked_name} was measured, so "
                f"there is nothing to compare it with.{failed}",
                (),
            )
        ]
    told = [
        f"{panel.title_with_workload}: {arm.marked_name}{'' if arm.usable else ' (failed)'}"
        for panel, arm in zip(panels, arms, strict=True)
    ]
    said = f"{len(panels)} parts were measured in one way only: nothing to compare them with."
    return [Verdict("open", emulated, said, (f"They are {'; '.join(told)}.",))]
