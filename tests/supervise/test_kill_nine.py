"""kill -9 of the harness at any moment: nothing is left to clean by hand."""

import contextlib
import os
import random
import signal
import time

import pytest
from patience import PATIENCE_S, eventually, kill, stop
from started_processes import processes_of

from harness.supervise.journal import left_behind, recover
from harness.supervise.process import descendants

HARNESS = """
import os, sys, time
from pathlib import Path
from harness.cli import lose_no_signal
from harness.host.cgroup import capped_starter, memory_cap
from harness.supervise.credentials import unprivileged
from harness.supervise import supervisor
from harness.supervise.supervisor import Supervisor

base, supervisor._DAEMON = map(Path, sys.argv[1:])
lose_no_signal()
print("imported", flush=True)
with Supervisor(base / "state") as supervisor, memory_cap(64 << 20, supervisor) as cap:
    journal = supervisor.journal
    done = journal.register_directory(base / "golden.partial")
    (done / "table").write_text("finished")
    done.rename(base / "golden")
    journal.release_directory(done)
    place = journal.register_directory(base / "place")
    (place / "data").mkdir()
    (place / "data" / "1").write_text("rows")
    start = capped_starter(supervisor, cap).spawn
    start(["sleep", "1000"], credentials=unprivileged(), cwd=Path("/"))
    server = "setsid sleep 1000 & (sleep 1000 &); sleep 1000"
    supervisor.spawn(["sh", "-c", server], log=base / "log", stop_signal=15)
    print("running", flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def base(tmp_path):
    return tmp_path


@pytest.fixture
def start(base, harness_program, patient_daemon):
    """Start HARNESS, or what is made of it, in ``base``."""

    def started(source=HARNESS):
        program, _ = harness_program(source, base, patient_daemon)
        return program

    return started


def supervisor_of(program):
    (daemon,) = [s.id.pid for s in descendants(program.pid) if s.parent == program.pid]
    return daemon


def assert_clean(base, harness_pid):
    assert eventually(lambda: not list((base / "state").glob("*.journal"))), "journal pending"
    assert processes_of(harness_pid) == []
    # Others come and go meanwhile, which ``glob`` would fail at.
    groups = [name for _, folders, _ in os.walk("/sys/fs/cgroup") for name in folders]
    assert not [name for name in groups if name.startswith(f"tierbench-{harness_pid}-")]
    left = {path.name for path in base.iterdir()}
    assert left - {"golden"} <= {"state", "log"}
    if "golden" in left:  # renamed before it is released: whole in its place, never half
        assert (base / "golden" / "table").read_text() == "finished"


@pytest.mark.parametrize("moment", range(5))
def test_killed_at_a_random_moment(base, start, moment):
    program = start()
    time.sleep(random.Random(moment).uniform(0, 0.4))
    program.kill()
    program.wait()
    recover(base / "state")  # only for a kill before there was a supervisor
    assert_clean(base, program.pid)


def test_killed_at_work(base, start):
    """Everything is really there before, so that its absence afterwards means something."""
    program = start()
    assert program.stdout.readline() == "running\n"
    assert eventually(lambda: len(processes_of(program.pid)) == 5)
    assert (base / "place" / "data" / "1").exists()
    program.kill()
    assert_clean(base, program.pid)


def test_killed_together_with_its_supervisor(base, start):
    """The next harness finds the journal and undoes what is left."""
    program = start()
    assert program.stdout.readline() == "running\n"
    kill(supervisor_of(program))
    program.kill()
    program.wait()
    assert (base / "place" / "data" / "1").exists()
    (recovery,) = recover(base / "state", PATIENCE_S)
    assert recovery.failures == ()
    assert f"directory {base}/place" in recovery.undone
    assert_clean(base, program.pid)


def test_what_was_left_is_listed_before_it_is_undone(base, start):
    program = start()
    assert program.stdout.readline() == "running\n"
    assert left_behind(base / "state") == []
    kill(supervisor_of(program))
    program.kill()
    program.wait()
    (left,) = left_behind(base / "state")
    assert f"directory {base}/place" in left.undone
    assert (base / "place").exists()
    recover(base / "state", PATIENCE_S)
    assert left_behind(base / "state") == []
    assert_clean(base, program.pid)


def test_killed_while_its_supervisor_is_stopped(base, start):
    """The next harness ends the supervisor, and with it the old server, before it measures."""
    program = start()
    assert program.stdout.readline() == "running\n"
    daemon = supervisor_of(program)
    stop(daemon)
    program.kill()
    program.wait()
    (recovery,) = recover(base / "state", PATIENCE_S)
    assert recovery.failures == ()
    assert_clean(base, program.pid)


def test_a_fork_that_keeps_the_socket_does_not_keep_the_servers(base, start):
    forking = HARNESS.replace(
        'print("running"', "sys.stdout.flush(); pid = os.fork() or time.sleep(1000); print(pid"
    )
    program = start(forking)
    fork = int(program.stdout.readline())
    program.kill()
    try:
        assert eventually(lambda: processes_of(program.pid) == [])
        assert eventually(lambda: not (base / "place").exists())
    finally:
        with contextlib.suppress(ProcessLookupError):
            kill(fork)
    assert_clean(base, program.pid)


def test_ctrl_c_reaches_the_harness_only_and_ends_everything_in_order(base, start):
    traps = "trap 'echo interrupted' INT; trap 'echo stopped; exit' TERM; echo ready"
    server = f"{traps}; while :; do sleep 0.01; done"
    program = start(HARNESS.replace("(sleep 1000 &); sleep 1000", server))
    assert program.stdout.readline() == "running\n"
    assert eventually(lambda: (base / "log").read_text() == "ready\n")
    os.killpg(program.pid, signal.SIGINT)
    assert program.wait(PATIENCE_S) == -signal.SIGINT
    assert (base / "log").read_text().endswith("stopped\n")
    assert "interrupted" not in (base / "log").read_text()
    assert_clean(base, program.pid)
