"""How much DuckDB has spilled, which it does not add up itself outside its profiles.

A statement that only reads writes to no file but temporary ones. So what the process
wrote through write(2) and its kin (/proc/self/io, wchar, proc(5)) while such statements
ran, less what went into the pipe to the harness, is what they spilled: a tmpfs or DAX
below the temporary directory changes nothing in that. Where a statement that writes ran
beside them, nobody can tell whose bytes were whose, and from then on nothing is said.
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
    """Bytes spilled by this process's statements since it began. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[bool] = []  # of each statement: whether it only reads
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
        """A statement is about to run."""
        with self._lock:
            self._settle()
            self._running.append(reading)

    def end(self, reading: bool) -> None:
        """It has ended, well or not."""
        with self._lock:
            self._settle()
            self._running.remove(reading)

    def spilled_bytes(self) -> int | None:
        """The sum so far; None where it cannot be told from other writes."""
        with self._lock:
            self._settle()
            return self._spilled if self._certain else None

    def _settle(self) -> None:
        """Count what was written since the last look to those that ran meanwhile."""
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
        return all(one.type in _READING for one in connection.extract_statements(sql))
    except duckdb.Error:  # it will say so when it is executed
        return False
