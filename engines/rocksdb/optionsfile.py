"""RocksDB's OPTIONS files: the options of a database, in sections of ``name=value`` lines.

RocksDB writes one into the database directory at every opening. A run may name a user's own file;
its paths belong to another database and are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError

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
