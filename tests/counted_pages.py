"""``@pytest.mark.counts_pages``: tests that assert how much of a file the page cache holds.

The kernel may take any clean page at any time: where memory is full, a file of 16 MiB that has
just been read lacks a few hundred KiB now and then, and an eviction passes over pages that
the kernel is moving. So what such a test finds counts only where the kernel took, looked for
and moved nothing while it ran: a failure is tried again otherwise. And nobody else measures
meanwhile, for a cold start may drop the whole page cache.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from _pytest.runner import runtestprotocol

from harness.execution.host_lock import one_at_a_time
from harness.host.confounders import uncontrolled
from harness.progress import SilentProgress

#: The whole host's, and those of the container that the tests run in (cgroup v2).
_COUNTS = (Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.stat"))
#: Counters of reclaim, of compaction and of /proc/sys/vm/drop_caches.
_TAKING = ("pgscan", "pgsteal", "compact_isolated", "drop_pagecache")
TRIES = 20

Found = TypeVar("Found")


def taken_pages(counts: tuple[Path, ...] = _COUNTS) -> int:
    """Grows where the kernel takes pages, looks for some to take, or moves them."""
    lines = [line for file in counts if file.exists() for line in file.read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith(_TAKING))


def taken_uncounted() -> bool:
    """Whether the kernel's access monitor runs: what its pageout takes is in no counter."""
    return any(finding.code.startswith("damon-") for finding in uncontrolled())


def undisturbed(
    attempt: Callable[[], Found],
    failed: Callable[[Found], bool],
    counter: Callable[[], int] = taken_pages,
    uncounted: Callable[[], bool] = taken_uncounted,
) -> Found:
    """What ``attempt`` found; of one that failed while pages may have gone, the next one's."""
    for _ in range(TRIES):
        before = counter()
        found = attempt()
        if not failed(found) or (counter() == before and not uncounted()):
            break
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Each attempt has its fixtures anew; only the last one is reported."""
    if item.get_closest_marker("counts_pages") is None:
        return None
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    with one_at_a_time(SilentProgress()):
        reports = undisturbed(
            lambda: runtestprotocol(item, log=False, nextitem=nextitem),
            lambda reports: any(report.failed for report in reports),
        )
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
