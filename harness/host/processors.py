"""Which processors an engine may run on: ``0``, ``0-7,16-23``, ``socket:0``, ``node:0``, or
``socket:data``, the socket that the tier of the data is attached to.

The VLDB 2023 paper pins every database to socket 0 (§3.1) and discusses one core
(§7.1 iv). A socket or node means those of its processors that are online and that this
process may use; a list means exactly these.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable

from harness.errors import UsageError
from harness.store.result import Check, CheckStatus
from harness.supervise.process import ProcessId
from harness.tiers.linux.kernel import LIVE, Kernel

_CPU = "/sys/devices/system/cpu"
_NODE = "/sys/devices/system/node"
_GROUP = re.compile(r"^(socket|node):(\d{1,4})$")
_RANGE = re.compile(r"^(\d{1,5})(?:-(\d{1,5}))?$")
_OF_DATA = "socket:data"
_HELP = "write numbers and ranges (0-7,16-23), socket:0, node:0, or socket:data"


def parse_cpus(text: str | int) -> str:
    """The canonical form of a choice of processors; UsageError where it is none. Pure."""
    value = str(text).replace(" ", "")
    if value == _OF_DATA:
        return value
    if _GROUP.match(value):
        kind, number = value.split(":")
        return f"{kind}:{int(number)}"
    return format_cpus(cpu_numbers(value, f"processors {text!r}"))


def resolve_cpus(
    text: str,
    kernel: Kernel = LIVE,
    usable: Collection[int] | None = None,
    data_node: int | None = None,
) -> tuple[int, ...]:
    """The numbers that ``text`` stands for here; UsageError where one of them cannot be had.

    ``usable``: what this process may run on (a cpuset may hold it to fewer than there are).
    ``data_node``: the memory node that the tier of the data is attached to, where the kernel names
    one (a disk or a tmpfs may have none): without it ``socket:data`` is socket 0.
    """
    if text == _OF_DATA:
        text = f"socket:{_socket_of(data_node, kernel)}"
    usable = os.sched_getaffinity(0) if usable is None else usable
    here = f"usable here: {format_cpus(usable)}"
    if match := _GROUP.match(text):
        kind, number = match.group(1), int(match.group(2))
        members = _socket(number, kernel) if kind == "socket" else _node(number, kernel)
        result = sorted(set(members) & set(usable))
        if not result:
            what = "no processor that may be used" if members else f"there is no such {kind}"
            raise UsageError(f"processors {text!r}", what, f"{here}; {_HELP}")
        return tuple(result)
    numbers = cpu_numbers(text, f"processors {text!r}")
    if missing := sorted(set(numbers) - set(usable)):
        raise UsageError(
            f"processors {text!r}", f"{format_cpus(missing)} cannot be used", f"{here}; {_HELP}"
        )
    return numbers


def format_cpus(numbers: Iterable[int]) -> str:
    """``0-3,8``: the kernel's own form of a list."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs)


def affinity_check(
    cpus: tuple[int, ...], processes: Iterable[ProcessId], kernel: Kernel = LIVE
) -> Check:
    """Whether every thread of the engine may run on these processors only (/proc/PID/status)."""
    expected = set(cpus)
    elsewhere: dict[str, None] = {}
    seen = 0
    for process in processes:
        for task in kernel.names(f"/proc/{process.pid}/task"):
            status = kernel.read(f"/proc/{process.pid}/task/{task}/status") or ""
            match = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
            if match is None:  # it has just ended
                continue
            seen += 1
            if not set(cpu_numbers(match.group(1), "Cpus_allowed_list")) <= expected:
                elsewhere[match.group(1)] = None
    text = format_cpus(cpus)
    if not seen:
        return Check("cpu-affinity", "unknown", "no process of the engine could be read")
    status_: CheckStatus = "failed" if elsewhere else "passed"
    result = f"; some may run on {' and '.join(elsewhere)}" if elsewhere else ""
    return Check("cpu-affinity", status_, f"{seen} threads held to processors {text}{result}")


def cpu_numbers(text: str, problem: str) -> tuple[int, ...]:
    """Return the numbers of ``0-3,8``; UsageError with ``problem`` where it is no such list."""
    result: set[int] = set()
    for item in text.split(","):
        match = _RANGE.match(item)
        if match is None:
            raise UsageError(problem, f"{item!r} is not a number or a range", _HELP)
        first = int(match.group(1))
        last = int(match.group(2) or first)
        if last < first:
            raise UsageError(problem, f"the range {item!r} runs backwards", _HELP)
        result |= set(range(first, last + 1))
    return tuple(sorted(result))


def _online(kernel: Kernel) -> tuple[int, ...]:
    return cpu_numbers(kernel.read(f"{_CPU}/online") or "0", "online processors")


def package_of(cpu: int, kernel: Kernel) -> int:
    """The package of a processor; where firmware gives none (-1), all are in package 0."""
    return max(0, kernel.read_int(f"{_CPU}/cpu{cpu}/topology/physical_package_id") or 0)


def _socket(number: int, kernel: Kernel) -> list[int]:
    """Online processors of a package."""
    return [cpu for cpu in _online(kernel) if package_of(cpu, kernel) == number]


def _socket_of(node: int | None, kernel: Kernel) -> int:
    """The package of a node's first processor."""
    first = [] if node is None else _node(node, kernel)[:1]
    return package_of(first[0], kernel) if first else 0


def _node(number: int, kernel: Kernel) -> list[int]:
    listed = kernel.read(f"{_NODE}/node{number}/cpulist")
    return [] if not listed else [c for c in cpu_numbers(listed, "cpulist") if c in _online(kernel)]
