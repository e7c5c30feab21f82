"""The private prefix, which contains only complete trees, and the clients that fetch them.

A tree is complete there even after a power failure.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from harness.errors import RunFailed
from harness.supervise import locks, programs, workdirs
from harness.supervise.own_files import sync_path
from harness.supervise.silence import VARIABLE, limit_s
from harness.supervise.user_files import opened

_LOCK = ".lock"


@contextmanager
def work_directory(prefix: Path, name: str) -> Iterator[Path]:
    """A temporary directory in which to make ``name``; those left by killed harnesses are removed.

    Its owner locks it, and a kill ends the lock; no other user can open it. The prefix has a lock
    until then, so that no directory looks abandoned before it is locked.
    """
    with ExitStack() as mine:
        with locks.locked(prefix / _LOCK):
            for left in prefix.glob(f".{name}.*"):
                with suppress(OSError), opened(left, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
                    if locks.try_lock(descriptor):
                        shutil.rmtree(left, ignore_errors=True)
            work = workdirs.fresh(prefix, f".{name}.")
            workdirs.make(work)
            locks.try_lock(mine.enter_context(opened(work, os.O_RDONLY | os.O_DIRECTORY)))
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def publish(tree: Path, target: Path) -> None:
    """Rename the finished tree into place, unless an equal one is already there.

    Its files reach the device before its name does, so no name leads to an incomplete tree.
    """
    for folder, _, names in os.walk(tree):
        for path in (*(Path(folder, name) for name in names), Path(folder)):
            if not path.is_symlink():
                sync_path(path)
    try:
        tree.rename(target)
    except OSError:
        if not target.is_dir():  # otherwise, another harness was faster; its tree is the same
            raise
    sync_path(target.parent)


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
