"""A server, client or supervisor that is stopped: the run ends by itself, and names it.

Each engine, target and phase is stopped once here; HARNESS_TEST_SILENCE=all: every combination.
"""

from __future__ import annotations

import fcntl
import os
from itertools import product

import pytest
from patience import PATIENCE_S

from harness.execution.host_lock import Places

SECONDS = 60
YCSB = ["run", "ycsb", "--placement", "ssd-both", "--workload", "a", "--records", "2000",
        "--threads", "2", "--ramp-up", f"{SECONDS}s", "--duration", f"{SECONDS}s"]  # fmt: skip
TPCC = ["run", "tpcc", "--placement", "ssd-both", "--warehouses", "1", "--users", "2",
        "--rate", "20", "--ramp-up", f"{SECONDS}s", "--duration", f"{SECONDS}s"]  # fmt: skip
TPCH = ["run", "tpch", "--placement", "ssd-both", "--scale", "0.01", "--queries", "6"]
COMMANDS = {
    "postgres": [*YCSB, "--engine", "postgres"],
    "mysql": [*YCSB, "--engine", "mysql"],
    "mariadb": [*YCSB, "--engine", "mariadb"],
    "rocksdb": [*YCSB, "--engine", "rocksdb"],
    "voltdb": [*TPCC, "--engine", "voltdb"],
    "duckdb": [*TPCH, "--engine", "duckdb"],
}

#: What of a process's command line makes it a client.
CLIENTS = ("loadgen", "hammerdb", "tierbench.ycsb.Main")

#: The command, which stops the target once the phase has begun and the target is there.
STOPPED = """
import os, signal, time
from harness.supervise import silence
from harness.supervise.process import descendants, process_stat
from harness.supervise.supervisor import Supervisor

PHASE, TARGET, CLIENTS = {phase!r}, {target!r}, {clients!r}
spawn, phase, enter = Supervisor.spawn, silence.phase, silence.enter
commands, supervisors, stopped = [], [], []

def is_client(argv):
    return any(word in str(part) for part in argv for word in CLIENTS)

def targets():
    if TARGET == "supervisor":
        return [supervisors[-1].pid] if supervisors else []
    return [
        pid
        for argv, process in commands
        if process.returncode is None and is_client(argv) == (TARGET == "client")
        for pid in (process.pid, *(stat.id.pid for stat in descendants(process.pid)))
    ]

def stop():
    loading = ["load"] in silence._phases
    if silence.current_phase() != PHASE or loading != (PHASE == "load"):
        return
    clients = [process for argv, process in commands if is_client(argv)]
    if PHASE == "warm-up" and all(process.returncode is not None for process in clients):
        return  # counters come first
    if stopped and not loading:  # a load is tried again, and stopped again
        return
    for pid in targets():
        if (found := process_stat(pid)) is None or found.dead:
            continue
        os.kill(pid, signal.SIGSTOP)
        stopped.append(pid)
        while (found := process_stat(pid)) is not None and found.state not in "TtZD":
            time.sleep(0.001)

def stopping_spawn(self, argv, **options):
    if self not in supervisors:
        supervisors.append(self)
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

Supervisor.spawn = stopping_spawn
silence.enter = stopping_enter
silence.phase = stopping_phase
"""

ENGINES = tuple(COMMANDS)
PHASES = {
    "server": ("load", "start", "warm-up", "counters", "measure", "check", "stop"),
    "client": ("load", "warm-up", "measure", "check"),
    "supervisor": ("load", "restore", "start", "warm-up", "counters", "measure", "check", "stop"),
}
#: Each phase, target and engine.
SOME = [
    ("postgres", "supervisor", "load"),
    ("postgres", "supervisor", "restore"),
    ("postgres", "server", "start"),
    ("mysql", "server", "counters"),
    ("mariadb", "server", "measure"),
    ("mariadb", "supervisor", "stop"),
    ("rocksdb", "client", "warm-up"),
    ("rocksdb", "client", "check"),
    ("duckdb", "server", "query"),
    ("postgres", "client", "measure"),
    ("duckdb", "server", "stop"),
]


def _whole():
    for target, phases in PHASES.items():
        for engine, phase in product(ENGINES, phases):
            if engine in ("duckdb", "rocksdb") and target != "supervisor":
                continue
            yield engine, target, phase
    for phase in PHASES["client"]:
        yield "rocksdb", "client", phase
    for phase in ("load", "start", "query", "counters", "check", "stop"):
        yield "duckdb", "server", phase


WHOLE = os.environ.get("HARNESS_TEST_SILENCE") == "all"


@pytest.mark.parametrize(("engine", "target", "phase"), list(_whole()) if WHOLE else SOME)
def test_a_stopped_process_ends_the_run_by_name(loaded, engine, target, phase):
    argv = [*COMMANDS[engine], "--again", "--retries", "0"]
    if phase in ("counters", "measure"):
        argv[argv.index(f"{SECONDS}s")] = "1s"  # the ramp-up
    elif phase in ("check", "stop"):
        argv = [part.replace(f"{SECONDS}s", "1s") for part in argv]
    if phase == "load":  # other data than those that are there
        argv += ["--records", "2001"] if "ycsb" in argv else []
        argv += ["--scale", "0.011"] if "tpch" in argv else []
        argv += ["--warehouses", "2"] if "tpcc" in argv else []
    process = loaded.start(
        *argv,
        first=STOPPED.format(phase=phase, target=target, clients=CLIENTS),
        HARNESS_SILENCE="stopped=0.4,supervisor=0.4",
    )
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, out + err
    assert "Traceback" not in err, err
    run = loaded("runs", "list", "--json").json["runs"][-1]
    assert run["status"] == "failed"
    problem = run["error"]["problem"]
    assert problem.startswith(f"{phase}: process "), run["error"]
    assert ("(supervisor)" in problem) == (target == "supervisor")
    assert loaded.settled() == []
    with Places.of_host().lock_file.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
