"""A connection that runs SQL text on PostgreSQL and times it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import psycopg
from psycopg import generators, pq
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.types import TypeInfo
from psycopg.types.string import TextBinaryLoader

from harness.engine import Credentials, QueryTimeout, SqlConnection, SqlResult, checksum
from harness.errors import RunFailed
from harness.sql_script import head
from harness.supervise.silence import limit_s
from harness.supervise.user_files import acting_as

_Result = TypeVar("_Result")
_CANCEL_TIMEOUT_S = 10
#: Rows that are received at a time.
_CHUNK_ROWS = 1000
_NULL = b"\0NULL"
#: Types below are of PostgreSQL itself.
_FIRST_OWN_TYPE = 16384
#: Enum types, and those whose binary format is their text (citext).
_TEXT_TYPES = """
    SELECT typname, oid, typarray FROM pg_catalog.pg_type
    WHERE (oid = ANY(%s) OR typarray = ANY(%s)) AND (typtype = 'e' OR typcategory = 'S')
"""
#: A transaction alone publishes nothing; pg_am is a table that every planner reads anyway.
_FLUSH = "SELECT pg_stat_force_next_flush() FROM pg_catalog.pg_am LIMIT 1"


@contextlib.contextmanager
def connecting() -> Iterator[None]:
    """RunFailed if a connection cannot be opened."""
    try:
        yield
    except psycopg.OperationalError as error:
        raise RunFailed("connect to PostgreSQL", str(error).strip()) from error


class AnsweringConnection(psycopg.Connection[Any]):
    """A psycopg connection that does not wait for an answer without limit."""

    def wait(
        self, gen: PQGen[_Result], interval: float = 0.1, timeout: float | None = None
    ) -> _Result:
        """OperationalError at the limit, and the connection is closed."""
        began, limit = time.monotonic(), limit_s("statement")
        try:
            return super().wait(gen, interval, limit if timeout is None else timeout)
        except psycopg.OperationalError as error:
            if timeout is not None or time.monotonic() - began < limit:
                raise
            self.pgconn.finish()
            raise psycopg.OperationalError(f"the server did not answer for {limit:g} s") from error


def open_connection(conninfo: str = "", **keywords: Any) -> AnsweringConnection:
    """A new connection in autocommit mode; psycopg.Error where there is none in time."""
    seconds = max(2, round(limit_s("connect")))  # libpq: at least 2
    return AnsweringConnection.connect(
        conninfo, autocommit=True, connect_timeout=seconds, **keywords
    )


class PostgresConnection(SqlConnection):
    """psycopg 3 in autocommit mode; ``raw`` is the psycopg connection.

    ``user``: owner of the directory that contains the server's socket.
    """

    def __init__(self, raw: psycopg.Connection[Any], user: Credentials | None = None) -> None:
        self.raw = raw
        self._user = user
        self._timeout_ms = 0
        self._types = set[int]()
        # By default, psycopg prepares repeated queries, which would be timed without planning.
        raw.prepare_threshold = None

    def execute(
        self, sql: str, *, timeout_s: float | None = None, keep: int | None = None
    ) -> SqlResult:
        """Run one statement; QueryTimeout at the limit, RunFailed on an SQL error.

        Rows arrive in the binary format, so that decoding is a small part of the time. With
        ``keep`` it is no part of it, and the checksum of rows beyond is.
        """
        try:
            self._limit(timeout_s)
            if keep is not None:
                return self._receive(sql, keep)
            with self.raw.cursor(binary=True) as cursor:
                started = time.monotonic_ns()
                cursor.execute(sql)
                rows = cursor.fetchall() if cursor.description else []
                duration = time.monotonic_ns() - started
                columns = tuple(column.name for column in cursor.description or ())
        except psycopg.errors.QueryCanceled as error:
            if timeout_s is None:
                raise failed(sql, error) from error
            raise QueryTimeout(f"{head(sql)}: no answer within {timeout_s:g} s") from error
        except psycopg.Error as error:
            raise failed(sql, error) from error
        return SqlResult(columns, rows, started, duration)

    def _receive(self, sql: str, keep: int) -> SqlResult:
        """Run one statement and receive its rows in chunks.

        The server executes it as ever: a cursor of SQL would have another plan.
        """
        pgconn, chunks = self.raw.pgconn, list[pq.abc.PGresult]()
        stored = received = total = 0
        error: psycopg.Error | None = None
        with self.raw.lock:
            started = time.monotonic_ns()
            self.raw.wait(_send(pgconn, sql.encode(self.raw.info.encoding)))
            while (result := self.raw.wait(generators.fetch(pgconn))) is not None:
                if result.status == pq.ExecStatus.FATAL_ERROR:
                    error = psycopg.errors.error_from_result(result, self.raw.info.encoding)
                    continue  # to the last result: the connection is busy until then
                received += result.ntuples
                if stored < keep or not chunks:
                    chunks.append(result)
                    stored += result.ntuples
                else:
                    total += checksum(_rows_of(result))
            duration = time.monotonic_ns() - started
        if error is not None:
            raise error
        self._know_texts({chunks[0].ftype(column) for column in range(chunks[0].nfields)})
        decoder, rows = Transformer(self.raw), list[tuple[Any, ...]]()
        for result in chunks:
            total += checksum(_rows_of(result))
            decoder.set_pgresult(result)
            rows += decoder.load_rows(0, min(result.ntuples, keep - len(rows)), tuple)
        names = [chunks[0].fname(column) or b"" for column in range(chunks[0].nfields)]
        columns = tuple(name.decode(self.raw.info.encoding) for name in names)
        return SqlResult(columns, rows, started, duration, received - len(rows), total)

    def _know_texts(self, types: set[int]) -> None:
        """Decode values of the database's own types that are texts, and arrays of them."""
        unknown = [oid for oid in types - self._types if oid >= _FIRST_OWN_TYPE]
        self._types |= types
        if not unknown:
            return
        self._limit(None)
        for name, oid, array in self.raw.execute(_TEXT_TYPES, [unknown, unknown]).fetchall():
            TypeInfo(name, oid, array).register(self.raw)
            self.raw.adapters.register_loader(oid, TextBinaryLoader)

    @property
    def open(self) -> bool:
        """Return whether statements can be run on it."""
        return not self.raw.closed

    def flush_statistics(self) -> None:
        """Have this session's counters published now (PostgreSQL 15 and later)."""
        if self.raw.info.transaction_status != pq.TransactionStatus.IDLE:
            return
        if self.raw.info.server_version >= 150000:
            self._limit(None)
            self.raw.execute(_FLUSH)

    def cancel(self) -> None:
        """End the running statement, from any thread. The connection stays open."""
        with contextlib.suppress(psycopg.Error), acting_as(self._user):  # opens a connection
            self.raw.cancel_safe(timeout=_CANCEL_TIMEOUT_S)

    def close(self) -> None:
        self.raw.close()

    def _limit(self, timeout_s: float | None) -> None:
        """Set the server's statement_timeout, outside the timed statement."""
        milliseconds = max(1, round(timeout_s * 1000)) if timeout_s is not None else 0
        if milliseconds != self._timeout_ms:
            self.raw.execute(f"SET statement_timeout = {milliseconds}")
            self._timeout_ms = milliseconds


def _send(pgconn: pq.abc.PGconn, sql: bytes) -> PQGen[None]:
    pgconn.send_query_params(sql, None, result_format=pq.Format.BINARY)
    pgconn.set_chunked_rows_mode(_CHUNK_ROWS)
    yield from generators.send(pgconn)


def _rows_of(result: pq.abc.PGresult) -> Iterator[bytes]:
    value, columns = result.get_value, range(result.nfields)
    for row in range(result.ntuples):
        values = [value(row, column) for column in columns]
        yield b"\0,".join([_NULL if value is None else value for value in values])


def failed(sql: str, error: psycopg.Error) -> RunFailed:
    """A RunFailed for the error of a statement."""
    diagnosis = error.diag
    context = diagnosis.message_primary or str(error).strip() or type(error).__name__
    if diagnosis.message_detail:
        context = f"{context} ({diagnosis.message_detail})"
    return RunFailed(f"PostgreSQL: {head(sql)}", context, diagnosis.message_hint or "")
