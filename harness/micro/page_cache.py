"""A file in the page cache, in the same pages for whatever is measured on it.

Readahead and large writes bring a file into the page cache in folios of up to 2 MiB (ext4 since
Linux 6.16, XFS since 5.18). A small write through ext4 then goes through all blocks of its folio:
64 bytes took 5 to 17 µs in such, and 1.7 µs in pages of 4 KiB, as 4 KiB did. So what is measured
through the page cache finds pages of 4 KiB, of all sizes and whatever came before it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from harness.supervise.user_files import Credentials, acting_as, open_regular

_PAGE_BYTES = 4096
#: The least that a device's readahead is set to: what one call requests beyond it is ignored.
_ASKED_BYTES = 128 << 10


def drop(path: Path, user: Credentials | None = None) -> None:
    """Evict the file from the page cache (a tmpfs is nothing else: there it stays).

    ``user``: in whose directory it lies.
    """
    with _opened(path, user) as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm(path: Path, user: Credentials | None = None) -> None:
    """Read all of the file into the page cache; what has to be fetched comes in pages of 4 KiB.

    WILLNEED fetches such whatever the file system could (readahead proper would not); the reads
    after it wait for that.
    """
    with _opened(path, user) as file:
        number = file.fileno()
        size = os.fstat(number).st_size
        for at in range(0, size, _ASKED_BYTES):
            os.posix_fadvise(number, at, _ASKED_BYTES, os.POSIX_FADV_WILLNEED)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_RANDOM)  # no readahead where one is missing
        for at in range(0, size, _PAGE_BYTES):
            os.pread(number, _PAGE_BYTES, at)


def _opened(path: Path, user: Credentials | None) -> BinaryIO:
    with acting_as(user):
        return os.fdopen(open_regular(path, os.O_RDONLY), "rb", buffering=0)
