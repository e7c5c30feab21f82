"""Maps and open files of processes: reserved huge pages, asynchronous I/O, preloaded libraries.

Reserved huge pages (hugetlb) are allocated when a server maps its buffers, and no memory control
group charges them (unless cgroup2 is mounted with ``memory_hugetlb_accounting``). Transparent ones
are ordinary memory.

A server whose io_uring is refused (``kernel.io_uring_disabled``, a container's seccomp filter, a
limit on locked memory) continues with another way of I/O and a line in its log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePath

from harness.supervise.user_files import open_regular
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
        sizes: dict[str, int] = {}
        for begin, end, inode in _MAPPING.findall(kernel.read(f"/proc/{pid}/maps") or ""):
            sizes[inode] = sizes.get(inode, 0) + int(end, 16) - int(begin, 16)
        mapped = {key: max(mapped.get(key, 0), sizes.get(key, 0)) for key in mapped | sizes}
        pages = _TOUCHED.search(kernel.read(f"/proc/{pid}/status") or "")
        touched = max(touched, int(pages[1]) * 1024 if pages else 0)
    return max(sum(mapped.values()), touched)


def charged_to_groups(kernel: Kernel = LIVE) -> bool:
    """Return whether memory control groups charge huge pages on this host."""
    mounts = parse_mountinfo(kernel.read("/proc/self/mountinfo") or "")
    return any(
        "memory_hugetlb_accounting" in mount.options
        for mount in mounts
        if mount.filesystem == "cgroup2"
    )


_RING = "anon_inode:[io_uring]"
#: A context of libaio is a mapping (fs/aio.c).
_CONTEXT = "/[aio]"


def async_io(pids: Iterable[int], kernel: Kernel = LIVE) -> str:
    """Return ``io_uring``, ``aio``, both, or ``none``, of these live processes together."""
    interfaces = set()
    for pid in pids:
        if _CONTEXT in (kernel.read(f"/proc/{pid}/maps") or ""):
            interfaces.add("aio")
        if any(_target(kernel, f"/proc/{pid}/fd/{fd}") == _RING for fd in _files(kernel, pid)):
            interfaces.add("io_uring")
    return " and ".join(sorted(interfaces)) or "none"


#: Libraries that the dynamic linker loads into every program of the host (ld.so(8)), and one that
#: switches syncs off, however it is loaded.
_PRELOADED, _EATMYDATA = "/etc/ld.so.preload", "libeatmydata"
_SYNCS = (b"fsync", b"fdatasync")
_LIBRARY_BYTES = 16 << 20


def sync_overrides(pids: Iterable[int], first: str, kernel: Kernel = LIVE) -> set[str]:
    """Return libraries preloaded into these live processes in place of the system's syncs.

    ``first``: the name of a library of ours that makes the system calls itself: nothing comes
    between a process with it and Linux, because LD_PRELOAD precedes what the host preloads.
    """
    words = (kernel.read(_PRELOADED) or "").replace(":", " ").split()
    names = {PurePath(word).name for word in words}
    return {
        path
        for mapped in (mapped_libraries(pid, kernel) for pid in pids)
        if not any(PurePath(path).name == first for path in mapped)
        for path in mapped
        if (PurePath(path).name in names and _has_sync(kernel.path(path)))
        or PurePath(path).name.startswith(_EATMYDATA)
    }


def mapped_libraries(pid: int, kernel: Kernel = LIVE) -> set[str]:
    """Return the paths of the shared libraries that a process has mapped."""
    lines = (kernel.read(f"/proc/{pid}/maps") or "").splitlines()
    return {line[line.index("/") :] for line in lines if ".so" in line and "/" in line}


def _has_sync(library: Path) -> bool:
    with suppress(OSError), os.fdopen(open_regular(library, os.O_RDONLY), "rb") as file:
        content = file.read(_LIBRARY_BYTES)
        return any(name in content for name in _SYNCS)
    return True  # it cannot be looked at


def _files(kernel: Kernel, pid: int) -> list[str]:
    try:
        return os.listdir(kernel.path(f"/proc/{pid}/fd"))  # noqa: PTH208
    except OSError:  # it has ended
        return []


def _target(kernel: Kernel, path: str) -> str:
    try:
        return os.readlink(kernel.path(path))  # noqa: PTH115
    except OSError:
        return ""
