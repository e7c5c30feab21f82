"""A stand-in for SQL Server, at its protocol: no data, answers from a function a test brings.

It speaks as much of TDS 7.4 ([MS-TDS]) as a login, batches, remote procedure calls and bulk inserts
need. It shows that a client's calls arrive and its answers are read, and nothing of T-SQL.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

BATCH, RPC, RESPONSE, BULK, LOGIN, PRELOGIN = 1, 3, 4, 7, 16, 18
INT, DECIMAL, DATETIME, VARCHAR, CHAR, NVARCHAR = 0x26, 0x6A, 0x6F, 0xA7, 0xAF, 0xE7
_COLLATION = bytes([0x09, 0x04, 0xD0, 0x00, 0x34])
Row = Sequence[int | str | None]


@dataclass(frozen=True)
class Failure:
    """An error of the server, in place of rows."""

    number: int
    text: str


@dataclass
class StandIn:
    """``answer``: rows, or a failure, of a call by name and arguments.

    ``tables``: by name, the columns with their types. ``inserted``: rows by table, as their values'
    bytes, which are texts in columns of texts.
    """

    answer: Callable[[str, Sequence[Any]], Sequence[Row] | Failure]
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    inserted: dict[str, list[list[bytes | None]]] = field(default_factory=dict)
    batches: list[str] = field(default_factory=list)

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
        self.table = ""

    def serve(self) -> None:
        while (message := self._read()) is not None:
            kind, data = message
            if kind == PRELOGIN:  # version, and no encryption
                self._write(bytes([0, 0, 11, 0, 6, 1, 0, 17, 0, 1, 0xFF, 16, 0, 0, 0, 0, 0, 2]))
            elif kind == LOGIN:
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
        found = b""
        while len(found) < count:
            try:
                part = self.connection.recv(count - len(found))
            except ConnectionError:
                return None
            if not part:
                return None
            found += part
        return found

    def _write(self, data: bytes) -> None:
        most = 4096 - 8
        parts = [data[at : at + most] for at in range(0, len(data), most)]
        for number, part in enumerate(parts):
            last = number + 1 == len(parts)
            head = struct.pack(">BBHHBB", RESPONSE, last, len(part) + 8, 0, number % 256, 0)
            self.connection.sendall(head + part)

    def _batch(self, text: str) -> bytes:
        self.stand_in.batches.append(text)
        words = text.lower().replace("(", " ").split()
        if words[:2] == ["insert", "bulk"]:
            self.table = words[2].strip("[]")
            return _done()
        for table, columns in self.stand_in.tables.items():
            if "from" in words and table in words:
                return _columns(columns) + _done()
        return _done()

    def _call(self, data: bytes) -> bytes:
        (length,) = struct.unpack("<H", data[:2])
        name = data[2 : 2 + 2 * length].decode("utf-16le")
        found = self.stand_in.answer(name, list(_arguments(data[4 + 2 * length :])))
        if isinstance(found, Failure):
            return _error(found) + _done(0xFE, status=2)
        columns = {f"c{n}": VARCHAR for n in range(len(found[0]))} if found else {"c": VARCHAR}
        kinds = {
            name: INT if found and isinstance(found[0][n], int) else VARCHAR
            for n, name in enumerate(columns)
        }
        rows = b"".join(b"\xd1" + b"".join(map(_value, row)) for row in found)
        return _columns(kinds) + rows + _done(0xFF, 0x11, len(found)) + _returned() + _done(0xFE)

    def _insert(self, data: bytes) -> bytes:
        columns = list(self.stand_in.tables[self.table].values())
        rows = self.stand_in.inserted.setdefault(self.table, [])
        at, before = _after_columns(data), len(rows)
        while at < len(data) and data[at] == 0xD1:
            at += 1
            row: list[bytes | None] = []
            for kind in columns:
                wide = kind in (VARCHAR, CHAR)
                length = struct.unpack_from("<H", data, at)[0] if wide else data[at]
                at += 2 if wide else 1
                null = length == 0xFFFF if wide else length == 0
                row.append(None if null else data[at : at + length])
                at += 0 if null else length
            rows.append(row)
        return _done(status=0x10, rows=len(rows) - before)


def _login() -> bytes:
    name = "stand-in".encode("utf-16le")
    body = b"\x01\x74\x00\x00\x04" + bytes([len(name) // 2]) + name + bytes([16, 0, 0, 0])
    return b"\xad" + struct.pack("<H", len(body)) + body


def _done(token: int = 0xFD, status: int = 0, rows: int = 0) -> bytes:
    return struct.pack("<BHHQ", token, status, 0, rows)


def _returned() -> bytes:
    return b"\x79" + struct.pack("<i", 0)


def _error(failure: Failure) -> bytes:
    text = failure.text.encode("utf-16le")
    body = struct.pack("<iBBH", failure.number, 1, 16, len(failure.text)) + text
    body += b"\x00\x00" + struct.pack("<i", 1)
    return b"\xaa" + struct.pack("<H", len(body)) + body


def _type(kind: int) -> bytes:
    if kind == INT:
        return bytes([INT, 4])
    if kind == DECIMAL:
        return bytes([DECIMAL, 9, 14, 2])
    if kind == DATETIME:
        return bytes([DATETIME, 8])
    return bytes([kind]) + struct.pack("<H", 500) + _COLLATION


def _columns(columns: dict[str, int]) -> bytes:
    found = b"\x81" + struct.pack("<H", len(columns))
    for name, kind in columns.items():
        found += struct.pack("<IH", 0, 9) + _type(kind)  # nullable, updatable
        found += bytes([len(name)]) + name.encode("utf-16le")
    return found


def _value(value: int | str | None) -> bytes:
    if isinstance(value, int):
        return struct.pack("<Bi", 4, value)
    if value is None:
        return b"\xff\xff"
    return struct.pack("<H", len(value)) + value.encode("ascii")


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
        else:
            (length,) = struct.unpack_from("<H", data, at + 8)
            text = data[at + 10 : at + 10 + (0 if length == 0xFFFF else length)]
            code = "utf-16le" if kind == NVARCHAR else "ascii"
            yield None if length == 0xFFFF else text.decode(code)
            at += 10 + len(text)


def _after_columns(data: bytes) -> int:
    """Where the rows of a bulk insert begin."""
    at = 3
    for _ in range(struct.unpack_from("<H", data, 1)[0]):
        kind = data[at + 6]
        at += 7 + {INT: 1, DATETIME: 1, DECIMAL: 3}.get(kind, 7)
        at += 1 + 2 * data[at]
    return at
