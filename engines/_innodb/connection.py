"""A connection that runs SQL text on MySQL or MariaDB and times it.

The server enforces time limits if it can: of any statement on MariaDB (``max_statement_time``),
of a SELECT on MySQL (``max_execution_time``). On MySQL, a KILL QUERY from a second connection
ends other statements.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql import err
from pymysql.connections import Connection, MySQLResult
from pymysql.constants import CR
from pymysql.protocol import EOFPacketWrapper, LoadLocalPacketWrapper, MysqlPacket

from engines._innodb.installation import TITLES, Flavour
from harness.engine import Credentials, QueryTimeout, SqlConnection, SqlResult, checksum
from harness.errors import RunFailed
from harness.sql_script import head
from harness.store.documents import attributes
from harness.supervise.silence import limit_s
from harness.supervise.user_files import acting_as

if TYPE_CHECKING:
    _Connection = Connection[Any]
else:  # generic in its stubs only
    _Connection = Connection


# Rows in the packets of the server ------------------------------------------------
#
# PyMySQL reads and converts a row in about 5 µs, which would be part of the measured time of a
# query with many rows. Here, a result stays in the packets that the server sent, and PyMySQL's
# decoders convert it when ``rows`` is first used. 18,314 rows of four columns (Q16 at scale 1)
# took 16 ms to fetch, 83 ms with PyMySQL alone and 16 ms with MySQL's C client, over the same
# socket (medians of 11).
#
# ``_rfile``, ``_read_query_result``, ``_read_rowdata_packet`` and ``_read_row_from_packet`` are
# not public: that is why pyproject.toml bounds PyMySQL's release.

_HEADER_BYTES = 4
#: A packet of this length continues in the next one.
_CONTINUED = 0xFFFFFF
#: First bytes of a packet that is not a row: end of rows (only in short packets), and an error.
_EOF, _ERROR = 0xFE, 0xFF
_EOF_BELOW_BYTES = 9
#: Rows that are not kept are dropped when there are as many.
_DROPPED_ROWS = 1000


class LazyConnection(_Connection):
    """A PyMySQL connection with LazyResult.

    ``local_file``: the only file that the server may request (LOAD DATA LOCAL).
    """

    local_file: bytes | None = None
    #: Rows of the statement under way that are kept.
    keep: int | None = None
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

    def run(self, sql: str, keep: int | None = None) -> LazyResult:
        """Send one statement and receive its whole result."""
        self.keep = keep
        self.query(sql)
        assert self._result is not None
        return self._result


class LazyResult(MySQLResult):
    """A result whose rows are converted when they are first used."""

    def __init__(self, connection: LazyConnection) -> None:
        self._packets = _Packets(connection.keep)
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
            packets = self._packets.rows
            self._rows = tuple(convert(MysqlPacket(p, self._encoding)) for p in packets)
            self._packets.rows = []
        return self._rows

    @rows.setter
    def rows(self, value: Any) -> None:
        self._rows = value

    def summed(self) -> tuple[int, int]:
        """Rows left out and the checksum of all rows, which are not converted yet."""
        packets = self._packets
        return packets.left_out, packets.checksum + checksum(packets.rows)

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
        self.affected_rows = len(self._packets.rows) + self._packets.left_out

    def _read_load_local_packet(self, first_packet: Any) -> None:
        connection: Any = self.connection
        requested = LoadLocalPacketWrapper(first_packet).filename
        if requested != connection.local_file:
            connection._force_close()
            raise err.OperationalError(
                CR.CR_SERVER_LOST, f"the server requested the file {requested!r}: not allowed"
            )
        super()._read_load_local_packet(first_packet)  # type: ignore[misc]


class _Packets:
    """Packets of rows: all, or the first ``keep`` ones, and a checksum of the others."""

    def __init__(self, keep: int | None) -> None:
        self.rows: list[bytes] = []
        self.left_out = 0
        self.checksum = 0
        self._keep = keep
        #: The number of packets at which the later ones are dropped.
        self.most = sys.maxsize if keep is None else keep + _DROPPED_ROWS

    def drop(self) -> None:
        """Drop the packets that are not kept."""
        if self._keep is not None and (dropped := self.rows[self._keep :]):
            self.checksum += checksum(dropped)
            self.left_out += len(dropped)
            del self.rows[self._keep :]


def _read_packets(connection: Any, packets: _Packets) -> bytes:
    """Append every row's packet to ``packets``; returns the packet after the last row."""
    rows, most, read = packets.rows, packets.most, connection._rfile.read
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
            packets.drop()
            return data
        rows.append(data)
        if len(rows) == most:
            packets.drop()


# Statements, timed ----------------------------------------------------------------

_KILL_AGAIN_S = 1.0
#: Independent of the server's default: truncated or rounded values are errors, not warnings.
_SQL_MODE = (
    "STRICT_ALL_TABLES,ONLY_FULL_GROUP_BY,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
)
#: ER_QUERY_TIMEOUT of MySQL and ER_STATEMENT_TIMEOUT of MariaDB.
_TIMED_OUT = frozenset({3024, 1969})
#: ER_QUERY_INTERRUPTED and ER_FILSORT_ABORT: ended by KILL, or in the middle of a sort.
_INTERRUPTED = frozenset({1317, 1028})


@dataclass(frozen=True)
class MySqlLogin:
    """A server's address and a user of it; its representation does not contain the password.

    ``socket_owner``: owner of the directory that contains the socket.
    """

    user: str
    password: str = field(repr=False)
    host: str | None = None
    port: int | None = None
    database: str | None = None
    socket: str | None = None
    ssl_ca: str | None = None
    socket_owner: Credentials | None = None

    @property
    def address(self) -> str:
        """Server and database, for messages and records, without user and password."""
        where = f"socket={self.socket}" if self.socket else f"host={self.host} port={self.port}"
        return f"{where} dbname={self.database}" if self.database else where

    def connect(self, database: str | None = None, local_infile: bool = False) -> LazyConnection:
        """A new connection in autocommit mode to ``database`` (default: the login's).

        Text compares by byte unless a column decides. Over TCP, the connection is encrypted if the
        server offers TLS; with ``ssl_ca``, TLS is required and the certificate is verified.
        ``local_infile``: whether LOAD DATA LOCAL may be used.
        """
        tls: dict[str, Any] = {}
        if self.socket is not None:
            tls = {"ssl_disabled": True}  # the socket is private, and TLS would cost time
        elif self.ssl_ca is not None:
            tls = {"ssl_ca": self.ssl_ca, "ssl_verify_cert": True, "ssl_verify_identity": True}
        with acting_as(self.socket_owner):
            connection = LazyConnection(
                unix_socket=self.socket,
                host=self.host,
                port=self.port or 0,
                user=self.user,
                password=self.password,
                database=database or self.database,
                local_infile=local_infile,
                charset="utf8mb4",
                collation="utf8mb4_bin",
                sql_mode=_SQL_MODE,
                autocommit=True,
                connect_timeout=limit_s("connect"),
                read_timeout=limit_s("connect"),  # of the login
                write_timeout=limit_s("connect"),
                program_name="harness",
                **tls,
            )
        connection.again = partial(self.connect, database, local_infile)
        connection.limit_answers(limit_s("statement"))
        return connection

    def native(self, database: str | None = None) -> dict[str, Any]:
        """The same for the native client, without members that are None."""
        members = attributes(self, "socket", "host", "port", "user", "password", "ssl_ca")
        members["database"] = database or self.database
        return {name: value for name, value in members.items() if value is not None}


def flavour_of(connection: LazyConnection) -> Flavour:
    """MySQL or MariaDB, by the version in the server's greeting."""
    info: Any = connection.get_server_info()  # type: ignore[no-untyped-call]
    return "mariadb" if "mariadb" in str(info).lower() else "mysql"


@contextmanager
def connecting(flavour: Flavour) -> Iterator[None]:
    """RunFailed if a connection cannot be opened."""
    try:
        yield
    except pymysql.Error as error:
        raise RunFailed(f"connect to {TITLES[flavour]}", message(error)) from error


class MySqlConnection(SqlConnection):
    """PyMySQL in autocommit mode; ``raw`` is its connection (see :class:`LazyConnection`).

    ``execute("BEGIN")`` and ``execute("COMMIT")`` make a transaction.
    """

    def __init__(self, raw: LazyConnection) -> None:
        self.raw = raw
        self.flavour = flavour_of(raw)
        self._limit_s = 0.0

    def execute(
        self, sql: str, *, timeout_s: float | None = None, keep: int | None = None
    ) -> SqlResult:
        """Run one statement; QueryTimeout at the limit, RunFailed on an SQL error.

        The time excludes the conversion of rows, and includes the checksum of those left out.
        """
        started = time.monotonic_ns()
        killed = threading.Event()
        try:
            self._limit(timeout_s)
            with self._killed_at(sql, timeout_s, killed):
                started = time.monotonic_ns()
                result = self.raw.run(sql, keep)
                duration = time.monotonic_ns() - started
            left_out, total = (0, 0) if keep is None else result.summed()
            rows = list(result.rows or ())
            return SqlResult(result.columns, rows, started, duration, left_out, total)
        except pymysql.Error as error:
            over = timeout_s is not None and time.monotonic_ns() - started >= timeout_s * 1e9
            if timeout_s is not None and _reached_limit(error, over or killed.is_set()):
                raise QueryTimeout(f"{head(sql)}: no answer within {timeout_s:g} s") from error
            raise failed(self.flavour, sql, error) from error

    def run(self, sql: str) -> LazyResult:
        """Run one statement and return its raw result; RunFailed on an error."""
        try:
            self._limit(None)
            return self.raw.run(sql)
        except pymysql.Error as error:
            raise failed(self.flavour, sql, error) from error

    @property
    def open(self) -> bool:
        """Return whether statements can be run on it."""
        return bool(self.raw.open)

    def cancel(self) -> None:
        """End the running statement, from any thread. The connection stays open."""
        number = self.raw.thread_id()  # type: ignore[no-untyped-call]
        with (
            contextlib.suppress(pymysql.Error),
            contextlib.closing(self.raw.again()) as other,
        ):
            other.query(f"KILL QUERY {number}")

    def close(self) -> None:
        close(self.raw)

    def _limit(self, timeout_s: float | None) -> None:
        """Set the server's limit, outside the timed statement; rounded up, never early."""
        seconds = timeout_s or 0.0
        if seconds == self._limit_s:
            return
        if self.flavour == "mariadb":
            self.raw.query(f"SET SESSION max_statement_time = {math.ceil(seconds * 1e6) / 1e6:.6f}")
        else:
            milliseconds = math.ceil(seconds * 1000)
            self.raw.query(f"SET SESSION max_execution_time = {milliseconds}")
        self._limit_s = seconds

    @contextmanager
    def _killed_at(
        self, sql: str, timeout_s: float | None, fired: threading.Event
    ) -> Iterator[None]:
        """End statements to which MySQL's limit does not apply; sets ``fired`` before."""
        if timeout_s is None or self.flavour == "mariadb" or _is_select(sql):
            yield
            return

        ended = threading.Event()

        def kill() -> None:
            fired.set()
            while not ended.is_set():  # a KILL before the statement starts has no effect
                self.cancel()
                ended.wait(_KILL_AGAIN_S)

        timer = threading.Timer(timeout_s, kill)
        timer.start()
        try:
            yield
        finally:
            ended.set()
            timer.cancel()
            timer.join()
            if fired.is_set():  # a KILL that arrives late would end the next statement
                with contextlib.suppress(pymysql.Error):
                    self.raw.query("DO 0")


def close(raw: LazyConnection) -> None:
    """Close; no error when the server is gone."""
    with contextlib.suppress(pymysql.Error, OSError):
        raw.close()


def message(error: pymysql.Error) -> str:
    """The server's words, with its error number."""
    code, *words = error.args or ("?",)
    if code == 0:  # PyMySQL's own error, without a request to the server
        return "the connection is closed"
    return f"{' '.join(map(str, words)).strip() or type(error).__name__} (error {code})"


def failed(flavour: Flavour, sql: str, error: pymysql.Error) -> RunFailed:
    """A RunFailed for the error of a statement."""
    return RunFailed(f"{TITLES[flavour]}: {head(sql)}", message(error))


def server_error(error: BaseException) -> int | None:
    """The number of the server's error that caused ``error``, None if there is none."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, pymysql.Error):
            return link.args[0] if link.args else None
        link = link.__cause__
    return None


def _reached_limit(error: pymysql.Error, over: bool) -> bool:
    """Return whether the limit ended the statement, not another user's KILL.

    ``over``: the time limit has passed, or the harness has sent a KILL. The timer of that KILL
    starts before the statement, so it may end a statement slightly before its limit.
    """
    code = error.args[0] if error.args else None
    return code in _TIMED_OUT or (code in _INTERRUPTED and over)


def _is_select(sql: str) -> bool:
    return sql.lstrip("( \n\t").lower().startswith("select")
