"""Number of bytes that DuckDB spilled, which it reports only in its profiles.

A statement that only reads writes only to temporary files. So the bytes that the process wrote
with write(2) and similar calls (/proc/self/io, wchar, proc(5)) while such statements ran, minus
the bytes written to the pipe to the harness, are the spilled bytes, on any file system. If a
writing statement ran at the same time, the bytes cannot be attributed, and from then on the number
is unknown.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

_IO = Path("/proc/self/io")
_READING = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)


class SpillMeter:
    """Bytes spilled by this process's statements since its start. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[bool] = []  # for each statement: whether it only reads
        self._piped = 0
        self._seen = self._file_bytes()
        self._spilled = 0
        self._certain = True

    @contextmanager
    def piping(self, length: int) -> Iterator[None]:
        """Around a write of ``length`` bytes to the pipe."""
        with self._lock:
            yield
            self._piped += length

    def begin(self, reading: bool) -> None:
        with self._lock:
            self._settle()
            self._running.append(reading)

    def end(self, reading: bool) -> None:
        """A statement has ended, successfully or not."""
        with self._lock:
            self._settle()
            self._running.remove(reading)

    def spilled_bytes(self) -> int | None:
        """The sum so far; None if it cannot be distinguished from other writes."""
        with self._lock:
            self._settle()
            return self._spilled if self._certain else None

    def _settle(self) -> None:
        """Attribute the bytes written since the last call to the statements running since then."""
        now = self._file_bytes()
        written, self._seen = now - self._seen, now
        if written and any(self._running):
            self._certain = self._certain and all(self._running)
            self._spilled += written

    def _file_bytes(self) -> int:
        fields = dict(line.split(": ") for line in _IO.read_text().splitlines())
        return int(fields["wchar"]) - self._piped


def only_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> bool:
    """Whether every statement of the text is a query (or explains one)."""
    try:
        return all(item.type in _READING for item in connection.extract_statements(sql))
    except duckdb.Error:  # the execution will report it
        return False
