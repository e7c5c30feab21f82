"""What pgbench and sysbench have in common: a client runs scripts for a time and prints a summary.

Each is started twice: for the ramp-up, whose output is not read, and for the measurement window.
So its own summary is the window's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.drivers.client_program import STDERR, ClientProgram, private_folder
from harness.drivers.result import WindowCallbacks
from harness.errors import RunFailed
from harness.hdr import Histogram, Layout
from harness.later import np
from harness.progress import Progress
from harness.supervise.silence import limit_s
from harness.supervise.user_files import write_text
from harness.workload import Clients

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
