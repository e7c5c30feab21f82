"""A MySQL or MariaDB server of the user's: reached by DSN, neither placed nor restarted.

Data go into databases of ours, one per dataset, each with a table that is our mark: the
servers keep no comment of a database. What is in a database without it is not ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql

from harness.engine import EngineContext, EngineKind, EngineVersion, Places, ProcessId
from harness.engines._innodb.configuration import CHARACTERS
from harness.engines._innodb.connection import flavour_of, message
from harness.engines._innodb.dsn import dsn_of
from harness.engines._innodb.installation import TITLES, Flavour
from harness.engines._innodb.sql import SqlOnInnoDB
from harness.engines._innodb.wire import LazyConnection
from harness.errors import RunFailed, UsageError
from harness.placement import Part

_MARK = "tierbench"
_MARK_TABLE = "tierbench_mark"
_LONGEST_NAME = 64


def server_version(flavour: Flavour, options: Mapping[str, Any]) -> EngineVersion:
    """What the server says of itself; UsageError when it does not answer or is the other one."""
    dsn = dsn_of(flavour, options)
    asked = f"external {TITLES[flavour]} at {dsn.address}"
    try:
        with closing(dsn.open()) as connection:
            found = flavour_of(connection)
            ((version, comment),) = _rows(connection, "SELECT VERSION(), @@version_comment")
    except (pymysql.Error, OSError) as error:
        raise UsageError(
            asked,
            message(error) if isinstance(error, pymysql.Error) else str(error),
            "check the DSN, the server and the rights of its user",
        ) from error
    if found != flavour:
        raise UsageError(asked, f"it is {TITLES[found]} {version}", f"say --engine {found}")
    release = re.match(r"[\d.]+", str(version))
    return EngineVersion(
        flavour, release.group().rstrip(".") if release else str(version),
        f"{version} ({comment})", f"DSN {dsn.address}",
    )  # fmt: skip


class ExternalInnoDB(SqlOnInnoDB):
    """Runs SQL on the user's server, in a database of ours. Implements KeepsOwnData."""

    kind: EngineKind = "external"
    supported_parts: frozenset[Part] = frozenset()

    def __init__(self, context: EngineContext, flavour: Flavour) -> None:
        super().__init__()
        self.name: str = flavour
        self.flavour = flavour
        self._dsn = dsn_of(flavour, context.options)
        self._options = context.options
        self._schema: str | None = None
        self.threads = context.threads

    def version(self) -> EngineVersion:
        """As the server says."""
        return server_version(self.flavour, self._options)

    def format_options(self) -> Mapping[str, str]:
        """None: its owner has made it."""
        return {}

    def initialise(self, places: Places) -> None:
        """Refused: there is nothing of ours to make."""
        raise UsageError(f"place an external {self._title}", "its owner decides where it lies")

    def start(self) -> None:
        """Only look whether it answers."""
        self.connect().close()

    def stop(self) -> None:
        """Close our connections; the server goes on."""
        self._close_monitor()
        for connection in list(self._connections):
            connection.close()

    def kill(self) -> None:
        """As ``stop``: the server is not ours."""
        self.stop()

    def processes(self) -> Sequence[ProcessId]:
        """None of ours."""
        return []

    def files(self) -> Sequence[Path]:
        """None that we know of."""
        return []

    def snapshot(self, golden: Path) -> None:
        """Refused."""
        raise UsageError(f"copy an external {self._title}", "its files are not ours")

    def restore(self, golden: Path, places: Places) -> None:
        """Refused."""
        raise UsageError(f"restore into an external {self._title}", "its files are not ours")

    def prepared(self, key: str) -> Mapping[str, Any] | None:
        """The facts of the complete data under ``key``, which are used from now on."""
        mark = self._mark_of(_schema_name(key))
        if mark is None or not mark.get("complete"):
            return None
        self._schema = _schema_name(key)
        facts: Mapping[str, Any] = mark["facts"]
        return facts

    def prepare(self, key: str) -> None:
        """An empty database of ours; RunFailed where one of that name is somebody else's."""
        name = _schema_name(key)
        ours = self._mark_of(name) is not None
        with self._server() as connection:
            if ours:
                _rows(connection, f"DROP DATABASE `{name}`")
            _rows(connection, f"CREATE DATABASE `{name}` {CHARACTERS}")
            _rows(connection, f"CREATE TABLE `{name}`.{_MARK_TABLE} (mark LONGTEXT NOT NULL)")
            _set_mark(connection, name, {"made_by": _MARK, "complete": False})
        self._schema = name

    def mark_prepared(self, key: str, facts: Mapping[str, Any]) -> None:
        """Write ``facts`` into our mark."""
        mark = {"made_by": _MARK, "complete": True, "facts": dict(facts)}
        with self._server() as connection:
            _set_mark(connection, _schema_name(key), mark)

    def data_bytes(self) -> int | None:
        """Tables and indexes of our database, as the server counts them now."""
        query = (
            "SELECT SUM(data_length + index_length) FROM information_schema.tables "
            "WHERE table_schema = %s"
        )
        with self._server() as connection:
            if self.flavour == "mysql":  # else as they were up to a day ago
                _rows(connection, "SET SESSION information_schema_stats_expiry = 0")
            ((found,),) = _rows(connection, query, self._schema)
        return int(found) if found is not None else None

    @property
    def _title(self) -> str:
        return TITLES[self.flavour]

    def _open(self, local_infile: bool = False) -> LazyConnection:
        return self._dsn.open(self._schema, local_infile)

    @contextmanager
    def _server(self) -> Iterator[LazyConnection]:
        """A connection for what concerns our databases; RunFailed where that is not allowed."""
        try:
            with closing(self._dsn.open()) as connection:
                yield connection
        except pymysql.Error as error:
            raise RunFailed(
                f"{self._title} at {self._dsn.address}",
                message(error),
                f"let the user do all in databases of ours: GRANT ALL ON `{_MARK}\\_%`.* TO …",
            ) from error

    def _mark_of(self, schema: str) -> Mapping[str, Any] | None:
        """Our mark in a database; None where there is no such database; RunFailed on another's."""
        there = "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s"
        table = (
            "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        )
        mark: Any = None
        with self._server() as connection:
            if not _rows(connection, there, schema):
                return None
            if _rows(connection, table, schema, _MARK_TABLE):
                mark = _read_mark(connection, schema)
        if not isinstance(mark, dict) or mark.get("made_by") != _MARK:
            raise RunFailed(
                f"database {schema} on {self._dsn.address}",
                "it exists and was not made by tierbench",
                "rename or drop it, or use another server",
            )
        return mark


def _schema_name(key: str) -> str:
    return f"{_MARK}_{key.replace('-', '_')}"[:_LONGEST_NAME]


def _read_mark(connection: LazyConnection, schema: str) -> Any:
    rows = _rows(connection, f"SELECT mark FROM `{schema}`.{_MARK_TABLE}")
    try:
        return json.loads(rows[0][0])
    except (IndexError, ValueError):
        return None


def _set_mark(connection: LazyConnection, schema: str, mark: Mapping[str, Any]) -> None:
    _rows(connection, f"DELETE FROM `{schema}`.{_MARK_TABLE}")
    text = json.dumps(mark, sort_keys=True)
    _rows(connection, f"INSERT INTO `{schema}`.{_MARK_TABLE} (mark) VALUES (%s)", text)


def _rows(connection: LazyConnection, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values or None)
        return list(cursor.fetchall())
