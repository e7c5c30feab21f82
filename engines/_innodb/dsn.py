"""Where a MySQL or MariaDB of the user's is reached: a URL, its password kept out of records.

``mysql://user[:password]@host[:port][/database][?ssl-ca=FILE]``, or with
``?socket=PATH`` and no host. ``env`` stands for ``$HARNESS_DSN``. A DSN that is given as an
option is stored with every run, so it must not hold a password.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from engines._innodb.connection import open_connection
from engines._innodb.installation import TITLES, Flavour
from engines._innodb.wire import LazyConnection
from harness.errors import UsageError, nearest

_PARAMETERS = ("socket", "ssl-ca")
_FORM = "write mysql://user@host/database, or mysql://user@/database?socket=/run/mysqld/mysqld.sock"
_DEFAULT_PORT = 3306


@dataclass(frozen=True)
class Dsn:
    """A parsed DSN; its password is not part of how it is shown."""

    user: str
    password: str = field(repr=False)
    host: str | None
    port: int | None
    database: str | None
    socket: str | None
    ssl_ca: str | None

    @property
    def address(self) -> str:
        """Server and database, for messages and records: never user or password."""
        where = f"socket={self.socket}" if self.socket else f"host={self.host} port={self.port}"
        return f"{where} dbname={self.database}" if self.database else where

    def open(self, database: str | None = None, local_infile: bool = False) -> LazyConnection:
        """A new connection to ``database``, else to the DSN's own."""
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
        """The same for the native client, which wants no member that is None."""
        found = {
            "socket": self.socket,
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": database or self.database,
            "ssl_ca": self.ssl_ca,
        }
        return {name: value for name, value in found.items() if value is not None}


def dsn_of(flavour: Flavour, options: Mapping[str, Any]) -> Dsn:
    """The DSN; UsageError where it is none, holds a password, or $HARNESS_DSN is unset."""
    asked = f"external {TITLES[flavour]} by DSN"
    given = str(options["dsn"])
    if given != "env":
        dsn = _parsed(given, asked)
        if dsn.password:
            raise UsageError(
                asked,
                "the DSN holds a password, which would be stored with the run",
                "export it as HARNESS_DSN and say dsn=env",
            )
        return dsn
    if not (given := os.environ.get("HARNESS_DSN", "")):
        raise UsageError(f"{asked}, dsn=env", "$HARNESS_DSN is not set", "export HARNESS_DSN=…")
    return _parsed(given, asked)


def _parsed(text: str, asked: str) -> Dsn:
    """UsageError without the text: it may hold a password."""
    try:
        url = urlsplit(text)
        port = url.port
        parameters = dict(parse_qsl(url.query, strict_parsing=bool(url.query)))
    except ValueError as error:
        raise UsageError(asked, "it is not a URL", _FORM) from error
    if url.scheme not in TITLES or not url.username:
        raise UsageError(asked, "it is no mysql:// or mariadb:// URL with a user", _FORM)
    for name in parameters:
        if name not in _PARAMETERS:
            raise UsageError(
                asked,
                f"unknown parameter {name!r}{nearest(name, _PARAMETERS)}",
                f"known: {', '.join(_PARAMETERS)}",
            )
    socket = parameters.get("socket")
    if bool(socket) == bool(url.hostname):
        raise UsageError(asked, "it names a host and a socket, or neither", _FORM)
    return Dsn(
        unquote(url.username),
        unquote(url.password or ""),
        url.hostname,
        (port or _DEFAULT_PORT) if url.hostname else None,
        unquote(url.path.lstrip("/")) or None,
        socket,
        parameters.get("ssl-ca"),
    )
