"""Output of ndctl, daxctl, blkid and ipmctl is understood; files of the host are edited."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recorded import Answers, optane, recording, state_of
from recorded_kernel import write
from simulated import SimulatedHost
from tierbench import fstab, hostfile, ipmctl
from tierbench.changes import plan_changes
from tierbench.commands import Commands, Done
from tierbench.desired_state import DesiredState
from tierbench.filesystems import mkfs_argv
from tierbench.linux import EXT4_EAGER, Kernel, resource_table
from tierbench.memmap import choose, parameters, system_ram
from tierbench.namespace_users import namespace_users, parse_blkid, probe
from tierbench.ndctl import Namespace, parse_ndctl
from tierbench.record import Record, load_record, save_record
from tierbench.state import read_state

from harness.host.memory_mode import parse_memory_resources
from harness.tiers.hostfile import load_host_file

# Listings, on recordings ------------------------------------------------------------


def test_blank_label_areas_show_as_regions_without_labels():
    listed = parse_ndctl(recording("blank-labels"))
    assert [(r.name, r.labelled, r.dimms) for r in listed.regions] == [
        (f"region{n}", False, (f"nmem{n}",)) for n in (0, 1)
    ]
    assert [(n.name, n.region, n.mode, n.uuid) for n in listed.namespaces] == [
        (f"namespace{n}.0", f"region{n}", "raw", None) for n in (0, 1)
    ]


def test_written_labels_show_as_labelled_regions_with_room():
    listed = parse_ndctl(recording("fresh-labels"))
    shown = [(r.labelled, r.extent_bytes, r.align_bytes) for r in listed.regions]
    assert shown == [(True, 2013265920, 16 << 20)] * 2
    assert listed.namespaces == ()


def test_one_object_of_arrays_has_namespaces_in_their_regions_and_no_seeds():
    listed = parse_ndctl(recording("everything"))
    assert set(listed.dimms) == {"nmem0", "nmem1"}
    assert [(n.name, n.region, n.mode) for n in listed.namespaces] == [
        ("namespace0.0", "region0", "devdax"),
        ("namespace1.0", "region1", "fsdax"),
        ("namespace1.3", "region1", "fsdax"),
    ]
    devdax = listed.namespaces[0]
    assert (devdax.chardev, devdax.chardev_mode, devdax.block) == ("dax0.0", "devdax", None)


def test_nothing_at_all_is_no_inventory():
    assert parse_ndctl("").regions == ()
    with pytest.raises(ValueError):
        parse_ndctl("Error: something else")


@pytest.mark.parametrize(
    ("answer", "is_known", "kind"),
    [
        (Answers(2), True, None),
        (Answers(0, "DEVNAME=/dev/pmem0\nLABEL=a\\ b\nUUID=1-2\nTYPE=ext4\n"), True, "ext4"),
        (Answers(0, "PTUUID=12\nPTTYPE=gpt\n"), True, "gpt"),
        (Answers(8, "", "ambivalent result"), False, None),
        (Answers(2, "", "error: /dev/pmem0: Input/output error"), False, None),
        (Answers(127, "", "blkid: not installed"), False, None),
        (Answers(0, "USAGE=other\n"), False, None),
    ],
)  # fmt: skip
def test_what_blkid_cannot_tell_is_not_taken_for_nothing(answer, is_known, kind):
    content = probe("/dev/pmem0", answer)
    assert (content.determined, content.type) == (is_known, kind)
    assert content.determined or content.why
    assert parse_blkid("LABEL=a\\ b\n") == {"LABEL": "a b"}


# ipmctl ----------------------------------------------------------------------------


def test_capacities_of_modules_in_app_direct_and_in_memory_mode():
    app_direct = resource_table(optane("resources-app-direct"))
    memory = resource_table(optane("resources-memory-mode"))
    assert app_direct and memory
    assert app_direct["AppDirect"] == (0, 3024 << 30)
    assert app_direct["Volatile"] == (round(381.5 * (1 << 30)), 0)
    assert memory["Volatile"] == (0, 2024 << 30)
    assert memory["Cache"] == (512 << 30, 0)


def test_types_of_regions_and_a_pending_goal():
    assert ipmctl.parse_regions(optane("regions-interleaved")) == ("AppDirect", "AppDirect")
    assert set(ipmctl.parse_regions(optane("regions-not-interleaved"))) == {GOAL}
    assert ipmctl.parse_regions(optane("regions-none")) == ()
    assert ipmctl.is_pending(optane("goal-pending"))
    assert not ipmctl.is_pending(optane("goal-none"))
    goals = ipmctl.read_goals(Answers(0, "something of a version to come"))
    assert goals.error and "cannot parse" in goals.error  # not taken for no capacity


GOAL = "AppDirectNotInterleaved"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("504.000 GiB", 504 << 30), ("0,5 GiB", 1 << 29), ("1,512.0 GiB", 1512 << 30),
        ("541165879296 B", 541165879296), ("-", 0), ("", 0),
        ("N/A", None), ("1,512 GiB", None), ("1.2.3 GiB", None), ("5 XB", None), ("-1 GiB", None),
    ],
)  # fmt: skip
def test_a_capacity_that_cannot_be_read_is_not_taken_for_none(text, size):
    table = f"MemoryType | DDR | PMemModule\nVolatile | {text} | 1 GiB\nInaccessible | N/A | ?\n"
    goals = ipmctl.read_goals(Answers(0, table))
    if size is None:
        assert goals.error and "is no capacity" in goals.error
        assert parse_memory_resources(table) is None
    else:
        assert (goals.error, goals.dram_bytes) == (None, size or 0)


# What is not sound ---------------------------------------------------------------------


def listing(**changes: dict[str, Any]) -> str:
    """The recorded listing with a module, region or namespace changed, by its name."""
    document = json.loads(recording("everything"))
    pending = [document]
    while pending:
        node = pending.pop()
        pending += node.values() if isinstance(node, dict) else node
        if isinstance(node, dict):
            node |= changes.get(str(node.get("dev")).replace(".", "_"), {})
        pending = [each for each in pending if isinstance(each, dict | list)]
    return json.dumps(document)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"nmem0": {"security": "locked"}}, "nmem0 is locked"),
        ({"nmem0": {"state": "disabled"}}, "nmem0 is disabled"),
        ({"nmem0": {"flag_failed_arm": True}}, "nmem0: flag_failed_arm"),
        ({"nmem0": {"health": {"health_state": "fatal"}}}, "the health of nmem0 is fatal"),
        ({"region0": {"badblock_count": 3}}, "it has 3 bad blocks"),
        ({"namespace0_0": {"badblock_count": 3}}, "it has 3 bad blocks"),
        ({"region0": {"size": 0}}, "its size is 0"),
        ({"nmem0": {"security": "unlocked", "health": {"health_state": "ok"}}}, None),
        ({"nmem0": {"security": None, "health": None, "flag_failed_map": False}}, None),
    ],
)
def test_a_region_with_a_fault_is_refused(changes, fault):
    inventory = parse_ndctl(listing(**changes))
    assert [r.faults for r in inventory.regions] == [(fault,) if fault else (), ()]
    state = replace(state_of("everything"), inventory=inventory)
    refused = plan_changes(state, DesiredState("appdirect")).refusals
    assert {each.object: each.why for each in refused}.get("region0") == fault


@pytest.mark.parametrize(
    ("space", "holder_class", "words"),
    [
        ({}, "<unknown>", "claim class '<unknown>'"),
        ({"size": 0, "state": "disabled"}, "pfn", "size 0"),
        ({}, "pfn", None),
    ],
)
def test_labels_of_another_system_are_refused_by_the_namespace_s_name(
    tmp_path, space, holder_class, words
):
    """Hand-written: the recorded namespace0.0 without our mark, and its claim class in sysfs."""
    printed = listing(namespace0_0={"name": "", **space})
    write(tmp_path, "/sys/bus/nd/devices/namespace0.0/holder_class", f"{holder_class}\n")
    write(tmp_path, "/sys/bus/nd/devices/region0/driver", "")
    replies = {"ndctl list": lambda _: Done(0, printed, ""), "blkid": lambda _: Done(2, "", "")}
    host = SimulatedHost(tmp_path, replies=replies)
    desired = DesiredState("appdirect", regions=("region0",))
    state = read_state(desired, host, host.files, host.kernel())
    refusals = [r for r in plan_changes(state, desired).refusals if r.object == "namespace0.0"]
    assert len(refusals) == bool(words)
    assert all(words in each.why and "pmem_regions" in each.do for each in refusals)


def test_a_region_of_another_type_is_refused_by_name():
    """Hand-written: blk regions went with Linux 5.18."""
    inventory = parse_ndctl(listing(region0={"type": "blk"}))
    state = replace(state_of("everything"), inventory=inventory)
    refusals = plan_changes(state, DesiredState("appdirect", regions=("region0",))).refusals
    assert ("region0", True) in [(each.object, "blk" in each.why) for each in refusals]


def test_every_dax_device_of_a_namespace_is_seen():
    devices = [{"chardev": "dax0.0", "mode": "devdax"}, {"chardev": "dax0.1"}]
    text = listing(namespace0_0={"daxregion": {"devices": devices}})
    inventory = parse_ndctl(text)
    first = inventory.namespaces[0]
    assert first.devices == ("dax0.0", "dax0.1")
    record = Record(namespaces={str(first.uuid): {"mode": "devdax"}})
    state = replace(state_of("everything"), inventory=inventory, record=record)
    for mode in ("appdirect", "devdax", "teardown"):
        refusals = plan_changes(state, DesiredState(mode)).refusals
        assert "namespace0.0" in [each.object for each in refusals if "dax0.1" in each.why]


# Who holds a namespace ---------------------------------------------------------


def test_a_loop_device_over_a_namespace_is_seen(tmp_path):
    """Nothing else tells of it: it leaves the namespace's device open to others."""
    loop = tmp_path / "sys/block/loop3/loop"
    loop.mkdir(parents=True)
    (loop / "backing_file").write_text("/dev/pmem7\n")
    spaces = tuple(
        Namespace(f"namespace{n}.0", f"region{n}", "raw", 1 << 30, 1 << 30, None, block=f"pmem{n}")
        for n in (7, 8)
    )
    users = namespace_users(spaces, Answers(2), Kernel(tmp_path))
    assert users["namespace7.0"].others == ("/dev/loop3 loops over it",)
    assert users["namespace8.0"].others == ()


# Files that are edited: only our lines, and every other byte stays ------------------

PMEM = {"kind": "fsdax", "path": "/mnt/pmem0"}
MINE = """\
# the lab's server
schema: 1
data_dir: /srv/data   # on the array
tiers:
    # what we paid for
    ssd: {kind: block, path: /srv/ssd, price_per_gb: 0.12}
    cxl:
        kind: numa
        node: 2
"""


def tiers(tmp_path: Path, text: str | None) -> dict[str, str]:
    """Names and kinds as the harness itself reads the file."""
    path = tmp_path / "host.yml"
    path.write_text(text or "")
    return {claim.name: claim.kind for claim in load_host_file(path).claims}


def test_our_tiers_stand_beside_the_owners_and_go_without_a_trace(tmp_path):
    text = hostfile.write(MINE, {"pmem": PMEM})
    assert tiers(tmp_path, text) == {"ssd": "block", "cxl": "numa", "pmem": "fsdax"}
    assert hostfile.write(text, {"pmem": PMEM}) == text
    assert hostfile.write(text, {}) == MINE
    alone = hostfile.write(None, {"pmem": PMEM})  # where there is no file, one is made
    assert tiers(tmp_path, alone) == {"pmem": "fsdax"}
    assert hostfile.write(alone, {}) is None
    with pytest.raises(ValueError, match="one line"):
        hostfile.write("schema: 1\ntiers: {ssd: {kind: block, path: /x}}\n", {"pmem": PMEM})


def test_names_stay_with_their_places_and_leave_the_owners_alone():
    wanted = [("pmem", PMEM), ("pmem", {"kind": "fsdax", "path": "/mnt/pmem1"})]
    assert list(hostfile.name_tiers(wanted, MINE)) == ["pmem", "pmem1"]
    # The second alone got the name pmem; it keeps it when the first comes.
    text = hostfile.write(MINE, {"pmem": wanted[1][1]}) or ""
    assert hostfile.name_tiers(wanted, text) == {"pmem1": PMEM, "pmem": wanted[1][1]}
    # A place that the owner named is his; a name of his is not taken for another place.
    theirs = MINE + "    pmem: {kind: fsdax, path: /mnt/pmem0, price_per_gb: 9.21}\n"
    assert list(hostfile.name_tiers(wanted, theirs)) == ["pmem1"]
    assert hostfile.name_tiers([("cxl", {"kind": "numa", "node": 2})], MINE) == {}


FSTAB = "# mine\nUUID=1 / ext4 rw 0 1\nUUID=2 /mnt/pmem0 xfs x-tierbench-not 0 2"


def test_fstab_keeps_every_other_line():
    line = fstab.our_line("77", "/mnt/pmem1", DesiredState("appdirect", filesystem="xfs"))
    assert line == "UUID=77 /mnt/pmem1 xfs noatime,dax,nofail,x-tierbench 0 2"
    text = fstab.with_line(FSTAB, line)
    assert text == f"{FSTAB}\n{line}\n"
    assert fstab.has_line(text, line)
    assert fstab.with_line(text, line) == text
    assert fstab.without_point(text, "/mnt/pmem1") == FSTAB + "\n"
    assert fstab.without_point(text, "/mnt/pmem0") == text
    assert fstab.foreign_line(text, "/mnt/pmem0") == "UUID=2 /mnt/pmem0 xfs x-tierbench-not 0 2"
    assert fstab.our_points(text) == ["/mnt/pmem1"]


def test_the_record_survives_and_a_blank_one_is_no_file(tmp_path):
    path = tmp_path / "deep" / "provisioning.json"
    assert load_record(path) == Record()
    made = {"mode": "fsdax", "requested_bytes": None, "serves": "appdirect"}
    record = Record(namespaces={"u": made}, making="u")
    save_record(record, path)
    assert load_record(path) == record
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["provisioning.json"]
    save_record(Record(), path)
    assert not path.exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 2}', '{"schema": 1, "else": 1}', "{}"])
def test_a_record_that_is_not_understood_is_an_error(tmp_path, text):
    path = tmp_path / "provisioning.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"provisioning\.json"):
        load_record(path)


#: /proc/iomem of a machine of 32 GiB, shortened to its first columns.
IOMEM = """\
00000000-00000fff : Reserved
00001000-0009fbff : System RAM
00100000-7ffdefff : System RAM
  01000000-01ffffff : Kernel code
e0000000-efffffff : PCI MMCONFIG 0000 [bus 00-ff]
100000000-87fffffff : System RAM
"""
GIB = 1 << 30


def test_dram_is_set_aside_at_the_end_of_system_ram():
    assert choose(IOMEM, 4 * GIB, None) == "memmap=4G!30G"
    assert choose(IOMEM, 4 * GIB, 8 * GIB) == "memmap=4G!8G"
    assert parameters("quiet memmap=4G!30G memmap=1M$2M") == ["memmap=4G!30G"]


@pytest.mark.parametrize(
    ("iomem", "size", "start", "words"),
    [
        (IOMEM, 20 * GIB, None, "more than half"),
        (IOMEM, 4 * GIB, 32 * GIB, "do not lie in System RAM"),
        (IOMEM, 4 * GIB, 1 * GIB, "do not lie in System RAM above 4 GiB"),
        (IOMEM, 4 * GIB, 8 * GIB + 1, "at a whole GiB"),
        (IOMEM, GIB // 2, None, "no multiple of 1 GiB"),
        ("00000000-00000000 : System RAM\n", GIB, None, "shows no System RAM"),
        ("00100000-bfffffff : System RAM\n", GIB, None, "no stretch of System RAM above 4 GiB"),
    ],
)
def test_a_stretch_that_could_keep_the_host_from_starting_is_refused(iomem, size, start, words):
    with pytest.raises(ValueError, match=words):
        choose(iomem, size, start)
    assert system_ram(iomem) is not None


# blkid, mkfs and wipefs for real, on files instead of devices -----------------------

MIB = 1 << 20


@pytest.fixture
def device(tmp_path):
    path = tmp_path / "device"
    with path.open("wb") as file:
        file.truncate(64 * MIB)
    return path


UUID = "6c5a1f0e-7b7e-4e6b-9d4b-3f1f6a3f0001"


def make(device: Path, **desired) -> None:
    wanted = replace(DesiredState("appdirect"), **desired)
    done = Commands().run(mkfs_argv(str(device), wanted, UUID))
    assert done.rc == 0, done.words


def test_a_file_system_of_ours_is_told_by_its_label_and_is_aligned(device):
    make(device)
    assert EXT4_EAGER in " ".join(mkfs_argv(str(device), DesiredState("appdirect"), UUID))
    content = probe(str(device), Commands())
    assert (content.determined, content.type, content.label) == (True, "ext4", "tierbench")
    assert (content.uuid, content.block_size) == (UUID, 4096)
    # In the superblock (1024): log2 of the block size, and the stride and stripe width in blocks.
    block = device.read_bytes()[1024:2048]
    assert 1024 << int.from_bytes(block[0x18:0x1C], "little") == 4096
    assert int.from_bytes(block[0x164:0x166], "little") * 4096 == 2 * MIB
    assert int.from_bytes(block[0x170:0x174], "little") * 4096 == 2 * MIB


def test_mke2fs_asks_nobody_where_there_is_no_terminal(device):
    """The plan alone stands between a file system and mkfs."""
    make(device)
    make(device)


def test_xfs_has_the_uuid_and_the_blocks_that_it_was_given(device):
    with device.open("r+b") as file:
        file.truncate(2048 * MIB)
    make(device, filesystem="xfs", block_size=1024)
    content = probe(str(device), Commands())
    assert (content.type, content.label, content.uuid) == ("xfs", "tierbench", UUID)
    with device.open("rb") as file:
        assert int.from_bytes(file.read(8)[4:], "big") == 1024
    desired = DesiredState("appdirect", filesystem="xfs")
    assert Commands().run(mkfs_argv(str(device), desired, UUID)).rc != 0  # it has a signature
    assert Commands().run(mkfs_argv(str(device), desired, UUID, force=True)).rc == 0


def test_nothing_is_known_to_be_nothing_also_once_it_is_wiped(device):
    assert probe(str(device), Commands()).empty
    make(device)
    done = Commands().run(["wipefs", "--all", "--quiet", str(device)])
    assert done.rc == 0, done.words
    assert probe(str(device), Commands()).empty


def test_a_partition_table_and_swap_are_something(device):
    done = Commands().run(["mkswap", "-L", "theirs", str(device)])
    assert done.rc == 0, done.words
    assert probe(str(device), Commands()).type == "swap"
    with device.open("r+b") as file:
        file.write(bytes(2 * MIB))
        file.seek(446)
        file.write(bytes([0, 0, 2, 0, 0x83, 0xFF, 0xFF, 0xFF, 1, 0, 0, 0, 0xFF, 0xFF, 1, 0]))
        file.seek(510)
        file.write(b"\x55\xaa")
    assert probe(str(device), Commands()).type == "dos"


def test_two_signatures_at_once_are_not_taken_for_one_or_none(device):
    make(device)
    # The magic of a btrfs superblock, whole enough for blkid, beside ext4's.
    swap = device.with_name("swap")
    with swap.open("wb") as file:
        file.truncate(64 * MIB)
    Commands().run(["mkswap", str(swap)])
    with device.open("r+b") as file:
        file.seek(4096 - 10)
        file.write(swap.read_bytes()[4096 - 10 : 4096])
        file.seek(1024)
        ext4 = file.read(1024)
    content = probe(str(device), Commands())
    assert ext4[0x38:0x3A] == b"\x53\xef"
    assert not content.empty


def test_a_device_that_is_not_there_is_not_taken_for_an_empty_one(tmp_path):
    content = probe(str(tmp_path / "none"), Commands())
    assert not content.determined
    assert content.why
