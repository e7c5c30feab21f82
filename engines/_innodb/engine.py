"""MySQL and MariaDB as engines: the managed server, and the base of their factories.

The server listens on a Unix socket in the run's private scratch folder, with a password that is
made for the run and kept in memory; on an address of the host only where the run says so, and
then with TLS alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines._innodb.cluster import DATABASE, ROLE, TUNNEL_ROLE, Cluster
from engines._innodb.configuration import (
    BINARY,
    CHARACTERS,
    applied,
    check_settings,
    configured,
    init_file,
    write_configuration,
)
from engines._innodb.connection import open_connection
from engines._innodb.external import ExternalInnoDB, server_version
from engines._innodb.installation import TITLES, Flavour, choose
from engines._innodb.options import page_size, part_of_doublewrite
from engines._innodb.server import Server
from engines._innodb.sql import SqlOnInnoDB
from engines._innodb.values import size_bytes
from engines._innodb.verify import (
    LOG_BUFFER,
    redo_is_mapped,
    verify_locations,
    verify_variables,
)
from engines._innodb.wire import LazyConnection
from engines._managed import ManagedServer
from engines._server import TIMEOUTS
from engines._tls import Listening
from harness.drivers.loadgen.protocols import Tunnel
from harness.engine import DataDirectories, Engine, EngineContext, EngineKind, EngineVersion
from harness.experiment.placement import Part
from harness.supervise.user_files import acting_as

#: What a profile may say that decides what is stored: part of the golden key, loaded with.
_STORED = (
    "histogram_generation_max_mem_size",
    "innodb_checksum_algorithm",
    "innodb_compression_level",
    "innodb_default_row_format",
    "innodb_file_per_table",
    "innodb_fill_factor",
    "innodb_stats_persistent",
    "innodb_stats_persistent_sample_pages",
    "innodb_undo_tablespaces",
    "use_stat_tables",
)


class ManagedInnoDB(SqlOnInnoDB, ManagedServer[Cluster, Server]):
    """A server of our own on directories of our own."""

    supported_parts: frozenset[Part] = frozenset({"data", "wal", "temp", "memory"})

    def __init__(self, context: EngineContext, flavour: Flavour) -> None:
        super().__init__()
        self.name: str = flavour
        self.flavour = flavour
        self.hammerdb_database = {"mysql": "mysql", "mariadb": "maria"}[flavour]
        self._installation = choose(flavour, context.options, context.engines_prefix)
        check_settings(self._installation, context.settings)
        self._manage(context, applied(self._installation, context.settings))
        self._doublewrite = part_of_doublewrite(self._installation, context.options)
        self._format = {"innodb_page_size": page_size(context.options)}
        self._password = secrets.token_hex(16)
        self._tunnel_password = secrets.token_hex(16)
        self._first_start = True
        self.threads = context.threads

    @property
    def version_tuple(self) -> tuple[int, ...]:
        """(9, 7, 4) of "9.7.4"."""
        return self._installation.version_tuple

    def version(self) -> EngineVersion:
        """Release and banner of the binary."""
        return self._installation.engine_version()

    def format_options(self) -> Mapping[str, str]:
        """What initialising fixes for good, and the settings that decide what is stored."""
        return {**self._format, "collation": BINARY["collation_server"]} | self.stored_settings()

    def stored_settings(self) -> dict[str, str]:
        """The tuning profile's settings that decide what a load stores, such as statistics."""
        return {n: v for n, v in self._settings.items() if n in _STORED}

    def _loaded_with(self) -> dict[str, str]:
        """After its shutdown nothing is left to purge or merge in golden data."""
        return {**self.stored_settings(), "innodb_fast_shutdown": "0"}

    def initialise(self, places: DataDirectories) -> None:
        """An empty server in the places, from now on with the settings for loading."""
        self._loading = True
        cluster = self._use(places)
        cluster.create(self._configuration(self.stored_settings()))

    def effective_config(self) -> Mapping[str, str]:
        """What somebody has set and what matters anyway, and how the redo log is written.

        Where it is mapped there is no log buffer, and MariaDB gives the log's size instead:
        the setting is recorded then, so that only what was asked for tells placements apart.
        """
        found = dict(super().effective_config())
        mapped = any(redo_is_mapped(p.pid, self._placed()) for p in self.processes())
        if mapped:
            value = configured(self._installation, self._settings, LOG_BUFFER)
            found[LOG_BUFFER] = f"{size_bytes(value):.0f}"
        found["log_redo_access"] = "memory-mapped" if mapped else "system calls"
        return found

    def restore(self, golden: Path, places: DataDirectories) -> None:
        """Copy ``golden`` into the places; nothing in it says where it lies."""
        self._loading = False
        self._use(places).restore(golden)

    def _open(self, local_infile: bool = False) -> LazyConnection:
        return self._open_database(DATABASE, local_infile)

    def native_connection(self) -> Mapping[str, Any]:
        """The private socket."""
        return {
            "socket": str(self._used().socket),
            "user": ROLE,
            "password": self._password,
            "database": DATABASE,
        }

    def tunnel(self, token: str) -> Tunnel:
        """By a socket of any name."""
        remote = f"/tmp/tierbench-{token}.sock"
        connection = {
            **self.native_connection(),
            "socket": remote,
            "user": TUNNEL_ROLE,
            "password": self._tunnel_password,
        }
        return Tunnel(self._used().socket, remote, connection)

    def from_elsewhere(self) -> Mapping[str, Any] | None:
        """By TLS, the server known by the run's own authority and its address."""
        if (listening := self._listening) is None:
            return None
        return {
            "host": listening.host,
            "port": listening.port,
            "user": ROLE,
            "password": self._password,
            "database": DATABASE,
            "ca_certificate": listening.authority_text(),
        }

    def _open_database(self, name: str, local_infile: bool = False) -> LazyConnection:
        return open_connection(
            unix_socket=str(self._used().socket),
            user=ROLE,
            password=self._password,
            database=name,
            local_infile=local_infile,
            socket_owner=self._context.credentials,
        )

    def _start(self, settings: Mapping[str, str]) -> None:
        """The first start on these files also gives our user its password of this run."""
        listening = self._listens()
        statements = self._access(listening is not None) if self._first_start else ""
        configuration = self._configuration(settings, statements, listening)
        try:
            self._used().start(configuration, lambda pid: self._verify(pid, settings))
        finally:
            with acting_as(self._context.credentials):
                init_file(self._context).unlink(missing_ok=True)
        self._first_start = False

    def _verify(self, pid: int, settings: Mapping[str, str]) -> None:
        """That the parts lie where they should, and that the settings hold."""
        cluster = self._placed()
        verify_locations(pid, cluster, also=(self._context.scratch,))
        connection = self.connect()
        try:
            rows = connection.execute("SHOW GLOBAL VARIABLES").rows
        finally:
            connection.close()
        variables = {str(name): str(value) for name, value in rows}
        verify_variables(pid, variables, cluster, {**settings, **self._format})

    def _access(self, listens: bool) -> str:
        """Our database and our user with the run's password; nobody else can log in.

        From elsewhere: that user alone, on our database alone, with TLS alone.
        """
        user, elsewhere = f"'{ROLE}'@'localhost'", f"'{ROLE}'@'%'"
        statements = [
            # In full: the session of an init file has the release's defaults, not ours.
            f"CREATE DATABASE IF NOT EXISTS {DATABASE} {CHARACTERS}",
            f"CREATE USER IF NOT EXISTS {user}",
            f"ALTER USER {user} IDENTIFIED BY '{self._password}'",
            f"GRANT ALL PRIVILEGES ON *.* TO {user} WITH GRANT OPTION",
            "ALTER USER 'root'@'localhost' ACCOUNT LOCK",
        ]
        if not self._loading:
            tunnelled = f"'{TUNNEL_ROLE}'@'localhost'"
            statements += [
                f"CREATE USER IF NOT EXISTS {tunnelled}",
                f"ALTER USER {tunnelled} IDENTIFIED BY '{self._tunnel_password}'",
                f"GRANT ALL PRIVILEGES ON {DATABASE}.* TO {tunnelled}",
            ]
        if listens:
            statements += [
                f"CREATE USER {elsewhere} IDENTIFIED BY '{self._password}' REQUIRE SSL",
                f"GRANT ALL PRIVILEGES ON {DATABASE}.* TO {elsewhere}",
            ]
        return "".join(f"{statement};\n" for statement in statements)

    def _configuration(
        self,
        settings: Mapping[str, str],
        statements: str = "",
        listening: Listening | None = None,
    ) -> Path:
        return write_configuration(
            self._installation,
            self._context,
            self._placed(),
            settings,
            self._format,
            statements,
            listening,
        )

    def _use(self, places: DataDirectories) -> Cluster:
        self._cluster = Cluster(self._installation, self._context, places, self._doublewrite)
        self._server = Server(
            self._installation, self._context, self._cluster, places.memory, self._timeouts
        )
        self._first_start = True
        return self._cluster


class InnoDBFactory:
    """Managed unless the option ``dsn`` names a server of the user's."""

    kinds: tuple[EngineKind, ...] = ("managed", "external")
    #: Why a part cannot be placed, for the message that refuses it.
    not_placeable: Mapping[Part, str] = {
        "index": "InnoDB keeps the indexes of a table in the table's own file"
    }

    def __init__(self, flavour: Flavour) -> None:
        self.name: str = flavour
        self.title = TITLES[flavour]
        self._flavour = flavour
        self.options: Mapping[str, str] = {
            "dsn": "use this server of yours: mysql://user@host/, or 'env' for $HARNESS_DSN",
            "prefix": "folder of the installation to run (it has bin/mysqld or sbin/mariadbd)",
            "version": "release to run of those found, such as 9 or 10.11",
            "page_size": "size of a page in KiB: 4, 8, 16, 32 or 64 [16]",
            "doublewrite": "part that holds the doublewrite files, data or wal [data]",
            **TIMEOUTS,
        }

    def supported_parts(self, options: Mapping[str, Any]) -> frozenset[Part]:
        """All but indexes; none of an external server."""
        return frozenset() if "dsn" in options else ManagedInnoDB.supported_parts

    def available(self, options: Mapping[str, Any], engines_prefix: Path) -> EngineVersion:
        """The installation found, or the external server's own answer."""
        if "dsn" in options:
            return server_version(self._flavour, options)
        return choose(self._flavour, options, engines_prefix).engine_version()

    def create(self, context: EngineContext) -> Engine:
        """UsageError for a setting that this server does not take."""
        if "dsn" in context.options:
            return ExternalInnoDB(context, self._flavour)
        return ManagedInnoDB(context, self._flavour)
