"""Input and output of every program of microbenchmarks.

Bytes that memory controllers and the tier's device moved while a configuration was measured.

PerMA-Bench (PVLDB 15(11), sections 4.4 and 4.5.1) reads such counters to say why two rates differ:
the prefetchers read more than was requested. The counters are the host's: what others move is
in them. They are read as all threads begin and as the last one has ended.
"""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from harness.counters import difference, split
from harness.errors import RunFailed
from harness.execution.environment import Environment
from harness.micro.model import Measurement
from harness.monitors import GuardedMonitor
from harness.monitors.dimm_media import MediaReader
from harness.native_programs import find_native
from harness.store.checkpoint import Checkpoint
from harness.store.result import Labels, Metric
from harness.store.spec import Json, JsonObject
from harness.tiers.linux.model import Tier
from harness.tiers.traffic import TierTraffic
from harness.units import NS_PER_S
from harness.workload import Outcome


@dataclass(frozen=True)
class MicroContext:
    """Place of a program's measurements, with the results of earlier attempts.

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
    #: Counters of the tier's Optane modules; None where there are none, or they are excluded.
    media: MediaReader | None = None
    #: Counters of memory controllers and the tier's device; None where nothing counts.
    traffic: TrafficReader | None = None
    #: Surrounds the measuring of a configuration; of its measurement and its own name.
    around: Callable[[str, str], AbstractContextManager[None]] = lambda *_: nullcontext()

    def step(
        self, measurement: str, configuration: str, repeat: int, measure: Callable[[], Json]
    ) -> Any:
        """Return a repeat's result: that of an earlier attempt, else measured now and stored."""
        name = f"{configuration} (repeat {repeat + 1} of {self.repeats})"
        result = self.finished(name)
        if result is None:
            with measuring(name), self.around(measurement, configuration):
                result = measure()
            self.finish(name, result)
        return result

    def finished(self, name: str) -> Any | None:
        """Return the result of a step that an earlier attempt finished."""
        return self.checkpoint.document(name) if self.checkpoint else None

    def finish(self, name: str, document: Json) -> None:
        """Store the result of a step."""
        if self.checkpoint is not None:
            self.checkpoint.finish(name, document)

    @property
    def files(self) -> Path:
        """Return ``directory`` of a tier that has files."""
        assert self.directory is not None, f"{self.tier.name} has no files"
        return self.directory


@dataclass(frozen=True, kw_only=True)
class ProgramOutcome(Outcome):
    """Results of one program on one tier.

    ``version``: of the program; ``tool``: that the host has, empty for our own. ``checks``: at
    least one, since a run without any is of unknown worth. ``configurations``: each with the hash
    of its settings that no label states.
    """

    version: str
    configurations: Mapping[str, str]
    tool: str = ""

    @property
    def program(self) -> tuple[str, str, str]:
        """Return version, build and source, as in a manifest."""
        if not self.tool:
            return self.version, self.version, "built with the harness"
        source = f"Debian's or the host's own {self.tool}"
        return self.version, f"{self.tool} {self.version}", source


@dataclass(frozen=True)
class Planned:
    """Planned work of a program: ``measuring_ns`` of all repeats; None where counts end it.

    ``setup_ns``: what else takes time, about; None where that is not known: ``extra`` says what it
    is. ``counted``: configurations that end by a number of operations, whose time is in neither.
    """

    configurations: Sequence[Measurement]
    measuring_ns: int | None
    extra: str = ""
    setup_ns: int | None = None
    counted: int | None = None

    @property
    def known_ns(self) -> int:
        """Return the duration of all whose length is known."""
        return (self.measuring_ns or 0) + (self.setup_ns or 0)


class MeasuringProgram(ABC):
    """A program that measures a suite on a tier; made with its parameters, which are checked."""

    #: As in a suite.
    name: ClassVar[str]

    @property
    def executable(self) -> str | None:
        """Return the program's file; None where it is missing."""
        return str(find_native(self.name) or "") or shutil.which(self.name)

    @property
    def in_spec(self) -> JsonObject:
        """Return its entries of the run's spec, in addition to the suite."""
        return {}

    @abstractmethod
    def planned(self, repeats: int, tier: Tier | None = None) -> Planned:
        """Plan the measurements; without a tier, as if there were all the room."""

    @abstractmethod
    def measure(self, work: MicroContext) -> ProgramOutcome:
        """Measure every configuration on the tier."""


def failed_in(configuration: str, error: RunFailed | OSError) -> RunFailed:
    """Return the failure with the measured configuration in its problem."""
    if isinstance(error, OSError):
        return RunFailed(f"measure {configuration}", str(error))
    return RunFailed(f"measure {configuration}: {error.problem}", error.context, error.hint)


@contextmanager
def measuring(configuration: str) -> Iterator[None]:
    """Name this configuration in whatever fails inside."""
    try:
        yield
    except (RunFailed, OSError) as error:
        raise failed_in(configuration, error) from error


#: Monitors whose totals are bytes that memory moved.
_MONITORS = ("memory-traffic", "cxl")
_BYTES = "_bytes"


@dataclass
class TrafficReader:
    """Reads cumulative bytes by counter (harness.counters), and how fast they grew between."""

    sources: Sequence[Callable[[], Mapping[str, float]]]
    _begin_ns: int = 0
    _begun: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, monitors: Sequence[GuardedMonitor], tier: Tier) -> Self | None:
        """Return a reader of the started monitors and the tier's device; None if nothing counts."""
        counting = [monitor.totals for monitor in monitors if monitor.name in _MONITORS]
        reader = cls([*counting, TierTraffic([tier]).read])
        return reader if reader._read() else None

    def begin(self) -> None:
        self._begun, self._begin_ns = self._read(), time.monotonic_ns()

    def rates(self) -> dict[str, float]:
        """Return bytes per second since ``begin``, by counter."""
        passed_ns = time.monotonic_ns() - self._begin_ns  # a reading may wait, and nothing moves
        moved = difference(self._begun, self._read())
        return {name: value * NS_PER_S / max(1, passed_ns) for name, value in moved.items()}

    def _read(self) -> dict[str, float]:
        return {name: value for source in self.sources for name, value in source().items()}


def traffic_metrics(labels: Labels, rates: Sequence[Mapping[str, float]]) -> Iterator[Metric]:
    """Yield the traffic of a configuration, a sample a repeat: of what was counted in each."""
    for counter in dict.fromkeys(name for repeat_rates in rates for name in repeat_rates):
        samples = tuple(repeat_rates[counter] for repeat_rates in rates if counter in repeat_rates)
        if len(samples) == len(rates):
            name, counter_labels = split(counter)
            of_counter = {**labels, **counter_labels, "counter": name.removesuffix(_BYTES)}
            yield Metric("traffic_bytes_per_second", "B/s", "none", of_counter, samples=samples)
