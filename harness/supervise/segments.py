"""Shared memory that outlives the processes that made it, and must go with those we kill.

POSIX segments are files directly in /dev/shm, System V segments entries of the kernel's
table: a server removes its own when it shuts down, and SIGKILL leaves them for good. Both
show in /proc/PID/maps once they are mapped, and before that in /proc/PID/fd and as made by
that process, so they are noted while their processes are stopped but alive, and removed once
these are gone. Never removed: what another user owns, a file that a process which is still
there has mapped or open, and a System V segment that any process is attached to.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.supervise.process import (
    ProcessId,
    ProcessStat,
    all_processes,
    descendants,
    kill_all,
    send_signal,
)

_POSIX = re.compile(r"(?:^| )(/dev/shm/[^/\n]+)$", re.MULTILINE)
_SYSV = re.compile(r" (\d+) +/SYSV[0-9a-f]{8}(?: \(deleted\))?$", re.MULTILINE)
_IPC_RMID = 0
#: Giving back gigabytes of memory takes a killed server its time.
_KILL_S = 15.0
#: Columns shmid, cpid, nattch, uid and cuid of /proc/sysvipc/shm.
_NUMBER, _MAKER, _ATTACHED, _OWNER, _CREATOR = 1, 4, 6, 7, 9


@dataclass(frozen=True)
class Segment:
    """A System V segment. ``maker``: pid; ``attached``: processes; the others: uids."""

    maker: int
    attached: int
    owner: int
    creator: int


class Segments:
    """The segments of some processes, noted before their end."""

    def __init__(self) -> None:
        self._posix: dict[Path, int] = {}
        self._sysv: dict[int, int] = {}

    def note(self, processes: Iterable[ProcessStat]) -> list[ProcessStat]:
        """Note what the processes map or are about to map; returns them."""
        listed = list(processes)
        table = _table()
        for process in listed:
            if process.dead:
                continue
            pid = process.id.pid
            maps = _maps(pid)
            made = [number for number, segment in table.items() if segment.maker == pid]
            with contextlib.suppress(OSError):
                owner = Path(f"/proc/{pid}").stat().st_uid
                self._posix |= {Path(path): owner for path in _posix_names(pid, maps)}
                self._sysv |= {int(number): owner for number in [*_SYSV.findall(maps), *made]}
        return listed

    def remove(self) -> None:
        """Remove the unused ones; no error for those already removed.

        What is still in use stays noted.
        """
        in_use = {
            name
            for process in (all_processes() if self._posix else ())
            for name in _posix_names(process.id.pid, _maps(process.id.pid))
        }
        for path, owner in self._posix.items():
            with contextlib.suppress(OSError):
                if str(path) not in in_use and path.lstat().st_uid == owner:
                    path.unlink()
        for number, owner in self._sysv.items():
            remove_segment(number, owner)
        attached = {number: segment.attached for number, segment in _table().items()}
        self._posix = {path: owner for path, owner in self._posix.items() if str(path) in in_use}
        self._sysv = {n: owner for n, owner in self._sysv.items() if attached.get(n, 0) > 0}


def remove_segment(number: int, owner: int) -> None:
    """Remove a System V segment that ``owner`` (a uid) made and has, with no process attached.

    Nothing else: which number it is, a user's process or file may have said.
    """
    segment = _table().get(number)
    if segment and (segment.attached, segment.owner, segment.creator) == (0, owner, owner):
        ctypes.CDLL(None).shmctl(number, _IPC_RMID, None)


def _posix_names(pid: int, maps: str) -> list[str]:
    """The POSIX segments that a process has mapped (``maps``) or open."""
    links = []
    with contextlib.suppress(OSError):  # it has ended
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                links.append(str(descriptor.readlink()))
    return _POSIX.findall(maps) + _POSIX.findall("\n".join(links))


def _maps(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return ""


def end_stopped_supervisor(supervisor: ProcessId) -> None:
    """SIGKILL a supervisor that is stopped, its processes before it; their segments go, too.

    Left to PR_SET_PDEATHSIG, they would be gone before their segments are known.
    """
    segments = Segments()
    kill_all(lambda: segments.note(descendants(supervisor.pid)), _KILL_S)
    segments.remove()
    send_signal(supervisor, signal.SIGKILL)


def _table() -> dict[int, Segment]:
    """The System V segments of this host, by number."""
    try:
        lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return {}
    rows = ([int(field) for field in line.split()] for line in lines)
    return {
        row[_NUMBER]: Segment(row[_MAKER], row[_ATTACHED], row[_OWNER], row[_CREATOR])
        for row in rows
    }
