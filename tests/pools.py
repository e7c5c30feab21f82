"""Buffer pools of a small host, for all commands of tests: no run is resumed with others."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from harness.experiment import preflight
from harness.tiers.memory_policy import usable_bytes
from harness.units import GIB


@contextmanager
def small_pools() -> Iterator[None]:
    """Compute settings as on a host of 2 GiB: at each start, a server writes tables of all pages
    that its buffer pool may hold.
    """

    def little(*arguments: Any) -> int:
        return min(2 * GIB, usable_bytes(*arguments))

    with mock.patch.object(preflight, "usable_bytes", little):
        yield
