"""File locks (flock(2)): taken here alone, so that every wait for one names its holder and ends.

Whoever can open a file can lock it, for ever. So what we wait for is a file that no other user can
open (:func:`open_private`), or the wait has a limit: ``lock`` (harness.supervise.silence), for all
waits of the command together.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from datetime import datetime
from pathlib import Path

from harness.errors import RunFailed
from harness.supervise.process import PROC_BYTES, process_stat, read_proc
from harness.supervise.silence import VARIABLE, limit_s

_MODE = 0o600
#: A wait that is longer is shown, with the lock's holder.
_SHOWN_AFTER_S = 2.0
_FIRST_POLL_S, _POLL_S = 0.01, 0.2
_SHOWN_CHARACTERS = 120

#: Shows a text while a wait lasts.
Shows = Callable[[str], AbstractContextManager[None]]

#: Whether the time that this process holds a lock counts towards the limit.
Limits = Callable[[int | None], bool]


def _always(_holder: int | None) -> bool:
    return True


#: How long this command has waited for what others may hold for ever, wait by wait.
_waits_s: list[float] = []


def _on_stderr(text: str) -> AbstractContextManager[None]:
    from harness import terminal  # locks are taken where its libraries are not installed

    terminal.say(text, file=sys.stderr)
    return nullcontext()


def open_private(path: Path) -> int:
    """A descriptor of a lock file that no other user can open, made where it is missing.

    OSError where it is another user's, or no regular file. No link is followed.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, _MODE)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if stat.S_IMODE(facts.st_mode) & ~_MODE and facts.st_nlink == 1:
            os.fchmod(descriptor, _MODE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the file's lock without waiting; False where another holds it."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Give the lock back for all processes that have this open file, which closing it does not."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def lock(
    descriptor: int,
    path: Path,
    *,
    shared: bool = False,
    shows: Shows = _on_stderr,
    limited: Limits = _always,
) -> None:
    """Take the file's lock; RunFailed, with its holder, at the limit (:func:`wait_until`)."""
    if not wait_until(
        lambda: try_lock(descriptor, shared=shared),
        path,
        lambda: holder_of(os.fstat(descriptor)),
        shows,
        limited,
    ):
        raise RunFailed(
            f"wait for the lock {path}",
            f"{described(holder_of(os.fstat(descriptor)))} has it; this command has waited "
            f"{limit_s('lock'):g} s for locks, the limit",
            f"end that process, or raise the limit: {VARIABLE}=lock=SECONDS",
        )


@contextmanager
def locked(
    path: Path,
    *,
    shared: bool = False,
    shows: Shows = _on_stderr,
    limited: Limits = _always,
) -> Iterator[None]:
    """Hold the lock of a private file; as :func:`open_private` and :func:`lock`."""
    descriptor = open_private(path)
    try:
        lock(descriptor, path, shared=shared, shows=shows, limited=limited)
        yield
    finally:
        os.close(descriptor)


def wait_until(
    free: Callable[[], bool],
    path: Path,
    holder: Callable[[], int | None],
    shows: Shows,
    limited: Limits = _always,
) -> bool:
    """Wait, showing each holder; False at the limit of the command.

    ``limited``: whether the time that this process holds it counts towards the limit: not if it is
    ours, which its own limits end.
    """
    if free():
        return True
    began = since = time.monotonic()
    waited_s, pause_s = 0.0, _FIRST_POLL_S
    shown: list[int | None] = []
    try:
        with ExitStack() as showing:
            while not free():
                now, pid = time.monotonic(), holder()
                if limited(pid):
                    waited_s += now - since
                    if sum(_waits_s) + waited_s >= limit_s("lock"):
                        return False
                since = now
                # No holder after another one: that has just given the lock back.
                changed = not shown or pid not in (None, shown[-1])
                if now - began >= _SHOWN_AFTER_S and changed:
                    shown.append(pid)
                    showing.close()
                    showing.enter_context(shows(f"waiting for the lock {path}: {described(pid)}"))
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _POLL_S)
    finally:
        _waits_s.append(waited_s)
    return True


# Who holds it ------------------------------------------------------------------


def holder(path: Path) -> int | None:
    """The process that holds the file's lock, as :func:`holder_of`; None where there is no file."""
    with suppress(OSError):
        return holder_of(path.lstat())
    return None


def holder_of(status: os.stat_result) -> int | None:
    """The process that holds the lock of this file, 0: one that has ended or is not visible.

    From /proc/locks, so it need not be possible to open the file.
    """
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


def described(pid: int | None) -> str:
    """``process 123 of user bench, since 2026-01-31 14:02:11: harness run tpch``."""
    if pid is None:
        return "a process that this host does not show (of another host or container)"
    if not pid or not _lives(pid):
        return "its process has ended, its supervisor still cleans up"
    status = process_stat(pid)
    if status is None:  # /proc shows nothing of other users' processes
        return f"process {pid}"
    since = _started(status.id.start_ticks)
    words = f"process {pid} of user {_user_of(pid)}, since {since:%Y-%m-%d %H:%M:%S}"
    return f"{words}: {command}" if (command := command_line(pid)) else words


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def uid_of(pid: int) -> int | None:
    """The effective user of a process; None where it cannot be seen."""
    with suppress(OSError):
        return Path(f"/proc/{pid}").stat().st_uid
    return None


def _user_of(pid: int) -> str:
    uid = uid_of(pid)
    try:
        return "?" if uid is None else pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def command_line(pid: int) -> str:
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
