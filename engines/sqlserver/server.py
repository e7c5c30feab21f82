"""Microsoft SQL Server, the user's own: reached by DSN and not restarted.

Its files are where the server has them, or in the folders that options name, which is checked. Each
dataset goes into a database of its own, with a mark, a view: HammerDB builds only where no
table is. The DSN is
``mssql://user[:password]@host[:port]/database[?ca=FILE]``; ``env`` means ``$HARNESS_DSN``. A DSN in
an option is stored with every run, so it must not contain a password.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from engines._external import PREFIX, ExternalServer, dsn_text, end_session
from engines._sql_engine import CounterReader, SqlEngine
from engines.sqlserver.connection import ERRORS, SqlServerConnection, SqlServerLogin, explain
from engines.sqlserver.load import Loader
from engines.sqlserver.waits import SessionObserver
from harness.dsn import DsnUrl
from harness.engine import (
    EngineContext,
    EngineOptions,
    EngineVersion,
    FillRequest,
    SqlConnection,
)
from harness.errors import RunFailed, UsageError
from harness.query_plan import ExecutedPlan
from harness.store.documents import attributes
from harness.store.spec import JsonObject
from harness.waits import WaitObserver

_PROBLEM = "external SQL Server by DSN"
_FORM = "write mssql://user@host:1433/master?ca=FILE"
_PORT = 1433
_MARK = f"{PREFIX}_mark"
#: The procedures that HammerDB makes; its tables have the names of ours.
_OF_HAMMERDB = {"neword", "payment", "ostat", "delivery", "slev", "sp_updstats"}
_OBJECTS = """
    select lower(type_desc), name from sys.objects where is_ms_shipped = 0 and parent_object_id = 0
"""
_VERSION = """
    select cast(serverproperty('ProductVersion') as nvarchar(128)),
           cast(serverproperty('Edition') as nvarchar(128)), @@version
"""
_LOCK = """
    declare @result int;
    exec @result = sp_getapplock @Resource = 'tierbench', @LockMode = 'Exclusive',
        @LockOwner = 'Session', @LockTimeout = 0, @DbPrincipal = 'public';
    select @result;
"""
#: Of the files of the database in use: bytes, and times of requests.
_FILES = """
    select f.type_desc, sum(s.num_of_bytes_read), sum(s.num_of_bytes_written),
           sum(s.io_stall_read_ms), sum(s.io_stall_write_ms)
    from sys.dm_io_virtual_file_stats(db_id(), null) s
    join sys.database_files f on f.file_id = s.file_id group by f.type_desc
"""
#: Of the database in use, by kind: rows or log.
_PLACES = """
    select type_desc, physical_name from sys.master_files where database_id = db_id()
"""
#: As the authors of VLDB 2023 do before each query. A clean page alone can be dropped.
_CLEAR = ("checkpoint", "dbcc dropcleanbuffers", "dbcc freeproccache")
_BUFFERED = """
    select count_big(*) * 8192 from sys.dm_os_buffer_descriptors where database_id = db_id()
"""
#: Kinds of files by the option that names their folder.
_FOLDERS = {"data_folder": "ROWS", "log_folder": "LOG"}
_SETTINGS = """
    select name, cast(value_in_use as nvarchar(200)) from sys.configurations
    union all select 'recovery_model', recovery_model_desc from sys.databases
        where database_id = db_id()
    union all select 'delayed_durability', delayed_durability_desc from sys.databases
        where database_id = db_id()
    union all select 'read_committed_snapshot', cast(is_read_committed_snapshot_on as nvarchar(5))
        from sys.databases where database_id = db_id()
    union all select 'compatibility_level', cast(compatibility_level as nvarchar(5))
        from sys.databases where database_id = db_id()
"""


def dsn_of(options: EngineOptions) -> SqlServerLogin:
    """The DSN; UsageError if it is invalid or contains a password, or $HARNESS_DSN is unset."""

    def secrets(text: str) -> str:
        return "a password" if _parsed(text).password else ""

    return _parsed(dsn_text(_PROBLEM, options, secrets))


def _parsed(text: str) -> SqlServerLogin:
    url = DsnUrl.of(text, _PROBLEM, _FORM, ["mssql"], ["ca"])
    if not url.host:
        raise UsageError(_PROBLEM, "the URL names no host", _FORM)
    ca = url.parameters.get("ca", "")
    if not ca and not _is_this_host(url.host):
        raise UsageError(
            _PROBLEM,
            f"without ca, the password and all data would cross the network to {url.host} "
            "unencrypted",
            f"name the authority of the server's certificate: {_FORM}",
        )
    return SqlServerLogin(
        host=url.host,
        port=url.port or _PORT,
        user=url.user,
        password=url.password,
        database=url.database or "master",
        ca=ca,
    )


def _is_this_host(name: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return name == "localhost"


def server_version(options: EngineOptions) -> EngineVersion:
    """The server's version; UsageError if it does not answer."""
    login = dsn_of(options)
    try:
        with closing(login.connect()) as connection:
            ((version, edition, banner),) = _rows(connection, _VERSION)
    except ERRORS as error:
        raise UsageError(
            f"external SQL Server at {login.address}",
            str(error),
            "check the DSN, the server and the rights of its user",
        ) from error
    build = " ".join(f"{banner} {edition}".split())
    return EngineVersion("sqlserver", str(version), build, f"DSN {login.address}")


class _Counters(CounterReader):
    """``sqlserver_data_read_bytes`` and so on; none without the right VIEW SERVER STATE."""

    def __init__(self, connection: SqlServerConnection) -> None:
        self._connection = connection

    def read(self) -> Mapping[str, float]:
        try:
            rows = self._connection.execute(_FILES).rows
        except RunFailed:
            return {}
        counters: dict[str, float] = {}
        for kind, read, written, reading_ms, writing_ms in rows:
            name = f"sqlserver_{'log' if kind == 'LOG' else 'data'}"
            counters |= {
                f"{name}_read_bytes": float(str(read)),
                f"{name}_written_bytes": float(str(written)),
                f"{name}_read_ns": float(str(reading_ms)) * 1e6,
                f"{name}_write_ns": float(str(writing_ms)) * 1e6,
            }
        return counters

    def close(self) -> None:
        self._connection.close()


class SqlServer(SqlEngine[SqlServerConnection], ExternalServer[SqlServerConnection]):
    """Runs SQL on the user's server, in a database of its own."""

    name = "sqlserver"
    sql_folder: Path = Path(__file__).parent / "sql"
    loads_dumps = False
    durability_settings = ("delayed_durability", "recovery_model")
    schema_word = "database"
    holder_word = "server"
    longest_schema_name = 123
    native_backend = "sqlserver"
    hammerdb_database = "mssqls"
    _title = "SQL Server"

    def __init__(self, context: EngineContext) -> None:
        super().__init__()
        self._dsn = dsn_of(context.options)
        self._options = context.options
        self.threads = context.threads
        if context.settings:
            raise UsageError(
                f"settings of SQL Server: {', '.join(context.settings)}",
                "the harness does not configure an external server",
                "set them there, and describe the set-up with --label",
            )

    def version(self) -> EngineVersion:
        return server_version(self._options)

    def effective_config(self) -> Mapping[str, str]:
        places = {f"folder_of_{kind.lower()}": folder for kind, folder in self._places()}
        return {str(name): str(value) for name, value in self._query(_SETTINGS)} | places

    def clear_caches(self) -> tuple[int, int]:
        """Clear buffers and plans; return the bytes of the data in buffers, and of all data."""
        with self._server(self._schema or "") as connection:
            for statement in _CLEAR:
                _run(connection, statement)
            ((buffered,),) = _rows(connection, _BUFFERED)
        return int(buffered), self.data_bytes() or 0

    def _places(self) -> list[tuple[str, str]]:
        """Kind and folder of each file of the database in use; none without the right."""
        try:
            rows = self._query(_PLACES)
        except RunFailed:
            return []
        return [(str(kind), str(path).replace("\\", "/").rpartition("/")[0]) for kind, path in rows]

    def prepared(self, key: str) -> JsonObject | None:
        facts = super().prepared(key)
        if facts is not None:
            self._check_places()
        return facts

    def _check_places(self) -> None:
        """RunFailed unless the files are in the folders that options name."""
        places = self._places()
        for option, expected in self._folders().items():
            kind = _FOLDERS[option]
            folders = [folder for of, folder in places if of == kind]
            if not folders or any(folder != expected for folder in folders):
                raise RunFailed(
                    f"{option}={expected} of SQL Server at {self._address}",
                    f"sys.master_files has {', '.join(folders) or 'nothing'} of {self._schema}",
                    "move the database's files there, or drop it: it is loaded again; the login "
                    "needs VIEW ANY DEFINITION",
                )

    def _folders(self) -> dict[str, str]:
        return {
            option: str(self._options[option]).rstrip("/")
            for option in _FOLDERS
            if option in self._options
        }

    def _schema_name(self, key: str) -> str:
        """Databases in other folders are others."""
        text = " ".join(f"{option}={folder}" for option, folder in self._folders().items())
        place = f"-{hashlib.sha256(text.encode()).hexdigest()[:8]}" if text else ""
        return super()._schema_name(key + place)

    def lost_without_power(self) -> Mapping[str, str]:
        delayed = self.effective_config()["delayed_durability"]
        if delayed == "DISABLED":
            return {}
        return {
            f"delayed_durability={delayed}": "commits are acknowledged before they are in the log"
        }

    def data_bytes(self) -> int | None:
        """Size of tables and indexes in the database."""
        ((pages,),) = self._query("select sum(used_page_count) from sys.dm_db_partition_stats")
        return None if pages is None else int(str(pages)) * 8192

    def first_rows(self, sql: str, count: int) -> str:
        return f"SELECT TOP ({count}) * FROM (\n{sql.rstrip()}\n) found"

    def explain(self, connection: SqlConnection, sql: str) -> ExecutedPlan:
        assert isinstance(connection, SqlServerConnection)
        return explain(connection, sql)

    def wait_observer(self) -> WaitObserver:
        return SessionObserver(self.connect)

    def native_connection(self) -> JsonObject:
        login = self._dsn
        values = attributes(login, "host", "port", "user", "password", "ca")
        return {**values, "database": self._schema or login.database}

    def native_load(self, request: FillRequest) -> None:
        """As others; readers see row versions, as on other engines, and wait for no writer."""
        with self._server() as connection:
            _run(connection, f"alter database [{self._schema}] set read_committed_snapshot on")
        super().native_load(request)

    def _new_connection(self) -> SqlServerConnection:
        return SqlServerConnection(self._dsn, self._schema or "")

    def _new_monitor(self) -> CounterReader:
        return _Counters(self.connect())

    def _loader(self) -> Loader:
        return Loader(connect=self.connect, threads=self.threads)

    def _create(self, schema: str, mark: str) -> None:
        with self._server() as connection:
            _run(
                connection,
                f"create database [{schema}]{self._files_of(schema)} "
                "collate Latin1_General_100_BIN2",
            )
        self._set_mark(schema, mark)

    def _files_of(self, schema: str) -> str:
        """Clauses of a new database: where its files are."""
        clauses = {"data_folder": (" on primary", "mdf"), "log_folder": (" log on", "ldf")}
        texts = []
        for option, folder in self._folders().items():
            clause, ending = clauses[option]
            path = f"{folder}/{schema}.{ending}".replace("'", "''")
            texts.append(f"{clause} (name = '{schema}_{ending}', filename = '{path}')")
        return "".join(texts)

    def _set_mark(self, schema: str, mark: str) -> None:
        text = mark.replace("'", "''")
        with self._server(schema) as connection:
            _run(connection, f"create or alter view {_MARK} as select N'{text}' as mark")

    def _stored_mark(self, schema: str) -> str | None:
        with self._server() as connection:
            if not _rows(connection, "select 1 from sys.databases where name = %s", schema):
                return None
        with self._server(schema) as connection:
            if not _rows(connection, "select 1 from sys.views where name = %s", _MARK):
                return ""
            rows = _rows(connection, f"select mark from {_MARK}")
        return str(rows[0][0]) if rows else ""

    def _drop(self, schema: str, ours: Mapping[str, set[str]]) -> None:
        expected = {
            "user_table": ours["table"],
            "view": {_MARK},
            "sql_stored_procedure": ours["procedure"] | _OF_HAMMERDB,
        }
        with self._server(schema) as connection:
            others = [
                f"{kind} {name}"
                for kind, name in _rows(connection, _OBJECTS)
                if name.lower() not in expected.get(kind, ())
            ]
        if others:
            raise self._not_ours(schema, others)
        with self._server() as connection:
            _run(connection, f"drop database [{schema}]")

    def _lock(self) -> Callable[[], None]:
        """Lock, in a database that every login may enter; the lock ends with its session."""
        with self._raising():
            connection = self._dsn.connect("tempdb")
            try:
                ((result,),) = _rows(connection, _LOCK)
            except BaseException:
                connection.close()
                raise
        if result >= 0:
            release = "exec sp_releaseapplock @Resource = 'tierbench', @LockOwner = 'Session'"
            return partial(end_session, partial(_run, connection, release), connection.close)
        connection.close()
        raise self._locked("another session has the application lock 'tierbench' in tempdb")

    @property
    def _address(self) -> str:
        return self._dsn.address

    @contextmanager
    def _server(self, database: str = "") -> Iterator[Any]:
        """A connection for work on the harness's databases; RunFailed if it is not allowed."""
        with self._raising(), closing(self._dsn.connect(database)) as connection:
            yield connection

    @contextmanager
    def _raising(self) -> Iterator[None]:
        try:
            yield
        except ERRORS as error:
            raise RunFailed(
                f"SQL Server at {self._address}",
                str(error),
                "the login needs the server role dbcreator, and VIEW SERVER STATE for counters",
            ) from error


def _run(connection: Any, sql: str, *values: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)


def _rows(connection: Any, sql: str, *values: object) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return [tuple(row) for row in cursor.fetchall()]
