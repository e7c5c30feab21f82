"""Work directories that no other local user can take, foresee or replace.

Every directory that a run, an installation or a helper program works in is made here:

- Its parent, and each directory on the way to it, is written by us and root alone, or only owners
  rename there (mode 1777): :func:`make`.
- mkdir(2) must succeed. What lies there already is another user's, and never taken over.
- Owner and mode are checked and set by descriptor.

What a run's programs write (sockets, logs, temporary files) lies below :func:`disk_base`: memory is
the host's, and who may write to ``/run`` can fill it for all services. Below :func:`base` lies only
what root alone writes: the host's lock and the library that is preloaded. Neither depends on
``$TMPDIR``; every user may pass through them, and their paths are short enough for a Unix socket
and have neither blank nor colon (``LD_PRELOAD`` ends at either).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from harness import paths
from harness.errors import UsageError
from harness.supervise import locks
from harness.supervise.own_files import make_passable, refuse_exchangeable_way, refuse_writable
from harness.supervise.user_files import Credentials, opened, remove_tree

#: Of root's own small files, in this order: /run is often mounted noexec.
ROOTS = (Path("/run/tierbench"), Path("/var/lib/tierbench/run"))
#: Root's on disk, where the directory of HARNESS_DATA has none.
_DISK = Path("/var/lib/tierbench/run")
#: Of others, in this order: sticky directories. Not $XDG_RUNTIME_DIR, which goes at logout.
_SHARED = (Path("/tmp"), Path("/var/tmp"))
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RANDOM_BYTES = 8
#: A directory that has no lock although it is older has lost its maker.
_FRESH_S = 60.0
#: A Unix socket's path has at most 107 bytes; of these a directory's name and a socket's in it.
_LONGEST_BASE = 107 - len("/tb-") - 2 * _RANDOM_BYTES - len("/.s.PGSQL.65535.lock")


def fresh(parent: Path, prefix: str = "tb") -> Path:
    """A path in ``parent`` that does not exist and that cannot be foreseen."""
    return parent / f"{prefix}-{secrets.token_hex(_RANDOM_BYTES)}"


def make(
    path: Path,
    credentials: Credentials | None = None,
    mode: int = 0o700,
    note: Callable[[int], None] = lambda inode: None,
) -> None:
    """Make ``path``; its parent exists. OSError where something is there, or others could write.

    ``credentials``: whose it is in the end, if we are root. ``note`` receives the inode's number
    while the directory is still empty and ours alone.
    """
    refuse_exchangeable_way(path)
    with opened(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as above:
        os.mkdir(path.name, 0o700, dir_fd=above)
        with opened(path.name, _DIRECTORY, dir_fd=above) as made:
            facts = os.fstat(made)
            if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
                raise PermissionError(
                    errno.EPERM, f"it belongs to uid {facts.st_uid}, made as another", str(path)
                )
            note(facts.st_ino)
            os.fchmod(made, mode)
            if credentials is not None and os.geteuid() == 0:
                os.fchown(made, credentials.uid, credentials.gid)


@contextlib.contextmanager
def temporary(
    parent: Path | None = None, prefix: str = "tmp", credentials: Credentials | None = None
) -> Iterator[Path]:
    """A fresh directory in ``parent`` (None: :func:`disk_base`), removed at the end.

    For what outlives no call: what must be removed right after kill -9 is the journal's. Those
    that killed harnesses have left here are removed by the next one: their lock is free.
    """
    place = disk_base() if parent is None else parent
    _sweep(place, prefix)
    path = fresh(place, prefix)
    try:
        make(path, credentials)
    except OSError as error:
        raise UsageError(
            f"work directory {path}",
            _reason(error),
            "choose a writable directory that no other user can write to",
        ) from error
    try:
        with opened(path, _DIRECTORY) as descriptor:
            with contextlib.suppress(OSError):  # a file system without locks, where none is swept
                locks.try_lock(descriptor)
            yield path
    finally:
        with contextlib.suppress(FileNotFoundError):
            remove_tree(path)


def _sweep(place: Path, prefix: str) -> None:
    """Remove what :func:`temporary` of killed harnesses has left; those in use are locked.

    A fresh one is not locked yet. Where others make directories, too, ours are those of our user.
    """
    name = re.compile(rf"{re.escape(prefix)}-[0-9a-f]{{{2 * _RANDOM_BYTES}}}")
    left: list[Path] = []
    with contextlib.suppress(OSError):  # a place that cannot be listed is not swept
        left += [path for path in place.iterdir() if name.fullmatch(path.name)]
    shared = os.geteuid() != 0 or place.stat().st_mode & stat.S_ISVTX
    for path in left:
        with contextlib.suppress(OSError), opened(path, _DIRECTORY) as descriptor:
            facts = os.fstat(descriptor)
            if shared and facts.st_uid != os.geteuid():
                continue
            if time.time() - facts.st_ctime > _FRESH_S and locks.try_lock(descriptor):
                remove_tree(path)


def base() -> Path:
    """Place where short-lived directories of ours lie; UsageError where no place is usable."""
    return _first_usable(ROOTS if os.geteuid() == 0 else (*_SHARED, _own_place()))


def disk_base() -> Path:
    """Place where short-lived directories of all users lie; UsageError where no place is usable."""
    private = _own_place()
    if os.geteuid() != 0:
        return _first_usable((*reversed(_SHARED), private))  # /tmp is often in memory
    above = [path for path in private.parents if path.is_dir()]
    passable = all(path.stat().st_mode & stat.S_IXOTH for path in above)
    return _first_usable((private, _DISK) if passable else (_DISK,))


def _own_place() -> Path:
    return (paths.data_root() if os.geteuid() == 0 else paths.state_dir()) / "run"


def _first_usable(candidates: Iterable[Path]) -> Path:
    folders, reasons = list(candidates), []
    for folder in folders:
        try:
            if not _usable(folder):
                reasons.append(f"{folder} is mounted noexec, or its path is too long")
                continue
            _prepare(folder)
        except OSError as error:
            reasons.append(_reason(error))
            continue
        return folder
    raise UsageError(
        "a place for work directories",
        "; ".join(reasons),
        f"let no other user write to {folders[0]}, or remove it",
    )


def _usable(folder: Path) -> bool:
    existing = next(path for path in (folder, *folder.parents) if path.is_dir())
    name = os.fsencode(folder)
    return (
        not os.statvfs(existing).f_flag & os.ST_NOEXEC
        and len(name) <= _LONGEST_BASE
        and not set(name) & set(b" \t\n:;")
    )


def _prepare(folder: Path) -> None:
    if folder in _SHARED:
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
        refuse_exchangeable_way(folder / "name")
    else:
        make_passable(folder)
        refuse_writable(folder)


def _reason(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)
