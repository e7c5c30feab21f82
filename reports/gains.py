"""Where a comparison gains most: the same two arms at several values of a parameter.

The gains at two values are compared as two sides are, by the ratios of their pairs of repeats; all
pairs of values are one family.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from harness.sequences import grouped
from reports.compare import Group
from reports.compared_rows import Row
from reports.formatting import ratio_text, times, verdict_text
from reports.labels import FOLLOWING, at_value, number_of, varied_numbers
from reports.matching import block_of
from reports.run_configuration import spec_facts
from reports.statistics import Ratio, compare_values, decide
from reports.values import measured_value


@dataclass(frozen=True)
class _Gain:
    """The comparison at one value of the parameter; ``by_block``: how much better B is."""

    at: str
    value: float
    group: Group
    ratio: Ratio
    by_block: Mapping[tuple[str, int], float]


def gain_lines(groups: Sequence[Group]) -> Iterator[str]:
    """``pmem-both gains most at 4 users: 3.2× [2.8, 3.5] by …; more than at 1 user (1.7×, by
    1.9× [1.6, 2.1])``."""
    usable = [group for group in groups if group.deciding and group.a.usable]
    if len({run.head.experiment.name for group in usable for run in group.a.usable}) != 1:
        return  # what varies between experiments is no sweep
    several = len({_engine(group) for group in usable}) > 1
    pairs = grouped(((_engine(g), g.a.value, g.b.value), g) for g in usable)
    for (engine, *_), alike in pairs.items():
        facts = [spec_facts(group.a.usable[0]) for group in alike]
        for fact in varied_numbers(facts):
            free = {fact, *FOLLOWING.get(fact, ())}
            rest = (frozenset(i for i in one.items() if i[0] not in free) for one in facts)
            for own in grouped(zip(rest, alike, strict=True)).values():
                gains = sorted(_gains(fact, own), key=lambda one: -one.ratio.value)
                if len({gain.value for gain in gains}) == len(gains) > 1:
                    yield (f"{engine}: " if several else "") + _line(gains)


def _engine(group: Group) -> str:
    return spec_facts(group.a.usable[0])["engine"]


def _gains(fact: str, groups: Sequence[Group]) -> Iterator[_Gain]:
    for group in groups:
        row, number = group.deciding, number_of(spec_facts(group.a.usable[0])[fact])
        if row is None or row.estimate is None or number is None:
            continue
        yield _Gain(at_value(fact, *number), number[0], group, row.estimate, _by_block(group, row))


def _by_block(group: Group, row: Row) -> dict[tuple[str, int], float]:
    """How much better B is in each block; empty where its runs are no pairs of one block each."""
    found = {}
    for a, b in zip(group.a.runs, group.b.runs, strict=False):
        values = [measured_value(run, row.quantity) for run in (a, b)]
        worse, better = values if row.better == "higher" else reversed(values)
        if worse and better:
            found[block_of(a)] = better / worse
    return found if group.pairing == "paired" and len(found) == len(group.a.runs) else {}


def _line(gains: Sequence[_Gain]) -> str:
    first, *others = gains
    row = first.group.deciding
    assert row is not None
    shown = _shown_over(gains)
    more = [
        f"{one.at} ({times(one.ratio.value)}, by {ratio_text(shown[one.at])})"
        for one in others
        if one.at in shown
    ]
    alike = [f"{one.at} ({times(one.ratio.value)})" for one in others if one.at not in shown]
    words = "gains most" if first.ratio.value > 1 else "loses least"
    text = f"{first.group.b.marked_name} {words} at {first.at}: {ratio_text(first.ratio)}"
    text += f" by {row.title}"
    if not row.shown:
        text += f" ({verdict_text(first.group.verdict)})"
    if more:
        text += f"; more than at {', '.join(more)}"
    return text + (f"; not shown to be more than at {', '.join(alike)}" if alike else "")


def _shown_over(gains: Sequence[_Gain]) -> dict[str, Ratio]:
    """By value at which the gain is shown to be smaller: how many times it is that at the first."""
    pairs = list(combinations(gains, 2))
    tested = []
    for one, other in pairs:
        blocks = [block for block in one.by_block if block in other.by_block]
        a, b = ([gain.by_block[block] for block in blocks] for gain in (one, other))
        looks = max(one.ratio.interim_analyses, other.ratio.interim_analyses)
        tested.append(compare_values(a, b, interim_analyses=looks))
    decided = iter(decide([ratio for ratio in tested if isinstance(ratio, Ratio)]))
    return {
        other.at: ratio
        for (one, other), ratio in zip(pairs, tested, strict=True)
        if isinstance(ratio, Ratio) and next(decided).shown and one is gains[0] and ratio.value > 1
    }
