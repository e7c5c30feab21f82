"""What the server processes of managed engines have in common.

Each engine says how its server is called, how it shows that it is ready, and which signal
ends it in order; waiting, giving up, killing and telling with the log's last lines are here.
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
from typing import Any

from harness.engine import EngineContext, MemoryPolicy, Process, ProcessId
from harness.errors import RunFailed, UsageError
from harness.supervise.failures import log_tail
from harness.supervise.process import descendants, process_identity
from harness.supervise.user_files import make_directory

_START_TIMEOUT_S = 300.0
_STOP_TIMEOUT_S = 900.0
_POLL_S = 0.01

#: The engine options that say how long to wait, with their help.
TIMEOUTS: Mapping[str, str] = {
    "start_timeout_s": f"seconds to wait for the server's start [{_START_TIMEOUT_S:g}]",
    "stop_timeout_s": f"seconds to wait for the server's shutdown [{_STOP_TIMEOUT_S:g}]",
}


@dataclass(frozen=True)
class Timeouts:
    """How long a server may take to start and to end."""

    start_s: float
    stop_s: float

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Timeouts:
        """From the engine options; UsageError where they are no positive numbers."""
        return cls(
            _seconds(options, "start_timeout_s", _START_TIMEOUT_S),
            _seconds(options, "stop_timeout_s", _STOP_TIMEOUT_S),
        )


class ServerProcess(ABC):
    """One server at most; ``title`` names it in messages ("PostgreSQL 15.18")."""

    def __init__(
        self,
        title: str,
        context: EngineContext,
        memory: MemoryPolicy | None,
        timeouts: Timeouts,
        log: str,
    ) -> None:
        self._title = title
        self._context = context
        self._memory = memory
        self._timeouts = timeouts
        self._process: Process | None = None
        self.log = context.scratch / log

    @property
    def running(self) -> bool:
        """Whether the server process is alive."""
        return self._process is not None and self._process.poll() is None

    def processes(self) -> list[ProcessId]:
        """The server and every process it has started; none where it does not run."""
        if self._process is None or not self.running:
            return []
        identity = process_identity(self._process.pid)
        below = [stat.id for stat in descendants(self._process.pid) if not stat.dead]
        return [identity, *below] if identity else below

    @abstractmethod
    def stop(self) -> None:
        """Shut down cleanly; RunFailed when it was not; no error where nothing runs."""

    def kill(self) -> None:
        """SIGKILL; no error where nothing runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _launch(
        self,
        argv: Sequence[str],
        ready: Callable[[Process], bool],
        orphaned: signal.Signals,
    ) -> Process:
        """Start and return when ``ready``; RunFailed with the log's last lines otherwise.

        ``orphaned``: what the supervisor sends it when the harness has died.
        """
        process = self._process = self._context.processes.spawn(
            argv,
            cwd=self._context.scratch,
            log=self.log,
            credentials=self._context.credentials,
            memory=self._memory,
            stop_signal=orphaned,
        )
        deadline = time.monotonic() + self._timeouts.start_s
        while time.monotonic() < deadline:
            if (status := process.poll()) is not None:
                self._process = None
                raise self._failed(
                    "start",
                    f"exit status {status}",
                    "correct the setting or the cause named there",
                )
            if ready(process):
                return process
            time.sleep(_POLL_S)
        self.kill()
        raise self._failed(
            "start",
            f"not ready after {self._timeouts.start_s:g} s",
            "if its start needs longer, raise the engine option start_timeout_s",
        )

    def _end(self, number: signal.Signals) -> int | None:
        """Ask for an orderly end and wait; its exit status, None where nothing ran.

        RunFailed where it had ended by itself, or had to be killed.
        """
        if (process := self._process) is None:
            return None
        if (status := process.poll()) is not None:
            self._process = None
            raise self._failed("stop", f"it had ended by itself with status {status}")
        process.signal(number)
        try:
            status = process.wait(self._timeouts.stop_s)
        except TimeoutError:
            self.kill()
            raise self._failed(
                "stop",
                f"no end {self._timeouts.stop_s:g} s after {number.name}, so it was killed",
                "if writing its pages needs longer, raise the engine option stop_timeout_s",
            ) from None
        self._process = None
        return status

    def _failed(self, verb: str, found: str, do: str = "") -> RunFailed:
        return RunFailed(
            f"{verb} {self._title}",
            f"{found}; {self._last_words()}",
            do,
        )

    def _last_words(self) -> str:
        """What its log says last, as the end of a sentence."""
        return f"the last lines of its log:\n{log_tail(self.log, self._context.credentials)}"


def run_once(
    context: EngineContext, asked: str, argv: Sequence[str], log: Path, stdin: str = ""
) -> None:
    """Run a program as the server's user until it ends; RunFailed with its last lines.

    It may take as long as a start of the server, and is killed after that.
    """
    process = context.processes.spawn(
        argv,
        cwd=context.scratch,
        log=log,
        credentials=context.credentials,
        pipes=bool(stdin),
    )
    conversation = threading.Thread(target=_converse, args=(process, stdin), daemon=True)
    if stdin:
        conversation.start()
    limit_s = Timeouts.of(context.options).start_s
    try:
        status = process.wait(limit_s)
    except TimeoutError:
        process.kill()
        raise RunFailed(
            asked,
            f"no end after {limit_s:g} s, so it was killed",
            "if it needs longer, raise the engine option start_timeout_s",
        ) from None
    finally:
        if stdin:
            conversation.join()
    if status != 0:
        last = log_tail(log, context.credentials)
        raise RunFailed(asked, f"exit status {status}; its last lines:\n{last}")


def _converse(process: Process, stdin: str) -> None:
    """In a thread of its own: what reads nothing must not keep the caller waiting for ever."""
    with suppress(BrokenPipeError):  # it ended early: its exit status and log say why
        process.stdin.write(stdin.encode())
        process.stdin.close()
    process.stdout.read()


def make_folder(context: EngineContext, folder: Path) -> None:
    """A new folder of the server's user, which nobody else may enter."""
    make_directory(folder, context.credentials)


def readable_by_server(context: EngineContext, paths: Sequence[Path]) -> bool:
    """Whether the user that servers run as may read every one of ``paths``: one process for all."""
    process = context.processes.spawn(
        ["sh", "-c", 'for f; do test -r "$f" || exit 1; done', "sh", *map(str, paths)],
        credentials=context.credentials,
    )
    return process.wait() == 0


def _seconds(options: Mapping[str, Any], name: str, default: float) -> float:
    value = options.get(name, default)
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = 0.0
    if not 0 < found < math.inf:  # nor is nan
        raise UsageError(
            f"engine option {name}={value}", "not a number of seconds", f"say {name}=60"
        )
    return found
