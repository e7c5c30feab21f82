"""A file in the page cache, in the same pages for whatever is measured on it.

Readahead and large writes bring a file into the page cache in folios of up to 2 MiB (ext4 since
Linux 6.16, XFS since 5.18). A small write through ext4 then goes through all blocks of its folio:
64 bytes took 5 to 17 µs in such, and 1.7 µs in pages of 4 KiB, as 4 KiB did. So what is measured
through the page cache finds pages of 4 KiB, of all sizes and whatever came before it.
"""

from __future__ import annotations

import os
from pathlib import Path

_PAGE_BYTES = 4096
#: The least that a device's readahead is set to: of what one call asks beyond it nothing comes.
_ASKED_BYTES = 128 << 10


def drop(path: Path) -> None:
    """Nothing of the file stays in the page cache (a tmpfs is nothing else: there it stays)."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm(path: Path) -> None:
    """All of the file lies in the page cache; what has to be fetched comes in pages of 4 KiB.

    WILLNEED fetches such whatever the file system could (readahead proper would not); the reads
    behind it wait for that.
    """
    size = path.stat().st_size
    with path.open("rb", buffering=0) as file:
        number = file.fileno()
        for at in range(0, size, _ASKED_BYTES):
            os.posix_fadvise(number, at, _ASKED_BYTES, os.POSIX_FADV_WILLNEED)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_RANDOM)  # no readahead where one is missing
        for at in range(0, size, _PAGE_BYTES):
            os.pread(number, _PAGE_BYTES, at)
