"""The address of an external MySQL or MariaDB: a URL without a password in the record.

``mysql://user[:password]@host[:port][/database][?ssl-ca=FILE]``, or with
``?socket=PATH`` and no host. ``env`` means ``$HARNESS_DSN``. A DSN in an option is stored with
every run, so it must not contain a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from engines._external import dsn_text
from engines._innodb.connection import open_connection
from engines._innodb.installation import TITLES, Flavour
from engines._innodb.wire import LazyConnection
from harness.errors import UsageError, nearest

_PARAMETERS = ("socket", "ssl-ca")
_FORM = "write mysql://user@host/database, or mysql://user@/database?socket=/run/mysqld/mysqld.sock"
_DEFAULT_PORT = 3306


@dataclass(frozen=True)
class Dsn:
    """A parsed DSN; its representation does not contain the password."""

    user: str
    password: str = field(repr=False)
    host: str | None
    port: int | None
    database: str | None
    socket: str | None
    ssl_ca: str | None

    @property
    def address(self) -> str:
        """Server and database, for messages and records, without user and password."""
        where = f"socket={self.socket}" if self.socket else f"host={self.host} port={self.port}"
        return f"{where} dbname={self.database}" if self.database else where

    def open(self, database: str | None = None, local_infile: bool = False) -> LazyConnection:
        """A new connection to ``database`` (default: the DSN's)."""
        return open_connection(
            unix_socket=self.socket,
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=database or self.database,
            local_infile=local_infile,
            ssl_ca=self.ssl_ca,
        )

    def native(self, database: str | None = None) -> dict[str, Any]:
        """The same for the native client, without members that are None."""
        members = {
            "socket": self.socket,
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": database or self.database,
            "ssl_ca": self.ssl_ca,
        }
        return {name: value for name, value in members.items() if value is not None}


def dsn_of(flavour: Flavour, options: Mapping[str, Any]) -> Dsn:
    """The DSN; UsageError if it is invalid or contains a password, or $HARNESS_DSN is unset."""
    problem = f"external {TITLES[flavour]} by DSN"

    def secrets(text: str) -> str:
        return "a password" if _parsed(text, problem).password else ""

    return _parsed(dsn_text(problem, options, secrets), problem)


def _parsed(text: str, problem: str) -> Dsn:
    """Errors do not contain ``text``, which may contain a password."""
    try:
        url = urlsplit(text)
        port = url.port
        parameters = dict(parse_qsl(url.query, strict_parsing=bool(url.query)))
    except ValueError as error:
        raise UsageError(problem, "not a URL", _FORM) from error
    if url.scheme not in TITLES or not url.username:
        raise UsageError(problem, "not a mysql:// or mariadb:// URL with a user", _FORM)
    for name in parameters:
        if name not in _PARAMETERS:
            raise UsageError(
                problem,
                f"unknown parameter {name!r}{nearest(name, _PARAMETERS)}",
                f"known: {', '.join(_PARAMETERS)}",
            )
    socket = parameters.get("socket")
    if bool(socket) == bool(url.hostname):
        raise UsageError(problem, "it must name either a host or a socket", _FORM)
    return Dsn(
        unquote(url.username),
        unquote(url.password or ""),
        url.hostname,
        (port or _DEFAULT_PORT) if url.hostname else None,
        unquote(url.path.lstrip("/")) or None,
        socket,
        parameters.get("ssl-ca"),
    )
