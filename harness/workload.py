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

from harness.engine import (
    Credentials,
    Engine,
    HasOwnNetwork,
    MemoryPolicy,
    Process,
    ProcessStarter,
    RunsInClient,
)
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
    """The result of the measured phase.

    ``artifacts``: JSON documents stored next to run.json, by file name without extension
    (``{"plans": {...}, "answers": {...}}``). ``uncontrolled``: the workload's own warnings, in
    addition to those of the host.
    """

    metrics: list[Metric]
    checks: list[Check]
    artifacts: Mapping[str, Any] = field(default_factory=dict)
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
    inside: RunsInClient | None = None
    memory: MemoryPolicy | None = None
    joined: HasOwnNetwork | None = None

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


class Session(Protocol):
    """The runner's services for a workload during the measured phase."""

    engine: Engine
    progress: Progress
    #: Source data of the workload (as made by ``generate``).
    source: Path | None
    #: Changes that the measured phase applies (as made by ``generate_changes``).
    changes: Path | None
    #: One of the drivers of the workload's parameters.
    driver: str
    #: Seed of all random choices: the same in every run of one block of an experiment.
    seed: int

    def cold_start(self, label: str) -> None:
        """Stop the engine, evict its files, start it; residency is measured and recorded."""

    def counters(self, moment: Moment = "after") -> Mapping[str, float]:
        """Cumulative counters of engine and kernel for it: bytes read, CPU ns …

        ``moment``: before or after the measured operation, or at a bound of a window while
        clients run (their processes are read first); ``untimed``: of a second execution, whose
        I/O is not the run's. A counter that cannot be read is left out,
        never zero.
        """

    def remember(self, step: str, document: Any) -> None:
        """Store the result of ``step``, a JSON document, before the next step begins.

        An interrupted run resumes after its last stored step.
        """

    def recalled(self, step: str) -> Any | None:
        """The stored result of ``step`` from an earlier attempt; None if it has not finished."""

    def measured(self) -> None:
        """Report that the window has ended while its clients still run: the last moment to read
        memory and processors of an engine inside one of them.
        """

    def footprint(self) -> Footprint:
        """Track the pages of the engine's files and memory that are touched from now on."""

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
        """UsageError for a run that cannot work; the engine is not started."""


@runtime_checkable
class SpendsData(Protocol[P_contra]):
    """Workloads whose measured phase changes the data.

    Where the harness cannot restore them (a user's server) it loads them again for every run.
    """

    def spends_data(self, params: P_contra) -> bool:
        """Whether it does under these parameters."""


@runtime_checkable
class ChangesData(Protocol[P_contra]):
    """Workloads whose measured phase applies changes that are generated beforehand."""

    def changes_key(self, params: P_contra) -> str | None:
        """Name of the folder of the changes; None if these parameters apply none."""

    def changes_bytes(self, params: P_contra) -> int:
        """An estimate of what ``generate_changes`` writes."""

    def generate_changes(self, params: P_contra, folder: Path, progress: Progress) -> None:
        """Make the changes in ``folder`` (idempotent)."""
