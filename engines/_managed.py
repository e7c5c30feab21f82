"""Managed servers: one server process on directories of the run, loaded, then used.

Here are its data on disk and the server's process: waiting, timeouts, killing, and errors with the
log's last lines.
An engine supplies the command line, the test for readiness and the signal for a clean shutdown.
"""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from engines._installation import Found
from engines._listening import Listening, listening
from engines._settings import SettingTable
from engines._timeouts import Timeouts
from harness.copytree import copy_tree, make_durable, move_tree
from harness.engine import (
    Engine,
    EngineContext,
    EngineKind,
    EngineVersion,
    MemoryPolicy,
    Process,
    ProcessId,
)
from harness.errors import RunFailed
from harness.supervise.failures import log_tail
from harness.supervise.process import descendants, process_identity
from harness.supervise.silence import phase


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


_Cluster = TypeVar("_Cluster", bound=DataFolders[Any])
_POLL_S = 0.01


class ManagedServer(Engine, ABC, Generic[Found, _Cluster]):
    """An engine of one cluster and at most one server process on it.

    List it after the class that has the SQL abilities. ``initialise`` and ``restore`` place the
    cluster and set whether the server is to be loaded.
    """

    kind: EngineKind = "managed"
    _setting_table: ClassVar[SettingTable] = SettingTable()

    #: Of the directories in use, from ``initialise`` or ``restore`` on.
    _cluster: _Cluster
    _memory: MemoryPolicy | None = None
    _process: Process | None = None
    _loading = False
    #: Where the server listens in addition to its private socket, at every start.
    _listening: Listening | None = None

    def _manage(
        self, installation: Found, context: EngineContext, settings: Mapping[str, str]
    ) -> None:
        """Take what it works with, and the profile's settings; UsageError for a bad timeout."""
        self._installation = installation
        self._context = context
        self._settings = settings
        self._user = context.credentials
        self._timeouts = Timeouts.of(context.options)
        self.threads = context.threads
        self.log = context.scratch / "server.log"

    def version(self) -> EngineVersion:
        """Return release and build of the installation."""
        return self._installation

    @property
    def memory_bytes(self) -> int | None:
        return self._context.memory_limit_bytes

    def stored_settings(self) -> dict[str, str]:
        """Return the profile's settings that decide what a load stores, such as statistics."""
        return self._setting_table.stored_of(self._settings)

    @abstractmethod
    def _start(self, settings: Mapping[str, str]) -> None:
        """Start the server with these settings, if it does not run."""

    @abstractmethod
    def _shut_down(self) -> None:
        """Shut down cleanly; RunFailed if that failed; no error if the server does not run."""

    @abstractmethod
    def _close_monitor(self) -> None:
        """Close the connection that reads counters, if there is one."""

    def start(self) -> None:
        """Start with the tuning profile's settings.

        After ``initialise``, start only with those that are part of the dataset's key, so that a
        dataset does not depend on the profile that loaded it.
        """
        self._start(self._loaded_with() if self._loading else self._settings)

    def stop(self) -> None:
        """Shut down cleanly, so that a later start does not recover."""
        self._close_monitor()
        self._shut_down()

    def kill(self) -> None:
        """Kill it (SIGKILL); no error if the server does not run."""
        self._close_monitor()
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def restart_for_loading(self, settings: Mapping[str, str]) -> None:
        """Restart with these and with the profile's settings that are in the dataset's key."""
        self.stop()
        self._start({**settings, **self.stored_settings()})

    def restart_for_use(self) -> None:
        """Make all data durable, then ``start``."""
        self.stop()
        self._cluster.make_durable()
        self.start()

    def can_read(self, paths: Sequence[Path]) -> bool:
        """Return whether the server's user may read every one of ``paths``."""
        process = self._context.processes.spawn(
            ["sh", "-c", 'for f; do test -r "$f" || exit 1; done', "sh", *map(str, paths)],
            credentials=self._user,
        )
        return process.wait() == 0

    @property
    def running(self) -> bool:
        """Return whether the server's process runs."""
        return self._process is not None and self._process.poll() is None

    def processes(self) -> list[ProcessId]:
        """Return the server and every process it started; none if it does not run."""
        if self._process is None or not self.running:
            return []
        identity = process_identity(self._process.pid)
        below = [stat.id for stat in descendants(self._process.pid) if not stat.dead]
        return [identity, *below] if identity else below

    def files(self) -> Sequence[Path]:
        """Return the directories of every part."""
        return self._cluster.directories()

    def snapshot(self, dataset: Path) -> None:
        """Move the stopped server's files to ``dataset``."""
        self._cluster.snapshot(dataset)

    def _loaded_with(self) -> dict[str, str]:
        """Return the settings of a start for loading, in addition to the loader's."""
        return self.stored_settings()

    def _listens(self) -> Listening | None:
        """Return where the server will listen; None during a load, without clients elsewhere."""
        if self._context.listen is None or self._loading:
            return None
        if self._listening is None:
            self._listening = listening(self._context)
        return self._listening

    def _place(self, cluster: _Cluster, memory: MemoryPolicy | None) -> _Cluster:
        """Use this cluster from now on; ``memory``: where the server's comes from."""
        self._cluster, self._memory, self._process = cluster, memory, None
        return cluster

    def _launch(
        self,
        argv: Sequence[str],
        ready: Callable[[Process], bool],
        orphaned: signal.Signals,
        verify: Callable[[Process], None],
        network: str = "",
        listens: Collection[int] = (),
    ) -> None:
        """Start and return when ``ready`` and verified; else RunFailed with the log's last lines.

        ``orphaned``: the signal that the supervisor sends when the harness has died. ``verify``:
        what it raises ends the server. ``network`` and ``listens``: as of
        ``spawn``; it may listen for clients on other hosts, too.
        """
        self._cluster.clean = False
        process = self._process = self._context.processes.spawn(
            argv,
            cwd=self._context.scratch,
            log=self.log,
            credentials=self._user,
            memory=self._memory,
            traced=True,
            stop_signal=orphaned,
            network=network,
            listens=listens or ([self._listening.port] if self._listening else ()),
        )
        try:
            with phase("start"):
                self._await(process, ready)
            verify(process)
        except BaseException:
            self.kill()
            raise

    def _await(self, process: Process, ready: Callable[[Process], bool]) -> None:
        deadline = time.monotonic() + self._timeouts.start_s
        while time.monotonic() < deadline:
            if (status := process.poll()) is not None:
                raise self._failed(
                    "start",
                    f"exit status {status}",
                    "correct the setting or the cause that the log names",
                )
            if ready(process):
                return
            time.sleep(_POLL_S)
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
            f"{verb} {self._installation.title}", f"{context}; {self._log_end()}", hint
        )

    def _log_end(self) -> str:
        """Return the end of the log, as the end of a sentence."""
        return f"the last lines of its log:\n{log_tail(self.log, self._user)}"


AnyServer = ManagedServer[Any, Any]
