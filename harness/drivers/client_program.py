"""Client programs that are not ours; what pgbench and sysbench have in common.

One process does ramp-up and window. Of two with one seed, the second would request the keys that
the first has just brought into the cache; and sessions, with their plans and caches, would end
between them.
"""

from __future__ import annotations

import math
import queue
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from harness.drivers.result import WindowCallbacks
from harness.engine import Credentials, Process
from harness.errors import RunFailed
from harness.hdr import Histogram, Layout
from harness.host.process_counters import read_counters
from harness.later import np
from harness.progress import Progress, Task
from harness.supervise.failures import ending, log_tail
from harness.supervise.process import process_identity
from harness.supervise.silence import limit_s
from harness.supervise.user_files import acting_as, make_directory, remove_tree, write_text
from harness.workload import Clients

STDERR = "stderr.log"
_REPORTED_LINES = 15
_TICK_S = 0.5


@contextmanager
def private_folder(clients: Clients, prefix: str) -> Iterator[Path]:
    """Make a folder of the clients' user in their scratch directory; remove it at the end."""
    folder = clients.scratch / f"{prefix}{secrets.token_hex(8)}"
    make_directory(folder, clients.credentials)
    try:
        yield folder
    finally:
        with acting_as(clients.credentials), suppress(OSError):  # the scratch directory goes too
            remove_tree(folder)


class ClientProgram:
    """A running client program; threads read its ``pipes``, by name.

    ``what``: the problem of its failures. ``secret``: replaced in lines and messages.
    """

    def __init__(
        self,
        process: Process,
        folder: Path,
        user: Credentials | None,
        what: str,
        pipes: Mapping[str, Any],
        secret: str = "",
    ) -> None:
        self.process = process
        self.folder = folder
        self.user = user
        #: Whether all of its pipes have ended.
        self.over = False
        #: The last lines, for messages.
        self.last: deque[str] = deque(maxlen=_REPORTED_LINES)
        self._what = what
        self._secret = secret
        self._line_s = time.monotonic()
        self._lines: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()
        self._open = set(pipes)
        for name, pipe in pipes.items():
            threading.Thread(target=self._read, args=(name, pipe), daemon=True).start()

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Yield the program; end it at the end."""
        try:
            yield self
        finally:
            self.process.kill()
            self.process.wait()

    @property
    def silent_s(self) -> float:
        """Seconds since its last line."""
        return time.monotonic() - self._line_s

    def next_line(self, timeout_s: float = _TICK_S) -> tuple[str, str] | None:
        """Return the name of the pipe and its next line; None if no line comes in that time."""
        try:
            name, line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            return None
        self._line_s = time.monotonic()
        if line is None:
            self._open.discard(name)
            self.over = not self._open
            return None
        return name, line

    def cpu_ns(self) -> int | None:
        """Return the program's processor time so far; None if it cannot be read."""
        identity = process_identity(self.process.pid)
        cpu = read_counters([identity]).get("cpu_ns") if identity else None
        return None if cpu is None else int(cpu)

    def failed(self, context: str) -> RunFailed:
        """Return the error with the program's last lines and its stderr."""
        lines = "\n".join(line for line in self.last if line.strip()) or "(it printed nothing)"
        errors = log_tail(self.folder / STDERR, self.user)
        stderr = "" if errors.endswith("is empty)") else f"\nIts stderr:\n{errors}"
        return RunFailed(self._what, self._clean(f"{context}\nIts last lines:\n{lines}{stderr}"))

    def _clean(self, text: str) -> str:
        return text.replace(self._secret, "…") if self._secret else text

    def _read(self, name: str, pipe: Any) -> None:
        for line in pipe:
            text = line.decode(errors="replace").rstrip("\r\n")
            self._lines.put((name, self._clean(text)))
        self._lines.put((name, None))


#: As the native client's: 1 ns … 1 h, three digits.
STORED = Layout(lowest=1, highest=3_600_000_000_000, digits=3)


@dataclass(frozen=True)
class Script:
    """A script of the user's, or a bundled one with an empty text; ``weight``: among all.

    ``files``: texts of other files that it reads, by their path from the script's folder.
    """

    name: str
    text: str
    weight: int = 1
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OfferedLoad:
    """The load that is offered; durations in ns. ``rate_per_s``: of an open loop.

    ``variables``: of the scripts, by name. ``protocol``: simple, extended or prepared.
    ``max_tries``: of a transaction with a serialization failure or a deadlock.
    """

    users: int
    threads: int
    ramp_up_ns: int
    duration_ns: int
    rate_per_s: float | None
    variables: Mapping[str, str]
    protocol: str
    max_tries: int
    seed: int


@dataclass(frozen=True)
class Window:
    """The measured window of a program that has ended, by the monotonic clock.

    ``cpu_ns``: the program's processor time in it, None if that cannot be read. ``lines``: all
    that it printed.
    """

    begin_ns: int
    end_ns: int
    cpu_ns: int | None
    lines: Sequence[str]


@dataclass(frozen=True)
class ClientJob:
    """A client program in its private folder. ``environment``: without secrets in it.

    ``files``: by path in the folder, private to the user that it runs as. ``secret``: never in a
    message. ``reports``: matches the lines that come every second, and are in no message.
    ``fails``: a line after which the program continues with fewer users.
    """

    what: str
    files: Mapping[str, str]
    environment: Mapping[str, str]
    secret: str
    reports: re.Pattern[str]
    fails: re.Pattern[str] | None = None


@contextmanager
def working(clients: Clients, job: ClientJob) -> Iterator[Path]:
    """Make the private folder with the job's files; removed at the end."""
    with private_folder(clients, "client-") as folder:
        for folders in sorted({parent for name in job.files for parent in Path(name).parents}):
            if folders.name:
                make_directory(folder / folders, clients.credentials)
        for name, text in job.files.items():
            write_text(folder / name, text, clients.credentials)
        yield folder


def stderr_as_progress(argv: Sequence[str]) -> list[str]:
    """Return the command of a program whose stderr is the pipe ``progress`` of ``spawn``."""
    return ["/bin/sh", "-c", 'exec "$@" 2>&3 3>&-', "sh", *argv]


class _RunningJob(ClientProgram):
    """A running program of a job, and what it printed."""

    def __init__(self, job: ClientJob, silence_s: float, task: Task, *program: Any) -> None:
        super().__init__(*program)
        self.lines: list[str] = []
        self._job, self._silence_s, self._task = job, silence_s, task
        self._shown = time.monotonic()
        #: Its processor time by the monotonic clock: it cannot be read once it has ended.
        self._cpu: list[tuple[int, int]] = []

    @classmethod
    @contextmanager
    def started(
        cls, clients: Clients, job: ClientJob, folder: Path, argv: Sequence[str], silence_s: float,
        task: Task,
    ) -> Iterator[_RunningJob]:  # fmt: skip
        """Start the program; at the end it is gone."""
        env = {name: text.replace("FOLDER", str(folder)) for name, text in job.environment.items()}
        process = clients.start_driver(
            stderr_as_progress(argv),
            cwd=folder,
            env=env,
            log=folder / STDERR,
            pipes=True,
            progress=True,
        )
        pipes = {"stdout": process.stdout, "stderr": process.progress}
        program = (process, folder, clients.credentials, job.what, pipes, job.secret)
        with cls(job, silence_s, task, *program).running() as listener:
            yield listener

    def until_line(self, begins: Callable[[str], int | None]) -> int:
        """Return when the window begins: after the first line for which ``begins`` says it."""
        while not self.over:
            line = self._listen(_TICK_S)
            if line is not None and (wait_ns := begins(line)) is not None:
                return time.monotonic_ns() + wait_ns
        raise self._ended_early()

    def until(self, moment_ns: int, *, may_end: bool = False) -> int:
        """Listen until then, or until it ends if it may; return the monotonic clock."""
        while (now := time.monotonic_ns()) < moment_ns and not self.over:
            self._listen(min(_TICK_S, (moment_ns - now) / 1e9))
        if self.over and not may_end:
            raise self._ended_early()
        reached_ns = time.monotonic_ns()
        self._read_cpu()
        return reached_ns

    def cpu_share(self, begin_ns: int) -> float | None:
        """Processors in use from that moment to the last reading."""
        readings = [reading for reading in self._cpu if reading[0] >= begin_ns]
        if len(readings) < 2:
            return None
        (first_ns, first), (last_ns, last) = readings[0], readings[-1]
        return (last - first) / max(1, last_ns - first_ns)

    def until_end(self, limit_s: float) -> None:
        """Listen until the program has ended; RunFailed if it failed, or runs after the limit."""
        deadline = time.monotonic() + limit_s
        while not self.over:
            self._listen(_TICK_S)
            if time.monotonic() > deadline:
                raise self.failed(f"it hangs: it has not ended {limit_s:g} s after its time")
        if status := self.process.wait():
            raise self.failed(f"it {ending(status)}")

    def _read_cpu(self) -> None:
        if (cpu_ns := self.cpu_ns()) is not None:
            self._cpu.append((time.monotonic_ns(), cpu_ns))

    def _listen(self, timeout_s: float) -> str | None:
        """Return the program's next line, if one comes in that time."""
        read = self.next_line(timeout_s)
        self._read_cpu()
        now = time.monotonic()
        self._task.advance(now - self._shown)
        self._shown = now
        if read is None:
            if self.silent_s > self._silence_s:
                raise self.failed(f"it has printed nothing for {self._silence_s:g} s")
            return None
        _, line = read
        self.lines.append(line)
        if not self._job.reports.match(line):
            self.last.append(line)
        if self._job.fails is not None and self._job.fails.match(line):
            while (read := self.next_line()) is not None:  # the server's details follow
                self.last.append(read[1])
            raise self.failed(line)
        return line

    def _ended_early(self) -> RunFailed:
        status = self.process.wait()
        return self.failed(f"it {ending(status)}" if status else "it ended before its window did")


def run(
    clients: Clients,
    job: ClientJob,
    folder: Path,
    argv: Sequence[str],
    title: str,
    progress: Progress,
) -> None:
    """Run a program that loads data to its end; RunFailed with its last lines."""
    with (
        progress.task(title, None, "s") as task,
        _RunningJob.started(clients, job, folder, argv, limit_s("load"), task) as program,
    ):
        program.until_end(math.inf)


def measured(
    clients: Clients,
    job: ClientJob,
    folder: Path,
    argv: Sequence[str],
    load: OfferedLoad,
    begins: Callable[[str], int | None],
    drives: WindowCallbacks,
    progress: Progress,
    ends_by: int | None = None,
) -> Window:
    """Run a program for ramp-up and window; RunFailed with its last lines.

    ``begins``: from each line, the time until the window begins in ns, None where the line does
    not say; users are connected by then. ``ends_by``: the signal that ends the program after the
    window, None where it ends by itself.
    """
    silence_s = limit_s("measure")
    with (
        progress.task("ramp-up", load.ramp_up_ns / 1e9, "s") as task,
        _RunningJob.started(clients, job, folder, argv, silence_s, task) as program,
    ):
        begin_ns = program.until(program.until_line(begins))
        drives.on_measuring()
        task.enter("measurement", load.duration_ns / 1e9)
        end_ns = program.until(begin_ns + load.duration_ns, may_end=ends_by is None)
        drives.on_measured()
        share = program.cpu_share(begin_ns)
        task.enter("waiting for the last answers", None)
        if ends_by is not None:
            program.process.signal(ends_by)
        # Users at a set rate may end at the next start that was intended for them.
        program.until_end(silence_s + load.users / (load.rate_per_s or math.inf))
    cpu_ns = None if share is None else round(share * (end_ns - begin_ns))
    return Window(begin_ns, end_ns, cpu_ns, program.lines)


def offered(load: OfferedLoad, window_ns: int, waiting: tuple[int, int]) -> dict[str, Any]:
    """Counts of an open loop: starts in the window, and those due and not begun.

    ``waiting``: the latter at the window's beginning and end.
    """
    if load.rate_per_s is None:
        return {}
    return {
        "offered_count": round(load.rate_per_s * window_ns / 1e9),
        "backlog_count": waiting,
    }


def histogram(values_ns: Sequence[int], counts: Sequence[int] | None = None) -> Histogram:
    """Make a histogram of durations, with ``counts`` of each."""
    values = np.asarray(values_ns, dtype=np.int64).clip(STORED.lowest, STORED.highest)
    places = np.searchsorted(STORED.bounds()[0], values, side="right") - 1
    counts_by_index = np.bincount(places, weights=counts, minlength=STORED.counters).astype(
        np.int64
    )
    return Histogram(STORED, counts_by_index)


def unreadable(what: str, program: str, lines: Sequence[str]) -> RunFailed:
    """The error for a summary without what every release prints."""
    tail = "\n".join(lines[-_REPORTED_LINES:]) or "(it printed nothing)"
    return RunFailed(what, f"{program}'s summary cannot be read:\n{tail}", "report its version")
