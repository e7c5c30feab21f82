"""Shared memory of processes that are killed goes with them."""

import ctypes
import os
import signal
import sys
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest
from patience import PATIENCE_S, eventually

from harness.supervise.segments import remove_segment
from harness.supervise.supervisor import Supervisor

#: Makes a POSIX and a System V segment, names them, ignores SIGTERM, and stays.
MAKER = """
import ctypes, signal, sys, time
from multiprocessing.shared_memory import SharedMemory
signal.signal(signal.SIGTERM, signal.SIG_IGN)
posix = SharedMemory(create=True, size=4096)
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
number = libc.shmget(0, 4096, 0o600 | 0o1000)
libc.shmat(number, None, 0)
print(posix.name, number, flush=True)
time.sleep(1000)
"""


def _sysv():
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return {int(line.split()[1]) for line in lines}


def _made(process):
    name, number = process.stdout.readline().decode().split()
    posix = Path("/dev/shm") / name
    assert posix.exists()
    assert int(number) in _sysv()
    return posix, int(number)


def test_a_killed_process_leaves_no_shared_memory(supervisor):
    process = supervisor.spawn([sys.executable, "-c", MAKER], pipes=True)
    posix, number = _made(process)
    process.kill()
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    assert not posix.exists()
    assert number not in _sysv()


@pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")
def test_a_segment_that_another_user_made_stays_whoever_names_it():
    libc = ctypes.CDLL(None)
    number = libc.shmget(0, 4096, 0o666 | 0o1000)
    try:
        remove_segment(number, owner=65534)
        assert number in _sysv()
        remove_segment(number, owner=0)
        assert number not in _sysv()
    finally:
        libc.shmctl(number, 0, None)


def test_segments_of_another_process_stay(supervisor):
    ours = SharedMemory(create=True, size=4096)
    try:
        code = (
            f"from multiprocessing.shared_memory import SharedMemory as S; s = S({ours.name!r}); "
        )
        process = supervisor.spawn(
            [sys.executable, "-c", code + "print(1, flush=True); import time; time.sleep(1000)"],
            pipes=True,
        )
        assert process.stdout.readline() == b"1\n"
        process.kill()
        assert (Path("/dev/shm") / ours.name).exists()
    finally:
        ours.close()
        ours.unlink()


#: Stopped where a server is between making its segments and mapping them.
EARLY_MAKER = """
import _posixshmem, ctypes, os, time
name = f"tierbench-test-{os.getpid()}"
_posixshmem.shm_open("/" + name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600)
print(name, ctypes.CDLL(None).shmget(0, 4096, 0o600 | 0o1000), flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize(
    ("maker", "options"),
    [(MAKER, {"stop_signal": signal.SIGTERM}), (EARLY_MAKER, {})],
    ids=["mapped", "not yet mapped"],
)
def test_what_the_supervisor_must_kill_at_its_end_leaves_no_shared_memory(tmp_path, maker, options):
    with Supervisor(tmp_path / "state") as supervisor:
        process = supervisor.spawn([sys.executable, "-c", maker], pipes=True, **options)
        posix, number = _made(process)
    assert eventually(lambda: not posix.exists() and number not in _sysv())


def test_a_server_killed_by_another_process_leaves_none_once_its_client_was_started(supervisor):
    """Dead, it maps nothing any more: what it had was seen when the next process began."""
    server = supervisor.spawn([sys.executable, "-c", MAKER], pipes=True)
    posix, number = _made(server)
    client = supervisor.spawn([sys.executable, "-c", "import time; time.sleep(1000)"])
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait(PATIENCE_S) == -signal.SIGKILL
    server.kill()
    client.kill()
    assert not posix.exists()
    assert number not in _sysv()
