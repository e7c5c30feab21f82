"""Memory policies that need more than set_mempolicy(2): settings of Linux, and the library.

*Weighted* interleaving is Linux's from 6.9; its weights are the host's, and only root sets them.
Where Linux lacks it, or we may not set the weights, the preloaded library spreads large mappings by
mbind(2) (``iotrace/memory.c``). *Tiered* memory is bound to its nodes; Linux promotes pages with
NUMA balancing in mode 2, and demotes them where demotion is on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.engine import MemoryPolicy
from harness.errors import UsageError
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.numa import node_numbers
from harness.warnings import RunWarning

_WEIGHTS = "/sys/kernel/mm/mempolicy/weighted_interleave"
#: Whether Linux computes the weights (6.16); the second is its name in kernels in which the
#: compiler's ``auto`` has replaced the word (seen in 6.18).
_AUTO = (f"{_WEIGHTS}/auto", f"{_WEIGHTS}/__auto_type")
_BALANCING = "/proc/sys/kernel/numa_balancing"
_DEMOTION = "/sys/kernel/mm/numa/demotion_enabled"
_TIERS = "/sys/devices/virtual/memory_tiering"
_ZONES = "/proc/zoneinfo"
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


def weights_in_force(policy: MemoryPolicy, kernel: Kernel = LIVE) -> tuple[int, ...]:
    """Weights that Linux has for the policy's nodes now; empty where it has none."""
    weights = [kernel.read_int(_weight_of(node)) for node in policy.nodes]
    return tuple(weight for weight in weights if weight is not None)


def _weight_of(node: int) -> str:
    return f"{_WEIGHTS}/node{node}"


def _bandwidth(node: int, kernel: Kernel) -> int | None:
    """MB/s that the firmware states of the node (ACPI HMAT, CXL CDAT); None without any."""
    initiators = f"/sys/devices/system/node/node{node}/access0/initiators"
    return kernel.read_int(f"{initiators}/read_bandwidth")


def _weighted(policy: MemoryPolicy, kernel: Kernel) -> PolicyMeans:
    present = weights_in_force(policy, kernel)
    auto = next((path for path in _AUTO if kernel.read(path) is not None), None)
    computed = auto is not None and kernel.read(auto) in _TRUE
    has_bandwidths = all(_bandwidth(node, kernel) for node in policy.nodes)
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
    tiers = {
        node: int(match[1])
        for name in kernel.names(_TIERS)
        if (match := re.fullmatch(r"memory_tier(\d+)", name))
        for node in node_numbers(kernel.read(f"{_TIERS}/{name}/nodelist") or "")
    }
    listed = ", ".join(f"node {node} in tier {tiers.get(node, '?')}" for node in policy.nodes)
    numbers = [tiers[node] for node in policy.nodes if node in tiers]
    if len(numbers) < len(policy.nodes):
        raise UsageError(
            problem,
            f"Linux does not show the memory tier of each node ({_TIERS}): {listed}",
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
    room = dict(_room(kernel.read(_ZONES) or ""))
    if full := [node for node in policy.nodes if room.get(node, 1) <= 0]:
        yield RunWarning(
            "memory-node-full",
            "a node of the tiered memory is full: Linux can move no page to it",
            f"node {_listed(full)}: no zone has more free pages than its watermark",
            "free memory there, or use a tier with more",
        )


_ZONE = re.compile(r"^Node (\d+), zone +(\w+)$(.*?)(?=^Node|\Z)", re.M | re.S)


def _room(zones: str) -> Iterator[tuple[int, int]]:
    """Each node's free pages above the high watermarks of its zones, movable ones included."""
    pages: dict[int, int] = {}
    for node, _, text in _ZONE.findall(zones):
        free = re.search(r"pages free +(\d+)", text)
        high = re.search(r"^ +high +(\d+)", text, re.M)
        managed = re.search(r"^ +managed +(\d+)", text, re.M)
        if free and high and managed and int(managed[1]):
            above = max(0, int(free[1]) - int(high[1]))
            pages[int(node)] = pages.get(int(node), 0) + above
    yield from pages.items()


def _writable(path: str, kernel: Kernel) -> bool:
    return os.access(kernel.path(path), os.W_OK)


def _listed(nodes: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, nodes))
