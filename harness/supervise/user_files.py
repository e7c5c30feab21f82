"""Files in directories that another user can write: how root reads, writes and removes them.

Servers and their clients run as an unprivileged user, and their directories belong to that user.
Whoever is that user can exchange any name there for a link, a FIFO or a directory at any
moment, so root never resolves a path below such a directory with its own rights:

- Work below a directory of the user is done in :func:`acting_as`: Linux then checks every
  access of this thread against that user's rights, so that a link leads nowhere the user
  could not go anyway.
- Files are opened by :func:`open_regular`: no link as the last component, no waiting for the
  other end of a FIFO, nothing but regular files.
- Trees are removed and taken over by descriptor (:func:`remove_tree`, :func:`take_over`).

Standard library only: also used inside the supervisor process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from harness.supervise import linux
from harness.supervise.access_lists import drop_acl

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAX_BYTES = 64 << 20
_KEPT_MODE = 0o755


@dataclass(frozen=True)
class Credentials:
    """An unprivileged user, by numbers; ``name`` is for messages, and for further groups."""

    uid: int
    gid: int
    name: str = ""


#: Users that servers run as without ``$HARNESS_USER``, the first that exists.
DEDICATED_USER, FALLBACK_USER = "tierbench", "nobody"


def servers_user() -> str:
    """Return the name of the user that root's servers run as; it may not exist."""
    if name := os.environ.get("HARNESS_USER"):
        return name
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(DEDICATED_USER).pw_name
    return FALLBACK_USER


@contextlib.contextmanager
def acting_as(user: Credentials | None) -> Iterator[None]:
    """This thread accesses files with the rights of ``user`` alone; what it makes is the user's.

    No effect for None, and where the process is not root. Descriptors that are open stay as
    they are. Only this thread: a pool's threads enter it themselves. PermissionError where root
    lacks the capability.
    """
    if user is None or os.geteuid() != 0:
        yield
        return
    before = linux.filesystem_identity()
    try:
        linux.set_filesystem_identity((user.uid, user.gid, [user.gid]))
        yield
    finally:
        linux.set_filesystem_identity(before)
        linux.allow_inspection()


@contextlib.contextmanager
def opened(
    path: Path | str, flags: int, mode: int = 0o600, *, dir_fd: int | None = None
) -> Iterator[int]:
    """As os.open(); the descriptor is closed at the end of the block."""
    descriptor = os.open(path, flags, mode, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_regular(path: Path | str, flags: int, mode: int = 0o600) -> int:
    """Open a regular file; OSError for a link, a FIFO or anything else, without waiting."""
    descriptor = os.open(path, flags & ~os.O_TRUNC | _FILE, mode)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def hold_socket(path: Path, user: Credentials | None) -> int:
    """A descriptor of the socket at ``path`` itself, whatever takes its place later.

    Another process of ours reaches it by ``/proc/PID/fd/N``. OSError for anything but a socket
    of ``user``.
    """
    with acting_as(user):
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    facts = os.fstat(descriptor)
    owner = os.geteuid() if user is None else user.uid
    if not stat.S_ISSOCK(facts.st_mode) or facts.st_uid != owner:
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"not a socket of uid {owner}", str(path))
    return descriptor


def read_bytes(path: Path, user: Credentials | None, max_bytes: int = _MAX_BYTES) -> bytes:
    """The first ``max_bytes`` of a regular file, read as ``user``."""
    with acting_as(user):
        descriptor = open_regular(path, os.O_RDONLY)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(max_bytes)


def read_text(path: Path, user: Credentials | None, max_bytes: int = _MAX_BYTES) -> str:
    """As :func:`read_bytes`; what is not UTF-8 is replaced."""
    return read_bytes(path, user, max_bytes).decode(errors="replace")


def write_text(path: Path, text: str, user: Credentials | None, mode: int = 0o600) -> None:
    """Write a file of ``user``, an old one too, with this very mode whatever the umask."""
    with acting_as(user):
        descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, mode)
            file.write(text)


def copy_file(source: Path, target: Path, user: Credentials | None, mode: int) -> None:
    """Copy one of our own files to a new one of ``user``."""
    with source.open("rb") as reader:
        with acting_as(user):
            descriptor = open_regular(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(descriptor, "wb") as writer:
            while block := reader.read(1 << 20):
                writer.write(block)
            os.fchmod(descriptor, mode)


def make_directory(path: Path, user: Credentials | None, mode: int = 0o700) -> None:
    """A new directory of ``user`` with exactly this mode, whatever the umask."""
    with acting_as(user):
        path.mkdir(mode=0o700)
        path.chmod(mode)


def walk(paths: Iterable[Path], user: Credentials | None) -> list[tuple[Path, os.stat_result]]:
    """All at and below ``paths``, parents first, links as what they are; what vanishes is left out.

    Looked up as ``user``.
    """
    result = []
    pending = list(paths)
    with acting_as(user):
        while pending:
            path = pending.pop()
            try:
                facts = path.lstat()
                below = list(path.iterdir()) if stat.S_ISDIR(facts.st_mode) else []
            except (FileNotFoundError, NotADirectoryError):
                continue
            result.append((path, facts))
            # By name: paths are slow to compare.
            pending += sorted(below, key=attrgetter("name"), reverse=True)
    return result


def regular_bytes(path: Path, user: Credentials | None) -> int:
    """Apparent bytes of the regular files at and below ``path``; links are not followed."""
    return sum(facts.st_size for _, facts in walk([path], user) if stat.S_ISREG(facts.st_mode))


def remove_tree(path: Path | str) -> None:
    """Remove a directory and all below it, whoever owns that; OSError where that cannot be done.

    By descriptor, so that a directory exchanged for a link meanwhile is not followed. What is
    too deep to hold a descriptor for each level is moved up first.
    """
    parent, name = os.path.split(os.path.normpath(path))
    with opened(parent or ".", os.O_RDONLY | os.O_DIRECTORY) as above:
        with opened(name, DIRECTORY, dir_fd=above) as top:
            _empty(top)
        os.rmdir(name, dir_fd=above)


def _empty(top: int) -> None:
    """Remove all in ``top``: a directory's subdirectories are moved into ``top`` and wait there."""
    pending = _remove_files(top)
    while pending:
        name = pending.pop()
        try:
            descriptor = os.open(name, DIRECTORY, dir_fd=top)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            os.unlink(name, dir_fd=top)
            continue
        try:
            for inner in _remove_files(descriptor):
                waiting = f".removed-{os.urandom(8).hex()}"  # a name that does not exist yet
                with contextlib.suppress(FileNotFoundError):
                    os.rename(inner, waiting, src_dir_fd=descriptor, dst_dir_fd=top)
                    pending.append(waiting)
        finally:
            os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(name, dir_fd=top)


def _remove_files(descriptor: int) -> list[str]:
    """Unlink what is no directory; the names of those that are."""
    folders = []
    for name in os.listdir(descriptor):
        try:
            os.unlink(name, dir_fd=descriptor)
        except IsADirectoryError:
            folders.append(name)
        except FileNotFoundError:
            continue
    return folders


def take_over(folder: Path, user: Credentials | None) -> None:
    """Make a tree of ``user``'s our own: no other user can open it for writing afterwards.

    ``folder`` lies in a directory that only we write. Each directory is ours before it is
    listed, so that nothing can be exchanged below it. OSError where something in it belongs to
    a third user, is no file, directory or link, or is a hard link to a file that is ours already.
    Access control lists are removed.
    """
    if user is None or os.geteuid() != 0:
        return
    if not stat.S_ISDIR(folder.lstat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    pending = [folder]
    while pending:
        path = pending.pop()
        facts = path.lstat()
        if facts.st_uid not in (user.uid, os.geteuid()):
            raise OSError(errno.EPERM, f"it belongs to uid {facts.st_uid}", str(path))
        kind = stat.S_IFMT(facts.st_mode)
        if kind not in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK):
            raise OSError(errno.EINVAL, "not a file, directory or link", str(path))
        if kind == stat.S_IFREG and facts.st_uid != user.uid and facts.st_nlink > 1:
            raise OSError(errno.EMLINK, "it is a hard link to a file of ours", str(path))
        os.lchown(path, os.geteuid(), os.getegid())
        if kind != stat.S_IFLNK:
            path.chmod(facts.st_mode & _KEPT_MODE)
            drop_acl(path)
        if kind == stat.S_IFDIR:
            pending += path.iterdir()


# Access control lists (acl(5)), as <linux/posix_acl_xattr.h> has them: a version, then entries.
