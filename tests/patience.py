"""Time limit of tests that wait for what must come."""

import time
from collections.abc import Callable

#: A bound on a hang, far above what a busy machine needs; never a measurement.
PATIENCE_S = 300


def eventually(condition: Callable[[], object]) -> bool:
    """Return whether it comes true."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False
