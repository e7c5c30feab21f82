"""Limits of tasks and open files of servers and clients, checked before a run.

A server has a process or a thread for each of its connections, and a client an open file.
"""

from __future__ import annotations

import resource
from pathlib import Path

_KERNEL = Path("/proc/sys/kernel")
_CGROUP = Path("/sys/fs/cgroup")


def room_for_tasks() -> tuple[int, str] | None:
    """Return the number of further processes and threads, and the limit that sets it.

    None without any limit. The limits are the kernel's for all tasks, this user's
    (``ulimit -u``), and those of the control groups that this process is in.
    """
    running = _running_tasks()
    result: list[tuple[int, str]] = []
    for name in ("pid_max", "threads-max"):
        if (limit := _number(_KERNEL / name)) is not None:
            result.append((limit - running, f"kernel.{name} {limit}"))
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != resource.RLIM_INFINITY:
        result.append((soft, f"ulimit -u {soft}"))
    for folder in _own_groups():
        limit, held = _number(folder / "pids.max"), _number(folder / "pids.current")
        if limit is not None:
            result.append((limit - (held or 0), f"pids.max {limit} of {folder}"))
    return min(result, default=None)


def room_for_files() -> tuple[int, str] | None:
    """Return the number of files that one process may open, and its limit; None if unlimited."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else (soft, f"ulimit -n {soft}")


def _running_tasks() -> int:
    """``4/512`` in loadavg: those that could run now, and all there are (proc(5))."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def _own_groups() -> list[Path]:
    """The control group (v2) of this process and all that it lies in."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    own = next((line.partition("::")[2] for line in lines if line.startswith("0::")), "/")
    folder = _CGROUP / own.strip("/")
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(_CGROUP))]


def _number(path: Path) -> int | None:
    """None where there is none, as in ``max``."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
