"""The first lines of every command that compares: each verdict with its cause, what was not
controlled, and the command that comes next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.store.runs import StoredRun
from harness.units import counted
from harness.warnings import RunWarning
from reports.arm import Arm
from reports.basis import one_by_one
from reports.compare import Group
from reports.explain.causes import cause
from reports.formatting import percent, ratio_text, stand_in_mark, verdict_text
from reports.labels import arm_options
from reports.sections import Block, Lines, Paragraph

#: A comparison, and the engine and workload that it is of.
Answer = tuple[str, Group]


def answer_blocks(answers: Sequence[Answer], following: str = "") -> Iterator[Block]:
    """Verdict and cause of each comparison, what was not controlled, and the next command.

    ``following``: the command that comes next.
    """
    for where, group in answers:
        yield Paragraph(verdict_line(where, group), "title")
        if possible := _possible(group):
            yield Paragraph(possible)
        elif why := cause(group.a.usable, group.b.usable):
            yield Paragraph(f"Why: {why}.")
    groups = [group for _, group in answers]
    if rest := not_controlled(groups):
        yield Paragraph(f"Not controlled: {'; '.join(rest)}.")
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
    return f"Still possible: from {low} to {high}; more --repeats narrow that."


def verdict_line(where: str, group: Group) -> str:
    """``postgres 18.4: pmem-both against ssd-both: faster: 3.1× [2.8, 3.5] …``.

    Of arms also what each was set to: ``b (jit=off) against a``.
    """
    sides = (group.b, group.a), (group.a, group.b)
    which = " against ".join(_with_options(one, other) for one, other in sides)
    return ": ".join(
        filter(None, [where, which, verdict_text(group.verdict), speed_up_text(group)])
    )


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


def not_controlled(groups: Sequence[Group]) -> list[str]:
    """What the certainty of comparisons rests on, but for their repeats; warnings with words."""
    words = {one.code: one.problem for group in groups for one in _warnings(group)}
    found: dict[str, None] = {}
    warnings: dict[str, None] = {}
    for fact in one_by_one(fact for group in groups for fact in group.rests_on):
        if fact.code == "warnings" and fact.values:
            code = str(fact.values[0])
            warnings[f"{words[code]} ({code})" if words.get(code) else code] = None
        elif fact.code not in ("pairs", "repeats", "warnings"):
            found[fact.text] = None
    return [*found, *warnings]


def _warnings(group: Group) -> Iterator[RunWarning]:
    yield from group.warnings
    for run in (*group.a.runs, *group.b.runs):
        yield from run.result.uncontrolled


def more_repeats(groups: Sequence[Group]) -> str:
    """The command that adds the repeats which undecided comparisons need; empty without any."""
    needed = [
        (row.decision.repeats_needed, group.b.runs[0])
        for group in groups
        if group.verdict == "not resolvable" and (row := group.deciding) and row.decision
    ]
    repeats, run = max(needed, key=lambda one: one[0], default=(0, None))
    return _again(run, repeats) if run and repeats else ""


def _again(run: StoredRun, repeats: int) -> str:
    """The command that made a run, with this number of repeats; empty where it has another way."""
    words = [*run.manifest.argv] if run.manifest else []
    several = words[1:2] == ["run"] or words[1:3] == ["experiment", "run"]
    if not several or {"--resolve", "--budget"} & {word.partition("=")[0] for word in words}:
        return ""
    kept = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if before != "--repeats" and word.partition("=")[0] not in ("--repeats", "--json")
    ]
    return shlex.join([Path(kept[0]).name, *kept[1:], "--repeats", str(repeats)])
