"""The server process of a VoltDB: started, stopped with a snapshot, killed.

It listens on the loopback address alone, with a password of the run. Two of its ports, which are
for other servers of a cluster, take anyone, and hold what a login sends: where we are root, the
server has a network of its own.
"""

from __future__ import annotations

import random
import signal
import socket
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from engines._server import ServerProcess
from engines.voltdb.cluster import Cluster
from engines.voltdb.connection import VoltDbConnection
from engines.voltdb.deployment import USER
from engines.voltdb.wire import Connection, Refused, WireError
from harness.engine import OWN_NETWORK, EngineContext, MemoryPolicy, Process
from harness.errors import RunFailed
from harness.supervise.failures import log_tail
from harness.supervise.linux import network_of
from harness.supervise.silence import limit_s, phase
from harness.supervise.user_files import write_text

_HOST = "127.0.0.1"
_PORT_RANGE, _FIRST_PORT = Path("/proc/sys/net/ipv4/ip_local_port_range"), 10_000
_PORTS = ("port", "adminport", "internalport", "zkport", "replicationport")
_LOGIN_S = 30.0
#: How often a server that starts is looked at: what it says last may be that it gave up,
#: while its process lives on.
_LOOK_S, _LOOK_LINES = 0.25, 100
_GAVE_UP = (
    'Exception in thread "main"',
    "VoltDB has encountered an unrecoverable error",
    "VoltDB will now exit",
    "FATAL",
)
_READY = "Server completed initialization."
_SNAPSHOT_RETRY_S = 0.2
_LOG4J = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %-5p [%t] %c{1}: %m%n
"""


class Server(ServerProcess[Cluster]):
    """One server on one cluster."""

    def __init__(self, cluster: Cluster, memory: MemoryPolicy | None, password: str) -> None:
        super().__init__(cluster, memory)
        self._password = password
        self._looked_s = 0.0
        self.ports: dict[str, int] = {}

    def start(self, heap_bytes: int, verify: Callable[[], None]) -> None:
        """Start and return when it answers; RunFailed with its last lines.

        ``verify`` is called then; what it raises ends the server.
        """
        if self.running:
            return
        self._cluster.clean = False
        self.ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
        try:
            self._launch(
                self._command(heap_bytes),
                self._answers,
                orphaned=signal.SIGKILL,
                network=OWN_NETWORK,
            )
            verify()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Save all data as a snapshot, then shut down; RunFailed when it was not saved."""
        if self._process is None:
            return
        with phase("stop"):
            nonce = self.save() if self.running else ""
        self._end(signal.SIGTERM, self._request_shutdown)  # reports a server that had ended
        self._cluster.keep_only(nonce)
        self._cluster.make_durable()
        self._cluster.clean = True

    def save(self) -> str:
        """Save all data as a snapshot; its name. RunFailed where the server does not."""
        nonce = f"stopped{time.time_ns()}"
        deadline = time.monotonic() + self._timeouts.stop_s
        with closing(self.connect()) as connection:
            while True:
                answer = connection.call(
                    "@SnapshotSave",
                    str(self._cluster.snapshots),
                    nonce,
                    1,
                    timeout_s=self._timeouts.stop_s,
                )
                failed = [
                    str(row["err_msg"])
                    for row in answer.tables[0].records()
                    if row.get("result") != "SUCCESS"
                ]
                if not failed:
                    return nonce
                if "IN PROGRESS" not in failed[0].upper() or time.monotonic() > deadline:
                    raise self._failed("save the data of", failed[0])
                time.sleep(_SNAPSHOT_RETRY_S)

    def connect(self) -> VoltDbConnection:
        """A new connection; RunFailed where none is to be had."""
        try:
            return VoltDbConnection(self._connection(limit_s("connect")))
        except WireError as error:
            raise RunFailed(f"connect to {self._cluster.installation.title}", str(error)) from error

    @property
    def network(self) -> str | None:
        """The path of the server's own network; None where it has the host's."""
        return network_of(self._process.pid) if self._process is not None else None

    def _connection(self, timeout_s: float) -> Connection:
        return Connection(self.ports["port"], USER, self._password, timeout_s, self.network)

    def _command(self, heap_bytes: int) -> list[str]:
        heap = heap_bytes >> 20
        options = [f"-Xmx{heap}m", f"-Xms{heap}m", *self._cluster.java_options("server")]
        ports = {name: f"{_HOST}:{port}" for name, port in self.ports.items()}
        values = {
            "voltdbroot": str(self._cluster.root),
            "hostcount": "1",
            "mesh": ports["internalport"],
            "externalinterface": _HOST,
            "internalinterface": _HOST,
            "publicinterface": _HOST,
            **ports,
        }
        words = [word for pair in values.items() for word in pair]
        return [*self._cluster.installation.command(*options), "probe", *words]

    def _answers(self, process: Process) -> bool:
        now = time.monotonic()
        if now - self._looked_s < _LOOK_S:
            return False
        self._looked_s = now
        said = log_tail(self.log, self._user, _LOOK_LINES)
        for words in _GAVE_UP:
            if words in said:
                raise self._failed("start", f"it gave up ({words})")
        if _READY not in said:
            return False
        try:
            self._connection(_LOGIN_S).close()
        except Refused as error:
            raise self._failed("start", str(error)) from error
        except WireError:
            return False
        return True

    def _request_shutdown(self) -> None:
        with suppress(RunFailed), closing(self.connect()) as connection:
            # It closes the connection and does not answer.
            connection.call("@Shutdown", timeout_s=self._timeouts.stop_s)


def write_log4j(context: EngineContext) -> None:
    """The configuration of its log: to its own stdout."""
    write_text(context.scratch / "log4j.properties", _LOG4J, context.credentials)


def _free_ports(count: int) -> list[int]:
    """Of the loopback address, all different.

    Below those that Linux gives to connections: none of them is taken while the server starts.
    """
    low = int(_PORT_RANGE.read_text(encoding="ascii").split()[0])
    ports = range(_FIRST_PORT, low) or range(_FIRST_PORT, 1 << 16)
    found: list[int] = []
    for port in random.SystemRandom().sample(ports, len(ports)):
        with socket.socket() as one, suppress(OSError):
            one.bind((_HOST, port))
            found.append(port)
        if len(found) == count:
            return found
    raise RunFailed("start VoltDB", f"fewer than {count} free ports in {ports}")
