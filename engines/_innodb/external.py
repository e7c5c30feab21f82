"""An external MySQL or MariaDB, reached by DSN, neither placed nor restarted.

Each dataset goes into a database of its own. The mark is a table: these servers have no comments
on databases. A database without the mark belongs to the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any

import pymysql

from engines._external import PREFIX, ExternalServer, end_session, mark_text
from engines._innodb.configuration import CHARACTERS
from engines._innodb.connection import MySqlConnection, close, flavour_of, message
from engines._innodb.dsn import dsn_of
from engines._innodb.installation import TITLES, Flavour
from engines._innodb.sql import SqlOnInnoDB
from engines._innodb.wire import LazyConnection
from harness.engine import EngineContext, EngineVersion
from harness.errors import RunFailed, UsageError
from harness.sql_files import created

_MARK_TABLE = f"{PREFIX}_mark"
#: A lock's session is idle during a run: no limit of the server may end it.
_LOCK_IDLE_S = 365 * 24 * 3600
_OBJECTS = """
    SELECT 'table', table_name FROM information_schema.tables WHERE table_schema = %s
    UNION ALL SELECT LOWER(routine_type), routine_name FROM information_schema.routines
        WHERE routine_schema = %s
    UNION ALL SELECT 'trigger', trigger_name FROM information_schema.triggers
        WHERE trigger_schema = %s
    UNION ALL SELECT 'event', event_name FROM information_schema.events WHERE event_schema = %s
"""


def server_version(flavour: Flavour, options: Mapping[str, Any]) -> EngineVersion:
    """The server's version; UsageError if it does not answer or is of the other flavour."""
    dsn = dsn_of(flavour, options)
    problem = f"external {TITLES[flavour]} at {dsn.address}"
    try:
        with closing(dsn.open()) as connection:
            found = flavour_of(connection)
            ((version, comment),) = _rows(connection, "SELECT VERSION(), @@version_comment")
    except (pymysql.Error, OSError) as error:
        raise UsageError(
            problem,
            message(error) if isinstance(error, pymysql.Error) else str(error),
            "check the DSN, the server and the rights of its user",
        ) from error
    if found != flavour:
        raise UsageError(problem, f"it is {TITLES[found]} {version}", f"use --engine {found}")
    release = re.match(r"[\d.]+", str(version))
    return EngineVersion(
        flavour,
        release.group().rstrip(".") if release else str(version),
        f"{version} ({comment})",
        f"DSN {dsn.address}",
    )


class ExternalInnoDB(SqlOnInnoDB, ExternalServer[MySqlConnection]):
    """Runs SQL on the user's server, in a database of its own. Implements KeepsOwnData."""

    schema_word = "database"
    holder_word = "server"
    longest_schema_name = 64

    def __init__(self, context: EngineContext, flavour: Flavour) -> None:
        super().__init__()
        self.name: str = flavour
        self.flavour = flavour
        self._dsn = dsn_of(flavour, context.options)
        self._options = context.options
        self.threads = context.threads

    def version(self) -> EngineVersion:
        return server_version(self.flavour, self._options)

    def prepare(self, key: str) -> None:
        """Make an empty, marked database; RunFailed if another user's has that name."""
        name = self._schema_name(key)
        ours = self._mark_of(name) is not None
        with self._server() as connection:
            if ours:
                if others := self._others(connection, name, key.partition("-")[0]):
                    raise self._not_ours(name, others)
                _rows(connection, f"DROP DATABASE `{name}`")
            _rows(connection, f"CREATE DATABASE `{name}` {CHARACTERS}")
            _rows(connection, f"CREATE TABLE `{name}`.{_MARK_TABLE} (mark LONGTEXT NOT NULL)")
            _set_mark(connection, name, mark_text(complete=False))
        self._schema = name

    def _others(self, connection: LazyConnection, schema: str, workload: str) -> list[str]:
        """Objects in the database that the workload did not make."""
        ours = created(self.sql_folder / workload)
        known = {(kind, name) for kind, names in ours.items() for name in names}
        known.add(("table", _MARK_TABLE))
        found = _rows(connection, _OBJECTS, *[schema] * 4)
        return [f"{kind} {name}" for kind, name in found if (kind, name.lower()) not in known]

    def _lock(self) -> Callable[[], None]:
        with self._server() as asking:
            connection = self._dsn.open()
            try:
                _rows(connection, "SET SESSION wait_timeout = %s", _LOCK_IDLE_S)
                if _rows(connection, "SELECT GET_LOCK(%s, 0)", PREFIX) == [(1,)]:
                    return partial(
                        end_session, partial(_unlock, connection), partial(close, connection)
                    )
            except BaseException:
                close(connection)
                raise
            close(connection)
            holder = (
                "SELECT CONCAT('user ', user, ' from ', host, ', connection ', id) "
                "FROM information_schema.processlist WHERE id = IS_USED_LOCK(%s)"
            )
            rows = _rows(asking, holder, PREFIX)
        raise self._locked(rows[0][0] if rows else "a session that this user cannot see")

    def mark_prepared(self, key: str, facts: Mapping[str, Any]) -> None:
        """Write ``facts`` into the mark."""
        mark = mark_text(complete=True, facts=facts)
        with self._server() as connection:
            _set_mark(connection, self._schema_name(key), mark)

    def data_bytes(self) -> int | None:
        """Size of tables and indexes, as the server counts it now."""
        query = (
            "SELECT SUM(data_length + index_length) FROM information_schema.tables "
            "WHERE table_schema = %s"
        )
        with self._server() as connection:
            if self.flavour == "mysql":  # by default, sizes are up to a day old
                _rows(connection, "SET SESSION information_schema_stats_expiry = 0")
            ((found,),) = _rows(connection, query, self._schema)
        return int(found) if found is not None else None

    @property
    def _title(self) -> str:
        return TITLES[self.flavour]

    @property
    def _address(self) -> str:
        return self._dsn.address

    def native_connection(self) -> Mapping[str, Any]:
        """The DSN's address and the database in use."""
        return self._dsn.native(self._schema)

    def _open(self, local_infile: bool = False) -> LazyConnection:
        return self._dsn.open(self._schema, local_infile)

    @contextmanager
    def _server(self) -> Iterator[LazyConnection]:
        """A connection for work on the harness's databases; RunFailed if it is not allowed."""
        try:
            with closing(self._dsn.open()) as connection:
                yield connection
        except pymysql.Error as error:
            raise RunFailed(
                f"{self._title} at {self._address}",
                message(error),
                f"grant the user all rights on these databases: GRANT ALL ON `{PREFIX}\\_%`.* TO …",
            ) from error

    def _stored_mark(self, schema: str) -> str | None:
        there = "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s"
        table = (
            "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        )
        with self._server() as connection:
            if not _rows(connection, there, schema):
                return None
            if not _rows(connection, table, schema, _MARK_TABLE):
                return ""
            rows = _rows(connection, f"SELECT mark FROM `{schema}`.{_MARK_TABLE}")
        return str(rows[0][0]) if rows else ""


def _set_mark(connection: LazyConnection, schema: str, mark: str) -> None:
    _rows(connection, f"DELETE FROM `{schema}`.{_MARK_TABLE}")
    _rows(connection, f"INSERT INTO `{schema}`.{_MARK_TABLE} (mark) VALUES (%s)", mark)


def _unlock(connection: LazyConnection) -> None:
    with suppress(pymysql.Error, OSError):
        _rows(connection, "SELECT RELEASE_LOCK(%s)", PREFIX)


def _rows(connection: LazyConnection, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values or None)
        return list(cursor.fetchall())
