"""One file shown at a second path, for this process alone: a bind mount in a mount namespace.

DuckDB resolves the links of a database's path before it derives the WAL's path from
it, so a link cannot lead the WAL elsewhere; a mount is not resolved. It needs no
cleaning up: the namespace and its mounts end with the process. Unprivileged processes
may do it inside a user namespace of their own, where the kernel lets them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from harness.supervise.user_files import NumericUser, acting_as

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_SLAVE = 0x80000

_libc = ctypes.CDLL(None, use_errno=True)


def bind_file(source: Path, target: Path, owner: Sequence[int] | None = None) -> None:
    """Show the file ``source`` at the existing file ``target``; OSError where it is not allowed.

    ``owner``: user and group in whose directories both lie: root mounts what that user reaches,
    and nothing that a link leads to. Only in a process that has one thread.
    """
    if os.geteuid() == 0:
        _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    else:
        user, group = os.geteuid(), os.getegid()
        _check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "unshare")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    # Slave: what is unmounted on the host goes here too, nothing of ours goes there.
    _check(_libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None), "mount")
    reached_by = NumericUser(owner[0], owner[1]) if owner else None
    with acting_as(reached_by):
        opened = [os.open(path, os.O_PATH | os.O_NOFOLLOW) for path in (source, target)]
    try:
        for descriptor, path in zip(opened, (source, target), strict=True):
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(path))
        here, there = (f"/proc/self/fd/{descriptor}".encode() for descriptor in opened)
        _check(_libc.mount(here, there, None, _MS_BIND, None), "mount")
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
