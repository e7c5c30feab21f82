"""Arms of ``harness advise … --by-table``: which tables and indexes to move to the faster tier.

Candidates come from a traced run on today's tier, most device time for a byte first. The arms move
the first candidate, the first two, four …, all within the budget of bytes, and everything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import registry
from harness.engine import EngineFactory
from harness.errors import UsageError
from harness.experiment.placement import parse_placement
from harness.tiers.linux.model import Tier
from harness.tiers.resolve import free_now
from harness.units import format_bytes, parse_duration_ns, parse_size

if TYPE_CHECKING:
    from reports.relations import RelationUse

#: A relation with less of all device time does not matter.
_MATTERS = 0.02
_SIZE = re.compile(r"[\d.]+\s*[KMGT]?i?B", re.I)
#: Of the arms: today's, four of candidates, and everything.
MOST_ARMS = 6


@dataclass(frozen=True)
class RelationArms:
    """Placements of the arms that move relations, and of that which moves everything.

    ``notes``: what is not tried, and why.
    """

    placements: tuple[str, ...]
    everything: str | None
    notes: tuple[str, ...]


def budgets(text: str, default: str) -> tuple[str, int | None]:
    """Time and bytes of ``--budget 20m``, ``10GB``, or ``20m,10GB``; ``default``: time."""
    sizes = [word for word in text.split(",") if _SIZE.fullmatch(word.strip())]
    times = [word for word in text.split(",") if word not in sizes]
    if len(sizes) > 1 or len(times) > 1:
        context = "more than a duration and a size"
        raise UsageError(f"--budget {text}", context, "write 20m, 10GB, or 20m,10GB")
    duration = times[0] if times else default
    parse_duration_ns(duration)
    return duration, parse_size(sizes[0].strip()) if sizes else None


def check_engine(factory: EngineFactory) -> None:
    """UsageError for an engine whose relations cannot be placed by name."""
    if not factory.relation_kinds:
        able = [n for n in registry.engine_names() if registry.engine(n).relation_kinds]
        raise UsageError(
            f"advise --by-table with {factory.name}",
            factory.not_placeable.get(
                "relations", f"the harness cannot place single tables of {factory.title}"
            ),
            f"leave --by-table out, or choose {' or '.join(able)}",
        )


def relation_arms(
    uses: Sequence[RelationUse],
    today: str,
    tier: Tier,
    everything: str,
    factory: EngineFactory,
    budget_bytes: int | None,
) -> RelationArms:
    """Return the arms; without any where no relation matters.

    ``today``: its tier. UsageError where no candidate is within the budget, or the tier has no
    room for them.
    """
    total_ns = sum(use.device_ns for use in uses)
    candidates: list[RelationUse] = []
    notes: list[str] = []
    for use in sorted(uses, key=lambda use: -use.device_ns / max(1, use.size_bytes)):
        if not total_ns or use.device_ns < _MATTERS * total_ns:
            continue
        if reason := _not_placeable(use, today, factory):
            notes.append(f"{use.relation} is not moved: {reason}.")
        else:
            candidates.append(use)
    chosen: list[RelationUse] = []
    left = budget_bytes
    for use in candidates:
        if left is None or use.size_bytes <= left:
            chosen.append(use)
            left = None if left is None else left - use.size_bytes
    if candidates and not chosen:
        least = min(candidates, key=lambda use: use.size_bytes)
        raise UsageError(
            f"--budget {format_bytes(budget_bytes or 0)}",
            f"the smallest table or index that matters, {least.relation}, has "
            f"{format_bytes(least.size_bytes)}",
            "give a larger size",
        )
    free = free_now(tier)
    size = sum(use.size_bytes for use in chosen)
    if free is not None and size > free:
        raise UsageError(
            f"{format_bytes(size)} of tables and indexes on {tier.name}",
            f"{format_bytes(free)} are free there",
            f"give a budget of bytes: --budget {free // 10**6}MB",
        )
    whole = sum(use.size_bytes for use in uses)
    fits = free is None or whole <= free
    if not fits:
        notes.append(
            f"Everything is not moved: {format_bytes(whole)} do not fit into the "
            f"{format_bytes(free or 0)} that are free on {tier.name}."
        )
    placements = (
        ",".join([f"data={today}", *(f"{use.relation}={tier.name}" for use in chosen[:count])])
        for count in _counts(len(chosen))
    )
    return RelationArms(tuple(placements), everything if fits else None, tuple(notes))


def _counts(candidates: int) -> list[int]:
    """1, 2, 4 and all: at most four arms, the last of which has all candidates."""
    return sorted({count for count in (1, 2, 4) if count < candidates} | {candidates} - {0})


def _not_placeable(use: RelationUse, today: str, factory: EngineFactory) -> str:
    """Return why a placement cannot name a relation; empty where it can."""
    if use.relation.kind not in factory.relation_kinds:
        return f"{factory.title} cannot place an {use.relation.kind} on its own"
    try:
        parse_placement(f"data={today},{use.relation}={today}")
    except UsageError:
        return "a placement cannot spell its name"
    return ""
