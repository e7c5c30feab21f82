"""Footprint of a query: bytes of the engine's files, and memory of its processes.

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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.host.page_cache import resident_bytes
from harness.host.process_counters import read_counters
from harness.supervise.process import ProcessId, process_identity
from harness.supervise.user_files import Credentials
from harness.tiers.linux.kernel import LIVE

_RESET_PEAK = "5\n"  # proc(5): "Reset the peak resident set size"
_KIB = 1024


class Footprint:
    """Bytes touched since this was made; make it on an idle engine, right before.

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
        self._resident = resident_bytes(inodes, user) if cached and (inodes := files()) else None
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
    statuses = [status for process in processes if (status := _status(process))]
    shared = max((status["RssShmem"] for status in statuses), default=0)
    return sum(status["RssAnon"] for status in statuses) + shared


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
    sizes = [size(status) for process in processes if (status := _status(process))]
    return float(sum(sizes)) if sizes else None


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
