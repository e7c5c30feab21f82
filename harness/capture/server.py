"""Schema, data and weights of statements from a running PostgreSQL, by a role that only reads.

The user's own pg_dump dumps; nothing on the server is changed or set. The password is in the
environment of that program, never in its arguments.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from harness.capture.classes import class_text
from harness.errors import RunFailed, UsageError
from harness.supervise import programs
from harness.supervise.own_files import make_own

#: Names of a folder of harness.workloads.sql, and the file of the weights.
_TABLES, _LOAD, WEIGHTS = "tables.sql", "load", "weights.csv"
_ENVIRONMENT = "HARNESS_DSN"
_SECRETS = ("password", "sslpassword")
_CONNECT_S = 10
_WEIGHTS = """
    SELECT query, calls, total_exec_time FROM pg_stat_statements
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_NOT_COUNTED = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.ObjectNotInPrerequisiteState,
)


@dataclass(frozen=True)
class _Weight:
    """A class of statements as the server counts it."""

    text: str
    calls: int
    total_ms: float


@dataclass(frozen=True)
class _Login:
    """``public``: what names the server and the database, without a secret."""

    database: str
    password: str
    public: str
    whole: str


def capture_server(folder: Path, dsn: str, for_s: float = 0.0) -> list[Path]:
    """Write ``tables.sql``, ``load/`` and, if the server counts statements, ``weights.csv``.

    ``dsn``: ``env`` for ``$HARNESS_DSN``. ``for_s``: how long statements are counted; 0: since the
    server began to.
    """
    login = _login(dsn)
    program = shutil.which("pg_dump")
    if program is None:
        raise UsageError(
            "capture with pg_dump", "not on the PATH", "apt-get install postgresql-client"
        )
    schema, rows = folder / _TABLES, folder / _LOAD / f"{login.database}.sql"
    for path in (schema, rows):
        if path.exists():
            raise UsageError(f"{path}", "it exists", "name a new folder")
    before = _weights(login) if for_s else {}
    make_own(folder / _LOAD)
    _dump(program, login, ("--schema-only", "--no-owner", "--no-privileges"), schema)
    _dump(program, login, ("--data-only",), rows)
    time.sleep(for_s)
    counted = [
        replace(weight, calls=weight.calls - old.calls, total_ms=weight.total_ms - old.total_ms)
        for text, weight in _weights(login).items()
        for old in [before.get(text, _Weight(text, 0, 0.0))]
        if weight.calls > old.calls
    ]
    if not counted:
        return [schema, rows]
    _write_weights(folder / WEIGHTS, counted)
    return [schema, rows, folder / WEIGHTS]


def _login(dsn: str) -> _Login:
    text = os.environ.get(_ENVIRONMENT, "") if dsn == "env" else dsn
    if not text:
        raise UsageError("--dsn env", f"${_ENVIRONMENT} is not set", f"export {_ENVIRONMENT}=…")
    try:
        parameters = {name: str(value) for name, value in conninfo_to_dict(text).items()}
    except psycopg.Error as error:
        raise UsageError(
            "--dsn", "not a DSN of libpq", "write postgresql://user@host/db"
        ) from error
    if dsn != "env" and any(name in parameters for name in _SECRETS):
        raise UsageError(
            "--dsn",
            "it contains a password, which other users of this host can see",
            f"export it as {_ENVIRONMENT} and use --dsn env",
        )
    if "dbname" not in parameters:
        raise UsageError("--dsn", "it names no database", "write postgresql://user@host/db")
    public = {name: value for name, value in parameters.items() if name not in _SECRETS}
    whole = {**parameters, "connect_timeout": str(_CONNECT_S)}
    return _Login(
        parameters["dbname"],
        parameters.get("password", ""),
        make_conninfo("", **public),
        make_conninfo("", **whole),
    )


def _dump(program: str, login: _Login, options: Sequence[str], path: Path) -> None:
    """Write a dump, private and as a whole; RunFailed with the program's words."""
    environment = programs.inherited(["HOME", *(n for n in os.environ if n.startswith("PG"))])
    if login.password:
        environment["PGPASSWORD"] = login.password
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with closing(os.fdopen(descriptor, "wb")) as stream:
        command = [program, "--no-password", *options, f"--dbname={login.public}"]
        dump = programs.start(command, env=environment, stdout=stream, stderr=subprocess.PIPE)
        try:
            errors = dump.communicate()[1]
        finally:
            programs.end(dump)
    if dump.returncode:
        partial.unlink()
        words = errors.decode(errors="replace").strip()[-500:]
        raise RunFailed(f"pg_dump of {login.database}", words)
    partial.rename(path)


def _weights(login: _Login) -> dict[str, _Weight]:
    """Statements as the server counts them; none where it does not, or the role may not read."""
    totals: dict[str, _Weight] = {}
    for query, calls, total_ms in _rows(login):
        text = class_text(str(query), "postgres")
        before = totals.get(text, _Weight(text, 0, 0.0))
        totals[text] = _Weight(text, before.calls + int(calls), before.total_ms + float(total_ms))
    return totals


def _rows(login: _Login) -> list[tuple[Any, ...]]:
    try:
        with psycopg.connect(login.whole, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = on")
            try:
                return list(connection.execute(_WEIGHTS))
            except _NOT_COUNTED:
                return []
    except psycopg.Error as error:
        raise UsageError(
            f"capture {login.database}",
            str(error).strip(),
            "check the DSN, the server and the rights of its user",
        ) from error


def _write_weights(path: Path, weights: Sequence[_Weight]) -> None:
    total_ms = sum(weight.total_ms for weight in weights)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["calls", "total_ms", "share", "statement"])
        for weight in sorted(weights, key=lambda weight: -weight.total_ms):
            share = weight.total_ms / total_ms if total_ms else 0.0
            row = [weight.calls, f"{weight.total_ms:.3f}", f"{share:.4f}", weight.text]
            writer.writerow(row)
