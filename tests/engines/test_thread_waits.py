"""Waits of a library's threads, on a real process that waits in what a log and tables would."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from patience import eventually

from engines._thread_waits import ThreadObserver
from harness.errors import RunFailed
from harness.supervise.process import ProcessId, process_identity
from harness.waits import Observation

#: Threads that write to a full log, read a table, and wait for another thread; one is idle.
PROGRAM = """
import os, sys, threading
log, table, *waiting = sys.argv[1:]

def named(name, work):
    def run():
        open(f"/proc/self/task/{threading.get_native_id()}/comm", "w").write(name)
        work()
    threading.Thread(target=run).start()

def fill():
    end = os.open(log, os.O_RDWR)
    while True:
        os.write(end, bytes(4096))

lock = threading.Lock()
lock.acquire()
if "log" in waiting:
    named("session", fill)
named("session", lambda: os.read(os.open(table, os.O_RDWR), 1))
named("session", lock.acquire)
named("background", lock.acquire)
"""

ENDLESS = "select sum(a.range * b.range) from range(10000000) a, range(10000000) b"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    names = str(tmp_path / "7.log"), str(tmp_path / "7.sst")
    for name in names:
        os.mkfifo(name)
    return names


def events(files: Sequence[str], *waiting: str) -> Generator[set[str], None, None]:
    """What is observed of the program's sessions, again and again."""
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *files, *waiting])
    try:
        identity = process_identity(process.pid)
        assert identity is not None
        observer = ThreadObserver(
            lambda: [identity],
            foreground=lambda name: name == "session",
            is_log=lambda path: path.endswith(".log"),
            idle=frozenset({"poll"}),
        )
        while True:
            yield {one.event for one in observer.observe() if one != Observation("running")}
    finally:
        process.kill()
        process.wait()


def test_calls_and_files_say_what_a_thread_waits_for(files: Sequence[str]) -> None:
    seen = events(files)
    assert eventually(lambda: next(seen) == {"read data", "futex"})
    seen.close()


def test_threads_that_wait_while_one_writes_the_log_wait_for_it(files: Sequence[str]) -> None:
    seen = events(files, "log")
    expected = {"write log", "read data", "futex group commit"}
    assert eventually(lambda: next(seen) == expected)
    seen.close()


def test_a_thread_that_begins_or_ends_is_noticed_between_two_lists() -> None:
    """Threads are listed once a second, and this clock stands still."""
    own = process_identity(os.getpid())
    assert own is not None
    lists: list[int] = []

    def listed() -> list[ProcessId]:
        lists.append(1)
        return [own]

    observer = ThreadObserver(listed, None, bool, frozenset(), clock=lambda: 0.0)
    enough = threading.Event()
    waits = [threading.Thread(target=enough.wait) for _ in range(2)]
    seen = len(observer.observe())
    for number, thread in enumerate(waits, 1):
        thread.start()
        assert len(observer.observe()) == seen + number
    assert len(lists) == 3
    assert len(observer.observe()) == seen + 2
    assert len(lists) == 3
    enough.set()
    for thread in waits:
        thread.join()
    assert eventually(lambda: len(observer.observe()) == seen)
    observer.close()


def test_each_event_belongs_to_a_resource() -> None:
    observer = ThreadObserver(tuple, bool, bool, frozenset({"poll"}))
    events = ("pread data", "fdatasync data", "write log", "fsync log", "futex", "call 9")
    resources = ["data read", "data write", "log write", "log sync", "lock", "other"]
    assert [observer.resource(event) for event in events] == resources
    assert "client" in observer.events.values()


def test_duckdb_s_threads_run_while_it_executes_and_are_idle_otherwise(lab: Any) -> None:
    engine = lab.engine("duckdb")
    engine.initialise(lab.places())
    engine.start()
    try:
        observer = engine.wait_observer()
        assert eventually(lambda: not observer.observe())
        connection = engine.connect()

        def run() -> None:
            with suppress(RunFailed):  # the worker is killed
                connection.execute(ENDLESS)

        thread = threading.Thread(target=run)
        thread.start()
        assert eventually(lambda: any(one.state == "running" for one in observer.observe()))
    finally:
        engine.kill()
    thread.join()
