"""Registries' clients: running one, and verifying a download."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from harness.errors import RunFailed
from harness.supervise import programs

#: strerror(ENOSPC), as clients print it.
NO_SPACE = os.strerror(errno.ENOSPC)


def run_client(problem: str, command: Sequence[str], folder: Path, hint: str) -> str:
    """Run a client in ``folder`` and return its stdout; RunFailed with its error.

    Its temporary files are in ``folder`` too, and are removed with it.
    """
    if shutil.which(command[0]) is None:
        raise RunFailed(problem, f"there is no {command[0]} on this machine", hint)
    environment = {**programs.network_environment(), "TMPDIR": str(folder)}
    done = programs.run(command, timeout_s=None, env=environment, cwd=folder)
    if done.returncode != 0:
        lines = [*done.stdout.strip().splitlines(), *done.stderr.strip().splitlines()]
        errors = [line for line in lines if NO_SPACE in line]
        errors += [line for line in lines if re.match(r"(E:|\[ERROR\]|ERROR)\s*\S", line)]
        context = (errors[:1] or lines[-1:] or [f"exit status {done.returncode}"])[0]
        raise RunFailed(problem, context, hint)
    return done.stdout


def verify(name: str, file: Path, sha256: str) -> None:
    """RunFailed unless the file has the pinned SHA-256."""
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != sha256:
        raise RunFailed(
            f"install {name}",
            f"{file.name} has SHA-256 {digest}, pinned is {sha256}",
            "do not use this file; find out why the registry returns another one",
        )
