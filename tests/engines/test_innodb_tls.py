"""The native client over TCP: encrypted, the certificate checked, passwords of every kind."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pymysql
import pytest
from patience import PATIENCE_S

from engines._innodb.dsn import dsn_of
from engines._innodb.installation import choose
from harness import paths
from harness.drivers.loadgen import processes
from harness.errors import RunFailed
from harness.supervise.failures import log_tail
from harness.workload import Clients

#: What the server says of the session, as an answer that is wrong without encryption.
ENCRYPTED = {
    "mysql": "select if(variable_value = '', -1, 1) from performance_schema.session_status "
    "where variable_name = 'Ssl_cipher'",
    "mariadb": "select if(variable_value = '', -1, 1) from information_schema.session_status "
    "where variable_name = 'Ssl_cipher'",
}
#: A liveness bound, far above anything a busy machine needs.
USER, PASSWORD = "owner", "p@ss/'word"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA, and a key and certificate of 127.0.0.1 by it; another CA that made nothing."""
    folder = tmp_path_factory.mktemp("ca")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    openssl(*new, "-subj", "/CN=A", "-keyout", "ca.key", "-out", "ca.pem")
    openssl(*new, "-subj", "/CN=B", "-keyout", "other.key", "-out", "other.pem")
    openssl(*new, "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
            "-CA", "ca.pem", "-CAkey", "ca.key", "-keyout", "server.key",
            "-out", "server.pem")  # fmt: skip
    return folder


@pytest.fixture(scope="module", params=("mysql", "mariadb"))
def server(
    request: pytest.FixtureRequest, module_lab: Any, authority: Path, empty_engines: Any
) -> Iterator[Any]:
    """A server on TCP, as a user would have it: (flavour, port, lab)."""
    lab, flavour = module_lab, request.param
    engine = lab.engine(flavour)
    places = lab.places()
    engine.restore(empty_engines.data(flavour), places)
    engine.start()
    kind = {"mysql": "caching_sha2_password", "mariadb": "ed25519"}[flavour]
    how = f"with {kind} by" if flavour == "mysql" else "by"
    connection = engine.connect()
    connection.execute("create database shop")
    connection.execute(f"create user '{USER}'@'127.0.0.1' identified {how} \"{PASSWORD}\"")
    connection.execute(f"grant all on shop.* to '{USER}'@'127.0.0.1'")
    connection.close()
    engine.stop()
    keys = lab.directory("keys")
    for name in ("ca.pem", "server.pem", "server.key"):
        (keys / name).write_bytes((authority / name).read_bytes())
        if lab.credentials is not None:
            os.chown(keys / name, lab.credentials.uid, lab.credentials.gid)
    installation = choose(flavour, {}, paths.engines_prefix())
    options = {
        **installation.folders(), **engine._cluster.locations(_known(flavour)),
        "socket": lab.directory("s") / "s", "bind_address": "127.0.0.1",
        "secure_file_priv": "", "ssl_ca": keys / "ca.pem", "ssl_cert": keys / "server.pem",
        "ssl_key": keys / "server.key",
    }  # fmt: skip
    process, port = _listening(lab, installation.command, options)
    yield flavour, port, lab
    process.kill()


def _known(flavour: str) -> Any:
    only = {"mysql": {"aria_log_dir_path"}, "mariadb": {"innodb_doublewrite_dir",
            "innodb_temp_tablespaces_dir"}}[flavour]  # fmt: skip
    return lambda name: name not in only


def _listening(lab: Any, command: Sequence[str], options: dict[str, Any]) -> tuple[Any, int]:
    """The server once it answers, and its port: another one while somebody else takes it first.

    Neither server can be told to have the kernel choose: port 0 is their usual one.
    """
    while True:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        words = {**options, "port": port}
        process = lab.supervisor.spawn(
            [*command, "--no-defaults", "--skip-log-bin",
             *(f"--{name.replace('_', '-')}={value}" for name, value in words.items())],
            log=(log := lab.directory("l") / "log"), credentials=lab.credentials,
        )  # fmt: skip
        if _answers(process, port):
            return process, port
        told = log.read_text(errors="replace")
        assert "Address already in use" in told, log_tail(log, None)


def _answers(process: Any, port: int) -> bool:
    """Wait until the server answers: False where it ends before that."""
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None:
        try:
            # Whoever else has taken the port may never greet.
            pymysql.connect(
                host="127.0.0.1", port=port, user=USER, password=PASSWORD, read_timeout=10
            ).close()
            return True
        except pymysql.Error as error:
            assert time.monotonic() < deadline, error
            time.sleep(0.1)
    return False


def _ask(server: Any, monkeypatch: pytest.MonkeyPatch, query: str = "") -> dict[str, Any]:
    """A short run whose every answer tells whether it came encrypted."""
    flavour, port, lab = server
    given = f"{flavour}://{USER}:p%40ss%2F%27word@127.0.0.1:{port}/shop{query}"
    monkeypatch.setenv("HARNESS_DSN", given)
    names = ("new_order", "payment", "order_status", "delivery", "stock_level")
    spec = {
        "schema": 1, "task": "run", "backend": "innodb",
        "connection": dsn_of(flavour, {"dsn": "env"}).native(),
        "workload": {"name": "tpcc", "params": {"warehouses": 1, "data_seed": 1, "home": "all",
                                                "mix": {"stock_level": 100}}},
        "statements": dict.fromkeys(names, ENCRYPTED[flavour]), "threads": 1, "connections": 2,
        "mode": {"kind": "closed", "think_time": False}, "ramp_up_ns": 0, "operations": 20,
        "stall_timeout_ns": PATIENCE_S * 10**9, "seed": 1,
    }  # fmt: skip
    return processes.drive([spec], Clients(lab.supervisor, lab.credentials, lab.directory("c")))


def test_what_the_server_offers_is_taken(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    result = _ask(server, monkeypatch)
    assert {one["type"]: one["count"] for one in result["operations"]}["stock_level"] == 20


def test_a_certificate_of_the_given_authority_is_good(
    server: Any, monkeypatch: pytest.MonkeyPatch, authority: Path
) -> None:
    ca = _readable(server, authority / "ca.pem")
    result = _ask(server, monkeypatch, f"?ssl-ca={ca}")
    assert {one["type"]: one["count"] for one in result["operations"]}["stock_level"] == 20


def test_another_authoritys_is_refused(
    server: Any, monkeypatch: pytest.MonkeyPatch, authority: Path
) -> None:
    other = _readable(server, authority / "other.pem")
    with pytest.raises(RunFailed, match=r"(?i)certificate|TLS|SSL"):
        _ask(server, monkeypatch, f"?ssl-ca={other}")


def _readable(server: Any, file: Path) -> Path:
    """A copy that the client's user can read."""
    copy: Path = server[2].directory("ca") / file.name
    copy.write_bytes(file.read_bytes())
    copy.chmod(0o644)
    if server[2].credentials is not None:
        os.chown(copy, server[2].credentials.uid, server[2].credentials.gid)
    return copy
