"""What the supervisor offers to those that start processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from harness.supervise.user_files import Credentials


@dataclass(frozen=True)
class MemoryPolicy:
    """Where a process's memory may come from (set_mempolicy(2))."""

    mode: Literal["bind", "preferred", "interleave"]
    nodes: tuple[int, ...]


#: Of ``spawn``: a network of the process's own, where only root's processes reach it.
OWN_NETWORK = "own"


class Process(Protocol):
    """A process started under the supervisor."""

    pid: int
    stdin: Any
    stdout: Any
    progress: Any

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for its end; TimeoutError after ``timeout_s``."""

    def signal(self, number: int) -> None:
        """Send a signal to the process (not its group)."""

    def kill(self) -> None:
        """SIGKILL the process and everything it started."""


class ProcessStarter(Protocol):
    """Starts processes that cannot outlive the harness (see harness.supervise)."""

    def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
        log_owner: Credentials | None = None,
        credentials: Credentials | None = None,
        memory: MemoryPolicy | None = None,
        capped: bool = True,
        traced: bool = False,
        pipes: bool = False,
        progress: bool = False,
        stop_signal: int = 9,
        network: str = "",
    ) -> Process:
        """Start ``argv`` in its own session.

        ``log`` takes stdout and stderr (stderr only with ``pipes``, which connects
        stdin and stdout to the caller); ``log_owner``, in whose directory it lies, opens it
        (default: ``credentials``). With ``progress`` (and ``pipes``) its descriptor 3
        is a pipe to the caller too, as the native programs write their progress. ``capped``
        puts it into the run's memory cgroup and on its processors, if there are such; ``traced``:
        its file I/O is traced, if the run has a trace.
        ``stop_signal`` is what the supervisor sends first when the harness has died
        (SIGKILL follows after 2 s): for a server, which then ends in order. What else runs has
        nothing to finish, and may leave shared memory if it dies of another signal.
        ``network``: OWN_NETWORK (the host's where we may not make one), or the path of another
        process's (``/proc/PID/ns/net``).
        """
