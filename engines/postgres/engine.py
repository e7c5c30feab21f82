"""PostgreSQL as an engine: the factory, and the managed server.

The four directory parts are the data directory, its pg_wal, and two tablespaces for indexes and
temporary files (cluster.py). The server listens on a Unix socket in the run's private scratch
folder, with a password that is generated for the run and stays in memory. It listens on an
address of the host only if the run requires it, and then with TLS only.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from engines._installation import workloads_in
from engines._managed import ManagedServer
from engines._settings import applied, choice_of
from engines._timeouts import TIMEOUTS
from engines.postgres import external
from engines.postgres.cluster import (
    CLEAN,
    CLIENT_ROLE,
    DATABASE,
    INDEX_TABLESPACE,
    MAINTENANCE_DATABASE,
    ROLE,
    Cluster,
    scram_verifier,
)
from engines.postgres.configuration import (
    SEGMENT_MB,
    SETTINGS,
    check_settings,
    check_tls,
    known_settings,
    max_wal_size_bytes,
    read_server_file,
    verify_settings,
    write_configuration,
)
from engines.postgres.connection import connecting, open_connection
from engines.postgres.installation import Installation, choose
from engines.postgres.load import Loader, loading_settings
from engines.postgres.relations import move_relations, stored_relations
from engines.postgres.sql import NATIVE_OPTIONS, NO_ERRORS_LOGGED, SqlOnPostgres
from harness.engine import (
    DataDirectories,
    EngineContext,
    EngineFactory,
    EngineOptions,
    StoredRelation,
    Tunnel,
)
from harness.errors import UsageError
from harness.experiment.placement import PARTS, RELATION_KINDS, Part
from harness.store.spec import JsonObject
from harness.supervise.segments import remove_segment
from harness.supervise.user_files import acting_as, read_text

_CHECKSUMS_BY_DEFAULT = (18,)
_PID_FILE_BYTES = 8192
#: Rights of a client on another host: read and change rows, run the workload's procedures.
_CLIENT_RIGHTS = (
    f"CREATE ROLE {CLIENT_ROLE} LOGIN",
    # See NO_ERRORS_LOGGED.
    f"ALTER ROLE {CLIENT_ROLE} SET log_min_messages = fatal",
    "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {CLIENT_ROLE}",
    f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {CLIENT_ROLE}",
)


class ManagedPostgres(SqlOnPostgres, ManagedServer[Installation, Cluster]):
    """A server and directories that belong to the run."""

    name = "postgres"
    _setting_table = SETTINGS
    supported_parts: frozenset[Part] = frozenset(PARTS)
    hammerdb_database = "pg"
    takes_remote_clients = True
    traced = True
    #: Not the I/O workers of release 18: they read for a backend that waits. Titles have the
    #: cluster_name of settings.yml, if it is not set to nothing.
    background_threads = tuple(
        f"title=postgres: {cluster}{name}"
        for cluster in ("harness: ", "")
        for name in (
            "archiver",
            "autovacuum",
            "background writer",
            "checkpointer",
            "logical replication",
            "startup",
            "walsummarizer",
            "walwriter",
        )
    )

    def __init__(self, context: EngineContext) -> None:
        super().__init__()
        installation = choose(context.options, context.engines_prefix)
        self._manage(installation, context, applied(context.settings, known_settings(installation)))
        self._initdb_options = _initdb_options(context.options, installation)
        segment_mb = int(context.options.get("wal_segment_size_mb") or SEGMENT_MB)
        check_settings(installation, context.settings, segment_mb)
        if context.listen is not None:
            check_tls(installation, context.listen)
        self._password = secrets.token_hex(16)
        self._client_password = secrets.token_hex(16)
        self._client_role_made = False

    def unmodelled(self, part: str) -> tuple[str, str] | None:
        if self._settings.get("io_method") == "io_uring":
            return "PostgreSQL uses io_uring", "add --set io_method=worker"
        return None

    def format_options(self) -> Mapping[str, str]:
        """Options of initdb and the settings that decide what a load stores."""
        initdb = {"locale": "C", "encoding": "UTF8", "initdb": " ".join(self._initdb_options)}
        return initdb | self.stored_settings()

    def log_limit_bytes(self) -> int:
        """Return 1.5 times ``max_wal_size``, which is exceeded while a checkpoint is late.

        The server begins one at max_wal_size / (1 + completion target); 1.5: it ends an interval
        late.
        """
        return max_wal_size_bytes(self._installation, self._context.settings) * 3 // 2

    def initialise(self, directories: DataDirectories) -> None:
        """Make an empty cluster; until a restore, it starts with the settings for loading."""
        self._loading = True
        self._use(directories).create(self._initdb_options, self._password)

    def restore(self, dataset: Path, directories: DataDirectories) -> None:
        """Copy ``dataset`` and link its parts; move relations that are placed by name."""
        self._loading = False
        self._use(directories).restore(dataset, self._password)
        if directories.relations:
            self._loading = True  # without clients on other hosts
            self._start({**loading_settings(self.threads, self.memory_bytes)})
            with self._open() as connection:
                move_relations(connection, directories.relations)
            self.stop()
            self._cluster.make_durable()
            self._loading = False

    def relations(self) -> Sequence[StoredRelation]:
        with self._open() as connection:
            return stored_relations(connection, self._cluster.data, self._user)

    def _open(self) -> psycopg.Connection[Any]:
        return self._open_database(DATABASE)

    def _open_monitor(self) -> tuple[psycopg.Connection[Any], str]:
        return self._open_database(MAINTENANCE_DATABASE), DATABASE

    def client_program(self, name: str) -> Path | None:
        program = self._installation.bin / name
        return program if program.is_file() else None

    def native_connection(self) -> JsonObject:
        return {
            "host": str(self._context.scratch),
            "port": self._port,
            "user": ROLE,
            "password": self._password,
            "database": DATABASE,
            "application_name": "harness",
            "options": f"{NATIVE_OPTIONS} {NO_ERRORS_LOGGED}",
        }

    def tunnel(self, token: str) -> Tunnel:
        """libpq finds a socket by the server's port, so the port is the token."""
        connection = {**self._connection_elsewhere(), "host": "/tmp", "port": int(token)}
        local = self._context.scratch / f".s.PGSQL.{self._port}"
        return Tunnel(local, f"/tmp/.s.PGSQL.{token}", connection)

    def from_elsewhere(self) -> JsonObject | None:
        """TLS; the run's own authority certifies the server's address."""
        if (listening := self._listening) is None:
            return None
        return {
            **self._connection_elsewhere(),
            "host": listening.host,
            "sslmode": "verify-full",
            "ca_certificate": listening.authority_pem,
        }

    def _connection_elsewhere(self) -> JsonObject:
        """The connection of a client on another host, which is not a superuser."""
        self._make_client_role()
        return {
            **self.native_connection(),
            "user": CLIENT_ROLE,
            "password": self._client_password,
            "options": NATIVE_OPTIONS,
        }

    def _make_client_role(self) -> None:
        """Make the clients' role, once for these data."""
        if self._client_role_made:
            return
        with self._open() as connection:
            for statement in _CLIENT_RIGHTS:
                connection.execute(statement)
            verifier = scram_verifier(self._client_password)
            connection.execute(f"ALTER ROLE {CLIENT_ROLE} PASSWORD '{verifier}'")
        self._client_role_made = True

    @property
    def _port(self) -> int:
        """The server's port, which is part of its socket's name."""
        return int(SETTINGS.values["port"]) if self._listening is None else self._listening.port

    def _open_database(self, name: str) -> psycopg.Connection[Any]:
        keywords: dict[str, Any] = {**self.native_connection(), "database": None, "dbname": name}
        keywords["options"] = "-c client_min_messages=warning"
        with connecting(), acting_as(self._user):
            return open_connection(**keywords)

    def _loader(self) -> Loader:
        return Loader(
            connect=self.connect,
            threads=self._context.threads,
            index_tablespace=INDEX_TABLESPACE,
            server=self,
        )

    def _start(self, settings: Mapping[str, str]) -> None:
        if self.running:
            return
        self._cluster.verify_locations()
        configuration = write_configuration(self._context, settings, self._listens())
        with acting_as(self._user):
            self._pid_file.unlink(missing_ok=True)
        self._launch(
            [
                str(self._installation.bin / "postgres"),
                "-D",
                str(self._cluster.data),
                "-c",
                f"config_file={configuration}",
            ],
            ready=lambda process: self._reports_ready(process.pid),
            orphaned=signal.SIGQUIT,
            verify=lambda _: self._verify(settings),
        )

    def _verify(self, settings: Mapping[str, str]) -> None:
        with self._open_database(MAINTENANCE_DATABASE) as connection:
            verify_settings(connection, DATABASE, settings, self._installation.title)
        if self._listening is not None and not self._loading:
            self._make_client_role()  # before anything is measured

    def _shut_down(self) -> None:
        """Fast shutdown (SIGINT) with a checkpoint; RunFailed if it was not clean."""
        if self._end(signal.SIGINT) is None:
            return
        if (state := self._cluster.state()) != CLEAN:
            raise self._failed("stop", f"the cluster in {self._cluster.data} is {state!r}")

    def kill(self) -> None:
        """SIGKILL, and remove its shared memory, even if the postmaster had died before."""
        if self._process is not None:
            super().kill()
            self._remove_interlock()

    def _reports_ready(self, pid: int) -> bool:
        """Return whether line 8 of postmaster.pid says so, as in pg_ctl."""
        lines = self._pid_file_lines()
        return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"

    def _remove_interlock(self) -> None:
        """Remove the System V segment by which postmasters exclude one another (line 7)."""
        owner = os.geteuid() if self._user is None else self._user.uid
        with suppress(IndexError, ValueError):
            remove_segment(int(self._pid_file_lines()[6].split()[1]), owner)

    @property
    def _pid_file(self) -> Path:
        return self._cluster.data / "postmaster.pid"

    def _pid_file_lines(self) -> list[str]:
        try:
            return read_text(self._pid_file, self._user, _PID_FILE_BYTES).splitlines()
        except OSError:
            return []

    def _use(self, directories: DataDirectories) -> Cluster:
        self._client_role_made = False
        cluster = Cluster(self._installation, self._context, directories)
        return self._place(cluster, directories.memory)


def _initdb_options(options: EngineOptions, installation: Installation) -> list[str]:
    chosen: list[str] = []
    if segment := options.get("wal_segment_size_mb"):
        size = str(segment)
        if not size.isdigit() or not 1 <= int(size) <= 1024 or int(size) & (int(size) - 1):
            raise UsageError(
                f"engine option wal_segment_size_mb={size}",
                "must be a power of two from 1 to 1024",
                "omit it for PostgreSQL's default, 16",
            )
        chosen.append(f"--wal-segsize={size}")
    checksums = choice_of(options, "checksums", ("the release's", "on", "true", "off", "false"))
    if checksums in ("on", "true"):
        chosen.append("--data-checksums")
    if checksums in ("off", "false") and installation.version_tuple >= _CHECKSUMS_BY_DEFAULT:
        chosen.append("--no-data-checksums")
    return chosen


ENGINE = EngineFactory(
    name="postgres",
    title="PostgreSQL",
    kinds=("managed", "external"),
    options={
        "dsn": "use this external server: a libpq DSN, or 'env' for $HARNESS_DSN",
        "prefix": "folder of the installation to run (it contains bin/postgres)",
        "version": "release to run, such as 18 or 15.18 (default: the newest found)",
        "checksums": "page checksums: on or off (default: the release's, on since 18)",
        "wal_segment_size_mb": "size of a WAL segment file in MiB [16]",
        **TIMEOUTS,
    },
    workloads=(*workloads_in(ManagedPostgres.sql_folder), "sql"),
    placeable=ManagedPostgres.supported_parts,
    relation_kinds=RELATION_KINDS,
    make=ManagedPostgres,
    external=external.ExternalPostgres,
    installation=choose,
    read_server_file=read_server_file,
    external_version=external.server_version,
)
