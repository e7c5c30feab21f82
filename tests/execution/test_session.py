"""What a session reports of a real server and real files: coldness, footprints, counters."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from idle_engine import IdleEngine

from harness.counters import difference
from harness.host.page_cache import evict, resident_bytes
from harness.host.process_counters import Footprint
from harness.monitors import MonitorContext
from harness.monitors.process import ProcessMonitor
from harness.progress import SilentProgress
from harness.supervise.process import own_identity
from harness.tiers.linux.model import Tier, TierClaim
from harness.tiers.linux.probe import facts_of_directory
from harness.tiers.traffic import TierTraffic
from harness.workload import Session

MIB = 1 << 20


def session(engine: Any, **more: Any) -> Session:
    return Session(engine, SilentProgress(), None, drop_caches=False, **more)


def process_monitor(engine: Any) -> ProcessMonitor:
    return ProcessMonitor(MonitorContext(engine.processes))


@pytest.fixture
def disk() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tierbench-test-", dir="/var/tmp") as folder:
        yield Path(folder)


def test_a_large_log_does_not_hide_data_that_are_not_cold(disk: Path):
    data, log = disk / "data", disk / "log"
    for folder in (data, log):
        folder.mkdir()
    (data / "table").write_bytes(os.urandom(MIB))
    (data / "redo").symlink_to(log)  # as PostgreSQL reaches its own
    with (log / "redo0").open("wb") as large:
        large.truncate(1024 * MIB)  # preallocated, and nothing in it
    one = session(SimpleNamespace(files=lambda: [data, log]), apart=[log])
    with (data / "table").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) >= 0  # what is mapped cannot be evicted
        one.evict("q1")
    assert one.residency[0].total_bytes == MIB
    assert one.not_cold == [f"q1: {MIB} of {MIB} bytes resident"]


def test_the_files_below_a_modelled_tier_stay_in_memory(disk: Path):
    """The model's page cache is emptied; the disk in memory below it has no latency."""
    for name in ("modelled", "real"):
        (disk / name).mkdir()
        (disk / name / "table").write_bytes(os.urandom(MIB))
    files = [disk / "modelled", disk / "real"]
    one = session(SimpleNamespace(files=lambda: files), modelled=files[:1])
    one.evict("q1")
    assert resident_bytes(files[:1]) == MIB
    assert (one.residency[0].resident_bytes, one.residency[0].total_bytes) == (0, MIB)
    assert one.not_cold == []


def test_what_is_still_being_read_ahead_is_in_the_tier_s_bytes(disk, monkeypatch):
    """A query may end on rows that it has while the kernel fetches on behind them."""
    size = 16 * MIB
    path = disk / "table"
    path.write_bytes(os.urandom(size))
    facts = facts_of_directory(disk)
    traffic = TierTraffic([Tier(TierClaim("ssd", facts.kind, str(disk)), facts)])
    settled: list[bool] = []

    def settle(level: int = 0) -> bool:
        settled.append(TierTraffic.settle(traffic, level))
        return settled[-1]

    monkeypatch.setattr(traffic, "settle", settle)
    me = own_identity()
    engine = SimpleNamespace(processes=lambda: [me], counters=dict, files=lambda: [path])
    one = session(engine, traffic=traffic, monitors=[process_monitor(engine)])
    for _ in range(10):  # a disk may stand still for longer than it is waited for
        evict([path])
        spent, footprint = read_ahead(one, path, size)
        if any(settled):
            break
    assert settled[-1]
    assert spent["io_read_bytes"] >= size
    assert spent["tier_read_bytes[tier=ssd]"] >= spent["io_read_bytes"]
    assert footprint.taken()["touched_file_bytes"] == size


def read_ahead(one: Session, path: Path, size: int) -> tuple[Any, Footprint]:
    """What was spent while the kernel fetched a file ahead, and what was touched."""
    with path.open("rb") as file:
        footprint = one.footprint()
        before = one.counters("before")
        while one._in_flight:  # of others: as many of ours would not be waited for
            before = one.counters("before")
        for at in range(0, size, MIB):  # returns before the last is there
            os.posix_fadvise(file.fileno(), at, MIB, os.POSIX_FADV_WILLNEED)
        return difference(before, one.counters("after")), footprint


@pytest.mark.parametrize("late", [False, True])
def test_operations_that_a_window_s_first_reading_misses_are_those_until_the_engine_s(late: bool):
    """Else the processes are read before a busy server, and nothing is waited for: what is on its
    way to a device belongs to others, too.
    """
    read_order: list[str] = []

    def processes():
        read_order.append("processes")
        return [own_identity()]

    def counters():
        read_order.append("engine")
        return {"commits_count": 1.0}

    published = {"published_after_ns": int(late)}
    engine = SimpleNamespace(processes=processes, counters=counters, files=list, **published)
    one = session(engine, monitors=[process_monitor(engine)])
    for _ in range(2):  # the window's ends
        assert {"cpu_ns", "commits_count"} <= one.counters("under way").keys()
    first = ["processes", "engine"] if late else ["engine", "processes"]
    assert read_order == [*first, "processes", "engine"]


def test_an_observer_follows_queries_and_windows():
    """First readings begin nothing, and neither does what is never timed."""
    marks: list[str] = []
    observed = SimpleNamespace(begin=lambda: marks.append("("), end=lambda: marks.append(")"))
    engine = IdleEngine()
    one = session(engine, observed=observed)
    for moment in ("before", "after", "before untimed", "after untimed"):
        one.counters(moment)
    for _ in range(4):  # two windows
        one.counters("under way")
    assert "".join(marks) == "()()()"
