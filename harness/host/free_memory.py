"""Free memory of a virtual machine that gives it back to its hypervisor (free page reporting).

Two seconds after pages of a 2 MiB block are freed, Linux tells the balloon device of the block
(mm/page_reporting.c), and the hypervisor takes the memory. The next use of each page waits for the
hypervisor, some 6.5 us a page of 4 KiB on the host of BENCHMARKS.md: a cold scan of 944 MB used
1.5 s of processor time in place of 0.1 s in memory that was just freed. A server in use has no
memory free for that long; so what a cold start freed is taken back first.
"""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress

from harness.host.cgroup import own_limit_bytes
from harness.progress import Progress
from harness.tiers.linux.kernel import LIVE, Kernel

_BALLOON = "/sys/bus/virtio/drivers/virtio_balloon"
#: VIRTIO_BALLOON_F_REPORTING: the position of its bit in ``features``.
_REPORTING = 5
#: Madvise of Linux 5.14 that takes all pages of a range; Python has no name for it.
_MADV_POPULATE_WRITE = 23
_CHUNK_BYTES = 1 << 30
#: The rest stays free for programs that start meanwhile.
_OF_FREE = 0.6
#: Bytes that are taken for each byte of data: the free memory that is given back again while the
#: first queries run is the newest, and each two seconds a sixteenth of all.
_PER_BYTE = 2


def is_given_back(kernel: Kernel = LIVE) -> bool:
    """Return whether this virtual machine reports its free pages."""
    return any(
        (kernel.read(f"{_BALLOON}/{name}/features") or "")[_REPORTING : _REPORTING + 1] == "1"
        for name in kernel.names(_BALLOON)
        if name.startswith("virtio")
    )


def take_back(data_bytes: int, progress: Progress) -> int:
    """Use free memory once, so that data of this size are then read into memory that is there.

    Return how many bytes were used.
    """
    limit = own_limit_bytes()
    size = min(
        _PER_BYTE * data_bytes,
        int(_OF_FREE * LIVE.meminfo().get("MemFree", 0)),
        int(_OF_FREE * limit) if limit is not None else sys.maxsize,
    )
    if size < mmap.PAGESIZE:
        return 0
    with (
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory,
        progress.task("taking free memory back from the hypervisor", size, "B") as task,
    ):
        with suppress(OSError):  # a kernel without huge pages
            # Single pages would come from fragments, which are never given back.
            memory.madvise(mmap.MADV_HUGEPAGE)
        for offset in range(0, size, _CHUNK_BYTES):
            length = min(_CHUNK_BYTES, size - offset)
            with suppress(OSError):  # Linux before 5.14
                memory.madvise(_MADV_POPULATE_WRITE, offset, length)
            task.advance(length)
    return size
