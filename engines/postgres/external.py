"""An external PostgreSQL, reached by DSN, neither placed nor restarted.

Each dataset goes into a schema of its own; the mark is the schema's comment. A DSN with a
password would be stored with every run, so the password comes from libpq's own sources, or the
whole DSN from ``$HARNESS_DSN``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from engines._external import ExternalServer, dsn_text, end_session, session_name
from engines.postgres.cluster import MAINTENANCE_DATABASE
from engines.postgres.connection import PostgresConnection, open_connection
from engines.postgres.load import Loader
from engines.postgres.sql import NATIVE_OPTIONS, NO_ERRORS_LOGGED, SqlOnPostgres
from harness.engine import EngineContext, EngineOptions, EngineVersion
from harness.errors import RunFailed, UsageError
from harness.store.spec import JsonObject

#: The advisory lock: "tier", "benc".
_LOCK = (0x74696572, 0x62656E63)
#: Its holders in all databases of the server: a lock is visible only in its own database.
_HOLDERS = """
    SELECT format('%%s (user %%s, database %%s, address %%s, server process %%s, since %%s)',
                  a.application_name, a.usename, a.datname, coalesce(host(a.client_addr), 'local'),
                  a.pid, a.backend_start)
    FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.classid = %s AND l.objid = %s AND l.granted
          AND l.pid <> pg_backend_pid()
"""
#: Parameters that libpq marks as secret, and the SCRAM keys, which are equivalent to a password.
_SECRET = frozenset(
    option.keyword.decode()
    for option in pq.Conninfo.get_defaults()
    if option.dispchar == b"*" or option.keyword.startswith(b"scram_")
)


def dsn_of(options: EngineOptions) -> str:
    """The DSN; UsageError if it is invalid or contains a secret, or $HARNESS_DSN is unset."""
    return dsn_text("external PostgreSQL by DSN", options, _secrets)


def _secrets(dsn: str) -> str:
    try:
        return ", ".join(sorted(_SECRET & set(conninfo_to_dict(dsn))))
    except psycopg.ProgrammingError as error:
        # libpq's message may repeat parts of the DSN.
        raise UsageError(
            "external PostgreSQL by DSN",
            "not a libpq connection string",
            "write host=… dbname=… user=…, or postgresql://user@host/dbname",
        ) from error


def server_version(options: EngineOptions) -> EngineVersion:
    """The server's version; UsageError if it does not answer."""
    dsn = dsn_of(options)
    try:
        with _connect(dsn) as connection:
            row = connection.execute("SELECT current_setting('server_version'), version()")
            version, banner = row.fetchone() or ("", "")
            # As connected, which distinguishes two values of $HARNESS_DSN.
            info = connection.info
            source = f"DSN host={info.host} port={info.port} dbname={info.dbname}"
    except psycopg.Error as error:
        raise UsageError(
            f"external PostgreSQL at {_address(dsn)}",
            str(error).strip().splitlines()[0],
            "check the DSN, the server and its pg_hba.conf",
        ) from error
    return EngineVersion("postgres", version.split()[0], banner, source)


def _may_set_logging(connection: psycopg.Connection[Any]) -> bool:
    """True for superusers and, since release 15, for roles with the privilege."""
    if connection.info.server_version < 150000:
        return connection.info.parameter_status("is_superuser") == "on"
    row = connection.execute("SELECT has_parameter_privilege('log_min_messages', 'SET')").fetchone()
    return row == (True,)


def _connect(dsn: str, name: str = "harness") -> psycopg.Connection[Any]:
    return open_connection(dsn, application_name=name)


def _unlock(connection: psycopg.Connection[Any]) -> None:
    with suppress(psycopg.Error):
        connection.execute("SELECT pg_advisory_unlock(%s, %s)", _LOCK)


def _address(dsn: str) -> str:
    """Host and database, for messages, without user and password."""
    parameters = conninfo_to_dict(dsn)
    host = parameters.get("host") or parameters.get("hostaddr") or "the default socket"
    return f"{host} ({parameters.get('dbname') or 'default'} database)"


class ExternalPostgres(SqlOnPostgres, ExternalServer[PostgresConnection]):
    """Runs SQL on the user's server, in a schema of its own."""

    name = "postgres"
    schema_word = "schema"
    holder_word = "database"
    longest_schema_name = 63
    _title = "PostgreSQL"

    def __init__(self, context: EngineContext) -> None:
        super().__init__()
        self._dsn = dsn_of(context.options)
        self._options = context.options
        self.threads = context.threads

    def version(self) -> EngineVersion:
        return server_version(self._options)

    def _create(self, schema: str, mark: str) -> None:
        create = sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema))
        with _connect(self._dsn) as connection, connection.transaction():
            connection.execute(create)
            _comment(connection, schema, mark)

    def _set_mark(self, schema: str, mark: str) -> None:
        with _connect(self._dsn) as connection:
            _comment(connection, schema, mark)

    def _drop(self, schema: str, ours: Mapping[str, set[str]]) -> None:
        """Drop our objects, then the schema; the server refuses if others remain."""
        kinds = [("ROUTINE", ours["function"] | ours["procedure"]), ("TABLE", ours["table"])]
        drop_objects = sql.SQL("DROP {} IF EXISTS {} RESTRICT")
        drop_schema = sql.SQL("DROP SCHEMA {} RESTRICT").format(sql.Identifier(schema))
        try:
            with _connect(self._dsn) as connection, connection.transaction():
                for kind, names in kinds:
                    if names:
                        objects = [sql.Identifier(schema, name) for name in sorted(names)]
                        listed = sql.SQL(", ").join(objects)
                        connection.execute(drop_objects.format(sql.SQL(kind), listed))
                connection.execute(drop_schema)
        except psycopg.errors.DependentObjectsStillExist as error:
            dependent = (error.diag.message_detail or str(error)).splitlines()
            raise self._not_ours(schema, dependent) from error
        except psycopg.Error as error:
            raise RunFailed(f"drop schema {schema} on {self._address}", str(error)) from error

    def _lock(self) -> Callable[[], None]:
        connection = _connect(self._dsn, session_name())
        try:
            locked, holder = False, None
            while not (locked or holder):  # a holder may unlock between the two statements
                cursor = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", _LOCK)
                locked = cursor.fetchone() == (True,)
                holder = connection.execute(_HOLDERS, _LOCK).fetchone()
        except BaseException:
            connection.close()
            raise
        if holder is not None:
            connection.close()
            raise self._locked(holder[0])
        return partial(end_session, partial(_unlock, connection), connection.close)

    def data_bytes(self) -> int | None:
        """Size of tables, indexes and TOAST in the schema."""
        query = (
            "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relkind IN ('r', 'm')"
        )
        with _connect(self._dsn) as connection:
            row = connection.execute(query, [self._schema]).fetchone()
        return int(row[0]) if row and row[0] is not None else None

    @property
    def _address(self) -> str:
        return _address(self._dsn)

    def _stored_mark(self, schema: str) -> str | None:
        query = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s"
        with _connect(self._dsn) as connection:
            row = connection.execute(query, [schema]).fetchone()
        return None if row is None else row[0] or ""

    def _open(self) -> psycopg.Connection[Any]:
        connection = _connect(self._dsn)
        if self._schema is not None:
            path = sql.SQL("SET search_path = {}").format(sql.Identifier(self._schema))
            connection.execute(path)
        return connection

    def native_connection(self) -> JsonObject:
        """As libpq resolves the DSN, the environment and ~/.pgpass, with the schema in use."""
        with _connect(self._dsn) as connection:
            info = connection.info
            parameters = info.get_parameters()
            options = f"{parameters.pop('options', '')} {NATIVE_OPTIONS}".strip()
            if _may_set_logging(connection):
                options += f" {NO_ERRORS_LOGGED}"
            if self._schema is not None:
                options += f" -c search_path={self._schema}"
            return {
                **{
                    name: parameters[name]
                    for name in parameters.keys() & _set_by(self._dsn) - {"dbname"}
                },
                "host": info.host,
                "port": info.port,
                "user": info.user,
                "password": info.password or None,
                "database": info.dbname,
                "application_name": "harness",
                "options": options,
            }

    def _open_monitor(self) -> tuple[psycopg.Connection[Any], str]:
        connection = self._open()  # the server's other databases belong to the user
        return connection, connection.info.dbname

    def _open_for_waits(self) -> psycopg.Connection[Any]:
        try:
            return _connect(make_conninfo(self._dsn, dbname=MAINTENANCE_DATABASE))
        except psycopg.OperationalError:  # it does not exist, or the user may not connect to it
            return self._open()

    def _loader(self) -> Loader:
        return Loader(connect=self.connect, threads=self.threads)


def _set_by(dsn: str) -> set[str]:
    """The parameters that the DSN or the environment sets.

    libpq adds others when it connects, some of which (``sslcertmode``) the libpq of the native
    client may not have.
    """
    defaults = pq.Conninfo.get_defaults()
    set_outside = {o.keyword.decode() for o in defaults if o.val != o.compiled}
    return set_outside | set(conninfo_to_dict(dsn))


def _comment(connection: psycopg.Connection[Any], schema: str, mark: str) -> None:
    statement = sql.SQL("COMMENT ON SCHEMA {} IS {}").format(
        sql.Identifier(schema), sql.Literal(mark)
    )
    connection.execute(statement)
