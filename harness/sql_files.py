r"""The SQL files of an engine's folder: ``sql/<workload>/NN_<what>.sql``.

Includes and templates are for these files, which are the project's own: nothing of a user's text is
ever interpreted by them, since the harness may read files as root that the owner of the text
cannot. So the statements of a user's schema are a list, ``NN_<what>.json``.

Statements that several engines share are in ``engines/_sql/<workload>/``. An engine's file
includes one as psql does, on a line of its own, relative to the file::

    \ir ../../../_sql/tpch/20_keys.sql

Statements that depend on the workload's parameters are a template, ``NN_<what>.sql.j2``.
``calls/`` has a file for each operation of a workload that the native client runs.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness import jsonfile
from harness.sql_script import split
from harness.store.spec import JsonObject

if TYPE_CHECKING:  # most commands need none
    from jinja2 import Environment


_INCLUDE = re.compile(r"^\\ir (?P<path>\S+)[ \t]*\n", re.MULTILINE)
_CREATED = re.compile(r"^create (?P<kind>table|function|procedure) (?P<name>\w+)", re.M | re.I)


def text_of(file: Path) -> str:
    """The file with its included files; only for files of the project itself."""
    text = file.read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda line: text_of(file.parent / line["path"]), text)


def statements(
    folder: Path, stem: str, params: JsonObject | None = None, *, backslash: bool = False
) -> list[str]:
    """The statements of ``<stem>.sql`` without comments; empty if there is no such file.

    ``<stem>.sql.j2`` is rendered with ``params``. ``backslash``: see harness.sql_script.
    ``<stem>.json`` has a user's statements, which are returned as they are.
    """
    if (listed := folder / f"{stem}.json").exists():
        texts: list[str] = jsonfile.read(listed)
        return texts
    for path in (folder / f"{stem}.sql", folder / f"{stem}.sql.j2"):
        if path.exists():
            return split(_rendered(path, params or {}), backslash)
    return []


def created(folder: Path) -> dict[str, set[str]]:
    """Names of the objects that a workload's files create, by kind: table, function, procedure."""
    names: dict[str, set[str]] = {"table": set(), "function": set(), "procedure": set()}
    for path in (*folder.glob("10_tables.sql*"), *folder.glob("procedures/*.sql")):
        for match in _CREATED.finditer(text_of(path)):
            names[match["kind"].lower()].add(match["name"].lower())
    return names


def calls(folder: Path, params: JsonObject) -> dict[str, str | list[str]]:
    """The files of ``folder/calls``, by operation.

    A file whose statements end with a semicolon has one statement per field of the record.
    """
    statements: dict[str, str | list[str]] = {}
    for path in sorted((folder / "calls").iterdir()) if (folder / "calls").is_dir() else ():
        text = _rendered(path, params).strip()
        name = path.name.partition(".")[0]
        statements[name] = split(text, backslash=False) if text.endswith(";") else text
    return statements


def _rendered(file: Path, params: JsonObject) -> str:
    text = text_of(file)
    return _templates().from_string(text).render(**params) if file.suffix == ".j2" else text


@cache
def _templates() -> Environment:
    from jinja2 import Environment, StrictUndefined

    return Environment(undefined=StrictUndefined, trim_blocks=True)
