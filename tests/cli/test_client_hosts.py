"""TPC-C and YCSB driven from other hosts: here through a stand-in for ssh (conftest.py)."""

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from run_values import uncontrolled, values

from harness.drivers.loadgen.remote_clients import RemoteClients
from harness.engine import Tunnel
from harness.errors import UsageError


@pytest.fixture(scope="module")
def harness(loaded):
    """One store for all tests: databases are made once."""
    return loaded


@pytest.fixture
def client(harness, ssh):
    """``harness run tpcc`` as small as can be."""

    def run(*more):
        # A machine may stand still for all of a shorter time.
        small = ("--warehouses", 1, "--users", 4, "--rate", 40, "--ramp-up", "0s",
                 "--duration", "8s")  # fmt: skip
        where = ("--engine", "postgres", "--placement", "ssd-both", "--json", "--quiet")
        return harness("run", "tpcc", *where, *small, *more,
                       HARNESS_CLIENT_PYTHON=sys.executable)  # fmt: skip

    return run


def asked(ssh: Path) -> list[str]:
    """The host of each command."""
    return [line.split()[0] for line in (ssh / "commands").read_text().splitlines()]


@pytest.mark.slow
def test_two_hosts_make_one_run(harness, ssh, client):
    run = client("-p", "client_hosts=client1,bench@client2").run
    assert run["status"] == "complete"
    assert run["spec"]["params"]["clients"] == 2
    assert sorted(asked(ssh)) == ["bench@client2"] * 2 + ["client1"] * 2  # hello, and the run
    assert not list(Path("/tmp").glob(".s.PGSQL.[2-5]????"))
    assert harness.settled() == []


@pytest.mark.slow
def test_two_hosts_read_and_update_the_same_records(harness, ssh):
    run = harness("run", "ycsb", "--engine", "mariadb", "--workload", "f", *RECORDS,
                  "-p", "client_hosts=client1,client2", "-p", "verify_reads=true",
                  HARNESS_CLIENT_PYTHON=sys.executable).run  # fmt: skip
    assert run["status"] == "complete"  # the records are as they were written last, among others
    assert sum(values(run, "operation_count", "operation").values()) == 1000
    assert "client1, client2 reach the server" in uncontrolled(run)["remote-clients"]
    assert sorted(asked(ssh)) == ["client1"] * 2 + ["client2"] * 2
    assert harness.settled() == []


def test_an_engine_inside_the_client_is_not_driven_from_elsewhere(harness, ssh):
    done = harness("run", "ycsb", "--engine", "rocksdb", "--placement", "ssd-both", "--json",
                   "-p", "client_hosts=client1,client2")  # fmt: skip
    assert done.code == 2
    assert "client_hosts client1,client2 on rocksdb" in str(done.json["error"])
    assert not (ssh / "commands").exists()


def test_durability_is_looked_for_here_alone(client):
    done = client("-p", "client_hosts=client1", "--test", "durability")
    assert done.code == 2
    assert "durability with client_hosts" in done.err


def remote(*hosts):
    tunnel = Tunnel(Path("/run/here.sock"), "/tmp/there.sock", {"host": "/tmp"})
    engine: Any = SimpleNamespace(native_backend="postgres", takes_remote_clients=True,
                             from_elsewhere=lambda: None, tunnel=lambda token: tunnel)  # fmt: skip
    return RemoteClients(hosts, engine)


def test_processes_go_round_the_hosts():
    routes = [remote("one", "two").route(i, str) for i in range(3)]
    assert [argv[-2] for argv, _ in routes] == ["one", "two", "one"]
    argv, connection = routes[0]
    assert "/tmp/there.sock:/run/here.sock" in argv
    assert connection == {"host": "/tmp"}


@pytest.mark.parametrize("does", ["exec sleep 1000", "echo '{\"interface'"])
def test_a_host_that_does_not_answer_is_not_waited_for(ssh, monkeypatch, does):
    monkeypatch.setenv("HARNESS_SILENCE", "hello=0.5")
    (ssh / "ssh").write_text(f"#!/bin/sh\n{does}\n")
    with pytest.raises(UsageError):
        remote(f"silent-{len(does)}").check()


# By TLS, without a tunnel ---------------------------------------------------------


_LISTEN = ("--listen", "127.0.0.1")
RECORDS = ("--placement", "ssd-both", "--records", 1000, "--operations", 1000, "--threads", 4,
           "--json", "--quiet")  # fmt: skip


@pytest.fixture
def options(listening_options):
    """``--option`` for a server that can listen."""

    def told(engine):
        return [word for pair in listening_options[engine].items()
                for word in ("--option", "=".join(pair))]  # fmt: skip

    return told


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "backend"), [("postgres", "postgres"), ("mariadb", "innodb")])
def test_two_hosts_drive_a_listening_server(harness, ssh, options, engine, backend):
    run = harness("run", "ycsb", "--engine", engine, "--workload", "a", *RECORDS, *options(engine),
                  *_LISTEN, "-p", "client_hosts=client1,bench@client2",
                  HARNESS_CLIENT_PYTHON=sys.executable).run  # fmt: skip
    assert (run["status"], run["spec"]["listen"]) == ("complete", "127.0.0.1")
    assert sum(values(run, "operation_count", "operation").values()) == 1000
    warnings = [
        warning["found"] for warning in run["uncontrolled"] if warning["code"] == "remote-clients"
    ]
    (context,) = [text for text in warnings if "TLS" in text]
    assert "client1, bench@client2" in context and "by TLS on 127.0.0.1" in context
    assert not (ssh / "tunnels").exists()
    commands = (ssh / "commands").read_text().splitlines()
    runs = [line for line in commands if " run " in line]
    assert sorted(line.split()[0] for line in runs) == ["bench@client2", "client1"]  # at one time
    assert all(line.endswith(f"harness.remote_agent run {backend}") for line in runs)
    assert harness.settled() == []
    if engine == "postgres":
        report = harness("report", run["run_id"], "--out", harness.root / "report-tls")
        assert report.code == 0, report.err
        text = (harness.root / "report-tls" / "report.md").read_text()
        assert "remote-clients" in text
        assert "with TLS" in text and "127.0.0.1" in text


@pytest.mark.slow
def test_kill_9_leaves_no_key_and_no_listener(harness, ssh, options):
    process = harness.start(
        "run", "ycsb", "--engine", "postgres", "--placement", "ssd-both", "--records", 1000,
        "--ramp-up", "60s", "--duration", "60s", *_LISTEN, "-p", "client_hosts=client1",
        *options("postgres"),
        HARNESS_CLIENT_PYTHON=sys.executable,
    )  # fmt: skip
    keys: list[Path] = []
    while process.poll() is None and not keys:
        time.sleep(0.02)
        keys = list(harness.data.glob("run/tb-*/tls/server.key"))
    assert keys, process.communicate()
    process.kill()
    process.communicate()
    assert harness.settled() == []
    assert not keys[0].exists()
