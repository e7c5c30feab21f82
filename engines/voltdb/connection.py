"""A connection that runs SQL text on VoltDB and times it."""

from __future__ import annotations

import re
import time

from engines.voltdb.wire import Answer, Connection, NoAnswer, Parameter, WireError
from harness.engine import QueryTimeout, SqlConnection, SqlResult
from harness.errors import RunFailed
from harness.sql_files import head

_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
#: As VoltDB's own sqlcmd takes it.
_EXEC = re.compile(r"exec\s+(\w+)", re.IGNORECASE)


class VoltDbConnection(SqlConnection):
    """Every statement is a transaction of its own; there are no others of SQL text."""

    def __init__(self, raw: Connection) -> None:
        self._raw = raw

    def execute(self, sql: str, *, timeout_s: float | None = None) -> SqlResult:
        """Run one statement, or ``exec PROCEDURE``; QueryTimeout at the limit, RunFailed on an
        error.

        The server continues a statement after its client has given up.
        """
        text = _COMMENT.sub("", sql).strip()
        called = _EXEC.fullmatch(text)
        procedure = (called[1],) if called else ("@AdHoc", text)
        started = time.monotonic_ns()
        try:
            answer = self._call(head(text), *procedure, timeout_s=timeout_s)
        except NoAnswer as error:
            if timeout_s is None:
                raise RunFailed(f"VoltDB: {head(sql)}", str(error)) from error
            raise QueryTimeout(f"{head(sql)}: {error}") from error
        duration = time.monotonic_ns() - started
        table = answer.tables[0]
        return SqlResult(table.columns, table.rows, started, duration)

    def call(
        self, procedure: str, *parameters: Parameter, timeout_s: float | None = None
    ) -> Answer:
        """Call a procedure; RunFailed where it fails, or does not answer within the limit."""
        try:
            return self._call(procedure, procedure, *parameters, timeout_s=timeout_s)
        except NoAnswer as error:
            raise RunFailed(f"VoltDB: {procedure}", str(error)) from error

    def _call(
        self, what: str, procedure: str, *parameters: Parameter, timeout_s: float | None
    ) -> Answer:
        try:
            answer = self._raw.call(procedure, *parameters, timeout_s=timeout_s)
        except WireError as error:
            raise RunFailed(f"VoltDB: {what}", str(error)) from error
        if answer.error:
            raise RunFailed(f"VoltDB: {what}", answer.error)
        return answer

    def close(self) -> None:
        """Close; no error when the server is gone."""
        self._raw.close()
