"""The replay client: one process, one thread for all sessions, few more that connect.

It reads the record as it needs it. A session's statements are sent one after another, each at its
time, or later where the previous one has not been answered. Latency counts from the intended time.
As fast as possible, a session begins when those have ended that had ended before it in the record;
its statements have no intended time but that of the previous answer.
"""

from __future__ import annotations

import heapq
import os
import resource
import select
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO

import msgspec

from harness.capture.replay_file import Event, Header, decode_event
from harness.drivers.client_program import histogram
from harness.drivers.replay.protocol import ReplayFailure, ReplayReport, ReplayRequest
from harness.drivers.replay.tally import Tally
from harness.drivers.replay.wires import LOST, WIRES, Wire
from harness.supervise import linux

#: How far the record is read ahead of the time of its statements, and how many statements at most.
_AHEAD_NS, _AHEAD_STATEMENTS = 1_000_000_000, 5_000
#: Read further, though not without end, where a transaction that may block others has no statement.
_FURTHEST_STATEMENTS = 200_000
_CONNECTORS = 8
_SECOND_NS = 1_000_000_000
#: Longest wait for answers at a time.
_TICK_NS = 100_000_000


@dataclass(eq=False, slots=True)
class _ReplaySession:
    """``event``: under way, since ``sent_ns``; ``after``: sessions that must have ended before."""

    number: int
    queue: deque[Event] = field(default_factory=deque)
    wire: Wire | None = None
    connecting: Future[Wire] | None = None
    event: Event | None = None
    intended_ns: int = 0
    sent_ns: int = 0
    free_ns: int = 0
    after: set[int] = field(default_factory=set)
    complete: bool = False


class Stalled(Exception):
    """The server answered nothing for too long."""


class Replay:
    """The state of a replay."""

    def __init__(self, request: ReplayRequest, header: Header, lines: Iterator[bytes]) -> None:
        self._request = request
        self._texts = [of.text for of in header.classes]
        self._lines = lines
        self._wire = WIRES[header.dialect]
        self._tally = Tally(len(request.labels))
        self._sessions: dict[int, _ReplaySession] = {}
        self._next: Event | None = None
        self._queued = 0
        self._due: list[tuple[int, int, _ReplaySession]] = []
        self._pushed = 0
        self._poll = select.epoll()
        self._by_descriptor: dict[int, _ReplaySession] = {}
        #: Sessions whose last statement has been read and not been answered.
        self._ending: set[int] = set()
        self._gated: deque[_ReplaySession] = deque()
        self._connectors = ThreadPoolExecutor(_CONNECTORS)
        self._start_ns = 0
        self._answer_ns = 0
        self._under_way = 0
        self._lost = 0

    def run(self) -> None:
        """Replay to the end of the record or the window; reports on stdout."""
        request, tally = self._request, self._tally
        self._advance()
        self._fill(0)
        for session in self._sessions.values():
            if session.connecting is not None:
                session.connecting.result()
        _print(ReplayReport("connected"))
        self._start_ns = self._answer_ns = now = time.monotonic_ns()
        for session in list(self._sessions.values()):
            self._wake(session, now)
        begin_ns = self._start_ns + request.ramp_up_ns
        end_ns = begin_ns + request.duration_ns if request.duration_ns is not None else None
        second_ns = self._start_ns + _SECOND_NS
        while self._next is not None or self._sessions:
            now = time.monotonic_ns()
            if not tally.measuring and now >= begin_ns:
                tally.begin(now)
                _print(ReplayReport("measuring"))
            if end_ns is not None and now >= end_ns:
                break
            if now >= second_ns:
                _print(ReplayReport("second", tally.done, tally.recent_lag_ns()))
                second_ns = now + _SECOND_NS
            self._fill(now)
            self._send_due(now)
            self._receive(min(second_ns, begin_ns if now < begin_ns else second_ns))
        now = time.monotonic_ns()
        if not tally.measuring:
            tally.begin(now)
            _print(ReplayReport("measuring"))
        tally.end(now)
        _print(ReplayReport("measured"))
        usage = resource.getrusage(resource.RUSAGE_SELF)
        _print(tally.result(self._under_way, self._lost, usage.ru_maxrss * 1024))
        self._connectors.shutdown(wait=False, cancel_futures=True)

    # Reading -------------------------------------------------------------------

    def _advance(self) -> None:
        line = next(self._lines, b"")
        self._next = decode_event(line) if line.strip() else None

    def _due_ns(self, event: Event) -> int:
        speed = self._request.speed
        return self._start_ns + int(event.at_us * 1000 / speed) if speed else 0

    def _fill(self, now: int) -> None:
        """Read the statements of the near future."""
        horizon_ns = now + _AHEAD_NS if now else self._start_ns + _AHEAD_NS
        while (event := self._next) is not None:
            if self._request.speed and self._due_ns(event) > horizon_ns:
                return
            if self._queued >= _AHEAD_STATEMENTS and not (
                self._queued < _FURTHEST_STATEMENTS and self._starving()
            ):
                return
            self._queue(event, now)
            self._advance()

    def _starving(self) -> bool:
        """Return whether a transaction is open whose next statement has not been read."""
        return any(
            session.event is None and not session.queue and not session.complete
            and session.wire is not None and session.wire.in_transaction
            for session in self._sessions.values()
        )  # fmt: skip

    def _queue(self, event: Event, now: int) -> None:
        session = self._sessions.get(event.session)
        if session is None:
            session = self._sessions[event.session] = _ReplaySession(event.session, free_ns=now)
            if self._request.speed is None and self._ending:
                session.after = set(self._ending)
                self._gated.append(session)
            else:
                self._connect(session)
        session.queue.append(event)
        self._queued += 1
        if event.last:
            session.complete = True
            self._ending.add(session.number)
        if len(session.queue) == 1 and session.event is None and now:
            self._wake(session, now)

    def _connect(self, session: _ReplaySession) -> None:
        session.connecting = self._connectors.submit(self._wire, self._request.connection)

    # Sending -------------------------------------------------------------------

    def _wake(self, session: _ReplaySession, now: int) -> None:
        """Have the session's next statement sent, now or at its time."""
        if session.event is not None or not session.queue or session.after:
            return
        due_ns = self._due_ns(session.queue[0])
        if due_ns <= now and session.connecting is None:
            self._send(session, now)
        else:
            self._pushed += 1
            heapq.heappush(self._due, (due_ns, self._pushed, session))

    def _send_due(self, now: int) -> None:
        again: list[tuple[int, int, _ReplaySession]] = []
        while self._due and self._due[0][0] <= now:
            entry = heapq.heappop(self._due)
            session = entry[2]
            if session.event is not None or not session.queue:
                continue
            if session.connecting is not None and not session.connecting.done():
                again.append(entry)
                continue
            self._send(session, now)
        for entry in again:
            heapq.heappush(self._due, entry)

    def _send(self, session: _ReplaySession, now: int) -> None:
        if session.connecting is not None:
            session.wire, session.connecting = session.connecting.result(), None
            descriptor = session.wire.fileno()
            self._by_descriptor[descriptor] = session
            self._poll.register(descriptor, select.EPOLLIN)
        if session.wire is None:  # it was lost
            self._connect(session)
            self._wake(session, now)
            return
        event = session.event = session.queue.popleft()
        self._queued -= 1
        self._under_way += 1
        text = self._texts[event.class_number] if event.sql is None else event.sql
        session.sent_ns = time.monotonic_ns()
        session.intended_ns = self._due_ns(event) if self._request.speed else session.sent_ns
        try:
            session.wire.send(event, text)
        except OSError:
            self._answered(session, LOST)

    # Receiving -----------------------------------------------------------------

    def _receive(self, until_ns: int) -> None:
        now = time.monotonic_ns()
        wait_ns = min(until_ns, now + _TICK_NS) - now
        if self._due:
            first_ns = self._due[0][0]
            # A statement that is due and not sent waits for its connection.
            wait_ns = min(wait_ns, first_ns - now if first_ns > now else 500_000)
        elif self._next is not None and not self._under_way:
            wait_ns = min(wait_ns, 1_000_000)
        if wait_ns > 0:
            # poll() rounds up to milliseconds, select() does not.
            select.select([self._poll.fileno()], [], [], wait_ns / 1e9)
        for descriptor, _ in self._poll.poll(0):
            session = self._by_descriptor[descriptor]
            assert session.wire is not None
            error = session.wire.receive()
            if session.event is None:
                if error == LOST:
                    self._lose(session)
            elif error is not None:
                self._answered(session, error)
        now = time.monotonic_ns()
        if self._under_way and now - self._answer_ns > self._request.silence_s * 1e9:
            raise Stalled(f"no answer to {self._under_way} statements for more than "
                          f"{self._request.silence_s:g} s")  # fmt: skip

    def _answered(self, session: _ReplaySession, error: str) -> None:
        now = time.monotonic_ns()
        event, session.event = session.event, None
        assert event is not None
        self._answer_ns = session.free_ns = now
        self._under_way -= 1
        lag_ns = session.sent_ns - session.intended_ns
        self._tally.add(event, error, now - session.intended_ns, lag_ns)
        if error == LOST:
            self._lose(session)
        if event.last:
            self._end(session, now)
        else:
            self._wake(session, now)

    def _lose(self, session: _ReplaySession) -> None:
        self._lost += 1
        self._close(session)

    def _close(self, session: _ReplaySession) -> None:
        if session.wire is None:
            return
        descriptor = next(d for d, of in self._by_descriptor.items() if of is session)
        del self._by_descriptor[descriptor]
        with suppress(OSError):
            self._poll.unregister(descriptor)
        session.wire.close()
        session.wire = None

    def _end(self, session: _ReplaySession, now: int) -> None:
        self._close(session)
        del self._sessions[session.number]
        self._ending.discard(session.number)
        for gated in list(self._gated):
            gated.after.discard(session.number)
            if not gated.after:
                self._gated.remove(gated)
                self._connect(gated)
                self._wake(gated, now)


def _print(document: msgspec.Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(document) + b"\n")
    sys.stdout.buffer.flush()


def _import_all() -> None:
    """Import what is imported late: the user may be unable to read the installation."""
    histogram([1], [1]).encode()
    "".encode("idna")


def main(stdin: BinaryIO) -> int:
    """Replay what comes on stdin; exit status 1 with a :class:`ReplayFailure` where that fails."""
    request = msgspec.json.decode(stdin.readline(), type=ReplayRequest)
    if request.user is not None:
        _import_all()
        user, group = request.user
        linux.become(user, group, [group])
    header = msgspec.json.decode(stdin.readline(), type=Header)
    try:
        Replay(request, header, iter(stdin)).run()
    except (OSError, Stalled) as error:
        _print(ReplayFailure(str(error)))
        return 1
    return 0


if __name__ == "__main__":
    status = main(sys.stdin.buffer)
    sys.stdout.flush()
    os._exit(status)  # threads that connect are not waited for
