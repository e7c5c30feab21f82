"""External servers: the user's own, which the harness neither places nor restarts.

Each dataset goes into a schema (on some servers: a database) of its own, with a mark that the
harness made it. A schema without the mark belongs to the user and is never dropped; neither are
objects that its owner added to a marked schema.

Harnesses on several hosts may use one server, so each locks it from the first start of the engine
to the end of its run, across its own restarts.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from harness import jsonfile
from harness.engine import (
    Engine,
    EngineKind,
    EngineOptions,
    SqlConnection,
)
from harness.errors import NoServerError, RunFailed, UsageError
from harness.sql_files import created
from harness.store.spec import JsonObject

PREFIX = "tierbench"
_UNLOCK_S = 5.0
_Connection = TypeVar("_Connection", bound=SqlConnection)


def mark_text(*, complete: bool, facts: JsonObject | None = None) -> str:
    """Return the harness's mark on a schema; ``facts``: of the data, when they are complete."""
    mark = {"made_by": PREFIX, "complete": complete}
    return json.dumps(mark if facts is None else {**mark, "facts": dict(facts)}, sort_keys=True)


def dsn_text(problem: str, options: EngineOptions, secrets: Callable[[str], str]) -> str:
    """Return the option ``dsn``; "env": ``$HARNESS_DSN``, with NoServerError if that is unset.

    ``secrets``: names the secrets in a DSN. UsageError if the option has one: it is stored.
    """
    text = str(options["dsn"])
    if text == "env":
        text = os.environ.get("HARNESS_DSN", "")
        if not text:
            raise NoServerError(problem, "$HARNESS_DSN is not set", "export HARNESS_DSN=…")
        secrets(text)  # it must be valid, too
    elif secret := secrets(text):
        raise UsageError(
            problem,
            f"the DSN contains {secret}, which would be stored with the run",
            "export it as HARNESS_DSN and use dsn=env",
        )
    return text


def session_name() -> str:
    """Return the name of a lock's session, for the error in another harness."""
    return f"harness on {socket.gethostname()}, process {os.getpid()}"


def end_session(unlock: Callable[[], object], close: Callable[[], None]) -> None:
    """Unlock, since the server ends a closed session some time later, and close.

    A server that does not answer is not waited for: the session ends with this process.
    """
    thread = threading.Thread(target=unlock, daemon=True)
    thread.start()
    thread.join(_UNLOCK_S)
    if not thread.is_alive():
        close()


class ExternalServer(Engine, ABC, Generic[_Connection]):
    """A server of the user's; list it after the class that has the SQL abilities."""

    kind: EngineKind = "external"
    sql_folder: Path

    #: The server's terms for what contains one dataset, and for what contains those.
    schema_word: ClassVar[str]
    holder_word: ClassVar[str]
    longest_schema_name: ClassVar[int]

    #: The schema in use.
    _schema: str | None = None
    #: Releases the lock on the server, while the harness holds it.
    _unlock: Callable[[], None] | None = None
    _connections: weakref.WeakSet[_Connection]

    @property
    @abstractmethod
    def _title(self) -> str:
        """Return the server's product, for messages."""

    @property
    @abstractmethod
    def _address(self) -> str:
        """Return its address, for messages, without user and password."""

    @abstractmethod
    def connect(self) -> _Connection:
        """Open a connection in autocommit mode."""

    @abstractmethod
    def _close_monitor(self) -> None:
        """Close the connection that reads counters, if there is one."""

    @abstractmethod
    def _stored_mark(self, schema: str) -> str | None:
        """Return the stored mark ("" if there is none); None if there is no such schema."""

    @abstractmethod
    def _drop(self, schema: str, ours: Mapping[str, set[str]]) -> None:
        """Drop a marked schema; RunFailed if it has others than our objects (see ``created``)."""

    @abstractmethod
    def _create(self, schema: str, mark: str) -> None:
        """Make an empty schema with a mark."""

    @abstractmethod
    def _set_mark(self, schema: str, mark: str) -> None:
        """Replace the mark of a schema."""

    @abstractmethod
    def _lock(self) -> Callable[[], None]:
        """Lock the server and return what unlocks it; RunFailed names the locking session.

        The lock ends with its connection at the latest.
        """

    def start(self) -> None:
        """Check that it answers, and lock it unless it is locked already."""
        self.connect().close()
        if self._unlock is None:
            self._unlock = self._lock()

    def stop(self) -> None:
        """Close the harness's connections; the server continues to run."""
        self._close_monitor()
        for connection in list(self._connections):
            connection.close()

    def kill(self) -> None:
        """Close the harness's connections and unlock; the server continues to run."""
        self.stop()
        unlock, self._unlock = self._unlock, None
        if unlock is not None:
            unlock()

    def prepare(self, key: str) -> None:
        """Make an empty, marked schema; RunFailed if another user's has that name."""
        name = self._schema_name(key)
        if self._mark_of(name) is not None:
            self._drop(name, created(self.sql_folder / key.partition("-")[0]))
        self._create(name, mark_text(complete=False))
        self._schema = name

    def mark_prepared(self, key: str, facts: JsonObject) -> None:
        """Write ``facts`` into the mark."""
        self._set_mark(self._schema_name(key), mark_text(complete=True, facts=facts))

    def prepared(self, key: str) -> JsonObject | None:
        """Return the facts of the complete data under ``key``, which become the data in use."""
        name = self._schema_name(key)
        mark = self._mark_of(name)
        if mark is None or not mark.get("complete"):
            return None
        self._schema = name
        facts = mark["facts"]
        assert isinstance(facts, Mapping)
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
            f"contains or is used by objects that tierbench did not make: {'; '.join(objects)}",
            f"drop or move them, or use another {self.holder_word}",
        )

    def _schema_name(self, key: str) -> str:
        return f"{PREFIX}_{key.replace('-', '_')}"[: self.longest_schema_name]

    def _mark_of(self, schema: str) -> JsonObject | None:
        """Return the mark of a schema, None if there is no schema; RunFailed if it has no mark."""
        stored = self._stored_mark(schema)
        if stored is None:
            return None
        try:
            mark = jsonfile.parse(stored)
        except ValueError:
            mark = None
        if not isinstance(mark, dict) or mark.get("made_by") != PREFIX:
            raise RunFailed(
                f"{self.schema_word} {schema} on {self._address}",
                "exists and was not made by tierbench",
                f"rename or drop it, or use another {self.holder_word}",
            )
        return mark
