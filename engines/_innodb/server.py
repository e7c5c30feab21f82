"""The server process of a managed MySQL or MariaDB: started, stopped, killed."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

from harness.engine import EngineContext, MemoryPolicy, Process, ProcessId
from harness.engines._innodb.cluster import Cluster, last_lines
from harness.engines._innodb.configuration import SOCKET
from harness.engines._innodb.installation import Installation
from harness.errors import RunFailed
from harness.supervise.process import descendants, process_identity

_POLL_S = 0.01
_GREETING_S = 1.0
#: First byte of the server's greeting after packet length and number: protocol version 10.
_PROTOCOL = 10


class Server:
    """One server on one cluster."""

    def __init__(
        self,
        installation: Installation,
        context: EngineContext,
        cluster: Cluster,
        memory: MemoryPolicy | None,
        start_timeout_s: float,
        stop_timeout_s: float,
    ) -> None:
        self._installation = installation
        self._context = context
        self._cluster = cluster
        self._memory = memory
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._process: Process | None = None
        self.log = context.scratch / "server.log"
        self.socket = context.scratch / SOCKET

    @property
    def running(self) -> bool:
        """Whether the server process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self, configuration: Path, verify: Callable[[int], None]) -> None:
        """Start with the option file and return when it greets; RunFailed with its last lines.

        ``verify`` is given the server's pid then; what it raises ends the server.
        """
        if self.running:
            return
        self._cluster.clean = False
        self._process = self._context.processes.spawn(
            [*self._installation.command, f"--defaults-file={configuration}"],
            cwd=self._context.scratch,
            log=self.log,
            credentials=self._context.credentials,
            memory=self._memory,
            # Nothing of a server outlives its process but files, which the supervisor removes.
            stop_signal=signal.SIGKILL,
        )
        self._wait_until_ready(self._process)
        try:
            verify(self._process.pid)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Clean shutdown (SIGTERM): every page on its device; RunFailed when it was not one."""
        process, self._process = self._process, None
        if process is None:
            return
        if (status := process.poll()) is not None:
            raise self._unclean(f"it had ended by itself with status {status}")
        process.signal(signal.SIGTERM)
        try:
            status = process.wait(self._stop_timeout_s)
        except TimeoutError:
            process.kill()
            process.wait()
            raise self._unclean(
                f"no end {self._stop_timeout_s:g} s after SIGTERM, so it was killed",
                "if writing its pages needs longer, raise the engine option stop_timeout_s",
            ) from None
        if status != 0 or "hutdown complete" not in last_lines(self.log):
            raise self._unclean(f"exit status {status}")
        self._cluster.clean = True

    def kill(self) -> None:
        """SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def processes(self) -> list[ProcessId]:
        """The server, and what it may have started."""
        if self._process is None or not self.running:
            return []
        identity = process_identity(self._process.pid)
        below = [stat.id for stat in descendants(self._process.pid) if not stat.dead]
        return [identity, *below] if identity else below

    def _unclean(self, found: str, do: str = "") -> RunFailed:
        return RunFailed(
            f"stop {self._installation.title}",
            f"{found}; the last lines of its log:\n{last_lines(self.log)}",
            do,
        )

    def _wait_until_ready(self, process: Process) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        asked = f"start {self._installation.title}"
        while time.monotonic() < deadline:
            if (status := process.poll()) is not None:
                self._process = None
                raise RunFailed(
                    asked,
                    f"exit status {status}; the last lines of its log:\n{last_lines(self.log)}",
                    "correct the setting or the cause named there",
                )
            if self._greets():
                return
            time.sleep(_POLL_S)
        self.kill()
        raise RunFailed(
            asked,
            f"not ready after {self._start_timeout_s:g} s; the last lines of its log:\n"
            f"{last_lines(self.log)}",
            "if its start needs longer, raise the engine option start_timeout_s",
        )

    def _greets(self) -> bool:
        """Whether a connection is answered: its socket is there before it can be used."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(_GREETING_S)
            try:
                client.connect(str(self.socket))
                return client.recv(5)[4:] == bytes([_PROTOCOL])
            except OSError:
                return False
