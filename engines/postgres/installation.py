"""Selection of the PostgreSQL to run: the machine's own, or one of the private prefix.

An installation is a folder that contains ``postgres`` and ``initdb``. Only the binaries of an
installed service are used, on directories of the run.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engines._installation import first_fitting, output_of
from harness.engine import EngineOptions, EngineVersion
from harness.errors import UsageError
from harness.install import installed

NEEDED = ("postgres", "initdb")
#: Of "18.4 (Debian 18.4-1.pgdg13+1)", "17.5 - Percona Server …", "19beta1".
_VERSION = re.compile(r"\(PostgreSQL\) (\d+(?:\.\d+)*(?:(?:alpha|beta|rc)\d+|devel)?)")


@dataclass(frozen=True)
class Installation(EngineVersion):
    """Binaries of one PostgreSQL, in the folder ``bin``."""

    product = "PostgreSQL"
    bin: Path


def choose(options: EngineOptions, engines_prefix: Path) -> Installation:
    """The installation that the engine options select; UsageError if there is none.

    Order: ``prefix``; the newest of the machine's own; the private prefix. With
    ``version`` (a major or full release), the first in that order that matches.
    """
    return first_fitting(
        "PostgreSQL",
        _machine(),
        _private(engines_prefix),
        options,
        install="run `make setup`",
        of_prefix=_of_prefix,
    )


def _of_prefix(prefix: Path) -> Installation:
    for folder in (prefix, prefix / "bin"):
        if installation := _inspect(folder, str(prefix)):
            return installation
    raise UsageError(
        f"PostgreSQL under {prefix}",
        f"not an installation: it lacks some of {', '.join(NEEDED)}",
        "name the folder that contains bin/postgres",
    )


def _machine() -> Iterator[Installation]:
    seen: set[Path] = set()
    for folder in _machine_folders():
        real = folder.resolve()
        if real not in seen and (installation := _inspect(real, str(real))):
            seen.add(real)
            yield installation


def _machine_folders() -> Iterator[Path]:
    """Folders to search; links (such as /usr/local/bin/postgres) are followed."""
    for pattern in ("lib/postgresql/*/bin", "pgsql-*/bin", "pgsql/bin", "local/pgsql/bin"):
        yield from Path("/usr").glob(pattern)
    if (config := shutil.which("pg_config")) is not None:
        yield Path(output_of(config, "--bindir"))
    if (server := shutil.which("postgres")) is not None:
        yield Path(server).resolve().parent


def _private(engines_prefix: Path) -> Iterator[Installation]:
    for package in installed("postgres", engines_prefix):
        for program in sorted(package.folder.rglob("bin/postgres")):
            if installation := _inspect(program.parent, package.source):
                yield installation


@lru_cache(maxsize=64)
def _inspect(folder: Path, source: str) -> Installation | None:
    if not all((folder / name).is_file() for name in NEEDED):
        return None
    banner = output_of(str(folder / "postgres"), "--version")
    match = _VERSION.search(banner)
    return Installation("postgres", match.group(1), banner, source, folder) if match else None
