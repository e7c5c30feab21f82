"""Programs of the harness itself: they die with it, and see a small environment."""

import ast
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from narrowed import present
from patience import LIMITS_S, PATIENCE_S, eventually

import harness
from harness.errors import RunFailed
from harness.install.prefix import run_client
from harness.supervise import programs
from harness.supervise.credentials import unprivileged
from harness.supervise.process import process_stat
from harness.supervise.user_files import Credentials

ROOT = Path(harness.__file__).parents[1]
#: Starts a program in the way of its argument, and prints the program's pid.
STARTS = """
import sys, threading
from harness.errors import RunFailed
from harness.install.prefix import run_client
from harness.supervise import programs
from harness.supervise.credentials import unprivileged

started = ["sh", "-c", "echo $$ >&2; exec sleep 1000"]
if sys.argv[1] == "start":
    process = programs.start(started)
    print(process.pid, flush=True)
    process.wait()
elif sys.argv[1] == "start-as-user":
    prints = ["sh", "-c", "echo $$; exec sleep 1000"]
    programs.start(prints, stdout=1, user=unprivileged()).wait()
else:
    import subprocess
    popen = subprocess.Popen.__init__
    def recorded(self, *args, **options):
        popen(self, *args, **options)
        print(self.pid, flush=True)
    subprocess.Popen.__init__ = recorded
    programs.run(started, timeout_s=100_000, user=unprivileged())
"""
#: Where processes are started otherwise, and why.
OTHERWISE = {
    "harness/supervise/programs.py": "this is the way",
    "harness/supervise/lifeline.py": "the supervisor, which must outlive the harness",
    "harness/supervise/daemon.py": "what the supervisor starts",
    "harness/supervise/child.py": "what the supervisor starts",
    "harness/cli/__init__.py": "the harness itself",
    "harness/rewrite/executed.py": "what is traced asks for it before it becomes the program",
    "playbooks/module_utils/tierbench/commands.py": "on a host without the harness",
}
STARTERS = {
    "subprocess": {"run", "Popen", "call", "check_call", "check_output", "getoutput"},
    "os": {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "execv", "execve",
           "execvp", "execvpe", "execl", "execlp", "spawnl", "spawnv", "spawnvp", "spawnvpe"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "pty": {"spawn", "fork"},
}  # fmt: skip
#: What a module that starts a program has in its text.
MAY_START = re.compile(
    rf"\b(subprocess|asyncio|pty|from os import|os\.({'|'.join(STARTERS['os'])}))\b"
)


def test_the_environment_is_small_and_its_locale_fixed(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    printed = programs.run(["env"], timeout_s=PATIENCE_S, env={"MINE": "1"}).stdout
    variables = dict(line.split("=", 1) for line in printed.splitlines())
    assert variables.keys() - {"PWD", "SHLVL", "_"} == {
        "PATH", "LANG", "LC_ALL", "TZ", "HOME", "MINE"
    }  # fmt: skip
    assert variables["LC_ALL"] == "C.UTF-8"


def test_clients_of_registries_have_the_proxies_and_no_more(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    monkeypatch.setenv("PIP_INDEX_URL", "http://index")
    variables = programs.network_environment()
    assert (
        variables["HTTPS_PROXY"] == "http://proxy" and variables["PIP_INDEX_URL"] == "http://index"
    )
    assert "PGPASSWORD" not in variables


@pytest.mark.parametrize("way", ["start", "start-as-user", "run"])
def test_a_program_dies_with_the_harness(harness_program, way):
    """Also one that has become another user, which clears what was requested before."""
    program, line = harness_program(STARTS, way)
    pid = int(line)
    assert process_stat(pid) is not None
    program.kill()
    program.wait()
    assert eventually(lambda: (stat := process_stat(pid)) is None or stat.dead)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_program_runs_as_the_user():
    user = present(unprivileged())
    done = programs.run(
        [sys.executable, "-c", "import os; print(os.getuid())"], timeout_s=PATIENCE_S
    )
    assert done.stdout.strip() == "0"
    assert programs.run(["id", "-u"], timeout_s=PATIENCE_S, user=user).stdout.strip() == str(
        user.uid
    )


def test_a_program_has_the_priority_that_it_is_started_with():
    """As the servers' user, who could not set it."""
    priority = -7 if os.geteuid() == 0 else 7
    user, pipe = unprivileged(), subprocess.PIPE
    with programs.start(["nice"], stdout=pipe, user=user, priority=priority) as process:
        assert int(process.communicate()[0]) == priority


#: Leaves a daemon behind: of another session, an orphan, without the variables that mark it.
LEAVES = """
import os, sys
if not os.fork():
    os.setsid()
    daemon = os.fork()
    if not daemon:
        os.execve("/bin/sleep", ["sleep", "1000"], {})
    print(daemon, flush=True)
    os._exit(0)
os.wait()
if "stay" in sys.argv:
    os.execv("/bin/sleep", ["sleep", "1000"])
"""


def is_dead(pid):
    return (stat := process_stat(pid)) is None or stat.dead


@pytest.mark.parametrize("user", [None, "nobody", "the servers' user"])
def test_a_foreign_program_leaves_no_daemon_behind(user):
    if user is not None and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    credentials = Credentials(65534, 65534, "nobody") if user == "nobody" else unprivileged()
    done = programs.run(
        ["/usr/bin/python3", "-c", LEAVES], timeout_s=PATIENCE_S, user=credentials, foreign=True
    )
    assert done.returncode == 0, done.stderr
    assert is_dead(int(done.stdout))


def test_what_a_foreign_program_has_left_is_killed_at_its_timeout():
    for limit_s in LIMITS_S:
        with pytest.raises(subprocess.TimeoutExpired) as expired:
            programs.run(
                ["/usr/bin/python3", "-c", LEAVES, "stay"], timeout_s=limit_s, foreign=True
            )
        if expired.value.output:  # it has left the daemon
            break
    assert is_dead(int(expired.value.output))


def test_a_foreign_program_has_no_new_privileges_and_an_end_of_its_own():
    status = programs.run(["cat", "/proc/self/status"], timeout_s=PATIENCE_S, foreign=True)
    assert "NoNewPrivs:\t1\n" in status.stdout
    for script, code in (("exit 3", 3), ("exit 200", 200), ("kill -SEGV $$", -signal.SIGSEGV)):
        assert (
            programs.run(["sh", "-c", script], timeout_s=PATIENCE_S, foreign=True).returncode
            == code
        )
    with pytest.raises(FileNotFoundError):
        programs.run(["/nonexistent"], timeout_s=PATIENCE_S, foreign=True)


def lines_of(script, limit_s=PATIENCE_S, stdin=""):
    return programs.lines(["sh", "-c", script], stdin=stdin, limit_s=limit_s)


def test_a_program_is_read_line_by_line_whatever_it_writes_to_stderr():
    noise = "head -c 1000000 /dev/zero | tr '\\0' x >&2"
    assert list(lines_of(f"echo one; {noise}; wc -c", stdin="y" * 1_000_000)) == ["one", "1000000"]


def test_a_program_that_fails_is_reported_with_the_end_of_its_stderr():
    with pytest.raises(subprocess.CalledProcessError) as failed:
        list(lines_of("echo one; echo problem >&2; exit 3"))
    assert (failed.value.returncode, failed.value.stderr) == (3, "problem\n")


@pytest.mark.parametrize("script", ["sleep 1000", "exec >&- 2>&-; sleep 1000"])
def test_a_program_that_prints_nothing_is_ended_at_its_limit(script):
    with pytest.raises(subprocess.TimeoutExpired):
        list(lines_of(script, limit_s=0.5))


def test_a_line_without_an_end_is_refused():
    with pytest.raises(OSError, match="without an end"):
        list(lines_of("cat /dev/zero"))


def test_nothing_is_started_in_another_way():
    folders = ("harness", "engines", "reports", "playbooks")
    lines = {
        f"{path.relative_to(ROOT)}:{number}"
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if str(path.relative_to(ROOT)) not in OTHERWISE
        if MAY_START.search(source := path.read_text())
        for number in _starts(ast.parse(source))
    }
    assert not lines, "use harness.supervise.programs, or the supervisor"


def _starts(tree: ast.AST):
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            # ``subprocess.Popen[bytes]`` is a type.
            names = STARTERS.get(node.value.id, set())
            if node.attr in names and not _is_type(tree, node):
                yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module in STARTERS:
            names = {alias.name for alias in node.names} & STARTERS[node.module]
            yield from [node.lineno] * bool(names)


def _is_type(tree: ast.AST, node: ast.Attribute) -> bool:
    return any(
        isinstance(node_of_tree, ast.Subscript) and node_of_tree.value is node
        for node_of_tree in ast.walk(tree)
    )


def test_a_client_is_killed_at_the_limit_with_what_it_started(tmp_path, monkeypatch):
    command = ["sh", "-c", "sleep 1000 & echo $! > child; wait"]
    for limit_s in LIMITS_S:
        monkeypatch.setenv("HARNESS_SILENCE", f"download={limit_s}")
        with pytest.raises(RunFailed) as failed:
            run_client("download it", command, tmp_path, "check the network")
        if (file := tmp_path / "child").exists() and file.read_text():
            break
    assert "HARNESS_SILENCE=download=" in failed.value.hint
    child = int(file.read_text())
    assert eventually(lambda: (stat := process_stat(child)) is None or stat.dead)


#: Starts one program after the other, and says how often it was interrupted.
INTERRUPTED = """
import logging  # which has hooks of forks
from harness.supervise import programs

memory = bytearray(1 << 28)  # whose pages a fork has to copy the table of
for interruptions in range(100):
    try:
        print(interruptions, flush=True)
        while True:
            programs.run(["true"], timeout_s=100_000)
    except KeyboardInterrupt:
        continue
"""


def test_no_interruption_is_lost_while_a_program_is_started():
    """Of those that come while Python forks, which is most of the time here."""
    command = [sys.executable, "-c", INTERRUPTED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        limit = threading.Timer(PATIENCE_S, process.kill)  # then it prints no further number
        limit.start()
        try:
            for expected in range(20):
                assert int(present(process.stdout).readline()) == expected
                time.sleep(expected / 2000)
                process.send_signal(signal.SIGINT)
            assert int(present(process.stdout).readline()) == 20
        finally:
            limit.cancel()
            process.kill()
