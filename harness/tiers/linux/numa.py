"""Memory nodes in sysfs, and the nodes of a process's memory (/proc/PID/numa_maps)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .kernel import LIVE, Kernel

_NODES = "/sys/devices/system/node"


@dataclass(frozen=True)
class Node:
    """One NUMA node. ``cpus``: a list as in sysfs (``0-3,8``), empty for memory only.

    ``distances``: to every online node in their order, 10 is local (ACPI SLIT).
    ``backing``: kind of its memory, if known, for nodes without CPUs.
    """

    node: int
    memory_bytes: int
    free_bytes: int
    cpus: str
    distances: tuple[int, ...]
    backing: str | None = None


def nodes(kernel: Kernel) -> list[Node]:
    """Online nodes, with or without memory, by number."""
    numbers = [
        int(match.group(1))
        for name in kernel.names(_NODES)
        if (match := re.fullmatch(r"node(\d+)", name))
    ]
    return [_node(number, kernel) for number in sorted(numbers)]


def _node(number: int, kernel: Kernel) -> Node:
    folder = f"{_NODES}/node{number}"
    meminfo = kernel.read(f"{folder}/meminfo") or ""
    cpus = kernel.read(f"{folder}/cpulist") or ""
    distances = (kernel.read(f"{folder}/distance") or "").split()
    return Node(
        node=number,
        memory_bytes=_meminfo_bytes(meminfo, "MemTotal"),
        free_bytes=_meminfo_bytes(meminfo, "MemFree"),
        cpus=cpus,
        distances=tuple(int(distance) for distance in distances),
        backing=None if cpus else _backing(number, kernel),
    )


def _meminfo_bytes(meminfo: str, name: str) -> int:
    match = re.search(rf"{name}:\s+(\d+) kB", meminfo)
    return int(match.group(1)) * 1024 if match else 0


def _backing(number: int, kernel: Kernel) -> str | None:
    """The DAX device that was given to the kernel as this node's memory."""
    for name in kernel.names("/sys/bus/dax/devices"):
        device = kernel.path(f"/sys/bus/dax/devices/{name}")
        if kernel.read_int(device / "target_node") != number:
            continue
        if not (device / "driver").exists() or (device / "driver").resolve().name != "kmem":
            continue
        return f"{name}, {_ORIGINS[dax_origin(name, kernel)]}"
    return None


_ORIGINS = {
    "nvdimm": "persistent memory used as system-ram",
    "cxl": "CXL memory",
    "soft-reserved": "special-purpose memory (soft-reserved)",
    None: "of unknown kind",
}


def dax_origin(name: str, kernel: Kernel) -> str | None:
    """Origin of a DAX device, by its parent in sysfs: nvdimm, cxl or soft-reserved.

    ``ndbus0/region0/dax0.1`` (drivers/nvdimm), ``region0/dax_region0`` (drivers/cxl/core/region.c),
    ``hmem.0`` (drivers/dax/hmem: what firmware marks as special purpose).
    """
    tree = str(kernel.path(f"/sys/bus/dax/devices/{name}").resolve())
    if "/ndbus" in tree:
        return "nvdimm"
    if "/dax_region" in tree or "cxl" in tree:
        return "cxl"
    return "soft-reserved" if "/hmem" in tree else None


def latency_note(number: int, kernel: Kernel) -> str | None:
    """Latency that the firmware promises of the node (ACPI HMAT), for its nearest initiator."""
    folder = f"{_NODES}/node{number}/access0/initiators"
    latency = kernel.read_int(f"{folder}/read_latency")
    bandwidth = kernel.read_int(f"{folder}/read_bandwidth")
    if not latency and not bandwidth:
        return None
    return f"firmware (HMAT) promises {latency} ns read latency, {bandwidth} MB/s read bandwidth"


_NODE_PAGES = re.compile(r"\bN(\d+)=(\d+)")
_PAGE_SIZE = re.compile(r"\bkernelpagesize_kB=(\d+)")
_FILE = re.compile(r"\bfile=(\S+)")
#: Shared memory without a file of its own: where a server's buffer pool is.
_SHARED = re.compile(r"^(/dev/zero|/SYSV|/dev/shm/|/memfd:|/anon_hugepage|anon_inode:)")


@dataclass(frozen=True)
class Residency:
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


def residency(pids: Iterable[int], kernel: Kernel = LIVE) -> Residency:
    """Residency of the memory of live processes; those that have ended count nothing.

    Pages of ordinary files are left out: no memory policy applies to the page cache.
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
            for node, pages in _NODE_PAGES.findall(line):
                totals[int(node)] = totals.get(int(node), 0) + int(pages) * page_bytes
    return Residency(anonymous, shared)
