"""The private prefix: it contains only complete trees, even after a power failure."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from harness.supervise import workdirs


@contextmanager
def work_directory(prefix: Path, name: str) -> Iterator[Path]:
    """A temporary directory in which to make ``name``; those left by killed harnesses are removed.

    Its owner locks it, and a kill ends the lock. The prefix is locked until then, so that no
    directory looks abandoned before it is locked.
    """
    with _locked(prefix):
        for left in prefix.glob(f".{name}.*"):
            with suppress(OSError), _locked(left, fcntl.LOCK_NB):
                shutil.rmtree(left, ignore_errors=True)
        work = workdirs.fresh(prefix, f".{name}.")
        workdirs.make(work)
        mine = ExitStack()
        mine.enter_context(_locked(work))
    with mine:
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _locked(directory: Path, flags: int = 0) -> Iterator[None]:
    handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | flags)
        yield
    finally:
        os.close(handle)


def publish(tree: Path, target: Path) -> None:
    """Rename the finished tree into place, unless an equal one is already there.

    Its files reach the device before its name does, so no name leads to an incomplete tree.
    """
    for folder, _, names in os.walk(tree):
        for path in (*(Path(folder, name) for name in names), Path(folder)):
            if not path.is_symlink():
                _sync(path)
    try:
        tree.rename(target)
    except OSError:
        if not target.is_dir():  # otherwise, another harness was faster; its tree is the same
            raise
    _sync(target.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
