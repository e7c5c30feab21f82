"""Directories that servers' users can enter: pytest's own keep them out."""

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


def session_directory() -> Path:
    """One for all workers of this session, removed by the process that has started them."""
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    path = _BELOW / f"{_PREFIX}{owner}-session"
    path.mkdir(mode=0o755, exist_ok=True)
    return path


def remove_session_directory() -> None:
    """At the end of the session; of a worker, nothing."""
    shutil.rmtree(_BELOW / f"{_PREFIX}{os.getpid()}-session", ignore_errors=True)


def remove_abandoned() -> None:
    """Remove the directories of processes that have ended."""
    for path in _BELOW.glob(f"{_PREFIX}*-*"):
        owner = path.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdecimal() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(path, ignore_errors=True)
