"""The Java that the client runs on, and the Maven that builds it."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.supervise import programs

#: The binding's unix sockets are Java's own from 16 on; 17 is the release that stays.
_LEAST = 17
_RELEASE = re.compile(r'version "(\d+)')
_TIMEOUT_S = 60
_PROBLEM = "driver ycsb"


@dataclass(frozen=True)
class Java:
    """``program``: the command; ``banner``: what it says of itself in a line."""

    program: Path
    banner: str


def find_java() -> Java:
    """The ``java`` on the PATH; UsageError where there is none, or an old one."""
    return _inspect(_command("java"))


def find_maven() -> Path:
    """The ``mvn`` on the PATH, with a ``javac``; UsageError where one of them is missing."""
    _command("javac")
    return _command("mvn")


def _command(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise UsageError(
            _PROBLEM,
            f"there is no {name} on the PATH: the official client is a Java program, built by "
            "Maven on first use",
            "install both (Debian: sudo apt install default-jdk-headless maven)",
        )
    return Path(found)


@functools.cache
def _inspect(program: Path) -> Java:
    try:
        done = programs.run([program, "-version"], timeout_s=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(_PROBLEM, f"{program}: {error}", "install another Java") from error
    lines = [*done.stderr.splitlines(), *done.stdout.splitlines()]
    release = _RELEASE.search("\n".join(lines))
    if release is None:
        raise UsageError(
            _PROBLEM,
            f"{program} does not say its version: {(lines or ['it says nothing'])[0]}",
            "install another Java (Debian: default-jdk-headless)",
        )
    if int(release[1]) < _LEAST:
        raise UsageError(
            _PROBLEM,
            f"{program} is Java {release[1]}",
            f"put Java {_LEAST} or later on the PATH (Debian: default-jdk-headless)",
        )
    return Java(program, " / ".join(line.strip() for line in lines[:3] if line.strip()))
