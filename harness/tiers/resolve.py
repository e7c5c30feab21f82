"""Resolve a placement's names to tiers; check their space."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from pathlib import Path

from harness.engine import MemoryPolicy
from harness.errors import HostLacksError, UsageError, nearest
from harness.experiment.placement import Part, Placement
from harness.host.processors import OF_DATA, cpu_numbers, package_of, socket_of
from harness.sequences import grouped
from harness.tiers.discovery import nearest_existing
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import DIRECTORY_KINDS, Tier, TierClaim
from harness.tiers.linux.numa import Node, nodes
from harness.tiers.verify import verify
from harness.units import format_bytes

#: File systems without a device and without memory of their own.
_OF_THE_KERNEL = frozenset(
    {
        "sysfs",
        "proc",
        "cgroup",
        "cgroup2",
        "debugfs",
        "tracefs",
        "securityfs",
        "configfs",
        "devpts",
        "bpf",
        "pstore",
        "efivarfs",
    }
)


def resolve(
    placement: Placement, tiers: Mapping[str, Tier], kernel: Kernel = LIVE
) -> tuple[Mapping[Part, Tier], MemoryPolicy | None]:
    """The tier of every part that has one, and the memory policy (None: the default).

    UsageError for a name that no tier has, and for a tier of the wrong sort: a
    directory part needs a mounted file system, ``memory`` NUMA nodes.
    """
    result: dict[Part, Tier] = {
        part: _tier(placement, part, placement.tier_of(part) or "", tiers, kernel)
        for part in placement.directory_parts
    }
    memory = _memory(placement, tiers, kernel)
    if memory is None:
        return result, None
    return {**result, "memory": memory}, memory_policy(memory)


def memory_policy(tier: Tier) -> MemoryPolicy:
    """The policy of a numa tier; ``bind`` where its claim names none."""
    return MemoryPolicy(tier.claim.policy or "bind", tier.claim.nodes, tier.claim.weights)


def _memory(placement: Placement, tiers: Mapping[str, Tier], kernel: Kernel) -> Tier | None:
    """The tier of memory; of several tiers, or of a socket, one that is made of their nodes."""
    place = placement.memory_place
    if place is None:
        return None
    of_memory = [_tier(placement, "memory", name, tiers, kernel) for name in place.tiers]
    if place.policy is None and of_memory:
        return of_memory[0]
    numbers, weights = _nodes_near(place.nodes, kernel), tuple[int, ...]()
    for tier, weight in zip_longest(of_memory, place.weights):
        numbers += tier.claim.nodes
        weights += (weight,) * len(tier.claim.nodes) if weight else ()
    if len(set(numbers)) < len(numbers):
        context = f"the nodes are {', '.join(map(str, numbers))}"
        problem = f"placement {placement.name!r} names a memory node twice"
        raise UsageError(problem, context, "name tiers of different nodes (harness doctor)")
    claim = TierClaim(
        f"{placement.memory}", "numa", nodes=numbers, policy=place.policy or "bind", weights=weights
    )
    return verify(claim, kernel=kernel)


def _nodes_near(text: str, kernel: Kernel) -> tuple[int, ...]:
    """Nodes with memory of ``socket:0`` or ``node:0``, as numactl --membind; none of no text."""
    if not text:
        return ()
    kind, _, number = text.partition(":")
    with_memory = [node for node in nodes(kernel) if node.memory_bytes]
    result = tuple(
        node.node
        for node in with_memory
        if int(number) in (_sockets(node, kernel) if kind == "socket" else {node.node})
    )
    if not result:
        listed = ", ".join(str(node.node) for node in with_memory)
        raise HostLacksError(
            f"memory={text}",
            f"there is no such {kind} with memory of its own",
            f"nodes with memory here: {listed or 'none'}",
        )
    return result


def bound_nodes(text: str, data_node: int | None, kernel: Kernel = LIVE) -> tuple[int, ...]:
    """Memory nodes of a profile's ``memory``; empty where the host has no others.

    ``data_node``: the node that the tier of the data is attached to, for ``socket:data``.
    """
    if text == OF_DATA:
        text = f"socket:{socket_of(data_node, kernel)}"
    bound = _nodes_near(text, kernel)
    return () if len(bound) == sum(node.memory_bytes > 0 for node in nodes(kernel)) else bound


def _sockets(node: Node, kernel: Kernel) -> set[int]:
    cpus = cpu_numbers(node.cpus, f"processors of node {node.node}") if node.cpus else ()
    return {package_of(cpu, kernel) for cpu in cpus}


def memory_line(name: str, kernel: Kernel = LIVE) -> str:
    """Return a hint with the line of the host file that names a tier of memory.

    ``dram`` is on a node with processors, any other tier on one without; empty without such a node.
    """
    fitting = [
        node.node
        for node in nodes(kernel)
        if node.memory_bytes and bool(node.cpus) == (name == "dram")
    ]
    if not fitting:
        return ""
    line = f"{name}: {{kind: numa, node: {fitting[0]}, price_per_gb: …}}"
    return f"; to name it, add to the tiers of the host file: {line}"


def _tier(
    placement: Placement, part: Part, name: str, tiers: Mapping[str, Tier], kernel: Kernel
) -> Tier:
    problem = f"placement {placement.name!r} puts {part} on tier {name!r}"
    tier = tiers.get(name)
    if tier is None:
        names = sorted(tiers)
        hint = (
            f"; --emulate {name} emulates it by a tmpfs and marks the results"
            if part != "memory"
            else memory_line(name, kernel)
        )
        raise HostLacksError(
            problem,
            f"no such tier: {name!r}{nearest(name, names)}",
            f"tiers here: {', '.join(names) or 'none'} (harness doctor){hint}",
        )
    if part != "memory" and tier.facts.kind not in DIRECTORY_KINDS:
        raise UsageError(problem, _not_a_directory(tier), _suggest(tiers, directories=True))
    if part == "memory" and tier.facts.kind != "numa":
        raise UsageError(
            problem,
            f"{name!r} is a {tier.facts.kind} directory or device;"
            " a process's memory can only be bound to a NUMA node",
            _suggest(tiers, directories=False),
        )
    return tier


def _not_a_directory(tier: Tier) -> str:
    if tier.facts.kind == "numa":
        return f"{tier.name!r} is a memory node without files"
    return (
        f"{tier.name!r} is the character device {tier.claim.device}:"
        " it has no file system for an engine's files"
    )


def _suggest(tiers: Mapping[str, Tier], directories: bool) -> str:
    fitting = sorted(
        name for name, tier in tiers.items() if (tier.facts.kind in DIRECTORY_KINDS) == directories
    )
    if not directories:
        fitting = [name for name in fitting if tiers[name].facts.kind == "numa"]
    return f"tiers that fit: {', '.join(fitting) or 'none'}"


_DIMMS = {"one": "one DIMM", "interleaved": "interleaved DIMMs"}


def check_dimms(
    required: Mapping[str, str], used: Iterable[Tier], tiers: Mapping[str, Tier]
) -> None:
    """UsageError for a tier on one DIMM where interleaved ones are required, or vice versa.

    ``required``: ``one`` or ``interleaved``, by a tier's name. A tier without DIMMs of its own
    (emulated, modelled, of another kind) passes.
    """
    for tier in used:
        dimms, expected = _dimms(tier), required.get(tier.name)
        if dimms is None or expected is None or dimms == expected:
            continue
        fitting = sorted(name for name, each in tiers.items() if _dimms(each) == expected)
        goal = "AppDirect" if expected == "interleaved" else "AppDirectNotInterleaved"
        raise UsageError(
            f"tier {tier.name!r} is on {_DIMMS[dimms]}",
            f"the profile requires {_DIMMS[expected]}",
            f"name {' or '.join(fitting)} {tier.name!r} in a host file (--host)"
            if fitting
            else f"harness host apply appdirect --set pmem_goal={goal}",
        )


def _dimms(tier: Tier) -> str | None:
    """``one`` or ``interleaved`` of a tier on persistent memory; None of others, or not known."""
    ways = tier.facts.interleave_ways
    if tier.emulated or tier.model is not None or not ways:
        return None
    return "interleaved" if ways > 1 else "one"


def free_now(tier: Tier) -> int | None:
    """Bytes free on a directory tier at this moment, to an unprivileged user.

    A path that does not exist yet (the default tier before its first use) counts
    as its nearest existing parent. A tmpfs is capped by what it was found to have,
    which takes the host's free memory into account.
    """
    if tier.claim.path is None:
        return tier.facts.free_bytes
    status = os.statvfs(nearest_existing(Path(tier.claim.path)))
    free = status.f_bavail * status.f_frsize
    if tier.facts.kind == "tmpfs" and tier.facts.free_bytes is not None:
        return min(free, tier.facts.free_bytes)
    return free


def check_space(
    wanted: Iterable[tuple[Tier, str, int]],
    free: Callable[[Tier], int | None] = free_now,
    smaller: str = "less data",
) -> None:
    """UsageError where a file system has too little free space.

    ``wanted``: tier, what it is (a part's name, "dataset" …), bytes. ``smaller``: what
    else may be requested (``fewer --warehouses``).
    """
    for group in grouped((_filesystem(member[0]), member) for member in wanted).values():
        _check_group(group, free, smaller)


def _filesystem(tier: Tier) -> str:
    return tier.facts.filesystem_id or tier.facts.mount_point or tier.name


def _check_group(
    group: list[tuple[Tier, str, int]], free: Callable[[Tier], int | None], smaller: str
) -> None:
    needed_bytes = sum(item[2] for item in group)
    tier = group[0][0]
    free_bytes = free(tier)
    if free_bytes is None or needed_bytes <= free_bytes:
        return
    parts = ", ".join(f"{part} {format_bytes(size)}" for _, part, size in group if size)
    names = " and ".join(dict.fromkeys(repr(each.name) for each, _, _ in group))
    problem = f"{format_bytes(needed_bytes)} on tier {names} ({parts})"
    if tier.facts.filesystem in _OF_THE_KERNEL:
        raise UsageError(
            problem,
            f"{tier.facts.mount_point} ({tier.facts.filesystem}) is the kernel's: it stores no"
            " files",
            "name a directory of a mounted disk in the host file",
        )
    raise UsageError(
        problem,
        f"{format_bytes(free_bytes)} are free on {tier.facts.mount_point}"
        f" ({tier.facts.device or tier.facts.filesystem})",
        f"free space there (harness data rm), use {smaller}, or another tier",
    )
