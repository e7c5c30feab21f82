"""The settings of one start: postgresql.conf, and their check before anything is loaded."""

from __future__ import annotations

import ipaddress
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import psycopg

from engines._listening import Listening
from engines._server_files import read_postgres
from engines._settings import LOOSE, NOWHERE, TIMEOUT_S, SettingTable, applied, run_with_file
from engines.postgres.cluster import CLIENT_ROLE, DATABASE, ROLE, TEMP_TABLESPACE
from engines.postgres.installation import Installation, choose
from harness.engine import EngineContext, EngineOptions, ServerFile
from harness.errors import RunFailed, UsageError, nearest
from harness.host.listen_address import Address
from harness.supervise.credentials import run_unprivileged
from harness.supervise.user_files import write_text
from harness.units import MIB

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
        size_mb = int(_read(installation, tuple(settings.items()), name).stdout)
        if size_mb < _LEAST_SEGMENTS * segment_mb:
            raise UsageError(
                f"settings for {installation.title}: {name}={settings[name]}",
                f"{size_mb} MiB, but a WAL segment has {segment_mb} MiB",
                f"set it to {_LEAST_SEGMENTS * segment_mb}MB or more",
            )


def max_wal_size_bytes(installation: Installation, settings: Mapping[str, str]) -> int:
    """Return ``max_wal_size`` as the server reads it: of these settings, else its default."""
    chosen = applied(settings, known_settings(installation))
    return int(_read(installation, tuple(chosen.items()), "max_wal_size").stdout) * MIB


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


def read_server_file(
    options: EngineOptions, engines_prefix: Path, file: str, text: str
) -> ServerFile:
    """Read a postgresql.conf of another server, for the release that would run."""
    installation = choose(options, engines_prefix)

    def has(name: str) -> bool:  # it does not describe all that it has
        return _read(installation, (), name).returncode == 0

    supported = known_settings(installation)
    return read_postgres(file, text, SETTINGS, installation.title, supported, has)


def _render(settings: Mapping[str, str]) -> str:
    values = {n: v.replace("\\", "\\\\").replace("'", "''") for n, v in settings.items()}
    return "".join(f"{name} = '{value}'\n" for name, value in values.items())
