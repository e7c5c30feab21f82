"""The server process of a managed PostgreSQL: started, stopped, killed."""

from __future__ import annotations

import ctypes
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from harness.engine import EngineContext, MemoryPolicy, Process, ProcessId
from harness.engines.postgres.cluster import Cluster, last_lines
from harness.engines.postgres.configuration import write_configuration
from harness.engines.postgres.installation import Installation
from harness.errors import RunFailed
from harness.supervise.process import descendants, process_identity

_POLL_S = 0.01
_IPC_RMID = 0


class Server:
    """One server on one cluster. ``settings`` of ``start`` may differ from start to start."""

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
        self.log = context.scratch / "postgres.log"

    @property
    def running(self) -> bool:
        """Whether the server process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self, settings: Mapping[str, str]) -> None:
        """Start and return when it accepts connections; RunFailed with its log's last lines."""
        if self.running:
            return
        self._cluster.verify_locations()
        configuration = write_configuration(self._context, settings)
        (self._cluster.data / "postmaster.pid").unlink(missing_ok=True)
        self._process = self._context.processes.spawn(
            [
                str(self._installation.bin / "postgres"),
                "-D", str(self._cluster.data), "-c", f"config_file={configuration}",
            ],
            cwd=self._context.scratch,
            log=self.log,
            credentials=self._context.credentials,
            memory=self._memory,
            stop_signal=signal.SIGQUIT,
        )  # fmt: skip
        self._wait_until_ready(self._process)

    def stop(self) -> None:
        """Fast shutdown (SIGINT) with its checkpoint; RunFailed when it was not a clean one."""
        process, self._process = self._process, None
        if process is None:
            return
        died = process.poll()
        if died is None:
            process.signal(signal.SIGINT)
            try:
                process.wait(self._stop_timeout_s)
            except TimeoutError:
                self._process = process
                self.kill()
                raise RunFailed(
                    "stop PostgreSQL",
                    f"no end {self._stop_timeout_s:g} s after SIGINT, so it was killed; the last "
                    f"lines of its log:\n{last_lines(self.log)}",
                    "if its last checkpoint needs longer, raise the engine option stop_timeout_s",
                ) from None
        else:
            raise RunFailed(
                "stop PostgreSQL",
                f"it had ended by itself with status {died}; the last lines of its log:\n"
                f"{last_lines(self.log)}",
            )
        try:
            self._cluster.assert_clean("stop PostgreSQL")
        except RunFailed as error:
            found = f"{error.found}; the last lines of its log:\n{last_lines(self.log)}"
            raise RunFailed(error.asked, found, error.do) from error

    def kill(self) -> None:
        """SIGKILL; shared memory goes with it, also where the postmaster had died before."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        _remove_interlock(self._cluster.data / "postmaster.pid")

    def processes(self) -> list[ProcessId]:
        """The postmaster and every process it has started."""
        if self._process is None or not self.running:
            return []
        return _tree(self._process.pid)

    def _wait_until_ready(self, process: Process) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while time.monotonic() < deadline:
            if (status := process.poll()) is not None:
                self._process = None
                raise RunFailed(
                    f"start PostgreSQL {self._installation.version}",
                    f"exit status {status}; the last lines of its log:\n{last_lines(self.log)}",
                    "correct the setting or the cause named there",
                )
            if self._reports_ready(process.pid):
                return
            time.sleep(_POLL_S)
        self.kill()
        raise RunFailed(
            f"start PostgreSQL {self._installation.version}",
            f"not ready after {self._start_timeout_s:g} s; the last lines of its log:\n"
            f"{last_lines(self.log)}",
            "if its start needs longer, raise the engine option start_timeout_s",
        )

    def _reports_ready(self, pid: int) -> bool:
        """Line 8 of postmaster.pid, which pg_ctl waits for too."""
        try:
            lines = (self._cluster.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"


def _tree(postmaster: int) -> list[ProcessId]:
    identity = process_identity(postmaster)
    below = [stat.id for stat in descendants(postmaster) if not stat.dead]
    return [identity, *below] if identity else below


def _remove_interlock(pid_file: Path) -> None:
    """Remove the System V segment by which postmasters exclude one another (line 7)."""
    try:
        segment = int(pid_file.read_text().splitlines()[6].split()[1])
    except (OSError, IndexError, ValueError):
        return
    ctypes.CDLL(None, use_errno=True).shmctl(segment, _IPC_RMID, None)
