"""Monitors sample something during the measured phase, on the monotonic clock.

Each is one file of this folder, or of a folder in ``$HARNESS_MONITOR_PATH``, whose ``MONITOR``
is a subclass of :class:`Monitor`. docs/adding-a-monitor.md shows one, docs/monitors.md
lists those that come along.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from harness.iotrace.trace import IoTrace
from harness.store.result import Metric
from harness.supervise.process import ProcessId
from harness.tiers.linux.model import Tier
from harness.waits import WaitObserver
from harness.warnings import RunWarning


@dataclass(frozen=True)
class MonitorContext:
    """What a monitor may know of the run.

    ``processes``: the processes that work for the engine at that moment. ``waits``: makes the
    engine's view of its sessions, or None; None outside of a run. ``tiers``: those in use, each
    once. ``cgroup``: the run's control group of version 2; None without one. ``io_trace``: that of
    the engine's file I/O, or None; None outside of a run.
    """

    processes: Callable[[], Sequence[ProcessId]] = tuple
    waits: Callable[[], WaitObserver | None] | None = None
    tiers: Sequence[Tier] = ()
    cgroup: Path | None = None
    io_trace: Callable[[], IoTrace | None] | None = None


class Monitor(ABC):
    """One monitor of one run. Its life: preflight → start → (totals …) → stop → series.

    A monitor never fails a run: what it cannot read is left out, and an exception becomes the
    warning ``monitor-failed``.
    """

    #: As in a profile's ``monitors`` and in ``artifacts/monitor-<name>.json``.
    name: ClassVar[str]
    #: What it does to the host while it runs, for ``harness doctor``.
    cost: ClassVar[str]
    #: Whether every run has it where its preflight passes; others only where requested.
    default: ClassVar[bool] = True
    #: Whether it counts for the engine's processes alone, or for everything on the host.
    scope: ClassVar[Literal["engine", "host"]] = "host"

    def __init__(self, context: MonitorContext) -> None:
        self._context = context

    def preflight(self) -> RunWarning | None:
        """Return why it cannot work on this host, with a fix; it is not started then."""
        return None

    def start(self) -> None:
        """Begin to count and to sample."""

    def stop(self) -> None:
        """End both; no error when it was not started."""

    def totals(self) -> Mapping[str, float]:
        """Return cumulative counters, unit in each name: their differences are a query's or a
        window's. They become metrics. A monitor that counts by intervals of its own has none.
        """
        return {}

    @abstractmethod
    def series(self) -> Mapping[str, Any]:
        """Return the samples, as stored: ``{interval_s, clock, samples: [{monotonic_ns, …}]}``."""

    def metrics(self) -> Sequence[Metric]:
        """Return the figures of the measured phase as a whole, once it has stopped."""
        return ()

    def warnings(self) -> Sequence[RunWarning]:
        """Return what makes its numbers less trustworthy, once it has stopped."""
        return ()
