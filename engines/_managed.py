"""What managed servers have in common: one server on directories of our own, loaded, then used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from engines._server import ServerProcess, Timeouts, readable_by_server
from engines._tls import Listening, listening
from harness.engine import EngineContext, EngineKind, ProcessId


class Directories(Protocol):
    """The database on disk; nothing of it runs while these verbs work."""

    def directories(self) -> list[Path]:
        """All that hold its data."""

    def snapshot(self, golden: Path) -> None:
        """Move (copy across file systems) what golden data keep."""

    def make_durable(self) -> None:
        """What was written while the server did no fsync itself is on its devices."""


_Cluster = TypeVar("_Cluster", bound=Directories)
_Server = TypeVar("_Server", bound=ServerProcess)


class ManagedServer(ABC, Generic[_Cluster, _Server]):
    """The verbs over one cluster and its server, and what loaders ask (LoadingServer).

    To be named behind the class that has the SQL abilities. ``initialise`` and ``restore``
    set all three: the cluster, its server, and whether it is for loading.
    """

    kind: EngineKind = "managed"

    _cluster: _Cluster | None = None
    _server: _Server | None = None
    _loading = False
    #: Where the server listens besides its private socket: the same from start to start.
    _listening: Listening | None = None

    def _manage(self, context: EngineContext, settings: Mapping[str, str]) -> None:
        """``settings``: the tuning profile's. UsageError for a timeout that is none."""
        self._context = context
        self._settings = settings
        self._timeouts = Timeouts.of(context.options)

    @property
    def memory_bytes(self) -> int | None:
        """The memory cap, if there is one."""
        return self._context.memory_limit_bytes

    @abstractmethod
    def stored_settings(self) -> dict[str, str]:
        """The tuning profile's settings that decide what a load stores, such as statistics."""

    @abstractmethod
    def _start(self, settings: Mapping[str, str]) -> None:
        """Start the server with these settings."""

    @abstractmethod
    def _close_monitor(self) -> None:
        """Close the connection that reads counters, if there is one."""

    def start(self) -> None:
        """Start with the tuning profile's settings; after ``initialise`` with none of them
        but those in the golden key, so that golden data are the same whoever loads them.
        """
        self._start(self._loaded_with() if self._loading else self._settings)

    def stop(self) -> None:
        """Clean shutdown: a later start recovers nothing."""
        self._close_monitor()
        if self._server is not None:
            self._server.stop()

    def kill(self) -> None:
        """SIGKILL."""
        self._close_monitor()
        if self._server is not None:
            self._server.kill()

    def restart_for_loading(self, settings: Mapping[str, str]) -> None:
        """These alone, with what the golden key has of the profile."""
        self.stop()
        self._start({**settings, **self.stored_settings()})

    def restart_for_use(self) -> None:
        """Everything on its device, then as ``start`` does it."""
        self.stop()
        self._placed().make_durable()
        self.start()

    def can_read(self, paths: Sequence[Path]) -> bool:
        """Whether the server's own user may read every one of ``paths``."""
        return readable_by_server(self._context, paths)

    def processes(self) -> Sequence[ProcessId]:
        """The server and what it has started."""
        return self._server.processes() if self._server is not None else []

    def files(self) -> Sequence[Path]:
        """The directories of every part."""
        return self._cluster.directories() if self._cluster is not None else []

    def snapshot(self, golden: Path) -> None:
        """Move the stopped server's files to ``golden``."""
        self._placed().snapshot(golden)

    def _loaded_with(self) -> dict[str, str]:
        """The settings of a start for loading, before the loader brings its own."""
        return self.stored_settings()

    def _listens(self) -> Listening | None:
        """Where the server to be started listens; a load has nobody on other hosts."""
        if self._context.listen is None or self._loading:
            return None
        if self._listening is None:
            self._listening = listening(self._context)
        return self._listening

    def _placed(self) -> _Cluster:
        if self._cluster is None:
            raise RuntimeError("initialise or restore comes first")
        return self._cluster

    def _used(self) -> _Server:
        if self._server is None:
            raise RuntimeError("initialise or restore comes first")
        return self._server
