"""The first lines of every command that compares: each verdict with its cause, what was not
controlled, and the command that comes next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from harness.sequences import first_of, grouped
from harness.store.runs import StoredRun
from harness.units import counted
from harness.warnings import RunWarning
from reports.arm import Arm
from reports.basis import one_by_one
from reports.compare import Group
from reports.compared_rows import Row
from reports.explain.causes import explanation, waited_at_most
from reports.formatting import percent, ratio_text, stand_in_mark, times, verdict_text
from reports.labels import arm_options, at_value, number_of, varied_numbers
from reports.matching import RunBlock, block_of
from reports.other_plans import other_plans_text
from reports.run_configuration import followers, spec_facts
from reports.sections import Block, Lines, Paragraph
from reports.statistics import Ratio, compare_values, decide
from reports.values import measured_value

#: A comparison, and the engine and workload that it is of.
PlacedComparison = tuple[str, Group]


def answer_blocks(answers: Sequence[PlacedComparison], following: str = "") -> Iterator[Block]:
    """Verdict and cause of each comparison, what was not controlled, and the next command.

    ``following``: the command that comes next.
    """
    for where, group in answers:
        yield Paragraph(verdict_line(where, group), "title")
        if possible := _possible(group):
            yield Paragraph(possible)
        if why := explanation(group).text:
            yield Paragraph(f"Why: {why}.")
    groups = [group for _, group in answers]
    yield from map(Paragraph, not_controlled(groups))
    if more := more_repeats(groups):
        yield Paragraph("Not resolvable yet. More repeats:")
        yield Lines("commands", [more])
    if following and answers:
        yield Paragraph("Next:")
        yield Lines("commands", [following])


def _possible(group: Group) -> str:
    """Return how large a difference can still be where none is shown; empty with a difference."""
    estimate = group.deciding.estimate if group.deciding else None
    if group.verdict != "no difference" or estimate is None or not estimate.covered:
        return ""
    low, high = (
        f"{percent(abs(end - 1))} {'better' if end > 1 else 'worse'}"
        for end in (estimate.low or 0.0, estimate.high or math.inf)
    )
    waited = waited_at_most(group)
    at_most = f" {waited[0].upper()}{waited[1:]}." if waited else ""
    return f"Still possible: from {low} to {high}; more --repeats narrow that.{at_most}"


def verdict_line(where: str, group: Group) -> str:
    """``postgres 18.4: pmem-both against ssd-both: faster: 3.1× [2.8, 3.5] …``.

    Of arms also what each was set to: ``b (jit=off) against a``. Queries whose plan differs follow.
    """
    sides = (group.b, group.a), (group.a, group.b)
    which = " against ".join(_with_options(arm, other) for arm, other in sides)
    texts = [where, which, verdict_text(group.verdict), speed_up_text(group)]
    verdict = ": ".join(filter(None, texts))
    return "; ".join(filter(None, [verdict, other_plans_text(group.other_plans)]))


def _with_options(arm: Arm, other: Arm) -> str:
    options = arm_options(arm.runs[0], other.runs[0])
    return f"{arm.marked_name} ({options})" if options else arm.marked_name


def speed_up_text(group: Group) -> str:
    """``3.1× [2.8, 3.5] New-Orders per minute (8 pairs)``; what is missing without one."""
    row = group.deciding
    if row is None or row.estimate is None:
        return row.note if row else "no single result stands for the whole"
    repeats, noun = row.estimate.repeats, "pair" if group.pairing == "paired" else "repeat"
    of = f"{repeats} of " if row.verdict == "not resolvable" and row.decision else ""
    needed = row.decision.repeats_needed if of and row.decision else repeats
    mark = stand_in_mark(group.emulated)
    family = row.decision.family if of and row.decision else 1
    among = f" for {family} comparisons" if family > 1 else ""
    marked = f", {mark}" if mark else ""
    return f"{ratio_text(row.estimate)} {row.title} ({of}{counted(needed, noun)}{among}{marked})"


# What was not controlled: first what can turn a verdict ------------------------------------
#
# A setting of the host is the same for both sides, and what varies with time falls on both sides of
# a pair: these make intervals wider, and a verdict that is shown stays. A warning that one side has
# alone turns verdicts whatever it is of, and so does every other one, unless it is about what was
# observed, not about what was done.

#: Load of the host, and results, that vary with time.
_VARYING = frozenset(("cpu-quota", "other-load", "results-drift", "stolen-cpu-time"))
_OF_HOST = frozenset(
    (
        "address-randomization",
        "clock-frequency-unknown",
        "damon-unreadable",
        "frequency-governor",
        "memory-demotion",
        "numa-balancing",
        "smt-enabled",
        "swap-enabled",
        "threads-not-pinned",
        "transparent-huge-pages",
        "turbo-enabled",
        "virtual-machine",
    )
)
#: About what was observed, and what both sides have in common.
_ABOUT = frozenset(
    (
        "closed-loop",
        "counters-published-late",
        "differs-from-specification",
        "engine-untested",
        "host-lock-held",
        "io-trace-incomplete",
        "monitor-failed",
        "observed-start-up",
        "observer-failed",
        "observer-reads-programs",
        "options-file-not-applied",
        "perf-multiplexed",
        "queue-per-client",
        "remote-clients",
        "repeats-continued",
        "resumed",
        "run-retried",
        "server-exposed",
        "shared-user",
        "waits-unaccounted",
        "window-counters-late",
    )
)
#: Facts of a comparison that can turn its verdict, and values of such facts.
_TURNING = frozenset(("checks-unknown", "arms-differ", "emulated"))
#: A warning that so many more of one side's runs have is of this side.
_OF_A_SIDE = 0.5
#: Of what cannot turn a verdict, what is named.
_MOST_NAMED = 5


def not_controlled(groups: Sequence[Group]) -> Iterator[str]:
    """Yield what could turn a verdict, in words, and on a line of its own what else there is.

    Of all that the certainty of the comparisons rests on, but for the number of repeats.
    """
    words = {warning.code: warning.problem for group in groups for warning in _warnings(group)}
    turning: dict[str, None] = {}
    others: dict[str, None] = {}
    for group in groups:
        for fact in one_by_one(group.rests_on):
            if fact.code == "warnings" and fact.values:
                code = str(fact.values[0])
                if _can_turn(code, group):
                    turning[f"{words[code]} ({code})" if words.get(code) else code] = None
                else:
                    others[code] = None
            elif fact.code not in ("pairs", "repeats", "warnings"):
                (turning if _TURNING & {fact.code, *fact.values} else others)[fact.text] = None
    rest = "; ".join(first_of([other for other in others if other not in turning], _MOST_NAMED))
    if turning:
        which = "the verdict" if len(groups) == 1 else "a verdict"
        yield f"Not controlled, and could turn {which}: {'; '.join(turning)}."
    if rest:
        yield f"{'Also not' if turning else 'Not'} controlled: {rest}."


def _can_turn(code: str, group: Group) -> bool:
    """Return whether a verdict could be another one without what a warning of it is about."""
    shares = (
        sum(any(warning.code == code for warning in run.result.uncontrolled) for run in arm.runs)
        / len(arm.runs)
        for arm in (group.a, group.b)
    )
    if code in _ABOUT:
        return False
    if abs(next(shares) - next(shares)) >= _OF_A_SIDE:
        return True
    if code in _VARYING:
        return group.pairing == "unpaired" or not (group.deciding and group.deciding.shown)
    return code not in _OF_HOST


def _warnings(group: Group) -> Iterator[RunWarning]:
    yield from group.warnings
    for run in (*group.a.runs, *group.b.runs):
        yield from run.result.uncontrolled


def more_repeats(groups: Sequence[Group]) -> str:
    """The command that adds the repeats which undecided comparisons need; empty without any.

    Adding them is a further look at results, for which the comparisons will be corrected.
    """
    needed = [
        (row.estimate.repeats_needed(row.decision.family, further_looks=1), group.b.runs[0])
        for group in groups
        if group.verdict == "not resolvable"
        and (row := group.deciding)
        and row.estimate
        and row.decision
    ]
    repeats, run = max(needed, key=lambda need: need[0], default=(0, None))
    return _again(run, repeats) if run and repeats else ""


def _again(run: StoredRun, repeats: int) -> str:
    """The command that made a run, with this number of repeats; empty where it has another way."""
    words = [*run.manifest.argv] if run.manifest else []
    several = words[1:2] == ["run"] or words[1:3] == ["experiment", "run"]
    if not several or {"--resolve", "--budget"} & {word.partition("=")[0] for word in words}:
        return ""
    remaining = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if before != "--repeats" and word.partition("=")[0] not in ("--repeats", "--json")
    ]
    return shlex.join(["harness", *remaining[1:], "--repeats", str(repeats)])


# Where most is gained: the same two arms at several values of a parameter ------------------
#
# The gains at two values are compared as two sides are, by the ratios of their pairs of repeats;
# all pairs of values are one family.


@dataclass(frozen=True)
class _Gain:
    """The comparison at one value of the parameter; ``by_block``: how much better B is."""

    at: str
    value: float
    group: Group
    ratio: Ratio
    by_block: Mapping[RunBlock, float]


@dataclass(frozen=True)
class Gains:
    """Comparisons at several values of a parameter, the largest gain first.

    ``engine``: empty where all comparisons are of one. ``shown_over``: by value at which the gain
    is shown to be smaller, how many times it is that at the first.
    """

    fact: str
    engine: str
    gains: Sequence[_Gain]
    shown_over: Mapping[str, Ratio]

    @property
    def text(self) -> str:
        """``pmem-both gains most at 4 users: 3.2× [2.8, 3.5] by …; more than at 1 user (1.7×, by
        1.9× [1.6, 2.1])``."""
        first, *others = self.gains
        row = first.group.deciding
        assert row is not None
        more = [
            f"{gain.at} ({times(gain.ratio.value)}, by {ratio_text(self.shown_over[gain.at])})"
            for gain in others
            if gain.at in self.shown_over
        ]
        not_more = (gain for gain in others if gain.at not in self.shown_over)
        alike = [f"{gain.at} ({times(gain.ratio.value)})" for gain in not_more]
        words = "gains most" if first.ratio.value > 1 else "loses least"
        text = f"{self.engine}: " if self.engine else ""
        text += f"{first.group.b.marked_name} {words} at {first.at}: {ratio_text(first.ratio)}"
        text += f" by {row.title}"
        if not row.shown:
            text += f" ({verdict_text(first.group.verdict)})"
        if more:
            text += f"; more than at {', '.join(more)}"
        return text + (f"; not shown to be more than at {', '.join(alike)}" if alike else "")

    def to_json(self) -> dict[str, Any]:
        """``times_smaller``: how many times the largest gain is this one, where that is shown."""
        first = self.gains[0]
        row = first.group.deciding
        assert row is not None
        return {
            "parameter": self.fact.removeprefix("params."),
            "a": first.group.a.name,
            "b": first.group.b.name,
            "engine": _engine(first.group),
            "metric": row.quantity.name,
            "labels": dict(row.quantity.labels),
            "gains": [
                {
                    "value": gain.value,
                    **_interval_json(gain.ratio),
                    "times_smaller": _interval_json(over)
                    if (over := self.shown_over.get(gain.at))
                    else None,
                }
                for gain in self.gains
            ],
        }


def _interval_json(ratio: Ratio) -> dict[str, Any]:
    return {
        "ratio": ratio.value,
        "interval": [ratio.low, ratio.high],
        "confidence": ratio.confidence,
    }


def gains_of(groups: Sequence[Group]) -> Iterator[Gains]:
    """Yield the gains of each pair of arms that was compared at several values of a parameter."""
    usable = [group for group in groups if group.deciding and group.a.usable]
    if len({run.head.experiment.name for group in usable for run in group.a.usable}) != 1:
        return  # what varies between experiments is no sweep
    several = len({_engine(group) for group in usable}) > 1
    pairs = grouped(((_engine(g), g.a.value, g.b.value), g) for g in usable)
    for (engine, *_), alike in pairs.items():
        facts = [spec_facts(group.a.usable[0]) for group in alike]
        for fact in varied_numbers(facts):
            free = {fact, *followers().get(fact, ())}
            rest = (
                frozenset(i for i in run_facts.items() if i[0] not in free) for run_facts in facts
            )
            for sweep in grouped(zip(rest, alike, strict=True)).values():
                gains = sorted(_gains(fact, sweep), key=lambda gain: -gain.ratio.value)
                if len({gain.value for gain in gains}) == len(gains) > 1:
                    yield Gains(fact, engine if several else "", gains, _shown_over(gains))


def _engine(group: Group) -> str:
    return spec_facts(group.a.usable[0])["engine"]


def _gains(fact: str, groups: Sequence[Group]) -> Iterator[_Gain]:
    for group in groups:
        row, number = group.deciding, number_of(spec_facts(group.a.usable[0])[fact])
        if row is None or row.estimate is None or number is None:
            continue
        yield _Gain(at_value(fact, *number), number[0], group, row.estimate, _by_block(group, row))


def _by_block(group: Group, row: Row) -> dict[RunBlock, float]:
    """Return B's gain in each block; empty where its runs are no pairs of one block each."""
    ratios = {}
    for a, b in zip(group.a.runs, group.b.runs, strict=False):
        values = [measured_value(run, row.quantity) for run in (a, b)]
        worse, better = values if row.better == "higher" else reversed(values)
        if worse and better:
            ratios[block_of(a)] = better / worse
    return ratios if group.pairing == "paired" and len(ratios) == len(group.a.runs) else {}


def _shown_over(gains: Sequence[_Gain]) -> dict[str, Ratio]:
    """By value at which the gain is shown to be smaller: how many times it is that at the first."""
    pairs = list(combinations(gains, 2))
    tested = []
    for larger, other in pairs:
        blocks = [block for block in larger.by_block if block in other.by_block]
        a, b = ([gain.by_block[block] for block in blocks] for gain in (larger, other))
        looks = max(larger.ratio.interim_analyses, other.ratio.interim_analyses)
        tested.append(compare_values(a, b, interim_analyses=looks))
    decided = iter(decide([ratio for ratio in tested if isinstance(ratio, Ratio)]))
    return {
        other.at: ratio
        for (larger, other), ratio in zip(pairs, tested, strict=True)
        if isinstance(ratio, Ratio)
        and next(decided).shown
        and larger is gains[0]
        and ratio.value > 1
    }
