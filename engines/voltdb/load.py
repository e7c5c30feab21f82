"""Loading: tables, rows by the native client, then the procedures, compiled from their sources."""

from __future__ import annotations

import hashlib
import io
import stat
import zipfile
from pathlib import Path

from engines._loading import verify_counts
from engines._programs import compile_java
from engines.voltdb.installation import Installation
from engines.voltdb.wire import VoltDbConnection
from harness.engine import EngineContext, FillRequest
from harness.sql_files import statements
from harness.store.spec import JsonObject
from harness.supervise.user_files import read_bytes, walk

_SOURCES = Path(__file__).parent / "java" / "procedures"
#: Names of types as the server's catalog has them, and as its wire protocol does.
_TYPES = {
    "TINYINT": 3,
    "SMALLINT": 4,
    "INTEGER": 5,
    "BIGINT": 6,
    "FLOAT": 8,
    "VARCHAR": 9,
    "TIMESTAMP": 11,
    "DECIMAL": 22,
}


def procedures_digest() -> str:
    """Digest of the procedures' sources: data that were loaded with others are not used."""
    digest = hashlib.sha256()
    for file in _sources():
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def load(
    connection: VoltDbConnection,
    context: EngineContext,
    installation: Installation,
    folder: Path,
    request: FillRequest,
    native: JsonObject,
) -> None:
    """See Engine.native_load. ``native``: the client's connection, without the tables."""
    _define(connection, folder, "10_tables")
    stored = request.fill({**native, "tables": _tables(connection)})
    verify_counts(stored, request.row_counts, "load again; the server's log may have the reason")
    with request.progress.task("building indexes and procedures", total=None):
        _define(connection, folder, "30_indexes")
        connection.call("@UpdateClasses", _compiled(context, installation), "")
        for file in sorted((folder / "procedures").glob("*.sql")):
            _define(connection, file.parent, file.stem)


def _define(connection: VoltDbConnection, folder: Path, stem: str) -> None:
    """All statements of a file in one call: each call changes the catalog."""
    if texts := statements(folder, stem):
        connection.call("@AdHoc", ";\n".join(texts))


def _tables(connection: VoltDbConnection) -> dict[str, list[tuple[str, int, bool]]]:
    """Columns of each table in order: name, type, whether it is partitioned by it."""
    tables: dict[str, list[tuple[int, str, int, bool]]] = {}
    for row in connection.call("@SystemCatalog", "COLUMNS").tables[0].records():
        table, name = str(row["table_name"]).lower(), str(row["column_name"]).lower()
        kind = _TYPES[str(row["type_name"])]
        partitioning = row["remarks"] == "PARTITION_COLUMN"
        position = int(str(row["ordinal_position"]))
        tables.setdefault(table, []).append((position, name, kind, partitioning))
    return {table: [column[1:] for column in sorted(columns)] for table, columns in tables.items()}


def _sources() -> list[Path]:
    return sorted(_SOURCES.rglob("*.java"))


def _compiled(context: EngineContext, installation: Installation) -> bytes:
    """A jar of the procedures, compiled as the server's user."""
    server = installation.folder / "lib" / f"voltdb-{installation.version}.jar"
    title = f"the procedures for {installation.title}"
    folder = compile_java(context, title, installation.java, str(server), _sources())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as jar:
        for path, facts in walk([folder], context.credentials):
            if stat.S_ISREG(facts.st_mode):
                jar.writestr(str(path.relative_to(folder)), read_bytes(path, context.credentials))
    return packed.getvalue()
