"""A playbook that ends before its time, by loss of power, a kill or a full disk: nothing is lost,
and the same command, given again, goes on or says what to confirm.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from vm_machine import Vm
from vm_playbooks import destroyed, play
from vm_probe import checksum, media, modes, probe, state

pytestmark = pytest.mark.vm

BLANK = {"namespace0.0": "raw", "namespace1.0": "raw"}


@pytest.fixture(scope="module")
def blank(vm: Vm) -> dict[str, Any]:
    return state(vm)


@pytest.fixture(scope="module")
def command(vm: Vm, blank: dict[str, Any]) -> dict[str, Any]:
    """The consent to the plan of the blank machine."""
    planned = play(vm, "setup-appdirect", check=True)
    return {"confirm_destroy": True, "destroy": destroyed(planned)}


@pytest.fixture(scope="module")
def cut_off(vm: Vm, command: dict[str, Any]) -> dict[str, str]:
    """Namespaces after the power came back: it went when there was a first one of ours.

    The second is not made until then, however late it is seen that it is its turn.
    """
    vm.run(
        "cp /usr/bin/ndctl /run/ndctl"
        " && mount --bind /opt/harness/tests/vm/guest_ndctl_once.sh /usr/bin/ndctl"
    )
    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(play, vm, "setup-appdirect", command)
        while not vm.run("ls /run/second-namespace", check=False):
            assert not going.done(), going.result().out
        vm.lose_power()
        assert going.result().code != 0
    vm.boot()
    return modes(state(vm))


def test_the_same_command_goes_on(vm: Vm, command: dict[str, Any], cut_off: dict[str, str]) -> None:
    assert list(cut_off.values()).count("fsdax") == 1
    done = play(vm, "setup-appdirect", command)
    assert done.code == 0, done.out
    assert set(modes(state(vm)).values()) == {"fsdax"}
    places = probe(vm, places=["/mnt/pmem0", "/mnt/pmem1"])["places"]
    assert [(one["kind"], one["dax"]) for one in places.values()] == [("fsdax", True)] * 2
    assert play(vm, "setup-appdirect").report["changed"] is False


def test_teardown_still_knows_what_was_there(
    vm: Vm, blank: dict[str, Any], cut_off: dict[str, str]
) -> None:
    """It was written down before anything was changed; labels that are gone show at the restart."""
    ours = {"confirm_destroy": True, "destroy": list(modes(state(vm)))}
    back = play(vm, "teardown", ours)
    assert back.code == 0, back.out
    vm.reboot()
    assert modes(blank) == BLANK
    assert state(vm) == blank


# Killed, and what somebody puts there meanwhile --------------------------------------

REGION0 = {"pmem_regions": ["region0"]}
CONSENT = {**REGION0, "confirm_destroy": True, "destroy": ["namespace0.0"]}
RECORD = "/var/lib/harness/provisioning.json"


@contextlib.contextmanager
def killed_after(vm: Vm, program: str) -> Iterator[None]:
    """The playbook's module is killed as soon as the program has made something."""
    script = "/opt/harness/tests/vm/guest_killed_after.sh"
    vm.run(f"chmod +x {script} && cp $(command -v {program}) /run/{program}")
    vm.run(f"mount --bind {script} $(command -v {program})")
    try:
        yield
    finally:
        vm.run(f"umount $(realpath $(command -v {program}))")


@pytest.fixture(scope="module")
def made(vm: Vm, blank: dict[str, Any]) -> str:
    """A namespace of which no record tells, with data on it that no probe sees; its device."""
    back = {"confirm_destroy": True, "destroy": list(modes(state(vm)))}
    play(vm, "teardown", back)
    with killed_after(vm, "ndctl"):
        assert play(vm, "setup-appdirect", CONSENT).code != 0
    assert modes(state(vm))["namespace0.0"] == "fsdax"
    vm.run("wipefs -a -q /dev/pmem0; head -c 4M /dev/urandom >/dev/pmem0; sync")
    return "/dev/pmem0"


@pytest.fixture(scope="module")
def finished(vm: Vm, made: str) -> str:
    """A file system finished when its maker was killed, with a file in it: the checksum of that."""
    with killed_after(vm, "mkfs.ext4"):
        assert play(vm, "setup-appdirect", CONSENT).code != 0
    vm.run(f"mkdir -p /srv/mine && mount {made} /srv/mine")
    vm.run("head -c 1M /dev/urandom >/srv/mine/file; sync; umount /srv/mine")
    vm.run(f"mount -o ro {made} /srv/mine")
    kept = checksum(vm, "/srv/mine/file")
    vm.run("umount /srv/mine")
    return kept


def test_data_on_a_namespace_that_nobody_recorded_are_not_formatted_unasked(
    vm: Vm, made: str
) -> None:
    before = media(vm)
    done = play(vm, "setup-appdirect", REGION0)
    assert done.code != 0
    assert destroyed(done) == ["namespace0.0"]
    assert "confirm_destroy" in done.refusals
    assert media(vm) == before


def test_a_finished_file_system_is_kept_though_its_maker_was_killed(vm: Vm, finished: str) -> None:
    done = play(vm, "setup-appdirect", REGION0)
    assert done.code == 0, done.out
    assert "make-filesystem" not in [step["do"] for step in done.steps]
    assert checksum(vm, "/mnt/pmem0/file") == finished
    assert play(vm, "setup-appdirect", REGION0).report["changed"] is False


def test_on_a_full_disk_nothing_is_begun(vm: Vm, finished: str) -> None:
    vm.run(f"cp {RECORD} /run/record && mount -t tmpfs -o size=8k none {RECORD.rpartition('/')[0]}")
    vm.run(f"cp /run/record {RECORD}; cat /dev/zero >{RECORD}.fill", check=False)
    before = state(vm)
    refused = play(vm, "teardown", {"confirm_destroy": True, "destroy": ["namespace0.0"]})
    vm.run(f"umount {RECORD.rpartition('/')[0]}")
    assert refused.code != 0
    assert refused.report["changed"] is False
    assert "No space left on device" in refused.refusals
    assert state(vm) == before


def test_a_lost_record_is_noticed_and_costs_nothing(vm: Vm, finished: str) -> None:
    vm.run(f"mv {RECORD} /run/record")
    done = play(vm, "setup-appdirect", REGION0)
    assert done.code == 0, done.out
    assert [step["do"] for step in done.steps] == ["write-record"]
    assert any(note.startswith("record-lost") for note in done.report["notes"])
    assert checksum(vm, "/mnt/pmem0/file") == finished
    vm.run(f"mv /run/record {RECORD}")
    assert play(vm, "setup-appdirect", REGION0).report["changed"] is False
