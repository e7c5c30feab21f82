"""Full copies of directory trees: parallel, durable, with owners and modes.

A copy of golden data must be a real one: a reflinked or sparse-shared clone pays
its copy-on-write later, inside the measured phase. So bytes are read and written
(``copy_file_range`` may share extents on xfs and btrfs and is not used), and all of
them are on the device when the call returns.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness.errors import RunFailed
from harness.progress import Progress, SilentProgress

_BLOCK_BYTES = 4 << 20
_DEFAULT_THREADS = 8
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class _Entry:
    source: Path
    target: Path
    status: os.stat_result


def tree_bytes(folder: Path) -> int:
    """Sum of the file sizes below ``folder`` (links not followed), in bytes."""
    return sum(e.status.st_size for e in _walk(folder, folder) if stat.S_ISREG(e.status.st_mode))


def copy_tree(
    source: Path,
    target: Path,
    *,
    threads: int = _DEFAULT_THREADS,
    progress: Progress | None = None,
) -> int:
    """Copy ``source`` to ``target``, which must not exist or be an empty folder.

    Modes, times and (as root) owners are kept; relative links inside the tree are
    kept as links, any other link is refused, as are device files and sockets.
    Returns the bytes copied. RunFailed on any error; a half copy is then left for
    the owner of ``target`` to remove.
    """
    try:
        return _copy(source, target, threads, progress or SilentProgress())
    except OSError as error:
        raise RunFailed(
            f"copy {source} to {target}",
            f"{error.strerror or error} ({error.filename or target})",
            "free space there or choose another tier" if error.errno == errno.ENOSPC else "",
        ) from error


def _copy(source: Path, target: Path, threads: int, progress: Progress) -> int:
    entries = list(_walk(source, target))
    folders = [e for e in entries if stat.S_ISDIR(e.status.st_mode)]
    files = [e for e in entries if stat.S_ISREG(e.status.st_mode)]
    links = [e for e in entries if stat.S_ISLNK(e.status.st_mode)]
    _check(source, entries, links)
    if target.exists() and any(target.iterdir()):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    for folder in folders:
        folder.target.mkdir(mode=0o700, exist_ok=folder.target == target)
    total = sum(e.status.st_size for e in files)
    # Largest first: the last file to finish is then a small one.
    files.sort(key=lambda e: e.status.st_size, reverse=True)
    with (
        progress.task(f"copying {source.name}", total, "B") as task,
        ThreadPoolExecutor(max_workers=threads) as pool,
    ):
        for size in pool.map(_copy_file, files):
            task.advance(size)
    for link in links:
        link.target.symlink_to(link.source.readlink())
        _keep_owner(link)
    for folder in reversed(folders):
        _keep_owner(folder)
        folder.target.chmod(stat.S_IMODE(folder.status.st_mode))
        os.utime(folder.target, ns=(folder.status.st_atime_ns, folder.status.st_mtime_ns))
    make_durable(target)
    return total


def move_tree(source: Path, target: Path) -> None:
    """Rename; where that cannot be (another file system), a full copy, and ``source`` stays."""
    try:
        source.rename(target)
    except OSError:
        copy_tree(source, target)


def make_durable(folder: Path) -> None:
    """Everything written to the file system of ``folder`` is on its device (syncfs(2)).

    One journal commit instead of one for each of a thousand files, and what others
    had dirty there is not written back during a measurement either.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _libc.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)


def _walk(source: Path, target: Path) -> Iterator[_Entry]:
    """The folder itself and all below it, parents first."""
    yield _Entry(source, target, source.lstat())
    with os.scandir(source) as listing:
        children = sorted(listing, key=lambda entry: entry.name)
    for child in children:
        if child.is_dir(follow_symlinks=False):
            yield from _walk(source / child.name, target / child.name)
        else:
            status = child.stat(follow_symlinks=False)
            yield _Entry(source / child.name, target / child.name, status)


def _check(source: Path, entries: list[_Entry], links: list[_Entry]) -> None:
    """Refuse what a copy cannot mean: links out of the tree, sockets, devices."""
    root = source.resolve()
    for link in links:
        to = link.source.readlink()
        if to.is_absolute() or not (link.source.parent / to).resolve().is_relative_to(root):
            raise RunFailed(
                f"copy {source}", f"{link.source} is a link out of it, to {to}",
                "move what it points to into the tree, or remove the link",
            )  # fmt: skip
    for entry in entries:
        kind = stat.S_IFMT(entry.status.st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            raise RunFailed(f"copy {source}", f"{entry.source} is not a file, folder or link")


def _copy_file(entry: _Entry) -> int:
    buffer = memoryview(bytearray(min(_BLOCK_BYTES, max(1, entry.status.st_size))))
    with (
        entry.source.open("rb", buffering=0) as reader,
        entry.target.open("xb", buffering=0) as writer,
    ):
        while count := reader.readinto(buffer):
            part = buffer[:count]
            while part:
                part = part[writer.write(part) :]
        _keep_owner(entry)
        os.fchmod(writer.fileno(), stat.S_IMODE(entry.status.st_mode))
        os.utime(writer.fileno(), ns=(entry.status.st_atime_ns, entry.status.st_mtime_ns))
    return entry.status.st_size


def _keep_owner(entry: _Entry) -> None:
    if os.geteuid() == 0:
        os.lchown(entry.target, entry.status.st_uid, entry.status.st_gid)
