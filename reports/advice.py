"""The answers of ``harness advise``: which parts should move to which device, and why.

Each answer compares two arms of paired runs, by the same comparison as ``harness compare``. What
moves is decided in one family of all arms, as in a report of these runs; what moves first, as well
or less in one of every two of the arms that move something, since the results choose which of them
are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from harness.sequences import grouped
from harness.store.documents import as_json, members
from harness.store.runs import StoredRun
from reports.answers import not_controlled, speed_up_text
from reports.arm import Arm
from reports.compare import Group, compare, decided
from reports.explain.causes import article, explanation, parts_text, waited_at_most
from reports.explain.ceilings import ceilings
from reports.explain.comparisons import speed_up_of
from reports.explain.correlation import CheckedPrediction
from reports.explain.devices import PARTS, TierSources
from reports.explain.prediction import Predicted, predict_on
from reports.formatting import BY_MODEL, EMULATED, interval_text, percent, significant, times
from reports.labels import at_value, number_of
from reports.money import money
from reports.more_memory import MemoryAnswer, memory_answers
from reports.run_configuration import spec_facts
from reports.series import panels
from reports.statistics import Value

_NOT_KEPT = "is not comparable, since the rate was not kept (give a lower --rate)"


@dataclass(frozen=True)
class PlannedArm:
    """An arm of the plan: the parts that are on another tier than today, and their tier.

    ``runs``: without failed ones, at least one.
    """

    placement: str
    parts: tuple[str, ...]
    tier: str
    runs: tuple[StoredRun, ...]

    @property
    def what(self) -> str:
        """``the WAL and the data``."""
        return parts_text(self.parts)

    @property
    def over(self) -> str:
        """Return what its runs differ in from today's: with memory of another size, in the arm."""
        return "arm" if self.runs and self.runs[0].spec.arm else "placement"


@dataclass(frozen=True)
class PlacementPrediction:
    """Prediction of a placement over today's by the tiers' baselines, before it is measured.

    ``measured``: its speed-up afterwards; None before.
    """

    a: str
    b: str
    predicted: Predicted
    measured: Value | None = None

    @property
    def sentence(self) -> str:
        """``Predicted for pmem-both: 1.60×, bounds 1.10× to 2.30×``; then what was measured."""
        low, high = times(self.predicted.bound_low), times(self.predicted.bound_high)
        text = f"Predicted for {self.b} against {self.a}: {times(self.predicted.value)}, bounds "
        text += f"{low} to {high}"
        if self.measured is None:
            return f"{text}."
        return f"{text}; measured: {times(self.measured.value)}, {100 * self._residual:+.0f} %."

    @property
    def _residual(self) -> float:
        measured = self.measured or self.predicted.speed_up
        return CheckedPrediction("", self.predicted.speed_up, measured).residual

    def to_json(self) -> dict[str, Any]:
        """As in ``harness advise --json``."""
        residual = None if self.measured is None else self._residual
        return members(self) | {"residual": residual}


def expected(
    today: Sequence[StoredRun], placements: Mapping[str, Mapping[str, str]], sources: TierSources
) -> list[PlacementPrediction]:
    """Return what is predicted of placements, each with its part → tier, from runs on today's.

    ``today``: may be none, for which nothing is predicted.
    """
    usable = [run for run in today if run.result.status != "failed"]
    if not usable or usable[0].spec.placement is None:
        return []
    name = usable[0].spec.placement.name
    arm = Arm(name, name, tuple(usable))
    predictions = {
        placement: predict_on(arm, usable[0].host_id, devices, sources)
        for placement, devices in placements.items()
    }
    return [
        PlacementPrediction(name, placement, predicted)
        for placement, predicted in predictions.items()
        if isinstance(predicted, Predicted)
    ]


def met(
    expectations: Sequence[PlacementPrediction], today: PlannedArm, trials: Sequence[PlannedArm]
) -> list[PlacementPrediction]:
    """Return the expectations with what was measured, without those that were not."""
    runs = {trial.placement: trial.runs for trial in trials}
    measured = {
        name: speed_up_of(group)
        for name in runs
        for group in compare(today.runs, runs[name], [today.over]).groups
    }
    return [
        replace(expectation, measured=speed_up)
        for expectation in expectations
        if isinstance(speed_up := measured.get(expectation.b), Value)
    ]


@dataclass(frozen=True)
class Answer:
    """A question with its answer in a sentence, and the comparison that it rests on."""

    question: str
    sentence: str
    group: Group

    @property
    def undecided(self) -> bool:
        """Return whether there are too few repeats to show any difference."""
        return self.group.verdict == "not resolvable"

    def to_json(self) -> dict[str, Any]:
        """As in ``harness advise --json``."""
        row = self.group.deciding
        estimate = row.estimate if row else None
        return {
            "question": self.question,
            "sentence": self.sentence,
            "verdict": self.group.verdict,
            "a": self.group.a.name,
            "b": self.group.b.name,
            "value": estimate.to_json() if estimate else None,
            "pairs": estimate.repeats if estimate else 0,
            "why": as_json(explanation(self.group).causes),
            "rests_on": [vars(fact) for fact in self.group.rests_on],
        }


def answers(
    today: PlannedArm, trials: Sequence[PlannedArm], every: Sequence[StoredRun]
) -> list[Answer]:
    """Answer what should move, most important first.

    ``every``: all runs of the experiment, which say how long its blocks took.
    """

    def between(pairs: Sequence[tuple[PlannedArm, PlannedArm]]) -> list[Group]:
        """Compare A and B of each pair; the verdicts are those of one family."""
        comparisons = (compare(a.runs, b.runs, [a.over], neighbours=every) for a, b in pairs)
        return decided([group for comparison in comparisons for group in comparison.groups])

    compared = between([(today, trial) for trial in trials])
    gains = {trial.placement: group for trial, group in zip(trials, compared, strict=True)}
    ranked = sorted(trials, key=lambda trial: (len(trial.parts), -_value(gains[trial.placement])))
    faster = [trial for trial in ranked if gains[trial.placement].verdict == "faster"]
    if not faster:
        return [_stay(today, trial, gains[trial.placement]) for trial in ranked]
    # The part that moves first, on the tier where all that moves gains most.
    best = max(faster, key=lambda trial: _value(gains[trial.placement]))
    chosen = next(trial for trial in faster if trial.tier == best.tier)
    larger = [t for t in ranked if t.tier == chosen.tier and set(t.parts) > set(chosen.parts)]
    others = [trial for trial in ranked if trial != chosen and trial not in larger]
    pairs = [(chosen, trial) for trial in larger] + [(trial, chosen) for trial in others]
    rest = combinations([trial for trial in ranked if trial != chosen], 2)
    further = between([*pairs, *rest])
    more = [_as_well(chosen, *pair) for pair in zip(larger, further, strict=False)]
    first = any(answer.group.verdict == "faster" for answer in more)
    moves = [_move(today, chosen, gains[chosen.placement], every, first), *more]
    for trial, group in zip(others, further[len(larger) : len(pairs)], strict=True):
        less = group.verdict == "faster"
        moves.append(_alone(today, chosen, trial, gains[trial.placement], less))
    return moves


def _value(group: Group) -> float:
    row = group.deciding
    return row.estimate.value if row and row.estimate else 0.0


def _move(
    today: PlannedArm, trial: PlannedArm, group: Group, every: Sequence[StoredRun], first: bool
) -> Answer:
    why = explanation(group).text
    before = " first" if first else ""
    sentence = f"Move {trial.what} to {trial.tier}{before}: {speed_up_text(group)}."
    if why:
        sentence += f" Why: {why}."
    if trial.parts != ("memory",) and (price := _price(today, trial, every)):
        sentence += f" {price}"
    return Answer(f"What should move from {today.tier}?", sentence, group)


def _stay(today: PlannedArm, trial: PlannedArm, group: Group) -> Answer:
    ratio = speed_up_text(group)
    sentence = {
        "slower": f"Leave {trial.what} on {today.tier}: {trial.tier} is slower, {ratio}.",
        "no difference": f"Leave {trial.what} on {today.tier}: {trial.tier} gains nothing shown, "
        f"{ratio}.",
        "part not used": f"Leave {trial.what} on {today.tier}: the runs did not use it.",
        "rate not kept": f"Moving {trial.what} to {trial.tier} {_NOT_KEPT}: {ratio}.",
    }.get(group.verdict, f"Not resolvable yet: moving {trial.what} to {trial.tier} gives {ratio}.")
    if why := explanation(group).text:
        sentence += f" Why: {why}."
    elif group.verdict == "no difference" and (waited := waited_at_most(group)):
        sentence += f" Before, {waited}."
    return Answer(f"Should {trial.what} move to {trial.tier}?", sentence, group)


def _as_well(chosen: PlannedArm, trial: PlannedArm, group: Group) -> Answer:
    more = parts_text([part for part in trial.parts if part not in chosen.parts])
    verdict = {
        "faster": "gains more",
        "slower": "loses some of it",
        "not resolvable": "is not resolvable yet",
        "rate not kept": _NOT_KEPT,
    }.get(group.verdict, "adds nothing shown")
    sentence = f"Moving {more} as well {verdict}: {speed_up_text(group)}"
    sentence += _waiting(chosen, [part for part in trial.parts if part not in chosen.parts])
    return Answer(f"Should {more} move as well?", sentence, group)


def _waiting(on: PlannedArm, parts: Sequence[str]) -> str:
    """End a sentence with the share of time that was waiting for parts before they moved."""
    waiting = ceilings(on.runs)
    part = waiting and next((c for c in waiting.total if set(parts) <= PARTS[c.devices]), None)
    if waiting is None or not part or not part.latency_ns:
        return "."
    noun = (
        "queries wait"
        if waiting.noun == "query"
        else f"{article(waiting.noun)} {waiting.noun} waits"
    )
    share = percent(part.direct_ns / part.latency_ns)
    return f". Before, {noun} for {parts_text(parts)} in {share} of the time."


def _alone(
    today: PlannedArm, chosen: PlannedArm, trial: PlannedArm, group: Group, less: bool
) -> Answer:
    """``less``: whether it is shown to gain less than what moves first."""
    elsewhere = trial.parts == chosen.parts
    first = chosen.tier if elsewhere else chosen.what
    gains = "gains less" if less else f"gains, too (not shown to be less than {first})"
    verdict = {
        "faster": gains,
        "slower": "loses",
        "not resolvable": "is not resolvable yet",
        "rate not kept": _NOT_KEPT,
    }.get(group.verdict, "gains nothing shown")
    what = trial.what if elsewhere else f"{trial.what} alone"
    sentence = f"Moving {what} to {trial.tier} {verdict}: {speed_up_text(group)}"
    sentence += _waiting(today, trial.parts)
    return Answer(f"What does {what} gain on {trial.tier}?", sentence, group)


def _price(today: PlannedArm, trial: PlannedArm, every: Sequence[StoredRun]) -> str:
    """Return up to which price it pays; empty without prices."""
    name = today.runs[0].spec.arm or today.placement
    made = panels([*today.runs, *trial.runs], today.over, name)
    table = money(made)
    if table is None:
        return ""
    break_evens = (
        row.break_even for panel_money in table.tables for row in panel_money.rows if row.break_even
    )
    price = next(break_evens, None)
    if price is None:
        return ""
    interval = "" if price.low is None else f" {interval_text(price)}"
    return f"Pays below {significant(price.value)}{interval} {table.currency}/GB of {price.tier}."


def memory_prices(today: PlannedArm, trials: Sequence[PlannedArm]) -> list[MemoryAnswer]:
    """Return up to which price more, slower memory pays, by the arms of a question of memory."""
    runs = [*today.runs, *(run for trial in trials for run in trial.runs)]
    return [*memory_answers(panels(runs, "arm", today.runs[0].spec.arm))]


def measured(arm: PlannedArm) -> str:
    """Return ``postgres 15.18, warehouses 10, users 8; ramp up 1 s, duration 3 s``."""
    facts = spec_facts(arm.runs[0])
    phases = [
        at_value(fact, *number)
        for fact in ("params.ramp_up", "params.duration", "memory_limit_bytes")
        if (number := number_of(facts.get(fact)))
    ]
    title = panels(arm.runs, arm.over, None)[0].title
    return f"{title}; {', '.join(phases)}" if phases else title


def lines(advice: Sequence[Answer]) -> Iterator[str]:
    """Return the sentences, most important first, and what was not controlled."""
    for answer in advice:
        yield answer.sentence
    every = dict.fromkeys(name for answer in advice for name in answer.group.emulated)
    if emulated := [name for name in every if BY_MODEL not in name]:
        yield (
            f"{EMULATED} {', '.join(emulated)}: memory waits for nothing, so a real device gains "
            "no more; `harness curve` has the gain by latency."
        )
    yield from not_controlled([advice[0].group])


def trials_of(
    runs: Sequence[StoredRun], arms: Mapping[str, tuple[tuple[str, ...], str]]
) -> list[PlannedArm]:
    """Return the arms that have runs; ``arms``: by placement, the parts that move and the tier."""
    usable = grouped(
        (run.spec.placement.name, run)
        for run in runs
        if run.result.status != "failed" and run.spec.placement
    )
    return [
        PlannedArm(name, parts, tier, tuple(usable[name]))
        for name, (parts, tier) in arms.items()
        if name in usable
    ]
