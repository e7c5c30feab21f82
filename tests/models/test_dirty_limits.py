"""Dirty limits of a modelled page cache, by the limits of Linux in force."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.models.page_cache import page_cache
from harness.tiers.linux.kernel import Kernel

GIB = 1 << 30


@pytest.mark.parametrize(
    ("settings", "limit", "version_2", "background", "throttle"),
    [
        ({}, None, False, 1.0, 2.0),
        ({"dirty_ratio": 40, "dirty_background_ratio": 5}, None, False, 0.5, 4.0),
        ({"dirty_bytes": 3 * GIB, "dirty_ratio": 0}, None, False, 1.0, 3.0),
        ({"dirty_bytes": GIB // 2}, None, False, 0.25, 0.5),  # the lower limit gives way
        ({}, 3 * GIB, False, 1.0, 2.0),  # of the host
        ({}, 3 * GIB, True, 0.1, 0.2),
        ({"dirty_bytes": 3 * GIB}, 3 * GIB, True, 0.1, 0.3),
    ],
)
def test_dirty_limits(tmp_path: Path, settings, limit, version_2, background, throttle) -> None:
    """A made-up host has 12 GiB, and its engine 2 GiB of its own."""
    folder = tmp_path / "proc/sys/vm"
    folder.mkdir(parents=True)
    for name, value in settings.items():
        (folder / name).write_text(str(value))
    cache = page_cache(12 * GIB, 2 * GIB, limit, version_2, Kernel(tmp_path))
    assert cache.size_bytes == (None if limit is None else GIB)
    assert cache.background_bytes == pytest.approx(background * GIB, abs=1)
    assert cache.throttle_bytes == pytest.approx(throttle * GIB, abs=1)
    assert cache.expire_ns == 30_000_000_000
