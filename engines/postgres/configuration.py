"""postgresql.conf of one start, and the check of settings before anything is loaded."""

from __future__ import annotations

import ipaddress
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from engines._tls import Listening
from engines.postgres.cluster import CLIENT_ROLE, DATABASE, ROLE, TEMP_TABLESPACE
from engines.postgres.installation import Installation
from harness.engine import EngineContext
from harness.errors import UsageError, nearest
from harness.host.listen_address import Address
from harness.supervise.credentials import run_unprivileged
from harness.supervise.supervisor import minimal_environment
from harness.supervise.user_files import write_text

#: What the harness itself decides: a tuning profile must not change it.
_OURS: Mapping[str, str] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "port": "5432",
    "temp_tablespaces": TEMP_TABLESPACE,
    "logging_collector": "off",
    "log_destination": "stderr",
    "cluster_name": "harness",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "datestyle": "ISO, YMD",
}
_FIXED = frozenset(_OURS) | {
    "config_file",
    "data_directory",
    "default_tablespace",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "password_encryption",
    "ssl",
    "ssl_cert_file",
    "ssl_key_file",
    "unix_socket_directories",
}
#: The default size of a WAL segment in MiB, and of how many the log must have room.
SEGMENT_MB = 16
_LEAST_SEGMENTS = 2
_TIMEOUT_S = 60
_WAL_SIZES = ("max_wal_size", "min_wal_size")
_NOWHERE = Path("/nonexistent")
_PROBLEM = re.compile(r"^.*?(?:LOG|ERROR|FATAL|HINT|DETAIL):\s+(.*)$")
_UNKNOWN = re.compile(r'unrecognized configuration parameter "([^"]+)"')


def write_configuration(
    context: EngineContext, settings: Mapping[str, str], listening: Listening | None = None
) -> Path:
    """Write postgresql.conf and its access rules into the scratch folder."""
    folder = context.scratch
    rules = folder / "pg_hba.conf"
    mapping = folder / "pg_ident.conf"
    lines = dict(settings) | dict(_OURS)
    lines["unix_socket_directories"] = str(folder)
    lines["hba_file"] = str(rules)
    lines["ident_file"] = str(mapping)
    access = [f"local all {ROLE} scram-sha-256\n"]
    access.append(f"local {DATABASE} {CLIENT_ROLE} scram-sha-256\n")
    if listening is not None:
        lines |= _listening(listening)
        for address in context.client_addresses:
            access.append(f"hostssl {DATABASE} {CLIENT_ROLE} {_alone(address)} scram-sha-256\n")
    configuration = folder / "postgresql.conf"
    texts = {rules: "".join(access), mapping: "", configuration: _render(lines)}
    for path, text in texts.items():
        write_text(path, text, context.credentials)
    return configuration


def _alone(address: str) -> str:
    """As pg_hba.conf has one host."""
    return f"{address}/{ipaddress.ip_address(address).max_prefixlen}"


def _listening(listening: Listening) -> dict[str, str]:
    """Encrypted or not at all: the access rules know no connection without."""
    return {
        "listen_addresses": listening.host,
        "port": str(listening.port),
        "ssl": "on",
        "ssl_cert_file": str(listening.certificate),
        "ssl_key_file": str(listening.key),
    }


def check_tls(installation: Installation, address: Address) -> None:
    """UsageError for a server that was built without TLS."""
    if _read(installation, {"ssl": "on"}, "ssl").returncode != 0:
        raise UsageError(
            f"listen {address} on PostgreSQL {installation.version} ({installation.source})",
            "it was built without TLS",
            "choose another installation with the engine options version or prefix (the "
            "releases of Debian and of postgresql.org have it), or leave listen out",
        )


def check_settings(
    installation: Installation, settings: Mapping[str, str], segment_mb: int = SEGMENT_MB
) -> None:
    """UsageError for a setting this server does not know or a value it does not take.

    The server itself reads the settings (``postgres -C``), so that every version
    and extension option is judged by its own rules; nothing is started. ``segment_mb``:
    of a WAL segment, by which it judges only at its start, in MiB.
    """
    if taken := sorted(set(settings) & _FIXED):
        raise UsageError(
            f"PostgreSQL setting {', '.join(taken)}",
            "decided by the harness (sockets, places, access)",
            "leave it out; the placement says where the parts lie",
        )
    done = _read(installation, settings, "shared_buffers")
    if done.returncode == 0:
        _check_wal_sizes(installation, settings, segment_mb)
        return
    problems = [m.group(1) for line in done.stderr.splitlines() if (m := _PROBLEM.match(line))]
    shown = [re.sub(r' in file "[^"]*"(,)? line \d+', "", p) for p in problems]
    shown = [p for p in shown if "auto.conf" not in p and "contains errors" not in p]
    known = known_settings(installation)
    hints = [nearest(name, known) for p in problems for name in _UNKNOWN.findall(p)]
    raise UsageError(
        f"settings for PostgreSQL {installation.version}",
        "; ".join(shown) + "".join(hints) if shown else done.stderr.strip(),
        f"see {installation.bin / 'postgres'} --describe-config",
    )


def _check_wal_sizes(
    installation: Installation, settings: Mapping[str, str], segment_mb: int
) -> None:
    """That they hold two segments: the server says so only when it starts on data."""
    for name in [name for name in settings if name.lower() in _WAL_SIZES]:
        size_mb = int(_read(installation, settings, name).stdout)
        if size_mb < _LEAST_SEGMENTS * segment_mb:
            raise UsageError(
                f"settings for PostgreSQL {installation.version}: {name}={settings[name]}",
                f"{size_mb} MiB, and a WAL segment has {segment_mb}",
                f"say {_LEAST_SEGMENTS * segment_mb}MB or more",
            )


def _read(
    installation: Installation, settings: Mapping[str, str], name: str
) -> subprocess.CompletedProcess[str]:
    """The server reads the settings and tells the value of one; nothing is started."""
    # A file without a name: nothing is left behind, however the harness ends.
    descriptor = os.memfd_create("postgresql.conf")
    with os.fdopen(descriptor, "w") as configuration:
        configuration.write(_render(settings))
        configuration.flush()
        return run_unprivileged(
            [
                str(installation.bin / "postgres"),
                "-C",
                name,
                "-c",
                f"config_file=/proc/self/fd/{descriptor}",
                "-c",
                f"data_directory={_NOWHERE}",
                "-c",
                f"hba_file={_NOWHERE}",
                "-c",
                f"ident_file={_NOWHERE}",
            ],
            timeout_s=_TIMEOUT_S,
            env=minimal_environment(_NOWHERE),
            descriptors=[descriptor],
        )


@lru_cache(maxsize=8)
def known_settings(installation: Installation) -> tuple[str, ...]:
    """Names of the settings the server describes."""
    command = [str(installation.bin / "postgres"), "--describe-config"]
    done = run_unprivileged(command, timeout_s=_TIMEOUT_S)
    return tuple(line.split("\t", 1)[0] for line in done.stdout.splitlines() if "\t" in line)


def _render(settings: Mapping[str, str]) -> str:
    return "".join(_lines(settings.items()))


def _lines(settings: Iterable[tuple[str, str]]) -> Iterable[str]:
    for name, value in settings:
        escaped = value.replace("\\", "\\\\").replace("'", "''")
        yield f"{name} = '{escaped}'\n"
