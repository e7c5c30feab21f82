"""The programs of the host: ndctl, daxctl, ipmctl, blkid, mkfs, mount."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

#: Making a namespace of terabytes clears its page structures.
_TIMEOUT_S = 3600
#: Tools in /sbin are not in everybody's path.
_PATH = os.pathsep.join(
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
)


@dataclass(frozen=True)
class Refusal:
    """Why nothing is done: the object by name, the finding, the fix."""

    object: str
    why: str
    do: str


class Refused(Exception):
    """The host is left as it is, because of ``refusal``."""

    def __init__(self, object: str, why: str, do: str) -> None:
        super().__init__(f"{object}: {why} ({do})")
        self.refusal = Refusal(object, why, do)


class StepFailed(Refused):
    """A step did not do what it is for."""


@dataclass(frozen=True)
class Done:
    """The exit code and output of a program that has ended."""

    rc: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """All it said, on one line."""
        return " ".join((self.err + " " + self.out).split())


class Commands:
    """Runs programs without a shell, without standard input, in the C locale."""

    def has(self, program: str) -> bool:
        """Return whether the host has the program."""
        return shutil.which(program, path=_PATH) is not None

    def unreadable(self, device: str) -> str | None:
        """Why the beginning or the end of a device cannot be read; None where it can."""
        try:
            with open(device, "rb", buffering=0) as file:
                size = file.seek(0, os.SEEK_END)
                for at in (0, max(0, size - 4096)):
                    file.seek(at)
                    if not file.read(4096):
                        return f"{device} has no bytes"
        except OSError as error:
            return f"{device} cannot be read: {error.strerror}"
        return None

    def owner_of(self, path: str) -> tuple[int, int, int] | None:
        """User, group and mode bits of a file; None where there is none."""
        try:
            status = os.stat(path)
        except OSError:
            return None
        return status.st_uid, status.st_gid, status.st_mode & 0o7777

    def run(self, argv: Sequence[str]) -> Done:
        """The answer, whatever the exit code; 127 where there is no such program."""
        environment = {**os.environ, "LC_ALL": "C", "PATH": _PATH}
        try:
            done = subprocess.run(
                list(argv),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                env=environment,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            return Done(127, "", f"{argv[0]}: not installed")
        except subprocess.TimeoutExpired:
            return Done(124, "", f"{argv[0]}: no end within {_TIMEOUT_S} s")
        return Done(done.returncode, done.stdout, done.stderr)

    def must(self, argv: Sequence[str], object: str, do: str) -> Done:
        """The answer of a program that succeeded; StepFailed with its own words otherwise."""
        done = self.run(argv)
        if done.rc:
            raise StepFailed(object, f"{' '.join(argv)}: exit {done.rc}: {done.words[-600:]}", do)
        return done
