"""What is printed of a run of microbenchmarks, and of what one would do: read off its table."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

FIO = """
schema: 1
name: calls
description: d
program: fio
params:
  size: 8MiB
  duration: 50ms
  measurements:
    wal: {operation: write, pattern: sequential, access: 4KiB, sync: [fdatasync, dsync]}
    read: {operation: read, pattern: random, access: 64}
"""


@pytest.fixture
def fio_suite(loaded: Any) -> Any:
    file = loaded.root / "calls.yml"
    file.write_text(FIO)
    return file


def test_a_users_directory_is_left_as_it_was(loaded: Any, fio_suite: Any) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        theirs = Path(name)
        theirs.chmod(0o755)
        (theirs / "notes.txt").write_text("mine")
        where = ("--tier", "pmem", "--emulate", f"pmem={name}")
        done = loaded("run", "micro", "--suite", fio_suite, *where, "-p", "only=read", "-q",
                      "-p", "duration=1s")  # fmt: skip
        assert done.code == 0, done.err
        assert [path.name for path in theirs.iterdir()] == ["notes.txt"]
