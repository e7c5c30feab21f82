"""VoltDB as an engine: data in memory, made durable by snapshots.

The community edition has no command log: what was committed after the newest snapshot is lost
with the server's process. So there is no log to place, and durability is not tested.

Layout, the same for every placement, so that only the devices differ::

    <data>/root        the server's configuration
    <data>/snapshots   snapshots of all data, which is in memory otherwise

A server that starts restores the newest whole snapshot that it finds. A dataset consists of
the snapshots of a server that was stopped; tables, procedures and rows are in them, users and
settings are not.
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

from engines._installation import workloads_in
from engines._managed import DataFolders, ManagedServer
from engines._programs import run_once
from engines._sql_engine import CallsSql
from engines._timeouts import TIMEOUTS
from engines.voltdb.counters import VoltDbCounterReader, write_back_warnings
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
from engines.voltdb.wire import (
    Connection,
    LoginRefused,
    VoltDbConnection,
    WireError,
    password_digest,
)
from harness.engine import (
    OWN_NETWORK,
    DataDirectories,
    EngineContext,
    EngineFactory,
    FillRequest,
    Process,
)
from harness.errors import RunFailed
from harness.experiment.placement import Part
from harness.store.spec import JsonObject
from harness.supervise.failures import log_tail
from harness.supervise.linux import network_of
from harness.supervise.silence import limit_s, phase
from harness.supervise.user_files import acting_as, make_directory, write_text
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
#: Of the deployment as the server reports it: what every run has, or is no setting.
_NOT_REPORTED = ("voltdbroot", "adminport", "httpport")
_EXPOSED = (
    "the ports of its ZooKeeper and of other servers of a cluster have no password: whoever "
    "reaches them can log in as its administrator and run Java code with the rights of its user"
)
_LOST = "is lost when the server's process ends: the community edition keeps no log"


class Cluster(DataFolders[Installation]):
    """The directories of one server."""

    def __init__(
        self, installation: Installation, context: EngineContext, places: DataDirectories
    ) -> None:
        super().__init__(installation, context)
        self.root = places["data"] / "root"
        self.snapshots = places["data"] / "snapshots"

    def directories(self) -> list[Path]:
        return [self.root, self.snapshots]

    def dataset_names(self) -> dict[Path, str]:
        return {self.snapshots: "snapshots"}

    def create(self, deployment: str) -> None:
        """Without data; ``deployment``: the text of the file."""
        for folder in self.directories():
            make_directory(folder, self._user)
        make_directory(self._temporary, self._user)
        file = self.context.scratch / "deployment.xml"
        write_text(file, deployment, self._user)
        run_once(
            self.context,
            f"initialise {self.installation.title}",
            [
                *self.installation.command(*self.java_options("initialise")),
                "initialize",
                "voltdbroot",
                str(self.root),
                "deployment",
                str(file),
                "force",
            ],
            self.context.scratch / "initialise.log",
        )
        with acting_as(self._user):
            file.unlink()
        self.clean = True

    def configure(self, deployment: str) -> None:
        """Replace the file that the server reads at its start."""
        file = self.root / "voltdbroot" / "config" / "deployment.xml"
        write_text(file, deployment, self._user)

    def java_options(self, log: str) -> list[str]:
        """Options of Java that keep every file of its own in the scratch directory."""
        scratch = self.context.scratch
        return [
            f"-Djava.io.tmpdir={self._temporary}",
            f"-Djna.tmpdir={self._temporary}",
            f"-XX:ErrorFile={scratch}/{log}-crash.log",
            "-Djava.awt.headless=true",
            f"-Dlog4j.configuration=file:{scratch}/log4j.properties",
        ]

    def keep_only(self, nonce: str) -> None:
        """Remove every snapshot but this one."""
        with acting_as(self._user):
            for file in self.snapshots.iterdir():
                if not file.name.startswith(nonce) and not file.is_dir():
                    file.unlink()

    def restore(self, dataset: Path, deployment: str) -> None:
        """Copy the snapshots into the directories of a new server."""
        self.create(deployment)
        self._copy(dataset)

    @property
    def _temporary(self) -> Path:
        return self.context.scratch / "tmp"


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
        properties = {str(name): str(value) for name, value in rows}
        return {
            **{name: value for name, value in properties.items() if name not in _NOT_REPORTED},
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

    def native_load(self, request: FillRequest) -> None:
        """Tables, ``fill``, indexes, procedures; row counts verified."""
        with closing(self.connect()) as connection:
            load(
                connection,
                self._context,
                self._installation,
                self.sql_folder / request.workload,
                request,
                self.native_connection(),
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
            listens=self.ports.values(),
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
        except LoginRefused as error:
            raise self._failed("start", str(error)) from error
        except WireError:
            return False
        return True

    def _request_shutdown(self) -> None:
        with suppress(RunFailed), closing(self.connect()) as connection:
            # It closes the connection and does not answer.
            connection.call("@Shutdown", timeout_s=self._timeouts.stop_s)

    def _verify(self) -> None:
        """Verify that the server runs with the settings, and snapshots lie where they should."""
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
        log4j = self._context.scratch / "log4j.properties"
        write_text(log4j, Path(__file__).with_name(log4j.name).read_text("utf-8"), self._user)
        cluster = Cluster(self._installation, self._context, directories)
        return self._place(cluster, directories.memory)

    def _new_monitor(self) -> VoltDbCounterReader:
        return VoltDbCounterReader(self.connect())


def _free_ports(count: int) -> list[int]:
    """Ports of the loopback address, all different.

    Below those that Linux gives to connections: none of them is taken while the server starts.
    """
    low = int(_PORT_RANGE.read_text(encoding="ascii").split()[0])
    ports = range(_FIRST_PORT, low) or range(_FIRST_PORT, 1 << 16)
    free: list[int] = []
    for port in random.SystemRandom().sample(ports, len(ports)):
        with socket.socket() as listener, suppress(OSError):
            listener.bind((_HOST, port))
            free.append(port)
        if len(free) == count:
            return free
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
