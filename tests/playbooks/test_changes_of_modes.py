"""Plans of goals, of DRAM that stands in, and of teardown, from recorded states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recorded import optane, ours, planned_steps, refused, state_of, with_labels
from tierbench.changes import plan_changes
from tierbench.desired_state import DesiredState
from tierbench.ipmctl import Goals
from tierbench.linux import resource_table
from tierbench.record import Record
from tierbench.run import Consent, confirmation
from tierbench.state import State

# Goals -----------------------------------------------------------------------------

GIB = 1 << 30
IN_APP_DIRECT = Goals(None, 0, 3024 * GIB, 384 * GIB, ("AppDirect", "AppDirect"))
GOAL = DesiredState("appdirect", goal="AppDirectNotInterleaved")


def test_a_goal_that_is_met_needs_nothing() -> None:
    changes = plan_changes(
        state_of("fresh-labels", goals=IN_APP_DIRECT), replace(GOAL, goal="AppDirect")
    )
    assert "create-goal" not in [step.do for step in changes.steps]
    assert not changes.reboot_needed


def test_another_goal_destroys_every_namespace_and_needs_a_restart() -> None:
    state = with_labels(
        state_of("everything", goals=IN_APP_DIRECT), namespace1_0="", namespace1_3=""
    )
    changes = plan_changes(state, GOAL)
    assert changes.destroys == ("namespace0.0", "namespace1.0", "namespace1.3")
    assert planned_steps(changes)[3:] == [("create-goal", "goal"), ("reboot", "host")]
    assert changes.steps[3].command == (
        "ipmctl create -f -goal PersistentMemoryType=AppDirectNotInterleaved"
    )
    assert changes.reboot_needed


def test_a_goal_spares_no_ones_named_namespace() -> None:
    changes = plan_changes(state_of("everything", goals=IN_APP_DIRECT), GOAL)
    assert set(refused(changes)) == {"namespace1.0", "namespace1.3"}


def test_without_modules_a_goal_is_refused_in_ipmctls_words() -> None:
    error = "ipmctl fails (exit 1): Initialization failed. No PMem modules in the system."
    for desired in (GOAL, DesiredState("memory-mode")):
        changes = plan_changes(state_of("fresh-labels", goals=Goals(error)), desired)
        assert "No PMem modules in the system" in refused(changes)["goal"]
        assert changes.steps == ()


def test_a_goal_of_somebody_else_that_waits_is_refused() -> None:
    changes = plan_changes(
        state_of("fresh-labels", goals=replace(IN_APP_DIRECT, pending=True)), GOAL
    )
    assert "another goal is pending, not ours" in refused(changes)["goal"]


def test_our_goal_that_waits_needs_a_restart_only() -> None:
    record = Record(requested_goal="PersistentMemoryType=AppDirectNotInterleaved", goal_boot="one")
    goals = replace(IN_APP_DIRECT, pending=True)
    changes = plan_changes(
        state_of("fresh-labels", goals=goals, record=record, boot_id="one"), GOAL
    )
    assert planned_steps(changes) == [("reboot", "host")]
    assert changes.refusals == ()


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


def test_dram_that_somebody_set_aside_is_not_taken_unasked() -> None:
    changes = plan_changes(with_memmap(), DesiredState("emulated"))
    assert changes.destroys == ("namespace0.0",)
    assert planned_steps(changes)[0] == ("reconfigure-namespace", "namespace0.0")
    assert any("EMULATED" in note for note in changes.notes)


def test_dram_that_we_set_aside_needs_consent_too() -> None:
    """Since the restart anybody may have written to it."""
    changes = plan_changes(with_memmap(record=Record(memmap=MEMMAP)), DesiredState("emulated"))
    assert changes.destroys == ("namespace0.0",)
    assert changes.steps[0].command == (
        "ndctl create-namespace -f -e namespace0.0 -m fsdax -M dev -a 2M"
    )


def test_other_modes_leave_dram_that_stands_in_alone() -> None:
    assert plan_changes(with_memmap(), DesiredState("appdirect")).destroys == (
        "namespace1.0",
        "namespace2.0",
    )


# Teardown --------------------------------------------------------------------------


def test_teardown_of_a_host_that_has_nothing_of_ours_does_nothing() -> None:
    changes = plan_changes(state_of("everything"), DesiredState("teardown"))
    assert changes.steps == ()
    assert changes.notes == ("nothing of ours is on this host",)


def test_teardown_takes_ours_away_and_brings_back_what_was_there() -> None:
    state = ours()
    before = {
        "region0": {
            "labelled": True,
            "namespaces": [
                {"mode": "sector", "raw_bytes": 268435456, "label": "old", "map": None,
                 "sector_size": 4096, "align_bytes": None},
            ],
        }
    }  # fmt: skip
    record = replace(state.record, before=before, folders=["/mnt/pmem0"])
    changes = plan_changes(replace(state, record=record), DesiredState("teardown"))
    assert changes.refusals == ()
    assert planned_steps(changes)[:5] == [
        ("unmount", "/mnt/pmem0"),
        ("remove-fstab", "/mnt/pmem0"),
        ("remove-folder", "/mnt/pmem0"),
        ("destroy-namespace", "namespace0.0"),
        ("create-namespace", "region0"),
    ]
    assert changes.steps[4].command == (
        "ndctl create-namespace -r region0 -m sector -s 268435456 -n old -l 4096"
    )
    assert changes.destroys == ("namespace0.0",)
    assert confirmation(changes, state, Consent()) is not None


def test_teardown_of_what_had_no_labels_takes_them_away() -> None:
    state = ours()
    record = replace(state.record, before={"region0": {"labelled": False, "namespaces": []}})
    changes = plan_changes(replace(state, record=record), DesiredState("teardown"))
    assert ("zero-labels", "region0") in planned_steps(changes)
