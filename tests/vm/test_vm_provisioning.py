"""Our playbooks on a machine with two blank NVDIMMs, from nothing to file systems and back again.

The tests are one story, told in the order of this file: every fixture is its next chapter.
"""

from typing import Any

import pytest
from vm_guest import checksum, destroyed, media, modes, play, probe, state

pytestmark = pytest.mark.vm

State = dict[str, Any]
#: Blank labels come up as one label-less namespace a region, on which anybody may have written.
BLANK = {"namespace0.0": "raw", "namespace1.0": "raw"}
#: Both are planned; one is set up and torn down, since each step is slow there. Both:
#: full/test_vm_modes.py.
ONE = {"pmem_regions": ["region0"]}
AFTER = {"namespace0.0": "fsdax", "namespace1.0": "raw"}


@pytest.fixture(scope="module")
def before(vm, blank_machine):
    """Before anything: with something on each NVDIMM that nobody may lose unasked."""
    for device in ("/dev/pmem0", "/dev/pmem1"):
        vm.run(f"dd if=/dev/urandom of={device} bs=1M count=1 conv=fsync status=none")
    return {**state(vm), "media": media(vm)}


@pytest.fixture(scope="module")
def planned(vm, before):
    """``--check``, and the state behind it."""
    return play(vm, "setup-appdirect", check=True), state(vm)


@pytest.fixture(scope="module")
def unconfirmed(vm, planned):
    done = play(vm, "setup-appdirect")
    return done, state(vm), media(vm)


@pytest.fixture(scope="module")
def appdirect(vm, planned, unconfirmed):
    assert "namespace0.0" in destroyed(planned[0])
    consent = {"confirm_destroy": True, "destroy": ["namespace0.0"]}
    return play(vm, "setup-appdirect", {**ONE, **consent})


@pytest.fixture(scope="module")
def appdirect_state(vm, appdirect):
    assert appdirect.code == 0, appdirect.out
    return state(vm)


@pytest.fixture(scope="module")
def torn_down(vm, appdirect_state):
    consent = {"confirm_destroy": True, "destroy": ["namespace0.0"]}
    return play(vm, "teardown", {"teardown_regions": ONE["pmem_regions"], **consent})


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
    played, after, media = unconfirmed
    assert played.code != 0
    assert "namespace0.0" in played.refusals
    assert "confirm_destroy" in played.refusals
    assert media == before["media"]
    assert after == {name: before[name] for name in after}


# AppDirect ----------------------------------------------------------------------------


def test_appdirect_gives_dax_file_systems_by_what_the_kernel_says(vm, appdirect, appdirect_state):
    assert appdirect.report["changed"] is True
    assert modes(appdirect_state) == AFTER
    place = "/mnt/pmem0"
    facts = probe(vm, places=[place])["places"][place]
    assert (facts["kind"], facts["dax"], facts["filesystem"]) == ("fsdax", True, "ext4")
    assert (facts["namespace_alignment_bytes"], facts["numa_node"]) == (2 << 20, 0)
    assert place in appdirect_state["/etc/fstab"] + str(appdirect_state["units"])


def test_the_second_time_nothing_is_left_to_do(vm, appdirect_state):
    again = play(vm, "setup-appdirect", ONE)
    assert again.code == 0, again.out
    assert again.report["changed"] is False
    assert again.steps == []
    assert "changed=0" in again.out
    assert state(vm) == appdirect_state


def test_a_mounted_namespace_is_not_touched(vm, appdirect_state):
    """Even where it is confirmed: whose data are on a mounted file system is not ours to say."""
    vm.run("mkdir /mnt/pmem0/mine && head -c 1M /dev/urandom > /mnt/pmem0/mine/data && sync")
    digest = checksum(vm, "/mnt/pmem0/mine/data")
    consent = {"confirm_destroy": True, "destroy": ["namespace0.0"]}
    refused = play(vm, "setup-sector", {**ONE, **consent})
    assert refused.code != 0
    assert "namespace0.0" in refused.refusals
    assert "/mnt/pmem0" in refused.refusals
    assert state(vm) == appdirect_state
    assert checksum(vm, "/mnt/pmem0/mine/data") == digest
    vm.run("rm -r /mnt/pmem0/mine")


def test_teardown_goes_back_to_what_was_there(vm, before, torn_down):
    assert torn_down.code == 0, torn_down.out
    after = state(vm)
    assert torn_down.report["changed"] is True
    # The kernel shows a label-less namespace after a restart alone.
    assert modes(after) == {"namespace1.0": "raw"}
    assert any("after a restart" in note for note in torn_down.report["notes"])
    for what in ("mounts", "units", "/etc/fstab", "/etc/harness/host.yml", "dax_devices"):
        assert after[what] == before[what], what
