"""Server processes of managed engines.

An engine supplies the command line, the test for readiness and the signal for a clean shutdown.
Waiting, timeouts, killing, and errors with the log's last lines are here.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from engines._data_folders import DataFolders
from harness.engine import EngineContext, MemoryPolicy, Process, ProcessId
from harness.errors import RunFailed, UsageError
from harness.supervise.failures import log_tail
from harness.supervise.process import descendants, process_identity
from harness.supervise.silence import LIMITS, limit_s, phase

_POLL_S = 0.01

#: The engine options for timeouts, with their help.
TIMEOUTS: Mapping[str, str] = {
    "start_timeout_s": f"seconds to wait for the server to start [{LIMITS['start'].seconds:g}]",
    "stop_timeout_s": f"seconds to wait for the server to stop [{LIMITS['stop'].seconds:g}]",
}


@dataclass(frozen=True)
class Timeouts:
    """How long a server may take to start and to stop."""

    start_s: float
    stop_s: float

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Timeouts:
        """From the engine options; UsageError unless they are positive numbers."""
        return cls(
            _seconds(options, "start_timeout_s", limit_s("start")),
            _seconds(options, "stop_timeout_s", limit_s("stop")),
        )


_Cluster = TypeVar("_Cluster", bound=DataFolders[Any])


class ServerProcess(ABC, Generic[_Cluster]):
    """At most one server process, on one cluster."""

    def __init__(self, cluster: _Cluster, memory: MemoryPolicy | None) -> None:
        self._cluster = cluster
        self._context = cluster.context
        self._user = cluster.context.credentials
        self._memory = memory
        self._timeouts = Timeouts.of(cluster.context.options)
        self._process: Process | None = None
        self.log = cluster.context.scratch / "server.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def processes(self) -> list[ProcessId]:
        """The server and every process it started; empty if it does not run."""
        if self._process is None or not self.running:
            return []
        identity = process_identity(self._process.pid)
        below = [stat.id for stat in descendants(self._process.pid) if not stat.dead]
        return [identity, *below] if identity else below

    @abstractmethod
    def stop(self) -> None:
        """Shut down cleanly; RunFailed if that failed; no error if the server does not run."""

    def kill(self) -> None:
        """SIGKILL; no error if the server does not run."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _launch(
        self,
        argv: Sequence[str],
        ready: Callable[[Process], bool],
        orphaned: signal.Signals,
        network: str = "",
    ) -> Process:
        """Start and return when ``ready``; otherwise, RunFailed with the log's last lines.

        ``orphaned``: the signal that the supervisor sends when the harness has died. ``network``:
        as of ``spawn``.
        """
        with phase("start"):
            return self._launched(argv, ready, orphaned, network)

    def _launched(
        self,
        argv: Sequence[str],
        ready: Callable[[Process], bool],
        orphaned: signal.Signals,
        network: str,
    ) -> Process:
        process = self._process = self._context.processes.spawn(
            argv,
            cwd=self._context.scratch,
            log=self.log,
            credentials=self._user,
            memory=self._memory,
            traced=True,
            stop_signal=orphaned,
            network=network,
        )
        deadline = time.monotonic() + self._timeouts.start_s
        while time.monotonic() < deadline:
            if (status := process.poll()) is not None:
                self._process = None
                raise self._failed(
                    "start",
                    f"exit status {status}",
                    "correct the setting or the cause that the log names",
                )
            if ready(process):
                return process
            time.sleep(_POLL_S)
        self.kill()
        raise self._failed(
            "start",
            f"not ready after {self._timeouts.start_s:g} s",
            "if it needs more time, raise the engine option start_timeout_s",
        )

    def _end(self, number: signal.Signals, request: Callable[[], None] | None = None) -> int | None:
        """Request a shutdown and wait; returns the exit status, None if the server did not run.

        ``request``: requests it in another way than by the signal ``number``. RunFailed if the
        server had exited before, or had to be killed.
        """
        if (process := self._process) is None:
            return None
        if (status := process.poll()) is not None:
            self._process = None
            raise self._failed("stop", f"it had already exited with status {status}")
        if request is None:
            process.signal(number)
        else:
            request()
        try:
            with phase("stop"):
                status = process.wait(self._timeouts.stop_s)
        except TimeoutError:
            self.kill()
            raise self._failed(
                "stop",
                f"killed: still running {self._timeouts.stop_s:g} s after the request",
                "if it needs more time to write its pages, raise the engine option stop_timeout_s",
            ) from None
        self._process = None
        return status

    def _failed(self, verb: str, context: str, hint: str = "") -> RunFailed:
        return RunFailed(
            f"{verb} {self._cluster.installation.title}", f"{context}; {self._log_end()}", hint
        )

    def _log_end(self) -> str:
        """The end of the log, as the end of a sentence."""
        return f"the last lines of its log:\n{log_tail(self.log, self._user)}"


def run_once(
    context: EngineContext, problem: str, argv: Sequence[str], log: Path, stdin: str = ""
) -> None:
    """Run a program as the server's user until it exits; RunFailed with its last lines.

    It is killed when it takes longer than a start of the server may take.
    """
    process = context.processes.spawn(
        argv,
        cwd=context.scratch,
        log=log,
        credentials=context.credentials,
        pipes=bool(stdin),
    )
    writer = threading.Thread(target=_write_stdin, args=(process, stdin), daemon=True)
    if stdin:
        writer.start()
    limit_s = Timeouts.of(context.options).start_s
    try:
        status = process.wait(limit_s)
    except TimeoutError:
        process.kill()
        raise RunFailed(
            problem,
            f"killed: still running after {limit_s:g} s",
            "if it needs more time, raise the engine option start_timeout_s",
        ) from None
    finally:
        if stdin:
            writer.join()
    if status != 0:
        last = log_tail(log, context.credentials)
        raise RunFailed(problem, f"exit status {status}; its last lines:\n{last}")


def _write_stdin(process: Process, stdin: str) -> None:
    """Runs in a thread, so that a program that reads nothing does not block the caller."""
    with suppress(BrokenPipeError):  # it exited early: its exit status and log say why
        process.stdin.write(stdin.encode())
        process.stdin.close()
    process.stdout.read()


def _seconds(options: Mapping[str, Any], name: str, default: float) -> float:
    value = options.get(name, default)
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds < math.inf:  # false for nan
        raise UsageError(
            f"engine option {name}={value}", "must be a number of seconds > 0", f"write {name}=60"
        )
    return seconds
