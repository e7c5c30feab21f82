"""Flags of a directory's inode, as ``chattr`` sets them (ioctl_iflags(2))."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from harness.supervise.user_files import opened

#: New files in the directory get no checksums on Btrfs (``C``).
NO_COPY_ON_WRITE = 0x00800000
#: What lies in the directory is unrelated: ext4 puts each of its directories elsewhere (``T``).
TOP_OF_HIERARCHIES = 0x00020000

_GET, _SET = 0x80086601, 0x40086602
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def inode_flags(directory: Path) -> int:
    """All flags of a directory; OSError where its file system has none."""
    with opened(directory, _DIRECTORY) as descriptor:
        return _flags(descriptor)


def add_inode_flag(directory: Path, flag: int) -> None:
    """Set one flag of a directory; OSError where its file system does not have it."""
    with opened(directory, _DIRECTORY | os.O_NOFOLLOW) as descriptor:
        fcntl.ioctl(descriptor, _SET, struct.pack("l", _flags(descriptor) | flag))


def _flags(descriptor: int) -> int:
    return int(struct.unpack("l", fcntl.ioctl(descriptor, _GET, bytes(8)))[0])
