"""Where Linux shows a thread: real threads that wait for what is planted."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import eventually

from harness.host.threads import Blocked, Scheduled, Thread, blocked, scheduled

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="other threads' calls are root's to read")


def started(work: Callable[[], object]) -> Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert thread.native_id is not None
    return Thread(os.getpid(), thread.native_id)


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
