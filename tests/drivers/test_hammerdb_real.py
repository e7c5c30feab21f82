"""The real HammerDB on real servers of all three engines."""

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from narrowed import present

from harness.drivers.hammerdb.installation import find
from harness.drivers.hammerdb.process import build, measure
from harness.drivers.hammerdb.script import TimedRun, target_of
from harness.drivers.result import WindowCallbacks
from harness.errors import RunFailed
from harness.progress import SilentProgress

pytestmark = [pytest.mark.hammerdb, pytest.mark.slow]

TRANSACTIONS = {"new_order", "payment", "order_status", "delivery", "stock_level"}

#: Connects to whatever port a user (argument 1) opens, and has Tcl's package comm write a file.
ATTACK = """
import socket, sys
uid, proof = sys.argv[1:]
connections = {}
print("ready", flush=True)
while True:
    for line in open("/proc/net/tcp").readlines()[1:]:
        _, local, _, state, _, _, _, owner, _, inode = line.split()[:10]
        if state != "0A":
            break
        if owner != uid or inode in connections:
            continue
        connections[inode] = connection = socket.socket()
        try:
            connection.connect(("127.0.0.1", int(local.split(":")[1], 16)))
            connection.sendall(b"{3 2} 0\\n{send 1 {{exec touch %s}}}\\n" % proof.encode())
            print("attacked", flush=True)
        except OSError:
            pass
"""


@pytest.fixture
def attack(clients, open_path) -> Iterator[Path]:
    """Another user attacks each port of HammerDB's; yields the file that it would make."""
    if clients.credentials is None:
        pytest.skip("only root starts programs of other users")
    open_path.chmod(0o1777)
    uid = str(clients.credentials.uid)
    command = ["/usr/bin/python3", "-c", ATTACK, uid, str(open_path / "evaluated")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, user=65534, text=True) as attacker:
        assert present(attacker.stdout).readline() == "ready\n"
        yield open_path / "evaluated"
        os.kill(attacker.pid, 9)
        assert "attacked" in present(attacker.stdout).read()


@pytest.mark.parametrize("name", ["postgres", "mysql", "mariadb"])
def test_it_builds_and_drives(name, started, clients, attack):
    engine, hammerdb = started(name), find()
    target = target_of(engine)
    hammerdb.check(target.dialect, clients.credentials)
    build(hammerdb, target, clients, 1, 1, SilentProgress())
    with_connection = engine.connect()
    before = with_connection.execute("SELECT sum(d_next_o_id), count(*) FROM district").rows[0]
    assert before == (10 * 3001, 10)
    moments: list[str] = []
    drives = WindowCallbacks(lambda: moments.append("begin"), lambda: moments.append("end"))
    result = measure(
        hammerdb, target, clients, TimedRun(users=2, ramp_up_min=0, duration_min=1),
        SilentProgress(), drives,
    )  # fmt: skip
    after = with_connection.execute("SELECT sum(d_next_o_id) FROM district").rows[0][0]
    with_connection.close()
    assert moments == ["begin", "end"]
    # All that was ever ordered; the window is only the longest part of the run.
    new_orders = result.reported_per_minute["new_orders_per_minute"]
    transactions = result.reported_per_minute["database_transactions_per_minute"]
    assert 0 < new_orders <= after - before[0]
    assert set(result.operations) == TRANSACTIONS
    assert (result.operations["new_order"].called_count or 0) >= new_orders
    # 23 transactions of which ten are New-Orders (clause 5.2.4.2), as the server counts them.
    assert 2.0 < transactions / new_orders < 2.7
    assert present(result.client_cpu_ns) > 0
    assert not attack.exists()
    assert not list(clients.scratch.iterdir())


@pytest.mark.parametrize("name", ["postgres", "mysql", "mariadb"])
def test_a_server_that_dies_ends_the_run(name, started, clients):
    engine, hammerdb = started(name), find()
    target = target_of(engine)
    build(hammerdb, target, clients, 1, 1, SilentProgress())

    die = WindowCallbacks(threading.Timer(1.0, engine.kill).start, lambda: None)
    with pytest.raises(RunFailed) as failed:
        measure(hammerdb, target, clients, TimedRun(1, 0, 5), SilentProgress(), die)
    assert "it hangs" not in failed.value.context
    assert target.password not in str(failed.value.to_json())
    assert not list(clients.scratch.iterdir())
