"""Work that mkfs.ext4(8) leaves to Linux: the thread ``ext4lazyinit`` clears inode tables later.

It writes to the device for minutes after the first mount, in the middle of what is measured.
The layout is that of the kernel's documentation (filesystems/ext4: super block, group descriptors).
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from .kernel import Kernel

#: Extended options (``-E``) with which mkfs.ext4 leaves nothing to do.
EAGER = "lazy_itable_init=0,lazy_journal_init=0"
THREAD = "ext4lazyinit"

_SUPERBLOCK_AT, _SUPERBLOCK_BYTES = 1024, 1024
_MAGIC = 0xEF53
#: Incompatible features: descriptors of their own for each group of groups; 64-bit block numbers.
_META_BG, _64BIT = 0x10, 0x80
#: Read-only compatible features, one of which the flags of groups need: gdt_csum, metadata_csum.
_FLAGS_VALID = 0x10 | 0x400
_FLAGS_AT, _ITABLE_ZEROED = 0x12, 0x4


@dataclass(frozen=True)
class LazyGroups:
    """Block groups of a file system whose inode tables are still to be cleared, of all groups."""

    waiting: int
    groups: int


def lazy_groups(device: str, kernel: Kernel) -> LazyGroups | None:
    """Read the group descriptors of a device; None where it cannot be read, or has no such flags.

    The page cache of a mounted device has the descriptors as the file system has them.
    """
    try:
        file = os.open(kernel.path(device), os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return _lazy_groups(file)
    except OSError:
        return None
    finally:
        os.close(file)


def _lazy_groups(file: int) -> LazyGroups | None:
    block = os.pread(file, _SUPERBLOCK_BYTES, _SUPERBLOCK_AT)

    def number(at: int, size: int = 4) -> int:
        return int.from_bytes(block[at : at + size], "little")

    incompatible, compatible_for_reading = number(96), number(100)
    if (
        number(56, 2) != _MAGIC
        or incompatible & _META_BG
        or not compatible_for_reading & _FLAGS_VALID
    ):
        return None
    first, block_bytes, blocks_per_group = number(20), 1024 << number(24), number(32)
    blocks = number(4) | (number(336) << 32 if incompatible & _64BIT else 0)
    size = number(254, 2) if incompatible & _64BIT else 32
    groups = -(-(blocks - first) // blocks_per_group)
    table = os.pread(file, groups * size, (first + 1) * block_bytes)
    flags = table[_FLAGS_AT::size]
    return LazyGroups(sum(not each & _ITABLE_ZEROED for each in flags), groups)


def thread_runs(kernel: Kernel) -> bool:
    """Return whether Linux is clearing inode tables of any file system of this host.

    A kernel thread is a child of kthreadd (2); any user's process may have its name.
    """
    for process in kernel.names("/proc"):
        name, _, rest = (kernel.read(f"/proc/{process}/stat") or "").rpartition(")")
        if name.endswith(f"({THREAD}") and rest.split()[1:2] == ["2"]:
            return True
    return False
