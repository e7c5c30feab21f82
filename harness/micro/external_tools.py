"""Other programs on a tier: found, given space, run under the supervisor to
the end."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

from harness.errors import RunFailed, UsageError
from harness.micro.protocol import MicroContext
from harness.supervise import programs
from harness.supervise.conversation import converse
from harness.supervise.failures import ending, log_tail
from harness.supervise.user_files import acting_as
from harness.tiers.discovery import nearest_existing
from harness.tiers.linux.model import DIRECTORY_KINDS, Tier
from harness.units import format_bytes

_VERSION = re.compile(r"\d+(?:\.\d+)+")
#: Left free of what the tier has: a full file system is another device.
_SPARE_SHARE = 0.05


def require(name: str, arguments: Sequence[str], at_least: tuple[int, ...] = ()) -> str:
    """Return a program's version; UsageError where it is missing or older than ``at_least``.

    The packages are Debian's: each is called as its program.
    """
    problem = f"measure with {name}"
    path = shutil.which(name)
    if path is None:
        raise UsageError(
            problem, f"{name} is not installed", f"install it (Debian: sudo apt install {name})"
        )
    done = programs.run([path, *arguments], timeout_s=30)
    match = _VERSION.search(done.stdout + done.stderr)
    version = match.group() if match else ""
    if tuple(map(int, version.split(".") if version else ())) < at_least:
        wanted = ".".join(map(str, at_least))
        raise UsageError(
            problem, f"{path} is version {version or 'unknown'}", f"install {wanted} or later"
        )
    return version


def require_room(tier: Tier, size_bytes: int, name: str, key: str) -> None:
    """UsageError where the tier is no directory, or has no room for a file of ``size_bytes``.

    ``name``: of the program; ``key``: of its parameter that says the file's size.
    """
    problem = f"measure with {name} on tier {tier.name!r}"
    path = tier.claim.path
    if path is None or tier.facts.kind not in DIRECTORY_KINDS:
        raise UsageError(
            problem,
            f"a {tier.facts.kind} has no files, and {name} measures in one",
            "choose a tier that is a directory",
        )
    capacity = os.statvfs(nearest_existing(Path(path)))
    free = capacity.f_bavail * capacity.f_frsize
    if size_bytes > free * (1 - _SPARE_SHARE):
        raise UsageError(
            f"{problem} in a file of {format_bytes(size_bytes)}",
            f"{format_bytes(free)} are free in {path}, and {1 - _SPARE_SHARE:.0%} of that may go",
            f"make room, or give a smaller one with -p {key}=…",
        )


def run(work: MicroContext, argv: Sequence[str], stdin: str = "") -> str:
    """Run a program in the run's directory as the unprivileged user; return what it printed.

    RunFailed with its last words where it fails.
    """
    user = work.env.credentials
    log = work.scratch / f"{argv[0]}-{uuid.uuid4().hex}.log"
    process = work.env.supervisor.spawn(
        argv, cwd=work.directory, log=log, credentials=user, pipes=True
    )
    code, output = converse(process, stdin)
    printed = output.decode(errors="replace")
    if code != 0:
        said = [line for line in printed.splitlines() if line.startswith(("fio:", "ioping:"))]
        last = "; ".join(said[-3:]) or log_tail(log, user)
        raise RunFailed(shlex.join(argv), f"it {ending(code)}: {last}")
    with acting_as(user):
        log.unlink(missing_ok=True)
    return printed
