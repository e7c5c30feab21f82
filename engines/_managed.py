"""Managed servers: one server process on directories of the run, loaded, then used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from engines._data_folders import DataFolders
from engines._installation import Found
from engines._server import ServerProcess, Timeouts
from engines._settings import SettingTable
from engines._tls import Listening, listening
from harness.engine import Engine, EngineContext, EngineKind, EngineVersion, ProcessId

_Cluster = TypeVar("_Cluster", bound=DataFolders[Any])
_Server = TypeVar("_Server", bound=ServerProcess[Any])


class ManagedServer(Engine, ABC, Generic[Found, _Cluster, _Server]):
    """An engine of one cluster and its server.

    List it after the class that has the SQL abilities. ``initialise`` and ``restore`` set the
    cluster, its server, and whether the server is to be loaded.
    """

    kind: EngineKind = "managed"
    _setting_table: ClassVar[SettingTable] = SettingTable()

    _cluster: _Cluster | None = None
    _server: _Server | None = None
    _loading = False
    #: Where the server listens in addition to its private socket, at every start.
    _listening: Listening | None = None

    def _manage(
        self, installation: Found, context: EngineContext, settings: Mapping[str, str]
    ) -> None:
        """``settings``: the tuning profile's. UsageError for an invalid timeout."""
        self._installation = installation
        self._context = context
        self._settings = settings
        Timeouts.of(context.options)

    def version(self) -> EngineVersion:
        """Release and build of the installation."""
        return self._installation

    @property
    def memory_bytes(self) -> int | None:
        return self._context.memory_limit_bytes

    def stored_settings(self) -> dict[str, str]:
        """The tuning profile's settings that decide what a load stores, such as statistics."""
        return self._setting_table.stored_of(self._settings)

    @abstractmethod
    def _start(self, settings: Mapping[str, str]) -> None:
        """Start the server with these settings."""

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
        if self._server is not None:
            self._server.stop()

    def kill(self) -> None:
        self._close_monitor()
        if self._server is not None:
            self._server.kill()

    def restart_for_loading(self, settings: Mapping[str, str]) -> None:
        """Restart with these and with the profile's settings that are in the dataset's key."""
        self.stop()
        self._start({**settings, **self.stored_settings()})

    def restart_for_use(self) -> None:
        """Make all data durable, then ``start``."""
        self.stop()
        self._placed().make_durable()
        self.start()

    def can_read(self, paths: Sequence[Path]) -> bool:
        """Whether the server's user may read every one of ``paths``."""
        process = self._context.processes.spawn(
            ["sh", "-c", 'for f; do test -r "$f" || exit 1; done', "sh", *map(str, paths)],
            credentials=self._context.credentials,
        )
        return process.wait() == 0

    def processes(self) -> Sequence[ProcessId]:
        return self._server.processes() if self._server is not None else []

    def files(self) -> Sequence[Path]:
        """The directories of every part."""
        return self._cluster.directories() if self._cluster is not None else []

    def snapshot(self, dataset: Path) -> None:
        """Move the stopped server's files to ``dataset``."""
        self._placed().snapshot(dataset)

    def _loaded_with(self) -> dict[str, str]:
        """The settings of a start for loading, in addition to the loader's."""
        return self.stored_settings()

    def _listens(self) -> Listening | None:
        """Where the server will listen; None during a load, which has no clients elsewhere."""
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


AnyServer = ManagedServer[Any, Any, Any]
