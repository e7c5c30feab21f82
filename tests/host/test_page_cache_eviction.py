"""Eviction and residency of real files on the disk and on a tmpfs."""

import mmap
import os
import subprocess
from pathlib import Path

import pytest
from narrowed import present

from harness.host.page_cache import Residency, evict, in_memory, residency
from harness.units import KIB, MIB

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def disk(tmp_path):
    """A directory that is not on a tmpfs, with three files."""
    kind = subprocess.run(
        ["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True
    )
    if kind.stdout.strip() == "tmpfs":
        pytest.fail("the tests' temporary directory is a tmpfs; set TMPDIR to a disk")
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "1").write_bytes(os.urandom(4 * MIB))
    (tmp_path / "base" / "2").write_bytes(os.urandom(10_000))
    (tmp_path / "empty").touch()
    return tmp_path


def test_what_was_just_written_is_resident_and_can_be_evicted(disk):
    size = 4 * MIB + 10_000
    assert residency([disk]) == Residency(size, size, "")
    evict([disk])  # dirty pages, too: they are written back first
    for _ in range(2):  # measuring does not warm
        assert residency([disk]) == Residency(0, size, "")


def test_residency_counts_pages(disk):
    path = disk / "base" / "1"
    evict([disk])
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead
        os.pread(file.fileno(), 1, 1 * MIB)
        os.pread(file.fileno(), 1, 2 * MIB)
    assert residency([disk]).resident_bytes == 2 * mmap.PAGESIZE


def test_large_files_are_measured_in_chunks(disk, monkeypatch):
    monkeypatch.setattr("harness.host.page_cache._CHUNK_BYTES", 64 * KIB)
    size = 4 * MIB + 10_000
    assert residency([disk]).resident_bytes == size


def test_a_file_counts_once_and_links_are_not_followed(disk, tmp_path_factory):
    os.link(disk / "base" / "1", disk / "base" / "hard")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "file").write_bytes(bytes(MIB))
    (disk / "link").symlink_to(elsewhere)
    found = residency([disk / "base", disk / "base" / "1", disk / "link"])
    assert found.total_bytes == 4 * MIB + 10_000
    (disk / "loop").symlink_to(disk)
    (disk / "dangling").symlink_to(disk / "none")
    assert residency([disk]).total_bytes == 4 * MIB + 10_000


def test_what_a_process_has_mapped_stays_and_it_is_named(disk):
    path = disk / "base" / "1"
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) >= 0  # every page is in our page table
        evict([path])
        found = residency([path])
    assert present(found.resident_bytes) > 0
    assert "mapped by a running process" in found.note
    assert f"(pid {os.getpid()})" in found.note


def test_a_tmpfs_cannot_be_evicted_and_that_is_said():
    path = Path("/dev/shm") / f"tierbench-test-{os.getpid()}"
    path.write_bytes(bytes(MIB))
    try:
        evict([path])
        found = residency([path])
        assert found.resident_bytes == found.unevictable_bytes == found.total_bytes == MIB
        assert "/dev/shm is a tmpfs" in found.note
    finally:
        path.unlink()


@needs_root
def test_of_another_users_file_the_kernel_does_not_tell():
    """Linux 5.2 says "all resident" to strangers: a wrong number, so none is given."""
    pid = os.fork()
    if pid == 0:
        os.setresuid(65534, 65534, 65534)
        found = residency([Path("/etc/passwd")])
        os._exit(0 if found.resident_bytes is None and "another user's" in found.note else 1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@needs_root
@pytest.mark.system  # slows the whole host
def test_root_may_drop_everything(disk):
    residents = disk / "base" / "1"
    assert present(residency([residents]).resident_bytes) > 0
    evict([disk / "empty"], drop=False)
    assert present(residency([residents]).resident_bytes) > 0
    with residents.open("rb") as file:
        os.fsync(file.fileno())  # what is dirty is not dropped
    evict([disk / "empty"], drop=True)
    assert residency([residents]).resident_bytes == 0


def test_without_the_right_to_drop_everything_the_files_alone_are_evicted(disk, monkeypatch):
    monkeypatch.setattr("harness.host.page_cache._DROP_CACHES", disk / "none" / "drop_caches")
    evict([disk], drop=True)
    assert residency([disk]).resident_bytes == 0


def test_only_a_file_system_in_memory_holds_its_data_in_the_page_cache() -> None:
    assert in_memory(Path("/dev/shm"))
    assert not in_memory(Path("/usr"))
