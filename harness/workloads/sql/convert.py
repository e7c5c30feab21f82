"""A process that rewrites a user's CSV and Parquet files for an engine's loader.

The files are another's: they are parsed as the servers' user, which the process becomes before it
opens one. Values of CSV files stay texts, so that the engine alone reads them as its types. What
is written as CSV has every text in quotes, and NULL without.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import duckdb

from harness import jsonfile
from harness.supervise import linux

#: Of what is written; DuckDB alone reads the Parquet.
_OPTIONS = {
    "csv": "FORMAT csv, HEADER, DELIMITER ',', QUOTE '\"', ESCAPE '\"', NULLSTR 'NULL', "
    "FORCE_QUOTE *",
    "parquet": "FORMAT parquet",
}


#: Of a column that a server would store as other characters: nobody says which are meant.
_REWRITE = (
    "which a text cannot stand for: write it as text first, COPY (SELECT * REPLACE (decode(name) "
    "AS name) FROM 'old.parquet') TO 'new.parquet', or to_json(name) of a list or structure"
)


def main() -> int:
    """Convert ``files``: [source, target] pairs of the request on stdin, a line for each done."""
    request: dict[str, Any] = jsonfile.parse(sys.stdin.read())
    if request["user"] is not None:
        user, group = request["user"]
        linux.become(user, group, [group])
    connection = duckdb.connect(config={"temp_directory": request["folder"]})
    connection.execute("SET TimeZone = 'UTC'")  # not the host's, for moments that become texts
    for source, target in request["files"]:
        try:
            convert(connection, Path(source), Path(target))
        except (OSError, UnicodeDecodeError, csv.Error, duckdb.Error) as error:
            print(json.dumps({"error": str(error)}), flush=True)
            return 1
        print(json.dumps({"done": source}), flush=True)
    return 0


def convert(connection: duckdb.DuckDBPyConnection, source: Path, target: Path) -> None:
    """Write the rows of ``source`` to ``target``; the extensions say in which formats."""
    rows = _csv(source) if source.suffix == ".csv" else f"read_parquet({_text(source)})"
    chosen = "*"
    if target.suffix == ".csv":  # PostgreSQL reads 1 as true, and the others have no other word
        columns = connection.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()
        for name, kind, *_ in columns:
            if kind == "BLOB" or kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION")):
                raise csv.Error(f"column {name} is {kind}, {_REWRITE}")
        truths = [_name(name) for name, kind, *_ in columns if kind == "BOOLEAN"]
        replaced = ", ".join(f"CAST({name} AS INTEGER) AS {name}" for name in truths)
        chosen = f"* REPLACE ({replaced})" if truths else "*"
    options = _OPTIONS[target.suffix[1:]]
    connection.execute(f"COPY (SELECT {chosen} FROM {rows}) TO {_text(target)} ({options})")


def _csv(source: Path) -> str:
    with source.open(encoding="utf-8", newline="") as stream:
        names = next(csv.reader([stream.readline().removeprefix("\ufeff")]), [])
    if not names or len(set(map(str.lower, names))) < len(names) or not all(names):
        raise csv.Error("its first line does not name each column once")
    columns = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in names)
    return (
        f"read_csv({_text(source)}, columns = {{{columns}}}, auto_detect = false, header = true, "
        "delim = ',', quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false, "
        "max_line_size = 67108864)"
    )


def _text(value: str | Path) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _name(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


if __name__ == "__main__":
    sys.exit(main())
