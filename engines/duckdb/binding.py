"""A file at a second path, for this process only: a bind mount in a mount namespace.

DuckDB resolves the links of a database's path before it derives the WAL's path from it, so a link
cannot place the WAL; a mount is not resolved. No clean-up is needed: the namespace and its mounts
end with the process. Unprivileged processes need a user namespace, if Linux allows it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from harness.supervise.user_files import Credentials, acting_as

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_SLAVE = 0x80000

_libc = ctypes.CDLL(None, use_errno=True)


def bind_file(source: Path, target: Path, owner: Sequence[int] | None = None) -> None:
    """Mount the file ``source`` on the existing file ``target``; OSError if it is not allowed.

    ``owner``: user and group of the directories of both. Root mounts only what that user can
    reach, and follows no links. Only for a process with one thread.
    """
    if os.geteuid() == 0:
        _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    else:
        user, group = os.geteuid(), os.getegid()
        _check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "unshare")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    # Slave: unmounts on the host propagate to this namespace, mounts here not to the host.
    _check(_libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None), "mount")
    reached_by = Credentials(owner[0], owner[1]) if owner else None
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
