"""The memory cap, on the real controller where there is one, else on a directory tree."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from narrowed import present
from patience import PATIENCE_S, eventually

from harness.host.cgroup import (
    MemoryCap,
    available,
    capped_starter,
    memory_cap,
    own_groups_of,
)
from harness.host.cpu_quota import cpu_quotas, throttled, within_quota
from harness.host.page_cache import evict, residency
from harness.host.tmpfs_room import TmpfsRoom
from harness.supervise.credentials import unprivileged
from harness.supervise.supervisor import Supervisor
from harness.supervise.user_files import remove_tree
from harness.units import MIB

LIMIT = 64 * MIB
needs_a_cap = pytest.mark.skipif(
    available().method == "none", reason=f"no cap can be made here: {available().reason}"
)


@pytest.fixture
def supervisor(tmp_path):
    with Supervisor(tmp_path / "state") as supervisor:
        yield supervisor


@contextmanager
def capped(supervisor: Supervisor) -> Iterator[MemoryCap]:
    with memory_cap(LIMIT, supervisor) as cap:
        yield present(cap)


@pytest.fixture
def big_file(tmp_path):
    path = tmp_path / "big"
    path.write_bytes(os.urandom(MIB) * 160)
    evict([path])
    return path


@needs_a_cap
def test_the_cap_covers_the_page_cache(supervisor, big_file):
    with capped(supervisor) as cap:
        assert cap.limit_bytes == LIMIT
        reader = capped_starter(supervisor, cap).spawn(["cat", str(big_file)])
        assert reader.wait(PATIENCE_S) == 0
        cached = residency([big_file])
        events = cap.events()
    assert 0 < present(cached.resident_bytes) <= LIMIT
    assert events.oom_kills == 0
    assert present(events.limit_hits) > 0
    assert LIMIT / 2 < present(events.peak_bytes) <= LIMIT


#: Holds that much memory, then prints a line and waits.
HOLDER = """import sys
held = b"x" * int(sys.argv[1])
print(flush=True)
sys.stdin.readline()
"""


@needs_a_cap
def test_what_is_outside_the_cap_is_not_held_to_it(supervisor):
    command = ["/usr/bin/python3", "-c", HOLDER, str(2 * LIMIT)]
    with capped(supervisor) as cap:
        holder = capped_starter(supervisor, cap).spawn(command, capped=False, pipes=True)
        assert holder.stdout.readline()
        assert present(cap.events().peak_bytes) < LIMIT / 2
        holder.stdin.close()
        assert holder.wait(PATIENCE_S) == 0


#: Writes 16 MiB to the file for each line that it reads, then prints a line.
WRITER = """import sys
for line in sys.stdin:
    with open(sys.argv[1], "ab", 0) as file:
        file.write(bytes(16 << 20))
    print(flush=True)
"""


@pytest.fixture
def tmpfs_directory():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


def is_given(room: TmpfsRoom, expected_bytes: int) -> bool:
    return room.given_bytes == expected_bytes


@needs_a_cap
def test_files_on_a_tmpfs_leave_the_rest_of_the_cap_as_it_is(supervisor, big_file, tmpfs_directory):
    """Three times the limit in a log on a tmpfs; the page cache still has the limit's room."""
    (tmpfs_directory / "restored").write_bytes(bytes(32 * MIB))  # charged to us, not to the cap
    with capped(supervisor) as cap, TmpfsRoom(cap, [tmpfs_directory]) as room:
        starter = capped_starter(supervisor, cap)
        log = tmpfs_directory / "log"
        writer = starter.spawn(["/usr/bin/python3", "-c", WRITER, str(log)], pipes=True)
        for written in range(16, 208, 16):
            writer.stdin.write(b"\n")
            writer.stdin.flush()
            assert writer.stdout.readline()
            assert eventually(partial(is_given, room, written * MIB))
        assert room.peak_bytes >= 192 * MIB
        assert starter.spawn(["cat", str(big_file)]).wait(PATIENCE_S) == 0
        cached = present(residency([big_file]).resident_bytes)
        log.unlink()
        assert eventually(lambda: room.given_bytes == 0)
        assert starter.spawn(["cat", str(big_file)]).wait(PATIENCE_S) == 0
        later = present(residency([big_file]).resident_bytes)
        assert cap.events().oom_kills == 0
    assert LIMIT / 2 < cached <= LIMIT
    assert LIMIT / 2 < later <= LIMIT


#: Holds 16 MiB in a file without a name in the directory, then prints a line and waits.
NAMELESS = """import os, sys
file = os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR)
os.write(file, bytes(16 << 20))
print(flush=True)
sys.stdin.readline()
"""


@needs_a_cap
def test_files_without_a_name_have_room_as_long_as_they_are_open(supervisor, tmpfs_directory):
    tmpfs_directory.chmod(0o1777)
    with capped(supervisor) as cap, TmpfsRoom(cap, [tmpfs_directory]) as room:
        holder = capped_starter(supervisor, cap).spawn(
            ["/usr/bin/python3", "-c", NAMELESS, str(tmpfs_directory)], pipes=True
        )
        assert holder.stdout.readline()
        assert eventually(lambda: room.charged_bytes == 16 * MIB)
        holder.stdin.close()
        assert holder.wait(PATIENCE_S) == 0
        assert eventually(lambda: room.given_bytes == 0)


def nest(directory: Path, levels: int) -> None:
    """Directories in each other, deeper than a path can name."""
    above = os.open(directory, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("deep", dir_fd=above)
        below = os.open("deep", os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = below
    os.close(above)


@needs_a_cap
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_directories_nested_without_end_do_not_stop_it(supervisor, tmpfs_directory, when):
    try:
        if when == "before":
            nest(tmpfs_directory, 1000)
        with capped(supervisor) as cap, TmpfsRoom(cap, [tmpfs_directory]) as room:
            if when == "meanwhile":
                nest(tmpfs_directory, 1000)
            (tmpfs_directory / "log").write_bytes(bytes(16 * MIB))
            assert eventually(lambda: room.charged_bytes == 16 * MIB)
    finally:
        if (tmpfs_directory / "deep").exists():
            remove_tree(tmpfs_directory / "deep")


@needs_a_cap
def test_no_room_is_added_where_nothing_is_on_a_tmpfs(supervisor, tmp_path):
    with capped(supervisor) as cap, TmpfsRoom(cap, [tmp_path]) as room:
        (tmp_path / "log").write_bytes(bytes(MIB))
    assert room.peak_bytes == 0


@needs_a_cap
def test_a_server_that_needs_more_is_killed_and_reported(supervisor):
    with capped(supervisor) as cap:
        greedy = "b = bytearray(200 << 20); print(len(b))"
        executable = sys.executable if os.geteuid() else "/usr/bin/python3"
        process = capped_starter(supervisor, cap).spawn(
            [executable, "-c", greedy], credentials=unprivileged()
        )
        assert process.wait(PATIENCE_S) == -9
        assert cap.events().oom_kills == 1


@needs_a_cap
def test_the_cap_is_gone_with_its_processes(supervisor):
    with capped(supervisor) as cap:
        command = ["sh", "-c", "setsid sleep 1000 & sleep 1000"]
        process = capped_starter(supervisor, cap).spawn(command)
        path = present(cap.path)
        assert path.is_dir()
    assert not path.exists()
    assert process.wait(PATIENCE_S) == -9


def test_where_no_cap_can_be_made_it_says_so(supervisor, monkeypatch, host):
    proc = host("", "")
    monkeypatch.setattr("harness.host.cgroup.available", lambda: available(proc))
    with capped(supervisor) as cap:
        assert (cap.method, cap.path) == ("none", None)
        assert "mounted" in cap.reason
        assert cap.events().peak_bytes is None
        assert capped_starter(supervisor, cap).spawn(["true"]).wait(PATIENCE_S) == 0


# Which way is taken: on directory trees laid out as the kernel does ----------------------


@pytest.fixture
def host(tmp_path):
    """A /proc/self with these mounts (TREE stands for the tree's root) and groups."""

    def make(mountinfo, groups):
        proc = tmp_path / "proc"
        proc.mkdir()
        (proc / "mountinfo").write_text(mountinfo.replace("TREE", str(tmp_path / "cgroup")))
        (proc / "cgroup").write_text(groups)
        return proc

    return make


def group(path, **files):
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.procs").touch()
    for name, text in files.items():
        (path / f"cgroup.{name}").write_text(text)
    return path


V1 = "31 25 0:26 / TREE/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n"
V2 = "35 25 0:30 / TREE rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.parametrize(
    ("root", "directory", "seen"),
    [("/", "/user/1", "user/1"), ("/docker/abc", "/docker/abc", "")],
    ids=["below our own group", "in a container that sees a part of the tree"],
)
def test_v1(host, tmp_path, root, directory, seen):
    expected = group(tmp_path / "cgroup/memory" / seen)
    mount = V1.replace("0:26 /", f"0:26 {root}")
    site = available(host(mount, f"4:memory:{directory}\n3:cpu,cpuacct:/x\n0::/\n"))
    assert (site.method, site.parent) == ("cgroup-v1", expected)


def test_v2_in_the_nearest_group_whose_children_have_the_controller(host, tmp_path):
    app = group(tmp_path / "cgroup/user.slice/app.slice", subtree_control="cpu memory pids\n")
    group(app / "run-1.scope", subtree_control="")
    group(tmp_path / "cgroup/user.slice", subtree_control="memory\n")
    site = available(host(V2, "0::/user.slice/app.slice/run-1.scope\n"))
    assert (site.method, site.parent) == ("cgroup-v2", app)


def test_v2_stays_within_a_cpu_quota(host, tmp_path):
    """A group next to our own would be outside of what limits our processor time."""
    app = group(tmp_path / "cgroup/app.slice", subtree_control="cpu memory\n")
    scope = group(app / "run-1.scope", subtree_control="")
    (app / "cpu.max").write_text("400000 100000\n")
    (scope / "cpu.max").write_text("max 100000\n")
    proc = host(V2, "0::/app.slice/run-1.scope\n")
    assert available(proc).parent == app
    (scope / "cpu.max").write_text("150000 100000\n")
    assert available(proc).method == "none"
    assert str(scope) in available(proc).reason
    assert [quota.processors for quota in cpu_quotas(proc)] == [1.5, 4.0]
    assert (within_quota(8, proc), within_quota(1, proc)) == (2, 1)


def test_a_container_sees_its_quota_at_the_top_of_its_own_tree(host, tmp_path):
    """A control group namespace has the container's group as its root, also of the mount."""
    top = group(tmp_path / "cgroup")
    (top / "cpu.max").write_text("50000 100000\n")
    proc = host(V2, "0::/\n")
    assert [quota.processors for quota in cpu_quotas(proc)] == [0.5]
    assert within_quota(8, proc) == 1


def test_quotas_of_both_versions_and_what_they_have_stopped(host, tmp_path):
    v1 = V1.replace("memory", "cpu")
    directory = group(tmp_path / "cgroup/cpu/docker/1")
    for folder, quota in ((directory, "50000"), (directory.parent, "-1")):
        (folder / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        (folder / "cpu.cfs_period_us").write_text("100000\n")
    (directory / "cpu.stat").write_text("nr_periods 9\nnr_throttled 4\nthrottled_time 7000\n")
    (limit,) = quotas = cpu_quotas(host(v1, "3:cpu:/docker/1\n"))
    assert (limit.directory, limit.processors) == (directory, 0.5)
    assert throttled(quotas) == {"cpu_throttled_count": 4, "cpu_throttled_ns": 7000}
    assert within_quota(4, tmp_path / "proc") == 1
    (directory / "cpu.cfs_quota_us").write_text("250000")
    assert within_quota(4, tmp_path / "proc") == 3  # of 2.5
    assert within_quota(2, tmp_path / "proc") == 2
    (directory / "cpu.stat").write_text("usage_usec 1\nnr_throttled 5\nthrottled_usec 8\n")
    assert throttled(quotas) == {"cpu_throttled_count": 5, "cpu_throttled_ns": 8000}
    assert throttled([]) == {}


#: What a process reports from within a group, once its quota has stopped it.
_IN_A_GROUP = """
import json, os, pathlib, sys
(pathlib.Path(sys.argv[1]) / "cgroup.procs").write_text(str(os.getpid()))
from harness.execution.engine_state import host_facts_of_run
from harness.host.confounders import uncontrolled
from harness.host.cpu_quota import cpu_quotas, throttled, within_quota
quotas = cpu_quotas()
while throttled(quotas)["cpu_throttled_count"] < 2:
    pass
print(json.dumps([within_quota(2), host_facts_of_run(), throttled(quotas)["cpu_throttled_ns"],
                  [warning.code for warning in uncontrolled()]]))
"""


def _cpu_group() -> Path | None:
    """A new control group with a quota of half a processor; None where none can be made."""
    for parent in own_groups_of("cpu"):
        group = parent / f"tierbench-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / "cpu.max").exists():
                (group / "cpu.max").write_text("50000 100000")
            else:
                (group / "cpu.cfs_quota_us").write_text("50000")
        except OSError:  # its parent does not give it the controller
            group.rmdir()
            continue
        return group
    return None


def test_a_real_quota_is_named_and_its_stops_are_counted() -> None:
    group = _cpu_group()
    if group is None:
        pytest.skip("no control group with a quota can be made here")
    try:
        command = [sys.executable, "-c", _IN_A_GROUP, str(group)]
        text = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S)
    finally:
        group.rmdir()
    processors, state, stopped_ns, codes = json.loads(text.stdout)
    assert (processors, state) == (1, {"cpu_quota": "0.5 processors"})
    assert stopped_ns > 0 and "cpu-quota" in codes


def test_v2_limits_as_written(tmp_path):
    """File names and values of cgroup-v2.rst; the controller itself is not on every test host."""
    from harness.host.cgroup import _make_group

    path = tmp_path / "tierbench-1"
    mkdir = type(path).mkdir
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(path), "mkdir", lambda self: (mkdir(self), swap_file(self)))
        cap = _make_group(path, LIMIT, "cgroup-v2")
    assert (path / "memory.max").read_text() == str(LIMIT)
    assert (path / "memory.swap.max").read_text() == "0"
    (path / "memory.events").write_text("low 0\nhigh 0\nmax 17\noom 1\noom_kill 1\n")
    events = cap.events()
    assert events.peak_bytes is None  # before Linux 5.19
    assert (events.limit_hits, events.oom_kills) == (17, 1)


def swap_file(path):
    (path / "memory.swap.max").touch()


def test_v2_of_another_user(host, tmp_path, monkeypatch):
    group(tmp_path / "cgroup", subtree_control="memory\n")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    proc = host(V2, "0::/\n")
    site = available(proc)
    assert site.method == "none"
    assert "not delegated" in site.reason and "systemd" in site.reason

    (tmp_path / "run" / "systemd").mkdir(parents=True)
    (tmp_path / "run" / "systemd" / "private").touch()
    manager = group(
        tmp_path / "cgroup/user.slice/user-1000.slice/user@1000.service",
        controllers="cpu memory pids\n",
    )
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert (available(proc).method, available(proc).parent) == ("systemd-run", manager)
