"""Plans of goals, of DRAM that stands in, and of teardown, from recorded states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recorded import EMPTY, optane, ours, planned_steps, refused, state_of, with_labels
from simulated import Region_, SimulatedHost
from tierbench.change_builder import ChangeBuilder
from tierbench.changes import plan_changes
from tierbench.desired_state import DesiredState
from tierbench.ipmctl import Goals
from tierbench.linux import resource_table
from tierbench.memmap import plan_memmap
from tierbench.ndctl import Inventory, Namespace, Region
from tierbench.record import Record
from tierbench.run import Consent, confirmation
from tierbench.state import State, read_state

# Goals -----------------------------------------------------------------------------

GIB = 1 << 30
IN_APP_DIRECT = Goals(None, 0, 3024 * GIB, 384 * GIB, ("AppDirect", "AppDirect"))
GOAL = DesiredState("appdirect", goal="AppDirectNotInterleaved")


def test_another_goal_destroys_every_namespace_and_needs_a_restart() -> None:
    there = state_of("everything", goals=IN_APP_DIRECT)
    assert set(refused(plan_changes(there, GOAL))) == {"namespace1.0", "namespace1.3"}  # named
    changes = plan_changes(with_labels(there, namespace1_0="", namespace1_3=""), GOAL)
    assert changes.destroys == ("namespace0.0", "namespace1.0", "namespace1.3")
    assert planned_steps(changes)[3:] == [("create-goal", "goal"), ("reboot", "host")]
    assert changes.steps[3].command == (
        "ipmctl create -f -goal PersistentMemoryType=AppDirectNotInterleaved"
    )
    assert changes.reboot_needed


def test_without_modules_a_goal_is_refused_in_ipmctls_words() -> None:
    error = "ipmctl fails (exit 1): Initialization failed. No PMem modules in the system."
    for desired in (GOAL, DesiredState("memory-mode")):
        changes = plan_changes(state_of("fresh-labels", goals=Goals(error)), desired)
        assert "No PMem modules in the system" in refused(changes)["goal"]
        assert changes.steps == ()


def test_a_goal_that_waits_is_ours_or_refused() -> None:
    """Ours needs a restart only."""
    waits = state_of("fresh-labels", goals=replace(IN_APP_DIRECT, pending=True), boot_id="one")
    changes = plan_changes(waits, GOAL)
    assert "another goal is pending, not ours" in refused(changes)["goal"]
    record = Record(requested_goal="PersistentMemoryType=AppDirectNotInterleaved", goal_boot="one")
    changes = plan_changes(replace(waits, record=record), GOAL)
    assert planned_steps(changes) == [("reboot", "host")] and changes.refusals == ()


def test_a_goal_that_the_firmware_did_not_carry_out_is_not_asked_for_again_and_again() -> None:
    """Recorded: Memory Mode asked for, a firmware set to 1LM, all capacity inaccessible."""
    table = resource_table(optane("resources-not-carried-out"))
    assert table is not None
    goals = Goals(None, table["Volatile"][1], table["AppDirect"][1], table["Volatile"][0])
    record = Record(requested_goal="MemoryMode=100", goal_boot="one")
    state = state_of("fresh-labels", goals=goals, record=record, boot_id="two")
    changes = plan_changes(state, DesiredState("memory-mode"))
    assert "was requested and the host restarted" in refused(changes)["goal"]
    assert "2LM" in changes.refusals[0].do


# DRAM that stands in ---------------------------------------------------------------

MEMMAP = "memmap=512M!4G"


def with_memmap(**fields: Any) -> State:
    """The recording's region0, of the bus e820: to the kernel it is fsdax from the start."""
    state = state_of("memmap", file="memmap-guest", cmdline=f"quiet {MEMMAP}")
    provider = {"region0": "e820"}
    regions = tuple(
        replace(each, provider=provider.get(each.name, "ACPI.NFIT"))
        for each in state.inventory.regions
    )
    return replace(state, inventory=replace(state.inventory, regions=regions), **fields)


@pytest.mark.parametrize("record", [None, MEMMAP], ids=["somebody", "we"])
def test_dram_that_was_set_aside_needs_consent(record: str | None) -> None:
    """Since the restart anybody may have written to it."""
    changes = plan_changes(with_memmap(record=Record(memmap=record)), DesiredState("emulated"))
    assert changes.destroys == ("namespace0.0",)
    assert planned_steps(changes)[0] == ("reconfigure-namespace", "namespace0.0")
    command = "ndctl create-namespace -f -e namespace0.0 -m fsdax -M dev -a 2M"
    assert changes.steps[0].command == command
    assert any("EMULATED" in note for note in changes.notes)


def test_other_modes_leave_dram_that_stands_in_alone() -> None:
    destroyed = plan_changes(with_memmap(), DesiredState("appdirect")).destroys
    assert destroyed == ("namespace1.0", "namespace2.0")


# Teardown --------------------------------------------------------------------------


def test_teardown_takes_ours_away_and_brings_back_what_was_there() -> None:
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
    """Steps and refusals."""
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
    ("size", "start", "words"),
    [(8 * GIB, None, f"emulated_size {8 * GIB}: the kernel was"),
     (4 * GIB, 20 * GIB, f"emulated_size {4 * GIB} and emulated_start {20 * GIB}: the kernel was")],
)  # fmt: skip
def test_another_size_than_the_running_kernels_is_refused(size, start, words):
    desired = DesiredState("emulated", memmap_bytes=size, memmap_start=start)
    for other in ((), ("memmap=8G!20G",)):  # somebody's own has nothing to say here
        steps, (why,) = planned(started_with(PARAMETER, *other), desired)
        assert steps == [] and why.startswith(words)
        assert why.endswith(f"started with {PARAMETER} ({4 * GIB} bytes from {16 * GIB} on)")


@pytest.mark.parametrize("word", [PARAMETER, "memmap=0x100000000!0x400000000", "memmap=4096M!16G"])
def test_the_size_that_is_there_needs_nothing_however_it_is_written(word: str) -> None:
    builder = ChangeBuilder(started_with(word, record=word), replace(FOUR, memmap_start=16 * GIB))
    assert plan_memmap(builder)
    assert (builder.steps, builder.refusals, len(builder.notes)) == ([], [], 1)


def test_a_parameter_that_somebody_gave_is_taken_and_the_other_size_told() -> None:
    builder = ChangeBuilder(started_with("memmap=512M!4G", record=None), FOUR)
    assert plan_memmap(builder)
    told = f"emulated_size {4 * GIB}: the kernel was started with memmap=512M!4G"
    assert told in builder.notes[1]


def legacy(number: int, start: int | None, size: int = 4 * GIB) -> Region:
    """As the kernel shows DRAM set aside by memmap= and a real NVDIMM of type 12 alike."""
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
def test_an_nvdimm_of_type_12_is_not_taken_for_the_dram_that_we_set_aside(nvdimm: Region) -> None:
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
