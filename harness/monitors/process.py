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
        self._sampler = Sampler(lambda: read_counters(self._processes()), interval_s)

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
        """``samples: [{monotonic_ns, cpu_ns, rss_bytes, …}]``."""
        return self._sampler.series()


MONITOR = ProcessMonitor
