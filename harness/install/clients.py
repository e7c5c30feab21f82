"""Running a registry's client, and checking what it brought."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import RunFailed


def run_client(
    what: str, command: Sequence[str], folder: Path, do: str, env: Mapping[str, str] | None = None
) -> str:
    """Run a client in ``folder`` and return its stdout; RunFailed with its last line.

    Its temporary files go into ``folder`` too: they are removed with it, however this ends.
    """
    if shutil.which(command[0]) is None:
        raise RunFailed(what, f"there is no {command[0]} on this machine", do)
    environment = os.environ | {"TMPDIR": str(folder), "LC_ALL": "C.UTF-8"} | dict(env or {})
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        lines = [*done.stdout.strip().splitlines(), *done.stderr.strip().splitlines()]
        told = [line for line in lines if re.match(r"(E:|\[ERROR\]|ERROR)\s*\S", line)]
        found = (told[:1] or lines[-1:] or [f"exit status {done.returncode}"])[0]
        raise RunFailed(what, found, do)
    return done.stdout


def verify(what: str, file: Path, sha256: str) -> None:
    """RunFailed where the file's SHA-256 is not the pinned one."""
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != sha256:
        raise RunFailed(
            f"install {what}",
            f"{file.name} has SHA-256 {digest}, pinned is {sha256}",
            "do not use this file; find out why your registry gives another one",
        )
