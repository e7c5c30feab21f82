"""HammerDB's process: the supervisor starts it, and it is ended when it has failed.

It runs as the unprivileged user and outside the engine's memory cap, in a private folder
with its script, its SQLite files and its logs, which is removed at the end whatever happens.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.drivers.client_program import STDERR, ClientProgram, private_folder
from harness.drivers.hammerdb.installation import HammerDb
from harness.drivers.hammerdb.output_parser import HammerDbOutput, Phase, response_times
from harness.drivers.hammerdb.script import TargetDatabase, TimedRun, build_script, timed_script
from harness.drivers.result import DriverResult, Operation, WindowCallbacks
from harness.engine import Credentials
from harness.progress import Progress, Task
from harness.supervise.silence import limit_s
from harness.supervise.user_files import read_text, write_text
from harness.workload import Clients

#: It starts its users one after the other (``vuset delay`` and the threads themselves).
_START_PER_USER_S = 0.5


def build(
    hammerdb: HammerDb,
    target: TargetDatabase,
    clients: Clients,
    warehouses: int,
    users: int,
    progress: Progress,
) -> dict[str, Any]:
    """Have HammerDB build its schema with ``users`` in parallel; facts of it.

    Its rows are drawn from a generator that it does not seed: no two builds are alike. RunFailed
    with HammerDB's last lines.
    """
    problem = f"{hammerdb.name}: build {warehouses} warehouses in {target!r}"
    total = 20 * warehouses  # ten districts' customers and orders
    script = build_script(target, warehouses, users)
    with _Conversation.open(hammerdb, target, clients, script, problem) as talk:
        with progress.task(f"{hammerdb.name} loads {target.database}", total, "parts") as task:
            done = 0
            while not talk.over:
                talk.listen()
                if talk.words.failure is not None:
                    break
                if talk.silent_s > (silence_s := limit_s("load")):  # while it builds indexes
                    raise talk.failed(f"it has printed nothing for {silence_s:g} s")
                filled = talk.words.customers + talk.words.orders
                task.advance(filled - done)
                done = filled
        talk.expect(talk.words.built and talk.words.complete, "it ended without a schema")
    return {"driver": hammerdb.name, "warehouses": warehouses, "routines": "procedures"}


def measure(
    hammerdb: HammerDb,
    target: TargetDatabase,
    clients: Clients,
    options: TimedRun,
    progress: Progress,
    drives: WindowCallbacks,
) -> DriverResult:
    """Have HammerDB drive the schema that it has built; RunFailed with its last lines.

    The window is the time between HammerDB's two counts; HammerDB divides by its whole minutes.
    ``drives``: called as the window begins and ends.
    """
    problem = f"{hammerdb.name}: {options.users} users on {target!r}"
    # For what HammerDB does around its minutes: starting, counting, gathering its time profile.
    margin_s = limit_s("measure")
    profiled_s = 60.0 * (options.ramp_up_min + options.duration_min)
    script = timed_script(target, options)
    with _Conversation.open(hammerdb, target, clients, script, problem) as talk:
        with progress.task("warm-up", 60.0 * options.ramp_up_min, "s") as task:
            window = _WindowListener(talk, drives, task, 60.0 * options.duration_min)
            starting_s = 60.0 * options.ramp_up_min + _START_PER_USER_S * options.users
            window.until("measuring", starting_s + margin_s)
            window.until("ending", 60.0 * options.duration_min + margin_s)
            # Its time profile is sorted by Tcl: the longer the run, the longer that takes.
            window.until(None, margin_s + profiled_s * options.time_profile)
        words = talk.words
        rates = words.new_orders_per_minute, words.transactions_per_minute
        talk.expect(None not in rates and words.complete, "it ended without a result")
        if not words.new_orders_per_minute:
            raise talk.failed("not one New-Order was committed in the measured window")
        if words.users != options.users:
            raise talk.failed(f"{words.users} virtual users were active")
        return DriverResult(
            driver="hammerdb",
            version=hammerdb.name,
            window_ns=window.ended_ns - window.began_ns,
            operations=_response_times(words, talk.folder, clients.credentials),
            client_cpu_ns=window.cpu_ns,
            client_threads=options.users,
            retried_by_code=dict(words.refused),
            notes={
                "database_version": words.database_version,
                "routines": words.switched or "procedures",
            },
            reported_per_minute={
                "new_orders_per_minute": words.new_orders_per_minute,
                "database_transactions_per_minute": words.transactions_per_minute or 0,
            },
        )


def _response_times(
    words: HammerDbOutput, folder: Path, user: Credentials | None
) -> dict[str, Operation]:
    """Return nothing where HammerDB has written no profile, or reports that it is not whole."""
    if words.profile is None or not words.profile_complete:
        return {}
    try:
        return response_times(read_text(folder / Path(words.profile).name, user))
    except OSError:
        return {}


class _Conversation(ClientProgram):
    """A running HammerDB, with the parser of its lines."""

    def __init__(self, *program: Any) -> None:
        super().__init__(*program)
        self.words = HammerDbOutput()

    @classmethod
    @contextmanager
    def open(
        cls, hammerdb: HammerDb, target: TargetDatabase, clients: Clients, script: str, problem: str
    ) -> Iterator[_Conversation]:
        """Start HammerDB on the script; at the end it and its folder are gone."""
        user = clients.credentials
        with private_folder(clients, "hammerdb-") as folder:
            path = folder / "script.tcl"
            write_text(path, script, user)
            process = clients.processes.spawn(
                [*hammerdb.argv, str(path)],
                cwd=hammerdb.home,
                env={**hammerdb.environment(folder), **target.environment},
                log=folder / STDERR,
                credentials=user,
                capped=False,
                pipes=True,
            )
            pipes = {"stdout": process.stdout}
            with cls(process, folder, user, problem, pipes, target.password).running() as talk:
                yield talk

    def listen(self) -> bool:
        """Read HammerDB's next line; return whether there was one."""
        if (output := self.next_line()) is None:
            return False
        _, line = output
        if line.strip():
            self.last.append(line)
        self.words.read_line(line)
        return True

    def expect(self, reached: bool, otherwise: str) -> None:
        """Raise RunFailed where HammerDB reported a failure, or has ended without ``reached``."""
        if self.words.failure is not None:
            while not self.words.failure_complete and self.listen():
                pass  # the lines after its first often say more
            raise self.failed(self.words.failure)
        if not reached:
            raise self.failed(otherwise)


@dataclass
class _WindowListener:
    """Listens through the phases of a timed run and takes the window's two moments."""

    talk: _Conversation
    drives: WindowCallbacks
    task: Task
    window_s: float
    began_ns: int = 0
    ended_ns: int = 0
    cpu_ns: int | None = None
    _told: float = field(default_factory=time.monotonic)

    def until(self, phase: Literal["measuring", "ending"] | None, limit_s: float) -> None:
        """Listen until that phase, or its end (None); RunFailed on a failure or at the limit."""
        deadline = time.monotonic() + limit_s
        while not self.talk.over and self.talk.words.failure is None:
            self.talk.listen()
            now = time.monotonic()
            self.task.advance(now - self._told)
            self._told = now
            if phase is not None and self.talk.words.phase == phase:
                self._enter(phase)
                return
            if time.monotonic() > deadline:
                raise self.talk.failed(f"it hangs: {_awaited(phase)} after {limit_s:g} s")
        self.talk.expect(phase is None, "it ended before its time")

    def _enter(self, phase: Literal["measuring", "ending"]) -> None:
        """Read our clock and HammerDB's processor time before the caller reads its counters."""
        now = time.monotonic_ns()
        cpu_ns = self.talk.cpu_ns()
        if phase == "measuring":
            self.began_ns, self.cpu_ns = now, cpu_ns
            self.drives.on_measuring()
            self.task.enter("measurement", self.window_s)
        else:
            self.ended_ns = now
            self.cpu_ns = None if cpu_ns is None or self.cpu_ns is None else cpu_ns - self.cpu_ns
            self.drives.on_measured()
            self.task.enter("waiting for HammerDB's result", None)


def _awaited(phase: Phase | None) -> str:
    if phase is None:
        return "its result is not there"
    return f"its measured window has not {'begun' if phase == 'measuring' else 'ended'}"
