"""Limits of tasks, open files and committed memory, checked before a run.

A server has a process or a thread for each of its connections, and a client an open file.
"""

from __future__ import annotations

import re
import resource
from pathlib import Path

from harness.host.cgroup import own_groups_of
from harness.tiers.linux.kernel import LIVE

_KERNEL = Path("/proc/sys/kernel")
_NEVER_OVERCOMMIT = 2


def room_for_tasks() -> tuple[int, str] | None:
    """Return the number of further processes and threads, and the limit that sets it.

    None without any limit. The limits are the kernel's for all tasks, this user's
    (``ulimit -u``), and those of the control groups that this process is in.
    """
    # ``4/512`` in loadavg: those that could run now, and all there are (proc(5)).
    match = re.search(r"/(\d+)", LIVE.read("/proc/loadavg") or "")
    running = int(match.group(1)) if match else 0
    result: list[tuple[int, str]] = []
    for name in ("pid_max", "threads-max"):
        if (limit := LIVE.read_int(_KERNEL / name)) is not None:
            result.append((limit - running, f"kernel.{name} {limit}"))
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != resource.RLIM_INFINITY:
        result.append((soft, f"ulimit -u {soft}"))
    for folder in own_groups_of("pids"):
        limit, current = LIVE.read_int(folder / "pids.max"), LIVE.read_int(folder / "pids.current")
        if limit is not None:
            result.append((limit - (current or 0), f"pids.max {limit} of {folder}"))
    return min(result, default=None)


def room_for_files() -> tuple[int, str] | None:
    """Return the number of files that one process may open, and its limit; None if unlimited."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else (soft, f"ulimit -n {soft}")


def room_to_commit() -> int | None:
    """Bytes that processes may still allocate; None where Linux overcommits.

    With vm.overcommit_memory=2, an allocation beyond CommitLimit fails whatever is free. In steps
    of a sixteenth of the limit, so that what other processes commit seldom changes it.
    """
    if LIVE.read_int("/proc/sys/vm/overcommit_memory") != _NEVER_OVERCOMMIT:
        return None
    memory = LIVE.meminfo()
    limit, step = memory["CommitLimit"], max(1, memory["CommitLimit"] // 16)
    return max(0, limit - memory["Committed_AS"]) // step * step
