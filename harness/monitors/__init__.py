"""Monitors sample something during the measured phase, on the monotonic clock.

Each is one file of this folder, or of a folder in ``$HARNESS_MONITOR_PATH``, whose ``MONITOR``
is a subclass of :class:`Monitor`. docs/adding-a-monitor.md shows one, docs/monitors.md
lists those that come along.
"""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from harness.iotrace.page import IoTrace
from harness.store.result import Metric
from harness.supervise.process import ProcessId
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import Tier
from harness.waits import WaitObserver
from harness.warnings import RunWarning, unique


@dataclass(frozen=True)
class MonitorContext:
    """Facts of the run that a monitor may use.

    ``processes``: the processes that work for the engine at that moment. ``waits``: makes the
    engine's view of its sessions, or None; None outside of a run. ``tiers``: those in use, each
    once. ``cgroup``: the run's control group of version 2; None without one. ``io_trace``: that of
    the engine's file I/O, or None; None outside of a run. ``external``: the engine is a server of
    the user's own, whose processes are not the harness's.
    """

    processes: Callable[[], Sequence[ProcessId]] = tuple
    waits: Callable[[], WaitObserver | None] | None = None
    tiers: Sequence[Tier] = ()
    cgroup: Path | None = None
    io_trace: Callable[[], IoTrace | None] | None = None
    external: bool = False


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


T = TypeVar("T")


class GuardedMonitor:
    """A monitor whose exceptions become warnings. Its functions are those of Monitor."""

    def __init__(self, kind: type[Monitor], context: MonitorContext) -> None:
        self.name: str = kind.name
        self.scope: Literal["engine", "host"] = kind.scope
        self._kind, self._context = kind, context
        self._monitor: Monitor
        self._warnings: list[RunWarning] = []

    def preflight(self) -> RunWarning | None:
        """Create the monitor; its problem, or its exception."""
        problem = self._guarded(self._created_preflight, None)
        return problem or (self._warnings[0] if self._warnings else None)

    def _created_preflight(self) -> RunWarning | None:
        self._monitor = self._kind(self._context)
        return self._monitor.preflight()

    def start(self) -> None:
        self._guarded(self._monitor.start, None)

    def stop(self) -> None:
        self._guarded(self._monitor.stop, None)

    def totals(self) -> Mapping[str, float]:
        """Its totals; nothing where it fails."""
        nothing: Mapping[str, float] = {}
        return self._guarded(self._monitor.totals, nothing)

    def series(self) -> Mapping[str, Any]:
        """Its samples; nothing where it fails."""
        nothing: Mapping[str, Any] = {}
        return self._guarded(lambda: _storable(self._monitor.series()), nothing)

    def metrics(self) -> Sequence[Metric]:
        """Its figures of the whole phase."""
        nothing: Sequence[Metric] = ()
        return self._guarded(
            lambda: [_storable_metric(metric) for metric in self._monitor.metrics()], nothing
        )

    def warnings(self) -> Sequence[RunWarning]:
        """Its own, and its first exception."""
        nothing: Sequence[RunWarning] = ()
        warnings = self._guarded(self._monitor.warnings, nothing)
        return unique([*warnings, *self._warnings[:1]])

    def _guarded(self, call: Callable[[], T], otherwise: T) -> T:
        try:
            return call()
        except Exception as error:
            context = f"{self.name}: {type(error).__name__}: {error}"
            self._warnings.append(
                RunWarning("monitor-failed", f"monitor {self.name} is incomplete", context)
            )
            return otherwise


def _storable(document: T) -> T:
    """The document; ValueError or TypeError if JSON cannot express it (a rate that is NaN)."""
    json.dumps(document, allow_nan=False)
    return document


def _storable_metric(metric: Metric) -> Metric:
    _storable(metric.to_json())
    return metric


#: Of the interval, the last sample is at least this long after the previous one.
_LEAST_SHARE = 0.1


class SampledMonitor(Monitor, ABC):
    """Calls ``sample`` every ``interval_s`` on a thread, at ``start``, and a last time at ``stop``.

    A kind adds ``name``, ``cost``, ``preflight`` and ``totals`` (harness.monitors.Monitor). An
    error of ``sample`` is stored as the sample: the gap is visible and the run continues. A sample
    is stamped with the middle of its reading.
    """

    interval_s: ClassVar[float] = 1.0

    def __init__(self, context: MonitorContext, kernel: Kernel = LIVE) -> None:
        super().__init__(context)
        self._kernel = kernel
        self._stopped = threading.Event()
        self._samples: list[dict[str, Any]] = []
        self._stamp_error_ns = 0
        self._thread = threading.Thread(target=self._loop, name="monitor", daemon=True)

    @abstractmethod
    def totals(self) -> Mapping[str, float]:
        """Return the cumulative counters at this moment."""

    def sample(self) -> Mapping[str, float]:
        return self.totals()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop it; no error when it was not started."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def series(self) -> Mapping[str, Any]:
        """``{interval_s, clock, stamp_error_ns, samples: [{monotonic_ns, …}]}``.

        ``stamp_error_ns``: the farthest that any stamp can be from its reading.
        """
        return {
            "interval_s": self.interval_s,
            "clock": "monotonic",
            "stamp_error_ns": self._stamp_error_ns,
            "samples": self._samples,
        }

    def _loop(self) -> None:
        due = time.monotonic()
        while not self._stopped.is_set():
            self._samples.append(self._stamped())
            now = time.monotonic()
            due = max(due + self.interval_s, now)  # a missed sample is not made up for
            self._stopped.wait(due - now)
        self._append_last()

    def _append_last(self) -> None:
        """Take a last sample, but where rates since the previous one would be those of a moment."""
        passed_ns = time.monotonic_ns() - self._samples[-1]["monotonic_ns"] if self._samples else 0
        if passed_ns > _LEAST_SHARE * self.interval_s * 1e9:
            self._samples.append(self._stamped())

    def _stamped(self) -> dict[str, Any]:
        begin = time.monotonic_ns()
        try:
            sample: dict[str, Any] = dict(self.sample())
        except Exception as error:
            sample = {"error": f"{type(error).__name__}: {error}"}
        end = time.monotonic_ns()
        self._stamp_error_ns = max(self._stamp_error_ns, (end - begin + 1) // 2)
        return {"monotonic_ns": (begin + end) // 2, **sample}
