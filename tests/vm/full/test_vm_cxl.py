"""CXL memory by our playbook, verified by the kernel: there and back, each twice.

One machine with Debian 13 and volatile devices, one with Debian 12 and a persistent one.
"""

import os
from typing import Any

import pytest
from vm_cxl import PersistentVm, VolatileVm, cxl_machine, memdevs
from vm_guest import Played, play, state
from vm_machine import Vm

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def debian13():
    if os.geteuid() != 0:
        pytest.skip("building the test machine's image needs root")
    with cxl_machine(VolatileVm) as machine:
        yield machine


@pytest.fixture(scope="module")
def debian12():
    if os.geteuid() != 0:
        pytest.skip("building the test machine's image needs root")
    with cxl_machine(PersistentVm) as machine:
        yield machine


def consent(*names: str) -> dict[str, Any]:
    return {"confirm_destroy": True, "destroy": list(names)}


def regions(vm: Vm) -> list[str]:
    """Each region's commit, ways and size, by sysfs."""
    folders = "/sys/bus/cxl/devices/region[0-9]*"
    look = f"for r in {folders}; do cd $r && cat commit interleave_ways size; done"
    return vm.run(look, check=False).split()


def zones(vm: Vm, node: int = 1) -> set[str]:
    """State and zone of the node's blocks of memory."""
    blocks = f"/sys/devices/system/node/node{node}/memory[0-9]*"
    return set(vm.run(f"cat {blocks}/state {blocks}/valid_zones", check=False).split())


def cycle(vm: Vm, variables: dict[str, Any], names: list[str]) -> Played:
    """Set up twice; the second run changes nothing."""
    unconfirmed = play(vm, "setup-cxl", variables)
    assert (unconfirmed.code, unconfirmed.report["changed"]) == (2, False), unconfirmed.out
    assert regions(vm) == []
    done = play(vm, "setup-cxl", {**variables, **consent(*names)})
    assert done.code == 0, done.out
    up = state(vm)
    again = play(vm, "setup-cxl", variables)
    assert (again.code, again.steps, again.report["changed"]) == (0, [], False), again.out
    assert state(vm) == up
    return done


def back(vm: Vm, before: dict[str, Any], *names: str) -> None:
    """Tear down twice; the second run changes nothing."""
    done = play(vm, "teardown", consent(*names))
    assert done.code == 0, done.out
    assert (state(vm), regions(vm)) == (before, [])
    again = play(vm, "teardown")
    assert (again.code, again.steps, again.report["changed"]) == (0, [], False), again.out


def test_two_volatile_devices_as_one_memory_node(debian13):
    before, names = state(debian13), memdevs(debian13)[:2]
    variables = {"cxl_memdevs": names, "cxl_interleave_ways": 2, "cxl_interleave_granularity": 4096}
    done = cycle(debian13, variables, names)
    assert [(tier["base"], tier["node"]) for tier in done.report["tiers"]] == [("cxl", 1)]
    assert regions(debian13) == ["1", "2", hex(1 << 30)]
    assert zones(debian13) == {"online", "Movable"}
    refused = play(debian13, "setup-cxl", {"cxl_memdevs": names[:1]})
    assert (refused.code, "region0 is over" in refused.refusals) == (2, True), refused.out
    back(debian13, before)


def test_a_volatile_device_for_programs_is_not_taken_while_it_is_open(debian13):
    before, names = state(debian13), memdevs(debian13)[:1]
    variables = {"cxl_memdevs": names, "cxl_use": "devdax"}
    cycle(debian13, variables, names)
    opened = "nohup sleep infinity </dev/dax0.0 >/dev/null 2>&1 & echo $!"
    pid = debian13.run(opened).strip()
    refused = play(debian13, "teardown", consent("dax0.0"))
    assert (refused.code, "(sleep)" in refused.refusals) == (2, True), refused.out
    debian13.run(f"kill {pid}")
    back(debian13, before, "dax0.0")


def test_memory_that_the_kernel_would_put_online_is_not_added(debian13):
    policy = "/sys/devices/system/memory/auto_online_blocks"
    debian13.run(f"echo online >{policy}")
    names = memdevs(debian13)[:1]
    refused = play(debian13, "setup-cxl", {"cxl_memdevs": names, **consent(*names)})
    debian13.run(f"echo offline >{policy}")
    assert (refused.code, "memhp_default_state" in refused.refusals) == (2, True), refused.out
    assert regions(debian13) == []


@pytest.mark.parametrize("machine", ["debian12", "debian13"])
def test_a_persistent_device_as_a_memory_node(machine, request):
    vm: Vm = request.getfixturevalue(machine)
    before, names = state(vm), memdevs(vm)[-1:]
    done = cycle(vm, {"cxl_type": "pmem"}, names)
    assert [(tier["base"], tier["node"]) for tier in done.report["tiers"]] == [("cxl", 1)]
    assert regions(vm) == ["1", "1", hex(512 << 20)]
    assert zones(vm) == {"online", "Movable"}
    (namespace,) = [each["dev"] for each in state(vm)["namespaces"]]
    back(vm, before, namespace)


def test_the_old_tool_reports_success_for_what_it_cannot_do(debian12):
    """An exit status of 0 does not mean that there is a region: the kernel is queried."""
    done = debian12.execute("cxl create-region -m -t ram -d decoder0.0 mem0")
    assert (done.returncode, "not supported yet" in done.stdout + done.stderr) == (0, True)
    assert regions(debian12) == []
