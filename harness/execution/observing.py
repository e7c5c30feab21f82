"""Runs one observer around a second execution: start, stop, finalise, read the summary.

As root, the program observes as root. What is finalised afterwards names programs and libraries of
all processes, which the program opens: it does that as the servers' user, in a copy of its own.
"""

from __future__ import annotations

import csv
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from harness import registry
from harness.copytree import copy_tree
from harness.engine import Credentials, Process, ProcessStarter
from harness.errors import RunFailed, UsageError, as_failure, interruption
from harness.execution.run import Run
from harness.native_programs import readable_to
from harness.observers import Observer, home, metrics
from harness.store.result import Metric
from harness.store.spec import RunSpec
from harness.supervise import undo, workdirs
from harness.supervise.credentials import unprivileged
from harness.supervise.failures import log_tail
from harness.supervise.journal import Journal
from harness.supervise.user_files import read_bytes
from harness.warnings import RunWarning

#: Programs read processors' event tables before they begin.
_START_S, _COMMAND_S, _STOP_S, _FINALISE_S = 120.0, 120.0, 120.0, 3600.0
_POLL_S = 0.05
_LOG = "log"


def check_observers(spec: RunSpec) -> None:
    """UsageError for an unknown observer, a missing program, and a server that is the user's."""
    observers, user = registry.observers(), unprivileged()
    for name in spec.observe:
        observer = registry.named("observer", name, observers)
        program = observer.program()
        if user is not None and observer.reports and not readable_to(program, user):
            raise UsageError(
                f"--observe {name}",
                f"{user.name}, the user that servers run as, makes its reports and cannot read "
                f"{program}",
                "install it where every user can read it",
            )
    if spec.observe and spec.placement is None:
        raise UsageError(
            f"--observe {spec.observe[0]} on an external server",
            "its data cannot be restored for a second execution",
            "let the harness run the engine",
        )


@contextmanager
def second_execution(
    record: Run, name: str, workplace: Callable[[], AbstractContextManager[Path]]
) -> Iterator[tuple[Callable[[Path], Observing], Path]]:
    """Execute a run again in here: yields what makes its observers, and an empty folder for them.

    A failure is a warning: the timed result stands. ``workplace``: see :class:`Observing`.
    """
    env, observer = record.env, registry.named("observer", name, registry.observers())
    folder = record.folder.directory / "observers" / name.replace(":", "-")
    shutil.rmtree(folder, ignore_errors=True)  # of an interrupted attempt
    env.progress.note(f"second execution under {name}")
    supervisor = env.supervisor
    with_it = partial(
        Observing, observer, supervisor, supervisor.journal, env.credentials, workplace
    )
    try:
        yield with_it, folder
    except Exception as error:
        if interruption(error) is not None:
            raise
        failure = as_failure(error, f"observer {name}")
        record.warnings.append(
            RunWarning("observer-failed", failure.problem, failure.context, failure.hint)
        )


def _reads_programs(observer: Observer, user: Credentials) -> RunWarning:
    return RunWarning(
        "observer-reads-programs",
        f"{observer.name} observes as root, and may open programs that {user.name} can write",
        "all processes of the host are observed",
        "let no one whom you do not trust run programs on this host meanwhile",
    )


@dataclass
class Observing:
    """One observer at work, from ``begin`` to ``end`` of queries and windows if it can pause.

    ``folder``: where its tree and its log are kept. ``journal``: notes settings of Linux that
    programs change and, killed, do not put back. ``user``: the servers', if that is another;
    ``workplace`` makes a directory of that user, with room for a copy of the tree.
    """

    observer: Observer
    processes: ProcessStarter
    journal: Journal
    user: Credentials | None
    workplace: Callable[[], AbstractContextManager[Path]]
    folder: Path
    warnings: list[RunWarning] = field(default_factory=list, init=False)
    #: Of the program while it collects.
    _environment: dict[str, str] = field(default_factory=dict, init=False)
    _pauses: bool = field(default=False, init=False)
    _resumed: bool = field(default=False, init=False)
    #: Queries and windows under way.
    _depth: int = field(default=0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @property
    def tree(self) -> Path:
        """The program's result."""
        return self.folder / "tree"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Collect in here; RunFailed if the program does not start, or does not stop."""
        self.folder.mkdir(parents=True)
        if not self.observer.stop(self.tree):
            self.tree.mkdir()  # a program with a stop command makes its own
        if self.user is not None and self.observer.reads_programs:
            self.warnings.append(_reads_programs(self.observer, self.user))
        with self._settings_kept(), self._temporary():
            process = self._spawn(self.observer.collect(self.tree))
            try:
                self._await_start(process)
                self._pause_first()
                yield
                self._stop(process)
            finally:
                process.kill()

    @contextmanager
    def _settings_kept(self) -> Iterator[None]:
        patterns = undo.COUNTER_SETTINGS
        paths = [path for setting in patterns for path in sorted(Path("/").glob(setting[1:]))]
        notes = [self.journal.note_setting(path) for path in paths]
        try:
            yield
        finally:
            for note in notes:
                if note is not None:
                    self.journal.undo(note)

    def begin(self) -> None:
        """A query or a window begins; RunFailed if the program cannot be resumed."""
        with self._lock:
            self._depth += 1
            if self._pauses and self._depth == 1:
                self._complete(self.observer.resume(self.tree), _COMMAND_S)
                self._resumed = True

    def end(self) -> None:
        """It ends; RunFailed if the program cannot be paused."""
        with self._lock:
            if self._depth == 0:
                return
            self._depth -= 1
            if self._pauses and self._depth == 0:
                self._complete(self.observer.pause(self.tree), _COMMAND_S)

    def _pause_first(self) -> None:
        if not (command := self.observer.pause(self.tree)):
            return
        try:
            self._complete(command, _COMMAND_S)
            self._pauses = True
        except RunFailed as error:  # more is observed then, which is better than nothing
            what = f"{self.observer.name} also observed start-up and ramp-up: it cannot be paused"
            self.warnings.append(RunWarning("observed-start-up", what, error.context))

    def result(self) -> list[Metric]:
        """Finalise the tree and read its summary; RunFailed if that is not possible."""
        try:
            self._finalise()
            figures = self.observer.figures(self.tree, self._output())
        except (OSError, ValueError, csv.Error) as error:
            raise self._failure("read the summary", str(error)) from error
        return metrics(self.observer, figures)

    def _finalise(self) -> None:
        """As the servers' user, in a copy; that user may have written all that is in it."""
        if self.user is None:
            for argv in self.observer.finalise(self.tree):
                self._complete(argv, _FINALISE_S)
        elif self.observer.reports:
            with self.workplace() as folder:
                copy = folder / "tree"
                copy_tree(self.tree, copy, writer=self.user)
                for argv in self.observer.finalise(copy):
                    self._complete(argv, _FINALISE_S, folder, self.user)
                for name in self.observer.reports:
                    (self.tree / name).write_bytes(read_bytes(copy / name, self.user))

    @contextmanager
    def _temporary(self) -> Iterator[None]:
        """For the program's temporary files: some have names in /tmp that another user foresees."""
        folder = self.journal.register_directory(workdirs.fresh(workdirs.disk_base()))
        self._environment["TMPDIR"] = str(folder)
        try:
            yield
        finally:
            del self._environment["TMPDIR"]
            self.journal.remove_directory(folder)

    def _spawn(
        self, argv: Sequence[str], folder: Path | None = None, user: Credentials | None = None
    ) -> Process:
        """As ``user`` with ``folder`` for its home; else with the caller's home, where pmu-tools
        keeps its event tables.
        """
        folder = folder or self.folder
        settings = (
            {"HOME": str(directory)} if user is None and (directory := home()) is not None else {}
        )
        return self.processes.spawn(
            argv,
            capped=False,
            log=folder / _LOG,
            cwd=folder,
            env={**settings, **self._environment},
            credentials=user,
            stop_signal=signal.SIGINT,
        )

    def _complete(
        self,
        argv: Sequence[str],
        timeout_s: float,
        folder: Path | None = None,
        user: Credentials | None = None,
    ) -> None:
        process = self._spawn(argv, folder, user)
        try:
            status = process.wait(timeout_s)
        except TimeoutError:
            process.kill()
            raise self._failure(argv[1], f"no end within {timeout_s:g} s", folder, user) from None
        if status != 0:
            raise self._failure(" ".join(argv[1:3]), f"exit status {status}", folder, user)

    def _await_start(self, process: Process) -> None:
        began = time.monotonic()
        while time.monotonic() - began < _START_S:
            if (status := process.poll()) is not None:
                raise self._failure("start", f"exit status {status}")
            if self.observer.started in self._output():
                return
            time.sleep(_POLL_S)
        raise self._failure("start", f"it did not begin within {_START_S:g} s")

    def _stop(self, process: Process) -> None:
        if (status := process.poll()) is not None:
            raise self._failure("observe", f"it ended early, with status {status}")
        if self._pauses and not self._resumed:
            raise self._failure("observe", "no query and no window began")
        if argv := self.observer.stop(self.tree):
            self._complete(argv, _STOP_S)
        else:
            os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C: what it started ends, too
        try:
            process.wait(_STOP_S)
        except TimeoutError:
            raise self._failure("stop", f"it still runs after {_STOP_S:g} s") from None

    def _output(self) -> str:
        log = self.folder / _LOG
        return log.read_text("utf-8", "replace") if log.exists() else ""

    def _failure(
        self, doing: str, context: str, folder: Path | None = None, user: Credentials | None = None
    ) -> RunFailed:
        tail = log_tail((folder or self.folder) / _LOG, user)
        return RunFailed(
            f"{self.observer.name}: {doing}",
            f"{context}; the last lines of its log:\n{tail}",
            "run as root, and see docs/observers.md",
        )
