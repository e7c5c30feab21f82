"""Data that must never be destroyed: each trap is refused by name, its data unchanged.

Every trap is sprung with full consent: ``confirm_destroy`` and the exact names. Those that can
lie side by side in one region do, and are refused in one go, each for its own reason.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from figures import figures_of
from vm_guest import Played, inventory_with, media, modes, play, state
from vm_machine import Vm

pytestmark = pytest.mark.vm

#: The kernel has nothing left to initialise behind its back.
MKFS = "mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0,lazy_journal_init=0"


@dataclass(frozen=True)
class Trap:
    """A namespace of region0, what is done with its ``{device}``, and words of the refusal."""

    build: str
    words: tuple[str, ...]
    make: str = "-m fsdax -s 144M"


TRAPS = {
    "foreign-file-system": Trap(f"{MKFS} -L payroll {{device}}", ("has ext4 labelled 'payroll'",)),
    "mounted": Trap(
        # No reader has it written to: not even times of access.
        f"{MKFS} {{device}} && mkdir /srv/payroll && mount -o dax,noatime {{device}} /srv/payroll"
        " && head -c 1M /dev/urandom >/srv/payroll/list && sync",
        ("it is mounted at /srv/payroll (ext4)",),
    ),
    # The kernel mounts that without DAX and without a word. Frozen, since xfs writes to its
    # log by itself.
    "xfs-with-dax-on-sector": Trap(
        "mkfs.xfs -q {device} && mkdir /srv/ledger && mount -o dax=always {device} /srv/ledger"
        " && head -c 1M /dev/urandom >/srv/ledger/list && sync && fsfreeze -f /srv/ledger",
        ("it is mounted at /srv/ledger (xfs)", "a sector namespace has no DAX"),
        "-m sector -s 400M -l 4096",
    ),
    # As under LVM.
    "device-mapper": Trap(
        'dmsetup create payroll --table "0 $(blockdev --getsz {device}) linear {device} 0"',
        ("dm-0 is built on it",),
    ),
    # The kernel itself has the device open, and no process.
    "loop": Trap(
        "modprobe loop && losetup /dev/loop0 {device}",
        ("it is in use: /dev/loop0 loops over it",),
    ),
    "open": Trap(
        "head -c 1M /dev/urandom >{device} && sync &&"
        " {{ nohup sleep infinity <{device} >/dev/null 2>&1 & }}",
        ("(sleep)",),
    ),
    # Of which the kernel makes no use while there is memory.
    "swap": Trap(
        "echo 0 >/proc/sys/vm/swappiness && mkswap -q {device} && swapon {device}",
        ("it is in use: swap on {device}",),
    ),
    "named-by-its-label": Trap(
        "head -c 1M /dev/urandom >{device}",
        ("its label is 'payroll'",),
        "-m fsdax -s 144M -n payroll",
    ),
    "root": Trap(
        f"{MKFS} -L guest-root {{device}} && /opt/harness/tests/vm/guest_root_on_pmem.sh prepare",
        ("has ext4 labelled 'guest-root'",),
    ),
}


@dataclass(frozen=True)
class Trapped:
    """The machine, and where each trap lies: namespace and device."""

    vm: Vm
    places: dict[str, tuple[str, str]]

    @property
    def names(self) -> list[str]:
        """All namespaces: of region0, and that of region1, which has no labels."""
        return [*(name for name, _ in self.places.values()), "namespace1.0"]


@pytest.fixture(scope="module")
def trapped(vm):
    """region0 with labels and a namespace for each trap; region1 without labels."""
    vm.run(
        "ndctl disable-region region0 && ndctl init-labels -f nmem0 && ndctl enable-region region0"
    )
    places = {}
    for name, trap in TRAPS.items():
        made = json.loads(vm.run(f"ndctl create-namespace -r region0 {trap.make}"))
        places[name] = (made["dev"], f"/dev/{made['blockdev']}")
        vm.run(trap.build.format(device=places[name][1]))
    vm.run(f"{MKFS} -L payroll /dev/pmem1")
    return Trapped(vm, places)


def refused(
    vm: Vm, playbook: str, names: list[str], *, inventory: Path | None = None, **variables
) -> dict[str, str]:
    """Why a playbook that has consent to ``names`` refuses, by object; nothing has changed."""
    before, stored = state(vm), media(vm)
    consent = {"confirm_destroy": True, "destroy": names}
    elsewhere: dict[str, Any] = {} if inventory is None else {"inventory": inventory}
    done: Played = play(vm, playbook, {**variables, **consent}, **elsewhere)
    assert done.code != 0, done.out
    assert done.report["changed"] is False
    assert state(vm) == before
    assert media(vm) == stored
    why: dict[str, str] = {}
    for refusal in done.report["refusals"]:
        assert refusal["do"], refusal
        why[refusal["object"]] = f"{why.get(refusal['object'], '')}{refusal['why']}; "
    return why


@pytest.fixture(scope="module")
def sprung(trapped):
    """All that is there is to become DAX devices, and its owner agrees by name."""
    assert set(trapped.names) == set(modes(state(trapped.vm)))
    return refused(trapped.vm, "setup-devdax", trapped.names)


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_is_refused_by_name(trapped, sprung, name):
    namespace, device = trapped.places[name]
    for words in TRAPS[name].words:
        assert words.format(device=device) in sprung[namespace]


def test_a_region_without_labels_and_with_a_file_system_that_is_not_ours(sprung):
    """Writing labels destroys what is on it."""
    assert "/dev/pmem1 has ext4 labelled 'payroll'" in sprung["namespace1.0"]


def test_the_device_that_holds_the_root_file_system(trapped):
    script = "/opt/harness/tests/vm/guest_root_on_pmem.sh"
    there = inventory_with(trapped.vm, ansible_python_interpreter=script)
    why = refused(trapped.vm, "setup-sector", trapped.names, inventory=there)
    namespace, device = trapped.places["root"]
    assert f"it holds / (ext4 on {device})" in why[namespace]


def test_a_region_that_is_not_there(trapped):
    why = refused(trapped.vm, "setup-appdirect", trapped.names, pmem_regions=["region7"])
    assert "no such region" in why["region7"]


def test_a_size_off_the_regions_alignment(trapped):
    odd = (512 << 20) + 4096
    why = refused(trapped.vm, "setup-appdirect", trapped.names, pmem_namespace_size=odd)
    for region in ("region0", "region1"):
        assert figures_of(why[region]) == [odd, 16 << 20]  # the size, the alignment


def test_a_region_without_labels_that_nobody_consented_to(trapped):
    """Nothing is on it that could be told apart from nothing: only its owner knows."""
    trapped.vm.run(
        "wipefs -aq /dev/pmem1 && head -c 4M /dev/urandom | dd of=/dev/pmem1 bs=1M seek=8"
        " iflag=fullblock conv=fsync status=none"
    )
    others = [name for name in trapped.names if name != "namespace1.0"]
    why = refused(trapped.vm, "setup-appdirect", others, pmem_regions=["region1"])
    assert "not name namespace1.0" in why["namespace1.0"]


def test_a_name_too_many_in_the_consent(trapped):
    """A list that is not exactly the plan's was written for something else."""
    why = refused(trapped.vm, "setup-appdirect", trapped.names, pmem_regions=["region1"])
    (reason,) = why.values()
    assert all(name in reason for name, _ in trapped.places.values())
    assert reason.startswith("destroy names")
