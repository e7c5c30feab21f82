"""Runs one observer around a second execution: start, stop, finalise, read the summary."""

from __future__ import annotations

import csv
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness import registry
from harness.engine import Process, ProcessStarter
from harness.errors import RunFailed, UsageError
from harness.observers import Observer, metrics
from harness.store.result import Metric
from harness.store.spec import RunSpec
from harness.supervise.failures import log_tail

#: Programs read processors' event tables before they begin.
_START_S, _STOP_S, _FINALISE_S = 120.0, 120.0, 3600.0
#: Without a message that it began, a program counts as started when it still runs after this.
_SETTLE_S = 2.0
_POLL_S = 0.05


def check_observers(spec: RunSpec) -> None:
    """UsageError for an unknown observer, a missing program, and a server that is the user's."""
    known = registry.observers()
    for name in spec.observe:
        registry.named("observer", name, known).program()
    if spec.observe and spec.placement is None:
        raise UsageError(
            f"--observe {spec.observe[0]} on an external server",
            "its data cannot be restored for a second execution",
            "let the harness run the engine",
        )


@dataclass
class Observing:
    """One observer at work. ``folder``: where its tree and its log are kept."""

    observer: Observer
    processes: ProcessStarter
    folder: Path
    _process: Process | None = field(default=None, init=False)

    @property
    def tree(self) -> Path:
        """The program's result."""
        return self.folder / "tree"

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Collect in here; RunFailed if the program does not start, or does not stop."""
        self.folder.mkdir(parents=True)
        if not self.observer.stop(self.tree):
            self.tree.mkdir()  # a program with a stop command makes its own
        self._process = self._spawn(self.observer.collect(self.tree))
        try:
            self._await_start(self._process)
            yield
            self._stop(self._process)
        finally:
            self._process.kill()

    def result(self) -> list[Metric]:
        """Finalise the tree and read its summary; RunFailed if that is not possible."""
        for argv in self.observer.finalise(self.tree):
            self._complete(argv, _FINALISE_S)
        try:
            figures = self.observer.figures(self.tree, self._output())
        except (OSError, ValueError, csv.Error) as error:
            raise self._failure("read the summary", str(error)) from error
        return metrics(self.observer, figures)

    def _spawn(self, argv: Sequence[str]) -> Process:
        return self.processes.spawn(argv, capped=False, log=self._log, cwd=self.folder)

    def _complete(self, argv: Sequence[str], timeout_s: float) -> None:
        process = self._spawn(argv)
        try:
            status = process.wait(timeout_s)
        except TimeoutError:
            process.kill()
            raise self._failure(argv[1], f"no end within {timeout_s:g} s") from None
        if status != 0:
            raise self._failure(" ".join(argv[1:3]), f"exit status {status}")

    def _await_start(self, process: Process) -> None:
        began = time.monotonic()
        while (waited := time.monotonic() - began) < _START_S:
            if (status := process.poll()) is not None:
                raise self._failure("start", f"exit status {status}")
            if self.observer.started:
                if self.observer.started in self._output():
                    return
            elif waited > _SETTLE_S:
                return
            time.sleep(_POLL_S)
        raise self._failure("start", f"it did not begin within {_START_S:g} s")

    def _stop(self, process: Process) -> None:
        if (status := process.poll()) is not None:
            raise self._failure("observe", f"it ended early, with status {status}")
        if argv := self.observer.stop(self.tree):
            self._complete(argv, _STOP_S)
        else:
            os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C: what it started ends, too
        try:
            process.wait(_STOP_S)
        except TimeoutError:
            raise self._failure("stop", f"it still runs after {_STOP_S:g} s") from None

    def _output(self) -> str:
        return self._log.read_text("utf-8", "replace") if self._log.exists() else ""

    def _failure(self, doing: str, context: str) -> RunFailed:
        tail = log_tail(self._log, None)
        return RunFailed(
            f"{self.observer.name}: {doing}",
            f"{context}; the last lines of its log:\n{tail}",
            "run as root, and see docs/observers.md",
        )
