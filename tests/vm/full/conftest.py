"""A machine of its own for each file."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from vm_machine import Vm
from vm_probe import fresh_machine


@pytest.fixture(scope="module")
def vm() -> Iterator[Vm]:
    """As ``machine``, removed after the file's last test."""
    if os.geteuid() != 0:
        pytest.skip("building the test machine's image needs root")
    with fresh_machine() as machine:
        yield machine
