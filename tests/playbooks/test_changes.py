"""Plans from recorded states: what is done, what is destroyed, what is refused."""

import re
from dataclasses import replace

import pytest
from narrowed import present
from recorded import (
    EMPTY,
    filesystem,
    mounted,
    optane,
    ours,
    planned_steps,
    refused,
    state_of,
    two_fsdax,
    used_by,
    with_first,
    with_labels,
)
from simulated import Region_, SimulatedHost
from tierbench.change_builder import ChangeBuilder
from tierbench.changes import plan_changes
from tierbench.desired_state import DesiredState, parse_desired_state
from tierbench.ipmctl import Goals
from tierbench.linux import resource_table
from tierbench.memmap import plan_memmap
from tierbench.namespace_users import Content, NamespaceUsers
from tierbench.ndctl import DaxDevice, Inventory, Namespace, Region
from tierbench.record import Record
from tierbench.run import Consent, confirmation
from tierbench.state import Place, State, read_state

APPDIRECT = DesiredState("appdirect")

REGION0 = DesiredState("appdirect", regions=("region0",))
SECTOR1 = DesiredState("sector", regions=("region1",))


# What is done ----------------------------------------------------------------------


def test_a_labelled_region_with_room_gets_a_namespace_and_nothing_is_destroyed():
    changes = plan_changes(state_of("fresh-labels"), REGION0)
    assert planned_steps(changes) == [
        ("create-namespace", "region0"),
        ("make-filesystem", "the new namespace of region0"),
        ("mount", "/mnt/pmem0"),
        ("write-fstab", "/mnt/pmem0"),
        ("write-host-file", "the host file"),
    ]
    assert changes.destroys == ()
    command = changes.steps[0].command
    assert command == "ndctl create-namespace -r region0 -n tierbench -m fsdax -M dev -a 2M"
    assert "-o noatime,dax " in changes.steps[2].command


@pytest.mark.parametrize(
    ("desired", "words"),
    [
        (DesiredState("sector"), "-m sector -l 4096"),
        (DesiredState("sector", sector_size=512), "-m sector -l 512"),
        (DesiredState("devdax"), "-m devdax -M dev -a 2M"),
        (DesiredState("system-ram", map="mem"), "-m devdax -M mem -a 2M"),
        (DesiredState("appdirect", size_bytes=768 << 20), "-m fsdax -s 805306368 -M dev -a 2M"),
    ],
)
def test_each_mode_has_its_namespace(desired, words):
    steps = plan_changes(state_of("fresh-labels"), desired).steps
    made = [step.command.split("tierbench ")[1] for step in steps if step.do == "create-namespace"]
    assert made == [words] * 2


def test_a_sized_namespace_is_made_beside_the_others_where_there_is_room():
    """region1 of the recording has 384 MiB left beside two named namespaces of others."""
    desired = DesiredState("appdirect", regions=("region1",), size_bytes=384 << 20)
    changes = plan_changes(state_of("everything"), desired)
    assert (changes.refusals, changes.destroys) == ((), ())
    assert changes.steps[0].do == "create-namespace"


# What is there already -------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "desired", "first"),
    [
        ({"fstab": ""}, REGION0, ("write-fstab", "/mnt/pmem0")),
        ({"host_file": None}, REGION0, ("write-host-file", "the host file")),
        ({"statx_dax": {"/mnt/pmem0": False}}, REGION0, ("unmount", "/mnt/pmem0")),
        ({}, replace(REGION0, dax=False), ("unmount", "/mnt/pmem0")),
    ],
)
def test_what_is_missing_of_it_is_all_that_is_done(there, desired, first):
    """DAX is what statx says."""
    changes = plan_changes(ours(**there), desired)
    assert planned_steps(changes)[0] == first
    assert changes.destroys == ()


def test_a_file_system_is_made_without_consent_only_where_this_run_made_the_namespace():
    """Ours, blank-looking, its making cut off: any of them may be a raw database's by now."""
    state = ours(places={}, fstab="")
    blank = replace(state, namespace_users={**state.namespace_users, "namespace0.0": EMPTY})
    uuid = "2f8adfea-31a2-4ec1-b277-10f1e17de42c"
    for record in (blank.record, replace(blank.record, making=uuid, filesystems={})):
        changes = plan_changes(replace(blank, record=record), REGION0)
        assert planned_steps(changes)[0] == ("make-filesystem", "/dev/pmem0")
        assert changes.destroys == ("namespace0.0",)
    changes = plan_changes(replace(blank, made=frozenset({uuid})), REGION0)
    assert (planned_steps(changes)[0], changes.destroys) == (("make-filesystem", "/dev/pmem0"), ())


def test_a_finished_file_system_is_kept_though_its_making_is_on_record():
    uuid = "2f8adfea-31a2-4ec1-b277-10f1e17de42c"
    record = replace(ours().record, making=uuid, making_filesystem="aa-1")
    assert plan_changes(ours(record=record), REGION0).steps == ()
    # One of another UUID is of before the namespace was made: it shows through.
    ghost = {"namespace0.0": filesystem("ext4", "tierbench", "aa-0")}
    unmounted = ours(namespace_users=ghost, record=record, places={})
    assert plan_changes(unmounted, REGION0).destroys == ("namespace0.0",)


def test_other_block_sizes_are_a_file_system_made_again_by_consent():
    desired = replace(REGION0, dax=False, block_size=1024)
    assert "/mnt/pmem0" in refused(plan_changes(ours(), desired))["namespace0.0"]
    for size, destroyed in ((4096, ("namespace0.0",)), (1024, ())):
        content = Content(True, "ext4", "tierbench", "aa-1", block_size=size)
        users = {"namespace0.0": NamespaceUsers(content)}
        assert plan_changes(ours(places={}, namespace_users=users), desired).destroys == destroyed


def test_leaving_system_ram_offlines_its_memory_before_anything_else():
    device = DaxDevice("dax0.0", "system-ram", 1979711488, 2, 14, 14, True)
    changes = plan_changes(state_of("everything", dax=(device,)), REGION0)
    first, second, *_ = planned_steps(changes)
    assert first == ("release-memory", "dax0.0")
    assert second == ("destroy-namespace", "namespace0.0")
    assert changes.steps[0].command.startswith("daxctl offline-memory dax0.0; ")
    record = Record(namespaces={"6bac18e0-e214-4adb-a050-f25743c3018e": {"requested_bytes": None}})
    state = state_of("everything", dax=(device,), record=record)
    to_device = plan_changes(state, DesiredState("devdax", ("region0",)))
    assert planned_steps(to_device)[0] == ("release-memory", "dax0.0")
    assert to_device.destroys == ()


def test_a_region_without_labels_is_named_with_what_labels_would_cost():
    changes = plan_changes(state_of("blank-labels"), APPDIRECT)
    assert changes.destroys == ("namespace0.0", "namespace1.0")
    assert planned_steps(changes)[0] == ("write-labels", "region0")
    assert changes.steps[0].command == (
        "ndctl disable-region region0; ndctl init-labels -f nmem0; ndctl enable-region region0"
    )
    refusal = present(confirmation(changes, state_of("blank-labels"), Consent()))
    assert refusal.object == "namespace0.0, namespace1.0"


# Traps -----------------------------------------------------------------------------


def test_a_region_without_labels_and_with_a_file_system_is_refused():
    users = {"namespace0.0": filesystem("xfs", "theirs")}
    changes = plan_changes(state_of("blank-labels", users), REGION0)
    why = refused(changes)["namespace0.0"]
    assert "/dev/pmem0" in why and "'theirs'" in why
    assert "write-labels" not in [step.do for step in changes.steps]


@pytest.mark.parametrize(
    ("users", "words"),
    [
        (mounted("/srv/theirs", "xfs"), "it is mounted at /srv/theirs (xfs)"),
        (mounted("/", "ext4"), "it holds / (ext4 on /dev/pmem1)"),
        (used_by("swap on /dev/pmem1"), "swap on /dev/pmem1"),
        (used_by("dm-0 is built on it"), "dm-0"),
        (used_by("/dev/pmem1 is open in pid 7 (mysqld)"), "pid 7 (mysqld)"),
        (filesystem("ext4"), "/dev/pmem1 has ext4 (UUID 0f-theirs), not ours"),
        (filesystem("LVM2_member"), "/dev/pmem1 has LVM2_member"),
        (filesystem("gpt"), "/dev/pmem1 has gpt"),
        (NamespaceUsers(Content(False, why="exit 8")), "its content cannot be read: exit 8"),
    ],
)
def test_what_is_somebodys_is_refused_by_name_whatever_is_confirmed(users, words):
    changes = plan_changes(two_fsdax({"namespace1.0": users}, namespace1_0=""), SECTOR1)
    assert words in refused(changes)["namespace1.0"]
    assert not [step for step in changes.steps if "namespace1.0" in step.destroys]
    assert all(each.do for each in changes.refusals)


def test_a_namespace_that_somebody_named_and_a_disabled_region_are_refused():
    """The recording's namespace1.0 has the name bench1 in its label."""
    changes = plan_changes(two_fsdax(), SECTOR1)
    assert "'bench1'" in refused(changes)["namespace1.0"]
    changes = plan_changes(state_of("fresh-labels", disabled_regions=("region0",)), REGION0)
    assert "it is disabled" in refused(changes)["region0"]


def test_a_disabled_namespace_is_refused_but_for_a_run_that_was_cut_off():
    unread = {"namespace0.0": NamespaceUsers(Content(False, why="it is disabled"))}
    state = with_first(two_fsdax(unread), enabled=False, block=None, mode="raw")
    lost = state.inventory.namespaces[0]
    assert "it is disabled" in refused(plan_changes(state, REGION0))["namespace0.0"]
    approved = replace(state, record=Record(approved={"namespace0.0": str(lost.uuid)}))
    assert plan_changes(approved, REGION0).destroys == ("namespace0.0",)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (Place("full"), "it is not empty: a mount would hide its content"),
        (Place("full", "/dev/sdb1"), "/dev/sdb1 is mounted there"),
        (Place("other"), "it is not a directory"),
    ],
)
def test_a_mount_point_that_is_taken_is_refused(place, words):
    changes = plan_changes(state_of("fresh-labels", places={"/mnt/pmem0": place}), REGION0)
    assert refused(changes) == {"/mnt/pmem0": words}


def test_somebodys_line_of_fstab_is_refused():
    state = state_of("fresh-labels", fstab="LABEL=x /mnt/pmem0 xfs rw 0 0\n")
    refusal = refused(plan_changes(state, REGION0))["/mnt/pmem0"]
    assert "'LABEL=x /mnt/pmem0 xfs rw 0 0'" in refusal


def test_our_mounted_namespace_is_not_taken_away_under_a_mode_of_another_kind():
    changes = plan_changes(ours(), DesiredState("sector", regions=("region0",)))
    assert "/mnt/pmem0" in refused(changes)["namespace0.0"]
    assert "run teardown.yml first" in changes.refusals[0].do


# Confirmation ----------------------------------------------------------------------


def test_a_run_that_was_cut_off_goes_on_with_the_same_names():
    state = state_of("everything", record=Record(approved={"namespace9.0": "destroyed"}))
    changes = plan_changes(state, REGION0)
    assert confirmation(changes, state, Consent(True, ("namespace0.0", "namespace9.0"))) is None


# Settings of a desired state ---------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mode": "appdirect", "regions": "pmem0"}, "'pmem0' is no region's name"),
        ({"mode": "appdirect", "dax": "perhaps"}, "true or false"),
        ({"mode": "appdirect", "mount_root": "mnt"}, "an absolute folder"),
        ({"mode": "appdirect", "owner": "a b; rm"}, "user, or user:group"),
        ({"mode": "memory-mode", "memory_mode_percent": 120}, "from 0 to 100"),
        ({"mode": "appdirect", "block_size": 1024}, "DAX needs blocks of a page"),
        ({"mode": "appdirect", "filesytem": "xfs"}, "no such setting"),
    ],
)
def test_settings_that_cannot_be_are_refused(given, words):
    with pytest.raises(ValueError, match=r".") as raised:
        parse_desired_state(given)
    assert words in str(raised.value)


# Goals, DRAM that stands in, and teardown -------------------------------------------

# Goals -----------------------------------------------------------------------------

GIB = 1 << 30
IN_APP_DIRECT = Goals(None, 0, 3024 * GIB, 384 * GIB, ("AppDirect", "AppDirect"))
GOAL = DesiredState("appdirect", goal="AppDirectNotInterleaved")


def test_another_goal_destroys_every_namespace_and_needs_a_restart():
    there = state_of("everything", goals=IN_APP_DIRECT)
    assert set(refused(plan_changes(there, GOAL))) == {"namespace1.0", "namespace1.3"}  # named
    changes = plan_changes(with_labels(there, namespace1_0="", namespace1_3=""), GOAL)
    assert changes.destroys == ("namespace0.0", "namespace1.0", "namespace1.3")
    assert planned_steps(changes)[3:] == [("create-goal", "goal"), ("reboot", "host")]
    assert changes.steps[3].command == (
        "ipmctl create -f -goal PersistentMemoryType=AppDirectNotInterleaved"
    )
    assert changes.reboot_needed


def test_without_modules_a_goal_is_refused_in_ipmctls_words():
    error = "ipmctl fails (exit 1): Initialization failed. No PMem modules in the system."
    for desired in (GOAL, DesiredState("memory-mode")):
        changes = plan_changes(state_of("fresh-labels", goals=Goals(error)), desired)
        assert "No PMem modules in the system" in refused(changes)["goal"]
        assert changes.steps == ()


def test_a_goal_that_waits_is_ours_or_refused():
    """Ours needs a restart only."""
    waits = state_of("fresh-labels", goals=replace(IN_APP_DIRECT, pending=True), boot_id="one")
    changes = plan_changes(waits, GOAL)
    assert list(refused(changes)) == ["goal"] and changes.steps == ()
    record = Record(requested_goal="PersistentMemoryType=AppDirectNotInterleaved", goal_boot="one")
    changes = plan_changes(replace(waits, record=record), GOAL)
    assert planned_steps(changes) == [("reboot", "host")] and changes.refusals == ()


def test_a_goal_that_the_firmware_did_not_carry_out_is_not_asked_for_again_and_again():
    """Recorded: Memory Mode asked for, a firmware set to 1LM, all capacity inaccessible."""
    table = resource_table(optane("resources-not-carried-out"))
    assert table is not None
    goals = Goals(None, table["Volatile"][1], table["AppDirect"][1], table["Volatile"][0])
    record = Record(requested_goal="MemoryMode=100", goal_boot="one")
    state = state_of("fresh-labels", goals=goals, record=record, boot_id="two")
    changes = plan_changes(state, DesiredState("memory-mode"))
    assert list(refused(changes)) == ["goal"]
    assert "2LM" in changes.refusals[0].do


# DRAM that stands in ---------------------------------------------------------------

MEMMAP = "memmap=512M!4G"


def with_memmap(**fields) -> State:
    """The recording's region0, of the bus e820: to the kernel it is fsdax from the start."""
    state = state_of("memmap", file="memmap-guest", cmdline=f"quiet {MEMMAP}")
    provider = {"region0": "e820"}
    regions = tuple(
        replace(each, provider=provider.get(each.name, "ACPI.NFIT"))
        for each in state.inventory.regions
    )
    return replace(state, inventory=replace(state.inventory, regions=regions), **fields)


@pytest.mark.parametrize("record", [None, MEMMAP], ids=["somebody", "we"])
def test_dram_that_was_set_aside_needs_consent(record):
    """Since the restart anybody may have written to it."""
    changes = plan_changes(with_memmap(record=Record(memmap=record)), DesiredState("emulated"))
    assert changes.destroys == ("namespace0.0",)
    assert planned_steps(changes)[0] == ("reconfigure-namespace", "namespace0.0")
    command = "ndctl create-namespace -f -e namespace0.0 -m fsdax -M dev -a 2M"
    assert changes.steps[0].command == command
    assert any("EMULATED" in note for note in changes.notes)


def test_other_modes_leave_dram_that_stands_in_alone():
    destroyed = plan_changes(with_memmap(), DesiredState("appdirect")).destroys
    assert destroyed == ("namespace1.0", "namespace2.0")


# Teardown --------------------------------------------------------------------------


def test_teardown_takes_ours_away_and_brings_back_what_was_there():
    sector = {"mode": "sector", "raw_bytes": 268435456, "label": "old", "map": None,
              "sector_size": 4096, "align_bytes": None}  # fmt: skip
    before = {"region0": {"labelled": True, "namespaces": [sector]}}
    state = ours(record=replace(ours().record, before=before, folders=["/mnt/pmem0"]))
    changes = plan_changes(state, DesiredState("teardown"))
    assert changes.refusals == ()
    assert planned_steps(changes)[:5] == [
        ("unmount", "/mnt/pmem0"),
        ("remove-fstab", "/mnt/pmem0"),
        ("remove-folder", "/mnt/pmem0"),
        ("destroy-namespace", "namespace0.0"),
        ("create-namespace", "region0"),
    ]
    command = "ndctl create-namespace -r region0 -m sector -s 268435456 -n old -l 4096"
    assert changes.steps[4].command == command
    assert changes.destroys == ("namespace0.0",)
    assert confirmation(changes, state, Consent()) is not None


# DRAM set aside by the kernel's parameter --------------------------------------

IOMEM = "100000000-4ffffffff : System RAM\n"
PARAMETER = "memmap=4G!16G"
FOUR = DesiredState("emulated", memmap_bytes=4 * GIB)


def planned(state: State, desired: DesiredState = FOUR) -> tuple[list[str], list[str]]:
    builder = ChangeBuilder(state, desired)
    plan_memmap(builder)
    return [step.do for step in builder.steps], [each.why for each in builder.refusals]


@pytest.mark.parametrize(
    ("done", "cmdline", "steps"),
    [
        (False, "quiet", ["set-memmap", "reboot"]),
        (True, "quiet", ["reboot"]),
        # A record of before does not say whether the boot loader was told: the kernel does.
        (None, f"quiet {PARAMETER}", []),
        (None, "quiet", ["set-memmap", "reboot"]),
    ],
)
def test_a_boot_loader_that_was_not_told_is_told_again(done, cmdline, steps):
    record = Record(memmap=PARAMETER, memmap_done=done)
    state = State(record=record, iomem=IOMEM, boot_loader="update-grub", cmdline=cmdline)
    assert planned(state) == (steps, [])


# What the running kernel has -----------------------------------------------------------


def started_with(*words: str, record: str | None = PARAMETER) -> State:
    return State(cmdline=" ".join(("quiet", *words)), record=Record(memmap=record))


@pytest.mark.parametrize(
    "requested", [{"memmap_bytes": 8 * GIB}, {"memmap_bytes": 4 * GIB, "memmap_start": 20 * GIB}]
)
def test_another_size_than_the_running_kernels_is_refused(requested):
    desired = DesiredState("emulated", **requested)
    for other in ((), ("memmap=8G!20G",)):  # somebody's own has nothing to say here
        steps, (why,) = planned(started_with(PARAMETER, *other), desired)
        assert steps == [] and PARAMETER in why
        assert bytes_in(why) == [*requested.values(), 4 * GIB, 16 * GIB]


def bytes_in(text: str) -> list[int]:
    """Sizes and addresses in a text, in bytes."""
    return [int(number) for number in re.findall(r"\d{9,}", text)]


@pytest.mark.parametrize("word", [PARAMETER, "memmap=0x100000000!0x400000000", "memmap=4096M!16G"])
def test_the_size_that_is_there_needs_nothing_however_it_is_written(word):
    builder = ChangeBuilder(started_with(word, record=word), replace(FOUR, memmap_start=16 * GIB))
    assert plan_memmap(builder)
    assert (builder.steps, builder.refusals, len(builder.notes)) == ([], [], 1)


def test_a_parameter_that_somebody_gave_is_taken_and_the_other_size_told():
    builder = ChangeBuilder(started_with("memmap=512M!4G", record=None), FOUR)
    assert plan_memmap(builder)
    assert "memmap=512M!4G" in builder.notes[1]
    assert bytes_in(builder.notes[1]) == [4 * GIB, 512 << 20, 4 * GIB]


def legacy(number: int, start: int | None, size: int = 4 * GIB) -> Region:
    """The kernel shows DRAM set aside by memmap= and a real NVDIMM of type 12 alike."""
    name = f"region{number}"
    return Region(name, size, 1 << 24, 0, 0, "pmem", (), False, provider="e820", start=start)


def on_e820(*regions: Region) -> State:
    """Each with the namespace that the kernel makes of itself: fsdax, without UUID."""
    spaces = tuple(
        Namespace(f"namespace{each.number}.0", each.name, "fsdax", each.size_bytes,
                  each.size_bytes, block=f"pmem{each.number}", map="mem")
        for each in regions
    )  # fmt: skip
    users = {each.name: EMPTY for each in spaces}
    inventory = Inventory({}, regions, spaces)
    return replace(started_with(PARAMETER), inventory=inventory, namespace_users=users)


@pytest.mark.parametrize(
    "nvdimm", [legacy(0, 8 * GIB), legacy(0, 16 * GIB, 8 * GIB)], ids=["elsewhere", "larger"]
)
def test_an_nvdimm_of_type_12_is_not_taken_for_the_dram_that_we_set_aside(nvdimm):
    changes = plan_changes(on_e820(nvdimm, legacy(1, 16 * GIB)), FOUR)
    assert changes.refusals == ()
    assert [s.object for s in changes.steps if s.do == "reconfigure-namespace"] == ["namespace1.0"]
    assert "pmem0" not in " ".join(step.command for step in changes.steps)
    assert "pmem1" in " ".join(step.command for step in changes.steps)


@pytest.mark.parametrize(("told", "start"), [("0x400000000\n", 16 * GIB), ("0\n", None)])
def test_where_a_region_begins_is_read_from_sysfs(tmp_path, told, start):
    host = SimulatedHost(tmp_path, regions={"region0": Region_("region0")})
    host.write_tree()
    (tmp_path / "sys/bus/nd/devices/region0/resource").write_text(told)
    state = read_state(FOUR, host, host.files, host.kernel())
    assert state.inventory.regions[0].start == start
