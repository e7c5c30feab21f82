"""Client programs that are not ours; what pgbench and sysbench have in common.

Each is started twice: for the ramp-up, whose output is not read, and for the measurement window.
So its own summary is the window's.
"""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from harness.drivers.result import WindowCallbacks
from harness.engine import Credentials, Process
from harness.errors import RunFailed
from harness.hdr import Histogram, Layout
from harness.host.process_counters import read_counters
from harness.later import np
from harness.progress import Progress
from harness.supervise.failures import log_tail
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

    def next_line(self) -> tuple[str, str] | None:
        """Return the name of the pipe and its next line; None if no line comes soon."""
        try:
            name, line = self._lines.get(timeout=_TICK_S)
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

    def failed(self, found: str) -> RunFailed:
        """Return the error with the program's last lines and its stderr."""
        lines = "\n".join(line for line in self.last if line.strip()) or "(it printed nothing)"
        errors = log_tail(self.folder / STDERR, self.user)
        stderr = "" if errors.endswith("is empty)") else f"\nIts stderr:\n{errors}"
        return RunFailed(self._what, self._clean(f"{found}\nIts last lines:\n{lines}{stderr}"))

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
    """A script of the user's, or a bundled one with an empty text; ``weight``: among all."""

    name: str
    text: str
    weight: int = 1


@dataclass(frozen=True)
class Load:
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
class Ended:
    """A program that has ended: its lines, and what it used from its start to about its end.

    ``began_ns``, ``ended_ns``: by the monotonic clock.
    """

    lines: Sequence[str]
    began_ns: int
    ended_ns: int
    cpu_share: float | None


@dataclass(frozen=True)
class Job:
    """A client program in its private folder. ``environment``: without secrets in it.

    ``files``: by name, private to the user that it runs as. ``secret``: never in a message.
    """

    what: str
    files: Mapping[str, str]
    environment: Mapping[str, str]
    secret: str


@contextmanager
def working(clients: Clients, job: Job) -> Iterator[Path]:
    """Make the private folder with the job's files; removed at the end."""
    with private_folder(clients, "client-") as folder:
        for name, text in job.files.items():
            write_text(folder / name, text, clients.credentials)
        yield folder


def run(
    clients: Clients, job: Job, folder: Path, argv: Sequence[str], duration_ns: int, title: str,
    progress: Progress,
) -> Ended:  # fmt: skip
    """Run a program for its time; RunFailed with its last lines if it fails or does not end."""
    env = {name: text.replace("FOLDER", str(folder)) for name, text in job.environment.items()}
    began_ns = time.monotonic_ns()
    process = clients.start_driver(argv, cwd=folder, env=env, log=folder / STDERR, pipes=True)
    lines: list[str] = []
    readings: list[tuple[int, int]] = []
    total_s = duration_ns / 1e9
    deadline = time.monotonic() + total_s + limit_s("measure")
    pipes = {"stdout": process.stdout}
    program = ClientProgram(process, folder, clients.credentials, job.what, pipes, job.secret)
    with program.running(), progress.task(title, total_s, "s") as task:
        before = time.monotonic()
        while not program.over:
            if (found := program.next_line()) is not None:
                lines.append(found[1])
                program.last.append(found[1])
            if (cpu_ns := program.cpu_ns()) is not None:
                readings.append((time.monotonic_ns(), cpu_ns))
            now = time.monotonic()
            task.advance(now - before)
            before = now
            if now > deadline:
                raise program.failed(f"it hangs: it has not ended after {total_s:g} s")
        ended_ns = time.monotonic_ns()
        if status := process.wait():
            raise program.failed(f"it ended with status {status}")
    return Ended(lines, began_ns, ended_ns, _share(readings))


def measured(
    clients: Clients,
    job: Job,
    folder: Path,
    argv: Callable[[int], Sequence[str]],
    load: Load,
    drives: WindowCallbacks,
    progress: Progress,
) -> Ended:
    """Run the ramp-up, then the window; ``argv`` is made of the duration, in ns."""
    if load.ramp_up_ns:
        run(clients, job, folder, argv(load.ramp_up_ns), load.ramp_up_ns, "ramp-up", progress)
    drives.on_measuring()
    ended = run(
        clients, job, folder, argv(load.duration_ns), load.duration_ns, "measuring", progress
    )
    drives.on_measured()
    return ended


def offered(load: Load, window_ns: int, waiting: int) -> dict[str, Any]:
    """What a result has of an open loop: starts in the window, and those not begun at its end."""
    if load.rate_per_s is None:
        return {}
    return {
        "offered_count": round(load.rate_per_s * window_ns / 1e9),
        "backlog_count": (0, waiting),
    }


def whole_seconds(duration_ns: int) -> str:
    """The duration in seconds; both programs know whole seconds only."""
    return str(max(1, round(duration_ns / 1e9)))


def histogram(values_ns: Sequence[int], counts: Sequence[int] | None = None) -> Histogram:
    """Make a histogram of durations, with ``counts`` of each."""
    values = np.asarray(values_ns, dtype=np.int64).clip(STORED.lowest, STORED.highest)
    places = np.searchsorted(STORED.bounds()[0], values, side="right") - 1
    found = np.bincount(places, weights=counts, minlength=STORED.counters).astype(np.int64)
    return Histogram(STORED, found)


def unreadable(what: str, program: str, lines: Sequence[str]) -> RunFailed:
    """The error for a summary without what every release prints."""
    tail = "\n".join(lines[-15:]) or "(it printed nothing)"
    return RunFailed(what, f"{program}'s summary cannot be read:\n{tail}", "report its version")


def _share(readings: Sequence[tuple[int, int]]) -> float | None:
    """Processors in use between the first and the last reading."""
    if len(readings) < 2:
        return None
    (begin_ns, first), (end_ns, last) = readings[0], readings[-1]
    return (last - first) / max(1, end_ns - begin_ns)
