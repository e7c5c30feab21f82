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

import threading
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from harness.counters import labelled
from harness.host.processors import virtualised
from harness.host.uncore import LINE_BYTES, UNIT_BYTES, TrafficEvent, traffic_choices
from harness.monitors import Monitor, MonitorContext
from harness.monitors._perf_stat import PATIENCE_S, EventCount, PerfStat
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.units import NS_PER_S
from harness.warnings import RunWarning


class TrafficMonitor(Monitor):
    """Has perf count events by socket; a kind adds the events, and the sums they are part of.

    perf prints its counts at the end of each interval, and no sooner.
    """

    interval_s: ClassVar[float] = 0.1

    def __init__(
        self, context: MonitorContext, kernel: Kernel = LIVE, program: str = "perf"
    ) -> None:
        super().__init__(context)
        self._kernel = kernel
        self._perf = PerfStat(program, self.interval_s, self._receive, ["--per-socket"])
        self._changed = threading.Condition()
        self._interval: list[EventCount] = []
        self._counts_in_interval = 0
        self._uncounted_s: dict[tuple[str, str], float] = {}
        self._totals: dict[str, float] = {}
        self._samples: list[tuple[float, dict[str, float]]] = []

    @abstractmethod
    def _choices(self) -> Sequence[Sequence[TrafficEvent]]:
        """Return the events of the kernel; the first choice that perf has is counted."""

    @abstractmethod
    def _sums(self, event: TrafficEvent, socket: str, sockets: int) -> Sequence[str]:
        """Return the names of the sums that a count of an event is part of."""

    def start(self) -> None:
        """Start perf, where it can count all events."""
        if self._events:
            self._perf.start(list(self._events))

    def stop(self) -> None:
        """Stop perf and wait until it has ended."""
        self._perf.stop()
        with self._changed:
            self._finish()

    def totals(self) -> Mapping[str, float]:
        """Bytes by name up to the next interval's end, which is waited for.

        A sum of which one counter did not run is left out.
        """
        moment_s = (time.monotonic_ns() - self._perf.earliest_ns) / NS_PER_S
        deadline = time.monotonic() + PATIENCE_S
        with self._changed:
            while self._ended_s() < moment_s and self._perf.prints and time.monotonic() < deadline:
                self._changed.wait(self.interval_s)
            return self._samples[-1][1] if self._samples else {}

    def _ended_s(self) -> float:
        """The end of the last interval."""
        return self._samples[-1][0] if self._samples else 0.0

    def series(self) -> Mapping[str, Any]:
        """``events: [name], samples: [{monotonic_ns, …}]``: the totals."""
        return {
            "interval_s": self.interval_s,
            "clock": "monotonic",
            "stamp_error_ns": self._perf.latest_ns - self._perf.earliest_ns,
            "samples": [
                {"monotonic_ns": self._perf.latest_ns + round(stamp_s * NS_PER_S), **totals}
                for stamp_s, totals in list(self._samples)
            ],
            "events": sorted(self._events),
        }

    @cached_property
    def _tried(self) -> tuple[Mapping[str, TrafficEvent], str]:
        """Events that perf counts, by name, all or none: a sum without one would be wrong.

        And why it does not; empty where the kernel offers none.
        """
        problem = ""
        for choice in filter(None, self._choices()):
            events = {event.name: event for event in choice}
            counted, problem = self._perf.tried(list(events))
            unfit = [
                count.event
                for count in counted
                if not count.supported or count.event not in events or count.unit not in UNIT_BYTES
            ]
            if not problem and not unfit:
                return events, ""
            problem = problem or f"{unfit[0]}: not supported"
        return {}, problem

    @property
    def _events(self) -> Mapping[str, TrafficEvent]:
        return self._tried[0]

    def _why_uncounted(self) -> str | None:
        """Why an event cannot be counted; empty where the kernel offers none; None if all can."""
        return None if self._events else self._tried[1]

    def warnings(self) -> Sequence[RunWarning]:
        """Warn about a perf that was killed."""
        return self._perf.warnings(self.name)

    def _receive(self, count: EventCount) -> None:
        """Add a count to its interval, which ends with as many as the one before, or the next."""
        with self._changed:
            if self._interval and count.stamp_s != self._interval[0].stamp_s:
                self._finish()
            self._interval.append(count)
            if len(self._interval) == self._counts_in_interval:
                self._finish()

    def _finish(self) -> None:
        """Add the interval to the totals.

        A time in which a counter did not run is joined to its next interval: it counts as fast.
        """
        if not self._interval:
            return
        stamp_s = self._interval[0].stamp_s
        duration_s = stamp_s - self._ended_s()
        sockets = len({count.socket for count in self._interval})
        incomplete: set[str] = set()
        for count in self._interval:
            names = self._sums(self._events[count.event], count.socket, sockets)
            uncounted_s = self._uncounted_s.pop((count.event, count.socket), 0.0)
            if count.value is None:
                self._uncounted_s[count.event, count.socket] = uncounted_s + duration_s
                incomplete.update(names)
                continue
            lines = count.value * UNIT_BYTES[count.unit] / LINE_BYTES
            moved = round(lines * (1 + uncounted_s / duration_s)) * LINE_BYTES
            for name in names:
                self._totals[name] = self._totals.get(name, 0.0) + moved
        complete = {n: value for n, value in self._totals.items() if n not in incomplete}
        self._samples.append((stamp_s, complete))
        self._counts_in_interval, self._interval = len(self._interval), []
        self._changed.notify_all()


class MemoryTraffic(TrafficMonitor):
    """Counts what each memory controller moves: DRAM and modules, not CXL devices."""

    name: ClassVar[str] = "memory-traffic"
    cost: ClassVar[str] = "runs perf stat, which reads the controllers' counters 10 times a second"

    def preflight(self) -> RunWarning | None:
        """Return whether the kernel offers such counters, and lets us open them."""
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

    def warnings(self) -> Sequence[RunWarning]:
        """Warn about memory that its controllers do not see."""
        nodes = [
            f"tier {tier.name} (node {', '.join(map(str, tier.claim.nodes))})"
            for tier in self._context.tiers
            if "cxl" in (tier.facts.memory_kind or "").split(", ")
        ]
        unseen = RunWarning(
            "memory-traffic-without-cxl",
            "memory-traffic does not count what CXL devices move",
            f"{', '.join(nodes)}: only memory controllers of processors are counted",
            "read the figures of the monitor cxl (harness doctor shows whether it works here)",
        )
        return [*super().warnings(), *([unseen] if nodes else [])]

    def _choices(self) -> Sequence[Sequence[TrafficEvent]]:
        return traffic_choices(self._kernel)

    def _sums(self, event: TrafficEvent, socket: str, sockets: int) -> Sequence[str]:
        """Sum over all sockets, and where there are several, that of the count's."""
        of_socket = labelled(f"socket_{event.counts}", socket=socket)
        return [event.counts, *([of_socket] if sockets > 1 else [])]


MONITOR = MemoryTraffic
