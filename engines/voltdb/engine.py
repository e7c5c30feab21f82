"""VoltDB as an engine: data in memory, made durable by snapshots.

The community edition has no command log: what was committed after the newest snapshot is lost
with the server's process. So there is no log to place, and durability is not tested.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from engines._installation import workloads_in
from engines._managed import ManagedServer
from engines._server import TIMEOUTS
from engines._sql_engine import CallsSql
from engines.voltdb.cluster import Cluster
from engines.voltdb.connection import VoltDbConnection
from engines.voltdb.counters import Monitor
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
from engines.voltdb.server import Server, write_log4j
from engines.voltdb.window import warnings as window_warnings
from engines.voltdb.wire import password_digest
from harness.engine import (
    DataDirectories,
    EngineContext,
    EngineFactory,
    Fill,
)
from harness.errors import RunFailed
from harness.experiment.placement import Part
from harness.progress import Progress
from harness.store.spec import JsonObject
from harness.warnings import RunWarning

#: Of the deployment as the server reports it: what every run has, or is no setting.
_NOT_REPORTED = ("voltdbroot", "adminport", "httpport")
_LOST = "is lost when the server's process ends: the community edition keeps no log"


class ManagedVoltDb(CallsSql, ManagedServer[Installation, Cluster, Server]):
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
        """A new connection."""
        return self._used().connect()

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
    ) -> Sequence[RunWarning]:
        """See window.py."""
        return list(window_warnings(window, self._used_settings, window_ns))

    def network(self) -> str | None:
        return self._used().network

    def native_connection(self) -> Mapping[str, Any]:
        """The port on the loopback address of the server's network."""
        return {
            "host": "127.0.0.1",
            "port": self._used().ports["port"],
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
        self._used().save()

    def _start(self, settings: Mapping[str, str]) -> None:
        used = self._used_settings = settled(settings, self._context.threads)
        self._placed().configure(self._deployment(settings))
        self._used().start(heap_bytes(used), self._verify)

    def _verify(self) -> None:
        """That the server runs with the settings, and its snapshots lie where they should."""
        reported = self.effective_config()
        expected = {
            SETTINGS[name].reported: value
            for name, value in self._used_settings.items()
            if SETTINGS[name].reported in reported
        } | {"snapshotpath": str(self._placed().snapshots)}
        wrong = [
            f"{name} is {reported.get(name)}, not {value}"
            for name, value in expected.items()
            if reported.get(name) != value
        ]
        if wrong:
            raise RunFailed(f"start {self._installation.title}", "; ".join(wrong))

    def _deployment(self, settings: Mapping[str, str]) -> str:
        used = settled(settings, self._context.threads)
        return deployment(used, self._placed().snapshots, self._password)

    def _use(self, directories: DataDirectories) -> Cluster:
        write_log4j(self._context)
        self._cluster = Cluster(self._installation, self._context, directories)
        self._server = Server(self._cluster, directories.memory, self._password)
        return self._cluster

    def _new_monitor(self) -> Monitor:
        return Monitor(self.connect())


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
