"""Memory of the nodes as Linux manages it: zones, blocks, tiers, and what firmware promises."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .kernel import Kernel

_NODES = "/sys/devices/system/node"
_BLOCKS = "/sys/devices/system/memory"
_TIERS = "/sys/devices/virtual/memory_tiering"
_WEIGHTS = "/sys/kernel/mm/mempolicy/weighted_interleave"
_BLOCK = re.compile(r"memory(\d+)")
_NODE = re.compile(r"node(\d+)")
_ZONE = re.compile(r"Node (\d+), zone +(\w+)")
#: Bits of the sysctl kernel.numa_balancing.
_BALANCING = {1: "normal", 2: "tiering"}
#: Zones that hold nothing of the kernel's own, and devices' memory, which is no main memory.
MOVABLE, _DEVICE = "Movable", "Device"


@dataclass(frozen=True)
class Hmat:
    """What firmware promises of a node to its nearest initiators (ACPI HMAT, or CXL's CDAT).

    ``initiators``: nodes. Of ``access1`` they are nodes with processors, of ``access0`` of devices,
    too. The bandwidth is in MB/s.
    """

    initiators: tuple[int, ...]
    read_latency_ns: int | None
    write_latency_ns: int | None
    read_bandwidth_mb_per_s: int | None
    write_bandwidth_mb_per_s: int | None


def hmat(node: int, kernel: Kernel) -> dict[str, Hmat]:
    """By class of access, ``access0`` and ``access1``; empty where firmware says nothing."""
    classes = {}
    for access in ("access0", "access1"):
        folder = kernel.path(f"{_NODES}/node{node}/{access}/initiators")
        promised = [
            kernel.read_int(folder / f"{direction}_{quantity}") or None
            for quantity in ("latency", "bandwidth")
            for direction in ("read", "write")
        ]
        if any(promised):
            near = [int(m[1]) for name in kernel.names(folder) if (m := _NODE.fullmatch(name))]
            classes[access] = Hmat(tuple(sorted(near)), *promised)
    return classes


@dataclass(frozen=True)
class Zone:
    """Bytes of a node in a zone, as managed by the page allocator, and how many are free."""

    bytes: int
    free_bytes: int


def zones(kernel: Kernel) -> dict[int, dict[str, Zone]]:
    """By node and name, those with memory: ``{0: {"Normal": …}, 1: {"Movable": …}}``."""
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    result: dict[int, dict[str, Zone]] = {}
    for text in re.split(r"^(?=Node )", kernel.read("/proc/zoneinfo") or "", flags=re.M):
        name = _ZONE.match(text)
        free = re.search(r"^ +pages free +(\d+)", text, re.M)
        managed = re.search(r"^ +managed +(\d+)", text, re.M)
        if name and free and managed and int(managed[1]) and name[2] != _DEVICE:
            zone = Zone(int(managed[1]) * page_bytes, int(free[1]) * page_bytes)
            result.setdefault(int(name[1]), {})[name[2]] = zone
    return result


@dataclass(frozen=True)
class Blocks:
    """Blocks of hotpluggable memory, and how many are online: the others are not used."""

    blocks: int
    online: int


def blocks_by_node(kernel: Kernel) -> dict[int | None, Blocks]:
    """Blocks of each node; of None: those that Linux counts to no node."""
    states: dict[int | None, list[str | None]] = {}
    for name in kernel.names(_BLOCKS):
        if _BLOCK.fullmatch(name):
            folder = kernel.path(f"{_BLOCKS}/{name}")
            states.setdefault(_node_of(folder, kernel), []).append(kernel.read(folder / "state"))
    return {
        node: Blocks(len(of_node), sum(state == "online" for state in of_node))
        for node, of_node in states.items()
    }


def _node_of(block: Path, kernel: Kernel) -> int | None:
    nodes = [int(m[1]) for name in kernel.names(block) if (m := _NODE.fullmatch(name))]
    return nodes[0] if nodes else None


def block_bytes(kernel: Kernel) -> int | None:
    """Bytes of a block; sysfs has them in hexadecimal digits without a prefix."""
    text = kernel.read(f"{_BLOCKS}/block_size_bytes")
    return int(text, 16) if text and re.fullmatch(r"[0-9a-fA-F]+", text) else None


def addresses(node: int, kernel: Kernel) -> list[tuple[int, int]]:
    """Ranges of the node's physical addresses, ends excluded, a block each."""
    size = block_bytes(kernel)
    names = kernel.names(f"{_NODES}/node{node}") if size else []
    numbers = sorted(int(m[1]) for name in names if (m := _BLOCK.fullmatch(name)))
    return [(number * size, (number + 1) * size) for number in numbers] if size else []


def memory_tiers(kernel: Kernel) -> dict[int, int]:
    """By node: the number of its memory tier; pages are demoted to tiers with greater numbers."""
    tiers: dict[int, int] = {}
    for name in kernel.names(_TIERS):
        if match := re.fullmatch(r"memory_tier(\d+)", name):
            listed = kernel.read(f"{_TIERS}/{name}/nodelist") or ""
            tiers |= {node: int(match[1]) for node in node_list(listed)}
    return tiers


def node_list(text: str) -> list[int]:
    """Numbers of a kernel's list, ``0-1,3``."""
    numbers: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


@dataclass(frozen=True)
class MemorySettings:
    """Settings of Linux that decide where memory is and goes; None: this kernel has none.

    ``auto_online``: what becomes of memory that is added: offline, online, online_kernel or
    online_movable. ``numa_balancing``: off, normal, tiering (promotion). ``interleave_weights``: by
    node, of weighted interleaving; ``weights_by_kernel``: it computed them from HMAT.
    """

    auto_online: str | None
    numa_balancing: str | None
    demotion: bool | None
    interleave_weights: Mapping[int, int]
    weights_by_kernel: bool | None


def weights_switch(kernel: Kernel) -> str | None:
    """Path of the setting whether Linux computes the weights (6.16); None where it cannot.

    In 6.18 it was seen by the name that the compiler's ``auto`` expands to.
    """
    paths = (f"{_WEIGHTS}/{name}" for name in ("auto", "__auto_type"))
    return next((path for path in paths if kernel.read(path) is not None), None)


def memory_settings(kernel: Kernel) -> MemorySettings:
    """The settings in force."""
    balancing = kernel.read_int("/proc/sys/kernel/numa_balancing")
    modes = [name for bit, name in _BALANCING.items() if (balancing or 0) & bit]
    demotion = kernel.read("/sys/kernel/mm/numa/demotion_enabled")
    weights = {
        int(match[1]): weight
        for name in kernel.names(_WEIGHTS)
        if (match := _NODE.fullmatch(name))
        and (weight := kernel.read_int(f"{_WEIGHTS}/{name}")) is not None
    }
    switch = weights_switch(kernel)
    by_kernel = kernel.read(switch) if switch else None
    return MemorySettings(
        auto_online=kernel.read(f"{_BLOCKS}/auto_online_blocks"),
        numa_balancing=None if balancing is None else ", ".join(modes) or "off",
        demotion=None if demotion is None else demotion in ("true", "1"),
        interleave_weights=weights,
        weights_by_kernel=None if by_kernel is None else by_kernel in ("true", "1"),
    )
