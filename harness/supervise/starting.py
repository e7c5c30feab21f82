"""What the supervisor offers to those that start processes."""

from __future__ import annotations

import os
import select
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from harness.errors import RunFailed
from harness.supervise import channel
from harness.supervise.process import ProcessId

if TYPE_CHECKING:
    from harness.supervise.supervisor import Supervisor


@dataclass(frozen=True)
class MemoryPolicy:
    """Where a process's memory may come from (set_mempolicy(2))."""

    mode: Literal["bind", "preferred", "interleave"]
    nodes: tuple[int, ...]


#: Of ``spawn``: a network of the process's own, where only root's processes reach it.
OWN_NETWORK = "own"


class Process:
    """A process started under the supervisor, its direct child.

    ``stdin`` and ``stdout``: binary, buffered (flush!), None without ``pipes``;
    ``progress``: its output on descriptor 3, None if not requested.
    """

    def __init__(
        self, supervisor: Supervisor, identity: ProcessId, mark: str, streams: channel.Streams
    ) -> None:
        self.id = identity
        self.pid = identity.pid
        self._status, self.stdin, self.stdout, self.progress = streams.keep()
        self.returncode: int | None = None
        self._supervisor = supervisor
        self._mark = mark
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Exit status (negative: the signal that ended it), None while it runs."""
        return self._await_status(0)

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for its end; TimeoutError after ``timeout_s``; RunFailed without a supervisor."""
        code = self._await_status(timeout_s)
        if code is None:
            raise TimeoutError(f"process {self.pid} still runs after {timeout_s} s")
        return code

    def _await_status(self, timeout_s: float | None) -> int | None:
        with self._lock:
            if self.returncode is not None:
                return self.returncode
            poller = select.poll()
            poller.register(self._status, select.POLLIN)
            if not poller.poll(None if timeout_s is None else max(0, timeout_s * 1000)):
                return None
            text = os.read(self._status, 32)
            if not text:
                self._supervisor.explain_loss()
            os.close(self._status)
            self.returncode = int(text)
            return self.returncode

    def signal(self, number: int) -> None:
        """Send a signal to the process; nothing where it has ended."""
        self._supervisor.request({"op": "signal", "mark": self._mark, "number": int(number)})

    def kill(self) -> None:
        """SIGKILL it and everything it started, daemons included; returns when all are dead."""
        answer = self._supervisor.request({"op": "kill", "mark": self._mark})
        if answer["survivors"]:
            raise RunFailed(
                f"kill process {self.pid}",
                f"process {answer['survivors'][0]} does not die (stuck in the kernel?)",
            )
