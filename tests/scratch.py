"""Directories that servers' users can enter: pytest's own keep them out."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "tierbench-test-"
#: Not the root of a tmpfs: tests look at its file system.
_BELOW = Path("/var/tmp")


@contextmanager
def open_directory(mode: int = 0o755) -> Iterator[Path]:
    """A directory below /var/tmp, removed at the end, or by a later session if this is killed."""
    path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_BELOW))
    path.chmod(mode)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def remove_abandoned() -> None:
    """Remove the directories of processes that have ended."""
    for path in _BELOW.glob(f"{_PREFIX}*-*"):
        owner = path.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdecimal() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(path, ignore_errors=True)
