"""Bulk load of Parquet files; DuckDB runs each statement on all its threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from engines._loading import total_bytes, verify_counts
from harness.engine import SqlConnection
from harness.progress import Progress
from harness.sql_files import statements


def load(
    connection: SqlConnection,
    folder: Path,
    files: Mapping[str, Sequence[Path]],
    row_counts: Mapping[str, int],
    progress: Progress,
) -> None:
    """See BulkLoads.bulk_load; ``folder`` holds ``10_tables.sql`` and so on."""
    for statement in statements(folder, "10_tables"):
        connection.execute(statement)
    with progress.task("loading tables", total_bytes(files), "B") as task:
        for table, paths in files.items():
            names = ", ".join(_literal(path) for path in paths)
            connection.execute(f"INSERT INTO {table} SELECT * FROM read_parquet([{names}])")
            _verify_count(connection, table, row_counts)
            task.advance(sum(path.stat().st_size for path in paths), note=table)
    for stem in ("20_keys", "30_indexes", "40_foreign_keys", "50_analyze"):
        texts = statements(folder, stem)
        with progress.task(f"building {stem[3:].replace('_', ' ')}", total=len(texts)) as task:
            for statement in texts:
                connection.execute(statement)
                task.advance()
    connection.execute("CHECKPOINT")


def _verify_count(connection: SqlConnection, table: str, row_counts: Mapping[str, int]) -> None:
    found = connection.execute(f"SELECT count(*) FROM {table}").rows[0][0]
    verify_counts({table: int(str(found))}, {t: n for t, n in row_counts.items() if t == table})


def _literal(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
