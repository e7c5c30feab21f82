"""The test machine: one for the files of this folder, and one for each file of ``full``."""

import os

import pytest
from vm_guest import fresh_machine, install_harness, probe


@pytest.fixture(scope="session")
def machine():
    """A machine with two NVDIMMs whose label areas are blank, and our sources in /opt/harness.

    Its image holds files of many owners, which only root can write: as another user
    these tests are skipped, and that is said. CI runs as root.
    """
    if os.geteuid() != 0:
        pytest.skip("building the test machine's image needs root")
    with fresh_machine() as machine:
        yield machine


@pytest.fixture(scope="module")
def vm(machine):
    """The machine of all files, whose playbooks remove all that they made."""
    return machine


@pytest.fixture(scope="module")
def lab(vm):
    """A machine with the harness installed as a user has it."""
    install_harness(vm)
    return vm


@pytest.fixture(scope="session")
def blank_machine(machine):
    """The probe's answer before anything is set up."""
    machine.run("useradd --system engines")
    return probe(machine)


@pytest.fixture(scope="module")
def provisioned_vm(vm, blank_machine):
    """The machine with a namespace and a file system of every kind (guest_setup.sh)."""
    vm.run("bash /opt/harness/tests/vm/guest_setup.sh")
    return vm
