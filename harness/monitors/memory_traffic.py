"""Bytes that the memory controllers read and wrote, of DRAM and of persistent modules.

The counters are the host's, not the engine's: they include all other programs, and the
harness itself. The VLDB 2023 paper's Fig 3 shows the same from VTune's Platform Profiler.

``dram_read_bytes`` and ``dram_write_bytes`` sum over all sockets; where there are
several, ``socket_dram_read_bytes[socket=0]`` and so on are those of one.
``pmem_read_bytes`` and ``pmem_write_bytes`` passed between controllers and Optane modules,
64 bytes per request; their media transfer 256 bytes at a time. In Memory Mode
the DRAM numbers include its work as a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from harness.counters import labelled
from harness.host.cpu import virtualised
from harness.host.uncore import TrafficEvent, traffic_events
from harness.monitors._traffic import TrafficMonitor
from harness.warnings import RunWarning


class MemoryTraffic(TrafficMonitor):
    """Opens one counter for each event of each memory controller."""

    name: ClassVar[str] = "memory-traffic"
    cost: ClassVar[str] = "reads one counter per channel and direction ten times a second"
    interval_s: ClassVar[float] = 0.1

    def preflight(self) -> RunWarning | None:
        """Whether the kernel offers such counters, and lets us open them."""
        if (missing := self._why_uncounted()) is None:
            return None
        where = virtualised(self._kernel)
        inside = f" (inside a {where})" if where else ""
        return RunWarning(
            "memory-traffic-not-counted",
            "memory traffic is not counted",
            missing or f"the kernel offers no memory-controller counters{inside}",
            "run as root on bare metal whose processor has memory-controller counters",
        )

    def _events(self) -> Sequence[TrafficEvent]:
        return traffic_events(self._kernel)

    def _sums(self, event: TrafficEvent, events: Sequence[TrafficEvent]) -> Sequence[str]:
        """That over all sockets, and where there are several, that of the event's."""
        several = len({other.socket for other in events}) > 1
        of_socket = labelled(f"socket_{event.counts}", socket=str(event.socket))
        return [event.counts, *([of_socket] if several else [])]


MONITOR = MemoryTraffic
