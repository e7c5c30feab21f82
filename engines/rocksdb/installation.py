"""Selection of the RocksDB to run: the pinned one of the private prefix, or the machine's own.

The pinned one comes first: with it, clients in C and in Java run the same library; Debian's has no
Java classes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

from engines._installation import first_fitting
from engines.rocksdb import probe
from harness import jsonfile
from harness.engine import EngineOptions, EngineVersion
from harness.errors import RunFailed, UsageError
from harness.install import installed
from harness.supervise import programs, workdirs
from harness.supervise.credentials import unprivileged

_TIMEOUT_S = 120
_DIGITS = 16
_NAMES = ("librocksdb.so", "librocksdb.so.*", "librocksdbjni-linux*.so", "librocksdbjni.so")
_FOLDERS = (".", "lib", "lib64", "lib/*-linux-gnu", "usr/lib/*-linux-gnu", "usr/lib64")
#: Prefixes of distributions and `make install`.
_MACHINE = ("/usr", "/usr/local")
_JAVA = "org/rocksdb/RocksDB.class"
_RELEASE = re.compile(r"RocksDB version: (\d+(?:\.\d+)*)")
_ROW_CACHE = re.compile(r"Options\.row_cache: (\d+|None)")
_FACTS = (re.compile(r"Git sha (\S+)"), re.compile(r"Compile date (.+)"))


@dataclass(frozen=True)
class Installation(EngineVersion):
    """``library``: the shared library. ``classes``: folder of its Java classes, if there is one."""

    product = "RocksDB"
    library: Path
    classes: Path | None


@dataclass(frozen=True)
class OpeningResult:
    """Result of opening an empty database with some options.

    ``error``: the library's message if it failed; ``options``: as the library uses them, without
    the caches; None: it wrote none.
    """

    error: str
    log: str
    options: OptionsFile | None
    block_cache_bytes: int | None = None

    @property
    def row_cache_bytes(self) -> int | None:
        return row_cache_of(self.log)


def choose(options: EngineOptions, engines_prefix: Path) -> Installation:
    """The installation that the engine options select; UsageError if there is none.

    Order: ``prefix``; the private prefix; the machine's own. With ``version`` (a major or a
    full release), the first in that order that matches.
    """
    return first_fitting(
        "RocksDB",
        (),
        chain(_private(engines_prefix), _machine()),
        options,
        install="run `harness engines install rocksdb`",
        of_prefix=_of_prefix,
    )


def ask(library: Path, options: str = "", row_cache_bytes: int = 0) -> OpeningResult:
    """Open a database with the library (see probe.py); results are cached."""
    status = library.stat()
    return _ask(library, options, row_cache_bytes, status.st_mtime_ns)


def row_cache_of(log: str) -> int | None:
    """Size in bytes of a database's row cache, from its info log.

    0: it had none; None: the log does not contain it.
    """
    match = _ROW_CACHE.search(log)
    return None if match is None else 0 if match[1] == "None" else int(match[1])


def _of_prefix(prefix: Path) -> Installation:
    installation, error = None, ""
    for library in _libraries(prefix):
        installation = installation or _inspect(library, str(prefix))
        error = error or ask(library).error
    if installation is not None:
        return installation
    raise UsageError(
        f"RocksDB under {prefix}",
        error or f"no {' or '.join(_NAMES)} in {', '.join(_FOLDERS)}",
        "name the folder that contains lib/librocksdb.so, built as a shared library",
    )


def _private(engines_prefix: Path) -> Iterator[Installation]:
    for package in installed("rocksdb", engines_prefix):
        for library in _libraries(package.folder):
            if installation := _inspect(library, package.source):
                yield installation


def _machine() -> Iterator[Installation]:
    seen: set[Path] = set()
    for prefix in _MACHINE:
        for library in _libraries(Path(prefix)):
            if library not in seen and (installation := _inspect(library, str(library))):
                seen.add(library)
                yield installation


def _libraries(prefix: Path) -> Iterator[Path]:
    """Libraries below the prefix, links resolved, each once."""
    seen: dict[Path, None] = {}
    for folder in _FOLDERS:
        for name in _NAMES:
            for path in sorted(prefix.glob(f"{folder}/{name}")):
                seen[path.resolve()] = None
    yield from seen


def _inspect(library: Path, source: str) -> Installation | None:
    answer = ask(library)
    release = _RELEASE.search(answer.log)
    if release is None or answer.error:
        return None
    facts = [match.group(1).strip() for fact in _FACTS if (match := fact.search(answer.log))]
    banner = " ".join([release.group(1), *facts, _digest(library, library.stat().st_mtime_ns)])
    classes = library.parent if (library.parent / _JAVA).is_file() else None
    return Installation("rocksdb", release.group(1), banner, source, library, classes)


@lru_cache(maxsize=16)
def _digest(library: Path, _changed_ns: int) -> str:
    """Start of its SHA-256: builds of one release differ in compilers and flags."""
    with library.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()[:_DIGITS]}"


@lru_cache(maxsize=256)
def _ask(library: Path, options: str, row_cache_bytes: int, _changed_ns: int) -> OpeningResult:
    user = unprivileged()
    request = {
        "library": str(library),
        "options": options,
        "row_cache_bytes": row_cache_bytes,
        "user": [user.uid, user.gid] if user and os.geteuid() == 0 else None,
    }
    with workdirs.temporary(credentials=user) as folder:
        code, out, err = _probed(library, json.dumps({**request, "folder": str(folder)}))
    if code != 0:
        last = err.strip().splitlines()[-1:] or [f"exit status {code}"]
        return OpeningResult(f"the process that loaded it failed: {last[0]}", "", None)
    answer = jsonfile.parse(out)
    text = answer["options_file"]
    return OpeningResult(
        answer["error"].strip(),
        answer["log"],
        parse_options(text, f"OPTIONS of {library}") if text else None,
        answer["block_cache_bytes"],
    )


def _probed(library: Path, request: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of the probe, whose end an interrupted harness awaits."""
    command = [sys.executable, "-X", "utf8", "-I", "-S", probe.__file__]
    try:
        done = programs.run(command, stdin=request, timeout_s=_TIMEOUT_S, foreign=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunFailed(f"probe {library}", str(error)) from error
    return done.returncode, done.stdout, done.stderr


# OPTIONS files ---------------------------------------------------------------------
#
# The options of a database, in sections of ``name=value`` lines. RocksDB writes one into the
# database directory at every opening. A run may name a user's own file; its paths belong to
# another database and are ignored.

DB, FAMILY, TABLE = "DBOptions", "CFOptions", "TableOptions/BlockBasedTable"
_SECTIONS = (DB, FAMILY, TABLE)
_OTHERS = ("Version",)
_DEFAULT_FAMILY = "default"


@dataclass(frozen=True)
class OptionsFile:
    """Options by section. ``lines``: line number of each option.

    ``release``: of the RocksDB that wrote the file; empty if it names none.
    """

    sections: Mapping[str, Mapping[str, str]]
    lines: Mapping[str, int]
    release: str = ""

    def options(self) -> dict[str, str]:
        """All options; no name is in two sections."""
        return {name: value for part in self.sections.values() for name, value in part.items()}


def read_options_file(path: Path) -> OptionsFile:
    """UsageError if it cannot be read or is not an OPTIONS file of one column family."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"RocksDB options file {path}", str(error), "name a readable one"
        ) from error
    return parse_options(text, str(path))


def parse_options(text: str, where: str) -> OptionsFile:
    """Parse a file's text; UsageError names ``where`` and line."""
    sections: dict[str, dict[str, str]] = {name: {} for name in (*_SECTIONS, *_OTHERS)}
    lines: dict[str, int] = {}
    section = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].strip()
        if line.startswith("["):
            section = _section(line, f"{where}:{number}")
        elif line:
            name, equals, value = line.partition("=")
            if not section or not equals:
                raise _invalid(f"{where}:{number}", f"{line!r} is not an option of a section")
            sections[section][name.strip()] = value.strip()
            lines[name.strip()] = number
    version = sections.pop("Version")
    if "rocksdb_version" not in version and not any(sections.values()):
        raise _invalid(where, "it has no options")
    return OptionsFile(sections, lines, version.get("rocksdb_version", ""))


def _section(line: str, where: str) -> str:
    name, _, argument = line.strip("[] ").partition(" ")
    family = argument.strip('" ')
    if name not in (*_SECTIONS, *_OTHERS):
        raise _invalid(where, f"unknown section {line}")
    if family not in ("", _DEFAULT_FAMILY):
        raise UsageError(
            where,
            f"column family {family!r}: only the default one contains data",
            "remove its sections from the file",
        )
    return name


def _invalid(where: str, context: str) -> UsageError:
    return UsageError(where, context, "name a file that RocksDB wrote, such as OPTIONS-000007")
