"""TCP ports that a run's processes listen on: every user of the host can connect to them.

A port that its starter did not announce is one that no one protects. HammerDB's package comm, for
instance, listens as soon as it is loaded and evaluates whatever it receives.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.errors import RunFailed
from harness.supervise.process import ProcessId, descendants, process_name

#: Of a process that draws its ports, and authenticates whoever connects.
ANY_PORT = range(1, 1 << 16)
#: TCP_LISTEN (include/net/tcp_states.h).
_LISTEN = "0A"


@dataclass(frozen=True)
class Listener:
    """A process that listens on a port that was not announced; ``inode``: its socket's."""

    process: ProcessId
    name: str
    port: int
    inode: int

    def failure(self) -> RunFailed:
        """Return the error of the run that this process belongs to."""
        return RunFailed(
            f"process {self.process.pid} ({self.name}) listens on TCP port {self.port}",
            "no process of this run was to listen there, and any user of this host can connect",
            "turn the listener off in the program's settings; an engine or driver that needs the "
            "port names it to spawn(listens=…) (docs/adding-an-engine.md)",
        )


class Ports:
    """The ports of a supervisor's processes."""

    def __init__(self, supervisor_pid: int) -> None:
        self._supervisor_pid = supervisor_pid
        #: Inodes of sockets of other programs, whose owners need no second look.
        self._foreign: set[int] = set()

    def unannounced(self, announced: Collection[Collection[int]]) -> list[Listener]:
        """Return listeners on ports that are in none of the collections ``announced``.

        In this thread's network: in a network of its own a process can listen where it likes.
        """
        listening = dict(_listening())
        self._foreign &= listening.keys()
        suspects = {
            inode: port
            for inode, port in listening.items()
            if inode not in self._foreign and not any(port in ports for ports in announced)
        }
        if not suspects:
            return []
        result = [
            Listener(stat.id, process_name(stat.id.pid), suspects[inode], inode)
            for stat in descendants(self._supervisor_pid)
            for inode in sorted(_sockets(stat.id.pid) & suspects.keys())
        ]
        self._foreign |= suspects.keys() - {listener.inode for listener in result}
        return result


def _listening() -> Iterator[tuple[int, int]]:
    """Inode and port of each listening TCP socket; its table lists those before all others."""
    for table in ("tcp", "tcp6"):
        with suppress(FileNotFoundError), Path(f"/proc/thread-self/net/{table}").open() as lines:
            next(lines)  # the headings
            for line in lines:
                _, local, _, state, *_, inode = line.split()[:10]
                if state != _LISTEN:
                    break
                yield int(inode), int(local.rpartition(":")[2], 16)


def _sockets(pid: int) -> set[int]:
    """Inodes of a process's sockets; none where it has ended."""
    inodes = set()
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                kind, _, number = os.readlink(entry).partition(":")  # noqa: PTH115  (many)
                if kind == "socket":
                    inodes.add(int(number[1:-1]))
    return inodes
