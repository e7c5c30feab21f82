"""Explain why a process did not start or ended."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import RunFailed
from harness.supervise.silence import VARIABLE
from harness.supervise.user_files import Credentials, acting_as, open_regular


def spawn_failure(
    argv: Sequence[str], credentials: Credentials | None, report: Mapping[str, Any]
) -> RunFailed:
    """RunFailed from what harness.supervise.child reported of a step before exec."""
    user = credentials.name if credentials else _name(pwd.getpwuid, os.geteuid())
    problem = f"start {shlex.join(map(str, argv))} as user {user}"
    path, step = report["path"], report["step"]
    if report["closed"]:
        closed = report["closed"]
        return RunFailed(
            problem,
            f"{path}: user {user} cannot enter {closed} ({_access(closed, credentials)})",
            f"move it where {user} can reach it, `chmod o+x {closed}`, or set another"
            " $HARNESS_USER",
        )
    if report["interpreter"] and report["errno"] in (errno.ENOENT, errno.EACCES):
        return RunFailed(problem, f"{path}: its interpreter {report['interpreter']} cannot be run")
    if step == "exec" and report["errno"] == errno.ENOENT:
        where = "found" if "/" in path else f"on the part of PATH that {user} can reach"
        return RunFailed(problem, f"{path} is not {where}", "install it, or give its full path")
    if step == "exec" and report["errno"] == errno.EACCES:
        return RunFailed(
            problem, f"{path} is not executable for {user} ({_access(path, credentials)})"
        )
    context = f"{step}: {report['error']} ({path})"
    if report["errno"] != errno.ETIMEDOUT:
        return RunFailed(problem, context)
    what = "the user database (LDAP, NIS)" if step == "user" else "its file system (NFS)"
    return RunFailed(
        problem, context, f"find why {what} does not answer, or raise {VARIABLE}=exec=SECONDS"
    )


def _access(path: str, user: Credentials | None) -> str:
    """``mode 0700, owner root:root``, as the user can see it."""
    try:
        with acting_as(user):
            facts = Path(path).stat()
    except OSError as error:
        return str(error)
    owner = _name(pwd.getpwuid, facts.st_uid)
    group = _name(grp.getgrgid, facts.st_gid)
    return f"mode {facts.st_mode & 0o7777:04o}, owner {owner}:{group}"


def _name(lookup: Any, number: int) -> str:
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)


def ending(code: int) -> str:
    """Outcome of a process with this exit status, as a predicate."""
    return f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"


def log_tail(path: Path, user: Credentials | None, lines: int = 15, max_bytes: int = 16384) -> str:
    """The last lines of a log, for RunFailed, or why it cannot be read.

    ``user``: owner of its directory; it is read with that user's rights.
    """
    try:
        with acting_as(user):
            descriptor = open_regular(path, os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - max_bytes))
            text = log.read().decode(errors="replace")
    except OSError as error:
        return f"(no log: {error})"
    last = text.splitlines()[-lines:]
    return "\n".join(last) if last else f"({path} is empty)"
