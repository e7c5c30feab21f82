"""Placements on tiers: names, sorts, policies, space, and where memory really is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from recorded_kernel import write

from harness.engine import MemoryPolicy
from harness.errors import UsageError
from harness.experiment.placement import parse_placement
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.model import Tier, TierClaim, TierFacts, TierKind
from harness.tiers.linux.numa import residency
from harness.tiers.resolve import check_space, free_now, resolve


def tier(name: str, kind: TierKind = "block", **claim: Any) -> Tier:
    return Tier(TierClaim(name, kind, **claim), TierFacts(kind, filesystem_id="259:1"))


TIERS = {
    "ssd": tier("ssd", path="/var/lib"),
    "pmem": tier("pmem", "fsdax", path="/mnt/pmem0"),
    "pmem_raw": tier("pmem_raw", "devdax", device="/dev/dax0.0"),
    "cxl": tier("cxl", "numa", nodes=(2,)),
    "mixed": tier("mixed", "numa", nodes=(0, 2), policy="interleave"),
}


def test_a_placement_gets_the_tier_of_each_part_and_a_memory_policy() -> None:
    tiers, policy = resolve(parse_placement("data=ssd,wal=pmem,memory=cxl"), TIERS)
    assert {part: tier.name for part, tier in tiers.items()} == {
        "data": "ssd",
        "wal": "pmem",
        "temp": "ssd",
        "index": "ssd",
        "memory": "cxl",
    }
    assert policy == MemoryPolicy("bind", (2,))
    assert resolve(parse_placement("ssd-both"), TIERS)[1] is None
    assert resolve(parse_placement("data=ssd,memory=mixed"), TIERS)[1] == MemoryPolicy(
        "interleave", (0, 2)
    )


@pytest.mark.parametrize(
    ("placement", "found", "do"),
    [
        ("pmen-both", "no such tier: 'pmen' (did you mean 'pmem'?)", "--emulate pmen"),
        ("data=ssd,wal=cxl", "is a memory node without files", "tiers that fit: pmem, ssd"),
        ("data=pmem_raw", "the character device /dev/dax0.0", "tiers that fit: pmem, ssd"),
        ("data=ssd,memory=pmem", "can only be bound to a NUMA node", "tiers that fit: cxl, mixed"),
    ],
)
def test_tiers_of_the_wrong_sort_are_refused(placement: str, found: str, do: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolve(parse_placement(placement), TIERS)
    assert found in refused.value.context
    assert do in refused.value.hint


def test_parts_on_one_file_system_are_added_up() -> None:
    ssd, pmem = TIERS["ssd"], TIERS["pmem"]  # both on file system 259:1
    check_space([(ssd, "data", 600), (pmem, "wal", 400)], free=lambda _: 1000)
    with pytest.raises(UsageError) as refused:
        check_space([(ssd, "data", 600), (pmem, "wal", 500)], lambda _: 1000, "fewer --warehouses")
    assert refused.value.problem == "1.07 KiB on tier 'ssd' and 'pmem' (data 600 B, wal 500 B)"
    assert "1000 B are free" in refused.value.context
    assert "use fewer --warehouses, or" in refused.value.hint


def test_free_space_is_that_of_now_and_of_the_nearest_existing_directory(tmp_path: Path) -> None:
    not_yet = tier("ssd", path=str(tmp_path / "not" / "yet"))
    status = os.statvfs(tmp_path)
    free = free_now(not_yet)
    assert free is not None
    assert abs(free - status.f_bavail * status.f_frsize) < status.f_blocks * status.f_frsize / 10
    with pytest.raises(UsageError, match="on tier 'ssd'"):
        check_space([(not_yet, "data", 1 << 60)])


def test_memory_of_this_process_is_counted_by_node() -> None:
    block = bytearray(32 << 20)
    found = residency([os.getpid()])
    assert found.total_bytes >= len(block)
    assert sum(found.shares().values()) == pytest.approx(1)
    assert residency([]).shares() == {}


# Residency ------------------------------------------------------------------------------


def test_numa_maps_counts_heap_and_shared_pool_but_not_files(tmp_path: Path) -> None:
    """An invented numa_maps in the format of proc(5)."""
    write(
        tmp_path,
        "/proc/7/numa_maps",
        "5500 default heap anon=10 dirty=10 N0=4 N2=6 kernelpagesize_kB=4\n"
        "7f00 bind:2 file=/dev/zero\\040(deleted) dirty=2 N2=2 kernelpagesize_kB=2048\n"
        "7f40 default file=/usr/lib/libc.so.6 mapped=99 N0=99 kernelpagesize_kB=4\n",
    )
    found = residency([7, 8], Kernel(tmp_path))
    assert found.anonymous == {0: 4 * 4096, 2: 6 * 4096}
    assert found.shared == {2: 2 * (2 << 20)}
    assert found.shares()[2] == pytest.approx(1 - 16384 / found.total_bytes)
