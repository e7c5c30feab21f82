"""Real files in the page cache: eviction, residency, and what a process touches."""

import mmap
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from narrowed import present
from scratch import open_directory
from waiting_child import child, resume

from harness.engine import ProcessId
from harness.host.footprint import Footprint, own_memory_bytes
from harness.host.page_cache import Residency, evict, in_memory, residency
from harness.supervise.process import own_identity
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
    cached = residency([disk / "base", disk / "base" / "1", disk / "link"])
    assert cached.total_bytes == 4 * MIB + 10_000
    (disk / "loop").symlink_to(disk)
    (disk / "dangling").symlink_to(disk / "none")
    assert residency([disk]).total_bytes == 4 * MIB + 10_000


def test_what_a_process_has_mapped_stays_and_it_is_named(disk):
    path = disk / "base" / "1"
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) >= 0  # every page is in our page table
        evict([path])
        cached = residency([path])
    assert present(cached.resident_bytes) > 0
    assert "mapped" in cached.note
    assert f"(pid {os.getpid()})" in cached.note


def test_a_tmpfs_cannot_be_evicted_and_that_is_said():
    path = Path("/dev/shm") / f"tierbench-test-{os.getpid()}"
    path.write_bytes(bytes(MIB))
    try:
        evict([path])
        cached = residency([path])
        assert cached.resident_bytes == cached.unevictable_bytes == cached.total_bytes == MIB
        assert "/dev/shm" in cached.note and "tmpfs" in cached.note
    finally:
        path.unlink()


@needs_root
def test_of_another_users_file_the_kernel_does_not_tell():
    """Linux 5.2 says "all resident" to strangers: a wrong number, so none is given."""
    pid = os.fork()
    if pid == 0:
        os.setresuid(65534, 65534, 65534)
        cached = residency([Path("/etc/passwd")])
        os._exit(0 if cached.resident_bytes is None and "another user's" in cached.note else 1)
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


# What a process touches from a cold start -----------------------------------------


#: Says that it is up, waits for a line, reads the first half of a file, holds memory for a while,
#: lets it go.
WORKER = """
import os, sys
print("up", flush=True)
sys.stdin.readline()
f = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(f, 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead
for at in range(0, int(sys.argv[2]), 4096): os.pread(f, 4096, at)
held = bytearray(int(sys.argv[3])); held[::4096] = b"x" * len(held[::4096]); del held
print("done", flush=True)
sys.stdin.readline()
"""
#: The same, past the page cache.
DIRECT = """
import mmap, os, sys
b = mmap.mmap(-1, 1 << 20)
print("up", flush=True)
sys.stdin.readline()
f = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
for at in range(0, int(sys.argv[2]), 1 << 20): os.preadv(f, [b], at)
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def cold_file() -> Iterator[Path]:
    """16 MiB on a disk, none of it in the page cache."""
    with open_directory() as folder:
        path = folder / "data"
        path.write_bytes(os.urandom(16 * MIB))
        os.sync()
        evict([path])
        yield path


def work(
    path: Path, read: int, allocated: int, cached: bool = True, program: str = WORKER
) -> dict[str, float]:
    with child(program, path, read, allocated) as (process, identity):
        assert process.stdout.readline() == "up\n"  # what it takes to start is over
        footprint = Footprint(lambda: [path], lambda: [identity], cached)
        resume(process)
        assert process.stdout.readline() == "done\n"
        return footprint.taken()


def test_file_bytes_and_the_peak_of_memory_are_found(cold_file: Path):
    footprint = work(cold_file, read=8 * MIB, allocated=32 * MIB)
    # The kernel may take any clean page back at any time.
    assert 7 * MIB <= footprint["touched_file_bytes"] <= 8 * MIB
    # Although it was let go; the kernel counts in batches of pages, so a little may lack.
    assert 31 * MIB <= footprint["anonymous_peak_bytes"] < 40 * MIB
    assert footprint["working_set_bytes"] == footprint["anonymous_peak_bytes"]


def test_a_query_that_mostly_reads_has_its_files_as_working_set(cold_file: Path):
    footprint = work(cold_file, read=16 * MIB, allocated=MIB)
    assert footprint["working_set_bytes"] == footprint["touched_file_bytes"]
    assert 14 * MIB <= footprint["touched_file_bytes"] <= 16 * MIB


def test_what_does_not_stay_in_the_page_cache_is_no_touched_byte(cold_file: Path):
    footprint = work(cold_file, read=8 * MIB, allocated=0, program=DIRECT)
    assert set(footprint) == {"anonymous_peak_bytes", "working_set_bytes"}


def test_past_the_page_cache_nothing_is_known_of_the_files(cold_file: Path):
    assert set(work(cold_file, read=MIB, allocated=MIB, cached=False)) == {"anonymous_peak_bytes"}


def test_a_process_that_has_ended_hides_no_other_s_memory(cold_file: Path):
    """A server's process may end between the listing and the reset of the peaks."""
    me = own_identity()
    with subprocess.Popen(["true"]) as ended:
        pass
    processes = [me, ProcessId(ended.pid, me.start_ticks)]
    assert "anonymous_peak_bytes" in Footprint(lambda: [cold_file], lambda: processes).taken()


def test_a_process_that_is_another_by_now_adds_nothing(cold_file: Path):
    me = own_identity()
    stranger = ProcessId(me.pid, me.start_ticks + 1)
    assert "anonymous_peak_bytes" not in Footprint(lambda: [cold_file], lambda: [stranger]).taken()


def test_an_engine_s_own_memory_is_private_and_counts_shared_pages_once():
    before = own_memory_bytes([own_identity()])
    block = b"x" * (64 * MIB)
    assert own_memory_bytes([own_identity()]) - before == pytest.approx(len(block), rel=0.1)
    assert own_memory_bytes([]) == 0
