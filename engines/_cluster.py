"""The data of a managed server on disk, and programs that work on them once."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from engines._installation import Found
from harness.copytree import copy_tree, make_durable, move_tree
from harness.engine import EngineContext, EngineOptions, Process
from harness.errors import RunFailed, UsageError
from harness.supervise.failures import log_tail
from harness.supervise.silence import LIMITS, limit_s

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
    def of(cls, options: EngineOptions) -> Timeouts:
        """Read them from the engine options; UsageError unless they are positive numbers."""
        return cls(
            _seconds(options, "start_timeout_s", limit_s("start")),
            _seconds(options, "stop_timeout_s", limit_s("stop")),
        )


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


def _seconds(options: EngineOptions, name: str, default: float) -> float:
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


class DataFolders(ABC, Generic[Found]):
    """The database on disk; its server is stopped while these methods run."""

    def __init__(self, installation: Found, context: EngineContext) -> None:
        self.installation = installation
        self.context = context
        self._user = context.credentials
        #: Whether the last shutdown of its server was clean.
        self.clean = False

    @abstractmethod
    def directories(self) -> list[Path]:
        """Return all directories that contain its data."""

    @abstractmethod
    def dataset_names(self) -> Mapping[Path, str]:
        """Return the directories of a dataset, with their names in it."""

    def make_durable(self) -> None:
        """Force to the devices what the server wrote without fsync."""
        for folder in self.directories():
            make_durable(folder, self._user)

    def assert_clean(self, problem: str) -> None:
        """Raise RunFailed unless the server was shut down cleanly."""
        if not self.clean:
            where = self.directories()[0]
            raise RunFailed(
                problem, f"the server on {where} was not shut down cleanly", "load it again"
            )

    def snapshot(self, dataset: Path) -> None:
        """Move (copy across file systems) the data to the folder ``dataset``."""
        self.assert_clean("store as a dataset")
        self._strip(dataset)
        for folder, name in self.dataset_names().items():
            move_tree(folder, dataset / name, self._user)
        make_durable(dataset)

    def _copy(self, dataset: Path) -> None:
        for folder, name in self.dataset_names().items():
            copy_tree(dataset / name, folder, writer=self._user)

    def _strip(self, dataset: Path) -> None:
        """Remove what is not part of a dataset; write what it needs besides into ``dataset``."""
