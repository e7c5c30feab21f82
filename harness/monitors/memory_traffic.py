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
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar

from harness.counters import labelled
from harness.host.processors import virtualised
from harness.host.uncore import PerfCounter, Total, TrafficEvent, traffic_events
from harness.monitors import MonitorContext, SampledMonitor
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.warnings import RunWarning

_PARANOID = "/proc/sys/kernel/perf_event_paranoid"

#: What each counter has counted for one reader (see :class:`Total`): two do not disturb each other.
Totals = defaultdict[PerfCounter, Total]


class TrafficMonitor(SampledMonitor):
    """Opens one counter for each event; a kind adds the events, and the sums they are part of."""

    def __init__(self, context: MonitorContext, kernel: Kernel = LIVE) -> None:
        super().__init__(context, kernel)
        self._stack = ExitStack()
        self._open: list[tuple[Sequence[str], float, PerfCounter]] = []
        self._event_names: list[str] = []
        #: One for queries and one for the samples, which would cut theirs short.
        self._of_totals, self._of_samples = Totals(Total), Totals(Total)

    @abstractmethod
    def _events(self) -> Sequence[TrafficEvent]:
        """Those that the kernel offers."""

    @abstractmethod
    def _sums(self, event: TrafficEvent, events: Sequence[TrafficEvent]) -> Sequence[str]:
        """Names of the sums that an event is part of."""

    def start(self) -> None:
        """Open the counters, and sample them."""
        self._open_all()
        super().start()

    def stop(self) -> None:
        """Stop sampling, and close the counters."""
        super().stop()
        self._close()

    def totals(self) -> Mapping[str, float]:
        """Bytes so far by name; a sum of which one counter did not run is left out."""
        return self._read(self._of_totals)

    def sample(self) -> Mapping[str, float]:
        return self._read(self._of_samples)

    def series(self) -> Mapping[str, Any]:
        """``events: [name], samples: [{monotonic_ns, …}]``: the totals."""
        return {**super().series(), "events": self._event_names}

    def _why_uncounted(self) -> str | None:
        """Why an event cannot be counted; empty where the kernel offers none; None if all can."""
        why = self._open_all()
        self._close()
        return why

    def _open_all(self) -> str | None:
        """Open all counters or none: a sum without one of them would be a wrong number."""
        events = self._events()
        for event in events:
            try:
                counter = PerfCounter(event.event, event.cpu)
            except OSError as error:
                self._close()
                return f"{event.name} on processor {event.cpu}: {self._why(error)}"
            self._stack.callback(counter.close)
            self._open.append((self._sums(event, events), event.bytes_per_count, counter))
        self._event_names = sorted({event.name for event in events})
        return None if events else ""

    def _close(self) -> None:
        self._stack.close()
        self._open = []

    def _read(self, totals: Totals) -> dict[str, float]:
        sums: dict[str, float] = {}
        incomplete: set[str] = set()
        for names, bytes_per_count, counter in self._open:
            count = _count(counter, totals[counter])
            for name in names:
                if count is None:
                    incomplete.add(name)
                else:
                    sums[name] = sums.get(name, 0.0) + count * bytes_per_count
        return {name: value for name, value in sums.items() if name not in incomplete}

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
