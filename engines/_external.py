"""What servers of the user's have in common: neither placed nor restarted, data marked as ours.

Data go into schemas of ours (databases, where a server calls them so), one per dataset, each
with a mark that says so. What is in a schema without it is not ours, and neither is what
its owner has put into one of ours: it is never dropped.

Harnesses of several hosts may know one server, so each holds a lock on it from its start to its
end, over its own restarts.
"""

from __future__ import annotations

import json
import os
import socket
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from harness.engine import DataDirectories, EngineKind, ProcessId, SqlConnection
from harness.errors import RunFailed, UsageError
from harness.experiment.placement import Part

PREFIX = "tierbench"
_Connection = TypeVar("_Connection", bound=SqlConnection)


def mark_text(*, complete: bool, facts: Mapping[str, Any] | None = None) -> str:
    """Our mark on a schema; ``facts`` of the data in it once they are complete."""
    mark = {"made_by": PREFIX, "complete": complete}
    return json.dumps(mark if facts is None else {**mark, "facts": dict(facts)}, sort_keys=True)


def session_name() -> str:
    """What a lock's session is called, for the error of whoever meets it."""
    return f"harness on {socket.gethostname()}, process {os.getpid()}"


class ExternalServer(ABC, Generic[_Connection]):
    """The verbs of an engine that a server of the user's refuses or has nothing to do for.

    To be named behind the class that has the SQL abilities. With ``prepare``,
    ``mark_prepared`` and ``data_bytes`` it implements KeepsOwnData.
    """

    kind: EngineKind = "external"
    supported_parts: frozenset[Part] = frozenset()

    #: What holds the data of one dataset, and what holds those, in the server's words.
    schema_word: ClassVar[str]
    holder_word: ClassVar[str]
    longest_schema_name: ClassVar[int]

    #: The schema in use, once there is one.
    _schema: str | None = None
    #: Gives the lock on the server back, once we hold it.
    _unlock: Callable[[], None] | None = None
    _connections: weakref.WeakSet[_Connection]

    @property
    @abstractmethod
    def _title(self) -> str:
        """The server's product, for messages."""

    @property
    @abstractmethod
    def _address(self) -> str:
        """Where it is, for messages: never user or password."""

    @abstractmethod
    def connect(self) -> _Connection:
        """A new connection in autocommit mode."""

    @abstractmethod
    def _close_monitor(self) -> None:
        """Close the connection that reads counters, if there is one."""

    @abstractmethod
    def _stored_mark(self, schema: str) -> str | None:
        """The mark as stored ("" where there is none); None where there is no such schema."""

    @abstractmethod
    def _lock(self) -> Callable[[], None]:
        """Lock the server for this harness; RunFailed naming the session that has locked it.

        The lock goes with its connection, at the latest.
        """

    def format_options(self) -> Mapping[str, str]:
        """None: its owner has made it."""
        return {}

    def initialise(self, places: DataDirectories) -> None:
        """Refused: there is nothing of ours to make."""
        raise UsageError(f"place an external {self._title}", "its owner decides where it lies")

    def start(self) -> None:
        """Look whether it answers, and lock it unless we have."""
        self.connect().close()
        if self._unlock is None:
            self._unlock = self._lock()

    def stop(self) -> None:
        """Close our connections; the server goes on."""
        self._close_monitor()
        for connection in list(self._connections):
            connection.close()

    def kill(self) -> None:
        """As ``stop``, and give the lock back: the server is not ours."""
        self.stop()
        unlock, self._unlock = self._unlock, None
        if unlock is not None:
            unlock()

    def processes(self) -> Sequence[ProcessId]:
        """None of ours."""
        return []

    def files(self) -> Sequence[Path]:
        """None that we know of."""
        return []

    def snapshot(self, golden: Path) -> None:
        """Refused."""
        raise UsageError(f"copy an external {self._title}", "its files are not ours")

    def restore(self, golden: Path, places: DataDirectories) -> None:
        """Refused."""
        raise UsageError(f"restore into an external {self._title}", "its files are not ours")

    def prepared(self, key: str) -> Mapping[str, Any] | None:
        """The facts of the complete data under ``key``, which are used from now on."""
        name = self._schema_name(key)
        mark = self._mark_of(name)
        if mark is None or not mark.get("complete"):
            return None
        self._schema = name
        facts: Mapping[str, Any] = mark["facts"]
        return facts

    def _locked(self, session: str) -> RunFailed:
        return RunFailed(
            f"lock {self._title} at {self._address}",
            f"another harness is using it: {session}",
            "wait for that run to end, or end that session",
        )

    def _not_ours(self, schema: str, objects: Sequence[str]) -> RunFailed:
        return RunFailed(
            f"drop {self.schema_word} {schema} on {self._address}",
            f"it holds, or others depend on, what tierbench did not make: {'; '.join(objects)}",
            f"drop or move that, or use another {self.holder_word}",
        )

    def _schema_name(self, key: str) -> str:
        return f"{PREFIX}_{key.replace('-', '_')}"[: self.longest_schema_name]

    def _mark_of(self, schema: str) -> Mapping[str, Any] | None:
        """Our mark on a schema; None where there is no such schema; RunFailed on another's."""
        stored = self._stored_mark(schema)
        if stored is None:
            return None
        try:
            mark = json.loads(stored)
        except ValueError:
            mark = None
        if not isinstance(mark, dict) or mark.get("made_by") != PREFIX:
            raise RunFailed(
                f"{self.schema_word} {schema} on {self._address}",
                "it exists and was not made by tierbench",
                f"rename or drop it, or use another {self.holder_word}",
            )
        return mark
