"""One harness at a time on this host: another one would be in its numbers.

The lock is held from before the data are restored to after the server has stopped, and
while data are generated or loaded in bulk.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import RunFailed
from harness.progress import Progress

_NAME = "tierbench-measuring.lock"
#: The first that every user may write to: all users must find the same file.
_DIRECTORIES = (Path("/run/lock"), Path("/tmp"))
#: Every user may open it, which is enough to lock it.
_MODE = 0o444
#: A file that its maker has not yet opened to others: they try again so often.
_ATTEMPTS = 50
_ATTEMPT_S = 0.02


@contextmanager
def one_at_a_time(progress: Progress, directories: Sequence[Path] = _DIRECTORIES) -> Iterator[None]:
    """Hold the host's measuring lock; wait, and say so, while another harness holds it.

    The kernel releases it when its holder ends, however it ends. RunFailed where the lock
    file is not one.
    """
    path = _lock_file(directories)
    while True:
        descriptor = _open(path)
        try:
            _lock(descriptor, progress)
            if _is_still(path, descriptor):  # else it was removed: others lock the next one
                yield
                return
        finally:
            os.close(descriptor)


def _lock_file(directories: Sequence[Path]) -> Path:
    """By the directories' modes, not by our own rights: root may write everywhere."""
    for directory in directories:
        with suppress(OSError):
            if directory.stat().st_mode & stat.S_IWOTH:
                return directory / _NAME
    raise RunFailed(
        "hold the host's measuring lock",
        f"none of {', '.join(map(str, directories))} is a directory that all users can write to",
        "chmod 1777 one of them",
    )


def _lock(descriptor: int, progress: Progress) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        progress.say(f"waiting until another harness{_holder(descriptor)} has measured")
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _open(path: Path) -> int:
    """Open the lock file, made first where it is missing.

    Others can put anything in its place: no link is followed, nothing is waited for, and
    only an empty file of our own is changed.
    """
    problem: OSError
    for _ in range(_ATTEMPTS):
        try:
            return _checked(path, _open_or_make(path))
        except PermissionError as error:
            problem = error
            time.sleep(_ATTEMPT_S)
        except OSError as error:
            problem = error
            break
    raise RunFailed(
        f"measuring lock {path}", str(problem.strerror), f"remove it: sudo rm {path}"
    ) from problem


def _open_or_make(path: Path) -> int:
    # O_CREAT only where it is missing: in a sticky directory the kernel refuses it for another
    # user's file (fs.protected_regular).
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        with suppress(FileNotFoundError):
            return os.open(path, flags)
        with suppress(FileExistsError):
            return os.open(path, flags | os.O_CREAT | os.O_EXCL, _MODE)


def _checked(path: Path, descriptor: int) -> int:
    """The descriptor, of a file that every user can open; closed where it is no file."""
    status = os.fstat(descriptor)
    ours = status.st_uid == os.geteuid() and status.st_nlink == 1 and status.st_size == 0
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(0, "it is not a regular file", str(path))
    if ours and stat.S_IMODE(status.st_mode) != _MODE:
        os.fchmod(descriptor, _MODE)  # it was made under a umask
    return descriptor


def _is_still(path: Path, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    return False


def _holder(descriptor: int) -> str:
    """`` (process 123)``: the lock's holder, where the kernel shows it."""
    status = os.fstat(descriptor)
    major, minor = os.major(status.st_dev), os.minor(status.st_dev)
    name = f"{major:02x}:{minor:02x}:{status.st_ino}"  # a number recurs on other file systems
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5] == name:
            return f" (process {fields[4]})"
    return ""
