"""Full copies of directory trees: parallel, durable, with modes and times.

A copy of a dataset must be a real one: a reflinked or sparse-shared clone pays
its copy-on-write later, inside the measured phase. So bytes are read and written
(``copy_file_range`` may share extents on xfs and btrfs and is not used), and all of
them are on the device when the call returns.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.errors import RunFailed
from harness.supervise.user_files import Credentials, acting_as, open_regular, take_over, walk

_BLOCK_BYTES = 4 << 20
_THREADS = 8
#: Smaller files are copied by one thread, which works while the others wait for devices: several
#: would wait for Python's lock and the directories'. It opens as many at a time.
_SMALL_BYTES = 1 << 20
_BATCH = 64
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class _FileToCopy:
    source: Path
    target: Path
    status: os.stat_result


def copy_tree(
    source: Path,
    target: Path,
    *,
    reader: Credentials | None = None,
    writer: Credentials | None = None,
) -> int:
    """Copy ``source`` to ``target``, which must not exist or be an empty folder.

    Read and written with the rights of ``reader`` and ``writer`` (None: our own), so that all
    of the copy belongs to ``writer``. Modes and times are preserved; relative links inside the tree
    are kept as links, any other link is refused, as are device files, FIFOs and sockets.
    Returns the bytes copied. RunFailed on any error; a half copy is then left for
    the owner of ``target`` to remove.
    """
    try:
        return _copy(source, target, reader, writer)
    except OSError as error:
        raise RunFailed(
            f"copy {source} to {target}",
            f"{error.strerror or error} ({error.filename or target})",
            "free space there or choose another tier" if error.errno == errno.ENOSPC else "",
        ) from error


def _copy(
    source: Path, target: Path, reader: Credentials | None, writer: Credentials | None
) -> int:
    entries = [
        _FileToCopy(path, target / path.relative_to(source), status)
        for path, status in walk([source], reader)
    ]
    if not entries:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
    folders = [e for e in entries if stat.S_ISDIR(e.status.st_mode)]
    files = [e for e in entries if stat.S_ISREG(e.status.st_mode)]
    links = [e for e in entries if stat.S_ISLNK(e.status.st_mode)]
    with acting_as(reader):
        _check(source, entries, links)
        leading = {link.target: link.source.readlink() for link in links}
    with acting_as(writer):
        if target.exists() and any(target.iterdir()):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        for folder in folders:
            folder.target.mkdir(mode=0o700, exist_ok=folder.target == target)
    # Largest first: the last file to finish is then a small one.
    files.sort(key=lambda e: e.status.st_size, reverse=True)
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        large = [[entry] for entry in files if entry.status.st_size >= _SMALL_BYTES]
        tasks = [*large, files[len(large) :]]
        list(pool.map(lambda entries: _copy_files(entries, reader, writer), tasks))
    with acting_as(writer):
        for path, to in leading.items():
            path.symlink_to(to)
        for folder in reversed(folders):
            folder.target.chmod(_kept_mode(folder, reader, writer))
            os.utime(folder.target, ns=(folder.status.st_atime_ns, folder.status.st_mtime_ns))
    make_durable(target, writer)
    return sum(entry.status.st_size for entry in files)


def move_tree(source: Path, target: Path, owner: Credentials | None = None) -> None:
    """Rename; on another file system a full copy, and ``source`` stays.

    What ``owner`` had there is our own then. RunFailed where it is not to be had whole.
    """
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise RunFailed(f"keep {source}", f"{error.strerror} ({target})") from error
        copy_tree(source, target, reader=owner)
        return
    try:
        take_over(target, owner)
    except OSError as error:
        raise RunFailed(
            f"keep {source}", f"{error.strerror} ({error.filename or target})", "load it again"
        ) from error


def make_durable(folder: Path, user: Credentials | None = None) -> None:
    """Everything written to the file system of ``folder`` is on its device (syncfs(2)).

    One journal commit instead of one for each of a thousand files, and what others
    had dirty there is not written back during a measurement either.
    """
    with acting_as(user):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)


def _check(source: Path, entries: list[_FileToCopy], links: list[_FileToCopy]) -> None:
    """Refuse what a copy cannot mean: links out of the tree, sockets, devices."""
    root = source.resolve()
    for link in links:
        to = link.source.readlink()
        if to.is_absolute() or not (link.source.parent / to).resolve().is_relative_to(root):
            raise RunFailed(
                f"copy {source}",
                f"{link.source} is a link out of it, to {to}",
                "move what it points to into the tree, or remove the link",
            )
    for entry in entries:
        kind = stat.S_IFMT(entry.status.st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            raise RunFailed(f"copy {source}", f"{entry.source} is not a file, folder or link")


def _kept_mode(entry: _FileToCopy, reader: Credentials | None, writer: Credentials | None) -> int:
    """Never set-uid; of what becomes ours from another user's, not writable by others either."""
    becomes_ours = reader is not None and writer is None
    return stat.S_IMODE(entry.status.st_mode) & (0o755 if becomes_ours else 0o777)


def _copy_files(
    entries: Sequence[_FileToCopy], reader: Credentials | None, writer: Credentials | None
) -> None:
    """Copy files, largest first; opened a batch at a time: to change the user takes longer."""
    if not entries:
        return
    buffer = memoryview(bytearray(min(_BLOCK_BYTES, entries[0].status.st_size + 1)))
    for batch in (entries[at : at + _BATCH] for at in range(0, len(entries), _BATCH)):
        with ExitStack() as stack:
            with acting_as(reader):
                sources = [_opened(stack, entry.source, os.O_RDONLY) for entry in batch]
            for source in sources:  # all at once, where they are not in memory
                os.posix_fadvise(source, 0, 0, os.POSIX_FADV_WILLNEED)
            with acting_as(writer):
                targets = [_opened(stack, entry.target, _NEW) for entry in batch]
            for entry, source, target in zip(batch, sources, targets, strict=True):
                while count := os.readv(source, [buffer]):
                    part = buffer[:count]
                    while part:
                        part = part[os.write(target, part) :]
                os.fchmod(target, _kept_mode(entry, reader, writer))
                os.utime(target, ns=(entry.status.st_atime_ns, entry.status.st_mtime_ns))


def _opened(stack: ExitStack, path: Path, flags: int) -> int:
    descriptor = open_regular(path, flags)
    stack.callback(os.close, descriptor)
    return descriptor
