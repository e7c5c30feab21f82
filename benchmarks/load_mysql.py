"""Loading TPC-H into MySQL or MariaDB: the harness against a hand-written parallel load.

    .venv/bin/python benchmarks/load_mysql.py --engine mysql --scale 1 --pairs 3

Both arms have the same settings while they load (large buffer pool, no doublewrite, no
flush at commit, threads and memory for building indexes, no redo log where MySQL can do
without one), the server reads the same CSV files itself, and both end with the same keys,
indexes, foreign keys and statistics, cleanly shut down, on the device, restarted. The
hand-written arm is what a good administrator would write: tables with their primary keys,
one LOAD DATA per file, as many at a time as there are processors, the largest table first
and its files in primary-key order, with unique and foreign-key checks off; then one ALTER
TABLE per table for all its indexes, then foreign keys, then ANALYZE TABLE, each as many
tables at a time. Statements go over plain PyMySQL: the server does all of the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pymysql
from loading import SMALL, arguments, compare
from smoke import parsed

from engines._innodb.load import loading_settings
from harness.sql_files import statements

_INDEXES = (
    "ALTER TABLE lineitem ADD INDEX lineitem_part_supplier (l_partkey, l_suppkey), "
    "ADD INDEX lineitem_supplier (l_suppkey)",
    "ALTER TABLE orders ADD INDEX orders_customer (o_custkey)",
    "ALTER TABLE partsupp ADD INDEX partsupp_supplier (ps_suppkey)",
    "ALTER TABLE customer ADD INDEX customer_nation (c_nationkey)",
    "ALTER TABLE supplier ADD INDEX supplier_nation (s_nationkey)",
    "ALTER TABLE nation ADD INDEX nation_region (n_regionkey)",
)


def by_hand(engine: Any, tables: dict[str, list[Path]], threads: int) -> None:
    """Statements from ``threads`` connections, in stages."""
    size = sum(path.stat().st_size for paths in tables.values() for path in paths)
    version = engine.version_tuple
    engine.restart_for_loading(loading_settings(engine.flavour, version, threads, None, size))
    folder = engine.sql_folder / "tpch"
    without_redo = engine.flavour == "mysql" and version >= (8, 0, 21)
    if without_redo:
        run(engine, ["ALTER INSTANCE DISABLE INNODB REDO_LOG"])
    run(engine, [*statements(folder, "10_tables"), *statements(folder, "20_keys")])
    at_a_time(engine, [_load(t, path) for t, paths in tables.items() for path in paths], threads)
    at_a_time(engine, _INDEXES, threads)
    at_a_time(engine, statements(folder, "40_foreign_keys"), 1)
    at_a_time(engine, statements(folder, f"50_analyze_{engine.flavour}"), threads)
    if without_redo:
        run(engine, ["ALTER INSTANCE ENABLE INNODB REDO_LOG"])
    engine.restart_for_use()


def _load(table: str, path: Path) -> str:
    return (
        f"LOAD DATA INFILE '{path}' INTO TABLE {table} CHARACTER SET utf8mb4 "
        "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '' "
        r"LINES TERMINATED BY '\n' IGNORE 1 LINES"
    )


def run(engine: Any, texts: Sequence[str]) -> None:
    """One after the other, on a connection of their own."""
    raw = engine._open()
    plain = pymysql.connect(
        unix_socket=raw.unix_socket, user=raw.user, password=raw.password, database=raw.db,
        autocommit=True, ssl_disabled=True,
        init_command="SET unique_checks = 0, foreign_key_checks = 0",
    )  # fmt: skip
    raw.close()
    with plain, plain.cursor() as cursor:
        for text in texts:
            cursor.execute(text)


def at_a_time(engine: Any, texts: Sequence[str], threads: int) -> None:
    """Run the statements, ``threads`` of them at any time."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda text: run(engine, [text]), texts))


def main() -> None:
    """Alternate the arms and print each pair and the ratio."""
    parser = arguments(__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--engine", choices=("mysql", "mariadb"), default="mysql")
    parser.add_argument("--version", help="release to run of those found")
    given = parsed(parser, **SMALL, engine="mariadb")
    options = {"version": given.version} if given.version else {}
    compare(given.engine, options, by_hand, given.scale, given.pairs)


if __name__ == "__main__":
    main()
