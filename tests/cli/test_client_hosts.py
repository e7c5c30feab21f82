"""TPC-C and YCSB driven from other hosts: here through a stand-in for ssh (conftest.py).

(Over a real sshd: docs/provisioning.md.)
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

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


@pytest.mark.slow
def test_two_hosts_make_one_run(harness, ssh, client):
    done = client("-p", "client_hosts=client1,bench@client2")
    run = done.run
    assert run["status"] == "complete"
    assert run["spec"]["params"]["clients"] == 2
    asked = [line.split()[0] for line in (ssh / "commands").read_text().splitlines()]
    assert sorted(asked) == ["bench@client2"] * 2 + ["client1"] * 2  # hello, and the run
    assert not list(Path("/tmp").glob(".s.PGSQL.[2-5]????"))
    assert harness.settled() == []


@pytest.mark.slow
def test_two_hosts_read_and_update_the_same_records(harness, ssh):
    done = harness("run", "ycsb", "--engine", "mariadb", "--placement", "ssd-both",
                   "--workload", "f", "--records", 1000, "--operations", 1000, "--threads", 4,
                   "--json", "--quiet", "-p", "client_hosts=client1,client2",
                   "-p", "verify_reads=true", HARNESS_CLIENT_PYTHON=sys.executable)  # fmt: skip
    run = done.run
    assert run["status"] == "complete"  # the records are as they were written last, among others
    counts = [m["value"] for m in run["metrics"] if m["name"] == "operation_count"]
    assert sum(counts) == 1000
    (found,) = [one for one in run["uncontrolled"] if one["code"] == "remote-clients"]
    assert "client1, client2 reach the server through ssh tunnels" in found["found"]
    asked = [line.split()[0] for line in (ssh / "commands").read_text().splitlines()]
    assert sorted(asked) == ["client1"] * 2 + ["client2"] * 2
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
    assert "the journal of commits stays on the host of each client" in done.err


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
