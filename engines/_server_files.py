"""Settings of another server's file, a my.cnf or postgresql.conf, as those of a run.

What names that server's files, addresses, users or peers is left out, each with a line that says
so. Names are checked here, by line; values by the server that would run, as all settings are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engines._settings import LOOSE, SettingTable
from harness.engine import ServerFile
from harness.errors import UsageError, nearest
from harness.units import suffixed_number

_POSTGRES_LINE = re.compile(
    r"(?P<name>[A-Za-z_][\w.$]*)\s*(?:=\s*|\s+)(?P<value>'(?:[^'\\]|''|\\.)*'|[^\s#'=]+)\s*(?:#.*)?"
)
_POSTGRES_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_SECTION = re.compile(r"\[(?P<name>[^\]]+)\]\s*(?:#.*)?")
_INCLUDE = re.compile(r"!include(?:dir)?\b")
_MYSQL_LINE = re.compile(r"(?P<name>[A-Za-z][\w.-]*)\s*(?P<given>=\s*(?P<value>.*))?")
_QUOTED = re.compile(r"(?P<quote>[\"'])(?P<text>.*)(?P=quote)\s*(?:#.*)?")
_MYSQL_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "s": " ", "\\": "\\"}
#: Before the name of a switch, with the value that it then has.
_SWITCHES = {"skip_": "OFF", "disable_": "OFF", "enable_": "ON"}
#: The size of MySQL's redo log, and those of which it was computed before.
_REDO_CAPACITY = "innodb_redo_log_capacity"
_REDO_FILES = ("innodb_log_file_size", "innodb_log_files_in_group")
_INCLUDED = "its settings are not read: name that file with another --set-file"
_ELSEWHERE = "it names files, addresses, users or peers of the other server"


@dataclass(frozen=True)
class FileLine:
    """A line that sets something; ``where``: ``my.cnf, line 7``. ``value``: None for a switch."""

    where: str
    name: str
    value: str | None


@dataclass
class _Taken:
    """What is taken of a file, and what is said of the rest."""

    table: SettingTable
    values: dict[str, str]
    notes: list[str]

    def leave_out(self, line: FileLine, why: str) -> None:
        self.notes.append(f"{line.where}: {line.name} is left out: {why}")

    def take(
        self,
        line: FileLine,
        name: str,
        value: str,
        title: str,
        supported: Collection[str],
        has: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Take a setting by its plain name; UsageError for one that the release does not have."""
        if name.lower() in self.table.fixed:
            self.leave_out(line, "the harness itself decides it")
        elif self.table.is_secret(name, value):
            self.leave_out(line, "it may be a secret, or belongs to TLS")
        elif value.startswith(("/", "./")) or self.table.is_of_server(name):
            self.leave_out(line, _ELSEWHERE)
        elif name not in supported and not has(name):
            raise UsageError(
                f"{line.where}: {line.name}",
                f"{title} has no such setting{nearest(name, list(supported))}",
                "choose the release that the file is for (--option version=…), or remove the line "
                "from a copy",
            )
        else:
            self.values[name] = value


def read_postgres(
    file: str,
    text: str,
    table: SettingTable,
    title: str,
    supported: Sequence[str],
    has: Callable[[str], bool],
) -> ServerFile:
    """Read a postgresql.conf; ``supported``: settings that the release describes."""
    taken = _Taken(table, {}, [])
    spelled = {name.lower(): name for name in supported}
    for number, content in enumerate(text.splitlines(), 1):
        if not (stripped := content.strip()) or stripped.startswith("#"):
            continue
        match = _POSTGRES_LINE.fullmatch(stripped)
        if match is None:
            raise _unreadable(f"{file}, line {number}", stripped)
        name, value = match["name"].lower(), match["value"]
        if value.startswith("'"):
            value = _unescaped(value[1:-1].replace("''", "'"), _POSTGRES_ESCAPES)
        line = FileLine(f"{file}, line {number}", match["name"], value)
        if name in ("include", "include_if_exists", "include_dir"):
            taken.leave_out(line, _INCLUDED)
        elif "." in name:  # of an extension, whose library decides what it knows
            taken.values[name] = value
        else:
            taken.take(line, spelled.get(name, name), value, title, supported, has)
    return ServerFile(taken.values, tuple(taken.notes))


def read_mysql(
    file: str,
    text: str,
    table: SettingTable,
    title: str,
    supported: Collection[str],
    sections: Collection[str],
) -> ServerFile:
    """Read a my.cnf; ``sections``: those that the server reads."""
    taken = _Taken(table, {}, [])
    for line in _mysql_lines(file, text, sections, taken.notes.append):
        name = line.name.replace("-", "_").lower()
        value = "ON" if line.value is None else line.value
        if name.startswith(LOOSE):
            name = name.removeprefix(LOOSE)
            if name not in supported and name not in table.fixed:
                taken.leave_out(line, f"{title} has no such setting")
                continue
        if name not in supported and name not in table.fixed and line.value is None:
            for prefix, meaning in _SWITCHES.items():
                if name.startswith(prefix) and name.removeprefix(prefix) in supported:
                    name, value = name.removeprefix(prefix), meaning
        if name == "log_bin" and value.upper() not in ("ON", "OFF", "0", "1", "TRUE", "FALSE"):
            taken.notes.append(f"{line.where}: {line.name} is taken as ON: --placement places it")
            value = "ON"
        whole = name in _REDO_FILES and _REDO_CAPACITY in supported
        taken.take(line, name, value, title, [*supported, name] if whole else supported)
    _whole_redo_log(file, taken, supported)
    return ServerFile(taken.values, tuple(taken.notes))


def _mysql_lines(
    file: str, text: str, sections: Collection[str], note: Callable[[str], None]
) -> Iterator[FileLine]:
    """Yield the lines of the server's sections."""
    section: str | None = None
    for number, content in enumerate(text.splitlines(), 1):
        where, stripped = f"{file}, line {number}", content.strip()
        if not stripped or stripped[0] in "#;":
            continue
        if match := _SECTION.fullmatch(stripped):
            section = match["name"].strip()
            if section not in sections:
                note(f"{where}: [{section}] is left out: {_of_section(section)}")
        elif match := _INCLUDE.match(stripped):
            note(f"{where}: {match[0]} is left out: {_INCLUDED}")
        elif section is None:
            raise UsageError(
                f"{where}: {stripped[:80]}", "a line before any [section]", "remove it"
            )
        elif section in sections:
            if not (match := _MYSQL_LINE.fullmatch(stripped.partition("#")[0].strip())):
                raise _unreadable(where, stripped)
            whole = _MYSQL_LINE.fullmatch(stripped)
            value = match["value"]
            if whole and whole["value"] and (quoted := _QUOTED.fullmatch(whole["value"])):
                value = quoted["text"]
            if value is not None:
                value = _unescaped(value, _MYSQL_ESCAPES)
            yield FileLine(where, match["name"], value)


def _of_section(section: str) -> str:
    if section == "mysqld_safe":
        return "the server does not read it; its malloc-lib is --env LD_PRELOAD=… here"
    return "this server does not read it"


def _whole_redo_log(file: str, taken: _Taken, supported: Collection[str]) -> None:
    """Give the size of the redo log as the release takes it, as it would itself.

    MySQL from 8.0.30 on computes it of the sizes by file if it is not given.
    """
    capacity, (each, count) = _REDO_CAPACITY, _REDO_FILES
    if capacity not in supported or (each not in taken.values and count not in taken.values):
        return
    files = [taken.values.pop(name, default) for name, default in ((each, "48M"), (count, "2"))]
    numbers = [suffixed_number(text) for text in files]
    if capacity in taken.values or None in numbers:
        return
    size = 1.0
    for value in numbers:
        size *= value or 1
    taken.values[capacity] = f"{size:.0f}"
    taken.notes.append(f"{file}: {each} times {count} is taken as {capacity}={size:.0f}")


def _unescaped(text: str, escapes: Mapping[str, str]) -> str:
    return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[1]), text)


def _unreadable(where: str, content: str) -> UsageError:
    return UsageError(
        f"{where}: {content[:80]}", "not of the form name = value", "correct the line"
    )
