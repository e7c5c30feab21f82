"""TPC-H's files, generated once per session: each start of the generator builds 300 MB of text."""

import fcntl
import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from harness.progress import Progress
from harness.workloads.tpch import data, refresh_sets


@contextmanager
def shared_files(session: Path) -> Iterator[None]:
    """Copy what the generator has made of the same arguments, stored in ``session``.

    Where there is no room for the copy, the generator itself runs, and fails.
    """
    generator = data.run_generator

    def run(
        arguments: Sequence[str], folder: Path, expected_bytes: int, title: str, progress: Progress
    ) -> None:
        name = hashlib.sha256("\0".join(arguments).encode()).hexdigest()[:16]
        stored = session / f"tpch-{name}"
        with stored.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not stored.exists():
                partial = stored.with_suffix(".partial")
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir()
                generator(arguments, partial, expected_bytes, title, progress)
                partial.rename(stored)
        try:
            shutil.copytree(stored, folder, copy_function=shutil.copyfile, dirs_exist_ok=True)
        except (OSError, shutil.Error):
            generator(arguments, folder, expected_bytes, title, progress)

    with (
        mock.patch.object(data, "run_generator", run),
        mock.patch.object(refresh_sets, "run_generator", run),
    ):
        yield
