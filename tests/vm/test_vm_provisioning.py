"""Our playbooks on a machine with two blank NVDIMMs, from nothing to a run and back again.

The tests are one story, told in the order of this file: every fixture is its next chapter.
"""

from __future__ import annotations

from typing import Any

import pytest
from vm_harness import Done, harness
from vm_machine import Vm
from vm_playbooks import Played, destroyed, play
from vm_probe import checksum, media, modes, probe, state

pytestmark = pytest.mark.vm

State = dict[str, Any]
#: Blank labels come up as one label-less namespace a region, on which anybody may have written.
BLANK = {"namespace0.0": "raw", "namespace1.0": "raw"}


@pytest.fixture(scope="module")
def before(lab: Vm, blank_machine: dict[str, Any]) -> State:
    """Before anything: with something on each NVDIMM that nobody may lose unasked."""
    for device in ("/dev/pmem0", "/dev/pmem1"):
        lab.run(f"dd if=/dev/urandom of={device} bs=1M count=1 conv=fsync status=none")
    return {**state(lab), "media": media(lab)}


@pytest.fixture(scope="module")
def planned(lab: Vm, before: State) -> tuple[Played, State]:
    """``--check``, and the state behind it."""
    return play(lab, "setup-appdirect", check=True), state(lab)


@pytest.fixture(scope="module")
def unconfirmed(lab: Vm, planned: tuple[Played, State]) -> tuple[Played, State, list[str]]:
    done = play(lab, "setup-appdirect")
    return done, state(lab), media(lab)


@pytest.fixture(scope="module")
def appdirect(lab, planned, unconfirmed):
    consent = {"confirm_destroy": True, "destroy": destroyed(planned[0])}
    return play(lab, "setup-appdirect", consent)


@pytest.fixture(scope="module")
def appdirect_state(lab: Vm, appdirect: Played) -> State:
    assert appdirect.code == 0, appdirect.out
    return state(lab)


@pytest.fixture(scope="module")
def measured(lab: Vm, appdirect_state: State) -> Done:
    """A run right after the playbook, small for a slow processor."""
    return harness(
        *(lab, "run", "ycsb", "--engine", "postgres", "--placement", "pmem-both", "--json"),
        *("--records", 200, "--threads", 2, "--ramp-up", "0s", "--operations", 400),
    )


@pytest.fixture(scope="module")
def torn_down(lab: Vm, appdirect_state: State, measured: Done) -> Played:
    consent = {"confirm_destroy": True, "destroy": list(modes(appdirect_state))}
    return play(lab, "teardown", consent)


# The plan, and what is not confirmed --------------------------------------------------


def test_a_check_tells_the_plan_and_changes_nothing(before, planned):
    played, after = planned
    assert played.code == 0, played.out
    assert modes(after) == BLANK
    assert after == {name: before[name] for name in after}
    assert set(destroyed(played)) == set(BLANK)
    told = [step["object"] for step in played.steps]
    assert "region0" in told or "namespace0.0" in told
    assert all(step["do"] and step["why"] for step in played.steps)


def test_nothing_is_destroyed_that_was_not_confirmed(before, unconfirmed):
    played, after, found = unconfirmed
    assert played.code != 0
    assert "namespace0.0" in played.refusals
    assert "confirm_destroy" in played.refusals
    assert found == before["media"]
    assert after == {name: before[name] for name in after}


# AppDirect ----------------------------------------------------------------------------


def test_appdirect_gives_dax_file_systems_by_what_the_kernel_says(lab, appdirect, appdirect_state):
    assert appdirect.report["changed"] is True
    assert set(modes(appdirect_state).values()) == {"fsdax"}
    places = ["/mnt/pmem0", "/mnt/pmem1"]
    answer = probe(lab, places=places)
    for place in places:
        facts = answer["places"][place]
        assert (facts["kind"], facts["dax"], facts["filesystem"]) == ("fsdax", True, "ext4")
        assert facts["namespace_alignment_bytes"] == 2 << 20
    assert {answer["places"][place]["numa_node"] for place in places} == {0, 1}
    assert all(place in appdirect_state["/etc/fstab"] + str(appdirect_state["units"])
               for place in places)  # fmt: skip


def test_the_second_time_nothing_is_left_to_do(lab: Vm, appdirect_state: State) -> None:
    again = play(lab, "setup-appdirect")
    assert again.code == 0, again.out
    assert again.report["changed"] is False
    assert again.steps == []
    assert "changed=0" in again.out
    assert state(lab) == appdirect_state


def test_a_mounted_namespace_is_not_touched(lab: Vm, appdirect_state: State) -> None:
    """Even where it is confirmed: whose data are on a mounted file system is not ours to say."""
    lab.run("mkdir /mnt/pmem0/mine && head -c 1M /dev/urandom > /mnt/pmem0/mine/data && sync")
    kept = checksum(lab, "/mnt/pmem0/mine/data")
    consent = {"confirm_destroy": True, "destroy": ["namespace0.0", "namespace1.0"]}
    refused = play(lab, "setup-sector", consent)
    assert refused.code != 0
    assert "namespace0.0" in refused.refusals
    assert "/mnt/pmem0" in refused.refusals
    assert state(lab) == appdirect_state
    assert checksum(lab, "/mnt/pmem0/mine/data") == kept
    lab.run("rm -r /mnt/pmem0/mine")


def test_a_run_on_it_just_works(lab: Vm, measured: Done) -> None:
    assert measured.code == 0, measured.err + measured.out
    (run,) = measured.json["runs"]
    assert (run["status"], run["emulated"]) == ("complete", [])
    assert {check["status"] for check in run["checks"]} == {"passed"}
    (rate,) = [m for m in run["metrics"] if m["name"] == "operations_per_second"]
    assert rate["value"] > 0
    left = lab.run("find /mnt/pmem0 /mnt/pmem1 -path '*/tierbench-work/*'")
    assert left == ""


def test_teardown_goes_back_to_what_was_there(lab: Vm, before: State, torn_down: Played) -> None:
    assert torn_down.code == 0, torn_down.out
    after = state(lab)
    assert torn_down.report["changed"] is True
    assert modes(after) == {}  # the kernel shows label-less namespaces after a restart alone
    assert any("after a restart" in note for note in torn_down.report["notes"])
    for what in ("mounts", "units", "/etc/fstab", "/etc/harness/host.yml", "dax_devices"):
        assert after[what] == before[what], what
