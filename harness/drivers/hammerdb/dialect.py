"""The databases that HammerDB drives, by its own names, and what it connects to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from harness.drivers.loadgen.protocols import RunsNatively
from harness.engine import Engine
from harness.errors import UsageError, nearest


@runtime_checkable
class DrivenByHammerDb(RunsNatively, Protocol):
    """Engines that HammerDB drives."""

    #: The argument of HammerDB's command ``dbset db``.
    hammerdb_database: str


@dataclass(frozen=True)
class Dialect:
    """One database of HammerDB.

    ``word``: as ``dbset db`` takes it. ``prefix``: of its dictionary's keys. ``library``: the
    Tcl package its virtual users load. ``raises``: whether a virtual user can be set to end
    at its first error. HammerDB's InnoDB procedures let a deadlock through to the client, which
    is no failure of a run; PostgreSQL's catch it.
    """

    word: str
    prefix: str
    library: str
    raises: bool


_DIALECTS = {
    dialect.word: dialect
    for dialect in (
        Dialect("pg", "pg", "Pgtcl", raises=True),
        Dialect("mysql", "mysql", "mysqltcl", raises=False),
        Dialect("maria", "maria", "mariatcl", raises=False),
    )
}
#: What goes through HammerDB's scripts unquoted several times, and comes out as it was.
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+=,~-]+")


@dataclass(frozen=True)
class Target:
    """A database that HammerDB connects to.

    ``host``: a name, an address, or the folder of PostgreSQL's socket. ``socket``: the path
    of MySQL's or MariaDB's, which goes before host and port. ``database``: what is built
    into; it may exist, without tables. ``password`` is not in its repr.
    """

    dialect: Dialect
    host: str
    port: int
    user: str
    password: str
    database: str
    socket: str | None = None

    def __repr__(self) -> str:
        where = self.socket or f"{self.host}:{self.port}"
        return f"Target({self.dialect.word} {self.user}@{where}/{self.database})"


def dialect_of(word: str) -> Dialect:
    """By HammerDB's word; UsageError for one that is not driven here."""
    if word not in _DIALECTS:
        raise UsageError(
            f"HammerDB on its database {word!r}",
            f"only {', '.join(_DIALECTS)} are driven{nearest(word, list(_DIALECTS))}",
        )
    return _DIALECTS[word]


def drivable(engine: Engine) -> Dialect:
    """How HammerDB calls the engine; UsageError where it cannot drive it, or must not.

    It wants to make users and databases and fills whatever schema comes first, so that it is
    let loose only on a server of our own.
    """
    if not isinstance(engine, DrivenByHammerDb):
        raise UsageError(
            f"driver hammerdb on {engine.name}",
            "HammerDB does not know this engine, or its engine here does not say so",
            "choose --driver loadgen, or another engine",
        )
    if engine.kind != "managed":
        raise UsageError(
            f"driver hammerdb on an {engine.kind} {engine.name} server",
            "HammerDB alters users and owners and builds outside the schema that is ours",
            "choose --driver loadgen, or let the harness run the server",
        )
    return dialect_of(engine.hammerdb_database)


def target_of(engine: Engine) -> Target:
    """Where HammerDB finds the started engine; UsageError as ``drivable``."""
    dialect = drivable(engine)
    assert isinstance(engine, DrivenByHammerDb)
    return target(dialect, engine.native_connection())


def target(dialect: Dialect, connection: Mapping[str, Any]) -> Target:
    """From the connection as the native client takes it; UsageError for what cannot be quoted.

    PostgreSQL's ``host`` may be the folder of its socket, as libpq has it.
    """
    for name in ("host", "socket", "user", "password", "database"):
        value = str(connection.get(name) or "x")
        if not _PLAIN.fullmatch(value):
            shown = "it" if name == "password" else repr(value)
            raise UsageError(
                f"HammerDB with this {name}",
                f"{shown} has characters that HammerDB's scripts take apart",
                f"choose letters and digits, and of others only {_PLAIN.pattern[10:-2]}",
            )
    return Target(
        dialect,
        host=str(connection.get("host") or "127.0.0.1"),
        port=int(connection.get("port") or 0),
        user=str(connection["user"]),
        password=str(connection["password"]),
        database=str(connection["database"]),
        socket=connection.get("socket"),
    )
