"""A connection that runs T-SQL text and times it.

The client ends a statement at its limit by closing the connection, which has the server stop it and
roll back; another connection takes its place.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytds

from harness.engine import QueryTimeout, SqlConnection, SqlResult
from harness.errors import RunFailed
from harness.sql_script import head
from harness.supervise.silence import limit_s

#: What any statement of TDS may raise.
ERRORS = (pytds.Error, OSError)


@dataclass(frozen=True)
class Login:
    """A server's address and a user of it; its representation does not contain the password.

    ``ca``: file of the authority that signed the server's certificate; empty: no encryption.
    """

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    ca: str = ""

    @property
    def address(self) -> str:
        """Server and database, for messages and records, without user and password."""
        return f"host={self.host} port={self.port} dbname={self.database}"

    def connect(self, database: str = "", timeout_s: float | None = None) -> Any:
        """Open a raw connection in autocommit mode to ``database`` (default: the login's)."""
        return pytds.connect(
            dsn=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=database or self.database,
            timeout=timeout_s or limit_s("statement"),
            login_timeout=limit_s("connect"),
            appname="harness",
            autocommit=True,
            cafile=self.ca or None,
        )


class SqlServerConnection(SqlConnection):
    """A session in the database of a dataset."""

    def __init__(self, login: Login, database: str) -> None:
        self._login = login
        self._database = database
        self._timeout_s: float | None = None
        self.raw = self._open()

    def _open(self) -> Any:
        try:
            return self._login.connect(self._database, self._timeout_s)
        except ERRORS as error:
            problem = f"connect to SQL Server at {self._login.address}"
            raise RunFailed(problem, str(error)) from error

    def execute(self, sql: str, *, timeout_s: float | None = None) -> SqlResult:
        """Run one statement; QueryTimeout at the limit, RunFailed on an SQL error."""
        if timeout_s != self._timeout_s:  # the client has one limit for all of a connection
            self.close()
            self._timeout_s = timeout_s
            self.raw = self._open()
        started = time.monotonic_ns()
        try:
            with self.raw.cursor() as cursor:
                cursor.execute(sql)
                rows = cursor.fetchall() if cursor.description else []
                duration = time.monotonic_ns() - started
                columns = tuple(column[0] for column in cursor.description or ())
        except TimeoutError as error:
            self.close()
            self.raw = self._open()
            if timeout_s is None:
                raise RunFailed(f"SQL Server: {head(sql)}", "no answer") from error
            raise QueryTimeout(f"{head(sql)}: no answer within {timeout_s:g} s") from error
        except ERRORS as error:
            raise RunFailed(f"SQL Server: {head(sql)}", str(error)) from error
        return SqlResult(columns, [tuple(row) for row in rows], started, duration)

    def close(self) -> None:
        with suppress(*ERRORS):
            self.raw.close()

    def cancel(self) -> None:
        """Close: the server stops the statement and rolls it back."""
        self.close()
