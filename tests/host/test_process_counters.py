"""Counters of processes: sums of what can be read, and nothing instead of a wrong zero."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from pathlib import Path

from narrowed import present

from harness.engine import ProcessId
from harness.host.process_counters import read_counters
from harness.supervise.process import descendants, own_identity, process_identity


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
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        both = [own_identity(), present(process_identity(child.pid))]

        def read(path, *arguments, **options):
            if str(path) == f"/proc/{child.pid}/io":
                raise ProcessLookupError
            return read_text(path, *arguments, **options)

        monkeypatch.setattr(Path, "read_text", read)
        assert read_counters(both)["syscall_read_bytes"] > 0


def test_written_bytes_are_counted(tmp_path):
    script = f"import os; f=open({str(tmp_path / 'x')!r},'wb'); f.write(bytes(1<<20)); f.flush(); os.fsync(f.fileno()); input()"  # noqa: E501
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as child:
        identity = process_identity(child.pid)
        assert identity is not None
        while read_counters([identity]).get("io_write_bytes", 0) < 1 << 20:
            assert child.poll() is None
        child.communicate(b"\n")


def test_what_is_read_from_memory_is_counted_by_the_call_and_not_as_fetched(tmp_path):
    """As on DAX, whose reads pass no block layer: /dev/zero has none either."""
    script = "input(); f=open('/dev/zero','rb',0); [f.read(1<<20) for _ in range(256)]; print('x', flush=True); input()"  # noqa: E501
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        identity = process_identity(child.pid)
        assert identity is not None and child.stdin and child.stdout
        before = read_counters([identity])
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"x\n"
        after = read_counters([identity])
        child.communicate(b"\n")
    assert after["syscall_read_bytes"] - before["syscall_read_bytes"] >= 256 << 20
    # Less than that: of its own program it may miss what the kernel has taken from the page cache.
    assert after["io_read_bytes"] - before["io_read_bytes"] < 64 << 20


def test_children_that_end_are_neither_lost_nor_counted_twice():
    """As a server's processes do when their connections end: sums never go back, nor too far."""
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
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        identity = process_identity(child.pid)
        assert identity is not None and child.stdin and child.stdout
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"begun\n"  # or it would read both lines at once
        sums: list[float] = []
        while len(sums) < 15 or not select.select([child.stdout], [], [], 0)[0]:
            if len(sums) == 15:
                child.stdin.write(b"\n")  # that is enough
                child.stdin.flush()
            listed = [identity, *(stat.id for stat in descendants(child.pid))]
            sums.append(read_counters(listed)["cpu_ns"])
        final = read_counters([identity])["cpu_ns"]
        child.communicate(b"\n")
    assert sums == sorted(sums)
    assert sums[-1] <= final
