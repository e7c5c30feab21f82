"""A running MySQL or MariaDB: its tables, views and triggers, and rows of one snapshot.

Both are read by statements, so that no client program of the right release is needed. The dump is
written in the form of mysqldump's, rows as INSERT statements.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pymysql
from pymysql.converters import escape_string

from harness.capture.mysql_rows import quoted, rows_of, write_rows
from harness.capture.mysql_sample import write_sample
from harness.capture.sample import SampledTable
from harness.capture.weights import Weight, by_class
from harness.dsn import DsnUrl, option_text, refuse_password
from harness.errors import RunFailed, UsageError
from harness.progress import Progress

_FORM = "write mysql://user@host/database, or mysql://user@/database?socket=/run/mysqld/mysqld.sock"
_PORT, _CONNECT_S = 3306, 10
#: Values of the session in which a dump is made, and which it sets where it is read.
_SESSION = "SET SESSION time_zone = '+00:00', sql_mode = '', sql_quote_show_create = 1"
_HEADER = b"""/*!40101 SET NAMES utf8mb4 */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
"""
_SNAPSHOT = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)
_TABLES = """
    SELECT table_name, table_type, coalesce(table_rows, 0) FROM information_schema.tables
    WHERE table_schema = DATABASE() ORDER BY table_name
"""
_COLUMNS = """
    SELECT column_name FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = '{table}'
        AND coalesce(generation_expression, '') = ''
    ORDER BY ordinal_position
"""
_TRIGGERS = """
    SELECT trigger_name FROM information_schema.triggers
    WHERE trigger_schema = DATABASE() ORDER BY event_object_table, action_order
"""
_WEIGHTS = """
    SELECT digest_text, count_star, sum_timer_wait / 1e9
    FROM performance_schema.events_statements_summary_by_digest
    WHERE schema_name = DATABASE() AND digest_text IS NOT NULL
"""
_WITH_ROWS = ("BASE TABLE", "SYSTEM VERSIONED")
#: Errors of a table that there is not, or that the role may not read.
_NOT_COUNTED = (1142, 1044, 1146, 1049)


class MySqlServer:
    """A database of a MySQL or MariaDB."""

    counter: ClassVar[tuple[str, str]] = (
        "performance_schema",
        "start it with performance_schema=ON, GRANT SELECT",
    )

    def __init__(self, dsn: str) -> None:
        text = option_text(dsn)
        url = DsnUrl.of(text, "--dsn", _FORM, ("mysql", "mariadb"), ("socket", "ssl-ca"))
        refuse_password(dsn, bool(url.password))
        if bool(url.parameters.get("socket")) == bool(url.host):
            raise UsageError("--dsn", "it must name either a host or a socket", _FORM)
        if not url.database:
            raise UsageError("--dsn", "it names no database", _FORM)
        self._url = url
        self.database = url.database

    def weights(self) -> dict[str, Weight] | None:
        """Return statements as the server counts them; None where it does not for this role."""
        with self._connected(UsageError) as connection:
            if not rows_of(connection, "SELECT @@performance_schema")[0][0]:
                return None
            try:
                rows = rows_of(connection, _WEIGHTS)
            except pymysql.Error as error:
                if error.args[0] in _NOT_COUNTED:
                    return None
                raise
        counted = ((str(text), int(calls), float(ms)) for text, calls, ms in rows)
        return by_class(counted, "mysql", (_WEIGHTS,))

    def write(
        self, tables: Path, rows: Path, share: float | None, progress: Progress
    ) -> list[SampledTable]:
        """Write schema and rows of one snapshot; of a sample, return its tables."""
        with self._connected(RunFailed) as connection:
            for statement in (_SESSION, *_SNAPSHOT):
                rows_of(connection, statement)
            tables_and_views = rows_of(connection, _TABLES)
            with_rows = {
                name: float(count) for name, kind, count in tables_and_views if kind in _WITH_ROWS
            }
            views = [name for name, kind, _ in tables_and_views if kind == "VIEW"]
            with open(tables, "xb", opener=_private) as stream:
                stream.write(_HEADER)
                for name in with_rows:
                    stream.write(f"{_created(connection, 'TABLE', name)};\n\n".encode())
                for text in _in_order({v: _created(connection, "VIEW", v) for v in views}):
                    stream.write(f"{text};\n\n".encode())
                for (name,) in rows_of(connection, _TRIGGERS):
                    text = _created(connection, "TRIGGER", name)
                    stream.write(f"DELIMITER ;;\n{text} ;;\nDELIMITER ;\n\n".encode())
            with open(rows, "xb", opener=_private) as stream:
                stream.write(_HEADER)
                if share is not None:
                    scratch = tables.parent
                    return write_sample(connection, with_rows, share, scratch, stream, progress)
                for name, count in with_rows.items():
                    query = _COLUMNS.format(table=escape_string(name))
                    columns = [quoted(column) for (column,) in rows_of(connection, query)]
                    if columns:
                        with progress.task(f"read {name}", count or 1.0, "rows") as task:
                            for number in write_rows(connection, quoted(name), columns, stream):
                                task.advance(number)
        return []

    @contextmanager
    def _connected(self, refusal: type[UsageError | RunFailed]) -> Iterator[Any]:
        url, tls = self._url, dict[str, Any]()
        if ca := url.parameters.get("ssl-ca"):
            tls = {"ssl_ca": ca, "ssl_verify_cert": True, "ssl_verify_identity": True}
        try:
            connection = pymysql.connect(
                unix_socket=url.parameters.get("socket"),
                host=url.host or None,
                port=url.port or _PORT,
                user=url.user,
                password=url.password,
                database=url.database,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=_CONNECT_S,
                conv={},  # values as the server writes them
                **tls,
            )
            with connection:
                yield connection
        except (pymysql.Error, OSError) as error:
            raise refusal(
                f"capture {self.database}",
                str(error.args[-1] if error.args else error),
                "check the DSN, the server and the rights of its user",
            ) from error


def _created(connection: Any, kind: str, name: str) -> str:
    """Return the statement that creates a table, a view or a trigger."""
    (row,) = rows_of(connection, f"SHOW CREATE {kind} {quoted(name)}")
    return str(row[2 if kind == "TRIGGER" else 1])


def _in_order(views: dict[str, str]) -> Iterator[str]:
    """Yield views after those that they read."""
    left = dict(views)
    while left:
        ready = [
            name
            for name, text in left.items()
            if not any(quoted(other) in text for other in left if other != name)
        ]
        for name in ready or [*left]:
            yield left.pop(name)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
