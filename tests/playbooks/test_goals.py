"""Goals on a simulated host with Optane modules: there by a restart, and back by another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded import optane
from simulated import GIB, Space_
from simulated_optane import Goal_, OptaneHost
from tierbench.commands import Done
from tierbench.ipmctl import Goals, ratio_note, read_goals
from tierbench.run import Consent, Outcome


@pytest.fixture
def host(tmp_path: Path) -> OptaneHost:
    """One interleaved region, in it a devdax namespace without a name."""
    made = OptaneHost(tmp_path, goal=Goal_("AppDirect"))
    made.reshape()
    made.spaces["namespace0.0"] = Space_("namespace0.0", "region0", "sector", 8 * GIB, "theirs")
    made.restart()
    return made


def given(host: OptaneHost, *names: str, **desired: Any) -> Outcome:
    outcome = host.provision(Consent(True, names or ("namespace0.0",)), **desired)
    assert (outcome.refusals, outcome.failures) == ([], [])
    return outcome


def dos(outcome: Outcome) -> list[tuple[str, bool]]:
    return [(step["do"], step["done"]) for step in outcome.steps]


SPLIT = {"mode": "sector", "goal": "AppDirectNotInterleaved"}


def split(host: OptaneHost) -> None:
    """Our goal of a region for each module, carried out, and our namespaces in them."""
    desired = {**SPLIT, "mount_root": str(host.mount_root)}
    assert given(host, **desired).reboot_needed
    host.restart()
    assert not given(host, **desired).reboot_needed
    assert [(s.region, s.label) for s in host.spaces.values()] == [
        ("region0", "tierbench"), ("region1", "tierbench"),
    ]  # fmt: skip


def test_teardown_makes_the_goal_of_before_and_then_what_was_in_its_regions(
    host: OptaneHost,
) -> None:
    split(host)
    outcome = given(host, "namespace0.0", "namespace1.0", mode="teardown")
    assert outcome.reboot_needed
    assert dos(outcome)[-2:] == [("create-goal", True), ("reboot", False)]
    assert "create-namespace" not in [do for do, _ in dos(outcome)]
    assert host.files.fstab.read_text() == ""
    assert host.asked == Goal_("AppDirect")
    assert dos(given(host, mode="teardown")) == [("reboot", False)]
    host.restart()
    outcome = given(host, mode="teardown")
    assert ("create-namespace", True) in dos(outcome)
    assert not outcome.reboot_needed
    assert [(s.region, s.mode, s.raw) for s in host.spaces.values()] == [
        ("region0", "sector", 8 * GIB)
    ]
    assert not host.files.record.exists()
    assert host.teardown().steps == []


def test_one_region_alone_does_not_go_back_and_its_past_is_not_forgotten(
    host: OptaneHost,
) -> None:
    split(host)
    consent = Consent(True, ("namespace0.0",))
    outcome = host.provision(consent, mode="teardown", regions=["region0"])
    assert "to another goal (0 AppDirect 0)" in outcome.refusals[0].why
    assert set(host.spaces) == {"namespace0.0", "namespace1.0"}


def test_where_no_goal_brings_back_what_was_teardown_says_so(tmp_path: Path) -> None:
    """Modules as they come from the factory are not configured."""
    host = OptaneHost(tmp_path)
    host.restart()
    split(host)
    outcome = given(host, "namespace0.0", "namespace1.0", mode="teardown")
    assert not outcome.reboot_needed
    assert [note for note in outcome.notes if "no goal restores their earlier state" in note]
    assert host.goal == Goal_("AppDirectNotInterleaved")


def test_regions_are_named_that_only_the_goal_makes(host: OptaneHost) -> None:
    """As optane1 of inventory/fleet.example.yml, whose modules may be in Memory Mode yet."""
    desired = {**SPLIT, "mount_root": str(host.mount_root), "regions": ["region0", "region1"]}
    assert given(host, **desired).reboot_needed
    host.restart()
    assert not given(host, **desired).reboot_needed
    assert sorted(host.spaces) == ["namespace0.0", "namespace1.0"]
    absent: dict[str, Any] = {**desired, "regions": ["region0", "region2"]}
    refused = host.provision(**absent).refusals
    assert [(each.object, each.why) for each in refused] == [("region2", "there is no such region")]


def test_what_is_to_be_reserved_counts_where_the_type_is_right_already(host: OptaneHost) -> None:
    """And comes back: before, all of it was AppDirect."""
    desired: dict[str, Any] = {**SPLIT, "goal": "AppDirect", "mount_root": str(host.mount_root)}
    assert not given(host, **desired).reboot_needed
    assert given(host, mode="teardown").changed
    host.spaces.clear()
    host.write_tree()
    desired["goal_reserved_percent"] = 20
    assert given(host, **desired).reboot_needed
    assert host.asked == Goal_("AppDirect", 0, 20)
    host.restart()
    assert not given(host, **desired).reboot_needed
    assert given(host, **desired).steps == []
    none_asked = given(host, **{**desired, "goal_reserved_percent": 0})
    assert (none_asked.steps, none_asked.notes) == (
        [], ["20 % of the modules' capacity are neither memory nor AppDirect"],
    )  # fmt: skip
    assert given(host, mode="teardown").reboot_needed
    assert host.asked == Goal_("AppDirect")


def test_a_share_too_small_to_be_told_from_alignment_is_said_so(host: OptaneHost) -> None:
    desired = {**SPLIT, "goal": "AppDirect", "mount_root": str(host.mount_root)}
    outcome = given(host, **desired, goal_reserved_percent=2)
    assert "ipmctl does not report whether 2 % of the modules are reserved" in outcome.notes


# The ratio to the DRAM ---------------------------------------------------------------


def goals_of(tmp_path: Path, recorded: str) -> Goals:
    """As ipmctl tells them where ``show -memoryresources`` answers as recorded."""

    class Recorded(OptaneHost):
        def _resources(self) -> str:
            return optane(recorded)

    host = Recorded(tmp_path)
    assert host.run(["ipmctl", "show", "-memoryresources"]) == Done(0, optane(recorded), "")
    return read_goals(host)


@pytest.mark.parametrize(
    ("recorded", "percent", "words"),
    [
        ("resources-app-direct", 100, "the modules have 7.9 times the DRAM's capacity, within"),
        ("resources-app-direct", 25, "25 % of the modules have 2.0 times the DRAM's capacity: b"),
        # Nothing of the modules is mapped, as where they come from the factory; the DRAM is
        # the larger part there, half a TiB to 126.7 GiB.
        ("resources-not-carried-out", 100, "the modules have 0.2 times the DRAM's capacity: below"),
    ],
)
def test_memory_is_compared_to_its_cache_by_what_is_to_be_memory(
    tmp_path: Path, recorded: str, percent: int, words: str
) -> None:
    assert str(ratio_note(goals_of(tmp_path, recorded), percent)).startswith(words)


def test_a_plan_of_a_mixed_mode_says_how_its_memory_compares(host: OptaneHost) -> None:
    """40 GiB, a quarter of it memory, over 10 GiB of DRAM: as much as the DRAM that it hides."""
    desired = {"mode": "memory-mode", "memory_mode_percent": 25, "goal": "AppDirect"}
    for _ in ("asked for", "carried out"):
        outcome = given(host, **desired)
        note = next(note for note in outcome.notes if "times the DRAM" in note)
        assert note.startswith("25 % of the modules have 1.0 times the DRAM's capacity: below 1:4")
        host.restart()
    assert not outcome.reboot_needed
