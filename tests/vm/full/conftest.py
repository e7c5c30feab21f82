"""A machine of its own for each file."""

import os

import pytest
from vm_guest import fresh_machine


@pytest.fixture(scope="module")
def vm():
    """A machine like ``machine``, removed after the file's last test."""
    if os.geteuid() != 0:
        pytest.skip("building the test machine's image needs root")
    with fresh_machine() as machine:
        yield machine
