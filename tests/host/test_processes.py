"""Processes and threads: their counters, processors, waits and limits."""

import os
import resource
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from narrowed import present
from patience import PATIENCE_S, eventually
from recorded_kernel import write
from waiting_child import child, resume

from harness.drivers.loadgen.driver import check_connections
from harness.engine import ProcessId
from harness.errors import UsageError
from harness.host.cgroup import capped_starter
from harness.host.process_counters import read_counters
from harness.host.processors import format_cpus, resolve_cpus
from harness.host.threads import (
    Blocked,
    KeptFiles,
    Scheduled,
    Thread,
    affinity_check,
    blocked,
    scheduled,
)
from harness.supervise.process import descendants, own_identity, process_identity
from harness.supervise.supervisor import Supervisor
from harness.tiers.linux.kernel import Kernel


def test_a_process_that_works_has_cpu_time_and_one_that_is_gone_adds_nothing():
    me = own_identity()
    before = read_counters([me])
    begun = time.process_time()
    while time.process_time() < begun + 0.1:
        sum(i * i for i in range(20_000))
    after = read_counters([me, ProcessId(me.pid, me.start_ticks + 1)])
    assert after["cpu_ns"] > before["cpu_ns"]
    assert set(after) == {
        "cpu_ns", "rss_bytes", "io_read_bytes", "io_write_bytes",
        "syscall_read_bytes", "syscall_write_bytes",
    }  # fmt: skip


def test_a_process_that_ends_while_it_is_read_hides_no_other_s_bytes(monkeypatch):
    """After its file was opened: the kernel then answers a read as if it had never been."""
    read_text = Path.read_text
    with child("input()") as (process, identity):
        both = [own_identity(), identity]

        def read(path, *arguments, **options):
            if str(path) == f"/proc/{process.pid}/io":
                raise ProcessLookupError
            return read_text(path, *arguments, **options)

        monkeypatch.setattr(Path, "read_text", read)
        assert read_counters(both)["syscall_read_bytes"] > 0


def test_written_bytes_are_counted(tmp_path):
    script = f"import os; f=open({str(tmp_path / 'x')!r},'wb'); f.write(bytes(1<<20)); f.flush(); os.fsync(f.fileno()); input()"  # noqa: E501
    with child(script) as (process, identity):
        while read_counters([identity]).get("io_write_bytes", 0) < 1 << 20:
            assert process.poll() is None


def test_what_is_read_from_memory_is_counted_by_the_call_and_not_as_fetched():
    """Reads are counted as on DAX, whose reads pass no block layer: /dev/zero has none either."""
    script = "input(); f=open('/dev/zero','rb',0); [f.read(1<<20) for _ in range(256)]; print('x', flush=True); input()"  # noqa: E501
    with child(script) as (process, identity):
        before = read_counters([identity])
        resume(process)
        assert process.stdout.readline() == "x\n"
        after = read_counters([identity])
    assert after["syscall_read_bytes"] - before["syscall_read_bytes"] >= 256 << 20
    # Less than that: of its own program it may miss what the kernel has taken from the page cache.
    assert after["io_read_bytes"] - before["io_read_bytes"] < 64 << 20


def test_children_that_end_are_neither_lost_nor_counted_twice():
    """A server's processes end with their connections: sums never go back, nor too far."""
    script = """
import os, select, sys
sys.stdin.readline(); print("begun", flush=True)
ended = 0
while ended < 30 or not select.select([sys.stdin], [], [], 0)[0]:
    ended += 1
    if os.fork() == 0:
        sum(i * i for i in range(20_000))
        os._exit(0)
    os.wait()
sys.stdin.readline(); print("x", flush=True); sys.stdin.readline()
"""
    with child(script) as (process, identity):
        resume(process)
        assert process.stdout.readline() == "begun\n"  # or it would read both lines at once
        sums: list[float] = []
        while len(sums) < 15 or not select.select([process.stdout], [], [], 0)[0]:
            if len(sums) == 15:
                resume(process)  # that is enough
            listed = [identity, *(stat.id for stat in descendants(process.pid))]
            sums.append(read_counters(listed)["cpu_ns"])
        final = read_counters([identity])["cpu_ns"]
    assert sums == sorted(sums)
    assert sums[-1] <= final


# Processors -----------------------------------------------------------------------


@pytest.fixture
def two_sockets(tmp_path: Path) -> Kernel:
    """A sysfs tree as Documentation/ABI/stable/sysfs-devices-system-cpu has it.

    Two sockets of two cores with two threads each; processor 7 is offline.
    """
    base = "sys/devices/system"
    for cpu in range(8):
        write(tmp_path, f"{base}/cpu/cpu{cpu}/topology/physical_package_id", f"{cpu // 2 % 2}\n")
    write(tmp_path, f"{base}/cpu/online", "0-6\n")
    for node, cpus in enumerate(("0-1,4-5", "2-3,6-7", "")):
        write(tmp_path, f"{base}/node/node{node}/cpulist", f"{cpus}\n")
    return Kernel(tmp_path)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("socket:0", "0-1,4-5"), ("socket:1", "2-3,6"), ("node:1", "2-3,6"), ("1-2", "1-2")],
)
def test_a_socket_is_its_processors_that_are_online(two_sockets, text, cpus):
    assert format_cpus(resolve_cpus(text, two_sockets, range(7))) == cpus


@pytest.mark.parametrize(
    ("text", "problem"),
    [("7", "7 cannot be used"), ("socket:2", "no such socket"), ("node:2", "no such node"),
     ("node:9", "no such node")],
)  # fmt: skip
def test_processors_that_are_not_there_are_refused(two_sockets, text, problem):
    with pytest.raises(UsageError, match=problem):
        resolve_cpus(text, two_sockets, range(7))


def test_the_socket_of_the_data_is_that_of_their_tiers_node(two_sockets: Kernel) -> None:
    """A node without processors, and none at all, are of socket 0."""
    cpus = {
        node: format_cpus(resolve_cpus("socket:data", two_sockets, range(7), node))
        for node in (0, 1, 2, None)
    }
    assert cpus == {0: "0-1,4-5", 1: "2-3,6", 2: "0-1,4-5", None: "0-1,4-5"}


def test_a_cpuset_narrows_a_socket(two_sockets: Kernel) -> None:
    assert resolve_cpus("socket:0", two_sockets, {1, 2, 3}) == (1,)
    with pytest.raises(UsageError, match="no processor"):
        resolve_cpus("socket:0", two_sockets, {2})


def test_a_supervised_process_and_its_children_stay_on_their_processors(tmp_path: Path) -> None:
    last = max(os.sched_getaffinity(0))
    with Supervisor(tmp_path / "state") as supervisor:
        start = capped_starter(supervisor, None, (last,)).spawn
        log = tmp_path / "log"
        start(["sh", "-c", "grep Cpus_allowed_list /proc/self/status"], log=log).wait(PATIENCE_S)
        assert log.read_text().split() == ["Cpus_allowed_list:", str(last)]
        pinned = process_identity(start(["sleep", "60"]).pid)
        free = process_identity(supervisor.spawn(["sleep", "60"]).pid)
        assert pinned and free
        assert affinity_check((last,), [pinned]).status == "passed"
        assert affinity_check((last + 1,), [pinned, free]).status == "failed"
        if len(os.sched_getaffinity(0)) > 1:
            assert affinity_check((last,), [pinned, free]).status == "failed"
    assert affinity_check((last,), [pinned]).status == "unknown"


# Where Linux shows a thread -------------------------------------------------------


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="other threads' calls are root's to read")


def started(work: Callable[[], object]) -> Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return Thread(os.getpid(), present(thread.native_id))


@as_root
def test_a_read_names_its_file(tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "fifo")
    end = os.open(path, os.O_RDWR)
    thread = started(lambda: os.read(end, 1))
    try:
        assert eventually(lambda: blocked(thread) == Blocked("read", str(path)))
    finally:
        os.write(end, b"x")
        os.close(end)


@as_root
def test_a_lock_a_sleep_and_computing_differ() -> None:
    lock, ends = threading.Lock(), threading.Event()

    def compute() -> None:
        while not ends.is_set():
            pass

    with lock:
        waits, computes = started(lock.acquire), started(compute)
        assert eventually(lambda: blocked(waits) == Blocked("futex"))
        assert eventually(lambda: blocked(computes) is None)
        sleeps = started(lambda: time.sleep(1e6))
        assert eventually(lambda: blocked(sleeps) == Blocked("sleep until"))
        before = scheduled(computes) or Scheduled()
        assert eventually(lambda: (scheduled(computes) or before) > before)
    ends.set()


# Files of /proc that stay open ----------------------------------------------------


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_kept_file_is_read_as_it_is_now(tmp_path: Path) -> None:
    path, files = tmp_path / "file", KeptFiles()
    for text in ("one", "two"):
        path.write_text(text)
        assert files.read(str(path)) == text
    files.close()


def test_an_ended_process_is_an_error_and_leaves_nothing_open() -> None:
    before, files = descriptors(), KeptFiles()
    with subprocess.Popen(["sleep", "1000"]) as process:
        path = f"/proc/{process.pid}/schedstat"
        assert files.read(path)
        process.kill()
    for error in (ProcessLookupError, FileNotFoundError):  # kept, then opened again
        with pytest.raises(error):
            files.read(path)
    assert descriptors() == before


# Limits of this host --------------------------------------------------------------


SERVER: Any = SimpleNamespace(kind="managed", name="some server")


def test_more_users_than_the_host_has_tasks_are_refused_before_anything_is_loaded() -> None:
    with pytest.raises(UsageError) as refused:
        check_connections(10_000_000, SERVER, {}, "users or connections")
    assert "users or connections" in refused.value.hint
    check_connections(10, SERVER, {}, "users or connections")


def test_open_files_are_those_of_one_client_process() -> None:
    """200 connections and 100 files: refused of one process, taken of four."""
    script = (
        "from types import SimpleNamespace as S; from harness.drivers.loadgen.driver import "
        "check_connections as c; import sys; "
        "c(200, S(kind='managed', name='x'), {}, 'users', int(sys.argv[1]))"
    )

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    def ends(clients: int) -> str:
        argv = [sys.executable, "-c", script, str(clients)]
        done = subprocess.run(argv, check=False, preexec_fn=lower, capture_output=True, text=True)
        return done.stderr if done.returncode else ""

    assert "100 open files (ulimit -n 100)" in ends(1)
    assert ends(4) == ""
