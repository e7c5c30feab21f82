"""Uncore counters of a monitor: opened all or none, read as sums of bytes by name."""

from __future__ import annotations

import errno
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from harness.host.perf_event import PerfCounter, Total
from harness.host.uncore import TrafficEvent
from harness.tiers.linux.kernel import Kernel

_PARANOID = "/proc/sys/kernel/perf_event_paranoid"


class TrafficCounters:
    """One counter for each event. ``names``: those of the sums that an event is part of."""

    def __init__(
        self,
        kernel: Kernel,
        events: Callable[[Kernel], Sequence[TrafficEvent]],
        names: Callable[[TrafficEvent, Sequence[TrafficEvent]], Sequence[str]],
    ) -> None:
        self._kernel, self._events, self._names = kernel, events, names
        self._stack = ExitStack()
        self._open: list[tuple[Sequence[str], float, PerfCounter]] = []
        #: Names of the events, for the stored series.
        self.events: list[str] = []

    def open(self) -> str | None:
        """Open all counters or none (a sum without one of them would be a wrong number).

        Returns why there are none; empty where the kernel offers no such event.
        """
        events = self._events(self._kernel)
        for event in events:
            try:
                counter = PerfCounter(event.event, event.cpu)
            except OSError as error:
                self.close()
                return f"{event.name} on processor {event.cpu}: {self._why(error)}"
            self._stack.callback(counter.close)
            self._open.append((self._names(event, events), event.bytes_per_count, counter))
        self.events = sorted({event.name for event in events})
        return None if events else ""

    def close(self) -> None:
        """Close all; no error when none is open."""
        self._stack.close()
        self._open = []

    def reader(self) -> Callable[[], dict[str, float]]:
        """A function that returns bytes so far by name.

        The difference of two of its readings is what passed between them (see :class:`Total`); a
        sum of which one counter did not run is left out. Two readers do not disturb one another.
        """
        totals: defaultdict[PerfCounter, Total] = defaultdict(Total)

        def read() -> dict[str, float]:
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

        return read

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
