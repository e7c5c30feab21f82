"""What tests' commands do less of: TPC-H's files are generated once per session, since each start
of the generator builds 300 MB of text, and hardly any memory is taken back from a hypervisor.
"""

import fcntl
import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from harness.host import free_memory
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


@contextmanager
def little_taken_back() -> Iterator[None]:
    """Before a cold start, use a hundredth of the free memory that a measurement would use: each
    page may take the hypervisor some microseconds.
    """
    take_back = free_memory.take_back

    def little(data_bytes: int, progress: Progress) -> int:
        return take_back(data_bytes // 100, progress)

    with mock.patch.object(free_memory, "take_back", little):
        yield
