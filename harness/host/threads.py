"""Report of Linux on a thread: its scheduling, and the system call that it waits in."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple

from harness.host.processors import cpu_numbers, format_cpus
from harness.store.result import Check, CheckStatus
from harness.supervise.process import PROC_BYTES, ProcessId, read_proc
from harness.tiers.linux.kernel import LIVE, Kernel

#: Numbers of system calls by machine; the first argument of all but the last line is a file.
_CALLS: Mapping[str, Mapping[int, str]] = {
    "x86_64": {
        **{0: "read", 17: "pread", 19: "readv", 295: "preadv", 327: "preadv"},
        **{1: "write", 18: "pwrite", 20: "writev", 296: "pwritev", 328: "pwritev"},
        **{74: "fsync", 75: "fdatasync", 277: "sync_file_range", 77: "ftruncate"},
        **{285: "fallocate", 45: "recv", 47: "recv", 44: "send", 46: "send"},
        **{202: "futex", 35: "sleep", 230: "sleep", 7: "poll", 271: "poll", 23: "poll"},
        **{270: "poll", 232: "poll", 281: "poll", 208: "io_getevents", 333: "io_getevents"},
        **{426: "io_uring_enter", 26: "msync"},
    },
    "aarch64": {
        **{63: "read", 67: "pread", 65: "readv", 69: "preadv", 286: "preadv"},
        **{64: "write", 68: "pwrite", 66: "writev", 70: "pwritev", 287: "pwritev"},
        **{82: "fsync", 83: "fdatasync", 84: "sync_file_range", 46: "ftruncate"},
        **{47: "fallocate", 207: "recv", 212: "recv", 206: "send", 211: "send"},
        **{98: "futex", 101: "sleep", 115: "sleep", 73: "poll", 72: "poll", 22: "poll"},
        **{4: "io_getevents", 292: "io_getevents", 426: "io_uring_enter", 227: "msync"},
    },
}
_HERE = _CALLS.get(platform.machine(), {})
_CLOCK_NANOSLEEP = frozenset({230, 115})
#: TIMER_ABSTIME, in its second argument.
_ABSOLUTE = 1
_WITHOUT_FILE = frozenset({"futex", "sleep", "poll", "io_getevents", "io_uring_enter", "msync"})
READS = frozenset({"read", "pread", "readv", "preadv"})
WRITES = frozenset({"write", "pwrite", "writev", "pwritev", "ftruncate", "fallocate"})
SYNCS = frozenset({"fsync", "fdatasync", "sync_file_range", "msync"})
#: The text of a file of /proc, by its path; OSError.
ReadFile = Callable[[str], str]


class Thread(NamedTuple):
    """A thread of a process, by numbers."""

    pid: int
    tid: int

    def path(self, name: str) -> str:
        """Path of a file of its folder in /proc."""
        return f"/proc/{self.pid}/task/{self.tid}/{name}"


class Scheduled(NamedTuple):
    """A thread's time on a processor, and in the run queue: able to run, waiting for one."""

    ran_ns: int = 0
    queued_ns: int = 0


class Blocked(NamedTuple):
    """The system call in which a thread waits: ``page fault`` outside of one.

    ``path``: of the file that it works on; empty where it works on none.
    """

    call: str
    path: str = ""


def scheduled(thread: Thread, read: ReadFile = read_proc) -> Scheduled | None:
    """Since the thread began (``schedstat``); None where it has ended."""
    try:
        ran, queued, *_ = read(thread.path("schedstat")).split()
    except (OSError, ValueError):
        return None
    return Scheduled(int(ran), int(queued))


def blocked(thread: Thread, read: ReadFile = read_proc) -> Blocked | None:
    """Place where the thread waits; None where it runs or could run.

    PermissionError without the right to trace it; ProcessLookupError where it has ended.
    """
    try:
        words = read(thread.path("syscall")).split()
    except FileNotFoundError as error:
        raise ProcessLookupError(f"thread {thread.tid} has ended") from error
    if not words or words[0] == "running":
        return None
    number = int(words[0])
    if number < 0:
        return Blocked("page fault")
    call = _HERE.get(number, f"call {number}")
    if call == "sleep" and number in _CLOCK_NANOSLEEP and int(words[2], 16) & _ABSOLUTE:
        return Blocked("sleep until")
    if call in _WITHOUT_FILE or call.startswith("call") or len(words) < 2:
        return Blocked(call)
    try:
        file = f"/proc/{thread.pid}/fd/{int(words[1], 16)}"
        return Blocked(call, os.readlink(file))  # noqa: PTH115
    except OSError:
        return Blocked(call)


def thread_count(pid: int) -> int:
    """Number of threads of the process, and a constant; OSError where it has ended."""
    return os.stat(f"/proc/{pid}/task").st_nlink  # noqa: PTH116


def threads_of(pid: int) -> list[Thread]:
    """The process's threads; empty where it has ended."""
    try:
        return [Thread(pid, int(name)) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208
    except OSError:
        return []


def name_of(thread: Thread) -> str:
    """Its name; empty where it has ended."""
    try:
        return read_proc(thread.path("comm")).strip()
    except OSError:
        return ""


#: More are opened for each reading: the harness needs descriptors for other things.
_MOST = 128


class KeptFiles:
    """Keeps files open from one reading to the next: opening costs three times as much as reading.

    A file of a process stays that of this process: a reused pid has another one.
    """

    def __init__(self) -> None:
        self._open: dict[str, int] = {}

    def read(self, path: str) -> str:
        file = self._open.get(path)
        if file is None:
            if len(self._open) >= _MOST:
                return read_proc(path)
            file = self._open[path] = os.open(path, os.O_RDONLY)
        try:
            return os.pread(file, PROC_BYTES, 0).decode(errors="replace")
        except OSError:
            os.close(self._open.pop(path))
            raise

    def keep(self, paths: Container[str]) -> None:
        for path in [path for path in self._open if path not in paths]:
            os.close(self._open.pop(path))

    def close(self) -> None:
        """Close all; a later reading opens its file again."""
        self.keep(())


def affinity_check(
    cpus: tuple[int, ...], processes: Iterable[ProcessId], kernel: Kernel = LIVE
) -> Check:
    """Check that all threads of the engine may run on these processors only (/proc/PID/status)."""
    expected = set(cpus)
    elsewhere: dict[str, None] = {}
    seen = 0
    for process in processes:
        for task in kernel.names(f"/proc/{process.pid}/task"):
            status = kernel.read(f"/proc/{process.pid}/task/{task}/status") or ""
            match = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
            if match is None:  # it has just ended
                continue
            seen += 1
            if not set(cpu_numbers(match.group(1), "Cpus_allowed_list")) <= expected:
                elsewhere[match.group(1)] = None
    text = format_cpus(cpus)
    if not seen:
        return Check("cpu-affinity", "unknown", "no process of the engine could be read")
    status_: CheckStatus = "failed" if elsewhere else "passed"
    result = f"; some may run on {' and '.join(elsewhere)}" if elsewhere else ""
    return Check("cpu-affinity", status_, f"{seen} threads held to processors {text}{result}")
