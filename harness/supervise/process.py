"""Processes as /proc shows them, named so that a reused pid is never mistaken for one.

Standard library only: also used inside the supervisor process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.sequences import grouped

#: Every process started under a supervisor carries its owner's name in this variable
#: and so do its descendants, however they were daemonised.
MARK = "TIERBENCH_PROCESS"

#: What is read of one file of /proc.
PROC_BYTES = 4096
_POLL_S = 0.005
#: For stopped processes to stand still.
_STOP_S = 1.0
#: Number of checks that a killed process may take to die.
_DYING_LOOKS = 200


@dataclass(frozen=True)
class ProcessId:
    """A process named so that a reused pid is not mistaken for it.

    ``start_ticks``: field 22 of /proc/<pid>/stat, clock ticks since boot.
    """

    pid: int
    start_ticks: int


@dataclass(frozen=True)
class ProcessStat:
    """The fields of /proc/<pid>/stat that matter here (proc(5))."""

    id: ProcessId
    state: str
    parent: int
    group: int

    @property
    def dead(self) -> bool:
        """A zombie: it runs no more, only its status waits to be read."""
        return self.state in "ZX"

    @property
    def still(self) -> bool:
        """Dead or stopped: nothing happens in it any more."""
        return self.state in "ZXTt"


def read_proc(path: str) -> str:
    """A file of a process or thread in /proc; OSError where it has ended.

    By system calls: monitors read hundreds a second while an engine is measured.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, PROC_BYTES).decode(errors="replace")
    finally:
        os.close(file)


def process_stat(pid: int) -> ProcessStat | None:
    """Status in /proc of ``pid``, None where there is no such process.

    Nor is there one of another user where /proc is mounted with hidepid.
    """
    try:
        text = read_proc(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name stands in parentheses and may itself hold spaces and parentheses.
    fields = text[text.rindex(")") + 2 :].split()
    return ProcessStat(ProcessId(pid, int(fields[19])), fields[0], int(fields[1]), int(fields[2]))


def process_name(pid: int) -> str:
    """Return the name of the program, as ps has it; "?" where the process has ended."""
    try:
        return read_proc(f"/proc/{pid}/comm").strip()
    except OSError:
        return "?"


def process_identity(pid: int) -> ProcessId | None:
    """The identity of the process that has ``pid`` now, None where there is none."""
    stat = process_stat(pid)
    return stat.id if stat else None


def own_identity() -> ProcessId:
    """The identity of this process."""
    me = process_identity(os.getpid())
    assert me is not None
    return me


def alive(process: ProcessId) -> bool:
    """Return whether this very process still runs (a zombie does not)."""
    stat = process_stat(process.pid)
    return stat is not None and stat.id == process and not stat.dead


def all_processes() -> Iterator[ProcessStat]:
    """Processes visible in /proc, zombies included."""
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit() and (stat := process_stat(int(name))):
            yield stat


def descendants(pid: int) -> list[ProcessStat]:
    """Children of ``pid``, their children and so on; zombies included, ``pid`` not."""
    by_parent = grouped((stat.parent, stat) for stat in all_processes())
    result: list[ProcessStat] = []
    pending = [pid]
    while pending:
        children = by_parent.pop(pending.pop(), [])
        result += children
        pending += [child.id.pid for child in children]
    return result


def mark_of(pid: int) -> str | None:
    """The value of MARK in a process's environment; None where unreadable or absent."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    prefix = f"{MARK}=".encode()
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode(errors="replace")
    return None


def marked_processes(owner: str) -> list[ProcessStat]:
    """Processes whose mark is ``owner`` or begins with ``owner.``."""
    return [
        stat
        for stat in all_processes()
        if (mark := mark_of(stat.id.pid)) and (mark == owner or mark.startswith(f"{owner}."))
    ]


def send_signal(process: ProcessId, number: int) -> bool:
    """Signal this very process; False where it is gone, whoever has its pid now."""
    try:
        # The pidfd pins one process; only then is its identity compared.
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if process_identity(process.pid) != process:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def kill_all(
    find: Callable[[], Iterable[ProcessStat]],
    timeout_s: float,
    reap: Callable[[], None] | None = None,
) -> list[ProcessId]:
    """SIGKILL all that ``find`` finds, until it finds nothing.

    The survivors at the timeout, or where that is over before they were looked at for a while.

    All are stopped before the first is killed: what forks faster than we can read
    /proc would otherwise stay ahead for ever.

    ``reap`` collects zombies, for a caller that is the subreaper of all that is found.
    Then whole process groups are signalled, too, which no fork escapes; their numbers
    cannot be reused meanwhile, for a zombie that is not reaped keeps its group's.
    """
    deadline = time.monotonic() + timeout_s
    stopped: set[ProcessId] = set()
    while time.monotonic() < deadline:
        result = list(find())
        fresh = {stat.id for stat in result if not stat.dead} - stopped
        if reap is not None:
            _signal_groups(result, signal.SIGSTOP)
        if not fresh:
            _until_still(find)
            break
        for process in fresh:
            send_signal(process, signal.SIGSTOP)
        stopped |= fresh
    looks = 0  # a host that stood still up to the deadline has killed nothing, or none has died
    while True:
        result = list(find())
        if reap is not None:
            _signal_groups(result, signal.SIGKILL)
            reap()
        remaining = [stat.id for stat in result if not stat.dead]
        if not remaining or (looks >= _DYING_LOOKS and time.monotonic() >= deadline):
            return remaining
        for process in remaining:
            send_signal(process, signal.SIGKILL)
        looks += 1
        time.sleep(_POLL_S)


def _until_still(find: Callable[[], Iterable[ProcessStat]]) -> None:
    """Find again until all that was stopped does nothing more, or for a second.

    A stopped process that waits for a device or in vfork(2) runs no more either.
    """
    deadline = time.monotonic() + _STOP_S
    while not all(stat.still for stat in find()):
        if time.monotonic() >= deadline:
            return
        time.sleep(_POLL_S)


def _signal_groups(processes: Iterable[ProcessStat], number: int) -> None:
    for group in {stat.group for stat in processes} - {os.getpgrp()}:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)
