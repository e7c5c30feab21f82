"""The database cluster on disk, its creation, copies to and from a dataset, and its settings.

Layout, the same for every placement, so that only the devices differ::

    <data>/pgdata      the data directory; pg_wal and pg_tblspc/* are links
    <wal>/pg_wal       the write-ahead log
    <index>/tblspc     tablespace harness_index: indexes
    <temp>/tblspc      tablespace harness_temp: sorts and hashes that spill

A dataset contains the same four directories as ``pgdata``, ``pg_wal``, ``index`` and ``temp``.
To move a stopped cluster, it is enough to rewrite its links: since PostgreSQL 9.2, the link *is*
the tablespace's location.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import psycopg

from engines._listening import Listening
from engines._managed import DataFolders
from engines._programs import run_once
from engines._settings import LOOSE, NOWHERE, TIMEOUT_S, SettingTable, applied, run_with_file
from engines.postgres.installation import Installation
from harness.engine import DataDirectories, EngineContext
from harness.errors import RunFailed, UsageError, nearest
from harness.experiment.placement import Part
from harness.host.listen_address import Address
from harness.supervise.credentials import run_unprivileged
from harness.supervise.user_files import acting_as, make_directory, open_regular, write_text

#: The superuser that the harness uses.
ROLE = "harness"
#: The role of clients on other hosts, which has only a workload's rights on its tables.
CLIENT_ROLE = "harness_client"
DATABASE = "harness"
#: Made by initdb; the harness stores nothing in it.
MAINTENANCE_DATABASE = "postgres"
INDEX_TABLESPACE = "harness_index"
TEMP_TABLESPACE = "harness_temp"
_TABLESPACES: Mapping[Part, str] = {"index": INDEX_TABLESPACE, "temp": TEMP_TABLESPACE}
_LOCATION_FILE = "harness_tablespaces"
_SCRAM_ITERATIONS = 4096
_INITDB_OPTIONS = (
    *("--auth=reject", "--encoding=UTF8", "--no-locale"),
    *("--no-sync", "--no-instructions"),
)
_SINGLE_USER_OPTIONS = ("--exit_on_error=on", "--shared_buffers=16MB", "--huge_pages=off")
#: ``DBState`` of every release, the fourth field of pg_control.
_STATES = (
    "starting up",
    "shut down",
    "shut down in recovery",
    "shutting down",
    "in crash recovery",
    "in archive recovery",
    "in production",
)
_STATE = struct.Struct("=16xI")
#: The state after a clean shutdown.
CLEAN = "shut down"


def scram_verifier(password: str) -> str:
    """The verifier that the server stores instead of ``password`` (RFC 5803)."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _SCRAM_ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    text = [base64.b64encode(value).decode() for value in (salt, stored, server)]
    return f"SCRAM-SHA-256${_SCRAM_ITERATIONS}:{text[0]}${text[1]}:{text[2]}"


class Cluster(DataFolders[Installation]):
    """One cluster in the directories of a run; its server is stopped while these methods run."""

    def __init__(
        self, installation: Installation, context: EngineContext, directories: DataDirectories
    ) -> None:
        super().__init__(installation, context)
        self.data = directories["data"] / "pgdata"
        self.wal = directories["wal"] / "pg_wal"
        self.tablespaces = {part: directories[part] / "tblspc" for part in _TABLESPACES}

    def directories(self) -> list[Path]:
        return [self.data, self.wal, *self.tablespaces.values()]

    def create(self, initdb_options: Sequence[str], password: str) -> None:
        """Run initdb; make tablespaces, database and the password of the harness's role."""
        for folder in self.tablespaces.values():
            make_directory(folder, self._user)
        directories = (f"--pgdata={self.data}", f"--waldir={self.wal}", f"--username={ROLE}")
        self._run("initdb", *directories, *_INITDB_OPTIONS, *initdb_options)
        statements = [
            f"CREATE TABLESPACE {_TABLESPACES[part]} LOCATION '{_quoted(folder)}'"
            for part, folder in self.tablespaces.items()
        ]
        self._single_user(
            *statements,
            f"CREATE DATABASE {DATABASE}",
            f"GRANT CREATE ON TABLESPACE {TEMP_TABLESPACE} TO PUBLIC",
            f"ALTER ROLE {ROLE} PASSWORD '{scram_verifier(password)}'",
        )

    def state(self) -> str:
        """Return the cluster's state in the words of pg_controldata (``CLEAN``)."""
        file = self.data / "global" / "pg_control"
        with acting_as(self._user):
            descriptor = open_regular(file, os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as control:
            content = control.read(_STATE.size)
        try:
            return _STATES[_STATE.unpack(content)[0]]
        except (struct.error, IndexError) as error:
            raise RunFailed(f"state of {self.data}", f"{file} is damaged: {error}") from error

    def assert_clean(self, problem: str) -> None:
        """RunFailed unless the cluster was shut down cleanly."""
        if (state := self.state()) != CLEAN:
            raise RunFailed(
                problem, f"the cluster in {self.data} is {state!r}, not {CLEAN!r}", "load it again"
            )

    def restore(self, dataset: Path, password: str) -> None:
        """Copy the four directories, link them, set a new password."""
        self._copy(dataset)
        self._link(self.data / "pg_wal", self.wal)
        for part, folder in self.tablespaces.items():
            oid = (dataset / f"{_LOCATION_FILE}.{part}").read_text().strip()
            self._link(self.data / "pg_tblspc" / oid, folder)
        self.assert_clean(f"restore {dataset}")
        self._single_user(f"ALTER ROLE {ROLE} PASSWORD '{scram_verifier(password)}'")

    def verify_locations(self) -> None:
        """RunFailed unless every part is in its directory (links resolved)."""
        links = {"wal": self.data / "pg_wal", **self._links()}
        expected = {"wal": self.wal, **self.tablespaces}
        for part, link in links.items():
            with acting_as(self._user):
                target, directory = link.resolve(), expected[part].resolve()
            if target != directory:
                raise RunFailed(f"{part} in {expected[part]}", f"{link} leads to {target}")
        if missing := set(expected) - set(links):
            raise RunFailed(f"parts of {self.data}", f"no link for {', '.join(sorted(missing))}")

    def dataset_names(self) -> dict[Path, str]:
        parts = {folder: str(part) for part, folder in self.tablespaces.items()}
        return {self.data: "pgdata", self.wal: "pg_wal", **parts}

    def _strip(self, dataset: Path) -> None:
        """The links, of which those to tablespaces are written down."""
        for part, link in self._links().items():
            (dataset / f"{_LOCATION_FILE}.{part}").write_text(link.name)
            with acting_as(self._user):
                link.unlink()
        with acting_as(self._user):
            (self.data / "pg_wal").unlink()

    def _links(self) -> dict[Part, Path]:
        """The tablespace links of the data directory, by part."""
        with acting_as(self._user):
            parts = {folder.resolve(): part for part, folder in self.tablespaces.items()}
            links = {link: link.resolve() for link in (self.data / "pg_tblspc").iterdir()}
        return {parts[target]: link for link, target in links.items() if target in parts}

    def _link(self, link: Path, target: Path) -> None:
        with acting_as(self._user):
            link.symlink_to(target)

    def _run(self, tool: str, *arguments: str) -> None:
        run_once(
            self.context,
            f"{tool} of {self.installation.title}",
            [str(self.installation.bin / tool), *arguments],
            self.context.scratch / f"{tool}.log",
        )

    def _single_user(self, *statements: str) -> None:
        """Run statements in single-user mode: before anyone can connect, and without a socket."""
        program = [str(self.installation.bin / "postgres"), "--single", "-D", str(self.data)]
        run_once(
            self.context,
            "set up the PostgreSQL cluster",
            [*program, *_SINGLE_USER_OPTIONS, MAINTENANCE_DATABASE],
            self.context.scratch / "single-user.log",
            stdin="".join(f"{s};\n" for s in statements),
        )


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


# postgresql.conf of one start -----------------------------------------------------

SETTINGS = SettingTable.read(Path(__file__).parent)
#: The default size of a WAL segment in MiB, and the number of segments the log must hold.
SEGMENT_MB = 16
_LEAST_SEGMENTS = 2
_WAL_SIZES = ("max_wal_size", "min_wal_size")
_PROBLEM = re.compile(r"^.*?(?:LOG|ERROR|FATAL|HINT|DETAIL):\s+(.*)$")
_UNKNOWN = re.compile(r'unrecognized configuration parameter "([^"]+)"')
#: Sources that do not override the configuration file for other sessions.
_SOURCES = ("configuration file", "client", "session")
#: The value with which the server chooses one.
_SERVERS_CHOICE = "-1"
_SOURCES_SQL = """
SELECT name, current_setting(name), source FROM pg_settings
WHERE name = ANY(%s) AND source <> ALL(%s)"""
#: Shared catalogs, so that nothing of the measured database is read before the measurement.
_OVERRIDES_SQL = """
SELECT unnest(setconfig) FROM pg_db_role_setting LEFT JOIN pg_database d ON d.oid = setdatabase
WHERE setdatabase = 0 OR datname = %s"""


def write_configuration(
    context: EngineContext, settings: Mapping[str, str], listening: Listening | None = None
) -> Path:
    """Write postgresql.conf and its access rules into the scratch folder."""
    folder = context.scratch
    rules = folder / "pg_hba.conf"
    mapping = folder / "pg_ident.conf"
    lines = {**settings, **SETTINGS.values, "temp_tablespaces": TEMP_TABLESPACE}
    lines["unix_socket_directories"] = str(folder)
    lines["hba_file"] = str(rules)
    lines["ident_file"] = str(mapping)
    access = [f"local all {ROLE} scram-sha-256\n"]
    access.append(f"local {DATABASE} {CLIENT_ROLE} scram-sha-256\n")
    if listening is not None:
        lines |= _listening(listening)
        for address in context.client_addresses:
            host = f"{address}/{ipaddress.ip_address(address).max_prefixlen}"
            access.append(f"hostssl {DATABASE} {CLIENT_ROLE} {host} scram-sha-256\n")
    configuration = folder / "postgresql.conf"
    texts = {rules: "".join(access), mapping: "", configuration: _render(lines)}
    for path, text in texts.items():
        write_text(path, text, context.credentials)
    return configuration


def _listening(listening: Listening) -> dict[str, str]:
    """Settings of a server that listens; the access rules allow TLS only."""
    return {
        "listen_addresses": listening.host,
        "port": str(listening.port),
        "ssl": "on",
        "ssl_cert_file": str(listening.certificate),
        "ssl_key_file": str(listening.key),
    }


def check_tls(installation: Installation, address: Address) -> None:
    """UsageError if the server was built without TLS."""
    if _read(installation, (("ssl", "on"),), "ssl").returncode != 0:
        raise UsageError(
            f"listen {address} on {installation.title} ({installation.source})",
            "it was built without TLS",
            "select another installation with the engine options version or prefix (the builds "
            "of Debian and postgresql.org have TLS), or omit listen",
        )


def check_settings(
    installation: Installation, settings: Mapping[str, str], segment_mb: int = SEGMENT_MB
) -> None:
    """UsageError for a setting that this server does not have or a value that it rejects.

    The server itself reads the settings (``postgres -C``), so that each version and extension
    is checked by its own rules; nothing is started. ``segment_mb``: size of a WAL segment in
    MiB, which the server checks only when it starts.
    """
    hint = "remove it; --placement decides where the parts are"
    SETTINGS.refuse_fixed("PostgreSQL", {name: name.removeprefix(LOOSE) for name in settings}, hint)
    settings = applied(settings, known_settings(installation))
    done = _read(installation, tuple(settings.items()), "shared_buffers")
    if done.returncode == 0:
        _check_wal_sizes(installation, settings, segment_mb)
        return
    problems = [m.group(1) for line in done.stderr.splitlines() if (m := _PROBLEM.match(line))]
    shown = [re.sub(r' in file "[^"]*"(,)? line \d+', "", p) for p in problems]
    shown = [p for p in shown if "auto.conf" not in p and "contains errors" not in p]
    supported = known_settings(installation)
    hints = [nearest(name, supported) for p in problems for name in _UNKNOWN.findall(p)]
    raise UsageError(
        f"settings for {installation.title}",
        "; ".join(shown) + "".join(hints) if shown else done.stderr.strip(),
        f"see {installation.bin / 'postgres'} --describe-config",
    )


def _check_wal_sizes(
    installation: Installation, settings: Mapping[str, str], segment_mb: int
) -> None:
    """Check that they hold two segments; the server checks that only when it starts on data."""
    for name in [name for name in settings if name.lower() in _WAL_SIZES]:
        size_mb = int(_read(installation, ((name, settings[name]),), name).stdout)
        if size_mb < _LEAST_SEGMENTS * segment_mb:
            raise UsageError(
                f"settings for {installation.title}: {name}={settings[name]}",
                f"{size_mb} MiB, but a WAL segment has {segment_mb} MiB",
                f"set it to {_LEAST_SEGMENTS * segment_mb}MB or more",
            )


def verify_settings(
    connection: psycopg.Connection[Any], database: str, settings: Mapping[str, str], title: str
) -> None:
    """RunFailed if sessions in ``database`` have other values than ``settings``.

    A setting of a database or a user is part of a dataset and silently overrides the configuration
    file in the measured sessions.
    """
    names = {name.lower(): value for name, value in settings.items()}
    for name, requested, reported in _differing(connection, database, names):
        raise RunFailed(
            f"{title} with {name}={requested}",
            f"the server has {reported}",
            "load the data again, or remove the setting",
        )


def _differing(
    connection: psycopg.Connection[Any], database: str, settings: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    rows = connection.execute(_SOURCES_SQL, [list(settings), list(_SOURCES)]).fetchall()
    for name, value, source in rows:
        if settings[name.lower()] != _SERVERS_CHOICE:
            yield name, settings[name.lower()], f"{value}, from {source}"
    for (override,) in connection.execute(_OVERRIDES_SQL, [database]).fetchall():
        name, _, value = override.partition("=")
        if name.lower() in settings:
            yield name, settings[name.lower()], f"{value}, set for a database or a user"


@lru_cache(maxsize=512)  # every run of a plan is checked, and most have the same settings
def _read(
    installation: Installation, settings: tuple[tuple[str, str], ...], name: str
) -> subprocess.CompletedProcess[str]:
    """The server reads the settings and prints the value of ``name``; nothing is started."""
    elsewhere = [f"--{file}={NOWHERE}" for file in ("data_directory", "hba_file", "ident_file")]
    command = [str(installation.bin / "postgres"), "-C", name, *elsewhere]
    return run_with_file(_render(dict(settings)), lambda file: [*command, f"--config_file={file}"])


@lru_cache(maxsize=8)
def known_settings(installation: Installation) -> tuple[str, ...]:
    """Names of the settings that the server describes."""
    command = [str(installation.bin / "postgres"), "--describe-config"]
    done = run_unprivileged(command, timeout_s=TIMEOUT_S)
    return tuple(line.split("\t", 1)[0] for line in done.stdout.splitlines() if "\t" in line)


def _render(settings: Mapping[str, str]) -> str:
    values = {n: v.replace("\\", "\\\\").replace("'", "''") for n, v in settings.items()}
    return "".join(f"{name} = '{value}'\n" for name, value in values.items())
