"""Clients on other hosts that reach a listening server by TLS, without a tunnel."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from harness.supervise import workdirs

_LISTEN = ("--listen", "127.0.0.1")


@pytest.fixture(scope="module")
def harness(loaded):
    """One store for all tests: databases are made once."""
    return loaded


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
    done = harness("run", "ycsb", "--engine", engine, "--placement", "ssd-both", *options(engine),
                   "--workload", "a", "--records", 1000, "--operations", 1000, "--threads", 4,
                   "--json", "--quiet", *_LISTEN, "-p", "client_hosts=client1,bench@client2",
                   HARNESS_CLIENT_PYTHON=sys.executable)  # fmt: skip
    run = done.run
    assert run["status"] == "complete"
    assert run["spec"]["listen"] == "127.0.0.1"
    counts = [m["value"] for m in run["metrics"] if m["name"] == "operation_count"]
    assert sum(counts) == 1000
    warnings = [one["found"] for one in run["uncontrolled"] if one["code"] == "remote-clients"]
    (found,) = [text for text in warnings if "TLS" in text]
    assert "client1, bench@client2" in found
    assert "by TLS on 127.0.0.1" in found
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
        assert "server listens, with TLS, on" in text


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
        keys = list(workdirs.base().glob("tb-*/tls/server.key"))
    assert keys, process.communicate()
    process.kill()
    process.communicate()
    assert harness.settled() == []
    assert not keys[0].exists()
