"""The option file of one start, and the check of settings before anything is loaded."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path

from engines._innodb.accepted import Ask, accepted
from engines._innodb.cluster import Cluster
from engines._innodb.installation import Installation
from engines._innodb.values import same_value
from engines._tls import Listening
from harness.engine import EngineContext
from harness.errors import UsageError, nearest
from harness.supervise.credentials import run_unprivileged, unprivileged
from harness.supervise.supervisor import minimal_environment
from harness.supervise.user_files import write_text

SOCKET = "sql.sock"
_TIMEOUT_S = 60
#: What the harness itself decides: a tuning profile must not change it.
_OURS: Mapping[str, str] = {
    "skip_networking": "ON",
    "skip_name_resolve": "ON",
    "secure_file_priv": "",  # LOAD DATA reads any file that the server's user may read
    "default_time_zone": "+00:00",
    # By default a quarter of the buffer pool is read back in at the start: no cold start then.
    "innodb_buffer_pool_dump_at_shutdown": "OFF",
    "innodb_buffer_pool_load_at_startup": "OFF",
}
#: The same where the release knows them.
_OURS_WHERE_KNOWN: Mapping[str, str] = {
    "mysqlx": "OFF",
    "auto_generate_certs": "OFF",
    "sha256_password_auto_generate_rsa_keys": "OFF",
    "caching_sha2_password_auto_generate_rsa_keys": "OFF",
    "persisted_globals_load": "OFF",
    "ssl": "OFF",  # on a socket of our own; MariaDB 11.4 would make a key of its own each time
}
#: Strings compare by byte, as in the C locale of the other engines, and a character is a byte:
#: the workloads' text is ASCII, and sorts and temporary tables are not made four times as wide.
BINARY: Mapping[str, str] = {
    "character_set_server": "latin1",
    "collation_server": "latin1_bin",
}
#: The same for a database.
CHARACTERS = "CHARACTER SET {character_set_server} COLLATE {collation_server}".format(**BINARY)
_FIXED = frozenset({*_OURS, *_OURS_WHERE_KNOWN, *BINARY}) | {
    "admin_address",
    "aria_log_dir_path",
    "basedir",
    "bind_address",
    "character_sets_dir",
    "daemonize",
    "datadir",
    "init_file",
    "initialize",
    "initialize_insecure",
    "innodb_data_file_path",
    "innodb_data_home_dir",
    "innodb_directories",
    "innodb_doublewrite_dir",
    "innodb_fast_shutdown",
    "innodb_log_group_home_dir",
    "innodb_page_size",
    "innodb_read_only",
    "innodb_temp_data_file_path",
    "innodb_temp_tablespaces_dir",
    "innodb_tmpdir",
    "innodb_undo_directory",
    "lc_messages_dir",
    "log_bin_basename",
    "log_bin_index",
    "log_error",
    "lower_case_table_names",
    "pid_file",
    "plugin_dir",
    "port",
    "replica_load_tmpdir",
    "require_secure_transport",
    "skip_grant_tables",
    "skip_log_bin",
    "slave_load_tmpdir",
    "socket",
    "ssl_ca",
    "ssl_cert",
    "ssl_key",
    "tmpdir",
    "user",
}
#: On or off is the profile's choice, the place is not: it is a log, and lies with the other.
BINARY_LOG = "log_bin"
#: The engine option that decides a setting which a profile cannot.
_BY_OPTION: Mapping[str, str] = {"innodb_page_size": "page_size"}
#: The redo log's size, as one number or as that of each file: the first that is known counts.
_REDO_SIZE = ("innodb_redo_log_capacity", "innodb_log_file_size")
_REDO_FILES = ("innodb_log_file_size", "innodb_log_files_in_group")
_LOOSE = "loose_"
#: Two spellings of a line of the error log, before and since MySQL 8.
_ERROR = re.compile(r"^\S+(?: \S+)? \d+ \[ERROR\] (?:\[MY-\d+\] \[\w+\] )?(.*)$")
#: What only follows from an error that was told before it.
_FOLLOWS = re.compile(r"Parsing options for plugin .* failed|Failed to .*plugin")
_TABLE_HEAD = re.compile(r"^-{20,} -+$", re.MULTILINE)


def write_configuration(
    installation: Installation,
    context: EngineContext,
    cluster: Cluster,
    settings: Mapping[str, str],
    format_settings: Mapping[str, str],
    init_statements: str = "",
    listening: Listening | None = None,
) -> Path:
    """Write the option file of one start into the scratch folder.

    ``init_statements`` (a secret among them) go into a file of their own that the server
    reads at its start; the caller removes it.
    """
    known = known_settings(installation)
    lines = dict(settings) | dict(_OURS) | dict(BINARY) | dict(format_settings)
    lines |= {name: value for name, value in _OURS_WHERE_KNOWN.items() if name in known}
    lines |= installation.folders() | cluster.locations(known.__contains__)
    if binary_log_is_on(settings):
        lines |= cluster.binary_log_options()
    else:
        lines[BINARY_LOG] = ""
    if listening is not None:
        lines |= _encrypted(listening, known)
    lines["socket"] = str(context.scratch / SOCKET)
    lines["pid_file"] = str(context.scratch / "server.pid")
    if init_statements:
        statements = init_file(context)
        write_text(statements, init_statements, context.credentials)
        lines["init_file"] = str(statements)
    configuration = context.scratch / "server.cnf"
    write_text(configuration, _render(lines), context.credentials)
    return configuration


def _encrypted(listening: Listening, known: Collection[str]) -> dict[str, str]:
    """Encrypted or not at all; the private socket counts as secure. Its user asks for it too."""
    wanted = {
        "skip_networking": "OFF",
        "bind_address": listening.host,
        "port": str(listening.port),
        "ssl": "ON",
        "ssl_ca": str(listening.authority),
        "ssl_cert": str(listening.certificate),
        "ssl_key": str(listening.key),
        "require_secure_transport": "ON",
    }
    return {name: value for name, value in wanted.items() if name in known}


def applied(installation: Installation, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that this release takes: of ``loose_…`` only what it knows, by its own name.

    The prefix is the servers' own: one tuning profile serves releases with different settings.
    """
    known = known_settings(installation)
    found: dict[str, str] = {}
    for name, value in settings.items():
        plain = name.removeprefix(_LOOSE)
        if plain == name or plain in known:
            found[plain] = value
    return found


def init_file(context: EngineContext) -> Path:
    """Where the statements of a first start are written."""
    return context.scratch / "first_start.sql"


def check_settings(installation: Installation, settings: Mapping[str, str]) -> None:
    """UsageError for a setting this server does not know or a value it does not take.

    The server itself reads the settings (``--verbose --help``), so that every release is
    judged by its own rules; nothing is started. A value that it would adjust is refused
    too: the run would not be the one that was asked for.
    """
    if taken := sorted(n for n in settings if _plain(n).removeprefix(_LOOSE) in _FIXED):
        options = [_BY_OPTION[plain] for n in taken if (plain := _plain(n)) in _BY_OPTION]
        raise UsageError(
            f"{installation.title}: setting {', '.join(taken)}",
            "decided by the harness (sockets, places, access, the data's format)",
            f"say it by the engine option {', '.join(options)}"
            if options
            else "leave it out; the placement says where the parts lie",
        )
    known = known_settings(installation)
    _check_redo_size(installation.title, settings, known)
    settings = applied(installation, settings)
    for name in settings:
        # The server takes abbreviations and dashes too, which a comparison of runs must not.
        if _plain(name) != name or name not in known:
            raise UsageError(
                f"{installation.title}: setting {name}",
                f"no such setting{_instead(_plain(name), known)}",
                f"see {installation.server.name} --verbose --help; names are written with _",
            )
    if problems := _problems(installation, settings):
        told = "; ".join(problems)
        named = [name for name in settings if name in _plain(told)]
        taken = [text for name in named if (text := accepted(name, _asking(installation)))]
        raise UsageError(
            f"settings for {installation.title}",
            told,
            f"it takes {'; '.join(taken)}"
            if taken
            else f"see {installation.server.name} --verbose --help",
        )


def binary_log_is_on(settings: Mapping[str, str]) -> bool:
    """Whether ``log_bin`` is asked for; no server of a run has one else."""
    return same_value(settings.get(BINARY_LOG, "OFF"), "ON")


def _check_redo_size(title: str, settings: Mapping[str, str], known: Collection[str]) -> None:
    """UsageError for the size of a file where the release would rather take the whole's.

    MySQL 8.0.30 to 8.4 know both; where both are given, that of the files is ignored, and
    the tuning profiles give the whole's.
    """
    capacity = _REDO_SIZE[0]
    given = [name for name in _REDO_FILES if name in settings]
    if capacity in known and given and {capacity, _LOOSE + capacity} & set(settings):
        raise UsageError(
            f"{title}: setting {', '.join(given)}",
            f"ignored beside {capacity}, which this release has",
            f"say {capacity}, the size of the whole redo log",
        )


def _instead(name: str, known: Collection[str]) -> str:
    """What this release calls it, else the nearest name that it knows."""
    renamed = next((n for n in _REDO_SIZE if n in known), "")
    if name in (*_REDO_SIZE, *_REDO_FILES) and renamed:
        return f": this release has {renamed}"
    return nearest(name, list(known))


def configured(installation: Installation, settings: Mapping[str, str], name: str) -> str:
    """The value that a setting would have by these settings and the server's defaults."""
    return settings.get(name) or _values(_described(installation, "--no-defaults").stdout)[name]


def _problems(installation: Installation, settings: Mapping[str, str]) -> list[str]:
    """What the server says of the settings when it only reads them."""
    settings = dict(settings)
    if not _is_truth(binary_log := settings.pop(BINARY_LOG, "OFF")):
        return [f"{BINARY_LOG}={binary_log} is neither ON nor OFF: its place is that of wal"]
    done = _read(installation, settings)
    if errors := [m[1] for line in done.stderr.splitlines() if (m := _ERROR.match(line))]:
        return [text for text in errors if text != "Aborting" and not _FOLLOWS.match(text)]
    values = _values(done.stdout)
    if not values:
        return [done.stderr.strip() or f"exit status {done.returncode}"]
    return [
        f"{name}={asked} would be {values[name]}"
        for name, asked in settings.items()
        if asked and not same_value(asked, values[name])
    ]


def _asking(installation: Installation) -> Ask:
    """The values that settings would have by a few of them, one reading each."""
    return lambda settings: _values(_read(installation, settings).stdout)


def _is_truth(text: str) -> bool:
    return same_value(text, "ON") or same_value(text, "OFF")


def _read(
    installation: Installation, settings: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """The server reads the settings and describes what it would have; nothing is started."""
    # A file without a name: nothing is left behind, however the harness ends.
    descriptor = os.memfd_create("server.cnf")
    with os.fdopen(descriptor, "w") as configuration:
        os.fchmod(descriptor, 0o600)  # a file that others may write is not read
        if (user := unprivileged()) is not None:
            os.fchown(descriptor, user.uid, user.gid)
        configuration.write(_render({**settings, **installation.folders(), BINARY_LOG: ""}))
        configuration.flush()
        return _described(installation, f"--defaults-file=/proc/self/fd/{descriptor}", descriptor)


@lru_cache(maxsize=8)
def known_settings(installation: Installation) -> frozenset[str]:
    """Names of the settings the server describes, written with ``_``."""
    return frozenset(_values(_described(installation, "--no-defaults").stdout))


def _described(
    installation: Installation, first: str, *descriptors: int
) -> subprocess.CompletedProcess[str]:
    """The server's own table of its settings and the values they would have."""
    options = [f"--{name.replace('_', '-')}={v}" for name, v in installation.folders().items()]
    return run_unprivileged(
        [*installation.command, first, *options, "--verbose", "--help"],
        timeout_s=_TIMEOUT_S,
        env=minimal_environment(Path("/nonexistent")),
        descriptors=descriptors,
    )


def _values(described: str) -> dict[str, str]:
    head = _TABLE_HEAD.search(described)
    lines = described[head.end() :].splitlines() if head else []
    rows = (line.partition(" ") for line in lines if line[:1].isalpha() and " " in line)
    return {_plain(name): value.strip() for name, _, value in rows}


def _plain(name: str) -> str:
    return name.replace("-", "_").lower()


def _render(settings: Mapping[str, str]) -> str:
    """The option file. Without a place for it there is no binary log, MySQL's default or not."""
    lines = ["[mysqld]\n"]
    for name, value in settings.items():
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        if name == BINARY_LOG and not value:
            lines.append(f"skip_{BINARY_LOG}\n")
        else:
            lines.append(f'{name} = "{escaped}"\n')
    return "".join(lines)
