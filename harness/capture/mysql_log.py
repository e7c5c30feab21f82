"""Statements of the slow log (``long_query_time=0``) and of the general log of MySQL and MariaDB.

The slow log has an entry at the end of each statement: comment lines, ``use``, ``SET timestamp``,
the statement. The general log has a line at the beginning of each, without its duration. MariaDB's
have whole seconds: statements of a second are spread evenly in it, in their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from harness.capture.logs import by_time, opened_log
from harness.capture.losses import Losses
from harness.capture.recording import OwnedStatement, RecordedStatement

_BANNER = re.compile(
    r".*, Version: .*started with:$|Tcp port: \d+ |Time\s+Id\s+Command\s+Argument$"
)
_TIME = re.compile(r"# Time: (.+)$")
_USER = re.compile(r"# User@Host: (?P<user>[^\[]*)\[[^\]]*\] @ .*?(?:\bId:\s*(?P<id>\d+))?\s*$")
_THREAD = re.compile(r"# Thread_id: (?P<id>\d+)\s+Schema: (?P<schema>\S*)")
_FIELD = re.compile(r"(\w+): (\S+)")
_USE = re.compile(r"use [`\"]?(.+?)[`\"]?;$", re.IGNORECASE)
_TIMESTAMP = re.compile(r"SET timestamp=(\d+)(?:\.\d+)?;$")
_GENERAL = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\S+|\d{6} [ \d]\d:\d\d:\d\d)?\t{1,2} *(?P<id>\d+) "
    r"(?P<command>[A-Z][A-Za-z]*(?: [A-Za-z]+)?)\t(?P<text>.*)$",
    re.DOTALL,
)
_CONNECTED = re.compile(r"(?P<user>[^@]*)@\S+(?: as \S+)?(?: on (?P<database>\S+))?")
_SQL_PREPARE = re.compile(r"\s*prepare\s+([`\w]+)\s+from\s+(.*)", re.IGNORECASE | re.DOTALL)
_SQL_EXECUTE = re.compile(r"\s*execute\s+([`\w]+)", re.IGNORECASE)
_SYSTEM_USERS = frozenset({"event_scheduler", "system user", "mysql.session", "mariadb.sys"})
_US = 1_000_000


@dataclass
class _LogEntry:
    """An entry of the slow log. ``body``: the lines after its comments."""

    place: str
    time_us: int | None = None
    user: str = ""
    thread: str = ""
    schema: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    body: list[str] = field(default_factory=list)


@dataclass
class _LogSession:
    """``new``: it was seen to connect."""

    user: str = ""
    database: str = ""
    new: bool = False
    prepared: set[str] = field(default_factory=set)


class MySqlLog:
    """Reads the files of a log, in the order of their times.

    ``errors_known``: of the statements so far, whether the log has their errors. ``spread``: see
    the module.
    """

    def __init__(self, files: Sequence[Path], losses: Losses) -> None:
        self.errors_known = True
        self.spread = False
        self._losses = losses
        self._database = ""
        #: Of the sessions before and after a restart of the server, which have the same numbers.
        self._start = 0
        self._sessions: dict[str, _LogSession] = {}
        self._same_second: list[OwnedStatement] = []
        self._second_us = 0
        self._files = by_time(files, _time_of, "slow log", losses)

    def statements(self) -> Iterator[OwnedStatement]:
        """Yield the statements of all clients."""
        for path in self._files:
            with opened_log(path) as stream:
                yield from self._file(self._lines(path, stream))
        yield from self._spread_out()

    def _lines(self, path: Path, stream: Iterable[bytes]) -> Iterator[tuple[str, str]]:
        """Yield place and text of each line but those that a server writes when it starts."""
        for number, raw in enumerate(stream, 1):
            line = raw.decode("utf-8", errors="replace").rstrip("\r\n")
            if _BANNER.match(line):
                self._start += "started with:" in line
            else:
                yield f"{path.name}:{number}", line

    def _file(self, lines: Iterator[tuple[str, str]]) -> Iterator[OwnedStatement]:
        for place, line in lines:
            general = _GENERAL.match(line) is not None
            if general or _TIME.match(line) or _USER.match(line):
                read = self._general_log if general else self._slow_log
                yield from read(chain([(place, line)], lines))
            elif line:
                self._losses.add("lines that are cut off", place)

    # The slow log --------------------------------------------------------------

    def _slow_log(self, lines: Iterator[tuple[str, str]]) -> Iterator[OwnedStatement]:
        entry = _LogEntry("")
        time_us: int | None = None
        for place, line in lines:
            if (match := _TIME.match(line)) is not None:
                yield from self._slow(entry)
                time_us = _moment(match[1])
                entry = _LogEntry(place, time_us)
            elif (match := _USER.match(line)) is not None:
                if not entry.place or entry.user:
                    yield from self._slow(entry)
                    entry = _LogEntry(place, time_us)
                entry.user, entry.thread = match["user"].strip(), match["id"] or ""
            elif not entry.body and line.startswith("# ") and "administrator command" not in line:
                if (match := _THREAD.match(line)) is not None:
                    entry.thread, entry.schema = match["id"], match["schema"]
                entry.fields |= dict(_FIELD.findall(line))
            else:
                entry.body.append(line)
        yield from self._slow(entry)

    def _slow(self, entry: _LogEntry) -> Iterator[OwnedStatement]:
        if not entry.place:
            return
        body, stamp_us = entry.body, None
        if body and (match := _USE.match(body[0])) is not None and len(body) > 1:
            self._database, body = match[1], body[1:]
        if body and (match := _TIMESTAMP.match(body[0])) is not None:
            stamp_us, body = int(match[1]) * _US, body[1:]
        sql = "\n".join(body).rstrip()
        if not entry.user or "Query_time" not in entry.fields or not sql.endswith(";"):
            self._losses.add("lines that are cut off", entry.place)
            return
        session_id = f"{self._start}-{entry.thread}"
        if sql.startswith("# administrator command:"):
            if sql.startswith("# administrator command: Binlog Dump"):
                self._losses.add("replication", entry.place)
            return
        if entry.schema:
            self._database = entry.schema
        session = self._sessions.setdefault(session_id, _LogSession())
        session.user, session.database = entry.user, self._database
        took_us = round(float(entry.fields["Query_time"]) * _US)
        errno = entry.fields.get("Errno")
        self.errors_known &= errno is not None
        end_us = entry.time_us if entry.time_us is not None else stamp_us
        if end_us is None:
            self._losses.add("lines that are cut off", entry.place)
            return
        self._set_second("" if end_us % _US else "whole", end_us)
        statement = RecordedStatement(session_id, end_us - took_us, took_us, sql[:-1], entry.place)
        statement.error = errno if errno not in (None, "0") else ""
        yield from self._made(session, statement, end_us)

    # The general log -----------------------------------------------------------

    def _general_log(self, lines: Iterator[tuple[str, str]]) -> Iterator[OwnedStatement]:
        begun: tuple[str, re.Match[str], list[str]] | None = None
        for place, line in lines:
            match = _GENERAL.match(line)
            if match is None:
                assert begun is not None  # a line of this kind is the first
                begun[2].append(line)
                continue
            if begun is not None:
                yield from self._general(*begun)
            if match["time"]:
                self._set_second(match["time"], _moment(match["time"]))
            begun = place, match, [match["text"]]
        if begun is not None:
            yield from self._general(*begun)

    def _general(
        self, place: str, line: re.Match[str], texts: list[str]
    ) -> Iterator[OwnedStatement]:
        session_id, command = f"{self._start}-{line['id']}", line["command"]
        sql = "\n".join(texts).strip()
        session = self._sessions.setdefault(session_id, _LogSession())
        self.errors_known = False
        if command == "Connect":
            if connected := _CONNECTED.match(sql):
                session.user, session.new = connected["user"], True
                session.database = connected["database"] or ""
        elif command == "Init DB":
            session.database = sql
        elif command == "Quit":
            del self._sessions[session_id]
        elif command.startswith(("Binlog", "Register")):
            self._losses.add("replication", place)
        elif command in ("Query", "Execute") and sql:
            # SQL's EXECUTE is followed by a line with the statement that it executes.
            if command == "Query" and (_SQL_PREPARE.match(sql) or _SQL_EXECUTE.match(sql)):
                return
            began_us = self._second_us
            statement = RecordedStatement(session_id, began_us, -1, sql, place, new=session.new)
            yield from self._made(session, statement, began_us)

    # Both ----------------------------------------------------------------------

    def _made(
        self, session: _LogSession, statement: RecordedStatement, time_us: int
    ) -> Iterator[OwnedStatement]:
        if session.user in _SYSTEM_USERS:
            self._losses.add("sessions of the server itself", statement.place)
            return
        if made := _SQL_PREPARE.match(statement.sql):
            if made[2].strip() == "...":
                self._losses.add("PREPARE and EXECUTE without their text", statement.place)
                return
            session.prepared.add(made[1])
        executed = _SQL_EXECUTE.match(statement.sql)
        if executed and executed[1].lower() != "immediate" and executed[1] not in session.prepared:
            self._losses.add("PREPARE and EXECUTE without their text", statement.place)
            return
        owned = OwnedStatement(statement, session.database, session.user)
        if not self.spread:
            yield owned
            return
        if self._same_second and time_us // _US != self._pending_us // _US:
            yield from self._spread_out()
        self._pending_us = time_us
        self._same_second.append(owned)

    _pending_us = 0

    def _set_second(self, text: str | None, time_us: int | None) -> None:
        """Note the time of the lines that follow, and whether it is a whole second."""
        if time_us is not None:
            self._second_us = time_us
        if text and "." not in text:
            self.spread = True

    def _spread_out(self) -> Iterator[OwnedStatement]:
        count = len(self._same_second)
        for number, owned in enumerate(self._same_second):
            owned.statement.began_us += number * _US // count
            yield owned
        self._same_second = []


def _time_of(line: bytes) -> tuple[str, int] | None:
    text = line.decode("utf-8", errors="replace").rstrip("\r\n")
    if (stamp := _TIMESTAMP.match(text)) is not None:
        return "slow log", int(stamp[1]) * _US
    slow, general = _TIME.match(text), _GENERAL.match(text)
    moment = _moment(slow[1] if slow else general["time"] or "" if general else "")
    return None if moment is None else ("slow log" if slow else "general log", moment)


def _moment(text: str) -> int | None:
    """Microseconds of ``2026-11-29T23:03:32.598448Z`` and of ``261129 23:03:23``."""
    try:
        if "T" in text:
            moment = datetime.fromisoformat(text)
        else:
            day, _, clock = text.partition(" ")
            moment = datetime.strptime(f"{day} {clock.strip()}", "%y%m%d %H:%M:%S")
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * _US)
