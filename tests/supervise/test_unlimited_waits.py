"""All waits in the program have a limit, or are listed here with the reason for none.

What no walk sees has limits elsewhere: a connection's statements (`statement`), and calls of the
harness that wait for a device (`blocked`, test_silence.py). A pool waits for its jobs, whose waits
are seen.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Methods that wait, with the number of the argument that limits them.
LIMITED_BY = {"wait": 0, "join": 0, "communicate": 1, "acquire": 1, "create_connection": 1}
#: What is called so waits, whatever its arguments are.
ALWAYS = {
    "accept", "flock", "getch", "lockf", "readline", "recv", "recv_fds", "recv_into", "recvfrom",
    "recvmsg", "sigwait", "sync", "waitid", "waitpid",
}  # fmt: skip
PIPES = {"stdout", "stderr", "progress"}
#: Methods that wait of some objects alone.
OF_SOME = {"poll", "select", "result", "run", "read", "Popen"}


def waits(tree: ast.AST) -> Iterator[str]:
    """Yield the name of each call that may wait without a limit."""
    for node in ast.walk(tree):
        match node:
            case ast.For(iter=ast.Attribute(attr=name)) if name in PIPES:
                yield "for"
            case ast.Call(func=ast.Attribute() as function) if is_unlimited(node, function):
                yield function.attr


def is_unlimited(call: ast.Call, function: ast.Attribute) -> bool:
    name, positional = function.attr, len(call.args)
    of = ast.unparse(function.value) if name in OF_SOME else ""
    options = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    limit = next((value for key, value in options.items() if key.startswith("timeout")), None)
    limited = limit is not None and not (isinstance(limit, ast.Constant) and limit.value is None)
    waiting = {
        "get": positional == 0,  # a queue's: a table's has an argument
        "poll": of == "poller" and positional == 0,  # a process's does not wait
        "select": (of, positional) in {("select", 3), ("selector", 0)},
        "result": "future" in of and positional == 0,
        "run": of in ("subprocess", "programs"),
        "read": of == "os" or of.rpartition(".")[2] in PIPES,
        "Popen": of == "subprocess",
        "urlopen": True,
    }
    most = LIMITED_BY.get(name, -1)
    return name in ALWAYS or (not limited and (waiting.get(name, False) or positional <= most))


WATCHED = "a process of the run: watch.Watch kills it when it cannot work, which ends the wait"
KILLED = "a process of the run that was killed: the supervisor has seen it die, or failed"
BOUNDED = "what the thread waits for has limits of its own"
FILE = "a file of Linux or of a local disk: limit `blocked` of the harness itself"
#: Waits without a limit by file and call.
UNLIMITED = {
    "engines/_innodb/connection.py join": BOUNDED,
    "engines/_innodb/engine.py recv": "settimeout in the line before",
    "engines/_json_worker.py for": WATCHED,
    "engines/_json_worker.py wait": KILLED,
    "engines/_loading.py wait": "woken by each piece that ends; statements have limits",
    "engines/_loading.py result": BOUNDED,
    "engines/_programs.py join": BOUNDED,
    "engines/_programs.py read": WATCHED,
    "engines/_managed.py wait": WATCHED,
    "engines/duckdb/worker.py get": "in a process of the run, which ends with the harness",
    "engines/duckdb/worker.py join": WATCHED,
    "engines/duckdb/worker.py readline": "in a process of the run, which ends with the harness",
    "engines/voltdb/wire.py recv": "settimeout for each call",
    "harness/capture/logs.py readline": FILE,
    "harness/capture/postgres_log.py readline": FILE,
    "harness/drivers/client_program.py wait": WATCHED,
    "harness/drivers/replay/client.py readline": "the harness has the limit of this process",
    "harness/drivers/replay/wires.py recv": "MSG_DONTWAIT",
    "harness/drivers/replay/wires.py select": "the harness has the limit of this process",
    "harness/drivers/loadgen/processes.py for": WATCHED,
    "harness/drivers/loadgen/processes.py join": BOUNDED,
    "harness/drivers/loadgen/processes.py read": WATCHED,
    "harness/drivers/loadgen/processes.py wait": KILLED,
    "harness/drivers/loadgen/remote_clients.py communicate": "a timer kills ssh at limit `hello`",
    "harness/drivers/loadgen/remote_clients.py readline": "a timer kills ssh at limit `hello`",
    "harness/drivers/ycsb/client.py wait": WATCHED,
    "harness/host/tmpfs_room.py join": BOUNDED,
    "harness/cli/__init__.py read": "its thread alone: for a signal, until the process ends",
    "harness/jsonfile.py read": FILE,
    "harness/monitors/__init__.py join": BOUNDED,
    "harness/monitors/_perf_stat.py read": "after select with a limit",
    "harness/remote_agent.py wait": "on a client host: the harness that drives it has the limit",
    "harness/rewrite/executed.py waitpid": "the user's own program, which ends with the harness",
    "harness/supervise/channel.py recv": "a timeout of the socket; the supervisor's end closes",
    "harness/supervise/channel.py recv_fds": "a timeout of the socket; the supervisor's end closes",
    "harness/supervise/child.py readline": "before exec: limit `exec`",
    "harness/supervise/daemon.py poll": "the supervisor's purpose: it ends with the harness",
    "harness/supervise/daemon.py read": "of a pipe that has something, or does not block",
    "harness/supervise/daemon.py waitpid": "WNOHANG",
    "harness/supervise/journal.py read": FILE,
    "harness/supervise/lifeline.py Popen": "until exec, of this very Python",
    "harness/supervise/locks.py flock": "LOCK_NB: wait_until has the limit",
    "harness/supervise/listeners.py recv": "the kernel has answered when send returns",
    "harness/supervise/process.py read": FILE,
    "harness/supervise/programs.py Popen": "until exec, of a program on a local disk",
    "harness/supervise/programs.py read": "after select with a limit",
    "harness/supervise/remaining.py waitpid": "WNOHANG",
    "harness/supervise/starting.py for": WATCHED,
    "harness/supervise/starting.py get": BOUNDED,
    "harness/supervise/starting.py join": BOUNDED,
    "harness/supervise/starting.py read": WATCHED,
    "harness/supervise/starting.py wait": WATCHED,
    "harness/supervise/undo.py read": FILE,
    "harness/supervise/watch.py join": BOUNDED,
    "harness/tiers/linux/kernel.py read": FILE,
    "harness/workloads/sql/convert.py readline": FILE,
    "harness/workloads/sql/folder.py readline": FILE,
    "harness/workloads/sql/convert.py communicate": "the harness has the limit of this process",
    "harness/workloads/sql/public/generate.py readline": FILE,
    "reports/charts/drawing.py get": "a context variable, which has a value",
    "harness/workloads/sql/replay.py join": WATCHED,
    "harness/workloads/sql/replay.py wait": WATCHED,
    "harness/workloads/streams.py join": BOUNDED,
    "harness/workloads/streams.py wait": "a barrier that the first failure aborts",
    "harness/workloads/tpcc/durability.py join": BOUNDED,
    "harness/workloads/tpch/source_database.py join": "the statement was interrupted",
    "harness/workloads/tpch/throughput.py wait": "streams, which end with the first failure",
}


def test_each_wait_has_a_limit_or_a_reason():
    unlimited = {
        f"{path.relative_to(ROOT)} {call}"
        for folder in ("harness", "engines", "reports")
        for path in (ROOT / folder).rglob("*.py")
        for call in waits(ast.parse(path.read_text()))
    }
    assert unlimited - UNLIMITED.keys() == set(), "give it a limit (harness.supervise.silence)"
    assert UNLIMITED.keys() - unlimited == set(), "it is no more: remove its reason"


@pytest.mark.parametrize(
    "unlimited",
    [
        "process.wait()", "process.wait(timeout=None)", "thread.join()", "process.communicate()",
        "queue.get()", "poller.poll()", "select.select([a], [], [])", "future.result()",
        "subprocess.run(command)", "programs.run(command, timeout_s=None)", "os.sync()",
        "os.read(pipe, 1)", "process.stdout.read()", "connection.recv(1)", "server.accept()",
        "fcntl.flock(file, fcntl.LOCK_EX)", "request.urlopen(url)",
    ],
)  # fmt: skip
def test_a_wait_without_a_limit_is_seen(unlimited):
    assert len(list(waits(ast.parse(unlimited)))) == 1


@pytest.mark.parametrize(
    "limited",
    [
        "process.wait(5)", "thread.join(timeout=5)", "', '.join(words)", "table.get(key)",
        "queue.get(timeout=5)", "select.select([a], [], [], 5)", "process.poll()",
        "programs.run(command, timeout_s=5)", "file.read()",
    ],
)  # fmt: skip
def test_a_wait_with_a_limit_passes(limited):
    assert list(waits(ast.parse(limited))) == []
