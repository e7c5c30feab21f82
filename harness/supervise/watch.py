"""Watch the processes of a run: what can no longer work is ended and named.

A process cannot work that is stopped, or blocked in the kernel (limits: harness.supervise.silence).
Its end ends every wait for it. A process that listens on an unannounced port is ended, too.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from harness.errors import RunFailed
from harness.supervise.listeners import Listener, Ports
from harness.supervise.process import (
    ProcessId,
    ProcessStat,
    process_name,
    process_stat,
    read_proc,
)
from harness.supervise.segments import end_stopped_supervisor
from harness.supervise.silence import (
    VARIABLE,
    Limited,
    changed_limits,
    current_phase,
    limit_s,
)
from harness.supervise.starting import Process


@dataclass(frozen=True)
class Silence:
    """A process that could not work for longer than its limit, and was killed."""

    phase: str
    process: ProcessId
    name: str
    limit: Limited
    limit_s: float
    died: bool = True

    def failure(self) -> RunFailed:
        """The error of a run that waited for it."""
        state = "blocked in the kernel" if self.limit == "blocked" else "stopped"
        end = "it was killed" if self.died else "it cannot be killed"
        return RunFailed(
            f"{self.phase}: process {self.process.pid} ({self.name}) gives no sign of life",
            f"it has been {state} for {self.limit_s:g} s, the limit; {end}",
            f"find what {'its device waits for' if state != 'stopped' else 'stopped it'}, or raise "
            f"the limit: {VARIABLE}={self.limit}=SECONDS",
        )


class Watch:
    """Looks at a supervisor and its processes at intervals, and ends what has become silent.

    And all of them where one listens on a port that was not announced. ``cause``: the first that
    was silent, or listened. ``let_go``: makes the supervisor end everything.
    """

    #: How long at most between two looks.
    _EVERY_S = 5.0
    #: Looks in the time of a limit.
    _LOOKS = 4
    #: How long the harness may take to end after it was interrupted for an unkillable process.
    _GIVE_UP_S = 60.0
    #: How long an interruption may take to reach the main thread.
    _AGAIN_S = 1.0
    #: How long a program may listen before it is ended. HammerDB's packages listen as they are
    #: loaded, and the first line of its script, before which it accepts nothing, ends that.
    _SETTLE_S = 10.0

    def __init__(
        self,
        supervisor: ProcessId,
        children: Callable[[], Sequence[Process]],
        let_go: Callable[[], None] = lambda: None,
    ) -> None:
        self.cause: Silence | Listener | None = None
        self._let_go = let_go
        self._ports = Ports(supervisor.pid)
        #: By the inode of its socket, since when a process listens.
        self._listening_since: dict[int, float] = {}
        self._supervisor = supervisor
        self._children = children
        self._stopped_since: dict[ProcessId, float] = {}
        #: By process and thread: its context switches, since when it has no more of them.
        self._blocked_since: dict[tuple[ProcessId, int], tuple[str, float]] = {}
        self._threads_s = -math.inf
        self._killed: set[ProcessId] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def start(self) -> None:
        """Look from now on, in a thread of its own; UsageError for limits that are not valid."""
        changed_limits()
        self._thread.start()

    def stop(self) -> None:
        """Stop looking at the run's processes."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """A failure in here that follows from a process that was ended is that process's."""
        if not (isinstance(self.cause, Silence) and self.cause.limit == "supervisor"):
            self.cause = None  # unlike a supervisor, it is not gone for good
        failure: RunFailed | None = None
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:
            given_up = isinstance(self.cause, Silence) and not self.cause.died
            if self.cause is None or (isinstance(error, KeyboardInterrupt) and not given_up):
                raise
            failure = self.cause.failure()
            if not given_up:
                raise failure from error
        if failure is not None:  # not in the wake of the interruption, which is our own
            raise failure

    def _follow(self) -> None:
        fastest = min(limit_s(name) for name in ("stopped", "supervisor", "blocked"))
        while not self._over.wait(min(self._EVERY_S, fastest / self._LOOKS)):
            with contextlib.suppress(OSError):
                self.look(time.monotonic())

    def look(self, now: float) -> None:
        """End what has been silent for its limit."""
        supervisor = process_stat(self._supervisor.pid)
        alive = supervisor is not None and supervisor.id == self._supervisor
        if supervisor and alive and self._stopped_for(supervisor, now) >= limit_s("supervisor"):
            self._note(supervisor, "supervisor")
            end_stopped_supervisor(self._supervisor)
            return
        threads = now - self._threads_s >= limit_s("blocked") / self._LOOKS
        if threads:
            self._threads_s = now
            self._look_at_harness(now)
        for child in self._children():
            self._look_at(child, now, threads)
        self._end_listeners(now)

    def refuse_listeners(self) -> None:
        """RunFailed where a process listens now on a port that was not announced."""
        for listener in self._ports.unannounced([child.listens for child in self._children()]):
            raise listener.failure()

    def _end_listeners(self, now: float) -> None:
        children = self._children()
        listeners = self._ports.unannounced([child.listens for child in children])
        since = self._listening_since
        self._listening_since = {
            listener.inode: since.get(listener.inode, now) for listener in listeners
        }
        for listener in listeners:
            if now - self._listening_since[listener.inode] >= self._SETTLE_S:
                self.cause = self.cause or listener
                for child in children:
                    with contextlib.suppress(RunFailed):
                        child.kill()
                return

    def _look_at_harness(self, now: float) -> None:
        """Its own threads wait for devices, too: for the tier that they copy to, or for logs."""
        stat = process_stat(os.getpid())
        if stat is None or stat.id in self._killed:
            return
        if self._blocked_for(stat, now) >= limit_s("blocked"):
            self._give_up(self._note(stat, "blocked"))

    def _look_at(self, child: Process, now: float, threads: bool) -> None:
        for stat in _family(child.id):
            if stat.dead or stat.id in self._killed:
                continue
            if self._stopped_for(stat, now) >= limit_s("stopped"):
                return self._end(child, stat, "stopped")
            if threads and self._blocked_for(stat, now) >= limit_s("blocked"):
                return self._end(child, stat, "blocked")

    def _stopped_for(self, stat: ProcessStat, now: float) -> float:
        if stat.state not in "Tt":
            self._stopped_since.pop(stat.id, None)
            return 0.0
        return now - self._stopped_since.setdefault(stat.id, now)

    def _blocked_for(self, stat: ProcessStat, now: float) -> float:
        """The longest time of one of its threads."""
        longest = 0.0
        for thread, switches in _blocked_threads(stat.id.pid):
            key = (stat.id, thread)
            before, since = self._blocked_since.get(key, ("", now))
            since = since if before == switches else now
            self._blocked_since[key] = (switches, since)
            longest = max(longest, now - since)
        return longest

    def _note(self, stat: ProcessStat, limit: Limited) -> Silence:
        """Before the waits for it end, which is when it is looked for."""
        self._killed.add(stat.id)
        name = "supervisor" if limit == "supervisor" else process_name(stat.id.pid)
        silence = Silence(current_phase(), stat.id, name, limit, limit_s(limit))
        self.cause = self.cause or silence
        return silence

    def _end(self, child: Process, stat: ProcessStat, limit: Limited) -> None:
        silence = self._note(stat, limit)
        try:
            child.kill()
        except RunFailed:
            if process_stat(stat.id.pid) is not None:  # else the supervisor is gone
                self._give_up(silence)

    def _give_up(self, silence: Silence) -> None:
        """End the harness: what waits for an unkillable process cannot be ended otherwise."""
        self.cause = replace(silence, died=False)
        self._interrupt_harness()
        if not self._over.wait(self._GIVE_UP_S):
            failure = self.cause.failure()
            print(f"harness: {failure.problem}: {failure.context}", file=sys.stderr, flush=True)
            self._let_go()  # a thread that does not die keeps our end of the supervisor's lifeline
            os._exit(1)

    def _interrupt_harness(self) -> None:
        """Interrupt the main thread, and again while it stays where it is.

        A signal between Python's last look for signals and a wait for a lock does not end the wait.
        """
        main = threading.main_thread().ident
        if main is None:
            return
        place, ends = _place_of(main), time.monotonic() + self._GIVE_UP_S
        while _place_of(main) == place and time.monotonic() < ends:
            signal.pthread_kill(main, signal.SIGINT)
            if self._over.wait(min(self._AGAIN_S, self._GIVE_UP_S)):
                return


def _place_of(thread: int) -> tuple[FrameType, int]:
    """What a thread executes."""
    frame = sys._current_frames()[thread]
    return frame, frame.f_lasti


def _family(process: ProcessId) -> Iterator[ProcessStat]:
    """A process and what its main threads have started, as far as it is not daemonised."""
    stat = process_stat(process.pid)
    if stat is None or stat.id != process:
        return
    yield stat
    try:
        children = read_proc(f"/proc/{process.pid}/task/{process.pid}/children").split()
    except OSError:  # a kernel without these lists
        return
    for pid in map(int, children):
        if (child := process_stat(pid)) is not None and child.parent == process.pid:
            yield from _family(child.id)


def _blocked_threads(pid: int) -> Iterator[tuple[int, str]]:
    """Threads in uninterruptible sleep, each with its context switches so far."""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                stat = read_proc(f"{task}/stat")
                if stat[stat.rindex(")") + 2] != "D":
                    continue
                status = read_proc(f"{task}/status").splitlines()
                yield int(task.name), "".join(line for line in status if "ctxt_switches" in line)
