"""A stand-in for SQL Server, at its protocol: answers are from functions that a test brings.

It speaks as much of TDS 7.4 ([MS-TDS]) as a login, batches, remote procedure calls and bulk inserts
of texts need.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

BATCH, RPC, RESPONSE, BULK, LOGIN, PRELOGIN = 1, 3, 4, 7, 16, 18
INT, DATE, DECIMAL, FLOAT, VARCHAR, NVARCHAR = 0x26, 0x28, 0x6A, 0x6D, 0xA7, 0xE7
#: Its number of the procedure that executes a text with values.
_EXECUTE_SQL = 10
_COLLATION = bytes([0x09, 0x04, 0xD0, 0x00, 0x34])
Row = Sequence[Any]


@dataclass(frozen=True)
class Failure:
    """An error of the server, in place of rows."""

    number: int
    text: str


@dataclass(frozen=True)
class Rows:
    """The answer to a batch."""

    columns: Sequence[str]
    rows: Sequence[Row]


def _nothing(_: str, text: str) -> None:
    """No batch has rows."""


def _no_table(_: str, table: str, rows: Sequence[Row]) -> None:
    raise AssertionError(f"{len(rows)} rows for {table}")


@dataclass
class StandIn:
    """``answer``: of a call by name and arguments. ``query``: of a batch, by the login's database
    and its text; None: it has no rows. ``insert``: takes a table's rows of texts, in a database.
    """

    answer: Callable[[str, Sequence[Any]], Sequence[Row] | Failure]
    query: Callable[[str, str], Rows | Failure | None] = _nothing
    insert: Callable[[str, str, Sequence[Row]], None] = _no_table

    def __enter__(self) -> StandIn:
        stand_in = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                _Session(self.request, stand_in).serve()

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])


class _Session:
    def __init__(self, connection: socket.socket, stand_in: StandIn) -> None:
        self.connection, self.stand_in = connection, stand_in
        self.table = self.database = ""

    def serve(self) -> None:
        while (message := self._read()) is not None:
            kind, data = message
            if kind == PRELOGIN:  # version, and no encryption
                self._write(bytes([0, 0, 11, 0, 6, 1, 0, 17, 0, 1, 0xFF, 16, 0, 0, 0, 0, 0, 2]))
            elif kind == LOGIN:
                at, length = struct.unpack_from("<HH", data, 68)
                self.database = data[at : at + 2 * length].decode("utf-16le")
                self._write(_login() + _done())
            elif kind == BATCH:
                self._write(self._batch(_without_headers(data).decode("utf-16le")))
            elif kind == RPC:
                self._write(self._call(_without_headers(data)))
            elif kind == BULK:
                self._write(self._insert(data))
            else:  # attention
                self._write(_done(status=0x20))

    def _read(self) -> tuple[int, bytes] | None:
        data = bytearray()
        while True:
            head = self._bytes(8)
            if head is None:
                return None
            body = self._bytes(struct.unpack(">H", head[2:4])[0] - 8)
            if body is None:
                return None
            data += body
            if head[1] & 1:
                return head[0], bytes(data)

    def _bytes(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            try:
                part = self.connection.recv(count - len(data))
            except ConnectionError:
                return None
            if not part:
                return None
            data += part
        return data

    def _write(self, data: bytes) -> None:
        most = 4096 - 8
        parts = [data[at : at + most] for at in range(0, len(data), most)]
        for number, part in enumerate(parts):
            last = number + 1 == len(parts)
            head = struct.pack(">BBHHBB", RESPONSE, last, len(part) + 8, 0, number % 256, 0)
            self.connection.sendall(head + part)

    def _batch(self, text: str) -> bytes:
        words = text.lower().replace("(", " ").split()
        if words[:2] == ["insert", "bulk"]:
            self.table = words[2].strip("[]")
            return _done()
        rows = self.stand_in.query(self.database, text)
        if isinstance(rows, Failure):
            return _error(rows) + _done(status=2)
        return _done() if rows is None else _table(rows) + _done(status=0x10)

    def _call(self, data: bytes) -> bytes:
        (length,) = struct.unpack("<H", data[:2])
        if length == 0xFFFF:
            (number,) = struct.unpack("<H", data[2:4])
            assert number == _EXECUTE_SQL
            text, _, *values = _arguments(data[6:])
            for index, value in enumerate(values, 1):
                text = str(text).replace(f"@P{index}", f"'{value}'")
            return self._batch(str(text))
        name = data[2 : 2 + 2 * length].decode("utf-16le")
        rows = self.stand_in.answer(name, list(_arguments(data[4 + 2 * length :])))
        if isinstance(rows, Failure):
            return _error(rows) + _done(0xFE, status=2)
        columns = [f"c{n}" for n in range(len(rows[0]))] if rows else ["c"]
        table = _table(Rows(columns, rows))
        return table + _done(0xFF, 0x11, len(rows)) + _returned() + _done(0xFE)

    def _insert(self, data: bytes) -> bytes:
        """Texts of at most 4,000 characters, as they come without types of the columns."""
        at, count = _after_columns(data)
        rows: list[list[str | None]] = []
        while at < len(data) and data[at] == 0xD1:
            at += 1
            row: list[str | None] = []
            for _ in range(count):
                (length,) = struct.unpack_from("<H", data, at)
                at += 2
                null = length == 0xFFFF
                row.append(None if null else data[at : at + length].decode("utf-16le"))
                at += 0 if null else length
            rows.append(row)
        self.stand_in.insert(self.database, self.table, rows)
        return _done(status=0x10, rows=len(rows))


def _login() -> bytes:
    name = "stand-in".encode("utf-16le")
    body = b"\x01\x74\x00\x00\x04" + bytes([len(name) // 2]) + name + bytes([16, 0, 0, 0])
    collation = b"\x07" + bytes([len(_COLLATION)]) + _COLLATION + b"\x00"
    change = b"\xe3" + struct.pack("<H", len(collation)) + collation
    return change + b"\xad" + struct.pack("<H", len(body)) + body


def _done(token: int = 0xFD, status: int = 0, rows: int = 0) -> bytes:
    return struct.pack("<BHHQ", token, status, 0, rows)


def _returned() -> bytes:
    return b"\x79" + struct.pack("<i", 0)


def _error(failure: Failure) -> bytes:
    text = failure.text.encode("utf-16le")
    body = struct.pack("<iBBH", failure.number, 1, 16, len(failure.text)) + text
    body += b"\x00\x00" + struct.pack("<i", 1)
    return b"\xaa" + struct.pack("<H", len(body)) + body


def _table(table: Rows) -> bytes:
    """Columns with the types of their values, and the rows."""
    kinds = [_kind([row[n] for row in table.rows]) for n in range(len(table.columns))]
    head = b"\x81" + struct.pack("<H", len(kinds))
    for name, (kind, _) in zip(table.columns, kinds, strict=True):
        head += struct.pack("<IH", 0, 9) + kind  # nullable, updatable
        head += bytes([len(name)]) + name.encode("utf-16le")
    rows = (
        b"\xd1" + b"".join(value(cell) for cell, (_, value) in zip(row, kinds, strict=True))
        for row in table.rows
    )
    return head + b"".join(rows)


def _kind(values: Sequence[Any]) -> tuple[bytes, Callable[[Any], bytes]]:
    """A column's type, and what writes a value of it."""
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, int) for value in present):
        size = 4 if all(abs(value) < 1 << 31 for value in present) else 8
        return bytes([INT, size]), _sized(lambda v: int(v).to_bytes(size, "little", signed=True))
    if present and all(isinstance(value, Decimal) for value in present):
        scale = max(-int(value.as_tuple().exponent) for value in present)
        return bytes([DECIMAL, 17, 38, scale]), _sized(
            lambda v: bytes([v >= 0]) + int(abs(v).scaleb(scale)).to_bytes(16, "little")
        )
    if present and all(isinstance(value, float) for value in present):
        return bytes([FLOAT, 8]), _sized(lambda v: struct.pack("<d", v))
    if present and all(isinstance(value, date) for value in present):
        return bytes([DATE]), _sized(lambda v: (v.toordinal() - 1).to_bytes(3, "little"))
    return bytes([NVARCHAR]) + struct.pack("<H", 8000) + _COLLATION, _text


def _sized(encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def write(value) -> bytes:
        data = b"" if value is None else encode(value)
        return bytes([len(data)]) + data

    return write


def _text(value) -> bytes:
    if value is None:
        return b"\xff\xff"
    data = str(value).encode("utf-16le")
    return struct.pack("<H", len(data)) + data


def _without_headers(data: bytes) -> bytes:
    return data[struct.unpack("<I", data[:4])[0] :]


def _arguments(data: bytes) -> Iterator[int | str | None]:
    """After the flags: names, and values by type."""
    at = 0
    while at < len(data):
        at += 1 + 2 * data[at] + 1
        kind = data[at]
        if kind == INT:
            length = data[at + 2]
            yield int.from_bytes(data[at + 3 : at + 3 + length], "little") if length else None
            at += 3 + length
            continue
        code = "utf-16le" if kind == NVARCHAR else "ascii"
        (most,) = struct.unpack_from("<H", data, at + 1)
        at += 8
        if most == 0xFFFF:  # of any length, in parts
            at, text = _parts(data, at + 8)
            yield text.decode(code)
        else:
            (length,) = struct.unpack_from("<H", data, at)
            text = data[at + 2 : at + 2 + (0 if length == 0xFFFF else length)]
            yield None if length == 0xFFFF else text.decode(code)
            at += 2 + len(text)


def _parts(data: bytes, at: int) -> tuple[int, bytes]:
    joined = b""
    while length := struct.unpack_from("<I", data, at)[0]:
        joined += data[at + 4 : at + 4 + length]
        at += 4 + length
    return at + 4, joined


def _after_columns(data: bytes) -> tuple[int, int]:
    """Return the offset of a bulk insert's rows, and the number of columns, all of texts."""
    at = 3
    (count,) = struct.unpack_from("<H", data, 1)
    for _ in range(count):
        at += 14
        at += 1 + 2 * data[at]
    return at, count
