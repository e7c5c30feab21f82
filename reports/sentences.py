"""One sentence for every query: where its time goes, and what the placement changed.

It says what the numbers carry and no more: a ratio is called shown or not as the
comparison found it, an operator's part of a difference comes from profiled executions
and says so, bytes are of what was counted, and what was not measured is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.units import format_bytes, format_ns
from reports.compare import Row
from reports.footnotes import bound_bytes, file_pages_unknown, moved_by_others
from reports.query_breakdown import KINDS, QueryAnatomy, anatomy, kind_title
from reports.series import Arm, Panel
from reports.values import Quantity, natural
from reports.words import (
    contrary,
    outcome_text,
    percent,
    quantity_text,
    significant,
    times,
)

#: Parts of less than this are not named.
_WORTH_NAMING = 0.05
#: Rates of less, and read calls of less, are not named.
_LEAST_BYTES = 16 << 20


@dataclass(frozen=True)
class Sentence:
    """A query of a panel on one arm: the sentence, and what it was made of."""

    query: str
    arm: str
    text: str
    why_off: str
    anatomy: QueryAnatomy
    ratio: Row | None

    @property
    def row(self) -> tuple[str, str]:
        """Query and sentence, as a table shows them."""
        return f"Q{self.query}", self.text


def sentences(panel: Panel) -> list[Sentence]:
    """For every query one on the baseline, then one on every other arm."""
    found = [(arm, anatomy(arm)) for arm in panel.arms]
    queries = sorted({query for _, one in found for query in one}, key=natural)
    rows = {
        (group.b.name, row.quantity): row
        for group in panel.groups
        for row in group.rows
        if row.quantity.name == "query_duration_ns"
    }
    made = []
    for query in queries:
        base = found[0][1].get(query)
        for index, (arm, held) in enumerate(found):
            one = held.get(query)
            if one is None:
                continue
            row = rows.get((arm.name, Quantity("query_duration_ns", (("query", query),))))
            against = base if index and base is not None else None
            text = _sentence(arm, one, against, panel.arms[0], row)
            why = one.fit.why if one.fit else ""
            made.append(Sentence(query, arm.marked_name, text, why, one, row))
    return made


def _sentence(
    arm: Arm, one: QueryAnatomy, base: QueryAnatomy | None, first: Arm, row: Row | None
) -> str:
    if one.duration is None:
        return f"Q{one.query} on {arm.marked_name} {_limit(one)}: it has no time."
    parts = [f"Q{one.query} takes {format_ns(one.duration.median)} on {arm.marked_name}"]
    if one.limited:
        parts[0] += f" where it ends, and {_limit(one)} in {one.limited} more runs"
    if base is not None:
        parts.append(_against(one, base, first, row))
    parts.append(_shares(one))
    parts += [_traffic(one), _memory(arm, one)]
    return "; ".join(part for part in parts if part) + "."


def _limit(one: QueryAnatomy) -> str:
    return f"reached its limit of {format_ns(one.limit_ns or 0)}"


def _against(one: QueryAnatomy, base: QueryAnatomy, first: Arm, row: Row | None) -> str:
    """``3.10× faster than on ssd-both (shown), scan −2.30 s``; no direction where none is shown.

    The ratio goes by pairs of repeats, so that the medians can stand the other way round.
    """
    if base.duration is None:
        return f"{first.marked_name} {_limit(base)}"
    assert one.duration is not None
    there = f"{format_ns(base.duration.median)} on {first.marked_name}"
    if row is None or row.estimate is None or row.judgement is None:
        return f"{there}, not compared"
    ratio, shown = row.estimate.ratio, row.judgement.outcome == "shown"
    denied = contrary(row, base.duration.median, one.duration.median)
    moved = "" if denied else _moved(one, base)
    if not shown:
        measured = "" if denied else f"{times(ratio)} measured, "
        return f"{there}, no difference shown ({measured}{outcome_text(row)}){moved}"
    if denied:
        return f"{there}, pair by pair {times(ratio)} (shown), the other way round than the medians"
    if times(ratio) == times(1.0):
        return f"as fast as on {first.marked_name} (shown){moved}"
    faster = f"{times(ratio)} faster" if ratio > 1 else f"{times(1 / ratio)} slower"
    return f"{faster} than on {first.marked_name} (shown){moved}"


def _moved(one: QueryAnatomy, base: QueryAnatomy) -> str:
    """The kinds of operators that account for the change, the most first: those that went its way.

    Empty where either has no plan.
    """
    if not one.kinds or not base.kinds or base.duration is None or one.duration is None:
        return ""
    whole = one.duration.median - base.duration.median
    changes = {kind: one.kinds.get(kind, 0.0) - base.kinds.get(kind, 0.0) for kind in KINDS}
    least = _WORTH_NAMING * base.duration.median
    named = [kind for kind in KINDS if changes[kind] * whole > 0 and abs(changes[kind]) >= least]
    if abs(whole) < least or not named:
        return ""
    sign = "+" if whole > 0 else "−"
    mark = "" if _fits(one) and _fits(base) else " by plans that distort"
    named = sorted(named, key=lambda kind: -abs(changes[kind]))[:2]
    said = (f"{kind_title(kind)} {sign}{format_ns(abs(changes[kind]))}" for kind in named)
    return f", {', '.join(said)}{mark}"


def _fits(one: QueryAnatomy) -> bool:
    return one.fit is None or one.fit.fits


def _shares(one: QueryAnatomy) -> str:
    """``scan 85 %, aggregate 12 %``; that a query has no plan."""
    if one.duration is None or not one.kinds:
        return "no plan"
    shares = {kind: time / one.duration.median for kind, time in one.kinds.items()}
    named = sorted(
        (kind for kind in shares if shares[kind] >= _WORTH_NAMING), key=lambda kind: -shares[kind]
    )
    return ", ".join(f"{kind_title(kind)} {percent(round(shares[kind], 2))}" for kind in named)


def _traffic(one: QueryAnatomy) -> str:
    """What was read from where, and how fast over the whole query."""
    said = []
    for tier, size in _tiers(one.read):
        text = f"{format_bytes(size)} read from {tier}"
        if one.duration is not None and size >= _LEAST_BYTES:
            text += f" ({_rate(size, one.duration.median)})"
        said.append(text)
    if others := _others(one.read, one.size("io_read")):
        said.append(f"only {others} of it for the engine: others used the device")
    said += [f"{format_bytes(size)} written to {tier}" for tier, size in _tiers(one.written)]
    if others := _others(one.written, one.size("io_write")):
        said.append(f"only {others} of it by the engine: the rest is others' or written back late")
    called = one.size("syscall_read")
    if not one.read and called is not None and called >= _LEAST_BYTES:
        said.append(f"{format_bytes(called)} through read calls")
    return ", ".join(said)


def _tiers(sizes: Mapping[str, float]) -> list[tuple[str, float]]:
    return [(tier, size) for tier, size in sorted(sizes.items()) if size >= 1 << 20]


def _others(moved: Mapping[str, float], own: float | None) -> str:
    """The engine's own bytes, where the devices moved far more than the kernel counted for it."""
    return format_bytes(own) if own is not None and moved_by_others(moved, own) else ""


def _memory(arm: Arm, one: QueryAnatomy) -> str:
    said = []
    if (spilled := one.size("spilled")) is not None and spilled > 0:
        said.append(f"{format_bytes(spilled)} spilled")
    if (held := one.size("working_set")) is not None:
        said.append(f"working set at least {format_bytes(held)}{_known_so_far(arm, one)}")
    return ", ".join(said)


def _known_so_far(arm: Arm, one: QueryAnatomy) -> str:
    """Why the working set may be far greater than what was found of it."""
    bound = bound_bytes(arm, one)
    said = [f"the limit of {format_bytes(bound)} bounds it"] if bound else []
    said += ["file pages not known"] if file_pages_unknown(one) else []
    return f" ({', '.join(said)})" if said else ""


def _rate(size: float, duration_ns: float) -> str:
    return quantity_text(size * 1e9 / duration_ns, "B/s")


def unexplained(panel: Panel) -> str:
    """Why plans that were asked for are missing, in the engine's words; empty if none are."""
    told = [run.artifact("unexplained") for arm in panel.arms for run in arm.usable]
    return "; ".join(sorted({one["why"] for one in told if one}))


def fit_summary(found: list[Sentence], unexplained: str = "") -> str:
    """How many plans add up to the measured time within a tenth; ``unexplained``: why none do.

    Operators and planning are added up, not what was left over: that would fit always.
    """
    planned = [one for one in found if one.anatomy.fit]
    if not planned and unexplained:
        return f"No query has a plan: {unexplained}."
    if not planned:
        return "No query has a plan: plans were not asked for, or this engine tells none."
    fitting = sum(1 for one in planned if one.anatomy.fit and one.anatomy.fit.fits)
    said = f"The plans of {fitting} of {len(planned)} queries add up to within 10 % of their time"
    missing = len(found) - len(planned)
    more = f"; {missing} have no plan" if missing else ""
    return f"{said}, what lies outside the operators not counted{more}."


def share_text(one: QueryAnatomy) -> str:
    """``0.98``; ``0.91 – 1.24`` over several runs; empty without a plan."""
    if one.fit is None:
        return ""
    low, high = significant(one.fit.lowest), significant(one.fit.highest)
    return low if low == high else f"{low} – {high}"
