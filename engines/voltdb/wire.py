"""VoltDB's wire protocol, as far as the harness itself needs it: calls of procedures.

Messages are big-endian and have their length before them. A call is answered by a status and
tables; the answer of a call that was given up on is dropped when it comes.
"""

from __future__ import annotations

import hashlib
import re
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from harness.engine import QueryTimeout, Scalar, SqlConnection, SqlResult, checksum
from harness.errors import RunFailed
from harness.sql_script import head
from harness.supervise.linux import in_network
from harness.supervise.silence import limit_s

_LOGIN_VERSION, _SHA256 = 1, 1
_SUCCESS = 1
_HASH, _STATUS, _EXCEPTION, _APP_STATUS = 1 << 4, 1 << 5, 1 << 6, 1 << 7
_CHUNK = 1 << 16
_MOST_BYTES = 1 << 28
_NULL, _TINYINT, _BIGINT, _STRING, _DECIMAL, _VARBINARY, _ARRAY, _INTEGER = (
    1,
    3,
    6,
    9,
    22,
    25,
    -99,
    5,
)
_DECIMAL_UNIT = Decimal(1).scaleb(-12)
_NO_DECIMAL, _NO_FLOAT = -(1 << 127), -1.7e308

Parameter = int | str | bytes | Decimal | Sequence[int] | None


class WireError(Exception):
    """The server cannot be reached, or does not speak this protocol."""


class LoginRefused(WireError):
    """The server refuses user or password."""


class NoAnswer(Exception):
    """No answer within the time limit; the connection stays usable."""


@dataclass(frozen=True)
class ResultTable:
    """``columns``: names in lower case, as SQL of every engine has them."""

    columns: tuple[str, ...]
    rows: list[tuple[Scalar, ...]]

    def records(self) -> list[dict[str, Scalar]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class CallResult:
    """``error``: empty of a call that succeeded."""

    error: str
    tables: list[ResultTable]


def password_digest(password: str) -> bytes:
    """Digest that the login carries and of which the server keeps a hash."""
    return hashlib.sha256(password.encode()).digest()


class Connection:
    """One connection to 127.0.0.1, for one call at a time. WireError where there is no server.

    ``network``: the server's, if it has one of its own.
    """

    def __init__(
        self, port: int, user: str, password: str, timeout_s: float, network: str | None = None
    ) -> None:
        self._read = bytearray()
        self._handle = 0
        try:
            with in_network(network):
                self._socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        except OSError as error:
            raise WireError(str(error)) from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._log_in(user, password)
        except BaseException:
            self._socket.close()
            raise

    def call(
        self, procedure: str, *parameters: Parameter, timeout_s: float | None = None
    ) -> CallResult:
        """Call a procedure; NoAnswer at the limit (default: that of any statement)."""
        self._handle += 1
        self._socket.settimeout(limit_s("statement") if timeout_s is None else timeout_s)
        body = b"".join(
            (
                b"\0",
                _string(procedure),
                struct.pack(">qh", self._handle, len(parameters)),
                *map(_parameter, parameters),
            )
        )
        self._send(body)
        while True:
            message = _MessageReader(self._message())
            message.skip(1)
            if message.integer(8) == self._handle:
                return _answer(message)

    def close(self) -> None:
        """Close; no error when the server is gone."""
        self._socket.close()

    def _log_in(self, user: str, password: str) -> None:
        head = struct.pack(">bb", _LOGIN_VERSION, _SHA256)
        self._send(head + _string("database") + _string(user) + password_digest(password))
        try:
            message = _MessageReader(self._message())
        except NoAnswer as error:
            raise WireError(str(error)) from error
        message.skip(1)
        if message.integer(1) != 0:
            raise LoginRefused(f"the server refuses user {user}")

    def _send(self, body: bytes) -> None:
        try:
            self._socket.sendall(struct.pack(">i", len(body)) + body)
        except OSError as error:
            raise WireError(str(error) or type(error).__name__) from error

    def _message(self) -> bytes:
        self._fill(4)
        (length,) = struct.unpack(">i", self._read[:4])
        if not 0 < length < _MOST_BYTES:
            raise WireError(f"a message of {length} bytes")
        self._fill(4 + length)
        message = bytes(self._read[4 : 4 + length])
        del self._read[: 4 + length]
        return message

    def _fill(self, length: int) -> None:
        """Read until ``length`` bytes are there; NoAnswer leaves those that are."""
        while len(self._read) < length:
            try:
                received = self._socket.recv(_CHUNK)
            except TimeoutError as error:
                seconds = self._socket.gettimeout()
                raise NoAnswer(f"no answer within {seconds:g} s") from error
            except OSError as error:
                raise WireError(str(error)) from error
            if not received:
                raise WireError("the server closed the connection")
            self._read += received


class _MessageReader:
    """Reads a message field by field; WireError after its end."""

    def __init__(self, message: bytes) -> None:
        self._message, self._at = message, 0

    def take(self, length: int) -> bytes:
        begin, self._at = self._at, self._at + length
        if length < 0 or self._at > len(self._message):
            raise WireError("an answer that ends early")
        return self._message[begin : self._at]

    def skip(self, length: int) -> None:
        self.take(length)

    def integer(self, length: int) -> int:
        return int.from_bytes(self.take(length), "big", signed=True)

    def text(self) -> str | None:
        length = self.integer(4)
        return None if length < 0 else self.take(length).decode(errors="replace")


def _answer(message: _MessageReader) -> CallResult:
    fields, status = message.integer(1), message.integer(1)
    words = message.text() if fields & _STATUS else None
    message.skip(1)  # the application's status as a number
    if fields & _APP_STATUS:
        message.text()
    message.skip(4)  # time in the server
    if fields & _EXCEPTION:
        message.skip(message.integer(4))
    if fields & _HASH:
        message.skip(4)
    error = "" if status == _SUCCESS else words or f"status {status}"
    tables = [_table(message) for _ in range(message.integer(2))]
    return CallResult(error, tables)


def _table(message: _MessageReader) -> ResultTable:
    message.skip(4 + 4 + 1)  # lengths of the table and of its head, the status
    count = message.integer(2)
    types = [message.integer(1) for _ in range(count)]
    names = tuple((message.text() or "").lower() for _ in range(count))
    readers = [_READERS.get(kind, _text) for kind in types]
    rows: list[tuple[Scalar, ...]] = []
    for _ in range(message.integer(4)):
        message.skip(4)  # the row's length
        rows.append(tuple(read(message) for read in readers))
    return ResultTable(names, rows)


def _whole(length: int) -> Callable[[_MessageReader], Scalar]:
    null = -(1 << 8 * length - 1)

    def read(message: _MessageReader) -> Scalar:
        number = message.integer(length)
        return None if number == null else number

    return read


def _decimal(message: _MessageReader) -> Scalar:
    number = message.integer(16)
    return None if number == _NO_DECIMAL else number * _DECIMAL_UNIT


def _float(message: _MessageReader) -> Scalar:
    number: float = struct.unpack(">d", message.take(8))[0]
    return None if number <= _NO_FLOAT else number


def _text(message: _MessageReader) -> Scalar:
    return message.text()


#: By type; timestamps are microseconds since 1970.
_READERS: dict[int, Callable[[_MessageReader], Scalar]] = {
    _TINYINT: _whole(1),
    4: _whole(2),
    _INTEGER: _whole(4),
    _BIGINT: _whole(8),
    8: _float,
    11: _whole(8),
    _DECIMAL: _decimal,
}


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">i", len(data)) + data


def _parameter(value: Parameter) -> bytes:
    if value is None:
        return struct.pack(">b", _NULL)
    if isinstance(value, int):
        return struct.pack(">bq", _BIGINT, value)
    if isinstance(value, Decimal):
        number = int(value / _DECIMAL_UNIT)
        return struct.pack(">b", _DECIMAL) + number.to_bytes(16, "big", signed=True)
    if isinstance(value, str):
        return struct.pack(">b", _STRING) + _string(value)
    if isinstance(value, bytes):
        return struct.pack(">bi", _VARBINARY, len(value)) + value
    return struct.pack(f">bbh{len(value)}i", _ARRAY, _INTEGER, len(value), *value)


_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
#: As VoltDB's own sqlcmd takes it.
_EXEC = re.compile(r"exec\s+(\w+)", re.IGNORECASE)


class VoltDbConnection(SqlConnection):
    """Connection on which each statement is its own transaction; SQL text has no others."""

    def __init__(self, raw: Connection) -> None:
        self._raw = raw

    def execute(
        self, sql: str, *, timeout_s: float | None = None, keep: int | None = None
    ) -> SqlResult:
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
        table = answer.tables[0]  # of 50 MB at most
        if keep is None:
            return SqlResult(table.columns, table.rows, started, duration)
        total = checksum(repr(row).encode() for row in table.rows)
        left_out = max(0, len(table.rows) - keep)
        return SqlResult(table.columns, table.rows[:keep], started, duration, left_out, total)

    def call(
        self, procedure: str, *parameters: Parameter, timeout_s: float | None = None
    ) -> CallResult:
        """Call a procedure; RunFailed where it fails, or does not answer within the limit."""
        try:
            return self._call(procedure, procedure, *parameters, timeout_s=timeout_s)
        except NoAnswer as error:
            raise RunFailed(f"VoltDB: {procedure}", str(error)) from error

    def _call(
        self, what: str, procedure: str, *parameters: Parameter, timeout_s: float | None
    ) -> CallResult:
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
