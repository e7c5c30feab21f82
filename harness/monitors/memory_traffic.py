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

import errno
from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, ClassVar, Literal

from harness.counters import labelled
from harness.host.cpu import virtualised
from harness.host.perf_event import PerfCounter, Total
from harness.host.uncore import TrafficEvent, traffic_events
from harness.monitors import MonitorContext
from harness.monitors._sampler import Sampler
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.warnings import RunWarning

_PARANOID = "/proc/sys/kernel/perf_event_paranoid"


class MemoryTraffic:
    """Opens one counter for each event of each memory controller."""

    name: ClassVar[str] = "memory-traffic"
    cost: ClassVar[str] = "reads one counter per channel and direction ten times a second"
    default: ClassVar[bool] = False
    scope: ClassVar[Literal["engine", "host"]] = "host"

    def __init__(
        self, context: MonitorContext, kernel: Kernel = LIVE, interval_s: float = 0.1
    ) -> None:
        self._kernel = kernel
        self._open = ExitStack()
        self._counters: list[tuple[TrafficEvent, PerfCounter]] = []
        #: One for the queries' readings and one for the samples', which would cut theirs short.
        self._totals: defaultdict[PerfCounter, Total] = defaultdict(Total)
        self._sampled: defaultdict[PerfCounter, Total] = defaultdict(Total)
        self._sampler = Sampler(lambda: self._read(self._sampled), interval_s)
        self._events: list[str] = []

    def preflight(self) -> RunWarning | None:
        """Whether the kernel offers such counters, and lets us open them."""
        missing = self._open_counters()
        self._open.close()
        if missing is None:
            return None
        return RunWarning(
            "memory-traffic-not-counted",
            "memory traffic is not counted",
            missing,
            "run as root on bare metal whose processor has memory-controller counters",
        )

    def start(self) -> None:
        """Open the counters, and sample them."""
        self._open_counters()
        self._sampler.start()

    def stop(self) -> None:
        """Stop sampling, and close the counters."""
        self._sampler.stop()
        self._open.close()
        self._counters = []

    def totals(self) -> Mapping[str, float]:
        """Bytes so far by counter name; a kind of which one counter did not run is left out.

        The difference of two readings is what passed between them (see :class:`Total`).
        """
        return self._read(self._totals)

    def series(self) -> Mapping[str, Any]:
        """``events: [name], samples: [{monotonic_ns, dram_read_bytes, …}]``."""
        return {**self._sampler.series(), "events": self._events}

    def _read(self, totals: defaultdict[PerfCounter, Total]) -> dict[str, float]:
        sums: dict[str, float] = {}
        incomplete: set[str] = set()
        sockets = {event.socket for event, _ in self._counters}
        for event, counter in self._counters:
            names = [event.counts]
            if len(sockets) > 1:
                names.append(labelled(f"socket_{event.counts}", socket=str(event.socket)))
            count = _count(counter, totals[counter])
            for name in names:
                if count is None:
                    incomplete.add(name)
                else:
                    sums[name] = sums.get(name, 0.0) + count * event.bytes_per_count
        return {name: value for name, value in sums.items() if name not in incomplete}

    def _open_counters(self) -> str | None:
        """Open all counters or none (a sum without a channel would be a wrong number).

        Returns why there are none.
        """
        self._counters = []
        events = traffic_events(self._kernel)
        if not events:
            where = virtualised(self._kernel)
            inside = f" (inside a {where})" if where else ""
            return f"the kernel offers no memory-controller counters{inside}"
        for event in events:
            try:
                counter = PerfCounter(event.event, event.cpu)
            except OSError as error:
                self._open.close()
                self._counters = []
                return f"{event.name} on processor {event.cpu}: {self._why(error)}"
            self._open.callback(counter.close)
            self._counters.append((event, counter))
        self._events = sorted({event.name for event in events})
        return None

    def _why(self, error: OSError) -> str:
        if error.errno in (errno.EACCES, errno.EPERM):
            level = self._kernel.read(_PARANOID)
            return f"not permitted (kernel.perf_event_paranoid is {level}, must be <= 0)"
        return str(error)


def _count(counter: PerfCounter, total: Total) -> float | None:
    try:
        return total.at(counter.read())
    except OSError:
        return None


MONITOR = MemoryTraffic
