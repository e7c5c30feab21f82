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

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from harness.counters import labelled
from harness.host.cpu import virtualised
from harness.host.uncore import TrafficEvent, traffic_events
from harness.monitors import MonitorContext
from harness.monitors._sampler import Sampler
from harness.monitors._traffic import TrafficCounters
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.warnings import RunWarning


class MemoryTraffic:
    """Opens one counter for each event of each memory controller."""

    name: ClassVar[str] = "memory-traffic"
    cost: ClassVar[str] = "reads one counter per channel and direction ten times a second"
    default: ClassVar[bool] = True
    scope: ClassVar[Literal["engine", "host"]] = "host"

    def __init__(
        self, context: MonitorContext, kernel: Kernel = LIVE, interval_s: float = 0.1
    ) -> None:
        self._kernel = kernel
        self._counters = TrafficCounters(kernel, traffic_events, _names)
        #: One reader for the queries and one for the samples, which would cut theirs short.
        self._read = self._counters.reader()
        self._sampler = Sampler(self._counters.reader(), interval_s)

    def preflight(self) -> RunWarning | None:
        """Whether the kernel offers such counters, and lets us open them."""
        missing = self._counters.open()
        self._counters.close()
        if missing is None:
            return None
        where = virtualised(self._kernel)
        inside = f" (inside a {where})" if where else ""
        return RunWarning(
            "memory-traffic-not-counted",
            "memory traffic is not counted",
            missing or f"the kernel offers no memory-controller counters{inside}",
            "run as root on bare metal whose processor has memory-controller counters",
        )

    def start(self) -> None:
        """Open the counters, and sample them."""
        self._counters.open()
        self._sampler.start()

    def stop(self) -> None:
        """Stop sampling, and close the counters."""
        self._sampler.stop()
        self._counters.close()

    def totals(self) -> Mapping[str, float]:
        """Bytes so far by counter name; a kind of which one counter did not run is left out."""
        return self._read()

    def series(self) -> Mapping[str, Any]:
        """``events: [name], samples: [{monotonic_ns, dram_read_bytes, …}]``."""
        return {**self._sampler.series(), "events": self._counters.events}


def _names(event: TrafficEvent, events: Sequence[TrafficEvent]) -> list[str]:
    """The sum over all sockets, and where there are several, that of the event's."""
    several = len({other.socket for other in events}) > 1
    of_socket = labelled(f"socket_{event.counts}", socket=str(event.socket))
    return [event.counts, *([of_socket] if several else [])]


MONITOR = MemoryTraffic
