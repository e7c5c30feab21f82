"""The workload protocol: schema, load, measured phase, and the check of its answers.

A workload is a folder under ``harness/workloads/``: ``params.py`` with its parameters (``PARAMS``,
a class of harness.workloads.parameters), ``workload.py`` with ``WORKLOAD``. It knows no engine's
name: it queries an engine's abilities by ``isinstance`` on the protocols of harness.engine, and
reads its SQL from the engine's own folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from harness.engine import Credentials, Engine, MemoryPolicy, Process, ProcessStarter, RunsInClient
from harness.experiment.placement import Part
from harness.host.working_set import Footprint
from harness.progress import Progress
from harness.store.result import Check, Metric
from harness.supervise.process import process_identity
from harness.warnings import RunWarning
from harness.workloads.parameters import Parameters

#: The parameters of a workload.
P_contra = TypeVar("P_contra", bound=Parameters, contravariant=True)


@dataclass(frozen=True)
class Outcome:
    """What the measured phase gave.

    ``artifacts``: JSON documents stored beside run.json, by file name without
    ending (``{"plans": {...}, "answers": {...}}``). ``uncontrolled``: what the workload
    found that makes its numbers doubtful, beside what the host is found to be.
    """

    metrics: list[Metric]
    checks: list[Check]
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    uncontrolled: Sequence[RunWarning] = ()


@dataclass(frozen=True)
class Clients:
    """How client programs are started: under the supervisor, outside the engine's memory cap.

    ``scratch``: a private directory of the user they run as. ``credentials``: that user;
    None where the harness itself is unprivileged. ``inside``: the engine that works inside
    the program which offers the load, where it is such a one; ``memory``: its policy.
    """

    processes: ProcessStarter
    credentials: Credentials | None
    scratch: Path
    inside: RunsInClient | None = None
    memory: MemoryPolicy | None = None

    def start_driver(self, argv: Sequence[str], **options: Any) -> Process:
        """Start the program that offers the load, as that user; ``options`` as of ``spawn``.

        With an engine inside, it is what memory cap, processors and memory policy hold, and
        what the engine's processes are. Other programs (builds) are spawned as they are.
        """
        options = {"credentials": self.credentials, **options}
        if self.inside is None:
            return self.processes.spawn(argv, capped=False, **options)
        process = self.processes.spawn(argv, capped=True, memory=self.memory, **options)
        if (identity := process_identity(process.pid)) is not None:
            self.inside.host(identity)
        return process


@dataclass(frozen=True)
class Loading:
    """What a load works with: a started, empty engine, and the driver that will run on it.

    ``source``: where ``generate`` has put the source data; None where there are none.
    ``threads``: how many of them may work on the load.
    """

    engine: Engine
    driver: str
    source: Path | None
    clients: Clients
    threads: int
    progress: Progress


class Session(Protocol):
    """What the runner offers a workload during the measured phase."""

    engine: Engine
    progress: Progress
    #: Source data of the workload (as made by ``generate``).
    source: Path | None
    #: What the measured phase changes the data by (as made by ``generate_changes``).
    changes: Path | None
    #: What offers the load, one of the workload's ``drivers``.
    driver: str
    #: Of all that is drawn at random: the same in every run of one block of an experiment.
    seed: int

    def cold_start(self, label: str) -> None:
        """Stop the engine, evict its files, start it; residency is measured and recorded."""

    def counters(
        self, moment: Literal["before", "after", "under way"] = "after"
    ) -> Mapping[str, float]:
        """Cumulative counters of engine and kernel for it: bytes read, CPU ns …

        ``moment``: whether it is asked before or after what is measured, or at a bound of a
        window while clients are at work (their processes first, and at once). What cannot
        be read is left out, never zero.
        """

    def remember(self, step: str, document: Any) -> None:
        """Keep what ``step`` of the measured phase gave, for good, before the next one begins.

        A run that is cut off goes on behind its last such step. ``document``: JSON; it
        is all that is kept, and comes back as it is.
        """

    def recalled(self, step: str) -> Any | None:
        """What ``step`` gave in an earlier sitting of this run, None where it is still to do."""

    def measured(self) -> None:
        """The measured window has ended and its clients are still there: the last moment to see
        where the memory and the processors are of an engine that works inside one of them.
        """

    def footprint(self) -> Footprint:
        """What is touched of the engine's files and memory from now on (after a cold start)."""

    def clients(self) -> Clients:
        """With what client programs are started."""


class Workload(Protocol[P_contra]):
    """One workload; its name is its folder's."""

    name: str

    def data_key(self, params: P_contra, driver: str) -> dict[str, Any]:
        """The facts that loaded data depend on (scale, seed …), for a driver."""

    def estimate_bytes(self, params: P_contra, engine_format: str) -> dict[Part, int]:
        """An upper estimate of what each directory part needs, before anything is loaded."""

    def load(self, params: P_contra, loading: Loading) -> dict[str, Any]:
        """Load into the started, empty engine; returns facts for the data's fingerprint."""

    def measure(self, params: P_contra, session: Session) -> Outcome:
        """Warm up, measure, check."""


# Optional abilities ------------------------------------------------------------


@runtime_checkable
class HasSource(Protocol[P_contra]):
    """Workloads that load from files which are made once and kept."""

    def source_key(self, params: P_contra, engine: Engine) -> str:
        """Name of the source data's folder: same name, same bytes."""

    def source_bytes(self, params: P_contra, engine_format: str) -> int:
        """An estimate of what ``generate`` writes."""

    def generate(self, params: P_contra, engine: Engine, folder: Path, progress: Progress) -> None:
        """Make the source data in ``folder`` in the format the engine loads (idempotent)."""


@runtime_checkable
class KnowsSize(Protocol[P_contra]):
    """Workloads that know the size of their rows beforehand, whatever engine stores them."""

    def loaded_bytes(self, params: P_contra) -> int:
        """Of all rows that are loaded."""


@runtime_checkable
class AsksOfEngine(Protocol[P_contra]):
    """Workloads that not every engine, or not every setting of it, suits."""

    def check_engine(
        self,
        params: P_contra,
        driver: str,
        engine: Engine,
        settings: Mapping[str, str],
    ) -> None:
        """UsageError for what can be known to fail; the engine is not started."""


@runtime_checkable
class SpendsData(Protocol[P_contra]):
    """Workloads whose measured phase leaves other data behind than it found.

    Where the harness cannot put the data back (a server of the user's) they are loaded
    anew for every run.
    """

    def spends_data(self, params: P_contra) -> bool:
        """Whether it does under these parameters."""


@runtime_checkable
class ChangesData(Protocol[P_contra]):
    """Workloads whose measured phase changes the data, by what was made beforehand."""

    def changes_key(self, params: P_contra) -> str | None:
        """Name of the folder with what the data are changed by; None: these do not change them."""

    def changes_bytes(self, params: P_contra) -> int:
        """An estimate of what ``generate_changes`` writes."""

    def generate_changes(self, params: P_contra, folder: Path, progress: Progress) -> None:
        """Make it in ``folder`` (idempotent)."""
