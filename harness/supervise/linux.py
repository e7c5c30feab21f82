"""System calls that Python does not offer: prctl, set_mempolicy, setfsuid and kin.

Standard library only (runs in the supervisor process, between fork and exec too).
Every function raises OSError as the C call would.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import platform
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

#: MPOL_* of set_mempolicy(2); preferring several nodes is MPOL_PREFERRED_MANY (Linux 5.15), and
#: weighted interleaving is of Linux 6.9. ``tiered``: bound, with MPOL_F_NUMA_BALANCING (5.12),
#: without which Linux moves no page of a bound process.
_MPOL = {"preferred": 1, "bind": 2, "interleave": 3, "weighted": 6, "tiered": 2 | 1 << 13}
_MPOL_PREFERRED_MANY = 5
_SET_MEMPOLICY = {
    "x86_64": 238,
    "aarch64": 237,
    "riscv64": 237,
    "ppc64le": 261,
    "s390x": 270,
}

#: glibc's setgroups(3) changes every thread of the process, the system call only its own.
_SETGROUPS = {
    "x86_64": 116,
    "aarch64": 159,
    "riscv64": 159,
    "ppc64le": 81,
    "s390x": 206,
}
#: Changes nothing: setfsuid and setfsgid return what it was.
_UNCHANGED = 2**32 - 1

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _syscall(numbers: Mapping[str, int], what: str, *arguments: Any) -> None:
    """A system call by its number on each machine."""
    number = numbers.get(platform.machine())
    if number is None:
        raise OSError(38, f"{what}: number unknown on {platform.machine()}")
    _checked(_libc.syscall(ctypes.c_long(number), *arguments), what)


def _prctl(option: int, value: int, what: str) -> None:
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), what)


def become_subreaper() -> None:
    """Orphans among this process's descendants become its children (Linux 3.4)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, "prctl(PR_SET_CHILD_SUBREAPER)")


def forbid_new_privileges() -> None:
    """No set-uid program gives this process or its children more rights again."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, "prctl(PR_SET_NO_NEW_PRIVS)")


def die_with_parent(parent_pid: int, signal_number: int) -> None:
    """Request ``signal_number`` at the parent's death; exit now if it is dead.

    The kernel drops the request when the credentials change: call it after setuid.
    """
    _prctl(_PR_SET_PDEATHSIG, signal_number, "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:
        os._exit(128 + signal_number)


def set_memory_policy(mode: str, nodes: Sequence[int]) -> None:
    """Where this thread and all it starts take memory from (``bind`` …, node numbers)."""
    several = mode == "preferred" and len(nodes) > 1
    mask = sum(1 << node for node in nodes)
    words = max(nodes) // 64 + 1
    mask_type = ctypes.c_ulong * words
    mask_words = mask_type(*(mask >> (64 * word) & (2**64 - 1) for word in range(words)))
    # The kernel reads one bit less than maxnode says (a known slip of its ABI).
    max_node = ctypes.c_ulong(words * 64 + 1)
    policy = _MPOL_PREFERRED_MANY if several else _MPOL[mode]
    what = f"set_mempolicy({mode}, nodes {','.join(map(str, nodes))})"
    _syscall(_SET_MEMPOLICY, what, policy, mask_words, max_node)


_CLONE_NEWNET = 0x4000_0000
#: <linux/sockios.h>, <linux/if.h>; struct ifreq has a name of 16 bytes before the flags.
_SIOCSIFFLAGS, _IFF_UP, _IFREQ = 0x8914, 1, "16sH22x"
_OWN_NETWORK = "/proc/thread-self/ns/net"


def leave_network() -> None:
    """Give this process a network of its own, which has a loopback address and nothing else."""
    _checked(_libc.unshare(_CLONE_NEWNET), "unshare(CLONE_NEWNET)")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack(_IFREQ, b"lo", _IFF_UP))


def enter_network(path: str) -> None:
    """Make sockets of this thread in the network of another process, ``/proc/PID/ns/net``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _checked(_libc.setns(descriptor, _CLONE_NEWNET), f"setns({path})")
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def in_network(path: str | None) -> Iterator[None]:
    """As :func:`enter_network`, for a block; a socket stays in the network it was made in."""
    if path is None:
        yield
        return
    namespace = os.open(_OWN_NETWORK, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_network(path)
        try:
            yield
        finally:
            _checked(_libc.setns(namespace, _CLONE_NEWNET), "setns")
    finally:
        os.close(namespace)


def network_of(pid: int) -> str | None:
    """The path of a process's network; None where it is ours, or the process is gone."""
    path = f"/proc/{pid}/ns/net"
    try:
        return None if Path(path).samefile(_OWN_NETWORK) else path
    except OSError:
        return None


#: User, group and further groups by which Linux checks a thread's access to files.
Identity = tuple[int, int, list[int]]


def filesystem_identity() -> Identity:
    """Return the identity with which this thread accesses files."""
    return _set_id(_libc.setfsuid, _UNCHANGED), _set_id(_libc.setfsgid, _UNCHANGED), os.getgroups()


def set_filesystem_identity(identity: Identity) -> None:
    """Give this thread alone another one (setfsuid(2)); needs CAP_SETUID and CAP_SETGID.

    With another user than root's go the capabilities that pass by file permissions.
    """
    user, group, groups = identity
    listed = (ctypes.c_uint * len(groups))(*groups)
    _syscall(_SETGROUPS, "setgroups", ctypes.c_long(len(groups)), listed)
    for change, expected in ((_libc.setfsgid, group), (_libc.setfsuid, user)):
        _set_id(change, expected)
        if _set_id(change, _UNCHANGED) != expected:
            raise PermissionError(1, f"{change.__name__}({expected}): not permitted")


def _set_id(change: Any, number: int) -> int:
    """The id as it was before."""
    return int(change(ctypes.c_uint(number))) & _UNCHANGED


def allocate(descriptor: int, size_bytes: int) -> None:
    """Reserve space for a file on its device (fallocate).

    posix_fallocate() would write to each block where the file system cannot.
    """
    start, size = ctypes.c_long(0), ctypes.c_long(size_bytes)
    _checked(_libc.fallocate(descriptor, 0, start, size), "fallocate")


def allow_inspection() -> None:
    """Our own processes may look at this one in /proc: changed identities have forbidden it."""
    _prctl(_PR_SET_DUMPABLE, 1, "prctl(PR_SET_DUMPABLE)")


def become(user: int, group: int, groups: Sequence[int]) -> None:
    """Give up root for good, in all threads; what runs from then on may be looked at in /proc."""
    os.setgroups(groups)
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    allow_inspection()
