"""The unprivileged user that servers run as."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.supervise import programs
from harness.supervise.own_files import refuse_writable
from harness.supervise.user_files import DEDICATED_USER, FALLBACK_USER, Credentials, servers_user
from harness.warnings import RunWarning


def unprivileged() -> Credentials | None:
    """Return the servers' user; None where the harness itself is unprivileged.

    As root: the user in ``$HARNESS_USER``, else ``tierbench`` where there is one, else
    ``nobody``. UsageError for an unknown user and for root by any name.
    """
    if os.geteuid() != 0:
        return None
    user = _named(servers_user())
    if not is_mapped(user.uid):
        raise UsageError(
            f"servers' user {user.name}",
            f"this user namespace has no uid {user.uid} (/proc/self/uid_map)",
            "run as another user than root, or map more uids (/etc/subuid)",
        )
    return user


def is_mapped(uid: int, uid_map: Path = Path("/proc/self/uid_map")) -> bool:
    """Return whether processes of this user namespace can be of a user."""
    ranges = (map(int, line.split()) for line in uid_map.read_text("ascii").splitlines())
    return any(first <= uid < first + count for first, _, count in ranges)


def shared_user_warnings(user: Credentials) -> list[RunWarning]:
    """Warn where other services may run as the servers' user, too."""
    if user.name != FALLBACK_USER:
        return []
    return [
        RunWarning(
            code="shared-user",
            problem=f"other services may run as {FALLBACK_USER}, too",
            context=f"there is no user {DEDICATED_USER}",
            hint="run scripts/create-user.sh as root (`make setup` does)",
        )
    ]


def refuse_exchangeable(path: Path, what: str, variable: str) -> None:
    """UsageError where another user could exchange what lies at ``path``, which we trust."""
    try:
        refuse_writable(path)
    except OSError as error:
        raise UsageError(
            f"{what} in {path}",
            f"{error.strerror}: {error.filename or path}",
            f"chown it to {os.geteuid()} and chmod 755 it, or name another in ${variable}",
        ) from error


def run_unprivileged(
    command: Sequence[str],
    *,
    timeout_s: float,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    descriptors: Sequence[int] = (),
    cwd: Path = Path("/"),
) -> subprocess.CompletedProcess[str]:
    """Run a program that is not ours as the unprivileged user (see harness.supervise.programs)."""
    return programs.run(
        command,
        timeout_s=timeout_s,
        stdin=stdin,
        env=env,
        cwd=cwd,
        user=unprivileged(),
        foreign=True,
        descriptors=descriptors,
    )


def _named(name: str) -> Credentials:
    problem = f"run servers as user {name!r}"
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise UsageError(
            problem,
            "there is no such user",
            "export HARNESS_USER=USER, an existing unprivileged one",
        ) from None
    if entry.pw_uid == 0:
        raise UsageError(problem, "it is root", "export HARNESS_USER=USER, an unprivileged one")
    return Credentials(entry.pw_uid, entry.pw_gid, entry.pw_name)


def refuse_noexec(folder: Path, title: str) -> None:
    """UsageError where no program below ``folder`` can run."""
    if folder.exists() and os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise UsageError(
            f"{title} under {folder}",
            "its file system is mounted noexec: no program there can run",
            "mount it with exec, or export HARNESS_ENGINES=DIRECTORY",
        )
