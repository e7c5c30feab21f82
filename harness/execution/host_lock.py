"""One harness at a time on this host: another one would be in its numbers.

The lock is held from before the data are restored to after the server has stopped, and
while data are generated or loaded in bulk. The supervisor holds it, too: after kill -9 of the
harness it is held until everything is cleaned up.

There are two lock files. Root's is one that only root can open, so no other user can hold it. The
users' is one that every user can open. Root takes its own, then the users' one. Other users wait
until root's is free, which they see in /proc/locks, and take theirs. Since anybody can hold the
users' file for ever, the wait for another user has a limit, of the whole command. A wait for a
harness of the same user, or of root, has none: it ends by its own limits
(harness.supervise.silence).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness import paths
from harness.errors import RunFailed, UsageError
from harness.progress import Progress
from harness.store.spec import content_hash
from harness.supervise import locks, undo, workdirs
from harness.supervise.own_files import make_own
from harness.supervise.process import ProcessStat, all_processes, mark_of, process_stat
from harness.supervise.silence import limit_s
from harness.warnings import RunWarning

_NAME = "tierbench-measuring.lock"
#: The first that every user may write to: all users must find the same file.
_DIRECTORIES = (Path("/run/lock"), Path("/tmp"))
#: Every user may open it, which is enough to lock it.
_MODE = 0o444
_ROOT_MODE = 0o600
#: A file that its maker has not yet opened to others: they try again so often.
_ATTEMPTS = 50
_ATTEMPT_S = 0.02

#: How long this process has waited for the lock, time by time, and since when it waits now.
_waits_ns: list[int] = []
_waiting_since_ns: list[int] = []


def working_ns() -> int:
    """The monotonic clock, which stands still while this process waits for the lock."""
    return min([time.monotonic_ns(), *_waiting_since_ns]) - sum(_waits_ns)


@contextmanager
def _clock_stopped() -> Iterator[None]:
    began_ns = time.monotonic_ns()
    _waiting_since_ns.append(began_ns)
    try:
        yield
    finally:
        _waiting_since_ns.remove(began_ns)
        _waits_ns.append(time.monotonic_ns() - began_ns)


@dataclass(frozen=True)
class Places:
    """``shared``: where the users' file may be, the first that every user may write to.
    ``root``: the directory of root's file; None where root has made none.
    """

    shared: Sequence[Path] = _DIRECTORIES
    root: Path | None = None

    @property
    def lock_file(self) -> Path:
        """The file that decides for this user."""
        if os.geteuid() == 0 and self.root is not None:
            return self.root / _NAME
        return _shared_file(self.shared)

    @classmethod
    def of_host(cls) -> Places:
        """Locks that all harnesses of this host use."""
        if os.geteuid() == 0:
            return cls(root=workdirs.base())
        return cls(root=next((path for path in workdirs.ROOTS if (path / _NAME).exists()), None))


@contextmanager
def one_at_a_time(
    progress: Progress,
    hold: Callable[[int], None] = lambda descriptor: None,
    places: Places | None = None,
) -> Iterator[list[RunWarning]]:
    """Hold the host's measuring lock; wait, and name its holder, while another harness holds it.

    The kernel releases it when its holders end, however they end: this process, and whoever
    ``hold`` passes its descriptors to. Yields warnings. RunFailed where a lock file is not one.
    """
    places = places or Places.of_host()
    users = _LockFile(_shared_file(places.shared), _MODE, hold)
    if os.geteuid() == 0 and places.root is not None:
        root = _LockFile(places.root / _NAME, _ROOT_MODE, hold)
        with root.locked(progress), users.locked(progress, _of_another) as is_held:
            yield [] if is_held else [_held_by_user(users)]
        return
    while True:
        if places.root is not None:
            _wait_while_held(places.root / _NAME, progress)
        with users.locked(progress, _of_another) as is_held:
            if places.root is None or locks.holder(places.root / _NAME) is None:
                yield [] if is_held else [_held_by_user(users)]
                return


def taking_turns(experiment: str, results: Path) -> AbstractContextManager[None]:
    """Wait for the end of other commands of this user and host with the experiment and results.

    They would make the runs that this command takes for missing: a requeued job may begin while
    the processes of the earlier one still work. The wait ends by the limits of their runs.
    """
    folder = paths.state_dir()
    key = content_hash({"results": str(results.resolve()), "of": experiment, **undo.machine()})
    try:
        make_own(folder)
    except OSError as error:
        raise UsageError(
            f"state directory {folder}", str(error), "export HARNESS_STATE=DIRECTORY"
        ) from error
    return locks.locked(folder / f"experiment-{key}.lock", limited=lambda pid: False)


def others_at_work() -> list[RunWarning]:
    """Warn of processes of other harnesses, while this one holds the lock: they do not wait for it.

    Such a harness has other files for its lock, in a mount namespace or container of its own, or
    measures for another host. Known by the mark in their environment: those that /proc shows.
    """
    first: dict[str, ProcessStat] = {}
    for process in sorted(all_processes(), key=lambda process: process.id.start_ticks):
        if not process.dead and (mark := mark_of(process.id.pid)):
            first.setdefault(mark.partition(".")[0], process)
    ours = {os.getpid(), *_ancestors(os.getpid())}
    others = [
        f"harness {owner}: {locks.described(process.id.pid)}"
        for owner, process in first.items()
        if not owner.startswith(f"{os.getpid()}-") and process.id.pid not in ours
    ]
    if not others:
        return []
    return [
        RunWarning(
            "other-load",
            "another harness works on this host and does not wait for the measuring lock",
            "; ".join(others),
            "end it, or run it where it sees the same /run/tierbench and /run/lock (not in a mount "
            "namespace or container of its own)",
        )
    ]


def _ancestors(pid: int) -> Iterator[int]:
    while (process := process_stat(pid)) is not None and process.parent > 0:
        pid = process.parent
        yield pid


def _held_by_user(users: _LockFile) -> RunWarning:
    return RunWarning(
        "host-lock-held",
        "another user's harness may measure at the same time",
        f"{users.path} is held by {locks.described(locks.holder(users.path))}; this command has "
        f"waited {limit_s('lock'):g} s for it, the limit",
        "end that process, or measure again when it has ended",
    )


def _of_another(pid: int | None) -> bool:
    """Return whether another user holds the users' lock: root's harness would hold its own, too."""
    return pid is None or os.geteuid() == 0 or locks.uid_of(pid) != os.geteuid()


@dataclass
class _LockFile:
    """A lock file. ``hold``: receives the descriptor with the lock."""

    path: Path
    mode: int
    hold: Callable[[int], None]

    @contextmanager
    def locked(
        self, progress: Progress, limited: Callable[[int | None], bool] = lambda pid: False
    ) -> Iterator[bool]:
        """Hold its lock; False at the limit (harness.supervise.locks.wait_until)."""
        while True:
            descriptor = _open(self.path, self.mode)
            try:
                if not _take(self.path, descriptor, progress, limited):
                    yield False
                    return
                # Else it was removed: others lock the next one.
                if _is_still(self.path, descriptor):
                    self.hold(descriptor)
                    yield True
                    return
            finally:
                # Not by closing it: the supervisor has the same open file.
                locks.unlock(descriptor)
                os.close(descriptor)


def _take(
    path: Path, descriptor: int, progress: Progress, limited: Callable[[int | None], bool]
) -> bool:
    if locks.try_lock(descriptor):
        return True
    with _clock_stopped():
        return locks.wait_until(
            lambda: locks.try_lock(descriptor),
            path,
            lambda: locks.holder_of(os.fstat(descriptor)),
            progress.waiting,
            limited,
        )


def _wait_while_held(path: Path, progress: Progress) -> None:
    if locks.holder(path) is None:
        return
    with _clock_stopped():
        locks.wait_until(
            lambda: locks.holder(path) is None,
            path,
            lambda: locks.holder(path),
            progress.waiting,
            limited=lambda pid: False,
        )


def _shared_file(directories: Sequence[Path]) -> Path:
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


def _open(path: Path, mode: int) -> int:
    """Open the lock file, made first where it is missing.

    Others can put anything in its place: no link is followed, nothing is waited for, and
    only an empty file of our own is changed.
    """
    problem: OSError
    for _ in range(_ATTEMPTS):
        try:
            return _checked(path, _open_or_make(path, mode), mode)
        except PermissionError as error:
            problem = error
            time.sleep(_ATTEMPT_S)
        except OSError as error:
            problem = error
            break
    raise RunFailed(
        f"measuring lock {path}", str(problem.strerror), f"remove it: sudo rm {path}"
    ) from problem


def _open_or_make(path: Path, mode: int) -> int:
    # O_CREAT only where it is missing: in a sticky directory the kernel refuses it for another
    # user's file (fs.protected_regular).
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        with suppress(FileNotFoundError):
            return os.open(path, flags)
        with suppress(FileExistsError):
            return os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)


def _checked(path: Path, descriptor: int, mode: int) -> int:
    """The descriptor, of a file that all who may can open; closed where it is no file."""
    status = os.fstat(descriptor)
    ours = status.st_uid == os.geteuid() and status.st_nlink == 1 and status.st_size == 0
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(0, "it is not a regular file", str(path))
    if ours and stat.S_IMODE(status.st_mode) != mode:
        os.fchmod(descriptor, mode)  # it was made under a umask
    return descriptor


def _is_still(path: Path, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    return False
