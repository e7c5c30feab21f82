"""Connections of the replay client, which waits for the answers of all of them at once.

Rows are received and dropped. An answer is the server's error code, empty for none; a connection
that is lost has :data:`LOST`.
"""

from __future__ import annotations

import select
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import psycopg
import pymysql
from psycopg import pq
from pymysql.constants import CLIENT

from harness.capture.replay_file import Event

LOST = "connection lost"
_CHUNK_ROWS = 1000
_BLOCK = 1 << 18
_PACKET = 0xFFFFFF
_MORE_RESULTS, _IN_TRANSACTION = 8, 1


class Wire(ABC):
    """A connection with one statement under way at most."""

    @abstractmethod
    def fileno(self) -> int:
        """The descriptor to wait for."""

    @abstractmethod
    def send(self, event: Event, sql: str) -> None:
        """Send a statement; OSError where the connection is lost."""

    @abstractmethod
    def receive(self) -> str | None:
        """Read what has arrived; the error code once the answer is complete, else None."""

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether a transaction is open after the last answer."""

    @abstractmethod
    def close(self) -> None:
        """Close; no error when the server is gone."""


class PostgresWire(Wire):
    """libpq, as psycopg brings it.

    A statement that the application prepared under a name is prepared here when it is first used,
    as part of its time.
    """

    def __init__(self, connection: Mapping[str, Any]) -> None:
        words = {
            "host": connection["host"],
            "port": connection["port"],
            "user": connection["user"],
            "password": connection["password"],
            "dbname": connection["database"],
            "application_name": "harness",
            "options": connection.get("options") or "",
            "client_encoding": "UTF8",
        }
        text = psycopg.conninfo.make_conninfo(**words)
        self._pgconn = pq.PGconn.connect(text.encode())
        if self._pgconn.status != pq.ConnStatus.OK:
            raise OSError(self._pgconn.get_error_message().strip())
        self._pgconn.nonblocking = 1
        #: Name at the server and text of each prepared statement, by the application's name.
        self._prepared: dict[str, tuple[bytes, str]] = {}
        self._names = 0
        self._then: tuple[bytes, list[bytes | None]] | None = None
        self._error = ""

    def fileno(self) -> int:
        return self._pgconn.socket

    def send(self, event: Event, sql: str) -> None:
        self._error = ""
        try:
            if event.values is None:
                self._pgconn.send_query(sql.encode())
                self._sent()
                return
            values = [None if value is None else value.encode() for value in event.values]
            if not event.prepared:
                self._pgconn.send_query_params(sql.encode(), values)
                self._sent()
                return
            name, text = self._prepared.get(event.prepared, (b"", ""))
            if text == sql:
                self._pgconn.send_query_prepared(name, values)
                self._sent()
                return
            self._names += 1
            name = f"r{self._names}".encode()
            self._prepared[event.prepared] = name, sql
            self._then = name, values
            self._pgconn.send_prepare(name, sql.encode())
            self._sent()
        except psycopg.Error as error:
            raise OSError(str(error)) from error

    def _sent(self) -> None:
        while self._pgconn.flush():
            select.select([], [self._pgconn.socket], [])
        if self._then is None:
            self._pgconn.set_chunked_rows_mode(_CHUNK_ROWS)

    def receive(self) -> str | None:
        pgconn = self._pgconn
        try:
            pgconn.consume_input()
            while not pgconn.is_busy():
                result = pgconn.get_result()
                if result is not None:
                    self._read(result)
                    continue
                if self._then is None or self._error:
                    self._then = None
                    return self._error
                name, values = self._then
                self._then = None
                pgconn.send_query_prepared(name, values)
                self._sent()
        except psycopg.Error:
            return LOST
        return None

    def _read(self, result: pq.abc.PGresult) -> None:
        if result.status == pq.ExecStatus.FATAL_ERROR:
            code = result.error_field(pq.DiagnosticField.SQLSTATE)
            self._error = code.decode() if code else LOST
        elif result.status == pq.ExecStatus.COPY_IN:
            self._pgconn.put_copy_end(b"its rows are not in the record")
        elif result.status == pq.ExecStatus.COPY_OUT:
            while self._pgconn.get_copy_data(0)[0] > 0:
                pass

    @property
    def in_transaction(self) -> bool:
        return self._pgconn.transaction_status in (
            pq.TransactionStatus.INTRANS,
            pq.TransactionStatus.INERROR,
        )

    def close(self) -> None:
        self._pgconn.finish()


class MySqlWire(Wire):
    """PyMySQL logs in; statements are sent and answers read here, without waiting for them."""

    def __init__(self, connection: Mapping[str, Any]) -> None:
        try:
            raw: Any = pymysql.connect(
                unix_socket=connection.get("socket"),
                host=connection.get("host"),
                port=connection.get("port") or 0,
                user=connection["user"],
                password=connection["password"],
                database=connection["database"],
                charset="utf8mb4",
                autocommit=None,
                client_flag=CLIENT.MULTI_STATEMENTS,
                program_name="harness",
                ssl_disabled=True,
            )
        except pymysql.Error as error:
            raise OSError(str(error)) from error
        self._raw = raw
        self._socket: socket.socket = raw._sock
        self._socket.settimeout(None)
        self._data = bytearray()
        self._status = 0
        #: What the next packet is, and the definitions of columns that come before the rows.
        self._expects, self._columns = "answer", 0
        self._continued = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, event: Event, sql: str) -> None:
        self._expects = "answer"
        payload, sequence = b"\x03" + sql.encode(), 0
        while True:
            part, payload = payload[:_PACKET], payload[_PACKET:]
            self._socket.sendall(len(part).to_bytes(3, "little") + bytes([sequence]) + part)
            sequence = (sequence + 1) & 0xFF
            if len(part) < _PACKET:
                return

    def receive(self) -> str | None:
        data = self._data
        try:
            block = self._socket.recv(_BLOCK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError:
            return LOST
        if not block:
            return LOST
        data += block
        position, answer = 0, None
        while answer is None and len(data) >= position + 4:
            size = int.from_bytes(data[position : position + 3], "little")
            end = position + 4 + size
            if len(data) < end:
                break
            continued, self._continued = self._continued, size == _PACKET
            if not continued:
                answer = self._packet(bytes(data[position + 4 : min(end, position + 64)]), size)
                if self._expects == "file":
                    sequence = (data[position + 3] + 1) & 0xFF
                    self._socket.sendall(b"\x00\x00\x00" + bytes([sequence]))
                    self._expects = "answer"
            position = end
        del data[:position]
        return answer

    def _packet(self, packet: bytes, size: int) -> str | None:
        """Read a packet; the error code where it ends the answer."""
        first = packet[0]
        if first == 0xFF:
            self._expects = "answer"
            return str(int.from_bytes(packet[1:3], "little"))
        if self._expects == "answer":
            if first == 0x00:
                _, position = _length(packet, 1)
                _, position = _length(packet, position)
                return self._ended(int.from_bytes(packet[position : position + 2], "little"))
            if first == 0xFB:
                self._expects = "file"
                return None
            self._columns, _ = _length(packet, 0)
            self._expects = "columns"
        elif self._expects == "columns":
            if self._columns:
                self._columns -= 1
            else:  # the end of the definitions
                self._expects = "rows"
        elif first == 0xFE and size < 9:
            return self._ended(int.from_bytes(packet[3:5], "little"))
        return None

    def _ended(self, status: int) -> str | None:
        self._expects, self._status = "answer", status
        return None if status & _MORE_RESULTS else ""

    @property
    def in_transaction(self) -> bool:
        return bool(self._status & _IN_TRANSACTION)

    def close(self) -> None:
        self._raw._force_close()


def _length(packet: bytes, position: int) -> tuple[int, int]:
    """A number of the protocol's own coding, and where it ends."""
    first = packet[position]
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
    if not width:
        return first, position + 1
    end = position + 1 + width
    return int.from_bytes(packet[position + 1 : end], "little"), end


WIRES = {"postgres": PostgresWire, "mysql": MySqlWire}
