"""An external MySQL or MariaDB, reached by DSN, neither placed nor restarted.

Each dataset goes into a database of its own. The mark is a table: these servers have no comments
on databases. A database without the mark belongs to the user.

The DSN is ``mysql://user[:password]@host[:port][/database][?ssl-ca=FILE]``, or with
``?socket=PATH`` and no host. ``env`` means ``$HARNESS_DSN``. A DSN in an option is stored with
every run, so it must not contain a password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any

import pymysql

from engines._external import PREFIX, ExternalServer, dsn_text, end_session
from engines._innodb.configuration import CHARACTERS
from engines._innodb.connection import (
    LazyConnection,
    MySqlConnection,
    MySqlLogin,
    close,
    flavour_of,
    message,
)
from engines._innodb.installation import TITLES, Flavour
from engines._innodb.sql import SqlOnInnoDB
from harness.dsn import DsnUrl
from harness.engine import EngineContext, EngineOptions, EngineVersion
from harness.errors import RunFailed, UsageError
from harness.store.spec import JsonObject

_PARAMETERS = ("socket", "ssl-ca")
_FORM = "write mysql://user@host/database, or mysql://user@/database?socket=/run/mysqld/mysqld.sock"
_DEFAULT_PORT = 3306
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


def dsn_of(flavour: Flavour, options: EngineOptions) -> MySqlLogin:
    """The DSN; UsageError if it is invalid or contains a password, or $HARNESS_DSN is unset."""
    problem = f"external {TITLES[flavour]} by DSN"

    def secrets(text: str) -> str:
        return "a password" if _parsed(text, problem).password else ""

    return _parsed(dsn_text(problem, options, secrets), problem)


def _parsed(text: str, problem: str) -> MySqlLogin:
    url = DsnUrl.of(text, problem, _FORM, TITLES, _PARAMETERS)
    socket = url.parameters.get("socket")
    if bool(socket) == bool(url.host):
        raise UsageError(problem, "it must name either a host or a socket", _FORM)
    return MySqlLogin(
        user=url.user,
        password=url.password,
        host=url.host or None,
        port=(url.port or _DEFAULT_PORT) if url.host else None,
        database=url.database or None,
        socket=socket,
        ssl_ca=url.parameters.get("ssl-ca"),
    )


def server_version(flavour: Flavour, options: EngineOptions) -> EngineVersion:
    """The server's version; UsageError if it does not answer or is of the other flavour."""
    dsn = dsn_of(flavour, options)
    problem = f"external {TITLES[flavour]} at {dsn.address}"
    try:
        with closing(dsn.connect()) as connection:
            reported = flavour_of(connection)
            ((version, comment),) = _rows(connection, "SELECT VERSION(), @@version_comment")
    except (pymysql.Error, OSError) as error:
        raise UsageError(
            problem,
            message(error) if isinstance(error, pymysql.Error) else str(error),
            "check the DSN, the server and the rights of its user",
        ) from error
    if reported != flavour:
        raise UsageError(problem, f"it is {TITLES[reported]} {version}", f"use --engine {reported}")
    release = re.match(r"[\d.]+", str(version))
    return EngineVersion(
        flavour,
        release.group().rstrip(".") if release else str(version),
        f"{version} ({comment})",
        f"DSN {dsn.address}",
    )


class ExternalInnoDB(SqlOnInnoDB, ExternalServer[MySqlConnection]):
    """Runs SQL on the user's server, in a database of its own."""

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

    def start(self) -> None:
        """Check that it answers, lock it, and wait for the end of a redo log's resize."""
        super().start()
        self._await_redo_size()

    def version(self) -> EngineVersion:
        return server_version(self.flavour, self._options)

    def _create(self, schema: str, mark: str) -> None:
        with self._server() as connection:
            _rows(connection, f"CREATE DATABASE `{schema}` {CHARACTERS}")
            _rows(connection, f"CREATE TABLE `{schema}`.{_MARK_TABLE} (mark LONGTEXT NOT NULL)")
        self._set_mark(schema, mark)

    def _set_mark(self, schema: str, mark: str) -> None:
        with self._server() as connection:
            _rows(connection, f"DELETE FROM `{schema}`.{_MARK_TABLE}")
            _rows(connection, f"INSERT INTO `{schema}`.{_MARK_TABLE} (mark) VALUES (%s)", mark)

    def _drop(self, schema: str, ours: Mapping[str, set[str]]) -> None:
        expected = {(kind, name) for kind, names in ours.items() for name in names}
        expected.add(("table", _MARK_TABLE))
        with self._server() as connection:
            objects = _rows(connection, _OBJECTS, *[schema] * 4)
            others = [
                f"{kind} {name}" for kind, name in objects if (kind, name.lower()) not in expected
            ]
            if others:
                raise self._not_ours(schema, others)
            _rows(connection, f"DROP DATABASE `{schema}`")

    def _lock(self) -> Callable[[], None]:
        with self._server() as asking:
            connection = self._dsn.connect()
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

    def data_bytes(self) -> int | None:
        """Size of tables and indexes, as the server counts it now."""
        query = (
            "SELECT SUM(data_length + index_length) FROM information_schema.tables "
            "WHERE table_schema = %s"
        )
        with self._server() as connection:
            if self.flavour == "mysql":  # by default, sizes are up to a day old
                _rows(connection, "SET SESSION information_schema_stats_expiry = 0")
            ((size,),) = _rows(connection, query, self._schema)
        return int(size) if size is not None else None

    @property
    def _title(self) -> str:
        return TITLES[self.flavour]

    @property
    def _address(self) -> str:
        return self._dsn.address

    def native_connection(self) -> JsonObject:
        """The DSN's address and the database in use."""
        return self._dsn.native(self._schema)

    def _open(self, local_infile: bool = False) -> LazyConnection:
        return self._dsn.connect(self._schema, local_infile)

    @contextmanager
    def _server(self) -> Iterator[LazyConnection]:
        """A connection for work on the harness's databases; RunFailed if it is not allowed."""
        try:
            with closing(self._dsn.connect()) as connection:
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


def _unlock(connection: LazyConnection) -> None:
    with suppress(pymysql.Error, OSError):
        _rows(connection, "SELECT RELEASE_LOCK(%s)", PREFIX)


def _rows(connection: LazyConnection, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values or None)
        return list(cursor.fetchall())
