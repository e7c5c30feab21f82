"""Clocks of the host that went apart during a run: it was suspended, or its time was set.

Durations are of CLOCK_MONOTONIC, which stands still while the host is suspended. Names of runs, the
logs of some clients and the clocks of client hosts are of CLOCK_REALTIME, which can be set. An NTP
daemon that slews changes the rate of both alike.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from harness.units import format_ns
from harness.warnings import RunWarning

#: Readings, of which the one is taken that nothing interrupted.
_READINGS = 5
#: Clocks that are farther apart than this were changed: a reading takes microseconds.
_APART_NS = 10_000_000


@dataclass(frozen=True)
class Clocks:
    """The clocks of the host at one moment, in ns."""

    monotonic_ns: int
    boottime_ns: int
    realtime_ns: int

    @classmethod
    def now(cls) -> Clocks:
        """Read the clocks."""
        readings = []
        for _ in range(_READINGS):
            before_ns = time.monotonic_ns()
            boottime_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            realtime_ns = time.time_ns()
            took_ns = time.monotonic_ns() - before_ns
            readings.append((took_ns, cls(before_ns + took_ns // 2, boottime_ns, realtime_ns)))
        return min(readings, key=lambda reading: reading[0])[1]


def clock_warnings(begin: Clocks, end: Clocks) -> Iterator[RunWarning]:
    """Yield a warning for each way in which the clocks went apart in between."""
    passed_ns = end.boottime_ns - begin.boottime_ns
    suspended_ns = passed_ns - (end.monotonic_ns - begin.monotonic_ns)
    set_by_ns = end.realtime_ns - begin.realtime_ns - passed_ns
    if suspended_ns > _APART_NS:
        yield RunWarning(
            "host-suspended",
            "the host was suspended during the run: its devices and caches began again",
            f"for {format_ns(suspended_ns)}",
            "measure again with suspending switched off (systemd-inhibit, "
            "systemctl mask sleep.target)",
        )
    if abs(set_by_ns) > _APART_NS:
        yield RunWarning(
            "clock-stepped",
            "the host's clock was set during the run: times of day in logs do not fit",
            f"by {'-' if set_by_ns < 0 else '+'}{format_ns(abs(set_by_ns))}",
            "let an NTP daemon slew the clock (chrony without makestep), and measure again",
        )
