"""Loading TPC-H into PostgreSQL: the harness against a hand-written parallel load.

    .venv/bin/python benchmarks/load_postgres.py --scale 1 --pairs 3

Both arms start from an empty cluster of the same binaries with the same loading settings
(wal_level minimal, fsync off while loading), read the same CSV files on the server's
side, and end with the same schema, keys, indexes, foreign keys, statistics, everything
on the device and the server restarted with its ordinary settings. The hand-written arm is
what a good administrator would write: psql commands, as many at a time as there are
processors, largest table first, COPY FREEZE in the transaction that truncates.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from loading import SMALL, arguments, compare
from smoke import parsed

from engines.postgres.engine import ManagedPostgres
from engines.postgres.load import loading_settings
from harness.sql_files import statements


def by_hand(engine: ManagedPostgres, tables: dict[str, list[Path]], threads: int) -> None:
    """psql processes, ``threads`` at a time."""
    engine.restart_for_loading(loading_settings(threads, None))
    folder = engine.sql_folder / "tpch"
    for statement in statements(folder, "10_tables"):
        at_a_time(engine, [statement], 1)
    at_a_time(engine, [_copy(table, paths) for table, paths in tables.items()], threads)
    for name in ("20_keys", "30_indexes", "40_foreign_keys", "50_analyze"):
        at_a_time(engine, statements(folder, name), threads)
    engine.restart_for_use()


def _copy(table: str, paths: Sequence[Path]) -> str:
    copies = "".join(
        f"COPY {table} FROM '{path}' WITH (FORMAT csv, HEADER, FREEZE);\n" for path in paths
    )
    return f"BEGIN;\nTRUNCATE {table};\n{copies}COMMIT;\n"


def at_a_time(engine: ManagedPostgres, scripts: Sequence[str], threads: int) -> None:
    """Run psql on each script, ``threads`` of them at any time."""
    command = [
        str(engine._installation.bin / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1",
        "-h", str(engine._context.scratch), "-U", "harness", "-d", "harness", "-f", "-",
    ]  # fmt: skip
    with engine._open() as connection:
        info = connection.info
        command[command.index("-U") + 1] = info.user
        command[command.index("-d") + 1] = info.dbname
        environment = {**os.environ, "PGPASSWORD": info.password}

    def run(script: str) -> None:
        subprocess.run(
            command, input=script.encode(), stdout=subprocess.DEVNULL, env=environment, check=True
        )

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, scripts))


def main() -> None:
    """Alternate the arms and print each pair and the ratio."""
    given = parsed(arguments(__doc__.split("\n")[0] if __doc__ else ""), **SMALL)
    compare("postgres", {}, by_hand, given.scale, given.pairs)


if __name__ == "__main__":
    main()
