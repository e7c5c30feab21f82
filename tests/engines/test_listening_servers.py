"""Servers that listen on an address of the host: TLS alone, known by the run's own authority."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
from lab import empty, execute
from open_files import LOOPBACK, listening

from engines._innodb.external import dsn_of
from harness.drivers.loadgen import processes
from harness.drivers.loadgen.spec import LoadgenResult, LoadgenSpec, LoopMode
from harness.errors import RunFailed, UsageError
from harness.host.listen_address import parse_listen
from harness.workload import Clients

#: An answer that the workload takes for wrong, where the session is not encrypted.
ENCRYPTED = {
    "postgres": "select case when ssl then 1 else -1 end from pg_stat_ssl "
    "where pid = pg_backend_pid()",
    "mysql": "select if(variable_value = '', -1, 1) from performance_schema.session_status "
    "where variable_name = 'Ssl_cipher'",
}
PLAIN: dict[str, dict[str, Any]] = {
    "postgres": {"sslmode": "disable"}, "mysql": {"ssl_disabled": True},
}  # fmt: skip
ADDRESS = "127.0.0.1"


@dataclass
class Listening:
    name: str
    engine: Any
    lab: Any

    @property
    def connection(self) -> dict[str, Any]:
        """Return the connection that clients on other hosts get."""
        connection = self.engine.from_elsewhere()
        assert connection is not None
        return dict(connection)

    def ask(self, **other) -> LoadgenResult:
        """A short run of the native client from another host."""
        return self.run(self.connection | other)

    def run(self, connection: dict[str, Any]) -> LoadgenResult:
        """A short run of the native client, which fails if a session is not encrypted."""
        names = ("new_order", "payment", "order_status", "delivery", "stock_level")
        spec = LoadgenSpec(
            self.engine.native_backend, connection, "tpcc",
            {"warehouses": 1, "data_seed": 1, "home": "all", "mix": {"stock_level": 100}},
            statements=dict.fromkeys(names, ENCRYPTED[self.name]), threads=1, connections=2,
            mode=LoopMode(think_time=False), operations=100, drain_ns=10**9, seed=1,
        )  # fmt: skip
        clients = Clients(self.lab.supervisor, self.lab.credentials, self.lab.directory("c"))
        return processes.drive([spec], clients)

    def open(self, tls: dict[str, Any] | None = None, **other: str):
        """A session of another client, encrypted where ``tls`` does not say otherwise; ``other``:
        members of the connection.
        """
        there = self.connection | other
        common = {name: there[name] for name in ("host", "port", "user", "password")}
        if self.name == "postgres":
            tls = tls or {"sslmode": "require"}
            return psycopg.connect(**common, dbname=there["database"], **tls)
        tls = tls or {"ssl": ssl.create_default_context(cadata=there["ca_certificate"])}
        return pymysql.connect(**common, database=there["database"], **tls)

    def open_verified(self, **other: str):
        """One that checks the certificate."""
        authority = self.lab.directory("a") / "authority.pem"
        authority.write_text(self.connection["ca_certificate"])
        if self.name == "postgres":
            return self.open({"sslmode": "verify-full", "sslrootcert": str(authority)}, **other)
        verified = {"ssl_verify_cert": True, "ssl_verify_identity": True}
        return self.open({"ssl_ca": str(authority), **verified}, **other)


def _engine(lab, name: str, listen: str | None = ADDRESS, client: str = ADDRESS, **options):
    heard = {"listen": parse_listen(listen), "client_addresses": (client,)} if listen else {}
    return lab.engine(name, options=options, **heard)


def denied():
    """An error by which a server keeps a session out."""
    words = r"no pg_hba\.conf entry|denied|not allowed"
    return pytest.raises((psycopg.OperationalError, pymysql.Error), match=words)


@pytest.fixture(scope="module", params=("postgres", "mysql"))
def server(request, module_lab, listening_options):
    options = listening_options[request.param]
    engine = _engine(module_lab, request.param, **options)
    engine.restore(empty(request.param, options), module_lab.places())
    engine.start()
    yield Listening(request.param, engine, module_lab)
    engine.kill()


@contextmanager
def _forwarded(address: str, to: tuple[str, int]) -> Iterator[int]:
    """A port of another address that leads to a server."""

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                near, far = listener.accept()[0], socket.create_connection(to)
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=copy, args=pair, daemon=True).start()

    with socket.create_server((address, 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def _ports(engine) -> set[tuple[str, int]]:
    return listening(*(process.pid for process in engine.processes()))


def test_every_statement_of_the_client_is_encrypted_on_that_address_alone(server):
    assert server.ask().operations["stock_level"].count > 0
    ((address, port),) = _ports(server.engine)
    assert address in LOOPBACK and port == server.connection["port"]


def test_without_encryption_no_client_connects(server):
    server.open_verified().close()
    with pytest.raises((psycopg.OperationalError, pymysql.Error)) as refused:
        server.open(PLAIN[server.name])
    words = str(refused.value)
    assert "no encryption" in words or "secure" in words.lower() or "Access denied" in words


def test_a_wrong_password_is_refused(server):
    with pytest.raises((psycopg.OperationalError, pymysql.Error), match=r"password|denied"):
        server.open_verified(password="not-it")
    with pytest.raises(RunFailed, match=r"password|denied"):
        server.ask(password="not-it")


@pytest.fixture(scope="module")
def other_authority(tmp_path_factory):
    """The certificate of an authority that did not sign the server's."""
    folder = tmp_path_factory.mktemp("ca")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=B -keyout k -out c"
    subprocess.run(command.split(), check=True, capture_output=True, cwd=folder)
    return (folder / "c").read_text()


def test_a_server_of_another_authority_is_refused(server, other_authority):
    with pytest.raises(RunFailed, match=r"(?i)certificate|TLS|SSL"):
        server.ask(ca_certificate=other_authority)


@pytest.mark.only("mysql")
def test_a_dsn_s_connection_is_verified(server, other_authority, monkeypatch):
    execute(
        server.engine,
        f"create user owner@'{ADDRESS}' identified with caching_sha2_password "
        'by "p@ss/\'word" require ssl',
        f"grant all on harness.* to owner@'{ADDRESS}'",
    )

    def run(authority):
        dsn = (
            f"{server.name}://owner:p%40ss%2F%27word@{ADDRESS}:{server.connection['port']}/harness"
        )
        if authority is not None:
            file = server.lab.directory("ca") / "authority.pem"
            file.write_text(authority)
            file.chmod(0o644)
            dsn += f"?ssl-ca={file}"
        monkeypatch.setenv("HARNESS_DSN", dsn)
        name: Any = server.name
        return server.run(dsn_of(name, {"dsn": "env"}).native())

    for authority in (None, server.connection["ca_certificate"]):
        assert run(authority).operations["stock_level"].count > 0
    with pytest.raises(RunFailed, match=r"(?i)certificate|TLS|SSL"):
        run(other_authority)


def test_at_another_address_it_is_not_believed(server):
    """The certificate is of one address; the same server is found at another one."""
    port = server.connection["port"]
    with (
        _forwarded("127.0.0.2", (ADDRESS, port)) as other,
        pytest.raises(RunFailed, match=r"(?i)certificate|TLS|SSL"),
    ):
        server.ask(host="127.0.0.2", port=other)


def test_the_certificate_is_the_addresss(server, tmp_path):
    authority = tmp_path / "authority.pem"
    authority.write_text(server.connection["ca_certificate"])
    files = server.engine._listening
    private: Any = ssl
    decoded = private._ssl._test_decode_cert(str(files.certificate))
    assert decoded["subjectAltName"] == (("IP Address", ADDRESS),)
    verified = ["openssl", "verify", "-x509_strict", "-CAfile", authority, files.certificate]
    assert subprocess.run(verified, check=False, capture_output=True).returncode == 0


def test_keys_are_the_servers_users_alone(server):
    files = server.engine._listening
    assert sorted(p.name for p in files.key.parent.glob("*.key")) == ["server.key"]
    facts = files.key.stat()
    assert facts.st_mode & 0o077 == 0
    if server.lab.credentials is not None:
        assert facts.st_uid == server.lab.credentials.uid
        assert files.key.parent.stat().st_mode & 0o077 == 0


def test_the_password_stands_in_no_log(server):
    scratch = server.engine._context.scratch
    password = server.connection["password"]
    logs = [p for p in scratch.rglob("*") if p.is_file() and password in p.read_text("latin1")]
    assert logs == []
    for process in server.engine.processes():
        with suppress(OSError):  # a worker of that moment has ended
            assert password not in Path(f"/proc/{process.pid}/cmdline").read_text()


BEYOND_A_CLIENT = {
    "postgres": (
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "COPY (SELECT 1) TO '/tmp/stolen'",
        "SELECT pg_read_file('/etc/hostname')",
        "CREATE TABLE stolen ()",
    ),
    "mysql": (
        "CREATE TABLE stolen (a int)",
        "CREATE DATABASE stolen",
        "SELECT 1 INTO OUTFILE '/tmp/stolen'",
        "SELECT * FROM mysql.user",
        "SET GLOBAL read_only = 1",
        "CREATE USER other IDENTIFIED BY 'p'",
    ),
}


def test_a_client_elsewhere_has_no_administrative_rights(server):
    for statement in BEYOND_A_CLIENT[server.name]:
        with (
            closing(server.open()) as connection,
            pytest.raises(
                (psycopg.errors.InsufficientPrivilege, pymysql.Error),
                match=r"denied|privilege|must be",
            ),
        ):
            connection.cursor().execute(statement)


def test_a_client_elsewhere_does_not_know_the_superusers_password(server):
    local, there = server.engine.native_connection(), server.connection
    assert (there["user"], there["password"]) != (local["user"], local["password"])
    assert local["password"] not in str(there)
    for user, password in ((local["user"], local["password"]), (local["user"], there["password"])):
        with denied():
            server.open(user=user, password=password)


def test_no_other_database_is_reached_from_elsewhere(server):
    with denied():
        server.open(database=server.name)


@pytest.mark.parametrize("name", ["postgres", "mysql"])
def test_no_other_host_may_connect(lab, listening_options, name):
    options = listening_options[name]
    engine = _engine(lab, name, client="192.0.2.1", **options)  # RFC 5737: of no host
    engine.restore(empty(name, options), lab.places())
    engine.start()
    try:
        with denied():
            Listening(name, engine, lab).open()
    finally:
        engine.kill()


@pytest.mark.parametrize("loading", [False, True], ids=["by default", "in a load"])
@pytest.mark.parametrize("name", ["postgres", "mysql"])
def test_no_server_listens(lab, name, listening_options, loading):
    options = listening_options[name] if loading else {}
    engine = _engine(lab, name, listen=ADDRESS if loading else None, **options)
    engine.restore(empty(name, options), lab.places())
    engine._loading = loading
    engine.start()
    try:
        assert engine.takes_remote_clients and engine.from_elsewhere() is None
        assert _ports(engine) == set()
        assert loading or not (engine._context.scratch / "tls").exists()
    finally:
        engine.kill()


def test_a_build_without_tls_is_refused(lab):
    """The pinned PostgreSQL of the private prefix is such a one."""
    with pytest.raises(UsageError, match="built without TLS") as refused:
        _engine(lab, "postgres", version="18.4")
    assert "version or prefix" in refused.value.hint
    _engine(lab, "postgres", listen=None, version="18.4")


@pytest.mark.parametrize("given", ["0.0.0.0", "::", "server1", "10.0.0.1:70000"])
def test_what_is_no_address_of_one_interface_is_refused(given):
    with pytest.raises(UsageError):
        parse_listen(given)
