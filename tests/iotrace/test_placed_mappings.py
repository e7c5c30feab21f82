"""The library places large mappings, as numa_maps shows; on this host's node 0."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from harness.engine import MemoryPolicy

#: Prints the policy of each piece of a mapping of its own, with the piece's pages, by kind.
PROGRAM = """
import ctypes, mmap
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
MIB = 1 << 20
def show(name, start, size):
    ctypes.memset(start, 1, size)
    for line in open("/proc/self/numa_maps"):
        address, policy, *rest = line.split()
        if start <= int(address, 16) < start + size:
            pages = [word for word in rest if word.startswith("N0=")]
            print(name, policy, *pages)
def mapped(name, size, flags):
    block = mmap.mmap(-1, size, flags=flags | mmap.MAP_ANONYMOUS)
    show(name, ctypes.addressof(ctypes.c_char.from_buffer(block)), size)
mapped("shared", 8 * MIB, mmap.MAP_SHARED)
mapped("private", 8 * MIB, mmap.MAP_PRIVATE)
mapped("small", MIB // 2, mmap.MAP_SHARED)
segment = libc.shmget(0, 8 * MIB, 0o600)
start = libc.shmat(segment, None, 0)
libc.shmctl(segment, 0, None)  # IPC_RMID: it goes with the process
show("segment", start, 8 * MIB)
"""


@pytest.fixture
def placed(library: Path):
    """Pages by mapping and policy, under a policy."""

    def placed(mode, nodes, weights=()) -> dict[str, Counter[str]]:
        policy = MemoryPolicy(mode, nodes, weights, library)
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", PROGRAM],
            env={**os.environ, **policy.environment},
            capture_output=True,
            text=True,
            check=True,
        )
        result: dict[str, Counter[str]] = {}
        for line in done.stdout.splitlines():
            name, kind, *pages = line.split()
            result.setdefault(name, Counter())[kind] += sum(int(n[3:]) for n in pages)
        return result

    return placed


def test_pieces_of_large_mappings_go_to_the_nodes_by_their_weights(placed):
    """Node 1023 does not exist: the pieces that are due there have no policy."""
    pages = placed("weighted", (0, 1023), (3, 1))
    for name in ("shared", "private", "segment"):
        assert pages[name].total() == 2048, name
        assert pages[name]["prefer:0"] == 2048 * 3 / 4, name
    assert set(pages["small"]) == {"default"}


def test_shared_mappings_take_part_in_balancing(placed):
    pages = placed("tiered", (0,))
    assert set(pages["shared"]) == set(pages["segment"]) == {"bind=balancing:0"}
    assert set(pages["private"]) == set(pages["small"]) == {"default"}


def test_without_a_policy_nothing_is_placed(placed, monkeypatch, library):
    monkeypatch.setattr(MemoryPolicy, "environment", {"LD_PRELOAD": str(library)})
    assert {kind for kinds in placed("weighted", (0,)).values() for kind in kinds} == {"default"}
