"""Memory nodes in sysfs, and the nodes of a process's memory (/proc/PID/numa_maps)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from . import cxl, memory
from .kernel import LIVE, Kernel

_NODES = "/sys/devices/system/node"
#: Kind of a node's memory. ``dram``: of a node with processors; ``pmem``: persistent memory modules
#: as system-ram; ``unknown``: of a node without processors, and nothing says what it is.
NodeKind = Literal["dram", "cxl", "pmem", "hbm", "unknown", "none"]


@dataclass(frozen=True)
class Node:
    """One NUMA node. ``cpus``: a list as in sysfs (``0-3,8``), empty for memory only.

    ``distances``: to every online node in their order, 10 is local (ACPI SLIT).
    ``backing``: the DAX devices that are part of its memory, and their origin; None without any.
    """

    node: int
    memory_bytes: int
    free_bytes: int
    cpus: str
    distances: tuple[int, ...]
    backing: str | None = None
    kind: NodeKind = "unknown"


def nodes(kernel: Kernel) -> list[Node]:
    """Online nodes, with or without memory, by number."""
    numbers = [
        int(match.group(1))
        for name in kernel.names(_NODES)
        if (match := re.fullmatch(r"node(\d+)", name))
    ]
    every = [_node(number, kernel) for number in sorted(numbers)]
    promised = {node.node: _promised(node.node, kernel) for node in every}
    dram = [promised[node.node] for node in every if node.cpus and node.memory_bytes]
    return [
        replace(node, kind="hbm")
        if node.kind == "unknown" and _is_hbm(promised[node.node], dram)
        else node
        for node in every
    ]


def _node(number: int, kernel: Kernel) -> Node:
    folder = f"{_NODES}/node{number}"
    meminfo = kernel.read(f"{folder}/meminfo") or ""
    cpus = kernel.read(f"{folder}/cpulist") or ""
    distances = (kernel.read(f"{folder}/distance") or "").split()
    size = _meminfo_bytes(meminfo, "MemTotal")
    origins = _origins(number, kernel)
    return Node(
        node=number,
        memory_bytes=size,
        free_bytes=_meminfo_bytes(meminfo, "MemFree"),
        cpus=cpus,
        distances=tuple(int(distance) for distance in distances),
        backing="; ".join(f"{name}, {_ORIGINS[origin]}" for name, origin in origins.items())
        or None,
        kind=_kind(number, size, cpus, set(origins.values()), kernel),
    )


def _kind(number: int, size: int, cpus: str, origins: set[str | None], kernel: Kernel) -> NodeKind:
    """The kind by its DAX devices, else by the window of CXL addresses that it is in."""
    if not size:
        return "none"
    if cpus:
        return "dram"
    if origins == {"nvdimm"}:
        return "pmem"
    if origins == {"cxl"} or (not origins & {"nvdimm", "cxl"} and _in_window(number, kernel)):
        return "cxl"
    return "unknown"


def _in_window(number: int, kernel: Kernel) -> bool:
    """Return whether all of a node's addresses are in a window that firmware has for CXL memory.

    Firmware that configures devices itself hands their memory over like any other.
    """
    ranges = memory.addresses(number, kernel)
    windows = [
        (window.start, window.start + window.size_bytes)
        for window in cxl.windows(kernel)
        if window.start is not None
    ]
    return bool(ranges) and all(
        any(start <= first and last <= end for start, end in windows) for first, last in ranges
    )


#: Latency of HBM over that of DRAM, at most: CXL memory that is as wide has more.
_HBM_LATENCY = 1.5


def _promised(number: int, kernel: Kernel) -> tuple[int, int] | None:
    """Read bandwidth (MB/s) and latency (ns) from the nearest processors, by firmware."""
    classes = memory.hmat(number, kernel)
    near = classes.get("access1") or classes.get("access0")
    if near is None or not near.read_bandwidth_mb_per_s or not near.read_latency_ns:
        return None
    return near.read_bandwidth_mb_per_s, near.read_latency_ns


def _is_hbm(node: tuple[int, int] | None, dram: Iterable[tuple[int, int] | None]) -> bool:
    """Return whether a node has more bandwidth than any with processors, and about their latency.

    All by firmware (HMAT); without a figure of one of them, nothing is said.
    """
    others = list(dram)
    return (
        node is not None
        and bool(others)
        and all(
            other is not None and node[0] > other[0] and node[1] <= _HBM_LATENCY * other[1]
            for other in others
        )
    )


def distances(every: Sequence[Node]) -> dict[int, dict[int, int]]:
    """Return each node's distances to the nodes, by number; ``every``: all online nodes."""
    numbers = [node.node for node in every]
    return {node.node: dict(zip(numbers, node.distances)) for node in every}  # noqa: B905


def available_bytes(number: int, kernel: Kernel = LIVE) -> int:
    """Bytes of a node that a process can get: those free, and caches that Linux gives up."""
    meminfo = kernel.read(f"{_NODES}/node{number}/meminfo") or ""
    names = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
    return sum(_meminfo_bytes(meminfo, name) for name in names)


def _meminfo_bytes(meminfo: str, name: str) -> int:
    match = re.search(rf"{re.escape(name)}:\s+(\d+) kB", meminfo)
    return int(match.group(1)) * 1024 if match else 0


def _origins(number: int, kernel: Kernel) -> dict[str, str | None]:
    """The DAX devices that were given to the kernel as this node's memory, and their origins."""
    origins = {}
    for name in kernel.names("/sys/bus/dax/devices"):
        device = kernel.path(f"/sys/bus/dax/devices/{name}")
        driver = device / "driver"
        given = driver.exists() and driver.resolve().name == "kmem"
        if given and kernel.read_int(device / "target_node") == number:
            origins[name] = dax_origin(name, kernel)
    return origins


_ORIGINS = {
    "nvdimm": "persistent memory used as system-ram",
    "cxl": "CXL memory",
    "soft-reserved": "special-purpose memory (soft-reserved)",
    None: "of unknown kind",
}


def dax_origin(name: str, kernel: Kernel) -> str | None:
    """Origin of a DAX device, by its parents in sysfs: nvdimm, cxl or soft-reserved.

    ``ndbus0/region0/dax0.1`` (drivers/nvdimm); ``region0/dax_region0``, and for a persistent region
    ``nvdimm-bridge0/ndbus0/region0`` (drivers/cxl); ``hmem.0`` (drivers/dax/hmem: what firmware
    marks as special purpose).
    """
    device = kernel.path(f"/sys/bus/dax/devices/{name}").resolve()
    if cxl.region_above(device, kernel):
        return "cxl"
    parents = [directory.name for directory in device.parents]
    if any(re.fullmatch(r"ndbus\d+", parent) for parent in parents):
        return "nvdimm"
    return "soft-reserved" if any(parent.startswith("hmem") for parent in parents) else None


def latency_note(number: int, kernel: Kernel) -> str | None:
    """Latency that the firmware promises of the node (ACPI HMAT), for its nearest initiator."""
    promised = _promised(number, kernel)
    if promised is None:
        return None
    bandwidth, latency = promised
    return f"firmware (HMAT) promises {latency} ns read latency, {bandwidth} MB/s read bandwidth"


_NODE_PAGES = re.compile(r"\bN(\d+)=(\d+)")
_PAGE_SIZE = re.compile(r"\bkernelpagesize_kB=(\d+)")
#: Processes that have a page of the mapping, at most.
_SHARERS = re.compile(r"\bmapmax=(\d+)")
_FILE = re.compile(r"\bfile=(\S+)")
#: Shared memory without a file of its own: where a server's buffer pool is.
_SHARED = re.compile(r"^(/dev/zero|/SYSV|/dev/shm/|/memfd:|/anon_hugepage|anon_inode:)")


@dataclass(frozen=True)
class NodeResidency:
    """Bytes by node: ``anonymous`` memory, and ``shared`` memory (buffer pools).

    Shared pages count once for each process that maps them: use the fractions.
    """

    anonymous: Mapping[int, int]
    shared: Mapping[int, int]

    @property
    def total_bytes(self) -> int:
        return sum(self.anonymous.values()) + sum(self.shared.values())

    def shares(self) -> dict[int, float]:
        """Return the part of all bytes that is on each node; empty for an empty process."""
        sizes = {
            node: self.anonymous.get(node, 0) + self.shared.get(node, 0)
            for node in {*self.anonymous, *self.shared}
        }
        total = self.total_bytes
        return {node: size / total for node, size in sizes.items()} if total else {}


@dataclass(frozen=True)
class GroupMemory:
    """Bytes by node that a control group of version 2 is charged for.

    ``page_cache``: of files, without shared memory and tmpfs, which are in ``whole`` too.
    """

    page_cache: Mapping[int, int]
    whole: Mapping[int, int]


def group_memory(group: Path, kernel: Kernel = LIVE) -> GroupMemory | None:
    """Memory of a control group and those below it (``memory.numa_stat``); None without one."""
    sizes = {
        name: {int(node): int(size) for node, size in _NODE_PAGES.findall(line) if size != "0"}
        for line in (kernel.read(group / "memory.numa_stat") or "").splitlines()
        if (name := line.partition(" ")[0]) in ("anon", "file", "shmem")
    }
    if len(sizes) < 3:
        return None
    anonymous, files, shared = sizes["anon"], sizes["file"], sizes["shmem"]
    return GroupMemory(
        {node: size - shared.get(node, 0) for node, size in files.items()},
        {n: anonymous.get(n, 0) + files.get(n, 0) for n in sorted({*anonymous, *files})},
    )


def residency(pids: Iterable[int], kernel: Kernel = LIVE) -> NodeResidency:
    """Residency of the memory of live processes; those that have ended count nothing.

    Pages of ordinary files are left out: they have the policy of the process that read them first.
    Private pages that processes inherited from their parent count once, if all have them: a huge
    page of a server's first process would else be most of a small server's memory.
    """
    anonymous: dict[int, int] = {}
    shared: dict[int, int] = {}
    for pid in pids:
        for line in (kernel.read(f"/proc/{pid}/numa_maps") or "").splitlines():
            file = _FILE.search(line)
            if file and not _SHARED.match(file.group(1)):
                continue
            totals = shared if file else anonymous
            size = _PAGE_SIZE.search(line)
            page_bytes = int(size.group(1)) * 1024 if size else 4096
            sharers = None if file else _SHARERS.search(line)
            counted = page_bytes // int(sharers.group(1)) if sharers else page_bytes
            for node, pages in _NODE_PAGES.findall(line):
                totals[int(node)] = totals.get(int(node), 0) + int(pages) * counted
    return NodeResidency(anonymous, shared)
