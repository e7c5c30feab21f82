"""Processes that can no longer work, or that listen unannounced, are ended and named."""

import os
import signal
import socket
import sys
import threading
from typing import Any, cast

import pytest
from patience import PATIENCE_S, eventually, stop
from started_processes import processes_of

from harness.errors import RunFailed
from harness.supervise import listeners
from harness.supervise.credentials import unprivileged
from harness.supervise.listeners import Listener
from harness.supervise.process import descendants, process_stat
from harness.supervise.silence import LIMITS, phase
from harness.supervise.starting import OWN_NETWORK, Process
from harness.supervise.supervisor import Supervisor
from harness.supervise.watch import Silence, Watch

#: A process in vfork(2): the state of one that waits for a device, without one.
BLOCKED = """
import os, sys
fifo = sys.argv[1]
actions = [(os.POSIX_SPAWN_OPEN, 0, fifo, os.O_RDONLY, 0)]
os.posix_spawn("/bin/true", ["true"], {}, file_actions=actions)
"""


def state_of(pid: int) -> str:
    stat = process_stat(pid)
    return stat.state if stat else ""


def first_of(watch: Watch) -> Silence:
    assert isinstance(watch.cause, Silence)
    return watch.cause


@pytest.fixture(autouse=True)
def at_rest(monkeypatch):
    """The tests look themselves, at times of their own."""
    monkeypatch.setattr(Watch, "_EVERY_S", PATIENCE_S)


@pytest.mark.parametrize("command", [["sleep", "1000"], ["sh", "-c", "sleep 1000 & wait"]])
def test_a_stopped_process_is_killed_at_its_limit(supervisor, command):
    process = supervisor.spawn(command)
    watch = Watch(supervisor.watch._supervisor, lambda: [process])
    below = [stat.id.pid for stat in descendants(process.pid)]
    while len(command) > 2 and not below:
        below = [stat.id.pid for stat in descendants(process.pid)]
    stopped = below[0] if below else process.pid
    stop(stopped)
    watch.look(0)
    watch.look(LIMITS["stopped"].seconds - 1)
    assert watch.cause is None
    with phase("query"):
        watch.look(LIMITS["stopped"].seconds)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    finding = first_of(watch)
    assert (finding.phase, finding.process.pid, finding.limit) == ("query", stopped, "stopped")


def test_a_process_that_continues_in_time_is_left_alone(supervisor):
    process = supervisor.spawn(["sleep", "1000"])
    watch = Watch(supervisor.watch._supervisor, lambda: [process])
    stop(process.pid)
    watch.look(0)
    os.kill(process.pid, signal.SIGCONT)
    assert eventually(lambda: state_of(process.pid) == "S")
    watch.look(LIMITS["stopped"].seconds)
    stop(process.pid)
    watch.look(2 * LIMITS["stopped"].seconds)
    assert watch.cause is None and process.poll() is None


def test_a_thread_that_waits_for_a_device_is_ended_at_its_limit(supervisor, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = supervisor.spawn([sys.executable, "-c", BLOCKED, str(fifo)])
    watch = Watch(supervisor.watch._supervisor, lambda: [process])
    # Reading its own program, it may be in this state before.
    assert eventually(
        lambda: any(descendant.state == "S" for descendant in descendants(process.pid))
    )
    assert state_of(process.pid) == "D"
    watch.look(0)
    watch.look(LIMITS["blocked"].seconds - 1)
    assert watch.cause is None
    watch.look(2 * LIMITS["blocked"].seconds)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    assert first_of(watch).limit == "blocked"


def test_a_stopped_supervisor_is_killed_and_what_waits_for_it_fails(supervisor):
    server = supervisor.spawn(["sleep", "1000"])
    stop(supervisor.pid)
    watch = supervisor.watch

    def end() -> None:
        watch.look(0)
        watch.look(LIMITS["supervisor"].seconds)

    with pytest.raises(RunFailed) as failed, watch.naming(), phase("stop"):
        threading.Timer(0.1, end).start()
        supervisor.spawn(["true"])
    assert failed.value.problem == first_of(watch).failure().problem
    assert (first_of(watch).phase, first_of(watch).limit) == ("stop", "supervisor")
    assert eventually(lambda: process_stat(server.pid) is None)


class Unkillable:
    """A process that waits for a disk that is dead."""

    listens = ()

    def __init__(self, identity):
        self.id = identity

    def kill(self):
        raise RunFailed("kill", "it does not die")


@pytest.fixture
def interruptible():
    """SIGINT interrupts, whatever handler the tests before this one have left."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=["heard", "lost"])
def interruption(request, monkeypatch):
    """The first signal to the main thread ends its wait, or comes a moment too early for that."""
    monkeypatch.setattr(Watch, "_AGAIN_S", 0.1)
    lost, send = [request.param == "lost"], signal.pthread_kill
    monkeypatch.setattr(signal, "pthread_kill", lambda *to: lost.pop() if any(lost) else send(*to))


@pytest.mark.usefixtures("interruptible", "interruption")
def test_what_cannot_be_killed_is_not_waited_for(supervisor):
    process = supervisor.spawn(["sleep", "1000"])
    watch = Watch(supervisor.watch._supervisor, lambda: [cast(Process, Unkillable(process.id))])
    stop(process.pid)
    watch.look(0)
    started = threading.Event()  # an interruption while it starts another thread may be lost

    def look() -> None:
        started.wait()
        watch.look(LIMITS["stopped"].seconds)

    thread = threading.Thread(target=look)
    thread.start()
    with pytest.raises(RunFailed) as failed, watch.naming():
        started.set()
        threading.Event().wait(PATIENCE_S)
    watch.stop()
    thread.join()
    assert failed.value.problem == first_of(watch).failure().problem
    assert not first_of(watch).died


#: Waits as for a device, in a thread that no signal interrupts; goes on when it is interrupted.
BLOCKED_HARNESS = """
import ctypes, os, sys, threading, time
from pathlib import Path
from harness.supervise.watch import Watch
from harness.supervise.supervisor import Supervisor

def wait_in_the_kernel():  # vfork(2), until the child has opened the FIFO
    libc, actions = ctypes.CDLL(None), ctypes.create_string_buffer(256)
    libc.posix_spawn_file_actions_init(actions)
    libc.posix_spawn_file_actions_addopen(actions, 0, sys.argv[2].encode(), os.O_RDONLY, 0)
    words = (ctypes.c_char_p * 2)(b"true", None)
    libc.posix_spawn(ctypes.byref(ctypes.c_int()), b"/bin/true", actions, None, words, words)

Watch._GIVE_UP_S = 0.2
with Supervisor(Path(sys.argv[1])) as supervisor:
    supervisor.spawn(["sleep", "1000"])
    threading.Thread(target=wait_in_the_kernel).start()
    print(supervisor.pid, flush=True)
    while True:
        try:
            time.sleep(1000)
        except KeyboardInterrupt:
            pass
"""


def test_a_harness_that_waits_for_a_device_ends_at_its_limit(
    harness_program, tmp_path, monkeypatch
):
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.setenv("HARNESS_SILENCE", "blocked=0.5")
    program, _ = harness_program(BLOCKED_HARNESS, tmp_path / "state", tmp_path / "fifo")
    try:
        assert program.wait(PATIENCE_S) == 1
        assert eventually(lambda: processes_of(program.pid) == [])
    finally:  # its child in the kernel, which ends then
        os.close(os.open(tmp_path / "fifo", os.O_RDWR))


# Ports ------------------------------------------------------------------------------

#: Listens on a port of this host (argument 1), and says which one; a daemon of it with "daemon".
LISTENING = """
import os, socket, sys
if "daemon" in sys.argv and os.fork():
    sys.exit()
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(server.getsockname()[1], flush=True)
while sys.stdin.readline():
    server.close()
    print("closed", flush=True)
"""


@pytest.fixture
def listening(supervisor):
    """Start a program of the servers' user that listens; its process and port."""

    def start(*arguments: str, port: int = 0, **options: Any) -> tuple[Process, int]:
        process = supervisor.spawn(
            ["/usr/bin/python3", "-c", LISTENING, str(port), *arguments],
            credentials=unprivileged(),
            pipes=True,
            **options,
        )
        return process, int(process.stdout.readline())

    return start


def looked_at_twice(supervisor: Supervisor, process: Process) -> Watch:
    watch = Watch(supervisor.watch._supervisor, lambda: [process])
    watch.look(0)
    assert watch.cause is None
    watch.look(PATIENCE_S)
    return watch


@pytest.mark.parametrize("arguments", [(), ("daemon",)])
@pytest.mark.parametrize("table", [False, True])
def test_a_process_that_listens_unannounced_fails_the_run(
    supervisor, listening, arguments, table, monkeypatch
):
    if table:  # as where the kernel refuses what it would select
        monkeypatch.setattr(listeners, "_SOCK_DIAG", -1)
    process, port = listening(*arguments, listens=(5432,))
    with pytest.raises(RunFailed) as failed, supervisor.watch.naming():
        supervisor.watch.refuse_listeners()
    with pytest.raises(RunFailed) as ended, (watch := supervisor.watch).naming():
        watch.look(0)
        watch.look(PATIENCE_S)
        process.wait(PATIENCE_S)
        raise RunFailed("read its answer", "it has ended")
    assert isinstance(watch.cause, Listener)
    assert watch.cause.port == port
    assert failed.value.problem == ended.value.problem == watch.cause.failure().problem


def test_a_process_may_listen_where_it_was_announced(supervisor, listening):
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    process, port = listening(port=port, listens=(port,))
    assert looked_at_twice(supervisor, process).cause is None
    assert process.poll() is None


def test_a_port_that_is_closed_in_time_and_those_of_other_programs_fail_nothing(
    supervisor, listening
):
    with socket.create_server(("127.0.0.1", 0)):
        process, _ = listening()
        watch = Watch(supervisor.watch._supervisor, lambda: [process])
        watch.look(0)
        process.stdin.write(b"close\n")
        process.stdin.flush()
        process.stdout.readline()
        watch.look(PATIENCE_S)
    assert watch.cause is None and process.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes networks")
def test_in_its_own_network_a_process_listens_for_itself_alone(supervisor, listening):
    process, port = listening(network=OWN_NETWORK)
    assert looked_at_twice(supervisor, process).cause is None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
