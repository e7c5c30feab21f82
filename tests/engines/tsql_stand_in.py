"""A stand-in for SQL Server that executes T-SQL: in DuckDB, as sqlglot translates it.

It shows that schema, load and queries mean what they should, as sqlglot understands T-SQL, and how
the engine uses a server. It has no procedures, indexes, plans and waits.
"""

import csv
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import sqlglot
from tds_stand_in import Failure, Row, Rows

#: Statements that make nothing which an answer depends on.
_IGNORED = re.compile(
    r"\s*(alter\s+(table|database)|checkpoint|dbcc\s|create\s+(unique\s+)?(clustered\s+|nonclustered\s+)?index"
    r"|create\s+(or\s+alter\s+)?procedure|update\s+statistics|set\s|use\s|exec\s|if\s)",
    re.I,
)
_DATABASE = re.compile(r"\s*(create|drop)\s+database\s+\[(\w+)\]", re.I)
_NAMED = re.compile(r"select 1 from sys\.(databases|views) where name = '(\w+)'")
_OBJECTS = """
    select if(table_type = 'VIEW', 'view', 'user_table'), table_name
    from information_schema.tables where table_schema = ?
"""
#: What the engine asks for, by a part of the text.
_FACTS: dict[str, Sequence[Row]] = {
    "serverproperty": [("16.0.4165.4", "Developer Edition", "stand-in")],
    "sp_getapplock": [(0,)],
    "sys.configurations": [("recovery_model", "FULL"), ("delayed_durability", "DISABLED")],
    "sys.dm_db_partition_stats": [(1000,)],
    "sys.dm_os_buffer_descriptors": [(0,)],
}
_FILES = re.compile(r"(primary|log on) \(name = '\w+', filename = '([^']+)'\)", re.I)


class Databases:
    """The databases of a server, each a schema of DuckDB. Safe to call from several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connection = duckdb.connect()
        self._lock = threading.Lock()
        #: Kind and path of the files of the last database whose files were named.
        self.files: list[tuple[str, str]] = []
        self.batches: list[str] = []

    def query(self, database: str, text: str) -> Rows | Failure | None:
        with self._lock:
            try:
                return self._answer(database, text)
            except (duckdb.Error, sqlglot.errors.SqlglotError) as error:
                return Failure(208, str(error)[:500])

    def insert(self, database: str, table: str, rows: Sequence[Row]) -> None:
        with self._lock:
            file = self._folder / "rows.csv"
            with file.open("w", encoding="utf-8", newline="") as stream:
                csv.writer(stream).writerows(rows)
            self._use(database)
            self._connection.execute(f"copy {table} from '{file}' (format csv, header false)")

    def _answer(self, database: str, text: str) -> Rows | Failure | None:
        self.batches.append(text.strip())
        if "sys.master_files" in text:
            return Rows(["type_desc", "physical_name"], self.files)
        for part, rows in _FACTS.items():
            if part in text:
                return Rows([f"c{n}" for n in range(len(rows[0]))], rows)
        if match := _NAMED.search(text):
            return self._exists(database, *match.groups())
        if "sys.objects" in text:
            return Rows(["type", "name"], self._connection.execute(_OBJECTS, [database]).fetchall())
        if "sys." in text:
            return Failure(300, "VIEW SERVER STATE permission was denied")
        return None if _IGNORED.match(text) else self._executed(database, text)

    def _executed(self, database: str, text: str) -> Rows | None:
        if match := _DATABASE.match(text):
            kind, name = match.groups()
            named = _FILES.findall(text)
            kinds = {"primary": "ROWS", "log on": "LOG"}
            self.files = [(kinds[clause.lower()], path) for clause, path in named] or self.files
            end = " cascade" if kind.lower() == "drop" else ""
            self._connection.execute(f"{kind} schema {name}{end}")
            return None
        self._use(database)
        made = text.replace("create or alter view", "create or replace view")
        (translated,) = sqlglot.transpile(made, read="tsql", write="duckdb")
        answer = self._connection.execute(translated)
        if translated.startswith("CREATE"):
            return None
        return Rows([str(column[0]) for column in answer.description or ()], answer.fetchall())

    def _exists(self, database: str, kind: str, name: str) -> Rows:
        where = "schema_name = ?" if kind == "databases" else "view_name = ? and schema_name = ?"
        of = "duckdb_schemas" if kind == "databases" else "duckdb_views"
        values: list[Any] = [name] if kind == "databases" else [name, database]
        sql = f"select 1 from {of}() where {where}"
        return Rows(["c"], self._connection.execute(sql, values).fetchall())

    def _use(self, database: str) -> None:
        self._connection.execute(f"use {database if database.startswith('tierbench') else 'main'}")
