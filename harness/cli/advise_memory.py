"""Arms of ``harness advise --to memory=TIER``: does more, slower memory pay?

Today's arm has DRAM alone, at its own size. The others have more memory: as much DRAM as today, the
rest on the slower tier.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from harness.errors import UsageError
from harness.experiment.placement import LARGEST_WEIGHT, parse_placement
from harness.experiment.profile import parse_memory_limit
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import Tier
from harness.tiers.linux.numa import Node, distances, nodes
from harness.tiers.resolve import memory_line, resolve
from harness.units import format_bytes

MEMORY = "memory="
#: The tier of the nodes with processors (harness.tiers.discovery).
_DRAM = "dram"
#: DRAM over today's limit, at most: Linux would take the rest before the slower tier.
_LEFT_OVER = 1.25
#: Pages of the slower tier in a turn, at most: weights are those next to the ratio of the sizes.
_LARGEST_PART = 16


@dataclass(frozen=True)
class MemoryArm:
    """An arm of the question. ``memory``: in words, such as ``16 GiB of dram``."""

    label: str
    placement: str
    limit_bytes: int
    memory: str


@dataclass(frozen=True)
class MemoryArms:
    """Arms, today's first. ``untried``: policies that this host cannot have, with the reason.

    ``cpus``: the processors next to DRAM; None where the host has no others.
    """

    arms: tuple[MemoryArm, ...]
    untried: tuple[str, ...] = ()
    cpus: str | None = None


def memory_arms(
    data_tier: str,
    slower: str,
    limits: str | None,
    tiers: Mapping[str, Tier],
    kernel: Kernel = LIVE,
) -> MemoryArms:
    """Return the arms; ``limits``: today's memory and that with the slower tier, ``16GiB,32GiB``.

    UsageError for tiers that are no memory, are on one node or too small, and for limits that are
    no such two.
    """
    if slower == _DRAM:
        context = f"{MEMORY}{_DRAM} is today's memory"
        raise UsageError(f"--to {MEMORY}{_DRAM}", context, "name the slower tier: --to memory=cxl")
    dram, more = (_memory_tier(name, tiers, kernel) for name in (_DRAM, slower))
    data = f"data={data_tier},{MEMORY}"
    resolve(parse_placement(f"{data}interleave:{_DRAM},{slower}"), tiers, kernel)
    today_bytes, more_bytes = _limits(limits)
    added = more_bytes - today_bytes
    if added > (more.facts.size_bytes or 0):
        raise UsageError(
            f"--memory-limit {limits}",
            f"{slower} has {format_bytes(more.facts.size_bytes or 0)} for the additional "
            f"{format_bytes(added)}",
            "give a smaller second limit",
        )
    # A weight is that of each node of its tier.
    each = (today_bytes * len(more.claim.nodes), added * len(dram.claim.nodes))
    weights = Fraction(*each).limit_denominator(_LARGEST_PART)
    dram_weight, more_weight = max(1, weights.numerator), weights.denominator
    if dram_weight > LARGEST_WEIGHT:
        raise UsageError(
            f"--memory-limit {limits}",
            f"{format_bytes(added)} are too few for a share of the pages",
            "give a larger second limit",
        )
    ratio = f"{dram_weight}:{more_weight}"
    size = format_bytes(more_bytes)
    arms = [
        MemoryArm(_DRAM, f"{data}{_DRAM}", today_bytes, f"{format_bytes(today_bytes)} of {_DRAM}"),
        MemoryArm(
            "weighted",
            f"{data}weighted:{_DRAM}={dram_weight},{slower}={more_weight}",
            more_bytes,
            f"{size} of {_DRAM} and {slower}, interleaved {ratio}",
        ),
    ]
    filled = {
        "preferred": (f"preferred:{_DRAM}", f"{size}, first of {_DRAM}, then of {slower}"),
        "tiered": (
            f"tiered:{_DRAM},{slower}",
            f"{size} of {_DRAM} and {slower}, between which Linux moves pages",
        ),
    }
    untried: dict[str, list[str]] = {}
    for label, (memory, words) in filled.items():
        arm = MemoryArm(label, f"{data}{memory}", more_bytes, words)
        if why := _why_not(arm, dram, today_bytes, more, tiers, kernel):
            untried.setdefault(why, []).append(label)
        else:
            arms.append(arm)
    notes = (f"not tried: {' and '.join(labels)}, since {why}" for why, labels in untried.items())
    return MemoryArms(tuple(arms), tuple(notes), _processors(dram, kernel))


def _nearer(dram: Tier, slower: Tier, kernel: Kernel) -> list[Node]:
    """Return the other nodes that are as near to DRAM as the slower memory, or nearer."""
    every = nodes(kernel)
    by_node = distances(every)

    def from_dram(node: int) -> int:
        return min(by_node[each].get(node, 0) for each in dram.claim.nodes)

    furthest = max(map(from_dram, slower.claim.nodes))
    named = {*dram.claim.nodes, *slower.claim.nodes}
    others = (node for node in every if node.memory_bytes and node.node not in named)
    return [node for node in others if from_dram(node.node) <= furthest]


def _memory_tier(name: str, tiers: Mapping[str, Tier], kernel: Kernel) -> Tier:
    tier = tiers.get(name)
    if tier is not None and tier.facts.kind == "numa":
        return tier
    of_memory = [each for each, other in tiers.items() if other.facts.kind == "numa"]
    context = f"no tier of memory is called {name} (tiers of memory: {_listed(of_memory)})"
    if tier is not None:
        context = f"{name} is of kind {tier.facts.kind} (tiers of memory: {_listed(of_memory)})"
        hint = "name a tier of memory; `harness doctor` shows the host's nodes"
        raise UsageError(f"--to {MEMORY}{name}", context, hint)
    hint = f"`harness doctor` shows the host's nodes{memory_line(name, kernel)}"
    slower = [each for each in of_memory if each != _DRAM]
    if sum(node.memory_bytes > 0 for node in nodes(kernel)) == 1:
        hint = (
            "this host has one node of memory: the question needs another, slower one "
            "(`harness host apply cxl` makes it of CXL devices)"
        )
    elif not name or set(name) & set(":,="):
        context = f"a tier is named, not a policy (tiers of slower memory: {_listed(slower)})"
        named = [each for each in slower if each in re.split("[:,=]", name)]
        best = (*named, *slower, "cxl")[0]
        hint = f"write --to {MEMORY}{best}: the command tries the policies"
    subject = f"advise --to {MEMORY}TIER" if name == _DRAM else f"--to {MEMORY}{name}"
    raise UsageError(subject, context, hint)


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _limits(text: str | None) -> tuple[int, int]:
    sizes = [parse_memory_limit(word) for word in (text or "").split(",") if word]
    if len(sizes) != 2 or sizes[0] >= sizes[1]:
        raise UsageError(
            f"advise --to {MEMORY}TIER: --memory-limit {text or '(not given)'}",
            "not two sizes, the smaller first",
            "give today's memory and the total with the slower tier: --memory-limit 16GiB,32GiB",
        )
    return sizes[0], sizes[1]


def _processors(dram: Tier, kernel: Kernel) -> str | None:
    """Return the processors next to DRAM; None where the host has no others.

    From others Linux would fill memory that is nearer to them first.
    """
    every = [node for node in nodes(kernel) if node.cpus]
    near = [node for node in every if node.node in dram.claim.nodes]
    if len(near) in (0, len(every)):
        return None
    return f"node:{near[0].node}" if len(near) == 1 else ",".join(node.cpus for node in near)


def _why_not(
    arm: MemoryArm,
    dram: Tier,
    today_bytes: int,
    slower: Tier,
    tiers: Mapping[str, Tier],
    kernel: Kernel,
) -> str:
    """Return why an arm, of which Linux fills DRAM first, is not possible here; else empty."""
    size_bytes, before = dram.facts.size_bytes or 0, f"which Linux would take before {slower.name}"
    if size_bytes > _LEFT_OVER * today_bytes:
        return (
            f"{_DRAM} has {format_bytes(size_bytes)}, {before} (give a first limit of "
            f"{format_bytes(size_bytes / _LEFT_OVER)} or more, or offline DRAM: docs/tiers.md)"
        )
    nearer = _nearer(dram, slower, kernel)
    nearer_bytes = sum(node.memory_bytes for node in nearer)
    if arm.label == "preferred" and nearer_bytes > (_LEFT_OVER - 1) * today_bytes:
        listed = ", ".join(str(node.node) for node in nearer)
        return (
            f"node {listed} has {format_bytes(nearer_bytes)}, {before} (name it in the tier "
            f"{_DRAM}, too, or offline its memory: docs/tiers.md)"
        )
    try:
        resolve(parse_placement(arm.placement), tiers, kernel)
    except UsageError as error:
        return error.context
    return ""
