"""What a process touches from a cold start: real files, a real process, the kernel's word."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scratch import open_directory

from harness.engine import ProcessId
from harness.host.page_cache import evict
from harness.host.process_counters import Footprint, own_memory_bytes
from harness.supervise.process import own_identity, process_identity

MIB = 1 << 20
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
    path: Path, read: int, held: int, cached: bool = True, program: str = WORKER
) -> dict[str, float]:
    argv = [sys.executable, "-c", program, str(path), str(read), str(held)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin and child.stdout
        identity = process_identity(child.pid)
        assert identity is not None
        assert child.stdout.readline() == "up\n"  # what it takes to start is over
        footprint = Footprint(lambda: [path], lambda: [identity], cached)
        child.stdin.write("go\n")
        child.stdin.flush()
        assert child.stdout.readline() == "done\n"
        found = footprint.taken()
        child.communicate("\n")
    return found


def test_file_bytes_and_the_peak_of_memory_are_found(cold_file: Path):
    found = work(cold_file, read=8 * MIB, held=32 * MIB)
    # The kernel may take any clean page back at any time.
    assert 7 * MIB <= found["touched_file_bytes"] <= 8 * MIB
    # Although it was let go; the kernel counts in batches of pages, so a little may lack.
    assert 31 * MIB <= found["anonymous_peak_bytes"] < 40 * MIB
    assert found["working_set_bytes"] == found["anonymous_peak_bytes"]


def test_a_query_that_mostly_reads_has_its_files_as_working_set(cold_file: Path):
    found = work(cold_file, read=16 * MIB, held=MIB)
    assert found["working_set_bytes"] == found["touched_file_bytes"]
    assert 14 * MIB <= found["touched_file_bytes"] <= 16 * MIB


def test_what_does_not_stay_in_the_page_cache_is_no_touched_byte(cold_file: Path):
    found = work(cold_file, read=8 * MIB, held=0, program=DIRECT)
    assert set(found) == {"anonymous_peak_bytes", "working_set_bytes"}


def test_past_the_page_cache_nothing_is_known_of_the_files(cold_file: Path):
    assert set(work(cold_file, read=MIB, held=MIB, cached=False)) == {"anonymous_peak_bytes"}


def test_a_process_that_has_ended_hides_no_other_s_memory(cold_file: Path):
    """As a server's between the listing of its processes and the reset of their peaks."""
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
    held = b"x" * (64 * MIB)
    assert own_memory_bytes([own_identity()]) - before == pytest.approx(len(held), rel=0.1)
    assert own_memory_bytes([]) == 0
