"""TCP ports that a run's processes listen on: every user of the host can connect to them.

A port that its starter did not announce is one that no one protects. HammerDB's package comm, for
instance, listens as soon as it is loaded and evaluates whatever it receives.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.errors import RunFailed
from harness.supervise.process import ProcessId, descendants, process_name

#: Of a process that draws its ports, and authenticates whoever connects.
ANY_PORT = range(1, 1 << 16)
#: TCP_LISTEN (include/net/tcp_states.h).
_LISTEN = 10
#: NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, and NLM_F_REQUEST | NLM_F_DUMP (sock_diag(7)).
_SOCK_DIAG, _BY_FAMILY, _DUMP = 4, 20, 0x301
_ERROR, _DONE = 2, 3
#: struct nlmsghdr; the state, port and inode of struct inet_diag_msg.
_HEADER, _SOCKET = struct.Struct("=IHHII"), struct.Struct("!xxxxH62xI")


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


def _listening() -> list[tuple[int, int]]:
    """Inode and port of each listening TCP socket."""
    try:
        return [*_dumped(socket.AF_INET), *_dumped(socket.AF_INET6)]
    except OSError:  # a kernel, or a container, without it
        return [*_tabled("tcp"), *_tabled("tcp6")]


def _dumped(family: int) -> Iterator[tuple[int, int]]:
    """What the kernel selects: its tables in /proc are read past all buckets of connections."""
    request = struct.pack("=BBxxI48x", family, socket.IPPROTO_TCP, 1 << _LISTEN)
    header = _HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _DUMP, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as diagnosis:
        diagnosis.send(header + request)
        while messages := diagnosis.recv(1 << 16):
            while messages:
                length, kind, *_ = _HEADER.unpack_from(messages)
                body, messages = messages[_HEADER.size : length], messages[(length + 3) & ~3 :]
                if kind in (_ERROR, _DONE):
                    if code := struct.unpack_from("=i", body)[0]:
                        raise OSError(-code, os.strerror(-code))
                    return
                port, inode = _SOCKET.unpack_from(body)
                yield socket.ntohl(inode), port


def _tabled(table: str) -> Iterator[tuple[int, int]]:
    """What a table of /proc lists before all other sockets."""
    with suppress(FileNotFoundError), Path(f"/proc/thread-self/net/{table}").open() as lines:
        next(lines)  # the headings
        for line in lines:
            _, local, _, state, *_, inode = line.split()[:10]
            if int(state, 16) != _LISTEN:
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
