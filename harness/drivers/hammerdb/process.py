"""HammerDB's process: the supervisor starts it, and it is ended when it has failed.

It runs as the unprivileged user and outside the engine's memory cap, in a private folder
with its script, its SQLite files and its logs, which is removed at the end whatever happens.

A parser of the lines that HammerDB prints while it works.

It ends with status 0 and "ALL VIRTUAL USERS COMPLETE" also where all of them have failed,
and a build whose monitor has failed waits for minutes before it does: the first line that
names a failure counts as one.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.drivers.client_program import STDERR, ClientProgram, private_folder
from harness.drivers.hammerdb.installation import HammerDb
from harness.drivers.hammerdb.script import Target, Timed, build_script, timed_script
from harness.drivers.result import DriverResult, Operation, WindowCallbacks
from harness.engine import Credentials
from harness.progress import Progress, Task
from harness.supervise.silence import limit_s
from harness.supervise.user_files import read_text, write_text
from harness.workload import Clients

#: Where a timed run is: nothing measured yet, in the measured window, after it.
Phase = Literal["starting", "measuring", "ending"]

_USER = re.compile(r"Vuser (\d+):(.*)")
_RESULT = re.compile(r"TEST RESULT : System achieved (\d+) NOPM from (\d+) .*TPM")
_VERSION = re.compile(r"DBVersion:(.+)")
_ACTIVE = re.compile(r"(\d+) Active Virtual Users configured")
#: Release 6 looks at what the database has, and calls that.
_ROUTINES = re.compile(r"Auto-switching pg_storedprocs to (true|false)")
_PROFILE = re.compile(r"Writing timing data to (.+)")
_ERROR = re.compile(
    r"Error in Virtual User \d+: ?(?P<user>.*)"
    r"|Error: ?(?P<own>.*)"
    r"|(?P<thread>Failed to created? .*)"
    r"|(?P<script>No Script loaded.*)"
)
_FAILED = re.compile(
    r"FINISHED FAILED|(.*exists but is not empty.*)|(the .* connection to .* could not be.*)"
    r"|(Monitor failed to notify ready state.*)"
)
#: What InnoDB, or SQL Server, says when a transaction is to be tried again, by its error number.
_TRANSIENT = {
    "1213": re.compile(r"Deadlock found", re.IGNORECASE),
    "1205": re.compile(r"Lock wait timeout exceeded|was deadlocked on", re.IGNORECASE),
    "1020": re.compile(r"Record has changed since last read", re.IGNORECASE),
}


@dataclass
class Words:
    """The state that HammerDB's lines describe; ``failure_complete``: all its lines are read.

    ``refused``: transactions that the server wanted retried and HammerDB gave up, by the
    server's error number. ``switched``: it calls functions, or procedures, though the other was
    set. ``customers``, ``orders``: districts that a build has filled.
    """

    failure: str | None = None
    failure_complete: bool = False
    phase: Phase = "starting"
    new_orders_per_minute: int | None = None
    transactions_per_minute: int | None = None
    users: int | None = None
    database_version: str | None = None
    profile: str | None = None
    profile_complete: bool = True
    refused: Counter[str] = field(default_factory=Counter)
    switched: str | None = None
    customers: int = 0
    orders: int = 0
    built: bool = False
    complete: bool = False
    _driving: set[int] = field(default_factory=set)

    def read_line(self, line: str) -> None:
        """Read one line; of a failure, also its continuation."""
        text = line.strip()
        if self.failure is not None:
            self._read_more(text)
            return
        if found := _ERROR.match(text):
            self.failure = next((part for part in found.groups() if part), text)
        elif text == "ALL VIRTUAL USERS COMPLETE":
            self.complete = True
        elif found := _USER.match(text):
            self._read_user(int(found[1]), found[2].strip())

    def _read_more(self, text: str) -> None:
        self.failure_complete = self.failure_complete or text.startswith("Vuser ")
        if text and not self.failure_complete:
            self.failure = f"{self.failure} {text}"

    def _read_user(self, user: int, said: str) -> None:
        if found := _FAILED.match(said):
            self.failure = next((part for part in found.groups() if part), f"Vuser {user}: {said}")
        elif said.startswith("Processing ") and "transactions" in said:
            self._driving.add(user)
        elif said == "FINISHED SUCCESS":
            self._driving.discard(user)
        elif user in self._driving:
            self._read_driving(user, said)
        else:
            self._read_progress(said)

    def _read_driving(self, user: int, said: str) -> None:
        """A user that drives says nothing but the server's errors."""
        for code, pattern in _TRANSIENT.items():
            if pattern.search(said):
                self.refused[code] += 1
                return
        if said:
            self.failure = f"Vuser {user}: {said}"

    def _read_progress(self, said: str) -> None:
        if said == "Customer Done":
            self.customers += 1
        elif said == "Orders Done":
            self.orders += 1
        elif said.endswith("SCHEMA COMPLETE"):
            self.built = True
        elif said.startswith("Timing test period of"):
            self.phase = "measuring"
        elif said.startswith("Test complete,"):
            self.phase = "ending"
        elif found := _RESULT.match(said):
            self.new_orders_per_minute = int(found[1])
            self.transactions_per_minute = int(found[2])
        elif found := _ACTIVE.match(said):
            self.users = int(found[1])
        elif found := _VERSION.match(said):
            self.database_version = found[1].strip()
        elif found := _ROUTINES.search(said):
            self.switched = "procedures" if found[1] == "true" else "functions"
        elif found := _PROFILE.search(said):
            self.profile = found[1].strip()
        elif said.startswith(("ERROR:Timing", "WARNING:Timing")):
            self.profile_complete = False


#: HammerDB's names of the transactions, and ours.
_TRANSACTIONS = {
    "NEWORD": "new_order",
    "PAYMENT": "payment",
    "OSTAT": "order_status",
    "DELIVERY": "delivery",
    "SLEV": "stock_level",
}
_PROCEDURE = re.compile(r">>>>> PROC: (\w+)\s*$")
_FIELD = re.compile(r"(CALLS|P99|P95|P50): ([\d.]+)")


def response_times(text: str) -> dict[str, Operation]:
    """Return the response times by our name of the transaction; empty without a summary.

    ``text``: hdbxtprofile.log, with times from a user's first transaction on, its ramp-up included.
    Percentiles are the summary's, over the calls of all users. The summary's CALLS are twice the
    calls of the users where it also stores them (4.12): the users' own are added up instead.
    """
    users, _, summary = text.partition(">>>>> SUMMARY OF")
    calls: Counter[str] = Counter()
    for name, fields in _procedures(users):
        calls[name] += int(fields["CALLS"])
    return {
        _TRANSACTIONS[name]: Operation(
            percentiles_ns={p: round(float(fields[f"P{p}"]) * 1e6) for p in ("50", "95", "99")},
            called_count=calls[name],
        )
        for name, fields in _procedures(summary)
        if name in _TRANSACTIONS and name in calls
    }


def _procedures(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return the fields of every procedure as text."""
    found: list[tuple[str, dict[str, str]]] = []
    for line in text.splitlines():
        if match := _PROCEDURE.match(line):
            found.append((match[1], {}))
        elif found:
            found[-1][1].update(_FIELD.findall(line))
    return found


#: It starts its users one after the other (``vuset delay`` and the threads themselves).
_START_PER_USER_S = 0.5


def build(
    hammerdb: HammerDb,
    target: Target,
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
    target: Target,
    clients: Clients,
    options: Timed,
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
            window = _Window(talk, drives, task, 60.0 * options.duration_min)
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


def _response_times(words: Words, folder: Path, user: Credentials | None) -> dict[str, Operation]:
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
        self.words = Words()

    @classmethod
    @contextmanager
    def open(
        cls, hammerdb: HammerDb, target: Target, clients: Clients, script: str, problem: str
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
        if (found := self.next_line()) is None:
            return False
        _, line = found
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
class _Window:
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
            self._tick()
            if phase is not None and self.talk.words.phase == phase:
                self._enter(phase)
                return
            if time.monotonic() > deadline:
                raise self.talk.failed(f"it hangs: {_awaited(phase)} after {limit_s:g} s")
        self.talk.expect(phase is None, "it ended before its time")

    def _tick(self) -> None:
        now = time.monotonic()
        self.task.advance(now - self._told)
        self._told = now

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
