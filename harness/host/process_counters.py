"""CPU time, memory and I/O of processes, from /proc.

Of /proc/PID/io,

- ``io_read_bytes`` and ``io_write_bytes`` (read_bytes, write_bytes) are bytes that the
  processes caused to be fetched from storage and to be written there: none on DAX and tmpfs.
  Of buffered writes, a whole folio counts as written each time its first byte is dirtied;
- ``syscall_read_bytes`` and ``syscall_write_bytes`` (rchar, wchar) are bytes that went through
  read(2), write(2) and similar calls, to and from the page cache, DAX, a tmpfs, a device or a
  pipe. Mapped access and io_submit(2) are not included.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from harness.supervise.process import ProcessId, read_proc

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
    kernel's tick (usually 10 ms). Counters that cannot be read of every process are left
    out, such as the I/O of another user's processes.
    """
    for _ in range(_ATTEMPTS):
        stats = [_fields(process) for process in processes]
        result = [
            {**_stat(fields), **_io(process.pid)}
            for process, fields in zip(processes, stats, strict=True)
            if fields is not None
        ]
        # A process that ends meanwhile would be missing, or counted twice: in its own sum
        # and in that of its parent, which has waited for it.
        again = (_fields(process) for process in processes)
        if all(_waited_for(a) == _waited_for(b) for a, b in zip(stats, again, strict=True)):
            break
    totals: dict[str, float] = {}
    for item in result:
        for name, value in item.items():
            totals[name] = totals.get(name, 0.0) + value
    if not all(_IO_FIELDS.keys() <= item.keys() for item in result):
        for name in _IO_FIELDS:
            totals.pop(name, None)
    return totals


def _waited_for(fields: Sequence[str] | None) -> Sequence[str] | None:
    """The time of children that a process has waited for; None where it has ended itself."""
    return fields and fields[13:15]


def _stat(fields: Sequence[str]) -> dict[str, float]:
    """CPU time and resident memory."""
    return {
        "cpu_ns": float(sum(int(fields[i]) for i in (11, 12, 13, 14)) * _TICK_NS),
        "rss_bytes": float(int(fields[21]) * _PAGE),
    }


def _fields(process: ProcessId) -> list[str] | None:
    """Fields of /proc/PID/stat from the state (the third) on; None where the process has ended."""
    try:
        fields = read_proc(f"/proc/{process.pid}/stat").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return fields if int(fields[19]) == process.start_ticks else None


def _io(pid: int) -> dict[str, float]:
    try:
        lines = read_proc(f"/proc/{pid}/io").splitlines()
    except (FileNotFoundError, ProcessLookupError):  # it ended a moment ago: nothing to add
        return dict.fromkeys(_IO_FIELDS, 0.0)
    except OSError:  # another user's process, and we are not root
        return {}
    values = dict(line.split(": ") for line in lines)
    return {name: float(values[field]) for name, field in _IO_FIELDS.items()}
