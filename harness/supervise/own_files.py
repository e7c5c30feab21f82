"""Files and directories of our own, where no other local user can exchange a name.

A directory is ours only if we, root and the person who ran sudo alone write it, by its mode and by
its access control lists; the way to it may also lead through one in which only owners rename (mode
1777). Files in directories of another user: harness.supervise.user_files.

Standard library only: also used inside the supervisor process.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from harness.supervise.access_lists import (
    ACL,
    DEFAULT_ACL,
    GROUP,
    GROUP_OBJ,
    OTHER,
    USER,
    WRITE,
    access_list,
)
from harness.supervise.user_files import DIRECTORY, Credentials, open_regular, opened, servers_user


def refuse_writable(path: Path) -> None:
    """PermissionError where another user could exchange what lies at ``path``, or wrote it.

    The directory itself is ours or root's, and no one else writes to it; the way to it is safe, too
    (:func:`refuse_exchangeable_way`).
    """
    with opened(path, DIRECTORY) as descriptor:
        _refuse_shared(path, descriptor, _trusted(), sticky=False)
    refuse_exchangeable_way(path)


def refuse_exchangeable_way(path: Path) -> None:
    """PermissionError where another user could make another thing be found at ``path``.

    Each directory in which a name on the way to it is looked up (links on the way included) must
    be ours or root's, and others write there only if owners alone rename (mode 1777). As root the
    person who ran sudo is not another user: that person may do anything anyway. The servers' user
    always is, also where that person's name was given to the servers.
    """
    trusted = _trusted()
    for above in _looked_up_in(path):
        with opened(above, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) as descriptor:
            _refuse_shared(above, descriptor, trusted, sticky=True)


def owned_on_the_way(path: Path, user: Credentials) -> Path | None:
    """``path``, or a directory on the way to it, that belongs to ``user``; None without one."""
    way = (*_looked_up_in(path), path.resolve())
    return next((place for place in way if place.stat().st_uid == user.uid), None)


@dataclass(frozen=True)
class _Trusted:
    """Users, and groups that have no other member."""

    uids: frozenset[int]

    @cached_property
    def gids(self) -> frozenset[int]:
        """Read all users, which takes long: only where a group may write."""
        gids = set()
        for uid in self.uids:
            with contextlib.suppress(KeyError, OverflowError):
                user = pwd.getpwuid(uid)
                group = grp.getgrgid(user.pw_gid)
                if group.gr_name == user.pw_name and not _members(group) - self.uids:
                    gids.add(group.gr_gid)
        return frozenset(gids)


def _trusted() -> _Trusted:
    uids = {0, os.geteuid()}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdecimal():
        uids |= {int(os.environ["SUDO_UID"])} - _servers_uids()
    return _Trusted(frozenset(uids))


def _servers_uids() -> set[int]:
    with contextlib.suppress(KeyError):
        return {pwd.getpwnam(servers_user()).pw_uid}
    return set()


def _members(group: grp.struct_group) -> set[int]:
    """The users of a group, those whose first group it is included; root's group is no exception.

    -1 stands for a name without a user.
    """
    users = pwd.getpwall()
    uids = {user.pw_name: user.pw_uid for user in users}
    listed = {uids.get(name, -1) for name in group.gr_mem}
    return listed | {user.pw_uid for user in users if user.pw_gid == group.gr_gid}


def _refuse_shared(path: Path, descriptor: int, trusted: _Trusted, sticky: bool) -> None:
    facts = os.fstat(descriptor)
    if facts.st_uid not in trusted.uids:
        whose = f"uid {facts.st_uid}"
        if facts.st_uid in _servers_uids():
            whose += f" ({servers_user()}), the user that servers run as ($HARNESS_USER)"
        raise PermissionError(errno.EPERM, f"it belongs to {whose}", str(path))
    mode = stat.S_IMODE(facts.st_mode)
    shown = f"mode {mode:04o}"
    if (entries := access_list(descriptor, ACL)) is None:
        shared = bool(mode & stat.S_IWOTH) or (
            bool(mode & stat.S_IWGRP) and facts.st_gid not in trusted.gids
        )
    else:  # the mode's group bits are the list's mask
        shown += ", with an access control list, which setfacl -b removes"
        shared = any(_is_another_writer(entry, facts.st_gid, trusted) for entry in entries)
    if shared and not (sticky and facts.st_mode & stat.S_ISVTX):
        raise PermissionError(errno.EPERM, f"other users may write to it ({shown})", str(path))
    inherited = access_list(descriptor, DEFAULT_ACL) or []
    if any(_is_another_writer(entry, facts.st_gid, trusted) for entry in inherited):
        raise PermissionError(
            errno.EPERM,
            "other users may write to what is made in it (default ACL, which setfacl -k removes)",
            str(path),
        )


def _is_another_writer(entry: tuple[int, int, int], gid: int, trusted: _Trusted) -> bool:
    tag, permissions, who = entry
    if not permissions & WRITE:
        return False
    if tag == USER:
        return who not in trusted.uids
    if tag in (GROUP, GROUP_OBJ):
        return (who if tag == GROUP else gid) not in trusted.gids
    return tag == OTHER


def _looked_up_in(path: Path) -> Iterator[Path]:
    """The directories in which Linux looks up a name on the way to ``path``; links are followed."""
    pending = list(reversed(path.absolute().parts[1:]))
    at = Path("/")
    links = 0
    while pending:
        yield at
        if (name := pending.pop()) == "..":
            at = at.parent
        elif (below := at / name).is_symlink():
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = below.readlink()
            at = Path("/") if target.is_absolute() else at
            pending += reversed([part for part in target.parts if part != "/"])
        else:
            at = below


#: As many as Linux follows.
_MOST_LINKS = 40


def make_own(folder: Path) -> None:
    """Make a directory for files whose names are known, and those above it that are missing.

    As root, PermissionError where another user could exchange it, or put something into it.
    """
    if os.geteuid() != 0:
        folder.mkdir(parents=True, exist_ok=True)
        return
    existing = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    refuse_exchangeable_way(existing / "name")
    folder.mkdir(parents=True, exist_ok=True)
    refuse_writable(folder.resolve())
    refuse_exchangeable_way(folder)


@contextlib.contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a directory as :func:`make_own` does; a new one in which nothing is left is removed."""
    new = not folder.exists()
    make_own(folder)
    try:
        yield
    finally:
        if new:
            with contextlib.suppress(OSError):  # it has files
                folder.rmdir()


def make_passable(path: Path) -> None:
    """Make a directory and those above it that are missing, for every user to pass through."""
    if not path.is_dir():
        make_passable(path.parent)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
            path.chmod(0o755)


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o666, *, sync: bool = True) -> Iterator[BinaryIO]:
    """Write a new file that takes the place of ``path`` when it is whole (and on the device).

    The one way to write a file that is read as a whole. Until then it has a name that cannot be
    foreseen; no link is followed. As root, PermissionError where another user could exchange the
    directory. ``mode``: before umask. ``sync``: False for what can be made again.
    """
    if os.geteuid() == 0:
        refuse_exchangeable_way(path)
    partial = path.with_name(f".{path.name}.{os.urandom(8).hex()}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(descriptor)
        partial.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
    if sync:
        sync_path(path.parent)


@contextlib.contextmanager
def appending(path: Path) -> Iterator[BinaryIO]:
    """Append to a file, which is made where it is missing; refusals as :func:`replacing`."""
    if os.geteuid() == 0:
        refuse_exchangeable_way(path)
    descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    with os.fdopen(descriptor, "ab") as file:
        yield file


def sync_path(path: Path) -> None:
    """Force a file, or the names in a directory, to the device."""
    with opened(path, os.O_RDONLY | os.O_CLOEXEC) as descriptor:
        os.fsync(descriptor)
