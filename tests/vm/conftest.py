"""Test machines: one for the tests of each file that ask for it, gone behind the last of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from vm_harness import install_harness
from vm_image import image
from vm_machine import Vm, running_machine
from vm_probe import copy_sources, probe


@pytest.fixture(scope="module")
def vm() -> Iterator[Vm]:
    """A machine with two NVDIMMs whose label areas are blank, and our sources in /opt/harness.

    Its image holds files of many owners, which only root can write: as another user
    these tests are skipped, and that is said. CI runs as root.
    """
    if os.geteuid() != 0:
        pytest.skip("building the test machine's image needs root")
    with running_machine(image()) as machine:
        copy_sources(machine)
        yield machine


@pytest.fixture(scope="module")
def lab(vm: Vm) -> Vm:
    """A machine with the harness installed as a user has it."""
    install_harness(vm)
    return vm


@pytest.fixture(scope="module")
def blank_machine(vm: Vm) -> dict[str, Any]:
    """The probe's answer before anything is set up."""
    vm.run("useradd --system engines")
    return probe(vm)


@pytest.fixture(scope="module")
def provisioned_vm(vm: Vm, blank_machine: dict[str, Any]) -> Vm:
    """The machine with a namespace and a file system of every kind (guest_setup.sh)."""
    vm.run("bash /opt/harness/tests/vm/guest_setup.sh")
    return vm
