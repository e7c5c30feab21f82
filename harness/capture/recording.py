"""From the statements of a log to a replay file: selected, sorted by their begin, written.

Statements come in the order in which they end, session by session in their own order. Sorting
takes place in files, so memory does not grow with their number.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from harness.capture.classes import class_name, class_text
from harness.capture.losses import Losses
from harness.capture.replay_file import (
    FORMAT,
    Dialect,
    Event,
    Header,
    StatementClass,
    decode_event,
    encode,
)
from harness.errors import UsageError
from harness.sql_script import kind_of
from harness.supervise.own_files import replacing

#: Statements that are sorted in memory at a time.
_RUN = 200_000
#: Classes that are distinguished; all others are a class of their own.
MOST_CLASSES = 1000
#: Statements of a session that are kept back until it is clear whether its first transaction began
#: before the record.
_UNDECIDED = 1000
_BEGINS = re.compile(r"\s*(?:begin\b(?!\s+not\s+atomic)|start\s+transaction\b)", re.IGNORECASE)
_ENDS = re.compile(
    r"\s*(?:commit|end|abort|rollback(?!\s+(?:(?:work|transaction)\s+)?to\b)"
    r"|prepare\s+transaction)\b",
    re.IGNORECASE,
)
_CHAINS = re.compile(r"\band\s+chain\b", re.IGNORECASE)
_ADMINISTERS = re.compile(
    r"\s*(?:alter\s+system|shutdown|kill|checkpoint|flush|reset\s+(?:master|binary|slave|replica)"
    r"|set\s+(?:global|persist)\b|set\s+@@(?:global|persist)\b|(?:start|stop)\s+(?:slave|replica)"
    r"|(?:create|alter|drop)\s+(?:role|user|tablespace|subscription|publication|server)"
    r"|install|uninstall)\b|.*\bpg_(?:terminate|cancel)_backend\s*\(",
    re.IGNORECASE | re.DOTALL,
)
#: Statements that are not replayed, and why.
_REFUSED = {
    re.compile(r"\s*(?:un)?listen\b", re.IGNORECASE): (
        "LISTEN: no other session's messages are waited for"
    ),
    re.compile(
        r"\s*(?:set\s+(?:local\s+|session\s+)?(?:role|session\s+authorization)|reset\s+role)\b",
        re.IGNORECASE,
    ): "changes of the role: all sessions have the run's own",
    _ADMINISTERS: "administration of the server",
    re.compile(r"\s*(?:copy\b|load\s+data\b)", re.IGNORECASE): (
        "COPY and LOAD DATA: their rows are not in the log"
    ),
}
#: The first words of those that have to be read further.
_SUSPECT = re.compile(
    r"\s*(?:create|alter|drop|use|copy|load|grant|revoke|set|import|source|change)\b", re.IGNORECASE
)


@dataclass(slots=True)
class RecordedStatement:
    """A statement of a log. Times in microseconds since 1970.

    ``session``: unique in the record. ``transaction``: equal for the statements of a transaction,
    where the log says so. ``place``: file and line. ``new``: its session began in the record.
    The others are those of :class:`~harness.capture.replay_file.Event`.
    """

    session: str
    began_us: int
    took_us: int
    sql: str
    place: str
    transaction: str = ""
    new: bool = False
    error: str = ""
    prepared: str = ""
    values: list[str | None] | None = None


@dataclass(frozen=True, slots=True)
class OwnedStatement:
    """A statement, the database that it is for, and the user whose it is."""

    statement: RecordedStatement
    database: str
    user: str


@dataclass
class _SessionState:
    """``decided``: whether statements are known to be whole transactions. ``waiting``: the others.

    ``prepared``: names of statements that SQL's PREPARE made.
    """

    number: int
    decided: bool
    waiting: list[RecordedStatement] = field(default_factory=list)
    inside: bool = False
    count: int = 0
    prepared: set[str] = field(default_factory=set)


@dataclass
class _ClassTotals:
    """``number``: in the order of the first occurrence; ``example``: that statement."""

    number: int
    text: str
    example: str
    count: int = 0
    took_us: int = 0
    untimed: int = 0
    errors: int = 0


class Recorder:
    """Takes the statements of one database and writes them.

    ``folder``: for the sorted runs, which are as private as the record.
    """

    def __init__(self, dialect: Dialect, folder: Path, losses: Losses) -> None:
        self._dialect: Dialect = dialect
        self._folder = folder
        self._losses = losses
        self._sessions: dict[str, _SessionState] = {}
        self._classes: dict[str, _ClassTotals] = {}
        self._run: list[tuple[int, int, bytes]] = []
        self._runs: list[BinaryIO] = []
        self._order = 0
        self._first_us, self._last_us = 1 << 62, 0
        self._transactions = 0
        self._stack = ExitStack()
        #: A statement of each class, by its name, with its literals.
        self.examples: dict[str, str] = {}

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def take(self, statement: RecordedStatement) -> None:
        """Add a statement, unless it is not to be replayed."""
        if reason := self._refused(statement.sql):
            self._losses.add(reason, statement.place)
            return
        session = self._sessions.get(statement.session)
        if session is None:
            number = len(self._sessions)
            session = self._sessions[statement.session] = _SessionState(number, statement.new)
        if session.decided:
            self._add(session, statement)
            return
        waiting = session.waiting
        begins, ends = _BEGINS.match(statement.sql), _ENDS.match(statement.sql)
        other = waiting and statement.transaction and not ends and (
            statement.transaction != waiting[-1].transaction
        )  # fmt: skip
        if ends:  # of a transaction that began before the record
            same = waiting[-1].transaction if waiting else ""
            cut = [s for s in waiting if not same or s.transaction == same]
            self._losses.add(
                "statements of a transaction that began before the record",
                statement.place,
                len(cut) + 1,
            )
            session.waiting = [s for s in waiting if s not in cut]
            self._decide(session)
        elif begins or other or len(waiting) >= _UNDECIDED:
            self._decide(session)
            self._add(session, statement)
        else:
            waiting.append(statement)

    def _decide(self, session: _SessionState) -> None:
        session.decided = True
        for statement in session.waiting:
            self._add(session, statement)
        session.waiting = []

    def _refused(self, sql: str) -> str:
        """Return why the statement is not replayed; empty if it is."""
        for pattern, reason in _REFUSED.items():
            if pattern.match(sql):
                return reason
        if _SUSPECT.match(sql):
            what = kind_of(sql, self._dialect == "mysql").what
            if what in ("database", "file"):
                return "databases and files of the server"
            if what == "origin" and sql.lstrip()[:3].lower() != "set":
                return "owners and rights"
        return ""

    def _add(self, session: _SessionState, statement: RecordedStatement) -> None:
        sql = statement.sql
        if _BEGINS.match(sql):
            session.inside = True
            self._transactions += 1
        elif session.inside and _ENDS.match(sql):
            session.inside = bool(_CHAINS.search(sql))
        elif not session.inside:
            self._transactions += 1
        text = class_text(sql, self._dialect)
        totals = self._classes.get(text)
        if totals is None:
            if len(self._classes) >= MOST_CLASSES:
                text = ""
            totals = self._classes.setdefault(text, _ClassTotals(len(self._classes), text, sql))
        totals.count += 1
        totals.took_us += max(0, statement.took_us)
        totals.untimed += statement.took_us < 0
        totals.errors += bool(statement.error)
        session.count += 1
        self._first_us = min(self._first_us, statement.began_us)
        self._last_us = max(self._last_us, statement.began_us + max(0, statement.took_us))
        event = Event(
            session.number,
            statement.began_us,
            totals.number,
            statement.took_us,
            statement.error,
            None if sql == text else sql,
            statement.prepared,
            statement.values,
            False,
        )
        self._order += 1
        self._run.append((statement.began_us, self._order, encode(event)))
        if len(self._run) >= _RUN:
            self._spill()

    def _spill(self) -> None:
        self._run.sort()
        stream = (self._folder / str(len(self._runs))).open("x+b")
        self._stack.enter_context(stream)
        for began_us, order, line in self._run:
            stream.write(b"%d %d %s\n" % (began_us, order, line))
        self._runs.append(stream)
        self._run = []

    def _sorted(self) -> Iterator[Event]:
        self._run.sort()
        for _, _, line in heapq.merge(*map(_lines, self._runs), self._run):
            yield decode_event(line)

    def write(self, path: Path, source: str, database: str, **facts: bool) -> Header:
        """Write the file, private and as a whole; UsageError without a statement."""
        for session in self._sessions.values():
            self._decide(session)
        if not self._order:
            raise UsageError(
                f"capture {source}",
                "not one statement in it can be replayed"
                + "".join(f"; {lost.count} × {lost.reason}" for lost in self._losses.listed()),
                "log all statements: log_min_duration_statement=0, or long_query_time=0",
            )
        opened = [session for session in self._sessions.values() if session.inside]
        if opened:
            self._losses.add("transactions under way at the end: they are rolled back", "end")
        totals = sorted(self._classes.values(), key=lambda of: (-of.took_us, -of.count, of.text))
        totals.sort(key=lambda of: not of.text)  # the last one has all others
        taken: set[str] = set()
        classes = tuple(
            StatementClass(
                class_name(of.text, taken) if of.text else "other",
                of.text, of.count, of.took_us, of.errors, of.untimed,
            )
            for of in totals
        )  # fmt: skip
        self.examples = {c.name: of.example for c, of in zip(classes, totals, strict=True)}
        numbers = {of.number: number for number, of in enumerate(totals)}
        header = Header(
            FORMAT,
            self._dialect,
            source,
            database,
            datetime.fromtimestamp(self._first_us / 1e6, UTC).isoformat(timespec="seconds"),
            self._last_us - self._first_us,
            sum(session.count > 0 for session in self._sessions.values()),
            self._most_sessions(),
            self._order,
            self._transactions,
            classes,
            self._losses.listed(),
            **facts,
        )
        self._write(path, header, numbers)
        return header

    def _most_sessions(self) -> int:
        """Return the most sessions that are between their first and last statement at a time."""
        spans: dict[int, tuple[int, int]] = {}
        for event in self._sorted():
            begin, _ = spans.get(event.session, (event.at_us, 0))
            spans[event.session] = begin, event.at_us + max(0, event.took_us)
        changes = sorted(
            change for begin, end in spans.values() for change in ((begin, 1), (end + 1, -1))
        )
        most = now = 0
        for _, change in changes:
            now += change
            most = max(most, now)
        return most

    def _write(self, path: Path, header: Header, numbers: dict[int, int]) -> None:
        counts = Counter({session.number: session.count for session in self._sessions.values()})
        with replacing(path, 0o600) as stream:
            stream.write(encode(header) + b"\n")
            for event in self._sorted():
                counts[event.session] -= 1
                event.at_us -= self._first_us
                event.class_number = numbers[event.class_number]
                event.last = not counts[event.session]
                stream.write(encode(event) + b"\n")


def _lines(stream: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    stream.seek(0)
    for line in stream:
        began, order, event = line.split(b" ", 2)
        yield int(began), int(order), event


def in_order(statements: Iterable[RecordedStatement]) -> Iterator[RecordedStatement]:
    """Move a begin that lies before the end of its session's previous statement.

    Logs cut times off, to milliseconds or seconds.
    """
    ends: dict[str, int] = {}
    for statement in statements:
        statement.began_us = max(statement.began_us, ends.get(statement.session, 0))
        ends[statement.session] = statement.began_us + max(0, statement.took_us)
        yield statement
