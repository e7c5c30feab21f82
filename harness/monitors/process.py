"""CPU time, memory and I/O of the engine's processes, from /proc.

``read_counters`` gives cumulative sums for deltas around a query; :class:`ProcessMonitor`
samples the same once a second over the measured phase. Of what /proc/PID/io tells,

- ``io_read_bytes`` and ``io_write_bytes`` (read_bytes, write_bytes) are what the
  processes caused to be fetched from storage and to be written there; on DAX and tmpfs
  nothing is, which is a finding and not an error;
- ``syscall_read_bytes`` and ``syscall_write_bytes`` (rchar, wchar) are what went through
  read(2), write(2) and their kin, whether the page cache, DAX, a tmpfs or a device held
  it, pipes included. What is mapped or goes through io_submit(2) is not among it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.engine import ProcessId

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: How often the processes are read again because one of them has ended under way.
_ATTEMPTS = 5
#: Our names of the fields of /proc/PID/io (proc(5)).
_IO_FIELDS = {
    "io_read_bytes": "read_bytes",
    "io_write_bytes": "write_bytes",
    "syscall_read_bytes": "rchar",
    "syscall_write_bytes": "wchar",
}


def read_counters(processes: Sequence[ProcessId]) -> dict[str, float]:
    """Sums over the processes: cpu_ns, rss_bytes and the bytes of /proc/PID/io (see above).

    Children that have ended and were waited for are in their parent's sum (cutime),
    so that a parallel worker's time is not lost when it ends. ``cpu_ns`` has the
    kernel's tick (10 ms as a rule). What cannot be read of every process is left
    out: nothing of a server of somebody else's, no I/O of another user's processes.
    """
    for _ in range(_ATTEMPTS):
        waited_for = _waited_for(processes)
        found = _read(processes)
        # A process that ends meanwhile would be missing, or counted twice: in its own sum
        # and in that of its parent, which has waited for it.
        if _waited_for(processes) == waited_for:
            break
    totals: dict[str, float] = {}
    for one in found:
        for name, value in one.items():
            totals[name] = totals.get(name, 0.0) + value
    if not all(_IO_FIELDS.keys() <= one.keys() for one in found):
        for name in _IO_FIELDS:
            totals.pop(name, None)
    return totals


def _read(processes: Sequence[ProcessId]) -> list[dict[str, float]]:
    """The counters of each that is still there."""
    return [
        {**found, **_io(process.pid)}
        for process in processes
        if (found := _stat(process)) is not None
    ]


def _waited_for(processes: Sequence[ProcessId]) -> list[tuple[str, ...] | None]:
    """Of each the time of children that it has waited for; None where it has ended itself."""
    return [tuple(f[13:15]) if (f := _fields(process)) else None for process in processes]


def _stat(process: ProcessId) -> dict[str, float] | None:
    """CPU time and resident memory; None where the process has ended."""
    fields = _fields(process)
    if fields is None:
        return None
    return {
        "cpu_ns": float(sum(int(fields[i]) for i in (11, 12, 13, 14)) * _TICK_NS),
        "rss_bytes": float(int(fields[21]) * _PAGE),
    }


def _fields(process: ProcessId) -> list[str] | None:
    """Of /proc/PID/stat from the state (the third) on; None where the process has ended."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return fields if int(fields[19]) == process.start_ticks else None


def _io(pid: int) -> dict[str, float]:
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except FileNotFoundError:  # it ended a moment ago: nothing to add
        return dict.fromkeys(_IO_FIELDS, 0.0)
    except OSError:  # another user's process, and we are not root
        return {}
    values = dict(line.split(": ") for line in lines)
    return {name: float(values[field]) for name, field in _IO_FIELDS.items()}


class ProcessMonitor:
    """A thread that samples ``read_counters`` until stopped."""

    name = "process"

    def __init__(
        self, processes: Callable[[], Sequence[ProcessId]], interval_s: float = 1.0
    ) -> None:
        self._processes = processes
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._samples: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._loop, name="monitor", daemon=True)

    def __enter__(self) -> ProcessMonitor:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def series(self) -> Mapping[str, Any]:
        """``{interval_s, clock: monotonic, samples: [{monotonic_ns, cpu_ns, …}]}``."""
        return {"interval_s": self._interval_s, "clock": "monotonic", "samples": self._samples}

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                sample: dict[str, Any] = dict(read_counters(self._processes()))
            except Exception as error:  # a monitor must never break a run; the gap is visible
                sample = {"error": str(error)}
            self._samples.append({"monotonic_ns": time.monotonic_ns(), **sample})
            self._stop.wait(self._interval_s)
