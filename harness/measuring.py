"""One measured phase at a time on this host: two harnesses would measure each other."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import RunFailed
from harness.progress import Progress


@contextmanager
def one_at_a_time(progress: Progress) -> Iterator[None]:
    """Hold the host's measuring lock; wait, and say so, while another harness holds it.

    The lock file is shared by all users of the host, so that they wait for one
    another too; the kernel lets go of it when its holder ends, however it ends.
    """
    path = Path(tempfile.gettempdir()) / "tierbench-measuring.lock"
    if (shared := Path("/run/lock")).is_dir() and os.access(shared, os.W_OK):
        path = shared / "tierbench-measuring.lock"
    try:
        descriptor = _open(path)
    except OSError as error:
        raise RunFailed(f"measuring lock {path}", str(error), "remove the file") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(f"another harness{_holder(descriptor)} is measuring: waiting for its end")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """For reading: a lock needs no more, and another user's file gives no more.

    O_CREAT only where it is not there: in a sticky directory the kernel refuses it
    for another user's file (fs.protected_regular).
    """
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _holder(descriptor: int) -> str:
    """`` (process 123)``: who holds the lock, where the kernel tells."""
    inode = os.fstat(descriptor).st_ino
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
            return f" (process {fields[4]})"
    return ""
