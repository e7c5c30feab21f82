"""Resources of a host for measuring one tier: processors near and far, memory, caches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from ctypes.util import find_library
from dataclasses import dataclass, field

from harness.execution.environment import Environment
from harness.host.processors import cpu_numbers, parse_cpus, resolve_cpus
from harness.micro.keys import MicroParams
from harness.micro.model import Job, Place
from harness.micro.suite import cpus_and_more
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import DIRECTORY_KINDS, Tier
from harness.tiers.linux.numa import Node, distances, nodes
from harness.tiers.resolve import free_now
from harness.units import KIB, MIB

_CPU = "/sys/devices/system/cpu"
#: Shares of what is free: of memory, since page tables, address rings and other processes
#: want some; of a file system, so that it is not filled.
_OF_MEMORY, _OF_FILES = 0.6, 0.8
#: Loaded by the kernel pmdk (Debian: libpmem1, libpmemlog1, libpmemobj1).
PMDK_LIBRARIES = ("pmem", "pmemlog", "pmemobj")
#: Directories whose mapped files are the kernel's page cache.
_PAGE_CACHED = ("block", "sector", "fs-nodax")
_SIZE = re.compile(r"^(\d+)([KM]?)$")


@dataclass(frozen=True)
class HostCapacity:
    """Resources of the host: processors near and far, bytes of each place, the last-level cache.

    ``bytes_free``: what one run may take of the tier and of DRAM; ``in_memory``: the tier's
    bytes are DRAM, too, so that both share it. ``pages_matter``: the tier is DRAM and not files;
    ``page_cached``: its mapped files are the page cache. ``near_node``: which node's memory goes
    with the near processors, and ``near_free_bytes`` of it are free; None where the host has one,
    or the tier's is not known: then ``dram_unbound``, Linux chooses a node for each page of DRAM.
    ``interleave_ways``: over how many DIMMs the tier is interleaved; None on none. ``no_pmdk``: why
    PMDK cannot be called on the tier. ``has_files``: the tier is a directory; ``raw_device``: a DAX
    device. ``node_bytes_free``: of each memory node. ``kernel``: where processors are looked up.
    """

    near: tuple[int, ...]
    far: tuple[int, ...]
    bytes_free: Mapping[Place, int]
    in_memory: bool
    pages_matter: bool
    llc_bytes: int
    page_cached: bool = False
    near_node: int | None = None
    near_free_bytes: int | None = None
    dram_unbound: bool = False
    interleave_ways: int | None = None
    no_pmdk: str = ""
    has_files: bool = True
    raw_device: bool = False
    node_bytes_free: Mapping[int, int] = field(default_factory=dict)
    kernel: Kernel = LIVE

    def processors(self, job: Job) -> tuple[int, ...]:
        """Return the processors for a job, one thread of each core before second ones.

        UsageError if one that it names may not be used; numbers that it names keep their order.
        """
        if not job.cpus:
            return self.near if job.numa == "near" else self.far
        usable, chosen = {*self.near, *self.far}, dict[int, None]()
        for piece in job.cpus.split(","):
            numbers = resolve_cpus(parse_cpus(piece), self.kernel, usable)
            chosen |= dict.fromkeys(_cores_first(numbers, self.kernel) if ":" in piece else numbers)
        return tuple(chosen)


def capacity_of(
    tier: Tier, env: Environment, limits: MicroParams, kernel: Kernel = LIVE
) -> HostCapacity:
    """Return the capacity for a tier now; UsageError for processors that may not be used."""
    every = nodes(kernel)
    near, far, node = _processors(_home(tier), _usable(limits, kernel), every, kernel)
    memory = int(_OF_MEMORY * min(kernel.meminfo().get("MemAvailable", 0), env.memory_bytes))
    kind = tier.facts.kind
    if kind == "numa":
        of_tier = min(memory, _of_nodes(tier.claim.nodes, every, memory))
    elif kind == "devdax":
        of_tier = tier.facts.size_bytes or 0
    else:
        of_tier = int(_OF_FILES * (free_now(tier) or 0))
        of_tier = of_tier if tier.facts.dax else min(of_tier, memory)  # its page cache
    return HostCapacity(
        near=near,
        far=far,
        bytes_free={"tier": of_tier, "dram": memory},
        in_memory=kind not in ("fsdax", "devdax") or tier.emulated,
        page_cached=kind in _PAGE_CACHED and not tier.emulated,
        pages_matter=kind == "numa",
        llc_bytes=llc_bytes(kernel),
        near_node=node,
        near_free_bytes=None if node is None else _of_nodes([node], every, memory),
        interleave_ways=tier.facts.interleave_ways,
        no_pmdk=_no_pmdk(kind),
        has_files=kind in DIRECTORY_KINDS,
        raw_device=kind == "devdax",
        node_bytes_free={
            each.node: _of_nodes([each.node], every, memory) for each in every if each.memory_bytes
        },
        kernel=kernel,
        dram_unbound=node is None and sum(node.memory_bytes > 0 for node in every) > 1,
    )


def _no_pmdk(kind: str) -> str:
    """Why microbench cannot call PMDK, whose pools are files; empty where it can."""
    if kind not in DIRECTORY_KINDS:
        return f"a tier of kind {kind} has no files"
    missing = [name for name in PMDK_LIBRARIES if find_library(name) is None]
    return f"{', '.join(f'lib{name}' for name in missing)} missing" if missing else ""


def _of_nodes(wanted: Iterable[int], every: list[Node], memory: int) -> int:
    """Return the free bytes of nodes; on a host with one, the page cache counts as free, too."""
    if len(every) < 2:
        return memory
    return sum(node.free_bytes for node in every if node.node in wanted)


def _usable(limits: MicroParams, kernel: Kernel) -> tuple[int, ...]:
    return tuple(resolve_cpus(limits.cpus, kernel) if limits.cpus else os.sched_getaffinity(0))


def _home(tier: Tier) -> int | None:
    """Return the node that the tier is attached to; None if it is not known."""
    return tier.claim.nodes[0] if tier.facts.kind == "numa" else tier.facts.numa_node


def _by_node(every: Iterable[Node]) -> dict[int, set[int]]:
    """Return the processors of each node that has any."""
    return {
        node.node: set(cpu_numbers(node.cpus, f"processors of node {node.node}"))
        for node in every
        if node.cpus
    }


def _processors(
    home: int | None, usable: tuple[int, ...], every: list[Node], kernel: Kernel
) -> tuple[tuple[int, ...], tuple[int, ...], int | None]:
    """Usable processors of the nodes nearest to the tier, and of the others; the first of these
    near nodes that has memory.

    Which nodes are near does not depend on ``usable``: with ``cpus=node:1`` a tier of node 0 has
    no near processor. All are near where the tier's node, ``home``, is unknown; then a node is
    named only if all of them belong to it.
    """
    with_cpus = _by_node(every)
    if home is None or not with_cpus:
        eligible = [node for node in every if set(usable) <= with_cpus.get(node.node, set())]
        node = (
            eligible[0].node if len(every) > 1 and eligible and eligible[0].memory_bytes else None
        )
        return _cores_first(usable, kernel), (), node
    distance = distances(every).get(home, {})
    nearest = min(distance.get(node, 0) for node in with_cpus)
    near_nodes = [n for n in with_cpus if distance.get(n, 0) == nearest]
    near = {c for n in near_nodes for c in with_cpus[n]} & set(usable)
    far = set(usable) - near
    with_memory = [entry.node for entry in every if entry.node in near_nodes and entry.memory_bytes]
    node = next(iter(with_memory), None) if len(every) > 1 else None
    return _cores_first(near, kernel), _cores_first(far, kernel), node


def _cores_first(cpus: Iterable[int], kernel: Kernel) -> tuple[int, ...]:
    """Sort one thread of each core before second ones: two on one core share its buffers."""

    def place(cpu: int) -> tuple[int, int]:
        siblings = kernel.read(f"{_CPU}/cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        return cpu_numbers(siblings.strip(), f"siblings of processor {cpu}").index(cpu), cpu

    return tuple(sorted(cpus, key=place))


def _cores(cpus: Iterable[int], kernel: Kernel) -> int:
    """Return how many cores these processors belong to."""
    named = (kernel.read(f"{_CPU}/cpu{cpu}/topology/thread_siblings_list") or cpu for cpu in cpus)
    return len(set(named))


def llc_bytes(kernel: Kernel = LIVE) -> int:
    """Return the bytes of the first processor's last-level cache; 0 if unknown."""
    bytes_by_level: dict[int, int] = {}
    for index in kernel.names(f"{_CPU}/cpu0/cache"):
        level = kernel.read_int(f"{_CPU}/cpu0/cache/{index}/level")
        match = _SIZE.match(kernel.read(f"{_CPU}/cpu0/cache/{index}/size") or "")
        if level is not None and match:
            bytes_by_level[level] = (
                int(match.group(1)) * {"": 1, "K": KIB, "M": MIB}[match.group(2)]
            )
    return bytes_by_level[max(bytes_by_level)] if bytes_by_level else 0


def variables_on(
    tier: Tier, memory_bytes: int, limits: MicroParams, kernel: Kernel = LIVE
) -> dict[str, float]:
    """Return the variables of suites' expressions for a tier: its near processors, and more."""
    return _variables(_home(tier), memory_bytes, limits, kernel)


def variables_here(kernel: Kernel = LIVE) -> dict[str, float]:
    """Return the variables of suites' expressions for a tier of the first processor's node."""
    first = min(os.sched_getaffinity(0))
    home = next((node for node, cpus in _by_node(nodes(kernel)).items() if first in cpus), None)
    memory = kernel.meminfo().get("MemTotal", 0)
    return _variables(home, memory, MicroParams.from_mapping({}), kernel)


def _variables(
    home: int | None, memory_bytes: int, limits: MicroParams, kernel: Kernel
) -> dict[str, float]:
    near, far, _ = _processors(home, _usable(limits, kernel), nodes(kernel), kernel)
    cpus = near or far
    threads = min(len(cpus), limits.threads or len(cpus))
    return cpus_and_more(threads, _cores(cpus, kernel), llc_bytes(kernel), memory_bytes)
