"""Registries' clients: running one, and verifying a download."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.errors import RunFailed
from harness.supervise import programs
from harness.supervise.silence import VARIABLE, limit_s

#: strerror(ENOSPC), as clients print it.
NO_SPACE = os.strerror(errno.ENOSPC)


def run_client(problem: str, command: Sequence[str], folder: Path, hint: str) -> str:
    """Run a client in ``folder`` and return its stdout; RunFailed with its error.

    It is killed at the limit ``download`` (harness.supervise.silence): what it downloads has no
    sign of life that all clients print.

    Its temporary files are in ``folder`` too, and are removed with it.
    """
    if shutil.which(command[0]) is None:
        raise RunFailed(problem, f"there is no {command[0]} on this machine", hint)
    environment = {**programs.network_environment(), "TMPDIR": str(folder)}
    limit = limit_s("download")
    try:
        done = programs.run(command, timeout_s=limit, env=environment, cwd=folder)
    except subprocess.TimeoutExpired as error:
        context = f"{command[0]} has not ended within {limit:g} s, the limit; it was killed"
        raise RunFailed(problem, context, f"{hint}; {VARIABLE}=download=SECONDS") from error
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
