"""Statements of PostgreSQL's csvlog and jsonlog.

With ``log_min_duration_statement=0`` a line follows the end of each step (parse, bind, execute),
with its duration; with ``log_statement=all`` a line precedes a statement, and its duration may
follow in a line of its own. A statement's parameters are in DETAIL; of one that failed, in that
of its bind step.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import BinaryIO

import msgspec

from harness.capture.logs import by_time, opened_log
from harness.capture.losses import Losses
from harness.capture.recording import OwnedStatement, RecordedStatement
from harness.capture.replay_file import APPLICATION
from harness.errors import UsageError

#: Fields of csvlog by release: 13 added the backend's type, 14 leader and query.
_COLUMNS = (
    "timestamp", "user", "dbname", "pid", "host", "session_id", "line_num", "ps", "session_start",
    "vxid", "txid", "error_severity", "state_code", "message", "detail", "hint", "internal_query",
    "internal_position", "context", "statement", "cursor_position", "location",
    "application_name", "backend_type", "leader_pid", "query_id",
)  # fmt: skip
_FEWEST_COLUMNS = 23
_BEGINS_CSV = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [A-Za-z0-9+:-]+,")
_TIME = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) (?P<zone>[A-Za-z]+|[+-]\d\d(?::?\d\d)?)"
)
_STEP = re.compile(
    r"(?:duration: (?P<ms>[\d.]+) ms(?:  |$))?"
    r"(?:(?P<step>statement|parse|bind|execute(?: fetch from)?)(?: (?P<name>\S+))?: (?P<sql>.*))?",
    re.DOTALL,
)
_PARAMETERS = re.compile(r"\s*parameters: ", re.IGNORECASE)
_PARAMETER = re.compile(r"\$(\d+) = (?:(NULL)|'((?:[^']|'')*)')(?:, |$)")
_EXECUTES = re.compile(r"\s*execute\s+([\w\"]+)", re.IGNORECASE)
_PREPARES = re.compile(r"\s*prepare\s+([\w\"]+)", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\$\d")
#: Longest line of a statement that is believed.
csv.field_size_limit(1 << 28)


class _LogRow(msgspec.Struct):
    """A line of the log; jsonlog leaves out what is empty."""

    timestamp: str
    error_severity: str = ""
    message: str = ""
    user: str = ""
    dbname: str = ""
    session_id: str = ""
    session_start: str = ""
    vxid: str = ""
    state_code: str = ""
    detail: str = ""
    statement: str = ""
    application_name: str = ""
    backend_type: str = ""


@dataclass
class _LogSession:
    """``step_us``: begin of the steps before the next execution. ``bound``: text and values of the
    last bind step. ``pending``: a statement whose duration may follow.
    """

    step_us: int | None = None
    bound: tuple[str, list[str | None]] | None = None
    pending: RecordedStatement | None = None
    prepared: set[str] = field(default_factory=set)


class PostgresLog:
    """Reads the files of a log, in the order of their times."""

    def __init__(self, files: Sequence[Path], losses: Losses) -> None:
        self._losses = losses
        self._sessions: dict[str, _LogSession] = {}
        self._zone = ""
        self._zone_offset = timedelta()
        self._first_us: int | None = None
        self._files = by_time(files, self._time_of, "csvlog", losses)

    def statements(self) -> Iterator[OwnedStatement]:
        """Yield the statements of all clients as they end."""
        for path in self._files:
            with opened_log(path) as stream:
                for place, row in self._rows(path, stream):
                    if row.backend_type not in ("", "client backend") or not row.session_id:
                        if row.backend_type == "walsender":
                            self._losses.add("replication", place)
                        continue
                    if row.application_name == APPLICATION:
                        self._losses.add("statements of a capture itself", place)
                        continue
                    if not row.dbname:
                        continue
                    time_us = self._us(row.timestamp, place)
                    if self._first_us is None:
                        self._first_us = time_us
                    for statement in self._read(row, time_us, place):
                        yield OwnedStatement(statement, row.dbname, row.user)
        for session_id, session in self._sessions.items():
            if session.pending is not None:
                self._losses.add("statements without an end: their session may be lost", session_id)

    def _time_of(self, line: bytes) -> tuple[str, int] | None:
        if line.startswith(b"{"):
            try:
                return "jsonlog", self._us(msgspec.json.decode(line, type=_LogRow).timestamp, "")
            except msgspec.DecodeError:
                return None
        match = _BEGINS_CSV.match(line)
        return ("csvlog", self._us(match[0][:-1].decode(), "")) if match else None

    # Lines ---------------------------------------------------------------------

    def _rows(self, path: Path, stream: BinaryIO) -> Iterator[tuple[str, _LogRow]]:
        first = stream.readline()
        if first.startswith(b"{"):
            yield from self._json_rows(path, _chained(first, stream))
        else:
            yield from self._csv_rows(path, _chained(first, stream))

    def _json_rows(self, path: Path, lines: Iterable[bytes]) -> Iterator[tuple[str, _LogRow]]:
        decode = msgspec.json.Decoder(_LogRow).decode
        for number, line in enumerate(lines, 1):
            place = f"{path.name}:{number}"
            try:
                yield place, decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                if line.strip():
                    self._losses.add("lines that are cut off", place)

    def _csv_rows(self, path: Path, lines: Iterable[bytes]) -> Iterator[tuple[str, _LogRow]]:
        record, begin, quotes = b"", 1, 0
        for number, line in enumerate(lines, 1):
            if record and _BEGINS_CSV.match(line) and not _closes(record, quotes):
                self._losses.add("lines that are cut off", f"{path.name}:{begin}")
                record, quotes = b"", 0
            if not record:
                begin = number
            record += line
            quotes += line.count(b'"')
            if _closes(record, quotes):
                yield from self._csv_row(f"{path.name}:{begin}", record)
                record, quotes = b"", 0
        if record:
            self._losses.add("lines that are cut off", f"{path.name}:{begin}")

    def _csv_row(self, place: str, record: bytes) -> Iterator[tuple[str, _LogRow]]:
        text = record.decode("utf-8", errors="replace")
        fields = next(csv.reader([text], strict=False), [])
        if len(fields) < _FEWEST_COLUMNS or not _BEGINS_CSV.match(record):
            self._losses.add("lines that are cut off", place)
            return
        values = dict(zip(_COLUMNS, fields, strict=False))
        yield place, _LogRow(**{name: values.get(name, "") for name in _LogRow.__struct_fields__})

    def _us(self, text: str, place: str) -> int:
        match = _TIME.match(text)
        if match is None:
            raise UsageError(f"log {place}", f"not a time: {text[:40]}", "name a csvlog or jsonlog")
        if match["zone"] != self._zone:
            self._set_zone(match["zone"], place)
        moment = datetime.fromisoformat(match["time"]).replace(tzinfo=timezone(self._zone_offset))
        return round(moment.timestamp() * 1e6)

    def _set_zone(self, zone: str, place: str) -> None:
        """Names of zones have no offset: times of a single one are compared with one another."""
        numbers = re.fullmatch(r"([+-]\d\d):?(\d\d)?", zone)
        utc = zone in ("UTC", "GMT")
        before = self._zone
        if not numbers and not utc and before not in ("", zone):
            raise UsageError(
                f"log {place}",
                f"its time zone changes from {before} to {zone}",
                "capture the part before it alone; log_timezone=UTC has no such change",
            )
        self._zone = zone
        sign = -1 if numbers and zone.startswith("-") else 1
        self._zone_offset = (
            timedelta(hours=int(numbers[1]), minutes=sign * int(numbers[2] or 0))
            if numbers
            else timedelta()
        )

    # Statements ----------------------------------------------------------------

    def _read(self, row: _LogRow, time_us: int, place: str) -> Iterator[RecordedStatement]:
        session = self._sessions.setdefault(row.session_id, _LogSession())
        if row.error_severity in ("ERROR", "FATAL"):
            yield from self._failed(session, row, time_us, place)
            return
        if row.error_severity != "LOG":
            return
        if row.message.startswith("disconnection:"):
            yield from _flushed(session)
            del self._sessions[row.session_id]
            return
        match = _STEP.match(row.message)
        if match is not None and match[0]:
            yield from self._step(session, row, match, time_us, place)
        elif row.message.startswith("fastpath function call"):
            self._losses.add("calls of functions without SQL (fastpath)", place)

    def _step(
        self, session: _LogSession, row: _LogRow, match: re.Match[str], time_us: int, place: str
    ) -> Iterator[RecordedStatement]:
        took_us = None if match["ms"] is None else round(float(match["ms"]) * 1000)
        began_us = time_us - (took_us or 0)
        step = match["step"]
        if step is None:  # the end of a statement whose text was logged before
            if session.pending is not None:
                session.pending.took_us = time_us - session.pending.began_us
            yield from _flushed(session)
            return
        yield from _flushed(session)
        if step in ("parse", "bind"):
            if session.step_us is None:
                session.step_us = began_us
            if step == "bind":
                session.bound = match["sql"], _values(row.detail)
            return
        if session.step_us is not None:
            began_us = session.step_us
        session.step_us = session.bound = None
        if step == "execute fetch from":
            self._losses.add("fetches of more rows of a result: it is received as a whole", place)
            return
        statement = self._statement(session, row, match["sql"], place)
        statement.began_us = began_us
        statement.took_us = -1 if took_us is None else time_us - began_us
        if step == "execute":
            name = (match["name"] or "").partition("/")[0]
            statement.prepared = "" if name == "<unnamed>" else name
            statement.values = _values(row.detail)
            if any(value and value.endswith("...") for value in statement.values):
                self._losses.add("ends of values, perhaps (log_parameter_max_length)", place)
        yield from self._named(session, row, statement)
        session.pending = statement
        if took_us is not None:
            yield from _flushed(session)

    def _statement(
        self, session: _LogSession, row: _LogRow, sql: str, place: str
    ) -> RecordedStatement:
        new = bool(row.session_start) and self._us(row.session_start, place) >= (
            (self._first_us or 0) - 1_000_000
        )
        return RecordedStatement(row.session_id, 0, -1, sql, place, row.vxid, new)

    def _named(
        self, session: _LogSession, row: _LogRow, statement: RecordedStatement
    ) -> Iterator[RecordedStatement]:
        """Yield the PREPARE of a statement that was prepared before the record."""
        if statement.values is not None:
            return
        if made := _PREPARES.match(statement.sql):
            session.prepared.add(made[1])
        executed = _EXECUTES.match(statement.sql)
        if executed and executed[1] not in session.prepared:
            session.prepared.add(executed[1])
            if row.detail.startswith("prepare: "):
                sql = row.detail.removeprefix("prepare: ")
                before = RecordedStatement(
                    statement.session, statement.began_us, 0, sql, statement.place,
                    statement.transaction, statement.new,
                )  # fmt: skip
                yield before

    def _failed(
        self, session: _LogSession, row: _LogRow, time_us: int, place: str
    ) -> Iterator[RecordedStatement]:
        pending = session.pending
        if pending is not None and (not row.statement or pending.sql == row.statement):
            pending.error, pending.took_us = row.state_code, time_us - pending.began_us
            session.step_us = session.bound = None
            yield from _flushed(session)
            return
        yield from _flushed(session)
        step_us, bound = session.step_us, session.bound
        session.step_us = session.bound = None
        if not row.statement:
            return
        statement = self._statement(session, row, row.statement, place)
        statement.began_us = time_us if step_us is None else step_us
        statement.took_us = -1 if step_us is None else time_us - step_us
        statement.error = row.state_code
        if bound is not None and bound[0] == row.statement:
            statement.values = bound[1]
        elif _PLACEHOLDER.search(row.statement):
            self._losses.add("failed statements whose parameters are not in the log", place)
            return
        yield statement


def _flushed(session: _LogSession) -> Iterator[RecordedStatement]:
    if session.pending is not None:
        yield session.pending
        session.pending = None


def _values(detail: str) -> list[str | None]:
    """The parameters of a DETAIL; none where it has none."""
    head = _PARAMETERS.match(detail)
    if head is None:
        return []
    return [
        None if null else text.replace("''", "'")
        for _, null, text in _PARAMETER.findall(detail, head.end())
    ]


def _closes(record: bytes, quotes: int) -> bool:
    return not quotes % 2 and record.endswith(b"\n")


def _chained(first: bytes, stream: BinaryIO) -> Iterator[bytes]:
    yield first
    yield from stream
