"""Waits of threads, by the system call in which Linux shows them and the file that it is for.

For engines whose sessions are threads of this host. The event's name is the call and what it
works on: ``pread data``, ``fdatasync log``, ``futex``. Other users' calls are readable for root
alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from harness.engine import ProcessId
from harness.host.threads import (
    READS,
    SYNCS,
    WRITES,
    Blocked,
    KeptFiles,
    Thread,
    blocked,
    name_of,
    thread_count,
    threads_of,
)
from harness.waits import Observation, Resource, WaitObserver

#: A thread that writes or forces the log for others, too, which wait for it meanwhile.
GROUP_COMMIT = "futex group commit"
RESOURCES: Mapping[str, Resource] = {
    **{f"{call} data": "data read" for call in READS},
    **{f"{call} log": "data read" for call in READS},
    **{f"{call} data": "data write" for call in WRITES | SYNCS},
    **{f"{call} log": "log write" for call in WRITES},
    **{f"{call} log": "log sync" for call in SYNCS},
    "page fault": "data read",
    "io_getevents": "data read",
    "io_uring_enter": "data read",
    "futex": "lock",
    GROUP_COMMIT: "log sync",
    "sleep": "buffer",
    "recv": "client",
    "send": "client",
    "poll": "client",
}
LOG_EVENTS = frozenset(e for e, resource in RESOURCES.items() if resource.startswith("log"))

#: Threads that take a name, or take another's place, are found so often.
_LIST_EVERY_S = 1.0


def event_of(wait: Blocked, is_log: Callable[[str], bool]) -> str:
    """Return the event's name; ``is_log``: whether a file is one of the log's, by its path."""
    if wait.path.startswith("/"):
        return f"{wait.call} {'log' if is_log(wait.path) else 'data'}"
    return "recv" if wait.call in READS else "send" if wait.call in WRITES else wait.call


class ThreadObserver(WaitObserver):
    """Samples the threads of an engine that is a library in a process.

    ``foreground``: whether a thread executes operations, by its name; None where all do.
    ``idle``: the events in which it executes none.
    """

    def __init__(
        self,
        processes: Callable[[], Sequence[ProcessId]],
        foreground: Callable[[str], bool] | None,
        is_log: Callable[[str], bool],
        idle: frozenset[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._processes, self._foreground = processes, foreground
        self._is_log, self._idle = is_log, idle
        self.events = {event: r for event, r in RESOURCES.items() if event not in idle}
        self._clock = clock
        self._threads: list[Thread] = []
        self._counts: dict[int, int] = {}
        self._list_due_s = 0.0
        self._files = KeptFiles()

    def observe(self) -> Sequence[Observation]:
        if not self._counts or self._clock() >= self._list_due_s or self._changed():
            self._list()
        events: dict[Thread, str | None] = {}
        for thread in self._threads:
            try:
                wait = blocked(thread, self._files.read)
            except ProcessLookupError:
                self._list_due_s = 0.0
            else:
                events[thread] = None if wait is None else event_of(wait, self._is_log)
        grouped = any(event in LOG_EVENTS for event in events.values())
        return [
            self._observation(thread, GROUP_COMMIT if grouped and event == "futex" else event)
            for thread, event in events.items()
            if event not in self._idle
        ]

    def threads(self, observations: Sequence[Observation]) -> Sequence[Thread]:
        """Threads that may execute operations: one that is idle now may have computed before."""
        return self._threads

    def _changed(self) -> bool:
        """Return whether a process has ended, or has another number of threads."""
        try:
            return any(thread_count(pid) != count for pid, count in self._counts.items())
        except OSError:
            return True

    def _list(self) -> None:
        """Find the threads, which takes longer than observing them."""
        self._list_due_s = self._clock() + _LIST_EVERY_S
        pids = [process.pid for process in self._processes()]
        with suppress(OSError):
            self._counts = {pid: thread_count(pid) for pid in pids}
        self._threads = [
            thread
            for pid in pids
            for thread in threads_of(pid)
            if self._foreground is None or self._foreground(name_of(thread))
        ]
        self._files.keep({thread.path("syscall") for thread in self._threads})

    def close(self) -> None:
        self._files.close()

    def _observation(self, thread: Thread, event: str | None) -> Observation:
        if event is None:
            return Observation("running", thread=thread)
        return Observation("waiting", event, thread)
