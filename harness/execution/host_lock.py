"""One harness at a time on this host: another one would be in its numbers.

The lock is held from before the data are restored to after the server has stopped, and
while data are generated or loaded in bulk. The supervisor holds it, too: after kill -9 of the
harness it is held until everything is cleaned up.

There are two lock files. Root's is in a directory that only root can enter with rights to open the
file, so no other user can hold it. The users' is one that every user can open. Root takes its own,
then waits for the users' one for a limited time, since anybody can hold that for ever. Other users
wait until root's is free, which they see in /proc/locks, and take theirs.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness.errors import RunFailed
from harness.progress import Progress
from harness.supervise import workdirs
from harness.supervise.process import PROC_BYTES, process_stat, read_proc
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
_POLL_S = 0.2
_SHOWN_CHARACTERS = 120

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
        """Those that all harnesses of this host use."""
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
    users = _File(_shared_file(places.shared), _MODE, hold)
    warnings: list[RunWarning] = []
    if os.geteuid() == 0 and places.root is not None:
        root = _File(places.root / _NAME, _ROOT_MODE, hold)
        with root.locked(progress):
            began = time.monotonic()

            def patient() -> bool:
                return time.monotonic() - began < limit_s("lock")

            with users.locked(progress, patient) as held:
                if not held:
                    warnings.append(_held_by_user(users))
                yield warnings
        return
    while True:
        if places.root is not None:
            _wait_while_held(places.root / _NAME, progress)
        with users.locked(progress):
            if places.root is None or _holder(places.root / _NAME) is None:
                yield warnings
                return


def _held_by_user(users: _File) -> RunWarning:
    return RunWarning(
        "host-lock-held",
        "another user's harness may measure at the same time",
        f"{users.path} has been held for {limit_s('lock'):g} s by {_named(_holder(users.path))}",
        "end that process, or measure again when it has ended",
    )


@dataclass
class _File:
    """A lock file. ``hold``: receives the descriptor with the lock."""

    path: Path
    mode: int
    hold: Callable[[int], None]

    @contextmanager
    def locked(
        self, progress: Progress, patient: Callable[[], bool] = lambda: True
    ) -> Iterator[bool]:
        """Hold its lock; False where that was not to be had as long as ``patient``."""
        while True:
            descriptor = _open(self.path, self.mode)
            try:
                if not _lock(self.path, descriptor, progress, patient):
                    yield False
                    return
                # Else it was removed: others lock the next one.
                if _is_still(self.path, descriptor):
                    self.hold(descriptor)
                    yield True
                    return
            finally:
                # Not by closing it: the supervisor has the same open file.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.close(descriptor)


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


def _lock(path: Path, descriptor: int, progress: Progress, patient: Callable[[], bool]) -> bool:
    def taken() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    return _waits_until(taken, path, progress, lambda: _holder_of(os.fstat(descriptor)), patient)


def _wait_while_held(path: Path, progress: Progress) -> None:
    _waits_until(lambda: _holder(path) is None, path, progress, lambda: _holder(path))


def _waits_until(
    free: Callable[[], bool],
    path: Path,
    progress: Progress,
    holder: Callable[[], int | None],
    patient: Callable[[], bool] = lambda: True,
) -> bool:
    """Wait, naming each holder once; False where it was given up."""
    if free():
        return True
    said = None
    with _clock_stopped(), ExitStack() as shown:
        while not free():
            if not patient():
                return False
            now = holder()
            if said is None or (now is not None and now != said):
                said = -1 if now is None else now
                text = f"{path} is locked" if now is None else _named(now)
                shown.close()
                shown.enter_context(progress.waiting(f"waiting for another harness: {text}"))
            time.sleep(_POLL_S)
    return True


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


# Who holds it ------------------------------------------------------------------


def _holder(path: Path) -> int | None:
    """The process that holds the file's lock (0: one that has ended or is not visible)."""
    with suppress(OSError):
        return _holder_of(path.lstat())
    return None


def _holder_of(status: os.stat_result) -> int | None:
    major, minor = os.major(status.st_dev), os.minor(status.st_dev)
    name = f"{major:02x}:{minor:02x}:{status.st_ino}"  # a number recurs on other file systems
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5] == name:
            return max(0, int(fields[4]))
    return None


def _named(pid: int | None) -> str:
    """``process 123 of user bench, since 2026-01-31 14:02:11: harness run tpch``."""
    if not pid or not _lives(pid):
        return "its process has ended, its supervisor still cleans up"
    found = process_stat(pid)
    if found is None:  # /proc shows nothing of other users' processes
        return f"process {pid}"
    since = _started(found.id.start_ticks)
    words = f"process {pid} of user {_user_of(pid)}, since {since:%Y-%m-%d %H:%M:%S}"
    return f"{words}: {command}" if (command := _command(pid)) else words


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _user_of(pid: int) -> str:
    try:
        uid = Path(f"/proc/{pid}").stat().st_uid
        return pwd.getpwuid(uid).pw_name
    except OSError:
        return "?"
    except KeyError:
        return str(uid)


def _command(pid: int) -> str:
    """Its command line, shortened; another user chose it. Empty where /proc is mounted hidepid."""
    try:
        with Path(f"/proc/{pid}/cmdline").open("rb") as file:
            words = file.read(PROC_BYTES).decode(errors="replace").split("\0")
    except OSError:
        return ""
    if len(words) > 1 and Path(words[0]).name.startswith("python"):
        words = [Path(words[1]).name, *words[2:]]
    text = "".join(letter if letter.isprintable() else "?" for letter in " ".join(words)).strip()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _started(start_ticks: int) -> datetime:
    uptime_s = float(read_proc("/proc/uptime").split()[0])
    ago_s = uptime_s - start_ticks / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(time.time() - ago_s)
