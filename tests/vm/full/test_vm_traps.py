"""What must never be destroyed, and is not: each trap is refused by name, its data unchanged.

Every trap is sprung with full consent: ``confirm_destroy`` and the exact names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from vm_machine import Vm
from vm_playbooks import Played, play
from vm_probe import media, state

pytestmark = pytest.mark.vm

ONE = {"pmem_regions": ["region0"]}
#: The kernel has nothing left to initialise behind its back.
MKFS = "mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0,lazy_journal_init=0"


@pytest.fixture(scope="module")
def trapped(vm: Vm) -> Iterator[Vm]:
    """region0 with labels and one fsdax namespace; region1 without labels."""
    vm.run(
        "ndctl disable-region region0 && ndctl init-labels -f nmem0 && "
        "ndctl enable-region region0 && ndctl create-namespace -r region0 -m fsdax"
    )
    yield vm


def refused(vm: Vm, playbook: str, variables: dict[str, Any], *names: str) -> Played:
    """The refusal of a playbook that has everybody's consent; nothing has changed."""
    before, kept = state(vm), media(vm)
    consent = {"confirm_destroy": True, "destroy": list(names)}
    done = play(vm, playbook, {**variables, **consent})
    assert done.code != 0, done.out
    assert state(vm) == before
    assert media(vm) == kept
    return done


def test_a_foreign_file_system(trapped: Vm) -> None:
    trapped.run(f"{MKFS} -L payroll /dev/pmem0")
    done = refused(trapped, "setup-sector", ONE, "namespace0.0")
    assert "namespace0.0" in done.refusals
    assert "ext4" in done.refusals
    assert "payroll" in done.refusals


def test_a_mounted_namespace(trapped: Vm) -> None:
    trapped.run("mkdir -p /srv/payroll && mount -o dax /dev/pmem0 /srv/payroll")
    done = refused(trapped, "setup-devdax", ONE, "namespace0.0")
    assert "namespace0.0" in done.refusals
    assert "/srv/payroll" in done.refusals
    trapped.run("umount /srv/payroll && wipefs -aq /dev/pmem0")


@pytest.mark.parametrize(
    ("build", "remove", "name"),
    [
        # As under LVM.
        (
            'dmsetup create payroll --table "0 $(blockdev --getsz /dev/pmem0) linear /dev/pmem0 0"',
            "dmsetup remove payroll",
            "dm-0",
        ),
        # The kernel itself has the device open, and no process.
        ("losetup /dev/loop0 /dev/pmem0", "losetup -d /dev/loop0", "loop0"),
    ],
    ids=["device-mapper", "loop"],
)
def test_a_namespace_under_another_device(trapped: Vm, build: str, remove: str, name: str) -> None:
    trapped.run(build)
    try:
        done = refused(trapped, "setup-sector", ONE, "namespace0.0")
    finally:
        trapped.run(remove)
    assert "namespace0.0" in done.refusals
    assert name in done.refusals


def test_a_namespace_that_somebody_has_open(trapped: Vm) -> None:
    trapped.run("nohup sleep 1000 </dev/pmem0 >/dev/null 2>&1 & echo $! >/run/sleep.pid")
    try:
        done = refused(trapped, "setup-sector", ONE, "namespace0.0")
    finally:
        trapped.run("kill $(cat /run/sleep.pid)")
    assert "namespace0.0" in done.refusals
    assert "sleep" in done.refusals


def test_swap_space(trapped: Vm) -> None:
    trapped.run("mkswap -q /dev/pmem0 && swapon /dev/pmem0")
    done = refused(trapped, "setup-sector", ONE, "namespace0.0")
    assert "namespace0.0" in done.refusals
    assert "swap" in done.refusals
    trapped.run("swapoff /dev/pmem0 && wipefs -aq /dev/pmem0")


def test_the_device_that_holds_the_root_file_system(trapped: Vm) -> None:
    script = "/opt/harness/tests/vm/guest_root_on_pmem.sh"
    trapped.run(f"{MKFS} /dev/pmem0 && {script} prepare")
    python = {"ansible_python_interpreter": script}
    done = refused(trapped, "setup-sector", {**ONE, **python}, "namespace0.0")
    assert "namespace0.0" in done.refusals
    assert "it holds / (ext4 on /dev/pmem0)" in done.refusals
    trapped.run("wipefs -aq /dev/pmem0")


def test_a_region_that_is_not_there(trapped: Vm) -> None:
    done = refused(trapped, "setup-appdirect", {"pmem_regions": ["region7"]}, "namespace0.0")
    assert all(name in done.refusals for name in ("region7", "region0", "region1"))


def test_a_size_off_the_regions_alignment(trapped: Vm) -> None:
    odd = {**ONE, "pmem_namespace_size": (512 << 20) + 4096}
    done = refused(trapped, "setup-appdirect", odd, "namespace0.0")
    assert "region0" in done.refusals
    assert str(16 << 20) in done.refusals


def test_a_region_without_labels_that_nobody_consented_to(trapped: Vm) -> None:
    """Writing labels destroys what is on it."""
    trapped.run("dd if=/dev/urandom of=/dev/pmem1 bs=1M count=4 conv=fsync status=none")
    wish = {"pmem_regions": ["region1"]}
    done = refused(trapped, "setup-appdirect", wish, "namespace0.0")
    assert "namespace1.0" in done.refusals


def test_a_name_too_many_in_the_consent(trapped: Vm) -> None:
    """A list that is not exactly the plan's was written for something else."""
    done = refused(trapped, "setup-sector", ONE, "namespace0.0", "namespace1.0")
    assert "namespace1.0" in done.refusals


def test_xfs_that_claims_dax_on_a_sector_namespace(trapped: Vm) -> None:
    """The kernel mounts that without DAX and without a word: it is told in the refusal."""
    trapped.run(
        "ndctl create-namespace -f -e namespace0.0 -m sector -l 4096 && "
        "mkfs.xfs -q /dev/pmem0s && mount -o dax=always /dev/pmem0s /srv/payroll"
    )
    done = refused(trapped, "setup-appdirect", ONE, "namespace0.0")
    assert "namespace0.0" in done.refusals
    assert "/srv/payroll" in done.refusals
    assert "a sector namespace has no DAX" in done.refusals
    trapped.run("umount /srv/payroll && wipefs -aq /dev/pmem0s")


def test_a_namespace_that_its_label_gives_to_somebody(trapped: Vm) -> None:
    trapped.run("ndctl create-namespace -f -e namespace0.0 -m fsdax -n payroll")
    done = refused(trapped, "setup-sector", ONE, "namespace0.0")
    assert "namespace0.0" in done.refusals
    assert "payroll" in done.refusals
