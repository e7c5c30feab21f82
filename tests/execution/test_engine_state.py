"""Whether a running engine is what its run says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.engine import MemoryPolicy
from harness.execution import engine_state
from harness.execution.engine_state import EngineState, memory_check, outside_cap
from harness.host.process_counters import async_io, hugetlb_bytes
from harness.supervise.process import ProcessId, own_identity
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.numa import Residency


@pytest.mark.parametrize(
    ("mode", "nodes", "pages", "status"),
    [
        ("bind", (1,), {1: 1000}, "passed"),
        ("bind", (1,), {0: 5, 1: 995}, "passed"),
        ("bind", (1,), {0: 50, 1: 950}, "failed"),
        ("preferred", (1,), {0: 5, 1: 995}, "passed"),
        ("preferred", (1,), {0: 300, 1: 700}, "unknown"),
        ("preferred", (1,), {0: 1000}, "failed"),
        ("interleave", (0, 1), {0: 520, 1: 480}, "passed"),
        ("interleave", (0, 1), {0: 600, 1: 400}, "unknown"),
        ("interleave", (0, 1), {0: 1000}, "failed"),
        ("interleave", (0, 1), {0: 400, 1: 400, 2: 200}, "failed"),
        ("bind", (1,), {}, "unknown"),
    ],
)
def test_memory_is_where_the_placement_says(mode, nodes, pages, status):
    check = memory_check(MemoryPolicy(mode, nodes), Residency({}, pages))
    assert check.status == status
    for node, count in pages.items():
        assert f"node {node} {count / sum(pages.values()):.2%}" in check.detail


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
    folder = root / f"proc/{pid}"
    folder.mkdir(parents=True)
    (folder / "maps").write_text(maps)
    (folder / "status").write_text(f"Name:\tpostgres\nHugetlbPages:\t{touched_kb:8} kB\n")


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
    reached: Any = SimpleNamespace(exposed=lambda: "its internal port takes anyone")
    (warning,) = EngineState(reached).warnings(None)
    assert warning.code == "server-exposed"
