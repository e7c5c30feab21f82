"""Selection of the MySQL or MariaDB to run: the machine's own, or one of the private prefix.

The two are distinguished by the output of ``--version``, not by the name of a file: MariaDB's
server may be called ``mysqld``. Only the binaries of an installed service are used, on
directories of the run.

An installation of the private prefix may contain libraries, even its own C library: it is then
started through its own dynamic linker, and the machine's libraries are not used.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal

from engines._installation import first_fitting, output_of
from harness.engine import EngineOptions, EngineVersion
from harness.errors import UsageError
from harness.install import installed, linker

Flavour = Literal["mysql", "mariadb"]
TITLES: Mapping[Flavour, str] = {"mysql": "MySQL", "mariadb": "MariaDB"}
_NAMES = ("mariadbd", "mysqld")
_FOLDERS = ("bin", "sbin", "libexec", "usr/sbin", "usr/bin", "usr/libexec")
#: Folders of distributions and vendors, below /.
_MACHINE = (
    "usr/sbin",
    "usr/libexec",
    "usr/bin",
    "usr/local/mysql*/bin",
    "usr/local/mariadb*/bin",
    "usr/local/bin",
    "usr/local/sbin",
    "opt/mysql*/bin",
    "opt/mysql/*/bin",
    "opt/mariadb*/bin",
)
_VERSION = re.compile(r"Ver (\d+(?:\.\d+)+)")


@dataclass(frozen=True)
class Installation(EngineVersion):
    """One server binary and what belongs to it.

    ``command``: starts the server, including the dynamic linker. ``base``: the folder that
    contains ``share`` and ``lib``.
    """

    server: Path
    command: tuple[str, ...]
    base: Path

    @property
    def flavour(self) -> Flavour:
        return "mariadb" if self.name == "mariadb" else "mysql"

    @property
    def title(self) -> str:
        return f"{TITLES[self.flavour]} {self.version}"

    def folders(self) -> dict[str, str]:
        """Options for its folders: compiled-in paths are wrong in a private prefix."""
        options = {"basedir": str(self.base)}
        if messages := self.share("english/errmsg.sys"):
            options["lc_messages_dir"] = str(messages.parent.parent)
        if characters := self.share("charsets/Index.xml"):
            options["character_sets_dir"] = str(characters.parent)
        for folder in ("lib/mysql/plugin", "lib64/mysql/plugin", "lib/plugin", "lib64/plugin"):
            if (self.base / folder).is_dir():
                options["plugin_dir"] = str(self.base / folder)
                break
        return options

    def share(self, name: str) -> Path | None:
        """A file of its ``share`` folder; None if it has none of that name."""
        for folder in ("share", "share/mysql", "share/mariadb"):
            if (path := self.base / folder / name).is_file():
                return path
        return next(self.base.glob(f"share/mysql-*/{name}"), None)


def choose(flavour: Flavour, options: EngineOptions, engines_prefix: Path) -> Installation:
    """The installation that the engine options select; UsageError if there is none.

    Order: ``prefix``; the newest of the machine's own; the private prefix. With
    ``version`` (``9``, ``8.0`` or a full release), the first in that order that matches.
    """
    return first_fitting(
        TITLES[flavour],
        (i for i in _machine() if i.flavour == flavour),
        _private(flavour, engines_prefix),
        options,
        install=f"run `harness engines install {flavour}`",
        of_prefix=partial(_of_prefix, flavour),
    )


def _of_prefix(flavour: Flavour, prefix: Path) -> Installation:
    installations = _below(prefix, str(prefix))
    for installation in installations:
        if installation.flavour == flavour:
            return installation
    others = "; ".join(f"{i.server} is {i.title}" for i in installations)
    raise UsageError(
        f"{TITLES[flavour]} under {prefix}",
        others or f"no working {' or '.join(_NAMES)} in {', '.join(('.', *_FOLDERS))}",
        "name the folder that contains bin/mysqld"
        + (f", or use --engine {installations[0].flavour}" if installations else ""),
    )


def _below(prefix: Path, source: str) -> list[Installation]:
    installations: list[Installation] = []
    for folder in (prefix, *(prefix / name for name in _FOLDERS)):
        installations.extend(_inspected(folder, prefix, source))
    return installations


def _inspected(folder: Path, prefix: Path | None, source: str) -> Iterator[Installation]:
    seen: set[Path] = set()
    for name in _NAMES:
        server = folder / name
        if not server.is_file() or (real := server.resolve()) in seen:
            continue
        seen.add(real)
        if installation := _inspect(real, prefix, source):
            yield installation


def _machine() -> Iterator[Installation]:
    seen: set[Path] = set()
    for folder in _machine_folders():
        for installation in _inspected(folder, None, str(folder)):
            if installation.server not in seen:
                seen.add(installation.server)
                yield installation


def _machine_folders() -> Iterator[Path]:
    for name in _NAMES:
        if (program := shutil.which(name)) is not None:
            yield Path(program).resolve().parent
    for pattern in _MACHINE:
        yield from sorted(Path("/").glob(pattern))


def _private(flavour: Flavour, engines_prefix: Path) -> Iterator[Installation]:
    for package in installed(flavour, engines_prefix):
        for installation in _below(package.folder, package.source):
            if installation.flavour == flavour:
                # Libraries that differ from the pinned ones make it another build.
                libraries = f" with {', '.join(package.moved_on)}" if package.moved_on else ""
                yield replace(installation, build=installation.build + libraries)


@lru_cache(maxsize=64)
def _inspect(server: Path, prefix: Path | None, source: str) -> Installation | None:
    command = (*(linker(prefix) if prefix else ()), str(server))
    banner = output_of(*command, "--no-defaults", "--version").replace(str(server), server.name)
    match = _VERSION.search(banner)
    if match is None:
        return None
    flavour: Flavour = "mariadb" if "MariaDB" in banner else "mysql"
    base = server.parent.parent
    return Installation(flavour, match.group(1), banner, source, server, command, base)
