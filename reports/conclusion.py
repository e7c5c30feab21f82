"""What a comparison concludes, in one of five terms, with its largest worsening and gain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from reports.compare import Group, Row
from reports.headline import SideRate
from reports.metric_registry import metric_info
from reports.words import (
    metric_title,
    outcome_text,
    quantity_text,
    significant,
    speedup_text,
)

Conclusion = Literal["faster", "slower", "no difference", "not resolvable", "rate not kept"]

#: A change that is not shown is named from this ratio on.
_WORTH_NAMING = 1.1


def conclusion(group: Group) -> Conclusion:
    """How B is against A, by the headline: see docs/statistics.md."""
    rate = group.headline.rate
    if rate is not None and rate.not_kept:
        return "rate not kept"
    row = group.row(group.headline.quantity)
    if row is None or row.estimate is None or row.judgement is None:
        return "not resolvable"
    if row.judgement.outcome == "cannot be shown":
        return "not resolvable"
    if row.judgement.outcome == "not shown":
        return "no difference"
    return "faster" if row.estimate.ratio > 1 else "slower"


def worsening(group: Group) -> Row | None:
    """The result in which B loses the most: the largest that is shown, else the largest measured.

    None where nothing is shown to be worse and nothing is worse by a tenth.
    """
    return _largest(group, gain=False)


def gain(group: Group) -> Row | None:
    """As ``worsening``, of what B gains."""
    return _largest(group, gain=True)


def _largest(group: Group, gain: bool) -> Row | None:
    found = [(_factor(row, gain), row) for row in _results(group)]
    shown = [one for one in found if one[0] > 1 and _shown(one[1])]
    notable = shown or [one for one in found if one[0] >= _WORTH_NAMING]
    return max(notable, key=lambda one: one[0])[1] if notable else None


def _factor(row: Row, gain: bool) -> float:
    assert row.estimate is not None  # _results has seen to it
    return row.estimate.ratio if gain else 1 / row.estimate.ratio


def _shown(row: Row) -> bool:
    return row.judgement is not None and row.judgement.outcome == "shown"


def _results(group: Group) -> Iterator[Row]:
    """What was measured of the work itself, not what explains it; without the headline."""
    for row in group.rows:
        if row.estimate is None or row.better == "none" or row.quantity == group.headline.quantity:
            continue
        if metric_info(row.quantity, row.better).role in ("headline", "detail"):
            yield row


def rate_lines(group: Group) -> Iterator[str]:
    """That a rate was set, and how each side kept it; nothing where none was."""
    rate = group.headline.rate
    if rate is None:
        return
    if rate.by == "think time":
        yield "Think times set the rate, so latency is compared instead of throughput"
        return
    sides = ((group.a.marked_name, rate.a), (group.b.marked_name, rate.b))
    reported = [f"{name} {_rate_text(side)}" for name, side in sides if side is not None]
    yield "; ".join(
        ["The rate was set (--rate), so latency is compared instead of throughput", *reported]
    )


def _rate_text(side: SideRate) -> str:
    """``kept it (50 of 50 per s)``; in how many repeats where not in all."""
    done, offered = significant(side.done_per_s), significant(side.offered_per_s)
    rate = f"{done} of {offered} per s"
    if side.missed in (0, side.runs):
        return f"{'kept' if side.kept else 'did not keep'} it ({rate})"
    return f"kept it in {side.runs - side.missed} of {side.runs} repeats ({rate})"


def change_lines(group: Group) -> Iterator[str]:
    """The largest worsening, and the largest gain where the verdict is none."""
    lost, gained = worsening(group), gain(group)
    if lost is not None:
        yield f"Largest worsening: {_change_text(group, lost)}"
    if gained is not None and conclusion(group) != "faster":
        yield f"Largest gain: {_change_text(group, gained)}"


def _change_text(group: Group, row: Row) -> str:
    """``time of an operation, read, percentile 99.9: b is 16.5× slower [12, 20], shown``."""
    text = f"{metric_title(row)}: {speedup_text(group.b.marked_name, row)}, {outcome_text(row)}"
    if row.a is None or row.b is None:
        return text
    ends = [quantity_text(summary.median, row.unit) for summary in (row.a, row.b)]
    return f"{text} (medians {ends[0]} and {ends[1]})"
