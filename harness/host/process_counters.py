"""CPU time, memory, I/O and working set of processes, from /proc.

Of /proc/PID/io,

- ``io_read_bytes`` and ``io_write_bytes`` (read_bytes, write_bytes) are bytes that the
  processes caused to be fetched from storage and to be written there: none on DAX and tmpfs.
  Of buffered writes, a whole folio counts as written each time its first byte is dirtied;
- ``syscall_read_bytes`` and ``syscall_write_bytes`` (rchar, wchar) are bytes that went through
  read(2), write(2) and similar calls, to and from the page cache, DAX, a tmpfs, a device or a
  pipe. Mapped access and io_submit(2) are not included.

What one query touches: bytes of the engine's files, and memory of its processes.

The paper sorts queries by whether their working set fits into DRAM (VLDB 2023, §4.4).
From a cold start, with the engine's files evicted, it shows in two places:

- ``touched_file_bytes``: growth of the page cache over the engine's files (mincore(2)).
  What the kernel read ahead is in it, whether the query wanted it or not; what was
  dropped again under memory pressure is not. Left out where it is less than half of what
  was fetched from storage: most of that passed the page cache by (O_DIRECT) or left it.
- ``anonymous_peak_bytes``: growth of the processes' private memory up to its peak. Per
  process the peak of all its resident memory (VmHWM, reset through clear_refs, proc(5))
  less the file and shared pages it holds at the end. A process that has ended takes its
  peak along, so it is at least this much.

``working_set_bytes`` is the greater of the two: an engine's own cache (DuckDB, InnoDB)
is private memory that holds copies of file pages, so their sum would count bytes twice,
and these are not visible from outside. It is a lower bound: read it as "at least".

Memory of processes in huge pages that the host has reserved (hugetlb).

They are allocated when a server maps its buffers, and no memory control group charges them
(unless cgroup2 is mounted with ``memory_hugetlb_accounting``). Transparent huge pages are not
meant: those are ordinary memory.

Which of Linux's interfaces for asynchronous I/O processes have open.

A server whose io_uring is refused (``kernel.io_uring_disabled``, a container's seccomp filter, a
limit on locked memory) continues with another way of I/O and a line in its log.

Libraries that the host preloads into processes in place of their syncs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

from harness.host.page_cache import resident_bytes
from harness.supervise.process import ProcessId, process_identity, read_proc
from harness.supervise.user_files import Credentials, open_regular
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.mounts import parse_mountinfo

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
    """Of /proc/PID/stat from the state (the third) on; None where the process has ended."""
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


_RESET_PEAK = "5\n"  # proc(5): "Reset the peak resident set size"
_KIB = 1024


class Footprint:
    """What has been touched since this was made; make it on an idle engine, right before.

    Nothing is known of the files, and so not of the working set, where the page cache
    does not stand between them and the engine (``cached`` False: DAX, tmpfs), where the
    kernel does not report it, and of an engine whose files are not visible. ``user``: who may
    change the files.
    """

    def __init__(
        self,
        files: Callable[[], Sequence[Path]],
        processes: Callable[[], Sequence[ProcessId]],
        cached: bool = True,
        user: Credentials | None = None,
    ) -> None:
        self._files, self._processes, self._user = files, processes, user
        self._resident = resident_bytes(held, user) if cached and (held := files()) else None
        self._fetched = self._fetched_bytes()
        self._anonymous = _total(processes(), _private)
        self._reset = all(_reset_peak(process.pid) for process in processes())

    def taken(self) -> dict[str, float]:
        """The three sizes of the module, those left out that are not known."""
        result: dict[str, float] = {}
        peak = _total(self._processes(), _private_peak) if self._reset else None
        if peak is not None and self._anonymous is not None:
            result["anonymous_peak_bytes"] = max(0.0, peak - self._anonymous)
        resident = resident_bytes(self._files(), self._user) if self._resident is not None else None
        if resident is not None and self._resident is not None:
            result["touched_file_bytes"] = max(0.0, float(resident - self._resident))
        if len(result) == 2:
            result["working_set_bytes"] = max(result.values())
        if 2 * result.get("touched_file_bytes", 0.0) < self._fetched_bytes() - self._fetched:
            result.pop("touched_file_bytes", None)
        return result

    def _fetched_bytes(self) -> float:
        """Bytes that the kernel has read from storage for the processes; 0 if unknown."""
        return read_counters(self._processes()).get("io_read_bytes", 0.0)


def own_memory_bytes(processes: Sequence[ProcessId]) -> int:
    """Return the memory that is not the page cache: private pages, and the shared ones once."""
    found = [status for process in processes if (status := _status(process))]
    shared = max((status["RssShmem"] for status in found), default=0)
    return sum(status["RssAnon"] for status in found) + shared


def _reset_peak(pid: int) -> bool:
    try:
        Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)
    except (FileNotFoundError, ProcessLookupError):
        return True  # it ended a moment ago
    except OSError:  # another user's process
        return False
    return True


def _total(
    processes: Sequence[ProcessId], size: Callable[[Mapping[str, int]], int]
) -> float | None:
    """The sum of a size of all of them now; None where there are none."""
    held = [size(status) for process in processes if (status := _status(process))]
    return float(sum(held)) if held else None


def _private(status: Mapping[str, int]) -> int:
    return status["RssAnon"]


def _private_peak(status: Mapping[str, int]) -> int:
    return max(status["RssAnon"], status["VmHWM"] - status["RssFile"] - status["RssShmem"])


def _status(process: ProcessId) -> dict[str, int] | None:
    """The sizes in /proc/PID/status, in bytes; None where the process has ended."""
    if process_identity(process.pid) != process:
        return None
    lines = (LIVE.read(f"/proc/{process.pid}/status") or "").splitlines()
    pairs = (line.partition(":") for line in lines if line.endswith("kB"))
    sizes = {name: int(value.split()[0]) * _KIB for name, _, value in pairs}
    return sizes if {"RssAnon", "VmHWM", "RssFile", "RssShmem"} <= set(sizes) else None


#: A mapping of /proc/PID/maps without a file that is made of huge pages: both ends, its inode.
_MAPPING = re.compile(r"^(\w+)-(\w+) \S+ \w+ \S+ (\d+)\s+/anon_hugepage", re.MULTILINE)
#: Huge pages that the process has touched, of whatever mapping (/proc/PID/status).
_TOUCHED = re.compile(r"^HugetlbPages:\s+(\d+) kB", re.MULTILINE)


def hugetlb_bytes(pids: Iterable[int], kernel: Kernel = LIVE) -> int:
    """Return the bytes that these live processes map in reserved huge pages.

    A mapping that several processes share counts once, touched or not. Of mappings of another
    kind (System V, files of a hugetlbfs) the pages of the process that touched the most count.
    """
    mapped: dict[str, int] = {}
    touched = 0
    for pid in pids:
        own: dict[str, int] = {}
        for begin, end, inode in _MAPPING.findall(kernel.read(f"/proc/{pid}/maps") or ""):
            own[inode] = own.get(inode, 0) + int(end, 16) - int(begin, 16)
        mapped = {key: max(mapped.get(key, 0), own.get(key, 0)) for key in mapped | own}
        pages = _TOUCHED.search(kernel.read(f"/proc/{pid}/status") or "")
        touched = max(touched, int(pages[1]) * 1024 if pages else 0)
    return max(sum(mapped.values()), touched)


def charged_to_groups(kernel: Kernel = LIVE) -> bool:
    """Whether memory control groups charge huge pages on this host."""
    mounts = parse_mountinfo(kernel.read("/proc/self/mountinfo") or "")
    return any(
        "memory_hugetlb_accounting" in mount.options
        for mount in mounts
        if mount.filesystem == "cgroup2"
    )


_RING = "anon_inode:[io_uring]"
#: A context of libaio is a mapping (fs/aio.c).
_CONTEXT = "/[aio]"


def async_io(pids: Iterable[int], kernel: Kernel = LIVE) -> str:
    """Return ``io_uring``, ``aio``, both, or ``none``, of these live processes together."""
    found = set()
    for pid in pids:
        if _CONTEXT in (kernel.read(f"/proc/{pid}/maps") or ""):
            found.add("aio")
        if any(_target(kernel, f"/proc/{pid}/fd/{fd}") == _RING for fd in _files(kernel, pid)):
            found.add("io_uring")
    return " and ".join(sorted(found)) or "none"


#: Libraries that the dynamic linker loads into every program of the host (ld.so(8)), and one that
#: switches syncs off, however it is loaded.
_PRELOADED, _EATMYDATA = "/etc/ld.so.preload", "libeatmydata"
_SYNCS = (b"fsync", b"fdatasync")
_LIBRARY_BYTES = 16 << 20


def sync_overrides(pids: Iterable[int], first: str, kernel: Kernel = LIVE) -> set[str]:
    """Return libraries preloaded into these live processes in place of the system's syncs.

    ``first``: the name of a library of ours that makes the system calls itself: nothing comes
    between a process with it and Linux, because LD_PRELOAD precedes what the host preloads.
    """
    words = (kernel.read(_PRELOADED) or "").replace(":", " ").split()
    names = {PurePath(word).name for word in words}
    return {
        path
        for mapped in (_mapped(kernel, pid) for pid in pids)
        if not any(PurePath(path).name == first for path in mapped)
        for path in mapped
        if (PurePath(path).name in names and _has_sync(kernel.path(path)))
        or PurePath(path).name.startswith(_EATMYDATA)
    }


def _mapped(kernel: Kernel, pid: int) -> set[str]:
    lines = (kernel.read(f"/proc/{pid}/maps") or "").splitlines()
    return {line[line.index("/") :] for line in lines if ".so" in line and "/" in line}


def _has_sync(library: Path) -> bool:
    with suppress(OSError), os.fdopen(open_regular(library, os.O_RDONLY), "rb") as file:
        content = file.read(_LIBRARY_BYTES)
        return any(name in content for name in _SYNCS)
    return True  # it cannot be looked at


def _files(kernel: Kernel, pid: int) -> list[str]:
    try:
        return os.listdir(kernel.path(f"/proc/{pid}/fd"))  # noqa: PTH208
    except OSError:  # it has ended
        return []


def _target(kernel: Kernel, path: str) -> str:
    try:
        return os.readlink(kernel.path(path))  # noqa: PTH115
    except OSError:
        return ""
