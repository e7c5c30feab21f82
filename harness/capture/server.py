"""Schema, data and weights of statements from a running PostgreSQL, by a role that only reads.

The user's own pg_dump dumps, or sample.py reads a part of the rows; nothing on the server is
changed or set. The password is in the environment of that program, never in its arguments.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from harness.capture.classes import class_text
from harness.capture.replay_file import APPLICATION
from harness.capture.sample import SampledTable, write_sample
from harness.errors import RunFailed, UsageError
from harness.progress import Progress, SilentProgress
from harness.supervise import programs, workdirs
from harness.supervise.own_files import made_folder, make_own
from harness.units import format_ns

#: Names of a folder of harness.workloads.sql, and the file of the weights.
_TABLES, _LOAD, WEIGHTS = "tables.sql", "load", "weights.csv"
_ENVIRONMENT = "HARNESS_DSN"
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


@dataclass(frozen=True)
class ServerCapture:
    """What was written. ``sample``: the tables, where not all rows were."""

    files: list[Path]
    sample: list[SampledTable]


def capture_server(
    folder: Path,
    dsn: str,
    for_s: float = 0.0,
    share: float | None = None,
    progress: Progress | None = None,
) -> ServerCapture:
    """Write ``tables.sql``, ``load/`` and, if the server counts statements, ``weights.csv``.

    All of them or, where it fails or is interrupted, none. ``dsn``: ``env`` for ``$HARNESS_DSN``.
    ``for_s``: how long statements are counted, after the dump; 0: since the server began to.
    ``share``: of the rows, with those that they refer to; None: all rows.
    """
    progress = progress or SilentProgress()
    login = _login(dsn)
    program = shutil.which("pg_dump")
    if program is None:
        raise UsageError(
            "capture with pg_dump", "not on the PATH", "apt-get install postgresql-client"
        )
    rows = Path(_LOAD, f"{login.database}.sql")
    for path in (folder / _TABLES, folder / rows):
        if path.exists():
            raise UsageError(f"{path}", "it exists", "name a new folder")
    if _weights(login) is None and for_s:
        raise UsageError(
            f"--for {format_ns(int(for_s * 1e9))}",
            "the server has no pg_stat_statements for this role",
            "CREATE EXTENSION pg_stat_statements, or leave --for out",
        )
    with made_folder(folder), workdirs.temporary(folder, ".capture") as scratch:
        (scratch / _LOAD).mkdir()
        schema = ("--schema-only", "--no-owner", "--no-privileges")
        _dump(program, login, schema, scratch / _TABLES, progress)
        sample: list[SampledTable] = []
        if share is None:
            _dump(program, login, ("--data-only",), scratch / rows, progress)
        else:
            sample = _sampled(login, share, scratch, scratch / rows, progress)
        if counted := _counted(login, for_s, progress):
            _write_weights(scratch / WEIGHTS, counted)
        files = [path for path in (_TABLES, rows, WEIGHTS) if (scratch / path).exists()]
        make_own(folder / _LOAD)
        return ServerCapture([(scratch / path).rename(folder / path) for path in files], sample)


def _counted(login: _Login, for_s: float, progress: Progress) -> list[_Weight]:
    """Statements that the server counts in a time; 0: those that it has counted."""
    before = (_weights(login) or {}) if for_s else {}
    begun_s, passed_s = time.monotonic(), 0.0
    with progress.task("count statements", for_s, "s") as task:
        while passed_s < for_s:
            time.sleep(min(_STEP_S, for_s - passed_s))
            step_s = time.monotonic() - begun_s - passed_s
            passed_s += step_s
            task.advance(step_s)
    return [
        replace(weight, calls=weight.calls - old.calls, total_ms=weight.total_ms - old.total_ms)
        for text, weight in (_weights(login) or {}).items()
        for old in [before.get(text, _Weight(text, 0, 0.0))]
        if weight.calls > old.calls
    ]


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


def _weights(login: _Login) -> dict[str, _Weight] | None:
    """Statements as the server counts them; None where it does not, or the role may not read."""
    rows = _rows(login)
    if rows is None:
        return None
    excluded = {class_text(text, "postgres") for text in (_READ_ONLY, _WEIGHTS)}
    totals: dict[str, _Weight] = {}
    for query, calls, total_ms in rows:
        text = class_text(str(query), "postgres")
        if text in excluded:
            continue
        before = totals.get(text, _Weight(text, 0, 0.0))
        totals[text] = _Weight(text, before.calls + int(calls), before.total_ms + float(total_ms))
    return totals


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


def _write_weights(path: Path, weights: Sequence[_Weight]) -> None:
    total_ms = sum(weight.total_ms for weight in weights)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["calls", "total_ms", "share", "statement"])
        for weight in sorted(weights, key=lambda weight: -weight.total_ms):
            share = weight.total_ms / total_ms if total_ms else 0.0
            row = [weight.calls, f"{weight.total_ms:.3f}", f"{share:.4f}", weight.text]
            writer.writerow(row)
