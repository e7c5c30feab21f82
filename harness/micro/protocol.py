"""What every program of microbenchmarks receives and returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import RunFailed
from harness.execution.environment import Environment
from harness.store.checkpoint import Checkpoint
from harness.store.result import Check, Metric
from harness.store.spec import Json
from harness.tiers.linux.model import Tier
from harness.warnings import RunWarning


@dataclass(frozen=True)
class Workplace:
    """Where a program measures, and what an earlier attempt measured already.

    ``directory``: the run's own on the tier, of the unprivileged user, removed at the end
    however the harness ends; None on tiers without directories (numa, devdax). ``scratch``:
    for logs, likewise removed. ``repeats``: samples of each metric.
    """

    tier: Tier
    env: Environment
    directory: Path | None
    scratch: Path
    seed: int
    repeats: int
    checkpoint: Checkpoint | None = None

    def step(self, name: str, measure: Callable[[], Json]) -> Any:
        """A step's result: that of an earlier attempt, else measured now and written down."""
        found = self.finished(name)
        if found is None:
            found = measure()
            self.finish(name, found)
        return found

    def finished(self, name: str) -> Any | None:
        """The result of a step of an earlier attempt."""
        return self.checkpoint.document(name) if self.checkpoint else None

    def finish(self, name: str, document: Json) -> None:
        """Write a step's result down."""
        if self.checkpoint is not None:
            self.checkpoint.finish(name, document)

    @property
    def files(self) -> Path:
        """``directory``, of a tier that was seen to have one."""
        assert self.directory is not None, f"{self.tier.name} has no files"
        return self.directory


@dataclass(frozen=True)
class Measured:
    """What one program measured on one tier.

    ``version`` and ``build``: of the program, as in a manifest; ``artifacts``: JSON documents
    by name, stored with the result. ``checks``: at least one, since a run without any is of
    unknown worth.
    """

    metrics: tuple[Metric, ...]
    checks: tuple[Check, ...]
    version: str
    build: str
    source: str = ""
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    uncontrolled: tuple[RunWarning, ...] = ()


@dataclass(frozen=True)
class PlannedOne:
    """One configuration of another program, with its duration or operations per repeat."""

    configuration: str
    threads: int
    range_bytes: int
    duration_ns: int | None = None
    operations: int | None = None


@dataclass(frozen=True)
class Planned:
    """What another program will do: ``measuring_ns`` of all repeats; None where counts end it.

    ``extra``: what else takes time, of unknown length. ``details``: for programs that read it.
    """

    configurations: tuple[PlannedOne, ...]
    measuring_ns: int | None
    extra: str
    details: Mapping[str, Any] | None = None


def failed_in(configuration: str, error: RunFailed | OSError) -> RunFailed:
    """The same failure, with the measured configuration in its problem."""
    if isinstance(error, OSError):
        return RunFailed(f"measure {configuration}", str(error))
    return RunFailed(f"measure {configuration}: {error.problem}", error.context, error.hint)


@contextmanager
def measuring(configuration: str) -> Iterator[None]:
    """What fails inside names this configuration: one of many may be what a device cannot do."""
    try:
        yield
    except (RunFailed, OSError) as error:
        raise failed_in(configuration, error) from error
