"""RocksDB's OPTIONS files: what a database runs with, in sections of ``name=value`` lines.

Each database directory has one, written at every opening. A user's own may be named for a
run. Paths in it are those of another database and are not taken over.
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
    """``rocksdb_version`` of who wrote it (empty: not told), and its options by section.

    ``lines``: where each option stands.
    """

    rocksdb_version: str
    sections: Mapping[str, Mapping[str, str]]
    lines: Mapping[str, int]

    def options(self) -> dict[str, str]:
        """All of them; no name stands in two sections."""
        return {name: value for part in self.sections.values() for name, value in part.items()}


def read_options_file(path: Path) -> OptionsFile:
    """UsageError where it cannot be read, or is not such a file of one column family."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"RocksDB options file {path}", str(error), "name a readable one"
        ) from error
    return parse_options(text, str(path))


def parse_options(text: str, where: str) -> OptionsFile:
    """The file's text; UsageError names ``where`` and line."""
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
                raise _not_one(f"{where}:{number}", f"{line!r} is no option of a section")
            sections[section][name.strip()] = value.strip()
            lines[name.strip()] = number
    version = sections.pop("Version")
    if "rocksdb_version" not in version and not any(sections.values()):
        raise _not_one(where, "it has no options")
    return OptionsFile(version.get("rocksdb_version", ""), sections, lines)


def _section(line: str, where: str) -> str:
    name, _, argument = line.strip("[] ").partition(" ")
    family = argument.strip('" ')
    if name not in (*_SECTIONS, *_OTHERS):
        raise _not_one(where, f"there is no section {line}")
    if family not in ("", _DEFAULT_FAMILY):
        raise UsageError(
            where,
            f"a column family {family!r}: the data are in the default one alone",
            "take its sections out of the file",
        )
    return name


def _not_one(where: str, found: str) -> UsageError:
    return UsageError(where, found, "name a file as RocksDB writes it: OPTIONS-000007, say")
