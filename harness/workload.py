"""The base class of workloads, and the session in which the runner measures one.

A workload is a folder under ``harness/workloads/``: ``params.py`` with its parameters (``PARAMS``,
a class of harness.workloads.parameters), ``workload.py`` with ``WORKLOAD``. It knows no engine's
name: an engine says what it can do (harness.engine.Engine), and its own folder has its SQL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from harness.engine import Credentials, Engine, MemoryPolicy, Process, ProcessStarter
from harness.experiment.placement import Part
from harness.host import free_memory
from harness.host.footprint import Footprint
from harness.host.page_cache import Residency, evict, residency
from harness.iotrace.intervals import TimedIo
from harness.monitors import GuardedMonitor, Monitor
from harness.progress import Progress
from harness.store.checkpoint import Checkpoint
from harness.store.result import Cached, Check, Metric
from harness.store.spec import JsonObject
from harness.supervise import silence
from harness.supervise.process import process_identity
from harness.tiers.traffic import TierTraffic
from harness.units import GIB
from harness.warnings import RunWarning
from harness.workloads.parameters import Parameters

#: The parameters of a workload.
P = TypeVar("P", bound=Parameters)


@dataclass(frozen=True)
class Outcome:
    """The result of the measured phase.

    ``artifacts``: JSON documents stored next to run.json, by file name without extension
    (``{"plans": {...}, "answers": {...}}``). ``uncontrolled``: the workload's own warnings, in
    addition to those of the host.
    """

    metrics: list[Metric]
    checks: list[Check]
    artifacts: JsonObject = field(default_factory=dict)
    uncontrolled: Sequence[RunWarning] = ()


@dataclass(frozen=True)
class Clients:
    """How client programs are started: under the supervisor, outside the engine's memory cap.

    ``scratch``: a private directory of the user they run as. ``credentials``: that user; None if
    the harness itself is unprivileged. ``inside``: an engine that runs in the driver's process;
    ``memory``: its policy. ``joined``: an engine in whose network drivers run.
    """

    processes: ProcessStarter
    credentials: Credentials | None
    scratch: Path
    inside: Engine | None = None
    memory: MemoryPolicy | None = None
    joined: Engine | None = None

    def start_driver(self, argv: Sequence[str], **options: Any) -> Process:
        """Start the driver as that user; ``options`` as of ``spawn``.

        With an engine inside, memory cap, processors and memory policy apply to the driver, and
        it is the engine's process. Other programs (builds) are spawned without them.
        """
        options = {"credentials": self.credentials, **options}
        if self.inside is None:
            network = (self.joined.network() if self.joined else None) or ""
            return self.processes.spawn(argv, capped=False, network=network, **options)
        process = self.processes.spawn(
            argv, capped=True, traced=True, memory=self.memory, **options
        )
        if (identity := process_identity(process.pid)) is not None:
            self.inside.host(identity)
        return process


@dataclass(frozen=True)
class Loading:
    """Arguments of a load: a started, empty engine, and the driver that will run on it.

    ``source``: folder of the source data that ``generate`` made; None if there are none.
    ``threads``: most threads of the load.
    """

    engine: Engine
    driver: str
    source: Path | None
    clients: Clients
    threads: int
    progress: Progress


Moment = Literal["before", "after", "under way", "before untimed", "after untimed"]


#: Above this share of pages still in the page cache a start is not called cold.
COLD_SHARE = 0.01


class Spans(Protocol):
    """Something that follows the queries and windows of a run."""

    def begin(self) -> None:
        """One begins; another may be under way."""

    def end(self) -> None:
        """One ends; nothing where none has begun."""


@dataclass
class Session:
    """The runner's services for a workload during the measured phase.

    ``residency``: one entry per cold start, measured with the engine stopped and
    its files evicted: what the next query found of data and indexes in the page cache.
    """

    engine: Engine
    progress: Progress
    #: Source data of the workload (as made by ``generate``).
    source: Path | None = None
    drop_caches: bool = False
    #: Changes that the measured phase applies (as made by ``generate_changes``).
    changes: Path | None = None
    #: One of the drivers of the workload's parameters.
    driver: str = "native"
    #: Seed of all random choices: the same in every run of one block of an experiment.
    seed: int = 0
    #: How client programs are started; None in a session that starts none.
    client_starter: Clients | None = None
    #: The finished steps of the run, those of earlier attempts among them.
    checkpoint: Checkpoint | None = None
    #: The tiers in use, whose devices count what they move.
    traffic: TierTraffic = field(default_factory=lambda: TierTraffic(()))
    #: Whether what the engine reads of its data passes the page cache (not on DAX, tmpfs).
    page_cached: bool = True
    #: Directories of redo log and temporary files: a large empty log, always cold, would
    #: hide data that are not.
    apart: Sequence[Path] = ()
    #: Directories of modelled tiers: what is evicted is the model of their page cache, and the
    #: file system below reads from memory, which costs less than on any modelled device.
    modelled: Sequence[Path] = ()
    #: Who may change the engine's files (harness.supervise.user_files); None: we alone.
    user: Credentials | None = None
    #: Checks whether the engine's processes are where they should be.
    check_placement: Callable[[], list[Check]] = list
    placement_checks: list[Check] | None = None
    #: Called after each start of the engine, before it is measured.
    on_start: Callable[[], None] = lambda: None
    #: What is traced of the engine's file I/O between "before" and "after", and in windows.
    timed_io: TimedIo | None = None
    #: The observer of this second execution.
    observed: Spans | None = None
    #: Those that were started.
    monitors: Sequence[Monitor | GuardedMonitor] = ()
    #: A session of each of several databases that are measured at once; ``engine`` is then all of
    #: them. Empty for one database.
    instances: Sequence[Session] = ()
    residency: list[Cached] = field(default_factory=list)
    #: The cold starts that were not cold although their files could be evicted.
    not_cold: list[str] = field(default_factory=list)
    _written: tuple[int, int] = (0, 0)
    #: Whether the last reading under way began a window.
    _in_window: bool = False
    #: Requests under way on the tiers' devices before the measurement.
    _in_flight: int = 0

    def __post_init__(self) -> None:
        """Cold starts of finished steps are this run's, too."""
        if self.checkpoint is not None:
            self.residency += self.checkpoint.residency
            self.not_cold += self.checkpoint.not_cold
            self._written = (len(self.residency), len(self.not_cold))

    @property
    def each(self) -> Sequence[Session]:
        """The sessions of the instances; this one where there is one database."""
        return self.instances or (self,)

    def remember(self, step: str, document: Any) -> None:
        """Write the step, with the cold starts since the previous one, and fsync."""
        if self.checkpoint is None:
            return
        residency, not_cold = self._written
        self.checkpoint.finish(step, document, self.residency[residency:], self.not_cold[not_cold:])
        self._written = (len(self.residency), len(self.not_cold))

    def recalled(self, step: str) -> Any | None:
        """From the steps that are written."""
        return self.checkpoint.document(step) if self.checkpoint is not None else None

    def cold_start(self, label: str) -> None:
        """Stop, evict, measure residency, start. The engine's own cache goes with its process.

        An external server keeps running and clears its caches.
        """
        self.engine.stop()
        if self.engine.kind == "external":
            resident, total = self.engine.clear_caches()
            self._note_cold(label, Residency(resident, total, note="the server's own cache"))
        else:
            self.evict(label)
        self.engine.start()
        self.on_start()

    def counters(self, moment: Moment = "after") -> Mapping[str, float]:
        """The engine's own cumulative counters, the monitors' and those of the tiers.

        Reading the engine's counters makes it work. So before a statement they are read
        first and those of its processes last; after it the processes come first: the
        difference then covers the statement alone. The host's counters (devices, memory
        controllers) are in between: they include what the processes caused, also by requests
        that are still in progress afterwards (read-ahead) and are waited for.

        ``under way``, other clients are at work: nothing is waited for. As a window begins, an
        engine whose counters move with each operation comes first: the operations until the
        reading would be missing. It comes last otherwise, since a busy server delays the reading.
        """
        before = (self.engine.counters, self._devices_before, self._processes)
        after = (self._processes, self._devices_after, self.engine.counters)
        order: Mapping[Moment, Sequence[Callable[[], Mapping[str, float]]]] = {
            "before": before,
            "before untimed": before,
            "after": after,
            "after untimed": after,
            "under way": (self._processes, self._devices, self.engine.counters),
        }
        counters: dict[str, float] = {}
        reads = list(order[moment])
        if moment == "after":
            self._mark(begins=False)
        elif moment == "under way":
            self._in_window = not self._in_window
            if self._in_window and not self.engine.published_after_ns:
                counters |= _read([reads.pop()])
            self._mark(begins=self._in_window)
        counters |= _read(reads)
        silence.enter(self._phase_after(moment))
        if moment == "before":
            self._mark(begins=True)
        return counters

    def _phase_after(self, moment: Moment) -> str:
        if moment == "under way":
            return "measure" if self._in_window else "check"
        if moment.startswith("before"):
            return "query"
        now = silence.current_phase()
        return "check" if now == "query" else now

    def _mark(self, begins: bool) -> None:
        followers: Sequence[Spans | None] = (self.timed_io, self.observed)
        for spans in followers:
            if spans is not None:
                (spans.begin if begins else spans.end)()

    def _totals(self, scope: str) -> dict[str, float]:
        totals: dict[str, float] = {}
        for monitor in self.monitors:
            if monitor.scope == scope:
                totals |= monitor.totals()
        return totals

    def _processes(self) -> Mapping[str, float]:
        return self._totals("engine")

    def _devices_before(self) -> Mapping[str, float]:
        self._in_flight = self.traffic.in_flight()
        return self._devices()

    def _devices_after(self) -> Mapping[str, float]:
        self.traffic.settle(self._in_flight)
        return self._devices()

    def _devices(self) -> Mapping[str, float]:
        return {**self.traffic.read(), **self._totals("host")}

    def measured(self) -> None:
        """Check the engine's processes now, not when the workload has ended."""
        self.placement_checks = self.check_placement()

    def own_checks(self) -> list[Check]:
        """Return checks of cold starts (else the cache mode is doubtful) and of the placement."""
        cold = Check("cold-start", "unknown", "; ".join(self.not_cold[:3]))
        return [*([cold] if self.not_cold else []), *(self.placement_checks or [])]

    def footprint(self) -> Footprint:
        """Return the footprint: what is touched of the engine's files and memory from now on.

        The engine's counters are read first: after a cold start that opens a
        connection of ours and reads catalogs, which would count as the query's.
        """
        self.engine.counters()
        self._totals("host")  # of waits, by a connection of its own
        return Footprint(self.engine.files, self.engine.processes, self.page_cached, self.user)

    def clients(self) -> Clients:
        """Return what client programs are started with."""
        if self.client_starter is None:
            raise RuntimeError("a session without a scratch directory starts no clients")
        return self.client_starter

    def evict(self, label: str) -> None:
        """Evict the stopped engine's files, and note what of its data is still cached."""
        real = [
            path
            for path in self.engine.files()
            if not any(path.is_relative_to(folder) for folder in self.modelled)
        ]
        if self.timed_io is not None:
            self.timed_io.evict()
        evict(real, self.user)
        cached = residency(real, self.apart, self.user)
        note = cached.note
        if self.drop_caches and _cold(cached) is False:
            # fadvise leaves pages that are mapped or under way; only root may do more.
            # Not done at first: it slows the whole host and makes a binary's own pages cold.
            evict(real, self.user, drop=True)
            cached = residency(real, self.apart, self.user)
            note = "; ".join(text for text in (cached.note, "drop_caches was needed") if text)
        self._note_cold(label, replace(cached, note=note))
        if free_memory.is_given_back():
            files = residency(self.engine.files(), self.apart, self.user)
            free_memory.take_back(files.total_bytes, self.progress)

    def _note_cold(self, label: str, cached: Residency) -> None:
        self.residency.append(Cached(label, cached.resident_bytes, cached.total_bytes, cached.note))
        if _cold(cached) is not True:
            self.not_cold.append(
                f"{label}: {cached.resident_bytes} of {cached.total_bytes} bytes resident"
                if cached.resident_bytes is not None
                else f"{label}: not known ({cached.note})"
            )


def _cold(cached: Residency) -> bool | None:
    """Return whether next to nothing that could be evicted is still resident; None: not known."""
    if cached.resident_bytes is None:
        return None
    evictable = cached.total_bytes - cached.unevictable_bytes
    return cached.resident_bytes - cached.unevictable_bytes <= COLD_SHARE * max(evictable, 0)


def _read(reads: Sequence[Callable[[], Mapping[str, float]]]) -> dict[str, float]:
    with silence.phase("counters"):
        return {name: value for read in reads for name, value in read().items()}


#: Largest log of an engine that states none.
_USUAL_LOG_BYTES = 4 * GIB


def with_log_limit(sizes: Mapping[Part, int], limit_bytes: int | None = None) -> dict[Part, int]:
    """Return estimates by part, of a log that becomes no larger than ``limit_bytes``."""
    log_bytes = min(sizes.get("wal", 0), limit_bytes or _USUAL_LOG_BYTES)
    return {**sizes, "wal": log_bytes}


class Workload(ABC, Generic[P]):
    """One workload; its name is its folder's. Methods with a default are optional abilities."""

    name: ClassVar[str]
    #: Whether its runs have data of the user: their folders are for their owner alone.
    private: ClassVar[bool] = False

    @abstractmethod
    def data_key(self, params: P, driver: str) -> dict[str, Any]:
        """Return the facts that loaded data depend on (scale, seed …), for a driver."""

    @abstractmethod
    def estimate_bytes(self, params: P, engine_format: str) -> dict[Part, int]:
        """Return an upper estimate of each directory part's size, before anything is loaded.

        Of ``wal``: all that is written to it. :func:`with_log_limit` has what is there at a time.
        """

    @abstractmethod
    def load(self, params: P, loading: Loading) -> dict[str, Any]:
        """Load into the started, empty engine; return facts for the data's fingerprint."""

    @abstractmethod
    def measure(self, params: P, session: Session) -> Outcome:
        """Warm up, measure, check."""

    def check_engine(
        self, params: P, driver: str, engine: Engine, settings: Mapping[str, str]
    ) -> None:
        """Raise UsageError for a run that cannot work: of an engine without SQL, by default.

        The engine is not started.
        """
        engine.sql(self.name)

    def tables(self, params: P, engine: Engine) -> Collection[str]:
        """Return the names of all tables that are loaded; empty where they are not known."""
        return ()

    def loaded_bytes(self, params: P) -> int:
        """Return the size of all rows that are loaded, on any engine; 0 if unknown."""
        return 0

    def spends_data(self, params: P) -> bool:
        """Return whether the measured phase changes the data.

        Where the harness cannot restore them (a user's server) it loads them for every run.
        """
        return False

    def source_key(self, params: P, engine: Engine) -> str:
        """Return the name of the source files' folder (same name, same bytes); empty: no files."""
        return ""

    def source_bytes(self, params: P, engine_format: str) -> int:
        """Estimate the size of what ``generate`` writes."""
        return 0

    def generate(self, params: P, engine: Engine, folder: Path, progress: Progress) -> None:
        """Make the source files in ``folder`` in the format that the engine loads (idempotent)."""

    def changes_key(self, params: P) -> str:
        """Return the name of the folder of changes that the measured phase applies, or nothing."""
        return ""

    def changes_bytes(self, params: P) -> int:
        """Estimate the size of what ``generate_changes`` writes."""
        return 0

    def generate_changes(self, params: P, folder: Path, progress: Progress) -> None:
        """Make the changes in ``folder`` (idempotent)."""
