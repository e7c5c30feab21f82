"""Loss of power while a playbook is at work: the same command, given again, goes on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from vm_machine import Vm
from vm_playbooks import destroyed, play
from vm_probe import modes, probe, state

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
