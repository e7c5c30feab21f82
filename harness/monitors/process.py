"""CPU time, memory and I/O of the engine's processes (harness.host.process_counters)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from harness.host.process_counters import read_counters
from harness.monitors import MonitorContext
from harness.monitors._sampler import Sampler
from harness.warnings import RunWarning


class ProcessMonitor:
    """Samples the processes' counters once a second."""

    name: ClassVar[str] = "process"
    cost: ClassVar[str] = "reads /proc/PID/stat and io of each process once a second"
    default: ClassVar[bool] = True
    scope: ClassVar[Literal["engine", "host"]] = "engine"

    def __init__(self, context: MonitorContext, interval_s: float = 1.0) -> None:
        self._processes = context.processes
        self._sampler = Sampler(self._sample, interval_s)

    def preflight(self) -> RunWarning | None:
        """/proc is there; what it does not show of another user's processes is left out."""
        return None

    def start(self) -> None:
        """Start sampling."""
        self._sampler.start()

    def stop(self) -> None:
        """Stop sampling."""
        self._sampler.stop()

    def totals(self) -> Mapping[str, float]:
        """Sums over the processes now."""
        counters = read_counters(self._processes())
        counters.pop("rss_bytes", None)  # a level, not a sum: its difference has no meaning
        return counters

    def series(self) -> Mapping[str, Any]:
        """``samples: [{monotonic_ns, first_started_ticks, cpu_ns, rss_bytes, …}]``.

        ``first_started_ticks``: when the oldest process started. Between samples in which it
        differs, the engine was restarted, and the counters are of other processes.
        """
        return self._sampler.series()

    def _sample(self) -> Mapping[str, float]:
        processes = self._processes()
        if not processes:
            return {}
        started = min(process.start_ticks for process in processes)
        return {"first_started_ticks": started, **read_counters(processes)}


MONITOR = ProcessMonitor
