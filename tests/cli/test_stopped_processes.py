"""A server, client or supervisor that is stopped: the run ends by itself, and names it.

Each phase and target is stopped once here; HARNESS_TEST_SILENCE=all: every combination.
"""

import fcntl
import json
import os
import re

import pytest

from harness.execution.host_lock import Places

YCSB = ["run", "ycsb", "--placement", "ssd-both", "--workload", "a", "--threads", "2"]
TPCC = ["run", "tpcc", "--placement", "ssd-both", "--users", "2", "--rate", "20"]
TPCH = ["run", "tpch", "--placement", "ssd-both", "--queries", "6"]
COMMANDS = {"postgres": YCSB, "mysql": YCSB, "rocksdb": YCSB, "voltdb": TPCC, "duckdb": TPCH}
#: The size of the data: those that are there, and others, which are loaded.
SIZES = {
    "ycsb": ("--records", "2000", "2001"),
    "tpcc": ("--warehouses", "1", "2"),
    "tpch": ("--scale", "0.01", "0.011"),
}

#: What of a process's command line makes it a client.
CLIENTS = ("loadgen", "hammerdb", "tierbench.ycsb.Main")

#: The command, which stops the target once the phase has begun and the target is there. It writes
#: each process that it stops, and the phases that the run is in from then on.
STOPPED = """
import json, os, signal, time
from harness.supervise import silence
from harness.supervise.process import descendants, process_stat
from harness.supervise.supervisor import ProcessStarter, Supervisor

PHASE, TARGET, CLIENTS, DRIVEN, NOTES = {phase!r}, {target!r}, {clients!r}, {driven!r}, {notes!r}
spawn, phase, enter = ProcessStarter.spawn, silence.phase, silence.enter
supervise = Supervisor.__enter__
commands, supervisors, stopped = [], [], []

def is_client(argv):
    return any(word in str(part) for part in argv for word in CLIENTS)

def targets():
    if TARGET == "supervisor":
        return [supervisors[-1].pid]
    return [
        pid
        for argv, process in commands
        if process.returncode is None and is_client(argv) == (TARGET == "client")
        for pid in (process.pid, *(stat.id.pid for stat in descendants(process.pid)))
    ]

def wanted():
    loading = ["load"] in silence._phases
    if not silence._phases or silence.current_phase() != PHASE or loading != (PHASE == "load"):
        return False
    if PHASE == "warm-up" and DRIVEN:  # counters come first
        return any(process.returncode is None for argv, process in commands if is_client(argv))
    return loading or not stopped  # a load is tried again, and stopped again

def stop():
    for pid in targets() if wanted() else ():
        if (found := process_stat(pid)) is None or found.dead:
            continue
        os.kill(pid, signal.SIGSTOP)
        stopped.append(pid)
        while (found := process_stat(pid)) is not None and found.state not in "TtZD":
            time.sleep(0.001)
    if stopped:
        with open(NOTES, "a") as file:
            print(json.dumps([stopped, silence.current_phase()]), file=file)

def begun(self):
    supervisors.append(self)
    return supervise(self)

def stopping_spawn(self, argv, **options):
    process = spawn(self, argv, **options)
    commands.append((list(argv), process))
    stop()
    return process

class stopping_phase:
    def __init__(self, name):
        self.inner = phase(name)
    def __enter__(self):
        self.inner.__enter__()
        stop()
    def __exit__(self, *error):
        left = self.inner.__exit__(*error)
        stop()
        return left

def stopping_enter(name):
    enter(name)
    stop()

Supervisor.__enter__ = begun
ProcessStarter.spawn = stopping_spawn
silence.enter = stopping_enter
silence.phase = stopping_phase
"""

WINDOW = ("warm-up", "counters", "measure", "check")
QUERIED = ("warm-up", "counters", "query", "check", "stop")
SERVED = {
    "server": ("load", "start", "prepare", *WINDOW, "stop"),
    "client": ("load", *WINDOW),
    "supervisor": ("prepare", "load", "restore", "start", *WINDOW, "stop"),
}
#: Those that have SQL have queries, too.
SQL_SERVED = {target: (*phases, "query") for target, phases in SERVED.items() if target != "client"}
#: The phases in which each target of an engine is there, and the run waits for it.
PHASES = {
    "postgres": SERVED | SQL_SERVED,
    "mysql": SERVED | SQL_SERVED,
    "voltdb": SERVED,
    "rocksdb": {
        "client": ("load", *WINDOW),
        "supervisor": ("prepare", "load", "restore", *WINDOW),
    },
    "duckdb": {
        "server": ("load", "start", "prepare", *QUERIED),
        "supervisor": ("prepare", "load", "restore", "start", *QUERIED),
    },
}
WHOLE = [
    (engine, target, phase)
    for engine, targets in PHASES.items()
    for target, phases in targets.items()
    for phase in phases
]
#: Each phase and target, on engines that start fast; a server and its client once.
SOME = [
    ("duckdb", "server", "load"),
    ("duckdb", "supervisor", "restore"),
    ("duckdb", "server", "start"),
    ("duckdb", "server", "prepare"),
    ("duckdb", "server", "query"),
    ("rocksdb", "client", "warm-up"),
    ("rocksdb", "supervisor", "counters"),
    ("rocksdb", "client", "check"),
    ("postgres", "client", "measure"),
    ("postgres", "server", "stop"),
]


def _command(engine, phase):
    return TPCH if phase == "query" else COMMANDS[engine]


def _argv(engine, phase):
    command = _command(engine, phase)
    workload = command[1]
    option, there, other = SIZES[workload]
    argv = [*command, "--engine", engine, option, other if phase == "load" else there]
    if workload == "tpch":
        return argv
    ramp_up, window = ("60s" if phase == long else "1s" for long in ("warm-up", "measure"))
    return [*argv, "--ramp-up", ramp_up, "--duration", window]


def _started(loaded, notes, engine, target, phase, *options):
    named = {"phase": phase, "target": target, "clients": CLIENTS, "notes": str(notes)}
    first = STOPPED.format(**named, driven=_command(engine, phase) != TPCH)
    argv = [*_argv(engine, phase), "--again", "--retries", "0", *options]
    return loaded.start(*argv, first=first, HARNESS_SILENCE="stopped=0.4,supervisor=0.4")


@pytest.mark.parametrize(
    ("engine", "target", "phase"), WHOLE if os.environ.get("HARNESS_TEST_SILENCE") else SOME
)
def test_a_stopped_process_ends_the_run_by_name(loaded, tmp_path, engine, target, phase):
    notes = tmp_path / "stopped"
    process = _started(loaded, notes, engine, target, phase)
    problem = loaded.failed_run(process)["error"]["problem"]
    stopped = [json.loads(line) for line in notes.read_text().splitlines()]
    named = re.fullmatch(r"([a-z-]+): process (\d+) \((.+)\) gives no sign of life", problem)
    assert named is not None, problem
    # Nothing may wait for what was stopped before a later phase does.
    assert named[1] in {later for _, later in stopped}
    assert int(named[2]) in stopped[-1][0]
    assert (named[3] == "supervisor") == (target == "supervisor")
    assert stopped[0][1] == phase
    with Places.of_host().lock_file.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_next_run_of_a_list_has_another_supervisor(loaded, tmp_path):
    process = _started(
        loaded, tmp_path / "stopped", "rocksdb", "supervisor", "counters", "--repeats", "2"
    )
    done = loaded.ended(process)
    assert done.code == 1, done.out + done.err
    runs = loaded("runs", "list", "--json").json["runs"][-2:]
    assert [run["status"] for run in runs] == ["failed", "complete"], done.err
    assert loaded.settled() == []
