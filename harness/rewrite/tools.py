"""Programs that are run for a rewriting, and what is said where one of them fails."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.errors import UsageError

#: The line of a compiler's or linker's messages that names the cause; collect2 only repeats it.
_CAUSE = re.compile(r"^(?!collect2:).*(\berror:|\bundefined |\bcannot find|\bmultiple def)", re.I)


def run(command: Sequence[str], program: Path, folder: Path | None = None) -> str:
    """Its standard output; UsageError where it fails: it does not understand the program."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    except FileNotFoundError as error:
        raise refused(
            program, f"{command[0]} is not installed", "install gcc and binutils"
        ) from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        cause = next((line for line in said if _CAUSE.search(line)), said[-1])
        raise refused(
            program,
            f"{Path(command[0]).name}: {cause.strip()[:300]}",
            "this program cannot be rewritten",
        )
    return done.stdout


def refused(program: Path, context: str, hint: str) -> UsageError:
    """The error of a program that is not rewritten."""
    return UsageError(f"rewrite {program}", context, hint)
