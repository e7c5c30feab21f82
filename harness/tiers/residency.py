"""On which nodes a live process's memory is (/proc/PID/numa_maps, proc(5))."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.tiers.linux.kernel import LIVE, Kernel

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
    """Where the memory of live processes is; those that have ended count nothing.

    Pages of ordinary files are left out: no memory policy applies to the page cache.
    """
    anonymous: dict[int, int] = {}
    shared: dict[int, int] = {}
    for pid in pids:
        for line in (kernel.read(f"/proc/{pid}/numa_maps") or "").splitlines():
            file = _FILE.search(line)
            if file and not _SHARED.match(file.group(1)):
                continue
            _add(line, shared if file else anonymous)
    return Residency(anonymous, shared)


def _add(line: str, totals: dict[int, int]) -> None:
    size = _PAGE_SIZE.search(line)
    page_bytes = int(size.group(1)) * 1024 if size else 4096
    for node, pages in _NODE_PAGES.findall(line):
        totals[int(node)] = totals.get(int(node), 0) + int(pages) * page_bytes
