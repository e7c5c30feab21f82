"""What counts as left over by a harness: what it made, and nothing of the host's other programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.supervise.credentials import unprivileged


@pytest.fixture
def segment() -> Iterator[Path]:
    """Shared memory that PostgreSQL made and no process has mapped."""
    path = Path(f"/dev/shm/PostgreSQL.test-{os.getpid()}")
    path.touch()
    yield path
    path.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_shared_memory_of_another_users_server_is_not_left_over(harness, segment):
    server = unprivileged()
    assert server is not None
    os.chown(segment, server.uid, server.gid)
    assert harness.leftovers() == [str(segment)]
    os.chown(segment, server.uid + 1, server.gid)
    assert harness.leftovers() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a /dev/shm of its own")
def test_no_other_program_of_the_host_sees_the_tests_shared_memory(segment):
    assert not (Path(f"/proc/{os.getppid()}/root") / segment.relative_to("/")).exists()
