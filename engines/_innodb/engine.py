"""MySQL and MariaDB as engines: the managed server and the factory.

The server listens on a Unix socket in the run's private scratch folder, with a password that is
generated for the run and stays in memory. It listens on an address of the host only if the run
requires it, and then with TLS only.
"""

from __future__ import annotations

import secrets
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from engines._innodb.cluster import CLIENT_ROLE, DATABASE, ROLE, Cluster
from engines._innodb.configuration import (
    CHARACTERS,
    LOG_BUFFER,
    SETTINGS,
    SOCKET,
    check_settings,
    configured,
    init_file,
    known_settings,
    read_server_file,
    redo_is_mapped,
    verify_locations,
    verify_variables,
    write_configuration,
)
from engines._innodb.connection import LazyConnection, MySqlLogin
from engines._innodb.external import ExternalInnoDB, server_version
from engines._innodb.installation import TITLES, Flavour, Installation, choose
from engines._innodb.relations import stored_tables
from engines._innodb.sql import SqlOnInnoDB
from engines._installation import workloads_in
from engines._managed import ManagedServer
from engines._settings import applied, choice_of
from engines._timeouts import TIMEOUTS
from harness.engine import (
    Credentials,
    DataDirectories,
    EngineContext,
    EngineFactory,
    EngineOptions,
    ProcessId,
    StoredRelation,
    Tunnel,
)
from harness.errors import UsageError
from harness.experiment.placement import Part, RelationKind
from harness.store.spec import JsonObject
from harness.supervise.failures import log_tail
from harness.supervise.user_files import acting_as
from harness.units import suffixed_number

#: What a workload's statements and procedures need; procedures have their caller's rights.
_CLIENT_RIGHTS = "SELECT, INSERT, UPDATE, DELETE, EXECUTE"
_PAGE_SIZES = ("16", "4", "8", "32", "64")
_GREETING_S = 1.0
#: MySQL keeps this number of redo files, and creates missing ones after it accepts connections
#: (manual, "Redo Log"): these writes would be measured with the first query.
_REDO_FILES = 32
#: Without a further file for as long, it makes no more.
_REDO_PAUSE_S = 1.0
_POLL_S = 0.01
#: First byte of the server's greeting after packet length and number: protocol version 10.
_PROTOCOL = 10
#: How far back errors before a stack trace are looked for, and how many are shown.
_TRACED_LINES, _TRACED_BYTES, _SHOWN_ERRORS = 2000, 1 << 18, 6
_NATIVE_AIO = "innodb_use_native_aio"
#: Where MySQL looks for the files of tables, in addition to its data directory.
_DIRECTORIES = "innodb_directories"


class ManagedInnoDB(SqlOnInnoDB, ManagedServer[Installation, Cluster]):
    """A server and directories that belong to the run."""

    _setting_table = SETTINGS
    takes_remote_clients = True
    traced = True
    supported_parts: frozenset[Part] = frozenset({"data", "wal", "temp", "memory"})

    def __init__(self, context: EngineContext, flavour: Flavour) -> None:
        super().__init__()
        self.name: str = flavour
        self.flavour = flavour
        #: InnoDB's own threads: log writer, page cleaners, purge. MariaDB 10.11 names no threads.
        self.background_threads = ("thread=ib_",) if flavour == "mysql" else None
        self.hammerdb_database = {"mysql": "mysql", "mariadb": "maria"}[flavour]
        installation = choose(flavour, context.options, context.engines_prefix)
        check_settings(installation, context.settings)
        self._manage(installation, context, applied(context.settings, known_settings(installation)))
        self._doublewrite = _part_of_doublewrite(installation, context.options)
        page_size_kib = int(choice_of(context.options, "page_size", _PAGE_SIZES))
        self._format = {"innodb_page_size": str(page_size_kib * 1024)}
        self._rows_apart = _rows_apart(installation, context.options)
        self._password = secrets.token_hex(16)
        self._client_password = secrets.token_hex(16)
        self._first_start = True
        self.version_tuple = installation.version_tuple

    def unmodelled(self, part: str) -> tuple[str, str] | None:
        if part == "wal":
            if self.flavour == "mariadb":
                return "MariaDB maps its log on a tmpfs", "use MySQL, or place wal elsewhere"
            return None
        if configured(self._installation, self._settings, _NATIVE_AIO) != "OFF":
            context = f"{self.flavour} uses asynchronous I/O ({_NATIVE_AIO}=ON)"
            return context, f"add --set {_NATIVE_AIO}=OFF"
        return None

    def format_options(self) -> Mapping[str, str]:
        """Return what initialisation fixes for good, and settings that decide what loads store."""
        return {
            **self._format,
            "collation": SETTINGS.values["collation_server"],
            **({"primary_keys": "secondary"} if self._rows_apart else {}),
        } | self.stored_settings()

    def _loaded_with(self) -> dict[str, str]:
        """A slow shutdown leaves nothing to purge or merge in a dataset."""
        return {**self.stored_settings(), "innodb_fast_shutdown": "0"}

    def initialise(self, directories: DataDirectories) -> None:
        """Make an empty server; until a restore, it starts with the settings for loading."""
        self._loading = True
        cluster = self._use(directories)
        settings = {**self.stored_settings(), **self._format}
        cluster.create(write_configuration(cluster, settings))

    def effective_config(self) -> Mapping[str, str]:
        """The recorded variables, and how the redo log is written.

        If it is mapped, there is no log buffer, and MariaDB reports the log's size instead. Then
        the setting is recorded, so that placements do not differ in it.
        """
        config = dict(super().effective_config())
        mapped = any(redo_is_mapped(p.pid, self._cluster) for p in self.processes())
        if mapped:
            value = configured(self._installation, self._settings, LOG_BUFFER)
            config[LOG_BUFFER] = f"{suffixed_number(value):.0f}"
        config["log_redo_access"] = "memory-mapped" if mapped else "system calls"
        return config

    def restore(self, dataset: Path, directories: DataDirectories) -> None:
        """Copy ``dataset``, which contains no locations."""
        self._loading = False
        settings = known_settings(self._installation)
        if directories.relations and self.flavour == "mysql" and _DIRECTORIES not in settings:
            raise UsageError(
                f"place {directories.relations[0]} with {self._installation.title}",
                f"this release has no {_DIRECTORIES}",
                "use MySQL 8.0 or later, or place the data as a whole",
            )
        self._use(directories).restore(dataset)

    def relations(self) -> Sequence[StoredRelation]:
        return stored_tables(self._cluster.table_folders(), self._user)

    def _local_processes(self) -> Sequence[ProcessId]:
        return self.processes()

    @property
    def _login(self) -> MySqlLogin:
        return MySqlLogin(
            user=ROLE,
            password=self._password,
            database=DATABASE,
            socket=str(self.socket),
            socket_owner=self._user,
        )

    def _open(self, local_infile: bool = False) -> LazyConnection:
        return self._login.connect(local_infile=local_infile)

    def native_connection(self) -> JsonObject:
        return self._login.native()

    def tunnel(self, token: str) -> Tunnel:
        """A socket of any name."""
        remote = f"/tmp/tierbench-{token}.sock"
        connection = {
            "socket": remote,
            **self._client_login(),
        }
        return Tunnel(self.socket, remote, connection)

    def from_elsewhere(self) -> JsonObject | None:
        """TLS; the run's own authority certifies the server's address."""
        if (listening := self._listening) is None:
            return None
        return {
            "host": listening.host,
            "port": listening.port,
            **self._client_login(),
            "ca_certificate": listening.authority_pem,
        }

    def _client_login(self) -> dict[str, str]:
        """The user of a client on another host, which has no administrative rights."""
        return {"user": CLIENT_ROLE, "password": self._client_password, "database": DATABASE}

    @property
    def socket(self) -> Path:
        return self._context.scratch / SOCKET

    def _start(self, settings: Mapping[str, str]) -> None:
        """The first start on these files also sets the passwords of the run."""
        if self.running:
            return
        listening = self._listens()
        statements = self._access(listening is not None) if self._first_start else ""
        settings = {**settings, **self._format}
        configuration = write_configuration(self._cluster, settings, statements, listening)
        try:
            self._launch(
                [*self._installation.command, f"--defaults-file={configuration}"],
                ready=lambda _: self._greets(),
                # Only files outlive the server's process, and the supervisor removes them.
                orphaned=signal.SIGKILL,
                verify=lambda process: self._verify(process.pid, settings),
            )
        finally:
            with acting_as(self._user):
                init_file(self._context).unlink(missing_ok=True)
        self._first_start = False

    def _shut_down(self) -> None:
        """Clean shutdown (SIGTERM), every page on its device; RunFailed if it was not clean."""
        status = self._end(signal.SIGTERM)
        if status is None:
            return
        if status != 0 or "hutdown complete" not in log_tail(self.log, self._user):
            raise self._failed("stop", f"exit status {status}")
        self._cluster.clean = True

    def _verify(self, pid: int, settings: Mapping[str, str]) -> None:
        """Verify the locations of the parts and the settings, once no file is to come."""
        self._await_redo_size()
        self._await_redo_files()
        verify_locations(pid, self._cluster, also=(self._context.scratch,))
        verify_variables(pid, self._variables(), self._cluster, settings)

    def _await_redo_files(self) -> None:
        """Return when MySQL makes no more of them; at once for a server that makes none."""
        previous, since = -1, time.monotonic()
        while time.monotonic() < since + _REDO_PAUSE_S:
            with acting_as(self._user):
                files = sum(1 for _ in self._cluster.redo.glob("#innodb_redo/#ib_redo*"))
            if files == 0 or files >= _REDO_FILES:
                return
            if files > previous:
                previous, since = files, time.monotonic()
            time.sleep(_POLL_S)

    def _log_end(self) -> str:
        return before_trace(self.log, self._user) or super()._log_end()

    def _greets(self) -> bool:
        """Return whether it answers a connection: the socket exists before it can be used."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(_GREETING_S)
            try:
                with acting_as(self._user):
                    client.connect(str(self.socket))
                return client.recv(5)[4:] == bytes([_PROTOCOL])
            except OSError:
                return False

    def _access(self, listens: bool) -> str:
        """Statements that make the database and its users; no other user can log in.

        Clients on other hosts have a user of their own, through a tunnel or with TLS, and then only
        from the addresses of those hosts.
        """
        statements = [
            # Explicit: the session of an init file has the release's defaults.
            f"CREATE DATABASE IF NOT EXISTS {DATABASE} {CHARACTERS}",
            *_user(f"'{ROLE}'@'localhost'", self._password),
            f"GRANT ALL PRIVILEGES ON *.* TO '{ROLE}'@'localhost' WITH GRANT OPTION",
            "ALTER USER 'root'@'localhost' ACCOUNT LOCK",
        ]
        clients = {} if self._loading else {"localhost": ""}
        if listens:
            clients |= dict.fromkeys(self._context.client_addresses, " REQUIRE SSL")
        for host, require in clients.items():
            user = f"'{CLIENT_ROLE}'@'{host}'"
            statements += _user(user, self._client_password, require)
            statements.append(f"GRANT {_CLIENT_RIGHTS} ON {DATABASE}.* TO {user}")
        return "".join(f"{statement};\n" for statement in statements)

    def _use(self, directories: DataDirectories) -> Cluster:
        self._first_start = True
        cluster = Cluster(self._installation, self._context, directories, self._doublewrite)
        return self._place(cluster, directories.memory)


def _user(user: str, password: str, require: str = "") -> list[str]:
    """Statements that make a user or give it another password."""
    return [
        f"CREATE USER IF NOT EXISTS {user}",
        f"ALTER USER {user} IDENTIFIED BY '{password}'{require}",
    ]


def before_trace(log: Path, user: Credentials | None) -> str | None:
    """The errors before the last stack trace of a log; None if it has no stack trace.

    The last lines after a trace are addresses and advice; the cause is logged before it.
    """
    lines = log_tail(log, user, lines=_TRACED_LINES, max_bytes=_TRACED_BYTES).splitlines()
    signals = [number for number, line in enumerate(lines) if " got signal " in line]
    if not signals:
        return None
    before, signal_line = lines[: signals[-1]], lines[signals[-1]]
    errors = [line for line in before if "[ERROR]" in line or "ssertion failure" in line]
    shown = [*(errors or before)[-_SHOWN_ERRORS:], signal_line]
    return "its log before the stack trace:\n" + "\n".join(shown)


def _rows_apart(installation: Installation, options: EngineOptions) -> bool:
    """Whether primary keys are secondary indexes: rows are in the order in which they came."""
    if choice_of(options, "primary_keys", ("clustered", "secondary")) == "clustered":
        return False
    if "sql_generate_invisible_primary_key" not in known_settings(installation):
        raise UsageError(
            f"engine option primary_keys=secondary with {installation.title}",
            "this release makes no invisible primary key, without which InnoDB clusters another",
            "use MySQL 8.0.30 or later, or omit the option",
        )
    return True


def _part_of_doublewrite(installation: Installation, options: EngineOptions) -> Part:
    """The part whose tier holds the doublewrite files.

    Before MySQL 8.0.20 and in MariaDB, they are inside ibdata1 and always on ``data``, which is
    therefore the default of all releases.
    """
    if choice_of(options, "doublewrite", ("data", "wal")) == "data":
        return "data"
    if "innodb_doublewrite_dir" not in known_settings(installation):
        raise UsageError(
            f"engine option doublewrite=wal with {installation.title}",
            "this release keeps its doublewrite pages in the system tablespace, on data",
            "use MySQL 8.0.20 or later, or omit the option",
        )
    return "wal"


def factory(flavour: Flavour) -> EngineFactory:
    """``ENGINE`` of MySQL or MariaDB."""
    return EngineFactory(
        name=flavour,
        title=TITLES[flavour],
        kinds=("managed", "external"),
        options={
            "dsn": "use this external server: mysql://user@host/, or 'env' for $HARNESS_DSN",
            "prefix": "folder of the installation to run (bin/mysqld or sbin/mariadbd)",
            "version": "release to run, such as 9 or 10.11 (default: the newest found)",
            "page_size": "page size in KiB: 4, 8, 16, 32 or 64 [16]",
            "doublewrite": "part that holds the doublewrite files, data or wal [data]",
            "primary_keys": "clustered, or secondary indexes: clustered or secondary [clustered]",
            **TIMEOUTS,
        },
        workloads=(*workloads_in(ManagedInnoDB.sql_folder), "sql"),
        placeable=ManagedInnoDB.supported_parts,
        not_placeable={
            "index": "InnoDB stores a table and its indexes in one file",
            "relations": "InnoDB stores a table and its indexes in one file",
        },
        relation_kinds=frozenset[RelationKind]({"table"}),
        # Of innodb_temp_data_file_path and tmpdir.
        path_separators=":;",
        make=lambda context: ManagedInnoDB(context, flavour),
        external=lambda context: ExternalInnoDB(context, flavour),
        installation=partial(choose, flavour),
        read_server_file=partial(read_server_file, flavour),
        external_version=partial(server_version, flavour),
        sql_dialect="mysql",
    )
