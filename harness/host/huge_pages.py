"""Memory of processes in huge pages that the host has reserved (hugetlb).

They are allocated when a server maps its buffers, and no memory control group charges them
(unless cgroup2 is mounted with ``memory_hugetlb_accounting``). Transparent huge pages are not
meant: those are ordinary memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.mounts import parse_mountinfo

#: A mapping of /proc/PID/maps without a file that is made of huge pages: both ends, its inode.
_MAPPING = re.compile(r"^(\w+)-(\w+) \S+ \w+ \S+ (\d+)\s+/anon_hugepage", re.MULTILINE)
#: Huge pages that the process has touched, of whatever mapping (/proc/PID/status).
_TOUCHED = re.compile(r"^HugetlbPages:\s+(\d+) kB", re.MULTILINE)


def hugetlb_bytes(pids: Iterable[int], kernel: Kernel = LIVE) -> int:
    """Return the bytes that these live processes map in reserved huge pages.

    A mapping that several processes share counts once, touched or not. Of mappings of another
    kind (System V, files of a hugetlbfs) the pages of the process that touched the most count.
    """
    mapped: dict[str, int] = {}
    touched = 0
    for pid in pids:
        own: dict[str, int] = {}
        for begin, end, inode in _MAPPING.findall(kernel.read(f"/proc/{pid}/maps") or ""):
            own[inode] = own.get(inode, 0) + int(end, 16) - int(begin, 16)
        mapped = {key: max(mapped.get(key, 0), own.get(key, 0)) for key in mapped | own}
        pages = _TOUCHED.search(kernel.read(f"/proc/{pid}/status") or "")
        touched = max(touched, int(pages[1]) * 1024 if pages else 0)
    return max(sum(mapped.values()), touched)


def charged_to_groups(kernel: Kernel = LIVE) -> bool:
    """Whether memory control groups charge huge pages on this host."""
    mounts = parse_mountinfo(kernel.read("/proc/self/mountinfo") or "")
    return any(
        "memory_hugetlb_accounting" in mount.options
        for mount in mounts
        if mount.filesystem == "cgroup2"
    )
