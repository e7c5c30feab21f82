"""postgresql.conf of one start, and the check of settings before anything is loaded."""

from __future__ import annotations

import ipaddress
import os
import re
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from engines._settings import SettingTable
from engines._tls import Listening
from engines.postgres.cluster import CLIENT_ROLE, DATABASE, ROLE, TEMP_TABLESPACE
from engines.postgres.installation import Installation
from harness.engine import EngineContext
from harness.errors import UsageError, nearest
from harness.host.listen_address import Address
from harness.supervise.credentials import run_unprivileged
from harness.supervise.supervisor import minimal_environment
from harness.supervise.user_files import write_text

SETTINGS = SettingTable.read(Path(__file__).parent)
#: The default size of a WAL segment in MiB, and the number of segments the log must hold.
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
            f"listen {address} on PostgreSQL {installation.version} ({installation.source})",
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
    SETTINGS.refuse_fixed("PostgreSQL", {name: name for name in settings}, hint)
    done = _read(installation, tuple(settings.items()), "shared_buffers")
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
    """Check that they hold two segments; the server checks that only when it starts on data."""
    for name in [name for name in settings if name.lower() in _WAL_SIZES]:
        size_mb = int(_read(installation, ((name, settings[name]),), name).stdout)
        if size_mb < _LEAST_SEGMENTS * segment_mb:
            raise UsageError(
                f"settings for PostgreSQL {installation.version}: {name}={settings[name]}",
                f"{size_mb} MiB, but a WAL segment has {segment_mb} MiB",
                f"set it to {_LEAST_SEGMENTS * segment_mb}MB or more",
            )


@lru_cache(maxsize=512)  # every run of a plan is checked, and most have the same settings
def _read(
    installation: Installation, settings: tuple[tuple[str, str], ...], name: str
) -> subprocess.CompletedProcess[str]:
    """The server reads the settings and prints the value of ``name``; nothing is started."""
    # An anonymous file: nothing is left however the harness ends.
    descriptor = os.memfd_create("postgresql.conf")
    with os.fdopen(descriptor, "w") as configuration:
        configuration.write(_render(dict(settings)))
        configuration.flush()
        files = [f"config_file=/proc/self/fd/{descriptor}"]
        files += [f"{file}={_NOWHERE}" for file in ("data_directory", "hba_file", "ident_file")]
        return run_unprivileged(
            [str(installation.bin / "postgres"), "-C", name, *(f"--{file}" for file in files)],
            timeout_s=_TIMEOUT_S,
            env=minimal_environment(_NOWHERE),
            descriptors=[descriptor],
        )


@lru_cache(maxsize=8)
def known_settings(installation: Installation) -> tuple[str, ...]:
    """Names of the settings that the server describes."""
    command = [str(installation.bin / "postgres"), "--describe-config"]
    done = run_unprivileged(command, timeout_s=_TIMEOUT_S)
    return tuple(line.split("\t", 1)[0] for line in done.stdout.splitlines() if "\t" in line)


def _render(settings: Mapping[str, str]) -> str:
    values = {n: v.replace("\\", "\\\\").replace("'", "''") for n, v in settings.items()}
    return "".join(f"{name} = '{value}'\n" for name, value in values.items())
