"""Page cache of our own files: evict it, measure what is left, and fill it.

Eviction asks (posix_fadvise), it does not command: dirty pages are written back first,
but pages that a running process has mapped, and all pages of a tmpfs, stay. So what is
believed is the residency measured afterwards (mincore(2)), never the eviction.

Readahead and large writes fill the page cache in folios of up to 2 MiB (ext4 since Linux 6.16, XFS
since 5.18). A small write through ext4 then goes through all blocks of its folio: 64 bytes took 5
to 17 µs in such, and 1.7 µs in pages of 4 KiB, as 4 KiB did. So :func:`warm` fetches pages of
4 KiB, and what is measured through the page cache finds those, whatever came before it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from harness.later import np
from harness.supervise.process import all_processes
from harness.supervise.user_files import Credentials, acting_as, open_regular, walk
from harness.tiers.linux.kernel import LIVE
from harness.tiers.linux.mounts import Mount, longest_match, mounts

_CHUNK_BYTES = 1 << 30
#: Files that are open at one time.
_BATCH = 256
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")
_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]


@dataclass(frozen=True)
class Residency:
    """Bytes of the files in the page cache; None without permission.

    ``total_bytes``: sum of the apparent sizes. A file counts once, however many names it has.
    """

    resident_bytes: int | None
    total_bytes: int
    note: str
    #: Of the resident bytes, those on tmpfs: their pages are the data.
    unevictable_bytes: int = 0


def evict(paths: Iterable[Path], user: Credentials | None = None, drop: bool = False) -> None:
    """Write back and drop the cached pages of all files at and below ``paths``.

    ``user``: who may change them, with whose rights they are opened; links are not followed. What
    may not be opened stays as it is.
    ``drop``: also empty the whole host's page cache, dentries and inodes
    (/proc/sys/vm/drop_caches), which needs root and slows everybody else for a while.
    """
    for _, facts, opened in _opened(list(_files(paths, user)), user):
        if isinstance(opened, int):  # a server removes temporary files when it pleases
            os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
            # Dirty pages stay; syncing only the files that have some saves half a
            # millisecond for each of a server's thousand small ones.
            if facts.st_size and _resident_bytes(facts, opened) != 0:
                os.fdatasync(opened)
                os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
    if drop:
        with suppress(OSError):
            _DROP_CACHES.write_text("3\n")


def residency(
    paths: Iterable[Path], without: Iterable[Path] = (), user: Credentials | None = None
) -> Residency:
    """Part of all files at and below ``paths`` that is in the page cache now.

    ``without``: directories whose files are left out. ``user``: who may change the files, with
    whose rights they are opened; links are not followed.
    Works without root for files that are ours or that we may write: of others the
    kernel reports every page as resident (Linux 5.2), so they are not queried
    and the answer is None.
    """
    left_out = tuple(f"{folder}/" for folder in without)
    files = [
        (path, facts) for path, facts in _files(paths, user) if not str(path).startswith(left_out)
    ]
    table = mounts(LIVE)
    mount_of = {
        folder: _mount_of(folder, table, user) for folder in {path.parent for path, _ in files}
    }
    notes = _filesystem_notes({mount for mount in mount_of.values() if mount is not None})
    resident, unevictable, unknown = 0, 0, 0
    sizes = [_resident_bytes(facts, opened) for _, facts, opened in _opened(files, user)]
    for (path, _), result in zip(files, sizes, strict=True):
        if result is None:
            unknown += 1
            continue
        resident += result
        unevictable += result if _is_memory(mount_of[path.parent]) else 0
    if unknown:
        notes.append(f"residency of {unknown} files not known: they are another user's")
    if resident > unevictable and (
        holders := _mapping_processes([path for path, _ in files], user)
    ):
        notes.append(f"mapped by a running process, so not evicted: {holders}")
    total = sum(facts.st_size for _, facts in files)
    return Residency(None if unknown else resident, total, "; ".join(notes), unevictable)


def resident_bytes(paths: Iterable[Path], user: Credentials | None = None) -> int | None:
    """Bytes of all files at and below ``paths`` in the page cache now, nothing else looked at.

    None without permission for one of them (see ``residency``).
    """
    files = list(_files(paths, user))
    sizes = [_resident_bytes(facts, opened) for _, facts, opened in _opened(files, user)]
    measured = [size for size in sizes if size is not None]
    return sum(measured) if len(measured) == len(sizes) else None


def _files(
    paths: Iterable[Path], user: Credentials | None
) -> Iterator[tuple[Path, os.stat_result]]:
    """Regular files at or below the paths, once; symbolic links are not followed."""
    seen: set[tuple[int, int]] = set()
    for path, facts in walk(paths, user):
        if stat.S_ISREG(facts.st_mode) and (facts.st_dev, facts.st_ino) not in seen:
            seen.add((facts.st_dev, facts.st_ino))
            yield path, facts


def _opened(
    files: list[tuple[Path, os.stat_result]], user: Credentials | None
) -> Iterator[tuple[Path, os.stat_result, int | OSError]]:
    """Each file with a descriptor that is closed afterwards, or why it cannot be opened.

    Opened with the user's rights, a batch at a time: the change takes longer than the opening.
    """
    for first in range(0, len(files), _BATCH):
        batch = files[first : first + _BATCH]
        with acting_as(user):
            opened = [_try_to_open(path) for path, _ in batch]
        try:
            for (path, facts), descriptor in zip(batch, opened, strict=True):
                yield path, facts, descriptor
        finally:
            for descriptor in opened:
                if isinstance(descriptor, int):
                    os.close(descriptor)


def _try_to_open(path: Path) -> int | OSError:
    try:
        return open_regular(path, os.O_RDONLY)
    except OSError as error:
        return error


def _resident_bytes(facts: os.stat_result, opened: int | OSError) -> int | None:
    if isinstance(opened, OSError):
        return 0 if isinstance(opened, FileNotFoundError) else None
    owner = os.geteuid() in (0, facts.st_uid)
    if not owner and not os.access(f"/proc/self/fd/{opened}", os.W_OK):
        return None
    size, space = os.fstat(opened).st_size, os.fstatvfs(opened)
    if size > space.f_blocks * space.f_frsize:
        return None  # a hole larger than its file system: no server's, and endless to map
    chunks = range(0, size, _CHUNK_BYTES)
    return sum(_chunk(opened, at, min(_CHUNK_BYTES, size - at)) for at in chunks)


def _chunk(descriptor: int, offset: int, length: int) -> int:
    """Resident bytes of one piece of a file, by mapping it without touching it."""
    address = _libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, offset)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    try:
        pages = np.empty(-(-length // mmap.PAGESIZE), dtype=np.uint8)
        if _libc.mincore(address, length, pages.ctypes.data) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        _libc.munmap(address, length)
    present = pages & 1  # the other bits are reserved
    beyond_end = -length % mmap.PAGESIZE if present[-1] else 0
    return int(np.count_nonzero(present)) * mmap.PAGESIZE - beyond_end


def _filesystem_notes(mounts: set[Mount]) -> list[str]:
    """Limits of eviction on the file systems: tmpfs cannot, DAX has nothing to evict."""
    notes = [
        f"{m.point} is a tmpfs: its pages are the data and cannot be evicted"
        for m in mounts
        if _is_memory(m)
    ]
    notes += [
        f"{m.point} is mounted with {option}: where DAX holds, the page cache is bypassed"
        for m in mounts
        for option in m.options
        if option in ("dax", "dax=always")
    ]
    return sorted(notes)


def in_memory(folder: Path) -> bool:
    """Return whether the folder's file system keeps its data in the page cache itself (tmpfs)."""
    return _is_memory(_mount_of(folder, mounts(LIVE), None))


def _is_memory(mount: Mount | None) -> bool:
    return mount is not None and mount.filesystem in ("tmpfs", "ramfs")


def _mount_of(folder: Path, table: list[Mount], user: Credentials | None) -> Mount | None:
    with acting_as(user):
        return longest_match(str(folder.resolve()), table)


def _mapping_processes(paths: Iterable[Path], user: Credentials | None) -> str:
    """``postgres (pid 12), …``: who has one of the files mapped, as far as we may see."""
    with acting_as(user):
        expected = {str(path.resolve()) for path in paths}
    holders = []
    for pid in (process.id.pid for process in all_processes()):
        maps = (LIVE.read(f"/proc/{pid}/maps") or "").splitlines()
        mapped = {fields[5] for line in maps if len(fields := line.split(maxsplit=5)) > 5}
        if mapped & expected and (name := LIVE.read(f"/proc/{pid}/comm")):
            holders.append(f"{name} (pid {pid})")
    return ", ".join(holders[:5]) + (" …" if len(holders) > 5 else "")


_PAGE_BYTES = 4096
#: The least that a device's readahead is set to: what one call requests beyond it is ignored.
_ASKED_BYTES = 128 << 10


def drop(path: Path, user: Credentials | None = None) -> None:
    """Evict the file from the page cache (a tmpfs is nothing else: there it stays).

    ``user``: in whose directory it lies.
    """
    with _reader(path, user) as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm(path: Path, user: Credentials | None = None) -> None:
    """Read all of the file into the page cache; what has to be fetched comes in pages of 4 KiB.

    WILLNEED fetches such whatever the file system could (readahead proper would not); the reads
    after it wait for that.
    """
    with _reader(path, user) as file:
        number = file.fileno()
        size = os.fstat(number).st_size
        for at in range(0, size, _ASKED_BYTES):
            os.posix_fadvise(number, at, _ASKED_BYTES, os.POSIX_FADV_WILLNEED)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_RANDOM)  # no readahead where one is missing
        for at in range(0, size, _PAGE_BYTES):
            os.pread(number, _PAGE_BYTES, at)


def _reader(path: Path, user: Credentials | None) -> BinaryIO:
    with acting_as(user):
        return os.fdopen(open_regular(path, os.O_RDONLY), "rb", buffering=0)
