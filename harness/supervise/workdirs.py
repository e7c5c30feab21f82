"""Work directories that no other local user can take, foresee or replace.

Every directory that a run, an installation or a helper program works in is made here:

- Its parent, and each directory on the way to it, is written by us and root alone, or only owners
  rename there (mode 1777): :func:`make`.
- mkdir(2) must succeed. What lies there already is another user's, and never taken over.
- Owner and mode are checked and set by descriptor.

Sockets, logs and copies of programs lie below :func:`base`, which does not depend on ``$TMPDIR``:
its path is short enough for a Unix socket, has neither blank nor colon (``LD_PRELOAD`` ends at
either), and every user may pass through it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from harness import paths
from harness.errors import UsageError
from harness.supervise.user_files import (
    Credentials,
    make_passable,
    opened,
    refuse_exchangeable_way,
    refuse_writable,
    remove_tree,
)

#: Root's own, in this order: /run is often mounted noexec, and programs are copied here.
ROOTS = (Path("/run/tierbench"), Path("/var/lib/tierbench/run"))
#: Of others, in this order: sticky directories. Not $XDG_RUNTIME_DIR, which goes at logout.
_SHARED = (Path("/tmp"), Path("/var/tmp"))
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RANDOM_BYTES = 8
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
    parent: Path | None = None, prefix: str = "tb", credentials: Credentials | None = None
) -> Iterator[Path]:
    """A fresh directory in ``parent`` (None: :func:`base`), removed at the end.

    For what outlives no call: what must be removed after kill -9, too, is the journal's.
    """
    path = fresh(base() if parent is None else parent, prefix)
    try:
        make(path, credentials)
    except OSError as error:
        raise UsageError(
            f"work directory {path}",
            _reason(error),
            "choose a writable directory that no other user can write to",
        ) from error
    try:
        yield path
    finally:
        with contextlib.suppress(FileNotFoundError):
            remove_tree(path)


def base() -> Path:
    """Where short-lived directories lie; UsageError where no place is usable."""
    reasons = []
    for folder in _candidates():
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
        f"let no other user write to {_candidates()[0]}, or remove it",
    )


def _candidates() -> tuple[Path, ...]:
    return ROOTS if os.geteuid() == 0 else (*_SHARED, paths.state_dir() / "run")


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
