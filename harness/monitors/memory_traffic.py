"""What the memory controllers moved: bytes read and written, DRAM and persistent modules.

The counters are the host's, not the engine's: whatever else runs is in them, and so is
the harness itself. They are read before and after every query (exactly, as counters of
the session) and sampled over the measured phase. The VLDB 2023 paper's Fig 3 shows the
same from VTune's Platform Profiler.

``dram_read_bytes`` and ``dram_write_bytes`` sum over all sockets; where there are
several, ``socket_dram_read_bytes[socket=0]`` and its like tell them apart.
``pmem_read_bytes`` and ``pmem_write_bytes`` are what passed between controllers and
Optane modules, 64 bytes a request; the media behind move 256 at a time. In Memory Mode
the DRAM numbers include its work as a cache.
"""

from __future__ import annotations

import errno
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from harness.counters import labelled
from harness.host.cpu import virtualised
from harness.host.uncore import TrafficEvent, traffic_events
from harness.monitors.perf_event import PerfCounter, Total
from harness.tiers.linux.kernel import LIVE, Kernel

_PARANOID = "/proc/sys/kernel/perf_event_paranoid"


class MemoryTraffic:
    """Counts ``events`` from ``__enter__`` on; ``missing``: why there is nothing to count with."""

    name = "memory-traffic"

    def __init__(self, kernel: Kernel = LIVE, interval_s: float = 0.1) -> None:
        self._kernel = kernel
        self._interval_s = interval_s
        self._counters: list[tuple[TrafficEvent, PerfCounter]] = []
        self._open = ExitStack()
        #: Of the queries' readings, and of the samples', which must not cut theirs short.
        self._totals: defaultdict[PerfCounter, Total] = defaultdict(Total)
        self._sampled: defaultdict[PerfCounter, Total] = defaultdict(Total)
        self._stop = threading.Event()
        self._samples: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._loop, name=self.name, daemon=True)
        self.events: list[str] = []
        self.missing: str | None = None

    def __enter__(self) -> MemoryTraffic:
        self._open_counters()
        if self._counters:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._open.close()
        self._counters = []

    def read(self) -> dict[str, float]:
        """Bytes so far by counter name; a kind of which one counter did not run is left out.

        The difference of two readings is what passed between them (see :class:`Total`).
        """
        return self._read(self._totals)

    def _read(self, totals: defaultdict[PerfCounter, Total]) -> dict[str, float]:
        sums: dict[str, float] = {}
        incomplete: set[str] = set()
        sockets = {event.socket for event, _ in self._counters}
        for event, counter in self._counters:
            names = [event.counts]
            if len(sockets) > 1:
                names.append(labelled(f"socket_{event.counts}", socket=str(event.socket)))
            found = _read(counter, totals[counter])
            for name in names:
                if found is None:
                    incomplete.add(name)
                else:
                    sums[name] = sums.get(name, 0.0) + found * event.bytes_per_count
        return {name: value for name, value in sums.items() if name not in incomplete}

    def series(self) -> Mapping[str, Any]:
        """``{interval_s, clock: monotonic, samples: [{monotonic_ns, dram_read_bytes, …}]}``."""
        return {
            "interval_s": self._interval_s,
            "clock": "monotonic",
            "missing": self.missing,
            "events": self.events,
            "samples": self._samples,
        }

    def _open_counters(self) -> None:
        """All of them or none: a sum without one of the channels would be a wrong number."""
        events = traffic_events(self._kernel)
        if not events:
            where = virtualised(self._kernel)
            inside = f" (inside a {where})" if where else ""
            self.missing = f"the kernel offers none{inside}"
            return
        for event in events:
            try:
                counter = PerfCounter(event.event, event.cpu)
            except OSError as error:
                self._open.close()
                self._counters = []
                self.missing = f"{event.name} on processor {event.cpu}: {self._why(error)}"
                return
            self._open.callback(counter.close)
            self._counters.append((event, counter))
        self.events = sorted({event.name for event in events})

    def _why(self, error: OSError) -> str:
        if error.errno in (errno.EACCES, errno.EPERM):
            level = self._kernel.read(_PARANOID)
            return f"not permitted (kernel.perf_event_paranoid is {level}; 0 or root would do)"
        return str(error)

    def _loop(self) -> None:
        while not self._stop.is_set():
            self._samples.append({"monotonic_ns": time.monotonic_ns(), **self._read(self._sampled)})
            self._stop.wait(self._interval_s)


def _read(counter: PerfCounter, total: Total) -> float | None:
    """A monitor must never break a run: what cannot be read is left out, and the gap visible."""
    try:
        return total.at(counter.read())
    except OSError:
        return None
