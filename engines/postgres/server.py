"""The server process of a managed PostgreSQL: started, stopped, killed."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Mapping
from pathlib import Path

from harness.engine import EngineContext, MemoryPolicy
from harness.engines._server import ServerProcess, Timeouts
from harness.engines._tls import Listening
from harness.engines.postgres.cluster import CLEAN, Cluster
from harness.engines.postgres.configuration import write_configuration
from harness.engines.postgres.installation import Installation

_IPC_RMID = 0


class Server(ServerProcess):
    """One server on one cluster. ``settings`` of ``start`` may differ from start to start."""

    def __init__(
        self,
        installation: Installation,
        context: EngineContext,
        cluster: Cluster,
        memory: MemoryPolicy | None,
        timeouts: Timeouts,
    ) -> None:
        title = f"PostgreSQL {installation.version}"
        super().__init__(title, context, memory, timeouts, "postgres.log")
        self._installation = installation
        self._cluster = cluster

    def start(self, settings: Mapping[str, str], listening: Listening | None = None) -> None:
        """Start and return when it accepts connections; RunFailed with its log's last lines."""
        if self.running:
            return
        self._cluster.verify_locations()
        configuration = write_configuration(self._context, settings, listening)
        (self._cluster.data / "postmaster.pid").unlink(missing_ok=True)
        self._launch(
            [
                str(self._installation.bin / "postgres"),
                "-D", str(self._cluster.data), "-c", f"config_file={configuration}",
            ],
            ready=lambda process: self._reports_ready(process.pid),
            orphaned=signal.SIGQUIT,
        )  # fmt: skip

    def stop(self) -> None:
        """Fast shutdown (SIGINT) with its checkpoint; RunFailed when it was not a clean one."""
        if self._end(signal.SIGINT) is None:
            return
        if (state := self._cluster.state()) != CLEAN:
            raise self._failed("stop", f"the cluster in {self._cluster.data} is {state!r}")

    def kill(self) -> None:
        """SIGKILL; shared memory goes with it, also where the postmaster had died before."""
        if self._process is not None:
            super().kill()
            _remove_interlock(self._cluster.data / "postmaster.pid")

    def _reports_ready(self, pid: int) -> bool:
        """Line 8 of postmaster.pid, which pg_ctl waits for too."""
        try:
            lines = (self._cluster.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"


def _remove_interlock(pid_file: Path) -> None:
    """Remove the System V segment by which postmasters exclude one another (line 7)."""
    try:
        segment = int(pid_file.read_text().splitlines()[6].split()[1])
    except (OSError, IndexError, ValueError):
        return
    ctypes.CDLL(None, use_errno=True).shmctl(segment, _IPC_RMID, None)
