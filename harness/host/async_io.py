"""Which of Linux's interfaces for asynchronous I/O processes have open.

A server whose io_uring is refused (``kernel.io_uring_disabled``, a container's seccomp filter, a
limit on locked memory) continues with another way of I/O and a line in its log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from harness.tiers.linux.kernel import LIVE, Kernel

_RING = "anon_inode:[io_uring]"
#: A context of libaio is a mapping (fs/aio.c).
_CONTEXT = "/[aio]"


def async_io(pids: Iterable[int], kernel: Kernel = LIVE) -> str:
    """Return ``io_uring``, ``aio``, both, or ``none``, of these live processes together."""
    found = set()
    for pid in pids:
        if _CONTEXT in (kernel.read(f"/proc/{pid}/maps") or ""):
            found.add("aio")
        if any(_target(kernel, f"/proc/{pid}/fd/{fd}") == _RING for fd in _files(kernel, pid)):
            found.add("io_uring")
    return " and ".join(sorted(found)) or "none"


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
