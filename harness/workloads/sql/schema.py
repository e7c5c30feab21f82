"""What the statements of ``tables.sql`` are: the tables, and what is executed when.

Statements are read as the engine reads them (harness.sql_script), so all of this depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.engine import Engine
from harness.errors import UsageError, nearest
from harness.sql_script import (
    ScriptStatement,
    TableColumn,
    What,
    columns_of,
    dumped,
    head,
    lines_of,
    tables_of,
)
from harness.workloads.sql.folder import DUMP, LOAD, TABLES, LoadFile, SqlFolder

_DEFINED, _INSERTED, _FINAL = "10_tables", "15_rows", "45_final"
#: When a statement is executed, whatever its place in the script.
_STAGES: Mapping[What, str] = {
    "table": _DEFINED,
    "drop": _DEFINED,
    "definition": _DEFINED,
    "rows": _INSERTED,
    "key": "20_keys",
    "index": "30_indexes",
    "attachment": "35_attachments",
    "foreign key": "40_foreign_keys",
    "final": _FINAL,
}
#: Of one file of several: ``orders.1``, and dsdgen's ``orders_1_4``.
_NUMBER = re.compile(r"(?:\.\d+|_\d+_\d+)$")
#: What changes the columns of a table.
_ALTERS = re.compile(
    r"alter\s+table\b.*\b(?:add|drop|rename|change)\s+(?!constraint|primary|unique|foreign|check"
    r"|exclude|index|key|fulltext|spatial|generated|default|not|identity|expression)",
    re.I | re.S,
)
#: What may add rows without being INSERT: a function, a table of the rows of a query.
_FILLS = re.compile(r"select\b|do\b|create\b.*\btable\b.*\bas\b.*\bselect\b", re.I | re.S)
#: Rows of another table or query, as they are when it is created.
_MATERIALIZED = re.compile(
    r"create\s+materialized\s+view\s+(?:if\s+not\s+exists\s+)?(?P<name>(?:\"[^\"]*\"|[\w$.])+)",
    re.I,
)
_QUOTES = re.compile(r"[\"`]")
_SEARCH_PATH = re.compile(
    r"set\s+(?:session\s+|local\s+)?search_path\s*(?:=|to)(?P<names>.*)", re.I
)
#: Schemas in which a query finds a table by its name alone.
_USUAL_SCHEMAS = frozenset({"public", "pg_catalog", "$user", "default", ""})


@dataclass(frozen=True)
class Schema:
    """Tables of a folder, and the statements that make them, by stage.

    ``tables``: names as in CREATE TABLE, in that order, and the columns; none where they are not
    known. ``stages``: statements by what is done when, in files as those of an engine. ``files``:
    below ``load/``, by table; dumps aside. ``fills``: whether statements may add rows.
    ``databases``: that they were written for.
    """

    tables: Mapping[str, tuple[TableColumn, ...]]
    stages: Mapping[str, list[str]]
    files: Mapping[str, list[LoadFile]]
    fills: bool
    databases: frozenset[str]

    @property
    def plain_names(self) -> frozenset[str]:
        """The tables' names without schema and quotes, in small letters."""
        return frozenset(_last(table) for table in self.tables)


def read_schema(folder: SqlFolder, engine: Engine) -> Schema:
    """Read ``tables.sql`` and the names of files; UsageError for what cannot be used."""
    problem = f"{folder.path}/{TABLES}"
    script = _SchemaScript(problem, engine.backslash_escapes)
    script.read(folder.tables_sql)
    tables = script.tables
    if not tables:
        raise UsageError(
            problem, "no statement in it creates a table", "add CREATE TABLE statements"
        )
    files: dict[str, list[LoadFile]] = {table: [] for table in tables}
    for file in folder.load:
        if file.format != DUMP:
            files[_table_of(f"{folder.path}/{LOAD}/{file.name}", file, [*tables])].append(file)
    return Schema(tables, script.stages, files, script.fills, frozenset(script.databases))


def stages(text: str, backslash: bool) -> dict[str, list[str]]:
    """The statements of ``tables.sql`` by what is done when.

    Keys, indexes, foreign keys, then triggers and the like come after the rows of all tables, and
    INSERT statements of the script before them. Materialized views are refreshed at the end. Any
    other statement is executed with those that it follows.
    """
    script = _SchemaScript(TABLES, backslash)
    script.read(text)
    return script.stages


@dataclass
class _SchemaScript:
    """What is known of ``tables.sql`` up to a statement; see :class:`Schema`."""

    name: str
    backslash: bool
    stages: dict[str, list[str]] = field(default_factory=lambda: {_DEFINED: []})
    tables: dict[str, tuple[TableColumn, ...]] = field(default_factory=dict)
    databases: set[str] = field(default_factory=set)
    fills: bool = False

    def read(self, text: str) -> None:
        session: list[str] = []
        refreshes: list[str] = []
        current = _DEFINED
        for statement in dumped(lines_of(text), self.backslash, self.name, self.databases):
            what = statement.kind.what
            if what == "transaction":  # the statements are executed by several sessions
                continue
            _check(statement, self.backslash, self.name)
            self._note(statement)
            if what == "session":
                session.append(statement.text)
            elif what in ("key", "index", "foreign key"):
                current = _FINAL
            elif what == "rows" and current == _DEFINED:
                current = _INSERTED
            if materialized := _MATERIALIZED.match(statement.text):
                refreshes.append(f"REFRESH MATERIALIZED VIEW {materialized['name']}")
            stage = _DEFINED if what == "session" else _STAGES.get(what, current)
            self.stages.setdefault(stage, []).append(statement.text)
        if refreshes:
            self.stages.setdefault(_FINAL, []).extend(refreshes)
        for stage in (_INSERTED, _FINAL):  # each in a session of its own
            if stage in self.stages:
                self.stages[stage] = [*session, *self.stages[stage]]

    def _note(self, statement: ScriptStatement) -> None:
        if statement.kind.what == "table":
            self.tables[statement.kind.name] = columns_of(statement.text, self.backslash)
        elif statement.kind.what == "drop":
            for table in tables_of(statement.text, self.tables):
                del self.tables[table]
        elif _ALTERS.match(statement.text):
            self.tables |= dict.fromkeys(tables_of(statement.text, self.tables)[:1], ())
        if statement.kind.what != "session":
            self.fills |= _FILLS.match(statement.text) is not None or statement.kind.what == "rows"


def _check(statement: ScriptStatement, backslash: bool, name: str) -> None:
    problem = f"{name}, line {statement.line}"
    if statement.kind.what == "copy":
        raise UsageError(
            problem,
            f"rows follow it, which are loaded after the tables: {head(statement.text, 80)}",
            f"put it with its rows into {LOAD}/rows.sql",
        )
    path = _SEARCH_PATH.match(statement.text)
    names = _QUOTES.sub("", path["names"]).replace("'", "").split(",") if path else []
    if any(schema.strip().lower() not in _USUAL_SCHEMAS for schema in names):
        raise UsageError(
            problem,
            f"a schema that sessions of queries do not search: {head(statement.text, 80)}",
            "leave it out, or write the schema before the names of its tables, in queries too",
        )
    if backslash and statement.kind.what == "table" and "." in _plain(statement.kind.name):
        raise UsageError(
            problem,
            f"it names a database: {statement.kind.name}",
            "write the name of the table alone",
        )


def _table_of(problem: str, file: LoadFile, tables: Sequence[str]) -> str:
    for stem in (file.stem.lower(), _NUMBER.sub("", file.stem).lower()):
        if named := [table for table in tables if stem in (_plain(table), _last(table))]:
            break
    if len(named) != 1:
        names = [_last(table) for table in tables]
        raise UsageError(
            problem,
            f"{TABLES} creates {'several tables' if named else 'no table'} {stem!r}"
            f"{nearest(stem, names)}",
            f"name the file after its table: {', '.join(dict.fromkeys(names))}",
        )
    return named[0]


def _plain(table: str) -> str:
    """Return the name without quotes: ``public.orders`` of ``"public".orders``."""
    return _QUOTES.sub("", table).lower()


def _last(table: str) -> str:
    """Return the last part of a name, in plain letters: it may contain a dot where it is quoted."""
    return _plain(re.findall(r'"[^"]*"|`[^`]*`|[^."`]+', table)[-1])
