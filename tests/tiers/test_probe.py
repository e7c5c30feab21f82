"""The kernel's facts about directories, devices and nodes, and their traffic."""

import os
from pathlib import Path
from typing import Any

import pytest
from recorded_kernel import RecordedKernel, load, write

from harness.tiers.linux.block import stack_of
from harness.tiers.linux.kernel import Kernel, statx_dax
from harness.tiers.linux.model import Tier, TierClaim, TierFacts
from harness.tiers.linux.mounts import longest_match, mount_of, parse_mountinfo
from harness.tiers.linux.numa import nodes
from harness.tiers.linux.pmem import is_memmap_dram, regions
from harness.tiers.linux.probe import facts_of_devdax, facts_of_directory, facts_of_numa
from harness.tiers.traffic import TierTraffic


@pytest.fixture(scope="module")
def nvdimms(tmp_path_factory: pytest.TempPathFactory) -> RecordedKernel:
    """Two NVDIMMs in every mode, with eADR; see the recording's ``source``."""
    return load("two-nvdimms-eadr", tmp_path_factory.mktemp("recorded"))


# This machine ----------------------------------------------------------------------


def test_a_directory_on_disk_has_its_device_and_no_dax(tmp_path: Path) -> None:
    facts = facts_of_directory(tmp_path)
    assert facts.kind in ("block", "tmpfs")
    status = os.statvfs(tmp_path)
    assert facts.size_bytes == status.f_blocks * status.f_frsize
    assert facts.block_size_bytes == status.f_bsize
    assert facts.dax in (False, None)
    assert list(tmp_path.iterdir()) == []  # the probe file left nothing


def test_dev_shm_is_a_tmpfs_with_no_more_free_than_memory() -> None:
    for _ in range(20):  # it moves: others may take a lot between the two readings
        facts = facts_of_directory("/dev/shm")
        available = Kernel().available_memory_bytes()
        assert facts.kind == "tmpfs"
        assert available is not None
        assert facts.free_bytes is not None
        if facts.free_bytes <= available * 1.1:
            break
    else:
        pytest.fail(f"{facts.free_bytes} bytes are free, of {available} in memory")


def test_statx_answers_for_a_path_and_for_an_open_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with file.open("rb") as opened:
        assert statx_dax(file) == statx_dax(opened.fileno())
    assert statx_dax(tmp_path / "absent") is None


def test_the_kernel_names_the_mount_of_a_path_even_under_stacked_mounts() -> None:
    mount = mount_of(Path("/dev/shm"), Kernel())
    assert mount is not None
    assert mount.point == "/dev/shm"
    status = Path("/dev/shm").stat()
    assert mount.device_number == f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"


def test_memory_nodes_of_this_machine_have_memory_and_processors() -> None:
    online = nodes(Kernel())
    assert any(node.cpus for node in online)
    assert all(node.free_bytes <= node.memory_bytes for node in online)
    with pytest.raises(LookupError, match="no NUMA node 4095"):
        facts_of_numa(4095)


# mountinfo --------------------------------------------------------------------------

_MOUNTINFO = r"""
22 1 259:0 / / rw,noatime - ext4 /dev/root rw
30 22 259:1 / /mnt/with\040blank rw,relatime shared:7 master:2 - ext4 /dev/pmem0 rw,dax=always
31 22 259:2 / /mnt/a rw - xfs /dev/pmem1 ro,dax=always
32 31 259:3 /sub /mnt/a/b rw - ext4 /dev/sda1 rw
33 22 259:4 / /mnt/a rw - ext4 /dev/sdb1 rw
"""


def test_mountinfo_is_read_with_escapes_and_optional_fields() -> None:
    blank = parse_mountinfo(_MOUNTINFO)[1]
    assert blank.point == "/mnt/with blank"
    assert (blank.filesystem, blank.source) == ("ext4", "/dev/pmem0")
    assert "dax=always" in blank.options


def test_a_read_only_file_system_is_read_only_however_it_is_mounted() -> None:
    assert parse_mountinfo(_MOUNTINFO)[2].read_only
    assert not parse_mountinfo(_MOUNTINFO)[1].read_only


def test_the_longest_mount_point_wins_and_of_equals_the_last() -> None:
    every = parse_mountinfo(_MOUNTINFO)
    sources = {
        path: match.source
        for path in ("/", "/mnt/with blank/x", "/mnt/a/x", "/mnt/a/b", "/mnt/ab")
        if (match := longest_match(path, every))
    }
    assert sources == {
        "/": "/dev/root",
        "/mnt/with blank/x": "/dev/pmem0",
        "/mnt/a/x": "/dev/sdb1",
        "/mnt/a/b": "/dev/sda1",
        "/mnt/ab": "/dev/root",
    }


# Recorded NVDIMMs ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "kind", "mode"),
    [
        ("/mnt/ext4-dax", "fsdax", "fsdax"),
        ("/mnt/xfs-dax", "fsdax", "fsdax"),
        ("/mnt/xfs-on-sector", "sector", "sector"),
        ("/mnt/ext4-on-sector", "sector", "sector"),
        ("/mnt/ext4-nodax", "fs-nodax", "fsdax"),
        ("/mnt/ext4-on-raw", "fs-nodax", "raw"),
        ("/mnt/dax-inode/plain", "fs-nodax", "fsdax"),
        ("/mnt/dax-inode/flagged", "fsdax", "fsdax"),
        ("/mnt/with blank", "fsdax", "fsdax"),
        ("/mnt/unmounted", "block", None),
        ("/dev/shm", "tmpfs", None),
    ],
)
def test_recorded_directories(nvdimms, place, kind, mode):
    facts = facts_of_directory(place, nvdimms)
    assert (facts.kind, facts.namespace_mode) == (kind, mode)


def test_recorded_eadr_platform(nvdimms: RecordedKernel) -> None:
    assert facts_of_directory("/mnt/ext4-dax", nvdimms).persistence_domain == "cpu_cache"
    assert [region.name for region in regions(nvdimms)] == ["region0", "region1"]


def test_recorded_nodes_have_the_kind_of_their_memory(nvdimms: RecordedKernel) -> None:
    assert {node.node: node.kind for node in nodes(nvdimms)} == {0: "dram", 1: "dram", 3: "pmem"}
    facts = facts_of_devdax("/dev/dax1.4", nvdimms)
    assert facts.persistence_source == "region1/persistence_domain"


def test_recorded_dax_devices_have_their_namespace_and_driver(nvdimms: RecordedKernel) -> None:
    mapped = facts_of_devdax("/dev/dax1.4", nvdimms)
    assert (mapped.namespace, mapped.dax) == ("namespace1.4", True)
    assert mapped.namespace_alignment_bytes == 2 << 20
    assert facts_of_devdax("dax1.5", nvdimms).dax is False


def test_dram_reserved_by_memmap_is_not_taken_for_persistent_memory(nvdimms):
    region = regions(nvdimms)[0]
    assert not is_memmap_dram(region, nvdimms)


# Made-up trees: stacks of block devices --------------------------------------------------


def _disk(root: Path, path: str, number: str, **attributes: str) -> None:
    write(root, f"/sys/devices/{path}/dev", number)
    for name, text in attributes.items():
        write(root, f"/sys/devices/{path}/{name.replace('__', '/')}", text)
    link = root / f"sys/dev/block/{number}"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(f"../../devices/{path}")


def test_a_volume_over_a_raid_over_partitions_names_every_disk(tmp_path: Path) -> None:
    """An invented tree: LVM on md RAID 0 on partitions of two NVMe disks."""
    for number in (0, 1):
        disk = f"pci0/nvme{number}/nvme{number}n1"
        model = {"device__model": f"Fast {number}", "queue__rotational": "0"}
        _disk(tmp_path, disk, f"259:{number * 2}", **model)
        write(tmp_path, f"/sys/devices/pci0/nvme{number}/numa_node", "1")
        _disk(tmp_path, f"{disk}/nvme{number}n1p1", f"259:{number * 2 + 1}", partition="1")
    _disk(tmp_path, "virtual/block/md0", "9:0", md__level="raid0")
    _disk(tmp_path, "virtual/block/dm-0", "253:0", dm__name="vg-data", dm__uuid="LVM-abc")
    slaves = tmp_path / "sys/devices/virtual/block"
    (slaves / "md0/slaves").mkdir()
    for number in (0, 1):
        target = f"../../../../pci0/nvme{number}/nvme{number}n1/nvme{number}n1p1"
        (slaves / f"md0/slaves/nvme{number}n1p1").symlink_to(target)
    (slaves / "dm-0/slaves").mkdir()
    (slaves / "dm-0/slaves/md0").symlink_to("../../md0")

    stack = stack_of("253:0", Kernel(tmp_path))

    assert stack is not None
    assert stack.name == "mapper/vg-data"
    assert [disk.name for disk in stack.disks] == ["nvme0n1", "nvme1n1"]
    assert [disk.model for disk in stack.disks] == ["Fast 0", "Fast 1"]
    assert {disk.numa_node for disk in stack.disks} == {1}
    assert stack.through == ("LVM vg-data", "md0 raid0")


@pytest.mark.parametrize(
    ("filesystem", "task", "journal"),
    [
        ("ext4", "2417", True),
        ("ext4", "<none>", False),
        ("ext4", None, None),
        ("xfs", None, True),
        ("vfat", None, None),
    ],
)
def test_a_file_system_has_a_journal_or_not(tmp_path, filesystem, task, journal):
    """An invented volume of LVM, by whose number and kernel's name it is found."""
    _disk(tmp_path, "virtual/block/dm-0", "253:0", dm__name="vg-data", dm__uuid="LVM-abc")
    write(
        tmp_path,
        "/proc/self/mountinfo",
        f"30 1 253:0 / / rw - {filesystem} /dev/mapper/vg-data rw",
    )
    if task is not None:
        write(tmp_path, "/sys/fs/ext4/dm-0/journal_task", task)
    assert facts_of_directory(tmp_path, Kernel(tmp_path)).journal is journal


# Bytes that a tier's device moved -------------------------------------------------


MIB = 1 << 20
#: Documentation/block/stat.rst: reads, merged, sectors, ticks, writes, merged, sectors …
STAT = "100 0 {read} 5 50 0 {written} 5 0 5 10 0 0 0 0 0 0"


def tier(name: str, **facts: Any) -> Tier:
    values: dict[str, Any] = {"kind": "block", "filesystem": "ext4", "dax": False} | facts
    return Tier(TierClaim(name, values["kind"], f"/mnt/{name}"), TierFacts(**values))


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
    ssd = tier("ssd", filesystem="btrfs", filesystem_id="0:30", device="/dev/sda")
    assert TierTraffic([ssd], Tree(tmp_path)).read() == {
        "tier_read_bytes[tier=ssd]": 1010 * 512,
        "tier_write_bytes[tier=ssd]": 2020 * 512,
    }
