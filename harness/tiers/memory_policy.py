"""Memory policies that need more than set_mempolicy(2): settings of Linux, and the library.

*Weighted* interleaving is Linux's from 6.9; its weights are the host's, and only root sets them.
Where Linux lacks it, or we may not set the weights, the preloaded library spreads large mappings by
mbind(2) (``iotrace/memory.c``). *Tiered* memory is bound to its nodes; Linux promotes pages with
NUMA balancing in mode 2, and demotes them where demotion is on.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from harness.engine import MemoryPolicy
from harness.errors import HostLacksError, UsageError
from harness.host.processors import cpu_numbers
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.memory import hmat, memory_tiers, weights_switch, zones
from harness.tiers.linux.numa import available_bytes, distances, nodes
from harness.units import format_bytes
from harness.warnings import RunWarning

_WEIGHTS = "/sys/kernel/mm/mempolicy/weighted_interleave"
_BALANCING = "/proc/sys/kernel/numa_balancing"
_DEMOTION = "/sys/kernel/mm/numa/demotion_enabled"
#: Least free part of a node: Linux keeps about as much of each zone (its watermarks).
_ROOM = 0.01
#: Promotion between memory tiers (NUMA_BALANCING_MEMORY_TIERING, Linux 5.18).
_TIERING = "2"
_TRUE = ("true", "Y", "1")


@dataclass(frozen=True)
class PolicyMeans:
    """What a policy needs in addition to set_mempolicy(2).

    ``settings``: values of Linux by path, in the order of writing. ``preloaded``: the library is
    needed in the engine's processes.
    """

    settings: Mapping[str, str]
    preloaded: bool = False
    warnings: tuple[RunWarning, ...] = ()


def means_of(policy: MemoryPolicy, kernel: Kernel = LIVE) -> PolicyMeans:
    """What the policy needs here; UsageError where it cannot be had."""
    if policy.mode == "weighted":
        return _weighted(policy, kernel)
    if policy.mode == "tiered":
        return _tiered(policy, kernel)
    return PolicyMeans({})


def check_room(
    policy: MemoryPolicy | None, limit_bytes: int | None, kernel: Kernel = LIVE
) -> list[RunWarning]:
    """Warn of nodes with less free memory than their part of a memory limit.

    HostLacksError where the nodes have less memory than the limit. Preferred memory takes other
    nodes.
    """
    if policy is None or limit_bytes is None or policy.mode == "preferred":
        return []
    size_of = {node.node: node.memory_bytes for node in nodes(kernel)}
    total = sum(size_of.get(node, 0) for node in policy.nodes)
    if limit_bytes > total:
        raise HostLacksError(
            f"memory limit {format_bytes(limit_bytes)} on node {_listed(policy.nodes)}",
            f"the memory there is {format_bytes(total)}",
            "set a smaller --memory-limit, or place memory on more nodes",
        )
    short = [
        f"node {_listed(group)}: {format_bytes(free)} available of {format_bytes(size)}"
        for group, size in _needed(policy, limit_bytes).items()
        if size > (free := sum(available_bytes(node, kernel) for node in group))
    ]
    if not short:
        return []
    return [
        RunWarning(
            "memory-limit-exceeds-nodes",
            "nodes have less memory available than their part of the memory limit",
            ", ".join(short),
            "set a smaller --memory-limit, or free memory there",
        )
    ]


def room_left(policy: MemoryPolicy, limit_bytes: int, kernel: Kernel = LIVE) -> str:
    """Name the memory that the policy's nodes have left, and the part of a limit that they need."""
    free = {node.node: node.free_bytes for node in nodes(kernel)}
    texts = []
    for group, size in _needed(policy, limit_bytes).items():
        unused = sum(free.get(node, 0) for node in group)
        cached = sum(available_bytes(node, kernel) for node in group) - unused
        texts.append(
            f"node {_listed(group)} has {format_bytes(unused)} free and {format_bytes(cached)} in "
            f"caches, its part of the memory limit is {format_bytes(size)}"
        )
    return ", ".join(texts)


def caches_in_the_way(policy: MemoryPolicy, bytes_: int, kernel: Kernel = LIVE) -> bool:
    """Return whether caches take room that a node needs for its part of ``bytes_``.

    Linux takes another node for a page before it gives up a node's caches, except of bound memory,
    whose processes have to wait until it has.
    """
    by_number = {node.node: node for node in nodes(kernel)}
    return any(
        min(size, available_bytes(number, kernel)) - node.free_bytes > _ROOM * node.memory_bytes
        for group, size in _needed(policy, bytes_).items()
        for number in group
        if (node := by_number.get(number))
    )


def _needed(policy: MemoryPolicy, limit_bytes: int) -> dict[tuple[int, ...], int]:
    """Bytes of a memory limit by nodes: of each node if pages are divided, else of all together."""
    if policy.mode != "interleave" and not policy.weights:
        return {policy.nodes: limit_bytes}
    weights = policy.weights or (1,) * len(policy.nodes)
    return {
        (node,): round(limit_bytes * weight / sum(weights))
        for node, weight in zip(policy.nodes, weights, strict=True)
    }


def usable_bytes(policy: MemoryPolicy | None, host_bytes: int, kernel: Kernel = LIVE) -> int:
    """Return how much of ``host_bytes`` processes with the policy can have: its nodes' memory.

    Preferred memory takes other nodes.
    """
    if policy is None or policy.mode == "preferred":
        return host_bytes
    bound = (node.memory_bytes for node in nodes(kernel) if node.node in policy.nodes)
    return min(host_bytes, sum(bound))


def weights_in_force(policy: MemoryPolicy, kernel: Kernel = LIVE) -> tuple[int, ...]:
    """Weights that Linux has for the policy's nodes now; empty where it has none."""
    weights = [kernel.read_int(_weight_of(node)) for node in policy.nodes]
    return tuple(weight for weight in weights if weight is not None)


def _weight_of(node: int) -> str:
    return f"{_WEIGHTS}/node{node}"


def _weighted(policy: MemoryPolicy, kernel: Kernel) -> PolicyMeans:
    present = weights_in_force(policy, kernel)
    auto = weights_switch(kernel)
    computed = auto is not None and kernel.read(auto) in _TRUE
    has_bandwidths = all(
        any(promise.read_bandwidth_mb_per_s for promise in hmat(node, kernel).values())
        for node in policy.nodes
    )
    if not policy.weights:
        return _computed(policy, present, auto if has_bandwidths else None, computed, kernel)
    if present == policy.weights:
        return PolicyMeans({})
    # Without bandwidths, Linux takes its weights back at a reboot only (ENODEV, seen in 6.18).
    if len(present) < len(policy.nodes) or (computed and not has_bandwidths):
        return PolicyMeans({}, preloaded=True)
    settings = {auto: "false"} if auto is not None and computed else {}
    stated = zip(policy.nodes, policy.weights, strict=True)
    settings |= {_weight_of(node): str(weight) for node, weight in stated}
    usable = all(_writable(path, kernel) for path in settings)
    return PolicyMeans(settings) if usable else PolicyMeans({}, preloaded=True)


def _computed(
    policy: MemoryPolicy, present: tuple[int, ...], auto: str | None, on: bool, kernel: Kernel
) -> PolicyMeans:
    """Weights that Linux computes of the nodes' bandwidths."""
    problem = f"weighted memory on node {_listed(policy.nodes)} without weights"
    hint = "state the weights: memory=weighted:dram=3,cxl=1, or weights: [3, 1] in the host file"
    if auto is None or len(present) < len(policy.nodes):
        context = "Linux computes none (6.16 and later do, of bandwidths that the firmware states)"
        raise UsageError(problem, context, hint)
    if not on and not _writable(auto, kernel):
        raise UsageError(
            problem, f"{auto} is {kernel.read(auto)}, and we may not set it", f"{hint}; or use root"
        )
    return PolicyMeans({} if on else {auto: "true"})


def _tiered(policy: MemoryPolicy, kernel: Kernel) -> PolicyMeans:
    problem = f"tiered memory on node {_listed(policy.nodes)}"
    for path, lacking in (
        (_BALANCING, "NUMA balancing (CONFIG_NUMA_BALANCING)"),
        (_DEMOTION, "demotion between memory tiers (Linux 5.18)"),
    ):
        if kernel.read(path) is None:
            raise UsageError(
                problem,
                f"this Linux has no {lacking}: there is no {path}",
                "use another kernel, or memory=preferred:TIER",
            )
    _check_memory_tiers(problem, policy, kernel)
    settings = {}
    if kernel.read(_BALANCING) != _TIERING:
        settings[_BALANCING] = _TIERING
    if kernel.read(_DEMOTION) not in _TRUE:
        settings[_DEMOTION] = "true"
    for path, value in settings.items():
        if not _writable(path, kernel):
            raise UsageError(
                problem,
                f"{path} is {kernel.read(path)}, and we may not set it",
                f"run as root, or set it: echo {value} > {path}",
            )
    return PolicyMeans(settings, preloaded=True, warnings=tuple(_full(policy, kernel)))


def _check_memory_tiers(problem: str, policy: MemoryPolicy, kernel: Kernel) -> None:
    """UsageError unless the nodes are in memory tiers of Linux from fast to slow."""
    tiers = memory_tiers(kernel)
    listed = ", ".join(f"node {node} in tier {tiers.get(node, '?')}" for node in policy.nodes)
    numbers = [tiers[node] for node in policy.nodes if node in tiers]
    if len(numbers) < len(policy.nodes):
        raise UsageError(
            problem,
            f"Linux does not show the memory tier of each node: {listed}",
            "use Linux 6.1 or later, or memory=preferred:TIER",
        )
    if len(set(numbers)) == 1:
        raise UsageError(
            problem,
            f"all nodes are in one memory tier, so that Linux promotes nothing: {listed}",
            "have the firmware state the latencies (HMAT, CDAT) and online the slow memory with "
            "daxctl, from which Linux (6.1 and later) puts it into a lower tier",
        )
    if numbers != sorted(numbers):
        raise UsageError(
            problem,
            f"the nodes are not named from fast to slow: {listed}",
            "name the fast tier first: memory=tiered:dram,cxl",
        )


def _full(policy: MemoryPolicy, kernel: Kernel) -> Iterator[RunWarning]:
    """Warn of a node without room: no page can be moved to it."""
    by_node = zones(kernel)
    for node in policy.nodes:
        size = sum(zone.bytes for zone in by_node.get(node, {}).values())
        free = sum(zone.free_bytes for zone in by_node.get(node, {}).values())
        if size and free < _ROOM * size:
            yield RunWarning(
                "memory-node-full",
                "a node of the tiered memory is full: Linux can move no page to it",
                f"node {node}: {format_bytes(free)} of {format_bytes(size)} are free",
                "free memory there, or use a tier with more",
            )


def nearer_slower(
    policy: MemoryPolicy, cpus: Collection[int], kernel: Kernel = LIVE
) -> list[RunWarning]:
    """Warn where processors are nearer to a slower node of tiered memory than to a faster one.

    Linux takes a page from the nearest node of the policy. ``cpus``: the engine's, empty for all.
    """
    if policy.mode != "tiered":
        return []
    every = nodes(kernel)
    by_node = distances(every)
    texts, fitting = [], []
    for node in filter(lambda node: node.cpus, every):
        to = by_node[node.node]
        pairs = combinations(policy.nodes, 2)
        nearer = [(fast, slow) for fast, slow in pairs if to.get(slow, 0) < to.get(fast, 0)]
        if not nearer:
            fitting.append(f"--cpus node:{node.node}")
        elif not cpus or set(cpus) & set(cpu_numbers(node.cpus, f"node {node.node}")):
            fast, slow = nearer[0]
            distant = f"distance {to[slow]} to node {slow}, {to[fast]} to node {fast}"
            texts.append(f"processors of node {node.node}: {distant}")
    if not texts:
        return []
    return [
        RunWarning(
            "slower-memory-nearer",
            "processors are nearer to slower memory than to faster, so that Linux fills it first",
            "; ".join(texts),
            f"give {' or '.join(fitting)}" if fitting else "use a slower node that is further away",
        )
    ]


def _writable(path: str, kernel: Kernel) -> bool:
    return os.access(kernel.path(path), os.W_OK)


def _listed(nodes: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, nodes))
