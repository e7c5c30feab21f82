"""Whether direct I/O on a tier goes past the page cache."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import re
import struct
from pathlib import Path

from harness.supervise.user_files import Credentials, acting_as, open_regular
from harness.tiers.discovery import nearest_existing
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import Tier
from harness.warnings import RunWarning

_NO_CHECKSUMS = {"nodatacow", "nodatasum"}
#: linux/fs.h: a file's flags, and the one that `chattr +C` sets; a directory's new files get it.
_FS_IOC_GETFLAGS, _FS_NOCOW_FL = 0x80086601, 0x00800000
#: Later releases of Linux write files with checksums through the page cache.
_LAST_PAST_CHECKSUMS = (6, 13)

WRITES_CACHED = RunWarning(
    code="direct-writes-cached",
    problem="Linux makes direct writes through the page cache",
    context="btrfs does since Linux 6.14 for files with data checksums; these writes are labelled "
    "direct=no",
    hint="`chattr +C` on the tier's empty directory, or mount with -o nodatasum",
)


def takes_direct(directory: Path, user: Credentials | None) -> bool:
    """Whether files in a directory of ``user`` can be opened past the page cache (O_DIRECT)."""
    probe = directory / "direct"
    with acting_as(user):
        try:
            os.close(open_regular(probe, os.O_RDWR | os.O_CREAT | os.O_DIRECT))
        except OSError:
            return False
        finally:
            probe.unlink(missing_ok=True)
    return True


def refuses_past_cache(tier: Tier, size_bytes: int) -> bool:
    """Whether direct I/O on the tier refuses requests of ``size_bytes``: parts of blocks, where
    the file system wants whole ones (tmpfs, DAX and btrfs do not).

    Tried with a file without a name; False where none can be made: the run will find out.
    """
    part = size_bytes % mmap.PAGESIZE  # no device has larger blocks
    if tier.claim.path is None or not part:
        return False
    flags = os.O_RDWR | os.O_TMPFILE | os.O_DIRECT
    try:
        file = os.open(nearest_existing(Path(tier.claim.path)), flags, 0o600)
    except OSError:
        return False
    try:
        os.pwrite(file, memoryview(mmap.mmap(-1, mmap.PAGESIZE))[:part], 0)
    except OSError as error:
        return error.errno == errno.EINVAL
    finally:
        os.close(file)
    return False


def goes_past_cache(tier: Tier, size_bytes: int) -> bool:
    """Whether the tier takes direct I/O of ``size_bytes``; True where that cannot be tried."""
    flags = os.O_RDWR | os.O_TMPFILE | os.O_DIRECT
    try:
        os.close(os.open(nearest_existing(Path(tier.claim.path or "/")), flags, 0o600))
    except OSError as error:
        return error.errno != errno.EINVAL
    return not refuses_past_cache(tier, size_bytes)


def caches_direct_writes(tier: Tier, kernel: Kernel = LIVE) -> bool:
    """Whether Linux makes direct writes of files on the tier through the page cache.

    It refuses none of them: only the state of btrfs shows that it does.
    """
    facts = tier.facts
    release = re.findall(r"\d+", kernel.read("/proc/sys/kernel/osrelease") or "")[:2]
    if facts.filesystem != "btrfs" or tuple(map(int, release)) <= _LAST_PAST_CHECKSUMS:
        return False
    if _NO_CHECKSUMS & set(facts.mount_options):
        return False
    return not _without_copy_on_write(nearest_existing(Path(tier.claim.path or "/")))


def _without_copy_on_write(directory: Path) -> bool:
    """Whether new files there get no checksums; False where that cannot be read."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flags = fcntl.ioctl(descriptor, _FS_IOC_GETFLAGS, bytes(8))
        finally:
            os.close(descriptor)
    except OSError:
        return False
    return bool(struct.unpack("l", flags)[0] & _FS_NOCOW_FL)
