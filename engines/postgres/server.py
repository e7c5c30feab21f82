"""The server process of a managed PostgreSQL."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from engines._server import ServerProcess
from engines._tls import Listening
from engines.postgres.cluster import CLEAN, Cluster
from engines.postgres.configuration import write_configuration
from harness.supervise.segments import remove_segment
from harness.supervise.user_files import acting_as, read_text

_PID_FILE_BYTES = 8192


class Server(ServerProcess[Cluster]):
    """One server on one cluster; each start has its own settings."""

    def start(self, settings: Mapping[str, str], listening: Listening | None = None) -> None:
        """Start and return when it accepts connections; otherwise, RunFailed with its log."""
        if self.running:
            return
        self._cluster.verify_locations()
        configuration = write_configuration(self._context, settings, listening)
        with acting_as(self._user):
            self._pid_file.unlink(missing_ok=True)
        self._launch(
            [
                str(self._cluster.installation.bin / "postgres"),
                "-D",
                str(self._cluster.data),
                "-c",
                f"config_file={configuration}",
            ],
            ready=lambda process: self._reports_ready(process.pid),
            orphaned=signal.SIGQUIT,
        )

    def stop(self) -> None:
        """Fast shutdown (SIGINT) with a checkpoint; RunFailed if it was not clean."""
        if self._end(signal.SIGINT) is None:
            return
        if (state := self._cluster.state()) != CLEAN:
            raise self._failed("stop", f"the cluster in {self._cluster.data} is {state!r}")

    def kill(self) -> None:
        """SIGKILL, and remove its shared memory, even if the postmaster had died before."""
        if self._process is not None:
            super().kill()
            self._remove_interlock()

    def _reports_ready(self, pid: int) -> bool:
        """Whether line 8 of postmaster.pid says so, as in pg_ctl."""
        lines = self._pid_file_lines()
        return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"

    def _remove_interlock(self) -> None:
        """Remove the System V segment by which postmasters exclude one another (line 7)."""
        owner = os.geteuid() if self._user is None else self._user.uid
        with suppress(IndexError, ValueError):
            remove_segment(int(self._pid_file_lines()[6].split()[1]), owner)

    @property
    def _pid_file(self) -> Path:
        return self._cluster.data / "postmaster.pid"

    def _pid_file_lines(self) -> list[str]:
        try:
            return read_text(self._pid_file, self._user, _PID_FILE_BYTES).splitlines()
        except OSError:
            return []
