"""Messages and descriptors between harness and supervisor, and a child's streams."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.supervise.user_files import Credentials, acting_as, open_regular

_FRAME_BYTES = 4


def send(
    connection: socket.socket, message: Mapping[str, Any], descriptors: Sequence[int] = ()
) -> None:
    """Length, JSON; the descriptors travel with the length."""
    body = json.dumps(message).encode()
    head = len(body).to_bytes(_FRAME_BYTES, "big")
    if descriptors:
        socket.send_fds(connection, [head], list(descriptors))
    else:
        connection.sendall(head)
    connection.sendall(body)


def receive(connection: socket.socket) -> Any:
    """One message; EOFError where the other end is gone."""
    return receive_with_descriptors(connection, 0)[0]


def receive_with_descriptors(connection: socket.socket, most: int) -> tuple[Any, list[int]]:
    """One message and its descriptors, not inheritable; EOFError where the other end is gone."""
    head, descriptors, _, _ = socket.recv_fds(connection, _FRAME_BYTES, most)
    for descriptor in descriptors:  # recv_fds takes MSG_CMSG_CLOEXEC and ignores it
        os.set_inheritable(descriptor, False)
    length = int.from_bytes(head + _exactly(connection, _FRAME_BYTES - len(head)), "big")
    return json.loads(_exactly(connection, length)), descriptors


def _exactly(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = connection.recv(length - len(data))
        if not piece:
            raise EOFError("the other end is closed")
        data += piece
    return data


class Streams:
    """stdin, stdout, stderr, the exit-status pipe and, if wanted, descriptor 3 of one child.

    ``theirs`` is passed to the supervisor and closed here at the end of the block; our
    ends are closed too unless ``keep`` has handed them out. ``log_owner``: the user in whose
    directory the log may lie, who opens it.
    """

    def __init__(
        self,
        log: Path | None,
        pipes: bool,
        progress: bool = False,
        log_owner: Credentials | None = None,
    ) -> None:
        self._ours: list[int] = []
        self._opened: list[int] = []
        self._pipes = pipes
        self._progress = progress
        try:
            error = self._open_log(log, log_owner)
            if pipes:
                stdin, to_child = self._pipe()
                from_child, stdout = self._pipe()
                self._ours += [to_child, from_child]
            else:
                stdin = self._open_null(os.O_RDONLY)
                stdout = error
            status, status_write = self._pipe()
            reports = [self._pipe()] if progress else []
        except BaseException:
            self.close()
            raise
        self._ours.insert(0, status)
        self._ours += [read for read, _ in reports]
        self.theirs = [stdin, stdout, error, status_write, *(write for _, write in reports)]

    def _open_null(self, flags: int) -> int:
        self._opened.append(os.open(os.devnull, flags | os.O_CLOEXEC))
        return self._opened[-1]

    def _open_log(self, log: Path | None, owner: Credentials | None) -> int:
        if log is None:
            return self._open_null(os.O_WRONLY)
        with acting_as(owner):
            descriptor = open_regular(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._opened.append(descriptor)
        return descriptor

    def _pipe(self) -> tuple[int, int]:
        read, write = os.pipe()
        self._opened += [read, write]
        return read, write

    def keep(self) -> tuple[int, Any, Any, Any]:
        """The exit-status descriptor, the child's stdin, stdout and descriptor 3 (else None)."""
        self._opened = [d for d in self._opened if d not in self._ours]
        status, *pipes = self._ours
        progress = os.fdopen(pipes.pop(), "rb") if self._progress else None
        if not self._pipes:
            return status, None, None, progress
        return status, os.fdopen(pipes[0], "wb"), os.fdopen(pipes[1], "rb"), progress

    def close(self) -> None:
        """Close what was not kept."""
        for descriptor in self._opened:
            os.close(descriptor)
        self._opened = []

    def __enter__(self) -> Streams:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
