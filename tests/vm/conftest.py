"""The test machine, booted once for all tests that ask for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from vm_image import REPOSITORY, image
from vm_machine import Vm, running_machine

GUEST = Path(__file__).parent
#: What of the harness runs inside the machine: standard library only.
SOURCES = ("__init__.py", "errors.py", "units.py", "placement.py", "tiers", "host")


@pytest.fixture(scope="session")
def vm() -> Iterator[Vm]:
    """A machine with two NVDIMMs whose label areas are blank, and our sources in /opt/harness."""
    with running_machine(image()) as machine:
        sources = [REPOSITORY / "harness" / name for name in SOURCES]
        machine.copy([*sources, *GUEST.glob("guest_*")], "/opt/harness")
        yield machine


def probe(machine: Vm, **asked: Any) -> dict[str, Any]:
    """Run the probe in the machine (see guest_probe.py)."""
    text = machine.run(f"python3 /opt/harness/tests/vm/guest_probe.py '{json.dumps(asked)}'")
    answer: dict[str, Any] = json.loads(text)
    return answer


@pytest.fixture(scope="session")
def blank_machine(vm: Vm) -> dict[str, Any]:
    """The probe's answer before anything is set up."""
    vm.run("useradd --system engines")
    return probe(vm)


@pytest.fixture(scope="session")
def provisioned_vm(vm: Vm, blank_machine: dict[str, Any]) -> Vm:
    """The machine with a namespace and a file system of every kind (guest_setup.sh)."""
    vm.run("bash /opt/harness/tests/vm/guest_setup.sh")
    return vm
