"""The workload protocol: schema, load, measured phase, and the check of its answers.

A workload is a folder under ``harness/workloads/`` whose package has a
module-level ``WORKLOAD``. It knows no engine's name: what an engine can do it asks
by ``isinstance`` on the protocols of harness.engine, and what SQL the engine wants
it reads from the engine's own folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from harness.engine import Engine
from harness.memory.working_set import Footprint
from harness.placement import Part
from harness.progress import Progress
from harness.result import Check, Metric

CacheMode = Literal["cold-per-query", "cold-per-run", "warm"]


@dataclass(frozen=True)
class Outcome:
    """What the measured phase gave.

    ``artifacts``: JSON documents stored beside run.json, by file name without
    ending (``{"plans": {...}, "answers": {...}}``).
    """

    metrics: list[Metric]
    checks: list[Check]
    artifacts: Mapping[str, Any] = field(default_factory=dict)


class Session(Protocol):
    """What the runner offers a workload during the measured phase."""

    engine: Engine
    progress: Progress
    #: Source data of the workload (as made by ``generate``).
    source: Path | None
    #: What the measured phase changes the data by (as made by ``generate_changes``).
    changes: Path | None

    def cold_start(self, label: str) -> None:
        """Stop the engine, evict its files, start it; residency is measured and recorded."""

    def counters(self, moment: Literal["before", "after"] = "after") -> Mapping[str, float]:
        """Cumulative counters of engine and kernel for it: bytes read, CPU ns …

        ``moment``: whether it is asked before or after what is measured. What cannot
        be read is left out, never zero.
        """

    def remember(self, step: str, document: Any) -> None:
        """Keep what ``step`` of the measured phase gave, for good, before the next one begins.

        A run that is cut off goes on behind its last such step. ``document``: JSON; it
        is all that is kept, and comes back as it is.
        """

    def recalled(self, step: str) -> Any | None:
        """What ``step`` gave in an earlier sitting of this run, None where it is still to do."""

    def footprint(self) -> Footprint:
        """What is touched of the engine's files and memory from now on (after a cold start)."""


class Workload(Protocol):
    """One workload. ``params`` below is always what ``normalise`` returned."""

    name: str
    title: str

    def normalise(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Defaults filled in, every value checked: UsageError on an unknown key or bad value."""

    def data_key(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters that golden data depend on (scale, seed …)."""

    def estimate_bytes(self, params: Mapping[str, Any], engine_format: str) -> dict[Part, int]:
        """An upper estimate of what each directory part needs, before anything is loaded."""

    def source_bytes(self, params: Mapping[str, Any], engine_format: str) -> int:
        """An estimate of what ``generate`` writes."""

    def generate(
        self, params: Mapping[str, Any], engine: Engine, folder: Path, progress: Progress
    ) -> None:
        """Make the source data in ``folder`` in the format the engine loads (idempotent)."""

    def source_key(self, params: Mapping[str, Any], engine: Engine) -> str:
        """Name of the source data's folder: same name, same bytes."""

    def load(
        self, params: Mapping[str, Any], engine: Engine, source: Path, progress: Progress
    ) -> dict[str, Any]:
        """Load into the started, empty engine; returns facts for the data's fingerprint."""

    def measure(self, params: Mapping[str, Any], session: Session) -> Outcome:
        """Warm up, measure, check."""


@runtime_checkable
class ChangesData(Protocol):
    """Workloads whose measured phase changes the data, by what was made beforehand."""

    def changes_key(self, params: Mapping[str, Any]) -> str | None:
        """Name of the folder with what the data are changed by; None: these do not change them."""

    def changes_bytes(self, params: Mapping[str, Any]) -> int:
        """An estimate of what ``generate_changes`` writes."""

    def generate_changes(self, params: Mapping[str, Any], folder: Path, progress: Progress) -> None:
        """Make it in ``folder`` (idempotent)."""
