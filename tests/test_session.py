"""What a session reports of a real server and real files: coldness, footprints, counters."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.progress import SilentProgress
from harness.session import RunSession

MIB = 1 << 20


def session(engine: Any, **more: Any) -> RunSession:
    return RunSession(engine, SilentProgress(), None, drop_caches=False, **more)


@pytest.fixture
def disk() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tierbench-test-", dir="/var/tmp") as folder:
        yield Path(folder)


def test_a_large_log_does_not_hide_data_that_are_not_cold(disk: Path):
    data, log = disk / "data", disk / "log"
    for folder in (data, log):
        folder.mkdir()
    (data / "table").write_bytes(os.urandom(MIB))
    (data / "redo").symlink_to(log)  # as PostgreSQL reaches its own
    with (log / "redo0").open("wb") as file:
        file.truncate(1024 * MIB)  # preallocated, and nothing in it
    one = session(SimpleNamespace(files=lambda: [data, log]), apart=[log])
    with (data / "table").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) >= 0  # what is mapped cannot be evicted
        one.evict("q1")
    assert one.residency[0]["total_bytes"] == MIB
    assert one.not_cold == [f"q1: {MIB} of {MIB} bytes resident"]
