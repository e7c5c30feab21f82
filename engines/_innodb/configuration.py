"""The option file of one start, and the check of settings before anything is loaded."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engines._innodb.cluster import Cluster
from engines._innodb.installation import Flavour, Installation, choose
from engines._listening import Listening
from engines._server_files import read_mysql
from engines._settings import LOOSE, SettingTable, applied, run_with_file
from harness.engine import EngineContext, EngineOptions, ServerFile
from harness.errors import RunFailed, UsageError, nearest
from harness.host.page_cache import in_memory
from harness.supervise.user_files import write_text
from harness.units import suffixed_number

SOCKET = "sql.sock"
SETTINGS = SettingTable.read(Path(__file__).parent)
#: The character set and collation of every database of the harness.
CHARACTERS = "CHARACTER SET {character_set_server} COLLATE {collation_server}".format(
    **SETTINGS.values
)
#: A profile turns it on or off; its directory is that of the redo log.
BINARY_LOG = "log_bin"
#: The engine option that decides a reserved setting.
_BY_OPTION: Mapping[str, str] = {"innodb_page_size": "page_size"}
#: The redo log's size, as one number or per file: the first that the release has decides.
_REDO_SIZE = ("innodb_redo_log_capacity", "innodb_log_file_size")
_REDO_FILES = ("innodb_log_file_size", "innodb_log_files_in_group")
#: A line of the error log, before and since MySQL 8.
_ERROR = re.compile(r"^\S+(?: \S+)? \d+ \[ERROR\] (?:\[MY-\d+\] \[\w+\] )?(.*)$")
#: Consequences of an error that the log names before them.
_FOLLOWS = re.compile(r"Parsing options for plugin .* failed|Failed to .*plugin")
_TABLE_HEAD = re.compile(r"^-{20,} -+$", re.MULTILINE)


def write_configuration(
    cluster: Cluster,
    settings: Mapping[str, str],
    init_statements: str = "",
    listening: Listening | None = None,
) -> Path:
    """Write the option file of one start into the scratch folder.

    ``init_statements`` contain a secret: they go into a separate file that the server reads at
    its start and the caller removes.
    """
    context, supported = cluster.context, known_settings(cluster.installation)
    lines = {**settings, **SETTINGS.values}
    lines |= {n: value for n, value in SETTINGS.values_where_known.items() if n in supported}
    lines |= cluster.installation.folders() | cluster.locations(supported.__contains__)
    if binary_log_is_on(settings):
        lines |= cluster.binary_log_options()
    else:
        lines[BINARY_LOG] = ""
    if listening is not None:
        lines |= _encrypted(listening, supported)
    lines["socket"] = str(context.scratch / SOCKET)
    lines["pid_file"] = str(context.scratch / "server.pid")
    if init_statements:
        statements = init_file(context)
        write_text(statements, init_statements, context.credentials)
        lines["init_file"] = str(statements)
    configuration = context.scratch / "server.cnf"
    write_text(configuration, _render(lines), context.credentials)
    return configuration


def _encrypted(listening: Listening, supported: Collection[str]) -> dict[str, str]:
    """Settings of a server that listens: TLS only; the private socket counts as secure."""
    values = {
        "skip_networking": "OFF",
        "bind_address": listening.host,
        "port": str(listening.port),
        "ssl": "ON",
        "ssl_ca": str(listening.authority),
        "ssl_cert": str(listening.certificate),
        "ssl_key": str(listening.key),
        "require_secure_transport": "ON",
    }
    return {name: value for name, value in values.items() if name in supported}


def init_file(context: EngineContext) -> Path:
    """File in which the statements of a first start are written."""
    return context.scratch / "first_start.sql"


def check_settings(installation: Installation, settings: Mapping[str, str]) -> None:
    """UsageError for a setting that this server does not have or a value that it rejects.

    The server itself reads the settings (``--verbose --help``), so that each release is checked
    by its own rules; nothing is started. A value that the server would adjust is an error too:
    the run would not be the requested one.
    """
    names = {given: _plain(given).removeprefix(LOOSE) for given in settings}
    options = [_BY_OPTION[plain] for plain in names.values() if plain in _BY_OPTION]
    hint = "remove it; --placement decides where the parts are"
    if options:
        hint = f"use the engine option {', '.join(options)}"
    SETTINGS.refuse_fixed(installation.title, names, hint)
    supported = known_settings(installation)
    _check_redo_size(installation.title, settings, supported)
    settings = applied(settings, supported)
    for name in settings:
        # The server accepts abbreviations and dashes; runs are compared by exact names.
        if _plain(name) != name or name not in supported:
            raise UsageError(
                f"{installation.title}: setting {name}",
                f"no such setting{_instead(_plain(name), supported)}",
                f"see {installation.server.name} --verbose --help; write names with _",
            )
    if problems := _problems(installation, settings):
        context = "; ".join(problems)
        named = [name for name in settings if name in _plain(context)]
        valid = [text for name in named if (text := accepted(name, _reader(installation)))]
        raise UsageError(
            f"settings for {installation.title}",
            context,
            f"accepted: {'; '.join(valid)}"
            if valid
            else f"see {installation.server.name} --verbose --help",
        )


def binary_log_is_on(settings: Mapping[str, str]) -> bool:
    """Return whether ``log_bin`` is requested; by default, no server of a run has a binary log."""
    return same_value(settings.get(BINARY_LOG, "OFF"), "ON")


def _check_redo_size(title: str, settings: Mapping[str, str], supported: Collection[str]) -> None:
    """UsageError for the size of a redo file that the release would ignore.

    MySQL 8.0.30 to 8.4 have settings for each file and for the whole log, and ignore those for
    each file if both are given; the tuning profiles give the size of the whole log.
    """
    capacity = _REDO_SIZE[0]
    given = [name for name in _REDO_FILES if name in settings]
    if capacity in supported and given and {capacity, LOOSE + capacity} & set(settings):
        raise UsageError(
            f"{title}: setting {', '.join(given)}",
            f"this release ignores it in favour of {capacity}",
            f"set {capacity}, the size of the whole redo log",
        )


def _instead(name: str, supported: Collection[str]) -> str:
    """The name of the setting in this release, or the nearest known name."""
    renamed = next((n for n in _REDO_SIZE if n in supported), "")
    if name in (*_REDO_SIZE, *_REDO_FILES) and renamed:
        return f": this release has {renamed}"
    return nearest(name, list(supported))


def configured(installation: Installation, settings: Mapping[str, str], name: str) -> str:
    """The value that a setting has with ``settings`` and the server's defaults."""
    return settings.get(name) or _values(_read(installation, ()).stdout)[name]


def _problems(installation: Installation, settings: Mapping[str, str]) -> list[str]:
    """The server's errors and adjustments when it only reads the settings."""
    settings = dict(settings)
    binary_log = settings.pop(BINARY_LOG, "OFF")
    if not (same_value(binary_log, "ON") or same_value(binary_log, "OFF")):
        return [f"{BINARY_LOG}={binary_log} is neither ON nor OFF (its directory is that of wal)"]
    done = _read(installation, tuple(settings.items()))
    if errors := [m[1] for line in done.stderr.splitlines() if (m := _ERROR.match(line))]:
        return [text for text in errors if text != "Aborting" and not _FOLLOWS.match(text)]
    values = _values(done.stdout)
    if not values:
        return [done.stderr.strip() or f"exit status {done.returncode}"]
    return [
        f"{name}={requested} would be {values[name]}"
        for name, requested in settings.items()
        if requested and not same_value(requested, values[name])
    ]


def _reader(installation: Installation) -> ReadSettings:
    return lambda settings: _values(_read(installation, tuple(settings.items())).stdout)


@lru_cache(maxsize=512)  # every run of a plan is checked, and most have the same settings
def _read(
    installation: Installation, settings: tuple[tuple[str, str], ...]
) -> subprocess.CompletedProcess[str]:
    """The server reads the settings and prints the values of all it has; nothing is started."""
    folders = installation.folders()
    options = [f"--{name.replace('_', '-')}={value}" for name, value in folders.items()]
    return run_with_file(
        _render({**dict(settings), **folders, BINARY_LOG: ""}),
        lambda file: [
            *installation.command,
            f"--defaults-file={file}",
            *options,
            "--verbose",
            "--help",
        ],
    )


@lru_cache(maxsize=8)
def known_settings(installation: Installation) -> frozenset[str]:
    """Names of the settings that the server describes, written with ``_``."""
    return frozenset(_values(_read(installation, ()).stdout))


def read_server_file(
    flavour: Flavour, options: EngineOptions, engines_prefix: Path, file: str, text: str
) -> ServerFile:
    """Read a my.cnf of another server, for the release that would run."""
    installation = choose(flavour, options, engines_prefix)
    release = ".".join(map(str, installation.version_tuple[:2]))
    names = ["mysqld", *(["mariadb", "mariadbd"] if flavour == "mariadb" else [])]
    sections = ["server", *names, *(f"{name}-{release}" for name in names)]
    supported = known_settings(installation)
    return read_mysql(file, text, SETTINGS, installation.title, supported, sections)


def _values(described: str) -> dict[str, str]:
    head = _TABLE_HEAD.search(described)
    lines = described[head.end() :].splitlines() if head else []
    rows = (line.partition(" ") for line in lines if line[:1].isalpha() and " " in line)
    return {_plain(name): value.strip() for name, _, value in rows}


def _plain(name: str) -> str:
    return name.replace("-", "_").lower()


def _render(settings: Mapping[str, str]) -> str:
    """The option file; without a path for it, MySQL's binary log is turned off explicitly."""
    lines = ["[mysqld]\n"]
    for name, value in settings.items():
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        if name == BINARY_LOG and not value:
            lines.append(f"skip_{BINARY_LOG}\n")
        else:
            lines.append(f'{name} = "{escaped}"\n')
    return "".join(lines)


# The values of a setting -----------------------------------------------------------
#
# Their spellings, and those that a release accepts. The accepted values come from the server itself
# (``--verbose --help`` only reads settings), so that no table of releases is needed. Only the words
# to try are known in advance.

#: Servers round sizes (a buffer pool to whole chunks); a larger difference is an error.
_ROUNDING = 0.05
#: Smaller numbers are counts (threads, connections) and must be equal.
_LEAST_SIZE = 2**16
_TRUE, _FALSE = {"on", "true", "1", "yes"}, {"off", "false", "0", "no"}

#: Some settings → the values of all settings with them; empty if the server rejects one.
ReadSettings = Callable[[Mapping[str, str]], Mapping[str, str]]

#: Words that some release of MySQL or MariaDB accepts, by setting.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "binlog_format": ("ROW", "MIXED", "STATEMENT"),
    "innodb_doublewrite": ("ON", "OFF", "DETECT_AND_RECOVER", "DETECT_ONLY", "FAST"),
    "innodb_flush_method": (
        "fsync",
        "O_DSYNC",
        "O_DIRECT",
        "O_DIRECT_NO_FSYNC",
        "littlesync",
        "nosync",
    ),
}
_TRUTHS = {"true", "false", "on", "off"}
_LEAST, _MOST = "0", str(2**62)
#: A larger bound is the width of the number, not a limit of the server.
_NO_BOUND = 2.0**47


def same_value(requested: str, reported: str) -> bool:
    """Return whether two spellings mean the same value, up to the rounding of sizes."""
    value, other = requested.strip().casefold(), reported.strip().casefold()
    if value == other or value.rstrip("/") == other.rstrip("/"):
        return True
    if {value, other} <= _TRUE or {value, other} <= _FALSE:
        return True
    sizes = suffixed_number(requested), suffixed_number(reported)
    if sizes[0] is not None and sizes[1] is not None:
        rounded = _ROUNDING * sizes[0] if min(sizes[0], sizes[1]) >= _LEAST_SIZE else 0.0
        return abs(sizes[0] - sizes[1]) <= rounded
    # The server reports all of a set of switches or modes, the option file only some.
    return "," in other and set(value.split(",")) <= set(other.split(","))


def accepted(name: str, read: ReadSettings) -> str:
    """``innodb_write_io_threads from 1 to 64``; empty if it is not known."""
    default = read({}).get(name, "")
    if words := _WORDS.get(name):
        valid = [word for word in words if same_value(word, read({name: word}).get(name, ""))]
        return f"{name}: {', '.join(valid)}"
    if default.lower() in _TRUTHS:
        return f"{name}: ON, OFF"
    if suffixed_number(default) is None:
        return ""
    low, high = (read({name: value}).get(name, "") for value in (_LEAST, _MOST))
    if (suffixed_number(high) or _NO_BOUND) >= _NO_BOUND:
        return f"{name} from {low}" if low else ""
    return f"{name} from {low} to {high}"


# What a started server uses of it -------------------------------------------------
#
# A location that a release silently ignores would make every result of a placement wrong, and so
# would a setting that it silently changes. There are two sources: Linux, for the files that the
# process has open, and the server, for its variables.

_DELETED = " (deleted)"
#: memfd_create(2): no file of a file system.
_MEMORY = "/memfd:"
LOG_BUFFER = "innodb_log_buffer_size"
_DIRECT = {"O_DIRECT", "O_DIRECT_NO_FSYNC"}


@dataclass(frozen=True)
class OpenFile:
    """A file that a process has open; ``flags`` as in open(2)."""

    path: Path
    flags: int

    @property
    def writable(self) -> bool:
        """Return whether the process may write it."""
        return self.flags & os.O_ACCMODE != os.O_RDONLY

    @property
    def direct(self) -> bool:
        """Return whether its reads and writes bypass the page cache."""
        return bool(self.flags & os.O_DIRECT)


def open_files(pid: int) -> list[OpenFile]:
    """The files with a path that a process has open."""
    return list(_descriptors(pid))


def verify_locations(pid: int, cluster: Cluster, also: tuple[Path, ...] = ()) -> None:
    """RunFailed unless the server's open files are in the directories of the run or in ``also``.

    InnoDB keeps a file of every part open, so every part must show; and the server may write no
    file elsewhere.
    """
    files = open_files(pid)
    seen = {
        "data": any(f.path == cluster.data / "ibdata1" for f in files),
        "redo log": any(cluster.redo in f.path.parents for f in files)
        or redo_is_mapped(pid, cluster),
        "temporary tablespaces": any(
            cluster.temporary_tablespaces in f.path.parents for f in files
        ),
        "temporary files": any(cluster.tmp in f.path.parents for f in files),
    }
    if missing := [part for part, present in seen.items() if not present]:
        raise RunFailed(
            f"{cluster.title}: {', '.join(missing)} not in the directory of the placement",
            f"the server has no file open there; it has {_listed(files)}",
            "this release ignores the option for the location: use another release",
        )
    allowed = (*cluster.directories(), cluster.doublewrite, *also, Path("/dev"), Path("/proc"))
    strays = [f for f in files if f.writable and not any(f.path.is_relative_to(a) for a in allowed)]
    if strays:
        raise RunFailed(
            f"{cluster.title}: files outside the directories of the placement",
            f"the server may write {_listed(strays)}",
            "remove the setting that puts them there",
        )


def redo_is_mapped(pid: int, cluster: Cluster) -> bool:
    """Return whether the redo log is mapped into memory, as MariaDB does on a DAX file system."""
    return any(cluster.redo in path.parents for path in _shared_mappings(pid))


def verify_variables(
    pid: int, variables: Mapping[str, str], cluster: Cluster, settings: Mapping[str, str]
) -> None:
    """RunFailed if a variable of the server differs from its option file."""
    requested = dict(settings) | cluster.locations(variables.__contains__)
    if redo_is_mapped(pid, cluster):
        requested.pop(LOG_BUFFER, None)  # there is none: the variable is the log's size
    for name, value in requested.items():
        reported = variables.get(name)
        if reported is not None and not same_value(value, reported):
            raise RunFailed(
                f"{cluster.title} with {name}={value}",
                f"the server has {reported}",
                "set a value that it does not adjust",
            )
    binary_log = variables.get("log_bin_basename", "")
    if binary_log and Path(binary_log).parent != cluster.binary_log:
        raise RunFailed(
            f"the binary log of {cluster.title} in {cluster.binary_log}",
            f"the server has it in {Path(binary_log).parent}",
            "remove log_bin, or use another release",
        )
    if variables.get("innodb_flush_method", "").upper() in _DIRECT:
        _verify_direct(pid, cluster)


def _verify_direct(pid: int, cluster: Cluster) -> None:
    """RunFailed if O_DIRECT was refused: InnoDB then only warns and uses the page cache.

    A tmpfs may refuse it (Linux before 6.6), but its data are only in the page cache, so nothing
    is cached twice.
    """
    if in_memory(cluster.data.parent):
        return
    for file in open_files(pid):
        if file.path == cluster.data / "ibdata1" and not file.direct:
            raise RunFailed(
                f"{cluster.title} with innodb_flush_method=O_DIRECT",
                f"the file system of {cluster.data} does not support O_DIRECT: reads and writes "
                "would go through the page cache",
                "use --set innodb_flush_method=fsync for every placement of the comparison",
            )


def _descriptors(pid: int) -> Iterator[OpenFile]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
            info = Path(f"/proc/{pid}/fdinfo/{descriptor.name}").read_text()
        except OSError:
            continue  # closed in the meantime
        if target.startswith("/") and not target.startswith(_MEMORY):
            flags = next(line.split()[1] for line in info.splitlines() if line[:6] == "flags:")
            yield OpenFile(Path(target.removesuffix(_DELETED)), int(flags, 8))


def _shared_mappings(pid: int) -> Iterator[Path]:
    """Files with shared mappings; MariaDB closes a mapped redo log's descriptor."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        _, modes, _, _, _, *path = line.split(maxsplit=5)
        if path and modes.endswith("s") and path[0].startswith("/"):
            yield Path(path[0])


def _listed(files: list[OpenFile]) -> str:
    names = sorted({str(f.path) for f in files if f.writable})
    return ", ".join(names[:6]) + (" …" if len(names) > 6 else "")
