"""Bytes that a tier's device moved: real reads and writes here, layouts of sysfs beside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from recorded_kernel import write

from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.model import Tier, TierClaim, TierFacts
from harness.tiers.linux.probe import facts_of_directory
from harness.tiers.traffic import TierTraffic

MIB = 1 << 20
#: Documentation/block/stat.rst: reads, merged, sectors, ticks, writes, merged, sectors …
STAT = "100 0 {read} 5 50 0 {written} 5 0 5 10 0 0 0 0 0 0"


def tier(name: str, **facts: Any) -> Tier:
    known: dict[str, Any] = {"kind": "block", "filesystem": "ext4", "dax": False} | facts
    return Tier(TierClaim(name, known["kind"], f"/mnt/{name}"), TierFacts(**known))


def disk(root: Path, number: str, name: str, read: int, written: int, iostats: str = "1") -> None:
    """A disk in a tree shaped as sysfs(5) is."""
    folder = f"/sys/devices/pci/{name}"
    write(root, f"{folder}/stat", STAT.format(read=read, written=written))
    write(root, f"{folder}/queue/iostats", iostats)
    _link(root, number, f"devices/pci/{name}")


def partition(root: Path, number: str, on: str, name: str, read: int, written: int) -> None:
    write(root, f"/sys/devices/pci/{on}/{name}/stat", STAT.format(read=read, written=written))
    _link(root, number, f"devices/pci/{on}/{name}")


def _link(root: Path, number: str, below_sys: str) -> None:
    link = root / "sys/dev/block" / number
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(root / "sys" / below_sys)


@pytest.fixture
def here() -> Tier:
    """The tier of a directory on this machine's disk."""
    facts = facts_of_directory("/var/tmp")
    return Tier(TierClaim("ssd", facts.kind, "/var/tmp"), facts)


def test_what_goes_past_the_page_cache_is_counted_by_the_device(here: Tier):
    traffic = TierTraffic([here])
    size = 8 * MIB
    path = Path("/var/tmp") / f"tierbench-traffic-{os.getpid()}"
    before = traffic.read()
    try:
        with path.open("wb") as file:
            file.write(os.urandom(size))
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        between = traffic.read()
        path.read_bytes()
        after = traffic.read()
    finally:
        path.unlink()
    written, read = "tier_write_bytes[tier=ssd]", "tier_read_bytes[tier=ssd]"
    assert between[written] - before[written] >= size
    assert after[read] - between[read] >= size


class Busy(Kernel):
    """Eight requests under way; what becomes of them from one look to the next is set."""

    under_way, ended = 8, 0

    def read(self, name: str | Path) -> str | None:
        text = super().read(name)
        if Path(name).name != "stat" or text is None:
            return text
        self.look()
        fields = text.split()
        fields[0], fields[8] = str(self.ended), str(self.under_way)
        return " ".join(fields)

    def look(self) -> None:
        """Another one ends, and none comes."""
        self.ended += 1
        self.under_way = max(0, self.under_way - 1)


def traffic_of(tree: Kernel) -> TierTraffic:
    disk(tree.path("/"), "8:0", "sda", 1000, 2000)
    return TierTraffic([tier("ssd", filesystem_id="8:0")], tree)


def test_requests_under_way_are_waited_for(tmp_path: Path):
    tree = Busy(tmp_path)
    traffic = traffic_of(tree)
    tree.under_way = 8
    for level in (3, 0):  # three are somebody else's, that were there before
        assert traffic.settle(level)
        assert tree.under_way <= level
    assert TierTraffic([], tree).settle(limit_s=0)


def test_a_device_that_stands_still_is_waited_for_longer(tmp_path: Path):
    class Still(Busy):
        looks = 0

        def look(self) -> None:
            self.looks += 1
            if self.looks > 500:
                super().look()

    assert traffic_of(Still(tmp_path)).settle(0, limit_s=0.2, still_s=3600)
    assert not traffic_of(Still(tmp_path / "again")).settle(0, limit_s=0.2, still_s=0.05)


def test_a_tmpfs_and_dax_have_no_count(here: Tier):
    facts = facts_of_directory("/dev/shm")
    assert facts.kind == "tmpfs"
    shm = Tier(TierClaim("pmem", "tmpfs", "/dev/shm"), facts)
    number = here.facts.filesystem_id
    dax = tier("pmem", kind="fsdax", dax=True, filesystem_id=number)
    assert TierTraffic([shm]).read() == TierTraffic([dax]).read() == {}


def test_partitions_count_for_themselves(tmp_path: Path):
    disk(tmp_path, "8:0", "sda", 1000, 2000)
    partition(tmp_path, "8:1", "sda", "sda1", 600, 1200)
    partition(tmp_path, "8:2", "sda", "sda2", 400, 800)
    tiers = [tier("ssd", filesystem_id="8:1"), tier("log", filesystem_id="8:2")]
    assert TierTraffic(tiers, Kernel(tmp_path)).read() == {
        "tier_read_bytes[tier=ssd]": 600 * 512,
        "tier_write_bytes[tier=ssd]": 1200 * 512,
        "tier_read_bytes[tier=log]": 400 * 512,
        "tier_write_bytes[tier=log]": 800 * 512,
    }


def test_tiers_on_one_device_have_one_count_with_both_names(tmp_path: Path):
    disk(tmp_path, "8:0", "sda", 1000, 2000)
    tiers = [tier("ssd", filesystem_id="8:0"), tier("log", filesystem_id="8:0")]
    assert TierTraffic([*tiers, tiers[0]], Kernel(tmp_path)).read() == {
        "tier_read_bytes[tier=log+ssd]": 512000,
        "tier_write_bytes[tier=log+ssd]": 1024000,
    }


def test_a_device_that_does_not_count_is_no_zero(tmp_path: Path):
    disk(tmp_path, "8:0", "sda", 1000, 2000, iostats="0")
    partition(tmp_path, "8:1", "sda", "sda1", 600, 1200)
    tiers = [tier("ssd", filesystem_id="8:0"), tier("log", filesystem_id="8:1"),
             tier("nfs", filesystem_id="0:45"), tier("gone", filesystem_id="8:9")]  # fmt: skip
    assert TierTraffic(tiers, Kernel(tmp_path)).read() == {}


def test_all_members_of_a_btrfs_are_added_up(tmp_path: Path):
    class Tree(Kernel):
        def device_number(self, device: str) -> str | None:
            return {"/dev/sda": "8:0"}.get(device)

    disk(tmp_path, "8:0", "sda", 1000, 2000)
    disk(tmp_path, "8:16", "sdb", 10, 20)
    for name in ("sda", "sdb"):
        (tmp_path / "sys/class/block").mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys/class/block" / name).symlink_to(tmp_path / f"sys/devices/pci/{name}")
        (tmp_path / "sys/fs/btrfs/uuid/devices" / name).mkdir(parents=True)
    one = tier("ssd", filesystem="btrfs", filesystem_id="0:30", device="/dev/sda")
    assert TierTraffic([one], Tree(tmp_path)).read() == {
        "tier_read_bytes[tier=ssd]": 1010 * 512,
        "tier_write_bytes[tier=ssd]": 2020 * 512,
    }
