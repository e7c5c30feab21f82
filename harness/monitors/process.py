"""CPU time, memory and I/O of the engine's processes (harness.host.process_counters)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from harness.host.process_counters import read_counters
from harness.monitors import SampledMonitor
from harness.supervise.process import ProcessId


class ProcessMonitor(SampledMonitor):
    """Samples the processes' counters once a second."""

    name: ClassVar[str] = "process"
    cost: ClassVar[str] = "reads /proc/PID/stat and io of each process once a second"
    scope: ClassVar[Literal["engine", "host"]] = "engine"

    def totals(self) -> Mapping[str, float]:
        """Sums over the processes now."""
        counters = _meaningful(self._context.processes())
        counters.pop("rss_bytes", None)  # a level, not a sum: its difference has no meaning
        return counters

    def sample(self) -> Mapping[str, float]:
        """``first_started_ticks, cpu_ns, rss_bytes, …``.

        ``first_started_ticks``: when the oldest process started. Between samples in which it
        differs, the engine was restarted, and the counters are of other processes.
        """
        processes = self._context.processes()
        if not processes:
            return {}
        started = min(process.start_ticks for process in processes)
        return {"first_started_ticks": started, **_meaningful(processes)}


def _meaningful(processes: Sequence[ProcessId]) -> dict[str, float]:
    """Without bytes written to storage: Linux counts a whole folio, however little is dirtied.

    With large folios, 8 KiB written and synced count as up to 2 MiB.
    """
    counters = read_counters(processes)
    counters.pop("io_write_bytes", None)
    return counters


MONITOR = ProcessMonitor
