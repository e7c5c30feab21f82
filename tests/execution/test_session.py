"""A session's report of an engine: coldness, counters, where its memory is."""

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from idle_engine import IdleEngine
from recorded_kernel import write

from harness.counters import difference
from harness.engine import MemoryPolicy
from harness.execution import engine_state
from harness.execution.engine_state import (
    EngineState,
    demotion_check,
    memory_check,
    outside_cap,
    unused_memory,
)
from harness.host.footprint import Footprint
from harness.host.page_cache import evict, resident_bytes
from harness.host.process_maps import async_io, hugetlb_bytes, sync_overrides
from harness.iotrace.page import LIBRARY
from harness.monitors import MonitorContext
from harness.monitors.process import ProcessMonitor
from harness.progress import SilentProgress
from harness.supervise.process import ProcessId, own_identity
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.model import Tier, TierClaim
from harness.tiers.linux.numa import GroupMemory, Node, NodeResidency
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
    engine_session = session(SimpleNamespace(files=lambda: [data, log]), apart=[log])
    with (data / "table").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) >= 0  # what is mapped cannot be evicted
        engine_session.evict("q1")
    assert engine_session.residency[0].total_bytes == MIB
    assert engine_session.not_cold == [f"q1: {MIB} of {MIB} bytes resident"]


def test_the_files_below_a_modelled_tier_stay_in_memory(disk: Path):
    """The model's page cache is emptied; the disk in memory below it has no latency."""
    for name in ("modelled", "real"):
        (disk / name).mkdir()
        (disk / name / "table").write_bytes(os.urandom(MIB))
    files = [disk / "modelled", disk / "real"]
    engine_session = session(SimpleNamespace(files=lambda: files), modelled=files[:1])
    engine_session.evict("q1")
    assert resident_bytes(files[:1]) == MIB
    assert (
        engine_session.residency[0].resident_bytes,
        engine_session.residency[0].total_bytes,
    ) == (0, MIB)
    assert engine_session.not_cold == []


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
    engine_session = session(engine, traffic=traffic, monitors=[process_monitor(engine)])
    for _ in range(10):  # a disk may stand still for longer than it is waited for
        evict([path])
        spent, footprint = read_ahead(engine_session, path, size)
        if any(settled):
            break
    assert settled[-1]
    assert spent["io_read_bytes"] >= size
    assert spent["tier_read_bytes[tier=ssd]"] >= spent["io_read_bytes"]
    assert footprint.taken()["touched_file_bytes"] == size


def read_ahead(engine_session: Session, path: Path, size: int) -> tuple[Any, Footprint]:
    """Return the counters and the footprint while the kernel fetched a file ahead."""
    with path.open("rb") as file:
        footprint = engine_session.footprint()
        before = engine_session.counters("before")
        while engine_session._in_flight:  # of others: as many of ours would not be waited for
            before = engine_session.counters("before")
        for at in range(0, size, MIB):  # returns before the last is there
            os.posix_fadvise(file.fileno(), at, MIB, os.POSIX_FADV_WILLNEED)
        return difference(before, engine_session.counters("after")), footprint


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
    engine_session = session(engine, monitors=[process_monitor(engine)])
    for _ in range(2):  # the window's ends
        assert {"cpu_ns", "commits_count"} <= engine_session.counters("under way").keys()
    first = ["processes", "engine"] if late else ["engine", "processes"]
    assert read_order == [*first, "processes", "engine"]


def test_an_observer_follows_queries_and_windows():
    """First readings begin nothing, and neither does what is never timed."""
    marks: list[str] = []
    observed = SimpleNamespace(begin=lambda: marks.append("("), end=lambda: marks.append(")"))
    engine = IdleEngine()
    engine_session = session(engine, observed=observed)
    for moment in ("before", "after", "before untimed", "after untimed"):
        engine_session.counters(moment)
    for _ in range(4):  # two windows
        engine_session.counters("under way")
    assert "".join(marks) == "()()()"


# Whether a running engine is what its run says ------------------------------------


def residency(mib: dict[int, float]) -> NodeResidency:
    return NodeResidency({}, {node: int(count * (1 << 20)) for node, count in mib.items()})


@pytest.mark.parametrize(
    ("mode", "nodes", "pages", "status"),
    [
        ("bind", (1,), {1: 1000}, "passed"),
        ("bind", (1,), {0: 5, 1: 995}, "passed"),
        ("bind", (1,), {0: 50, 1: 950}, "failed"),
        ("bind", (1,), {0: 0.3, 1: 18}, "passed"),  # the few pages of a small server
        ("preferred", (1,), {0: 5, 1: 995}, "passed"),
        ("preferred", (1,), {0: 300, 1: 700}, "unknown"),
        ("preferred", (1,), {0: 1000}, "failed"),
        ("interleave", (0, 1), {0: 520, 1: 480}, "passed"),
        ("interleave", (0, 1), {0: 600, 1: 400}, "unknown"),
        ("interleave", (0, 1), {0: 1000}, "failed"),
        ("interleave", (0, 1), {0: 400, 1: 400, 2: 200}, "failed"),
        ("bind", (1,), {}, "unknown"),
        ("tiered", (0, 2), {0: 900, 2: 100}, "passed"),
        ("tiered", (0, 2), {0: 900, 1: 100}, "failed"),
        ("weighted", (0, 2), {0: 750, 2: 250}, "unknown"),  # no weights are known
    ],
)
def test_memory_is_where_the_placement_says(mode, nodes, pages, status):
    check = memory_check(MemoryPolicy(mode, nodes), residency(pages))
    assert check.status == status
    for node, count in pages.items():
        assert f"node {node} {count / sum(pages.values()):.2%}" in check.detail


@pytest.mark.parametrize(
    ("preferred", "free_kb", "pages", "status"),
    [
        (0, 5, {0: 250, 2: 750}, "passed"),  # DRAM is full, and slower memory comes next
        (0, 50, {0: 250, 2: 750}, "failed"),
        (0, 50, {0: 900, 2: 100}, "unknown"),
        (0, 5, {0: 900, 1: 100}, "unknown"),  # other DRAM
        (2, 5, {0: 900, 2: 100}, "failed"),  # slower memory was meant to come first
    ],
)
def test_slower_memory_comes_after_full_dram(tmp_path, preferred, free_kb, pages, status):
    for node, cpus in ((0, "0-1"), (1, "2-3"), (2, "")):
        folder = f"sys/devices/system/node/node{node}"
        meminfo = f"Node {node} MemTotal: 100 kB\nNode {node} MemFree: {free_kb} kB\n"
        write(tmp_path, f"{folder}/cpulist", cpus)
        write(tmp_path, f"{folder}/meminfo", meminfo)
    policy = MemoryPolicy("preferred", (preferred,))
    assert memory_check(policy, residency(pages), None, Kernel(tmp_path)).status == status


@pytest.mark.parametrize(
    ("mode", "nodes", "pages", "warned"),
    [
        ("tiered", (0, 2), {0: 1000}, True),
        ("tiered", (0, 2), {0: 900, 2: 100}, False),
        ("preferred", (0,), {0: 995, 2: 5}, True),
        ("preferred", (0,), {0: 900, 2: 100}, False),
        ("preferred", (2,), {2: 1000}, False),
        ("bind", (0,), {0: 1000}, False),
        ("tiered", (0, 2), {}, False),  # no numa_maps
    ],
)
def test_slower_memory_without_a_page_is_a_warning(mode, nodes, pages, warned):
    host = [Node(0, 1, 1, "0-3", ()), Node(1, 0, 0, "", ()), Node(2, 1, 1, "", ())]
    warnings = unused_memory(MemoryPolicy(mode, nodes), NodeResidency({}, pages), host)
    assert [warning.code for warning in warnings] == ["slower-memory-not-used"] * warned


@pytest.mark.parametrize(("cached", "warned"), [({0: 500, 2: 500}, False), ({0: 500}, True)])
def test_a_page_cache_on_slower_memory_uses_it(cached, warned):
    host = [Node(0, 1, 1, "0-3", ()), Node(2, 1, 1, "", ())]
    residency, group = NodeResidency({}, {0: 1000}), GroupMemory(cached, {})
    warnings = unused_memory(MemoryPolicy("preferred", (0,)), residency, host, group)
    assert len(warnings) == warned
    assert all("page cache" in warning.context for warning in warnings)


@pytest.mark.parametrize(
    ("mode", "pages", "demoted", "changed", "status"),
    [
        ("tiered", {0: 900, 2: 100}, 12.0, {}, "passed"),
        ("tiered", {0: 900, 2: 100}, 0.0, {}, "unknown"),
        ("tiered", {0: 900, 2: 100}, None, {}, "unknown"),
        ("tiered", {0: 900, 2: 100}, 12.0, {"/demotion_enabled": "true"}, "failed"),
        ("tiered", {0: 1000}, 0.0, {}, None),  # all fits in the upper tier
        ("preferred", {0: 900, 2: 100}, 0.0, {}, None),
    ],
)
def test_tiered_memory_without_demotions_is_not_passed(mode, pages, demoted, changed, status):
    policy, residency = MemoryPolicy(mode, (0, 2)), NodeResidency({}, pages)
    check = demotion_check(policy, residency, demoted, changed)
    assert (check and check.status) == status


@pytest.mark.parametrize(
    ("pages", "status"),
    [
        ({0: 750, 2: 250}, "passed"),
        ({0: 770, 2: 230}, "passed"),
        ({0: 800, 2: 200}, "unknown"),
        ({0: 900, 2: 100}, "failed"),
        ({0: 250, 2: 750}, "failed"),
        ({0: 500, 2: 500}, "failed"),
        ({0: 700, 1: 60, 2: 240}, "failed"),
    ],
)
def test_weighted_memory_has_its_shares(pages, status):
    check = memory_check(MemoryPolicy("weighted", (0, 2), (3, 1)), residency(pages))
    assert check.status == status
    assert "by 3:1" in check.detail


def engine(*processes: ProcessId) -> Any:
    return SimpleNamespace(processes=lambda: processes, exposed=lambda: "")


def test_a_cap_that_holds_no_process_of_the_engine_is_none() -> None:
    me = own_identity()
    ended = ProcessId(me.pid, me.start_ticks - 1)

    def cap(*pids: int) -> Any:
        return SimpleNamespace(pids=lambda: list(pids))

    assert outside_cap(cap(), engine())
    assert outside_cap(cap(), engine(me))
    assert outside_cap(cap(1), engine(me))
    assert not outside_cap(cap(me.pid), engine(me))
    assert not outside_cap(cap(1), engine(ended))


#: Of a PostgreSQL 18 with huge_pages=on: the server, and a backend that has shared its buffers.
MAPS = """\
5577e7000000-5577e7200000 r--p 00000000 fe:00 1234 /usr/lib/postgresql/18/bin/postgres
7f0000000000-7f0011400000 rw-s 00000000 00:0f 4097                       /anon_hugepage (deleted)
7f0020000000-7f0020001000 rw-s 00000000 00:01 77 /dev/zero (deleted)
"""


def process(root: Path, pid: int, maps: str, touched_kb: int = 0) -> None:
    write(root, f"proc/{pid}/maps", maps)
    write(root, f"proc/{pid}/status", f"Name:\tpostgres\nHugetlbPages:\t{touched_kb:8} kB\n")


def test_shared_huge_pages_count_once_touched_or_not(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    process(tmp_path, 1, MAPS, touched_kb=2048)
    process(tmp_path, 2, MAPS)
    process(tmp_path, 3, "", touched_kb=4096)
    assert hugetlb_bytes([1, 2], kernel) == 138 * 2 * 1024 * 1024
    assert hugetlb_bytes([3], kernel) == 4096 * 1024
    assert hugetlb_bytes([4], kernel) == 0


def test_the_interface_of_asynchronous_io_is_read_from_linux(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    process(tmp_path, 1, "7f00-7f10 rw-s 00000000 00:0e 5 /[aio] (deleted)\n")
    for pid, target in ((2, "anon_inode:[io_uring]"), (3, "/data/ibdata1")):
        process(tmp_path, pid, MAPS)
        (tmp_path / f"proc/{pid}/fd").mkdir()
        (tmp_path / f"proc/{pid}/fd/7").symlink_to(target)
    assert async_io([1, 3], kernel) == "aio"
    assert async_io([2, 3], kernel) == "io_uring"
    assert async_io([1, 2], kernel) == "aio and io_uring"
    assert async_io([3, 4], kernel) == "none"


@pytest.mark.parametrize(
    ("preloaded", "symbols", "mapped", "overrides"),
    [
        ("/lib/libsafe.so", "open fsync", "/lib/libsafe.so", True),
        ("/usr/lib/$LIB/libsafe.so", "fdatasync", "/lib/libsafe.so", True),
        ("/lib/libaudit.so:/lib/libsafe.so", "open execve", "/lib/libsafe.so", False),
        ("/lib/libsafe.so", "open fsync", "/lib/libc.so.6", False),
        ("", "open fsync", "/lib/libsafe.so", False),
        ("", "fsync", "/lib/libeatmydata.so", True),
    ],
)
def test_a_library_that_the_host_preloads_in_place_of_syncs_is_reported(
    tmp_path, monkeypatch, preloaded, symbols, mapped, overrides
):
    line = "7f00-7f10 r-xp 00000000 fe:00 5          "
    process(tmp_path, 1, f"{line}{mapped}\n")
    process(tmp_path, 2, f"{line}{mapped}\n{line}/run/libiotrace.so\n")
    write(tmp_path, mapped[1:], symbols.replace(" ", "\0"))
    write(tmp_path, "etc/ld.so.preload", preloaded)
    overrides_seen = sync_overrides([1, 2, 3], LIBRARY, Kernel(tmp_path))
    assert overrides_seen == ({mapped} if overrides else set())
    # What the I/O trace is loaded into calls Linux.
    assert sync_overrides([2], LIBRARY, Kernel(tmp_path)) == set()
    monkeypatch.setattr(engine_state, "sync_overrides", lambda pids, first: overrides_seen)
    state = EngineState(engine(own_identity()))
    state.observe()
    codes = [warning.code for warning in state.warnings(None)]
    assert codes == ["commits-not-durable"] * overrides


def test_what_no_setting_decides_is_a_condition_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([2 << 20, 2 << 20, 0])
    monkeypatch.setattr(engine_state, "hugetlb_bytes", lambda pids: next(sizes))
    monkeypatch.setattr(engine_state, "charged_to_groups", lambda: False)
    cap: Any = SimpleNamespace(path=Path("/cap"), limit_bytes=1 << 30)
    interfaces = iter(["io_uring", "io_uring", "none"])
    monkeypatch.setattr(engine_state, "async_io", lambda pids: next(interfaces))
    state = EngineState(engine(own_identity()))
    state.observe()
    state.observe()
    assert state.facts()["async_io"] == "io_uring"
    assert state.facts()["huge_pages"] == "2 MiB"
    assert [warning.code for warning in state.warnings(cap)] == ["huge-pages-outside-limit"]
    assert state.warnings(None) == []
    state.observe()
    assert state.facts()["huge_pages"] == "2 MiB or none"
    assert [warning.code for warning in state.warnings(None)] == ["huge-pages-vary"]


def test_a_server_that_other_users_reach_is_reported() -> None:
    reached: Any = SimpleNamespace(name="voltdb", exposed=lambda: "it takes anyone")
    (warning,) = EngineState(reached).warnings(None)
    assert warning.code == "server-exposed"
