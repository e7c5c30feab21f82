"""The data of a user's folder: copied, rewritten for an engine's loader, loaded.

What a folder contains is decided when it is checked (folder.py); the source data are a copy whose
digests are those. They may be secret: only root and the servers' user can read them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness import jsonfile
from harness.engine import Engine, LoadRequest
from harness.errors import RunFailed, UsageError
from harness.experiment.placement import Part
from harness.progress import Progress
from harness.sql_script import dumped, write_statements
from harness.store.datasets import SOURCE_RECORD, source_record
from harness.store.documents import write_json_atomically
from harness.supervise import programs
from harness.supervise.credentials import unprivileged
from harness.supervise.silence import VARIABLE, limit_s
from harness.supervise.user_files import Credentials, make_directory, remove_tree, take_over
from harness.units import MIB
from harness.workloads.sql.convert import Conversion
from harness.workloads.sql.folder import (
    DUMP,
    LOAD,
    SqlFolder,
    opened_file,
    read_folder,
)
from harness.workloads.sql.schema import read_schema

_SCHEMA, _ROWS, _COPIES = "schema", "rows", "copies"
_BLOCK = 1 << 20
#: A line that may be a command of a client, not one of those in rows of COPY and in dumps, or that
#: may name a database or a file.
_COMMAND = re.compile(
    rb"\n(?:\xef\xbb\xbf)?[ \t]*(?:\\(?!N|\.|\\|(?:un)?restrict\b)|(?i:use\s|load\s|source\s"
    rb"|import\s|create\s+(?:database|schema)\b|copy\b[^\n]*\bfrom\s+(?!stdin)))"
)
_LONGEST_COMMAND = 256


@dataclass(frozen=True)
class SqlSource:
    """Source data: the folder of the schema, files of rows by table, dumps."""

    schema: Path
    files: Mapping[str, tuple[Path, ...]]
    dumps: tuple[Path, ...]


def check_loadable(folder: SqlFolder, engine: Engine) -> None:
    """UsageError where the engine cannot load the folder."""
    if engine.load_format is None:
        raise UsageError(
            f"folder {folder.path} on {engine.name}",
            "the engine has no bulk load",
            "choose another engine",
        )
    if engine.kind == "external":
        raise UsageError(
            f"folder {folder.path} on an external server",
            "its statements could change other data of that server",
            "leave --dsn out: the harness starts a server of its own",
        )
    dumps = [file.name for file in folder.load if file.format == DUMP]
    if dumps and not engine.loads_dumps:
        raise UsageError(
            f"{folder.path}/{LOAD}/{dumps[0]}",
            f"{engine.name} loads no dumps",
            "export the tables as CSV or Parquet",
        )
    databases = read_schema(folder, engine).databases
    for name in dumps:
        digest = folder.digests[f"{LOAD}/{name}"]
        databases = _check_dump(folder.path, name, digest, engine.backslash_escapes, databases)


@cache
def _check_dump(
    path: Path, name: str, digest: str, backslash: bool, databases: frozenset[str]
) -> frozenset[str]:
    """UsageError for what a dump must not do; returns ``databases`` with the one that it names.

    It is read once as long as it is the same, and parsed only where a line may be a command or
    name a database: dumps may be large.
    """
    problem, names = f"{path}/{LOAD}/{name}", {*databases}
    with opened_file(path, f"{LOAD}/{name}") as stream:
        last, suspicious = b"\n", False
        while not suspicious and (block := stream.read(_BLOCK)):
            suspicious = _COMMAND.search(last + block) is not None
            last = block[-_LONGEST_COMMAND:]
        if suspicious:
            stream.seek(0)
            lines = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="\n")
            for statement in dumped(lines, backslash, problem, names):
                for _ in statement.rows or ():
                    pass
    return frozenset(names)


def source_name(data_digest: str, engine: Engine) -> str:
    """``sql-0123456789abcdef-csv``, of the digest of the data."""
    style = "-backslash" if engine.backslash_escapes else ""
    return f"sql-{data_digest}-{engine.load_format}{style}"


def source_bytes(load_bytes: int) -> int:
    """Upper estimate of what :func:`generate` writes: a copy of the files, and another form."""
    return MIB + 4 * load_bytes


def estimate_bytes(load_bytes: int) -> dict[Part, int]:
    """Upper estimate of the bytes in each part.

    Compressed Parquet grows several times in rows of a server; no estimate knows by how much.
    """
    fixed = 64 * MIB
    return {
        "data": fixed + 4 * load_bytes,
        "index": 2 * load_bytes,
        "wal": fixed + load_bytes,
        "temp": fixed + load_bytes,
    }


def generate(
    path: Path, data_digest: str, engine: Engine, target: Path, progress: Progress
) -> None:
    """Copy what the folder loads into ``target`` and rewrite it as the engine loads it.

    RunFailed where the folder no longer has the data of that digest, or a file is malformed.
    """
    folder, user = read_folder(path), unprivileged()
    if folder.data_digest != data_digest:
        raise _changed(path)
    for name in (_SCHEMA, _ROWS, _COPIES):
        _make_private(target / name, user)
    schema = read_schema(folder, engine)
    for stage, statements in schema.stages.items():
        write_statements(target / _SCHEMA, stage, statements)
    copied_bytes = sum(file.size_bytes for file in folder.load)
    with progress.task(f"copy {path.name}", copied_bytes, "B") as task:
        for file in folder.load:
            copy = target / (_ROWS if file.format == DUMP else _COPIES) / file.name
            if (
                _copied(path, f"{LOAD}/{file.name}", copy, user)
                != folder.digests[f"{LOAD}/{file.name}"]
            ):
                raise _changed(path)
            task.advance(file.size_bytes, note=file.name)
    files: dict[str, list[str]] = {table: [] for table in schema.tables}
    conversions: list[Conversion] = []
    for table, listed in schema.files.items():
        for file in listed:
            name = f"{file.name}.{engine.load_format}"
            files[table].append(name)
            copy = target / _COPIES / file.name
            conversions.append(Conversion(copy, name, schema.tables[table]))
    _convert(conversions, engine, target / _ROWS, user, progress)
    remove_tree(target / _COPIES)
    dumps = [file.name for file in folder.load if file.format == DUMP]
    write_json_atomically(target / SOURCE_RECORD, {"files": files, "dumps": dumps})


def read_source(folder: Path) -> SqlSource:
    """Read what :func:`generate` made in ``folder``; RunFailed if it has changed since."""
    record = source_record(folder)
    rows = folder / _ROWS
    files = {
        table: tuple(rows / name for name in names) for table, names in record["files"].items()
    }
    return SqlSource(folder / _SCHEMA, files, tuple(rows / name for name in record["dumps"]))


def load(source: Path | None, engine: Engine, progress: Progress) -> None:
    """Load the source data into the started, empty engine."""
    if source is None:
        raise RunFailed("load the folder", "its source data are not there", "run again")
    made = read_source(source)
    engine.bulk_load(LoadRequest(made.schema, made.files, {}, progress, made.dumps))
    if made.dumps and len(empty_tables(engine, made.files)) == len(made.files):
        raise RunFailed(
            f"load {', '.join(dump.name for dump in made.dumps)}",
            "all tables are empty afterwards",
            "the dumps have no rows, or put them into other tables than those of tables.sql",
        )


def empty_tables(engine: Engine, tables: Iterable[str]) -> list[str]:
    """Return the tables that have no row."""
    with closing(engine.connect()) as connection:
        return [t for t in tables if not connection.execute(f"SELECT 1 FROM {t} LIMIT 1").rows]


def _changed(path: Path) -> RunFailed:
    return RunFailed(
        f"copy {path}", "its files changed after they were checked", "run again when they rest"
    )


def _make_private(folder: Path, user: Credentials | None) -> None:
    """A directory of ours that only the servers' user can enter besides."""
    make_directory(folder, None, 0o700)
    if user is not None:
        os.chown(folder, -1, user.gid)
        folder.chmod(0o750)


def _copied(path: Path, name: str, target: Path, user: Credentials | None) -> str:
    """Copy one file of the folder; returns the digest of the copy."""
    digest = hashlib.blake2b(digest_size=16)
    with opened_file(path, name) as reader, target.open("xb") as writer:
        while block := reader.read(_BLOCK):
            digest.update(block)
            writer.write(block)
        os.fchmod(writer.fileno(), 0o640)
        if user is not None:
            os.fchown(writer.fileno(), -1, user.gid)
    return digest.hexdigest()


def _convert(
    conversions: Sequence[Conversion],
    engine: Engine,
    target: Path,
    user: Credentials | None,
    progress: Progress,
) -> None:
    """Rewrite each copy as a file in ``target``, in a process of the servers' user.

    Nothing that the process leaves but regular files becomes ours.
    """
    if not conversions:
        return
    folder = target.parent / "converting"
    make_directory(folder, None)
    if user is not None:
        os.chown(folder, user.uid, user.gid)
    request = {
        "user": None if user is None else [user.uid, user.gid],
        "folder": str(folder),
        "zones": not engine.backslash_escapes,
        "files": [conversion.to_json() for conversion in conversions],
    }
    with progress.task("rewriting files", len(conversions)) as task:
        for number, line in enumerate(_run(request)):
            if "error" in line:
                words = [text for text in str(line["error"]).splitlines() if text.strip()]
                raise RunFailed(
                    f"read {LOAD}/{conversions[number].source.name}",
                    "; ".join(words[:3]),
                    str(line["hint"]),
                )
            task.advance(note=conversions[number].source.name)
    try:
        take_over(folder, user)
        for name in (conversion.name for conversion in conversions):
            if (made := folder / name).is_symlink() or not made.is_file():
                raise OSError(f"{name} is not a regular file")
            if user is not None:
                os.chown(made, -1, user.gid)
            made.chmod(0o640)
            made.rename(target / name)
    except OSError as error:
        raise RunFailed("rewrite files", str(error), "run again") from error
    remove_tree(folder)


def _run(request: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yield a line for each file that is done, or for the error that ended it."""
    command = [sys.executable, "-X", "utf8", "-m", "harness.workloads.sql.convert"]
    limit = limit_s("load")
    try:
        for text in programs.lines(command, stdin=json.dumps(request), limit_s=limit):
            yield jsonfile.parse(text)
    except subprocess.TimeoutExpired as error:
        raise RunFailed(
            "rewrite files",
            f"no file was finished within {limit:g} s, the limit; the process was killed",
            f"raise the limit: {VARIABLE}=load=SECONDS",
        ) from error
    except subprocess.CalledProcessError as error:
        words = error.stderr.strip()[-2000:]
        raise RunFailed("rewrite files", f"exit status {error.returncode}: {words}") from error
