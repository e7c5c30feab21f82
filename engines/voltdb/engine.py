"""VoltDB as an engine: data in memory, made durable by snapshots.

The community edition has no command log: what was committed after the newest snapshot is lost
with the server's process. So there is no log to place, and durability is not tested.
"""

from __future__ import annotations

import random
import secrets
import signal
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from engines._cluster import TIMEOUTS
from engines._installation import workloads_in
from engines._managed import ManagedServer
from engines._sql_engine import CallsSql
from engines.voltdb.cluster import Cluster
from engines.voltdb.counters import Monitor, write_back_warnings
from engines.voltdb.deployment import (
    FREQUENCY,
    SETTINGS,
    SNAPSHOTS,
    USER,
    deployment,
    heap_bytes,
    settled,
)
from engines.voltdb.installation import Installation, choose
from engines.voltdb.load import load, procedures_digest
from engines.voltdb.wire import Connection, Refused, VoltDbConnection, WireError, password_digest
from harness.engine import (
    OWN_NETWORK,
    DataDirectories,
    EngineContext,
    EngineFactory,
    Fill,
    Process,
)
from harness.errors import RunFailed
from harness.experiment.placement import Part
from harness.progress import Progress
from harness.store.spec import JsonObject
from harness.supervise.failures import log_tail
from harness.supervise.linux import network_of
from harness.supervise.silence import limit_s, phase
from harness.supervise.user_files import write_text
from harness.warnings import RunWarning

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
#: Of the deployment as the server reports it: what every run has, or is no setting.
_NOT_REPORTED = ("voltdbroot", "adminport", "httpport")
_EXPOSED = (
    "the ports of its ZooKeeper and of other servers of a cluster have no password: whoever "
    "reaches them can log in as its administrator and run Java code with the rights of its user"
)
_LOST = "is lost when the server's process ends: the community edition keeps no log"


class ManagedVoltDb(CallsSql, ManagedServer[Installation, Cluster]):
    """A server of our own on directories of our own."""

    name = "voltdb"
    native_backend = "voltdb"
    supported_parts: frozenset[Part] = frozenset({"data", "memory"})
    sql_folder: Path = Path(__file__).parent / "sql"
    durability_settings = (SNAPSHOTS, FREQUENCY)
    lost_when_killed = "what was committed after the newest snapshot"

    def __init__(self, context: EngineContext) -> None:
        installation = choose(context.options, context.engines_prefix)
        self._manage(installation, context, context.settings)
        settled(context.settings, context.threads)
        self._used_settings: dict[str, str] = {}
        self._password = secrets.token_hex(16)
        self._looked_s = 0.0
        self.ports: dict[str, int] = {}

    def format_options(self) -> Mapping[str, str]:
        """Snapshots have the procedures in them."""
        return {"procedures": procedures_digest()}

    def _loaded_with(self) -> dict[str, str]:
        """One snapshot is made, when it is stopped."""
        return {SNAPSHOTS: "false"}

    def initialise(self, directories: DataDirectories) -> None:
        """An empty server in the directories, from now on with the settings for loading."""
        self._loading = True
        cluster = self._use(directories)
        cluster.create(self._deployment(self._loaded_with()))

    def restore(self, dataset: Path, directories: DataDirectories) -> None:
        """Copy ``dataset`` into the directories; the server's start reads it."""
        self._loading = False
        self._use(directories).restore(dataset, self._deployment(self._settings))

    def connect(self) -> VoltDbConnection:
        """A new connection; RunFailed where none is to be had."""
        try:
            return VoltDbConnection(self._connection(limit_s("connect")))
        except WireError as error:
            raise RunFailed(f"connect to {self._installation.title}", str(error)) from error

    def effective_config(self) -> Mapping[str, str]:
        """The deployment as the server reports it, and what it does not report of ours."""
        with closing(self.connect()) as connection:
            rows = connection.call("@SystemInformation", "DEPLOYMENT").tables[0].rows
        found = {str(name): str(value) for name, value in rows}
        return {
            **{name: value for name, value in found.items() if name not in _NOT_REPORTED},
            **{
                name: value
                for name, value in self._used_settings.items()
                if not SETTINGS[name].reported
            },
        }

    def lost_without_power(self) -> Mapping[str, str]:
        """Snapshots are the only durability there is."""
        settings = self._used_settings
        if settings[SNAPSHOTS] != "true":
            return {f"{SNAPSHOTS}=false": f"all that is committed {_LOST}"}
        return {
            f"{FREQUENCY}={settings[FREQUENCY]}": f"what is committed after the newest snapshot "
            f"{_LOST}"
        }

    def write_back_warnings(
        self, ramp_up: Mapping[str, float], window: Mapping[str, float], window_ns: int
    ) -> Iterable[RunWarning]:
        return write_back_warnings(window, self._used_settings, window_ns)

    def network(self) -> str | None:
        return network_of(self._process.pid) if self._process is not None else None

    def exposed(self) -> str:
        return "" if self.network() else _EXPOSED

    def native_connection(self) -> JsonObject:
        """The port on the loopback address of the server's network."""
        return {
            "host": "127.0.0.1",
            "port": self.ports["port"],
            "user": USER,
            "password": password_digest(self._password).hex(),
        }

    def native_load(
        self,
        workload: str,
        fill: Fill,
        row_counts: Mapping[str, int],
        progress: Progress,
        params: JsonObject | None = None,
    ) -> None:
        """Tables, ``fill``, indexes, procedures; row counts verified."""
        with closing(self.connect()) as connection:
            load(
                connection,
                self._context,
                self._installation,
                self.sql_folder / workload,
                fill,
                self.native_connection(),
                row_counts,
                progress,
            )
        self._save()

    def _start(self, settings: Mapping[str, str]) -> None:
        if self.running:
            return
        used = self._used_settings = settled(settings, self._context.threads)
        self._cluster.configure(self._deployment(settings))
        self.ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
        self._launch(
            self._command(heap_bytes(used)),
            self._answers,
            orphaned=signal.SIGKILL,
            verify=lambda _: self._verify(),
            network=OWN_NETWORK,
        )

    def _shut_down(self) -> None:
        """Save all data as a snapshot, then shut down; RunFailed when it was not saved."""
        if self._process is None:
            return
        with phase("stop"):
            nonce = self._save() if self.running else ""
        self._end(signal.SIGTERM, self._request_shutdown)  # reports a server that had ended
        self._cluster.keep_only(nonce)
        self._cluster.make_durable()
        self._cluster.clean = True

    def _save(self) -> str:
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

    def _connection(self, timeout_s: float) -> Connection:
        return Connection(self.ports["port"], USER, self._password, timeout_s, self.network())

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
        return [*self._installation.command(*options), "probe", *words]

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

    def _verify(self) -> None:
        """That the server runs with the settings, and its snapshots lie where they should."""
        reported = self.effective_config()
        expected = {
            SETTINGS[name].reported: value
            for name, value in self._used_settings.items()
            if SETTINGS[name].reported in reported
        } | {"snapshotpath": str(self._cluster.snapshots)}
        wrong = [
            f"{name} is {reported.get(name)}, not {value}"
            for name, value in expected.items()
            if reported.get(name) != value
        ]
        if wrong:
            raise RunFailed(f"start {self._installation.title}", "; ".join(wrong))

    def _deployment(self, settings: Mapping[str, str]) -> str:
        used = settled(settings, self._context.threads)
        return deployment(used, self._cluster.snapshots, self._password)

    def _use(self, directories: DataDirectories) -> Cluster:
        write_text(self._context.scratch / "log4j.properties", _LOG4J, self._user)
        cluster = Cluster(self._installation, self._context, directories)
        return self._place(cluster, directories.memory)

    def _new_monitor(self) -> Monitor:
        return Monitor(self.connect())


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


ENGINE = EngineFactory(
    name="voltdb",
    title="VoltDB",
    kinds=("managed",),
    options={
        "prefix": "folder of the VoltDB to run, as `harness engines install voltdb` makes it",
        "version": "release to run of those found, such as 10",
        "java": "folder of the Java to run it with: it has bin/java [the one on the PATH]",
        **TIMEOUTS,
    },
    workloads=workloads_in(ManagedVoltDb.sql_folder),
    note="without root, other users of this host can take the server over (docs/voltdb.md)",
    placeable=ManagedVoltDb.supported_parts,
    not_placeable={
        "wal": "the community edition has no command log; what is durable are its snapshots, "
        "which are data",
        "temp": "queries work in memory alone",
        "index": "its indexes are in memory",
    },
    make=ManagedVoltDb,
    installation=choose,
)
