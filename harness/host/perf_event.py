"""Hardware and kernel counters through perf_event_open(2), system-wide on one processor.

The system call itself, so that no ``perf`` of the right kernel need be installed. It
wants CAP_PERFMON, root, or ``kernel.perf_event_paranoid`` at 0 or below.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from dataclasses import dataclass
from typing import NamedTuple

_SYSCALL = {"x86_64": 298, "aarch64": 241}
#: struct perf_event_attr up to sample_max_stack (PERF_ATTR_SIZE_VER5, linux/perf_event.h):
#: type, size, config, period, sample_type, read_format, flags, wakeup, bp_type, config1,
#: config2, branch_sample_type, regs_user, stack_user, clockid, regs_intr, aux_watermark,
#: sample_max_stack and padding.
_ATTR = struct.Struct("=IIQQQQQIIQQQQIiQIHH")
_TIME_ENABLED_AND_RUNNING = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED, _RUNNING
_CLOSE_ON_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
_ANY_PROCESS = -1


@dataclass(frozen=True)
class PerfEvent:
    """One event of one PMU: ``type`` from its sysfs folder, ``config`` as its format says."""

    type: int
    config: int
    config1: int = 0
    config2: int = 0


class Reading(NamedTuple):
    """A counter's value, and the kernel's two times: since its opening, and of counting."""

    value: int
    enabled_ns: int
    running_ns: int

    def since(self, earlier: Reading) -> float | None:
        """What was counted from ``earlier`` on; None where it did not run in between.

        A counter that had to share its hardware ran only part of that time: scaled up by
        the two times of just this span. Whole counts scaled and then subtracted would put
        what was guessed for one span into another.
        """
        value = self.value - earlier.value
        enabled = self.enabled_ns - earlier.enabled_ns
        running = self.running_ns - earlier.running_ns
        if running <= 0:
            return None
        return float(value) if running >= enabled else value * (enabled / running)


class Total:
    """A counter's readings added up, each span scaled for itself.

    The difference of any two totals is what passed between them: a span in which the
    counter did not run is joined to the next one.
    """

    def __init__(self) -> None:
        self._last = Reading(0, 0, 0)
        self._sum = 0.0

    def at(self, reading: Reading) -> float | None:
        """The total at ``reading``; None where the counter has not run since the one before."""
        if (passed := reading.since(self._last)) is None:
            return None
        self._last = reading
        self._sum += passed
        return self._sum


class PerfCounter:
    """Counts an event on one processor from its opening on; OSError where it may not."""

    def __init__(self, event: PerfEvent, cpu: int) -> None:
        number = _SYSCALL.get(platform.machine())
        if number is None:
            raise OSError(f"perf_event_open's number on {platform.machine()} is not known here")
        head = (event.type, _ATTR.size, event.config, 0, 0, _TIME_ENABLED_AND_RUNNING)
        attributes = _ATTR.pack(*head, *[0] * 3, event.config1, event.config2, *[0] * 8)
        call = ctypes.CDLL(None, use_errno=True).syscall
        call.restype = ctypes.c_long
        result = call(
            ctypes.c_long(number),
            attributes,
            ctypes.c_int(_ANY_PROCESS),
            ctypes.c_int(cpu),
            ctypes.c_int(-1),
            ctypes.c_ulong(_CLOSE_ON_EXEC),
        )
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        self._descriptor = int(result)

    def read(self) -> Reading:
        """The count so far, unscaled; OSError where it cannot be read."""
        return Reading(*struct.unpack("=QQQ", os.read(self._descriptor, 24)))

    def close(self) -> None:
        os.close(self._descriptor)
