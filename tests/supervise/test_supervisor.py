"""Processes under the supervisor: their start, their names, their shared memory, their end."""

import ctypes
import os
import select
import signal
import struct
import subprocess
import sys
import time
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest
from narrowed import present
from patience import LIMITS_S, PATIENCE_S, eventually, kill
from started_processes import processes_of

from harness.engine import MemoryPolicy
from harness.errors import RunFailed
from harness.supervise.credentials import unprivileged
from harness.supervise.journal import recover
from harness.supervise.process import (
    ProcessId,
    alive,
    descendants,
    kill_all,
    process_identity,
    process_stat,
    send_signal,
)
from harness.supervise.segments import remove_segment
from harness.supervise.starting import refuse_static
from harness.supervise.supervisor import Confinement, ProcessStarter, Supervisor

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def output_of(supervisor, argv, **options):
    process = supervisor.spawn(argv, pipes=True, **options)
    with process.stdin, process.stdout as stdout:
        text = stdout.read().decode()
    assert process.wait(PATIENCE_S) == 0
    return text


def test_output_goes_to_the_log_and_the_status_comes_back(supervisor, tmp_path):
    log = tmp_path / "log"
    process = supervisor.spawn(["sh", "-c", "echo out; echo err >&2; exit 3"], log=log)
    assert process.wait(PATIENCE_S) == 3
    assert process.poll() == 3
    assert sorted(log.read_text().split()) == ["err", "out"]


@pytest.mark.parametrize("taken", [0, 1, 8])
def test_descriptor_three_carries_progress_whatever_number_the_pipe_has(supervisor, taken):
    """Processes before it move the numbers that the supervisor's own descriptors have."""
    before = [supervisor.spawn(["sleep", "1000"], pipes=True) for _ in range(taken)]
    code = "echo working >&3; read line; echo got $line; echo done >&3"
    process = supervisor.spawn(["sh", "-c", code], pipes=True, progress=True)
    assert process.progress.readline() == b"working\n"
    process.stdin.write(b"answer\n")
    process.stdin.close()
    assert process.stdout.read() == b"got answer\n"
    assert process.progress.read() == b"done\n"
    assert process.wait(PATIENCE_S) == 0
    process.stdout.close()
    process.progress.close()
    for sleeper in before:
        sleeper.kill()
        sleeper.stdin.close()
        sleeper.stdout.close()


@pytest.fixture
def unanswered(tmp_path):
    """A file that a child waits for before exec, as for a dead directory server."""
    os.mkfifo(tmp_path / "unanswered")
    return tmp_path / "unanswered"


def test_a_child_that_hangs_before_exec_is_killed_at_its_limit(supervisor, monkeypatch, unanswered):
    starter = ProcessStarter(supervisor, Confinement(cgroup_procs=(unanswered,)))
    for limit_s in LIMITS_S:
        monkeypatch.setenv("HARNESS_SILENCE", f"exec={limit_s}")
        with pytest.raises(RunFailed) as failed:
            starter.spawn(["true"])
        if "cgroup" in failed.value.context:  # and not on its way there
            break
    assert "cgroup" in failed.value.context
    assert "HARNESS_SILENCE=exec=" in failed.value.hint
    monkeypatch.delenv("HARNESS_SILENCE")
    assert eventually(lambda: processes_of(os.getpid()) == [])
    assert supervisor.spawn(["true"]).wait(PATIENCE_S) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_harness_whose_child_hangs_before_exec(
    harness_program, tmp_path, unanswered, number
):
    program, daemon = harness_program(HANGS, tmp_path / "state", unanswered)
    assert eventually(lambda: descendants(int(daemon)))
    (child,) = descendants(int(daemon))
    os.kill(program.pid, number)
    assert program.wait(PATIENCE_S) == -number
    assert eventually(lambda: not alive(child.id))


#: Starts a process that hangs before exec; the limit is longer than a test may take.
HANGS = """
import os, pathlib, signal, sys
from harness.supervise.supervisor import Confinement, ProcessStarter, Supervisor
os.environ["HARNESS_SILENCE"] = "exec=100000"
with Supervisor(pathlib.Path(sys.argv[1])) as supervisor:
    confinement = Confinement(cgroup_procs=(pathlib.Path(sys.argv[2]),))
    print(supervisor.pid, flush=True)
    ProcessStarter(supervisor, confinement).spawn(["true"])
"""


def test_pipes_carry_a_conversation_and_stderr_goes_to_the_log(supervisor, tmp_path):
    echo = "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)"
    code = f"import sys; print('hello', file=sys.stderr)\n{echo}"
    process = supervisor.spawn([sys.executable, "-c", code], pipes=True, log=tmp_path / "log")
    process.stdin.write(b"select 1\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"SELECT 1\n"
    process.stdin.close()
    assert process.wait(PATIENCE_S) == 0
    assert (tmp_path / "log").read_text() == "hello\n"
    process.stdout.close()


def test_the_environment_is_small_and_the_same_everywhere(supervisor, tmp_path, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    text = output_of(supervisor, ["env"], env={"LD_BIND_NOW": "1"})
    names = {line.partition("=")[0] for line in text.splitlines()}
    assert "hunter2" not in text
    assert names - {"PWD", "SHLVL", "_"} == {
        "PATH", "LANG", "LC_ALL", "TZ", "HOME", "LD_BIND_NOW", "TIERBENCH_PROCESS"
    }  # fmt: skip


def test_children_have_no_descriptors_but_their_own_three(supervisor):
    listing = output_of(supervisor, ["ls", "/proc/self/fd"])
    assert listing.split() == ["0", "1", "2", "3"]  # 3: ls reads the directory


@needs_root
def test_servers_run_unprivileged_for_good(supervisor):
    user = present(unprivileged())
    script = "umask; ulimit -c >/dev/null; grep -E '^(Uid|Gid|Groups|NoNewPrivs)' /proc/self/status"
    text = output_of(supervisor, ["sh", "-c", script], credentials=user)
    assert text.splitlines()[0] == "0077"
    status = dict(line.split(":\t", 1) for line in text.splitlines()[1:])
    assert set(status["Uid"].split()) == {str(user.uid)}
    assert set(status["Gid"].split()) == {str(user.gid)}
    assert "0" not in status["Groups"].split()
    assert status["NoNewPrivs"] == "1"


def test_memory_policy_holds_from_the_first_page(supervisor):
    policy = MemoryPolicy("bind", (0,))
    maps = output_of(supervisor, ["cat", "/proc/self/numa_maps"], memory=policy)
    assert "bind:0" in maps
    assert "default" not in maps


def test_a_library_cannot_be_preloaded_into_a_static_program(supervisor, tmp_path):
    """A hand-written ELF header: one program header, a segment to load (elf(5))."""
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 2, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0
    )
    program = tmp_path / "static"
    program.write_bytes(header + struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 0, 0, 0))
    program.chmod(0o755)
    policy = MemoryPolicy("weighted", (0, 1), (3, 1), tmp_path / "library.so")
    with pytest.raises(RunFailed, match="linked statically"):
        supervisor.spawn([program], memory=policy)
    refuse_static(sys.executable, policy)
    refuse_static("no-such-program", policy)


def test_an_impossible_memory_policy_is_an_error(supervisor):
    with pytest.raises(RunFailed, match=r"set_mempolicy\(bind, nodes 63\)"):
        supervisor.spawn(["true"], memory=MemoryPolicy("bind", (63,)))


# How they end --------------------------------------------------------------------


DAEMONISING = "setsid sh -c 'sleep 1000 & sleep 1000' & (sleep 1000 &) ; sleep 1000"


def test_kill_reaches_what_was_daemonised(supervisor):
    other = supervisor.spawn(["sleep", "1000"])
    process = supervisor.spawn(["sh", "-c", DAEMONISING])
    assert eventually(lambda: len(processes_of(os.getpid())) >= 6)
    process.kill()
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    assert processes_of(os.getpid()) == [other.pid]


def test_kill_finds_the_daemons_of_a_parent_that_has_ended(supervisor):
    process = supervisor.spawn(["sh", "-c", "setsid sleep 1000 & exit 0"])
    process.wait(PATIENCE_S)
    assert eventually(lambda: len(processes_of(os.getpid())) == 1)
    process.kill()
    assert processes_of(os.getpid()) == []


@pytest.mark.parametrize(
    ("trap", "number", "last"),
    [("'echo stopping; exit 0' INT", signal.SIGINT, "stopping\n"),
     ("'' TERM", signal.SIGTERM, "ready\n")],
    ids=["what listens", "what does not"],
)  # fmt: skip
def test_the_block_ends(state, tmp_path, patient_daemon, monkeypatch, trap, number, last):
    log = tmp_path / "log"
    loop = f"trap {trap}; echo ready; while :; do sleep 0.01; done"
    if number == signal.SIGINT:  # it must end by itself
        monkeypatch.setattr("harness.supervise.supervisor._DAEMON", patient_daemon)
    with Supervisor(state) as supervisor:
        supervisor.spawn(["sh", "-c", loop], log=log, stop_signal=number)
        supervisor.spawn(["sh", "-c", DAEMONISING])
        assert eventually(lambda: log.read_text() == "ready\n")
    assert log.read_text().endswith(last)
    assert processes_of(os.getpid()) == []
    assert list(state.iterdir()) == [state / "lock"]


def test_a_fork_storm_is_stopped(state, patient_daemon, monkeypatch):
    # Each parent ends at once and its child forks on: reading /proc alone loses the race.
    storm = (
        "import os\nprint('raining', flush=True)\nif os.fork(): os._exit(0)\nos.setsid()\n"
        "while True:\n  if os.fork(): os._exit(0)"
    )
    monkeypatch.setattr("harness.supervise.supervisor._DAEMON", patient_daemon)
    with Supervisor(state) as supervisor:
        process = supervisor.spawn([sys.executable, "-S", "-c", storm], pipes=True)
        assert process.stdout.readline() == b"raining\n"
        process.wait(PATIENCE_S)
    # End of file: nobody holds the other end of the pipe any more.
    assert select.select([process.stdout], [], [], PATIENCE_S)[0]
    assert process.stdout.read() == b""
    process.stdin.close()
    process.stdout.close()


def test_without_its_supervisor_a_run_fails_and_nothing_is_left(state, tmp_path):
    with Supervisor(state) as supervisor:
        directory = supervisor.journal.register_directory(tmp_path / "work")
        process = supervisor.spawn(["sh", "-c", DAEMONISING])
        assert eventually(lambda: len(processes_of(os.getpid())) >= 6)
        kill(supervisor.pid)
        with pytest.raises(RunFailed, match="signal 9"):
            process.wait(PATIENCE_S)
        with pytest.raises(RunFailed, match="signal 9"):
            supervisor.spawn(["true"])
        assert eventually(lambda: not alive(process.id))  # the kernel's doing
    assert processes_of(os.getpid()) == []
    assert not directory.exists()
    assert list(state.iterdir()) == [state / "lock"]


def test_after_its_supervisor_was_killed_the_next_run_has_another(state, tmp_path):
    with Supervisor(state) as supervisor:
        supervisor.renew()
        first = supervisor.pid
        supervisor.spawn(["sh", "-c", DAEMONISING])
        assert eventually(lambda: len(processes_of(os.getpid())) >= 6)
        kill(first)
        with pytest.raises(RunFailed):
            supervisor.spawn(["true"])
        supervisor.renew()
        assert processes_of(os.getpid()) == []
        assert supervisor.pid != first
        assert supervisor.spawn(["true"]).wait(PATIENCE_S) == 0
        work = supervisor.journal.register_directory(tmp_path / "work")
        assert recover(state) == []
    assert not work.exists()
    assert list(state.iterdir()) == [state / "lock"]


def test_what_cannot_be_undone_is_reported_and_stays_in_the_journal(state, tmp_path):
    with pytest.raises(RunFailed, match=f"directory {tmp_path}/work"), Supervisor(state) as started:
        work = started.journal.register_directory(tmp_path / "work")
        (work / "rows").touch()
        work.rename(tmp_path / "aside")
        work.mkdir()
    assert started.journal.path.exists()


HIDDEN = """
import sys
from pathlib import Path
from harness.supervise.journal import recover
from harness.supervise.process import descendants
from harness.supervise.supervisor import Confinement, ProcessStarter, Supervisor

with Supervisor(Path(sys.argv[1])) as supervisor:
    process = supervisor.spawn(["sleep", "1000"])
    assert [stat.id.pid for stat in descendants(supervisor.pid)] == [process.pid]
    process.kill()
assert recover(Path(sys.argv[1])) == []
"""


@needs_root
def test_other_users_processes_may_be_hidden(tmp_path):
    """/proc with hidepid=1: their directories are there, and what is in them is denied."""
    script = (
        "mount -t proc -o hidepid=1 proc /proc\n"
        "setpriv --reuid 65534 --clear-groups sleep 1000 &\n"
        'exec setpriv --regid 65534 --clear-groups --bounding-set=-sys_ptrace "$@"'
    )
    command = ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", script, "sh"]
    done = subprocess.run(
        [*command, sys.executable, "-c", HIDDEN, tmp_path / "state"],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


# Processes named by pid and start time ----------------------------------------------


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def test_identity_is_pid_and_start_time(sleeper):
    identity = present(process_identity(sleeper.pid))
    assert alive(identity)
    assert present(process_stat(sleeper.pid)).parent == os.getpid()
    assert not alive(ProcessId(sleeper.pid, identity.start_ticks + 1))
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")
    assert 0 < identity.start_ticks <= since_boot + 1


def test_a_zombie_is_not_alive(sleeper):
    identity = present(process_identity(sleeper.pid))
    sleeper.kill()
    assert eventually(lambda: not alive(identity))
    sleeper.wait()
    assert process_identity(sleeper.pid) is None


def test_a_signal_never_hits_the_next_owner_of_a_pid(sleeper):
    identity = present(process_identity(sleeper.pid))
    earlier = ProcessId(sleeper.pid, identity.start_ticks - 1)
    assert send_signal(earlier, signal.SIGKILL) is False
    assert sleeper.poll() is None
    assert send_signal(identity, signal.SIGKILL) is True
    assert sleeper.wait() == -signal.SIGKILL
    assert send_signal(identity, signal.SIGKILL) is False


def test_what_is_found_is_killed_although_the_time_is_over(sleeper):
    """The machine may stand still between looking for them and killing them."""

    def survivors():
        return [stat for stat in [process_stat(sleeper.pid)] if stat is not None]

    kill_all(survivors, timeout_s=-1.0)
    assert sleeper.wait(PATIENCE_S) == -signal.SIGKILL


def test_a_name_with_parentheses_does_not_confuse(tmp_path):
    program = tmp_path / ") R 1 (x"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "1000"])
    try:
        assert present(process_stat(process.pid)).parent == os.getpid()
    finally:
        process.kill()
        process.wait()


def test_descendants_are_found_at_every_depth():
    process = subprocess.Popen(["sh", "-c", "sh -c 'sleep 1000; :' & wait"], start_new_session=True)
    try:
        assert eventually(lambda: len(descendants(process.pid)) == 2)
        assert process.pid in [stat.id.pid for stat in descendants(os.getpid())]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# Shared memory of processes that are killed goes with them --------------------------

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
    kill(server.pid)
    assert server.wait(PATIENCE_S) == -signal.SIGKILL
    server.kill()
    client.kill()
    assert not posix.exists()
    assert number not in _sysv()
