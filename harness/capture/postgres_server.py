"""A running PostgreSQL: the user's own pg_dump dumps, or sample.py reads a part of the rows.

The password is in the environment of that program, never in its arguments.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from harness.capture.postgres_sample import write_sample
from harness.capture.replay_file import APPLICATION
from harness.capture.sample import SampledTable
from harness.capture.weights import Weight, by_class
from harness.dsn import option_text, refuse_password
from harness.errors import RunFailed, UsageError
from harness.progress import Progress
from harness.supervise import programs

_SECRETS = ("password", "sslpassword")
_CONNECT_S = 10
#: Progress is shown so often.
_STEP_S = 0.5
_WEIGHTS = """
    SELECT query, calls, total_exec_time FROM pg_stat_statements
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_READ_ONLY = "SET default_transaction_read_only = on"
_NOT_COUNTED = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.ObjectNotInPrerequisiteState,
)


@dataclass(frozen=True)
class _Login:
    """``public``: what names the server and the database, without a secret."""

    database: str
    password: str
    public: str
    whole: str


class PostgresServer:
    """A database of a PostgreSQL. ``dsn``: of libpq."""

    counter: ClassVar[tuple[str, str]] = (
        "pg_stat_statements",
        "CREATE EXTENSION pg_stat_statements",
    )

    def __init__(self, dsn: str) -> None:
        self._login = _login(dsn)
        self.database = self._login.database
        self._program = shutil.which("pg_dump") or ""
        if not self._program:
            raise UsageError(
                "capture with pg_dump", "not on the PATH", "apt-get install postgresql-client"
            )

    def weights(self) -> dict[str, Weight] | None:
        """Return statements as the server counts them; None where it does not for this role."""
        rows = _rows(self._login)
        if rows is None:
            return None
        counted = ((str(query), int(calls), float(ms)) for query, calls, ms in rows)
        return by_class(counted, "postgres", (_READ_ONLY, _WEIGHTS))

    def write(
        self, tables: Path, rows: Path, share: float | None, progress: Progress
    ) -> list[SampledTable]:
        """Write schema and rows; of a sample, return its tables."""
        schema = ("--schema-only", "--no-owner", "--no-privileges")
        _dump(self._program, self._login, schema, tables, progress)
        if share is not None:
            return _sampled(self._login, share, tables.parent, rows, progress)
        _dump(self._program, self._login, ("--data-only",), rows, progress)
        return []


def _login(dsn: str) -> _Login:
    text = option_text(dsn)
    try:
        parameters = {name: str(value) for name, value in conninfo_to_dict(text).items()}
    except psycopg.Error as error:
        raise UsageError(
            "--dsn", "not a DSN of libpq", "write postgresql://user@host/db"
        ) from error
    refuse_password(dsn, any(name in parameters for name in _SECRETS))
    if "dbname" not in parameters:
        raise UsageError("--dsn", "it names no database", "write postgresql://user@host/db")
    parameters["application_name"] = APPLICATION
    public = {name: value for name, value in parameters.items() if name not in _SECRETS}
    whole = {**parameters, "connect_timeout": str(_CONNECT_S)}
    return _Login(
        parameters["dbname"],
        parameters.get("password", ""),
        make_conninfo("", **public),
        make_conninfo("", **whole),
    )


def _dump(
    program: str, login: _Login, options: Sequence[str], path: Path, progress: Progress
) -> None:
    """Write a private dump; RunFailed with the program's words."""
    environment = programs.inherited(["HOME", *(n for n in os.environ if n.startswith("PG"))])
    if login.password:
        environment["PGPASSWORD"] = login.password
    command = [program, "--no-password", *options, f"--dbname={login.public}"]
    with (
        open(path, "xb", opener=_private) as stream,
        progress.task(f"pg_dump {options[0]}", unit="B") as task,
    ):
        dump = programs.start(command, env=environment, stdout=stream, stderr=subprocess.PIPE)
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    errors = dump.communicate(timeout=_STEP_S)[1]
                    break
                task.advance(path.stat().st_size - task.done)
        finally:
            programs.end(dump)
    if dump.returncode:
        words = errors.decode(errors="replace").strip()[-500:]
        raise RunFailed(f"pg_dump of {login.database}", words)


def _sampled(
    login: _Login, share: float, scratch: Path, path: Path, progress: Progress
) -> list[SampledTable]:
    try:
        with (
            psycopg.connect(login.whole) as connection,
            open(path, "xb", opener=_private) as stream,
        ):
            return write_sample(connection, share, scratch, stream, progress)
    except psycopg.Error as error:
        raise RunFailed(f"sample of {login.database}", str(error).strip()) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _rows(login: _Login) -> list[tuple[Any, ...]] | None:
    try:
        with psycopg.connect(login.whole, autocommit=True) as connection:
            connection.execute(_READ_ONLY)
            try:
                return list(connection.execute(_WEIGHTS))
            except _NOT_COUNTED:
                return None
    except psycopg.Error as error:
        raise UsageError(
            f"capture {login.database}",
            str(error).strip(),
            "check the DSN, the server and the rights of its user",
        ) from error
